//! The log on the chip: the page being filled, in RAM, and the blocks to which pages go.

use super::blocks::Blocks;
use super::chunk::{Chunk, HEAD_BYTES, Held, LENGTH_AT, Place, chunk_bytes, is_whole, mark_with, seal};
use crate::blocks::mark_bad;
use crate::check::{IndexError, Invariant};
use crate::codec::{get_u32, is_blank, put_u16};
use crate::nand::{Cause, Geometry, Nand, NandError, Reading, is_done, read_again_at};
use crate::units::{Pbn, Ppn};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// A value is cut at the end of a page, unless less than this part of the page is left: 1/16.
pub(super) const CUT_SHARE: usize = 16;

/// Part of a page that is compared at once, in bytes.
const PART_BYTES: usize = 256;

/// Function that makes the index durable.
type Sync<'a> = &'a mut dyn FnMut() -> Result<(), IndexError>;

/// A chunk in the page being filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InTail {
    pub(super) at: u16,
    pub(super) bytes: u16,
}

#[derive(Debug)]
pub(super) struct Log<N> {
    pub(super) nand: N,
    pub(super) geometry: Geometry,
    pub(super) blocks: Blocks,
    /// Next page of the block being filled.
    next: u32,
    /// The page being filled. `used` is the number of its bytes in use.
    tail: Vec<u8>,
    pub(super) used: usize,
    /// The page or chunk read last. `loaded` is the page if it is a whole one.
    page: Vec<u8>,
    loaded: Option<Ppn>,
    pub(super) programs_failed: u64,
}

impl<N: Nand> Log<N> {
    pub(super) fn new(mut nand: N) -> Result<Log<N>, IndexError> {
        let geometry = nand.geometry();
        let mut blocks = Blocks::new(geometry);
        for block in (0..geometry.blocks).map(Pbn) {
            if nand.is_bad(block)? {
                blocks.bad(block);
            }
        }
        let page = vec![0xff; geometry.page_bytes as usize];
        let (tail, loaded) = (page.clone(), None);
        Ok(Log { nand, geometry, blocks, next: 0, tail, used: 0, page, loaded, programs_failed: 0 })
    }

    pub(super) fn page_bytes(&self) -> usize {
        self.tail.len()
    }

    /// Decodes the index value of a key.
    pub(super) fn decode<'a>(&self, key: &[u8], held: &'a [u8]) -> Result<Held<'a>, IndexError> {
        Held::decode(held, self.tail.len().saturating_sub(HEAD_BYTES + key.len()))
    }

    pub(super) const fn block_bytes(&self) -> u32 {
        self.geometry.page_bytes * self.geometry.pages_per_block
    }

    /// Number of pages that the block being filled still takes.
    pub(super) fn pages_left(&self) -> u32 {
        if self.blocks.open.is_some() { self.geometry.pages_per_block - self.next } else { 0 }
    }

    /// Number of bytes, of `bytes` of a value, that the page being filled takes: for a new chunk with a key
    /// of `key` bytes, or else for the last chunk. `None` if the page must be written first.
    pub(super) fn takes(&self, key: Option<usize>, bytes: usize) -> Option<usize> {
        let head = key.map_or(0, |key| HEAD_BYTES + key);
        let left = (self.tail.len() - self.used).checked_sub(head)?;
        let most = bytes.min(left);
        let is_cut_short = most < bytes && left < self.tail.len() / CUT_SHARE;
        (most > 0 && (!is_cut_short || key.is_none())).then_some(most)
    }

    /// Begins a chunk in the page being filled, which must have room for it.
    pub(super) fn begin_chunk(&mut self, key: &[u8], number: u16) -> InTail {
        let (at, chunk) = (self.used, Chunk { number, key, value: &[] });
        chunk.write(&mut self.tail[at..]);
        self.used += chunk.bytes();
        InTail { at: at as u16, bytes: 0 }
    }

    /// Adds bytes to the last chunk of the page being filled: the first ones of `value`, or else those of the
    /// chunk read last, from place `from` on.
    pub(super) fn extend_chunk(
        &mut self,
        chunk: InTail,
        value: Option<&[u8]>,
        from: usize,
        bytes: usize,
    ) -> InTail {
        let source = value.map_or(&self.page[from..from + bytes], |value| &value[..bytes]);
        self.tail[self.used..self.used + bytes].copy_from_slice(source);
        self.used += bytes;
        let bytes = chunk.bytes + bytes as u16;
        put_u16(&mut self.tail, usize::from(chunk.at) + LENGTH_AT, bytes);
        InTail { bytes, ..chunk }
    }

    /// Bytes of a chunk's value in the page being filled.
    pub(super) fn in_tail(&self, key: usize, chunk: InTail) -> &[u8] {
        &self.tail[usize::from(chunk.at) + HEAD_BYTES + key..][..chunk.bytes.into()]
    }

    /// Programs the page being filled, in another block if a program fails, and begins the next page.
    pub(super) fn program(&mut self, cause: Cause, sync: Sync<'_>) -> Result<Ppn, IndexError> {
        loop {
            let (block, page) = match self.blocks.open {
                Some(block) => (block, self.next),
                None => self.open_block(cause, sync)?,
            };
            let ppn = self.geometry.page_at(block, page);
            seal(&mut self.tail[..self.used], ppn);
            // Whatever fails, no page of this block is programmed again.
            self.blocks.open = None;
            let outcome = self.nand.program(ppn, cause, &self.tail[..self.used], &[]);
            let was_torn = self.blocks.is_resumed && self.was_torn((ppn, cause), outcome)?;
            if was_torn || is_done(outcome)? {
                self.next = page + 1;
                if self.next < self.geometry.pages_per_block {
                    self.blocks.open = Some(block);
                }
                if was_torn {
                    continue;
                }
                self.used = 0;
                return Ok(ppn);
            }
            self.programs_failed += 1;
            self.blocks.failed(block);
        }
    }

    /// Error for a value that finds no room.
    pub(super) fn no_room(&self) -> IndexError {
        let good = self.blocks.good();
        if good < self.geometry.blocks && good <= Blocks::KEPT {
            IndexError::WornOut
        } else {
            IndexError::NO_BLOCK
        }
    }

    /// True if a page read as erased after it was torn: it refuses a program, or is not what was programmed.
    fn was_torn(
        &mut self,
        (ppn, cause): (Ppn, Cause),
        outcome: Result<(), NandError>,
    ) -> Result<bool, IndexError> {
        match outcome {
            Err(NandError::NotErased(_)) => Ok(true),
            Ok(()) => Ok(!self.reads_as((ppn, cause), self.used)?),
            Err(_) => Ok(false),
        }
    }

    /// True if a page holds this many bytes of the page being filled, and is erased behind them. The buffer
    /// of the page read last may be needed still.
    fn reads_as(&mut self, (ppn, cause): (Ppn, Cause), bytes: usize) -> Result<bool, IndexError> {
        let (expected, mut part) = (&self.tail[..bytes], [0; PART_BYTES]);
        for at in (0..self.tail.len()).step_by(PART_BYTES) {
            let part = &mut part[..PART_BYTES.min(self.tail.len() - at)];
            let is_it = |read: &[u8]| {
                let (written, erased) = read.split_at(bytes.saturating_sub(at).min(read.len()));
                is_blank(erased) && expected.get(at..).is_none_or(|rest| rest.starts_with(written))
            };
            match read_again_at(&mut self.nand, (ppn, cause, at as u32), part, is_it) {
                Ok(Reading::Broken) | Err(NandError::Uncorrectable(_)) => return Ok(false),
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }

    /// Finds a block that was left half filled, and the page from which it is filled further. The first page
    /// that reads as erased may be the one that was being programmed, and is passed over.
    fn resumed(&mut self, cause: Cause) -> Result<Option<(Pbn, u32)>, IndexError> {
        let pages = self.geometry.pages_per_block;
        while let Some(block) = self.blocks.take_unfinished() {
            let mut end = pages;
            while end > 0 && self.reads_as((self.geometry.page_at(block, end - 1), cause), 0)? {
                end -= 1;
            }
            if end + 1 < pages {
                self.blocks.resume(block);
                self.leave_buffer(block);
                return Ok(Some((block, end + 1)));
            }
        }
        Ok(None)
    }

    /// Forgets the page read last if its block is written to.
    fn leave_buffer(&mut self, block: Pbn) {
        if self.loaded.is_some_and(|page| self.geometry.block_of(page) == block) {
            self.loaded = None;
        }
    }

    /// Opens a block, and tells the page from which it is filled: an empty one, which is erased, or one that
    /// was left half filled if there is no more than one empty block. If the index on the chip may name
    /// chunks in all empty ones, the index is synced first.
    fn open_block(&mut self, cause: Cause, sync: Sync<'_>) -> Result<(Pbn, u32), IndexError> {
        if self.blocks.empty() <= 1
            && let Some(resumed) = self.resumed(cause)?
        {
            return Ok(resumed);
        }
        loop {
            let Some(block) = self.blocks.take_empty() else {
                if self.blocks.empty() == 0 {
                    return Err(self.no_room());
                }
                sync()?;
                self.blocks.synced();
                continue;
            };
            self.leave_buffer(block);
            let erased = if self.blocks.is_failing(block) {
                Err(NandError::EraseFailed(block))
            } else {
                self.nand.erase(block, cause)
            };
            match erased {
                Ok(()) => return Ok((block, 0)),
                Err(NandError::EraseFailed(_) | NandError::BadBlock(_)) => {
                    mark_bad(&mut self.nand, block)?;
                    self.blocks.bad(block);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Reads a whole page. False if it cannot be read.
    pub(super) fn load(&mut self, ppn: Ppn, cause: Cause) -> Result<bool, IndexError> {
        if self.loaded == Some(ppn) {
            return Ok(true);
        }
        self.loaded = None;
        let read =
            read_again_at(&mut self.nand, (ppn, cause, 0), &mut self.page, |page| is_page_whole(page, ppn));
        match read {
            Ok(Reading::Weak) => self.blocks.weak(self.geometry.block_of(ppn)),
            // In a torn or a damaged page each chunk is checked for itself.
            Ok(Reading::Whole | Reading::Corrected | Reading::Broken) => {}
            Err(NandError::Uncorrectable(_)) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        self.loaded = Some(ppn);
        Ok(true)
    }

    /// Chunk at a place of the page read last, and whether it is whole.
    pub(super) fn chunk(&self, ppn: Ppn, at: usize) -> Option<(Chunk<'_>, bool)> {
        let chunk = Chunk::parse(&self.page[at..])?;
        Some((chunk, is_whole(&self.page[at..at + chunk.bytes()], ppn)))
    }

    /// True if the page read last is erased.
    pub(super) fn is_erased(&self) -> bool {
        is_blank(&self.page)
    }

    /// True if a place lies in the log.
    pub(super) fn has(&self, place: Place, key: usize) -> bool {
        place.page.0 < self.geometry.pages()
            && usize::from(place.at) + chunk_bytes(key, place.bytes.into()) <= self.page.len()
    }

    /// Returns the value bytes of a chunk. Only the chunk is read, unless its page is in the buffer.
    pub(super) fn read(
        &mut self,
        part: (&[u8], u16),
        place: Place,
        cause: Cause,
    ) -> Result<&[u8], IndexError> {
        let bytes = self.find(part, place, cause)?;
        Ok(&self.page[bytes])
    }

    /// Mark of a value with the chunk that was found last.
    pub(super) fn mark_found(&self, mark: u32, place: Place) -> u32 {
        mark_with(mark, get_u32(&self.page, place.at.into()))
    }

    /// Extends the mark of a value by the checksum of `chunk`, a chunk of the page that was programmed last.
    pub(super) fn mark_programmed(&self, mark: u32, chunk: InTail) -> u32 {
        mark_with(mark, get_u32(&self.tail, chunk.at.into()))
    }

    /// Reads a chunk, and returns the place of its value bytes in the read buffer.
    pub(super) fn find(
        &mut self,
        (key, number): (&[u8], u16),
        place: Place,
        cause: Cause,
    ) -> Result<Range<usize>, IndexError> {
        let Place { page, at, .. } = place;
        let bytes = chunk_bytes(key.len(), place.bytes.into());
        if !self.has(place, key.len()) {
            return Err(lost(Invariant::V1, "a value lies outside its log", page));
        }
        let range = usize::from(at)..usize::from(at) + bytes;
        let is_it = |chunk: &[u8]| {
            is_whole(chunk, page)
                && Chunk::parse(chunk).is_some_and(|chunk| (chunk.key, chunk.number) == (key, number))
        };
        if self.loaded != Some(page) || !is_it(&self.page[range.clone()]) {
            self.loaded = None;
            let from = (page, cause, u32::from(at));
            match read_again_at(&mut self.nand, from, &mut self.page[range.clone()], is_it)? {
                Reading::Whole | Reading::Corrected => {}
                Reading::Weak => self.blocks.weak(self.geometry.block_of(page)),
                Reading::Broken => return Err(lost(Invariant::V2, "a chunk of a value is not whole", page)),
            }
        }
        Ok(range.start + HEAD_BYTES + key.len()..range.end)
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.tail.capacity() + self.page.capacity() + self.blocks.ram_bytes() + self.nand.ram_bytes()
    }
}

/// True if a page holds whole chunks, and only 0xFF after the last one.
fn is_page_whole(mut page: &[u8], ppn: Ppn) -> bool {
    while let Some(bytes) = Chunk::parse(page).map(|chunk| chunk.bytes()) {
        if !is_whole(&page[..bytes], ppn) {
            return false;
        }
        page = &page[bytes..];
    }
    is_blank(page)
}

#[cold]
fn lost(invariant: Invariant, what: &'static str, page: Ppn) -> IndexError {
    IndexError::broken(invariant, what, page.0.into())
}

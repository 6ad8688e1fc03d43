//! The chip as the tree sees it: pages are read, verified by their tags, and programmed from one buffer.
//!
//! On a chip that tears no pages, a page that is not whole is damaged.

use super::cache::{AT_HAND, ReadCache};
use super::form::Form;
use super::image::Node;
use super::layout::{Head, IplTag, PageKind, groups, records};
use alloc::vec;
use alloc::vec::Vec;
use nandex::blocks::checkpoint::is_of_checkpoint;
use nandex::blocks::weak::WeakBlock;
use nandex::check::{IndexError, Invariant};
use nandex::codec::crc32;
use nandex::nand::{Cause, Nand, NandError, Reading, read_again};
use nandex::units::{Pbn, Ppn};

/// Pages at the start of a block that are examined for a tag, and those of its log region. A block without a
/// tag there holds nothing. More than one page is tried, so that a damaged page does not hide the block and
/// bring back older versions of its nodes.
const FIRST_PAGES: u32 = 4;
/// Erased pages at the start of a block, and of its log region, that show that it holds nothing: a block has
/// an image on its first page, and log units or a further one soon.
const BLANK_PAGES: [u32; 2] = [2, 1];

/// Counts of pages read, without those of checks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReadCounts {
    pub(super) cache_hits: u64,
    pub(super) cache_misses: u64,
    pub(super) log_units: u64,
}

/// The chip, and the cached pages.
pub(super) struct Medium<N> {
    pub(super) nand: N,
    pub(super) form: Form,
    pub(super) cache: ReadCache,
    /// The page at hand, while one node is read.
    pub(super) at_hand: Option<Ppn>,
    /// Block of a page that was hard to read. The next operation that writes merges it.
    pub(super) weak: WeakBlock,
    /// Number of nodes that the round of scrubbing has passed.
    pub(super) scrubbed: u32,
    pub(super) page: Vec<u8>,
    pub(super) spare: Vec<u8>,
    pub(super) counts: ReadCounts,
}

/// Data of a page, and the bytes of its tag.
type Page<'a> = (&'a [u8], &'a [u8]);

pub(super) fn corrupted(invariant: Invariant, what: &'static str, at: Ppn) -> IndexError {
    IndexError::broken(invariant, what, u64::from(at.0))
}

fn unreadable(ppn: Ppn) -> IndexError {
    IndexError::corrupted("the page cannot be read", ppn.0.into())
}

pub(super) fn is_all(bytes: &[u8], byte: u8) -> bool {
    bytes.iter().all(|&found| found == byte)
}

/// Whether every unit of a page is whole or blank.
fn has_whole_units(page: &[u8], unit_bytes: usize) -> bool {
    page.chunks_exact(unit_bytes).all(|unit| Head::decode(unit).is_some() || is_all(unit, 0xff))
}

/// True if a page agrees with its tag: it is at its place and is a whole image or whole units.
fn is_whole(form: &Form, ppn: Ppn, data: &[u8], spare: &[u8]) -> bool {
    IplTag::decode(spare).is_some_and(|tag| {
        u32::from(tag.page) == form.geometry.page_in_block(ppn)
            && match tag.kind {
                PageKind::Data => crc32(&[data]) == tag.data_crc,
                PageKind::Log => has_whole_units(data, form.format.unit_bytes),
            }
    })
}

/// Methods for reading.
impl<N: Nand> Medium<N> {
    /// A chip of which no page is in RAM.
    pub(super) fn new(nand: N, form: Form) -> Medium<N> {
        let page_bytes = form.geometry.page_bytes as usize;
        Medium {
            nand,
            form,
            cache: ReadCache::new(0, page_bytes),
            at_hand: None,
            weak: WeakBlock::default(),
            scrubbed: 0,
            page: vec![0xff; page_bytes],
            spare: vec![0xff; form.geometry.spare_bytes as usize],
            counts: ReadCounts::default(),
        }
    }

    /// Replaces the cache by an empty one with `frames` frames.
    pub(super) fn set_frames(&mut self, frames: usize) {
        self.cache = ReadCache::new(frames, self.form.geometry.page_bytes as usize);
        self.at_hand = None;
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.nand.ram_bytes() + self.cache.ram_bytes() + self.page.capacity() + self.spare.capacity()
    }

    /// Notes how a page was read: the block of a weak one is merged by the next operation that writes.
    fn note_reading(&mut self, ppn: Ppn, reading: Reading) {
        self.weak.note(ppn, reading, ppn.0..ppn.0 + 1);
    }

    /// Reads a page and verifies it: its data, and the bytes of its tag.
    pub(super) fn read(&mut self, ppn: Ppn, cause: Cause) -> Result<Page<'_>, IndexError> {
        let frame = self.frame(ppn, cause)?;
        Ok(self.cache.page(frame))
    }

    /// Reads the page of a unit: the unit, and the bytes of the page's tag.
    pub(super) fn read_unit(&mut self, pbn: Pbn, unit: u16, cause: Cause) -> Result<Page<'_>, IndexError> {
        let bytes = self.form.bytes_of(unit);
        let (data, spare) = self.read(self.form.unit_page(pbn, unit), cause)?;
        Ok((&data[bytes], spare))
    }

    fn frame(&mut self, ppn: Ppn, cause: Cause) -> Result<usize, IndexError> {
        if self.at_hand == Some(ppn) {
            return Ok(AT_HAND);
        }
        if cause != Cause::Check {
            if let Some(frame) = self.cache.find(ppn) {
                self.counts.cache_hits += 1;
                return Ok(frame);
            }
            self.counts.cache_misses += 1;
        }
        let frame = if cause == Cause::Check { AT_HAND } else { self.cache.admit(ppn) };
        let (data, spare) = self.cache.page_mut(frame);
        let reading = read_again(&mut self.nand, (ppn, cause), data, spare, |data, spare| {
            is_whole(&self.form, ppn, data, spare)
        });
        let result = match reading {
            Err(NandError::Uncorrectable(_)) => Err(unreadable(ppn)),
            Err(error) => Err(error.into()),
            Ok(Reading::Whole | Reading::Corrected | Reading::Weak) => Ok(frame),
            Ok(Reading::Broken) => match IplTag::decode(spare) {
                Some(tag) if u32::from(tag.page) != self.form.geometry.page_in_block(ppn) => {
                    Err(corrupted(Invariant::I4, "a page of another place", ppn))
                }
                Some(tag) if tag.kind == PageKind::Data => {
                    Err(corrupted(Invariant::I4, "an image's checksum does not match", ppn))
                }
                // One of its sectors may be torn, and another one wanted.
                Some(_) => Ok(frame),
                None => Err(corrupted(Invariant::I4, "a page's tag does not match", ppn)),
            },
        };
        if let Ok(reading) = reading {
            self.note_reading(ppn, reading);
        }
        self.at_hand = (frame == AT_HAND && result.is_ok()).then_some(ppn);
        if result.is_err() {
            self.cache.forget(ppn);
        }
        result
    }
}

/// Methods that read pages of unknown contents.
impl<N: Nand> Medium<N> {
    pub(super) fn read_spare(&mut self, ppn: Ppn) -> Result<Option<IplTag>, IndexError> {
        let is_whole = |_: &[u8], spare: &[u8]| IplTag::decode(spare).is_some() || is_all(spare, 0xff);
        let read = read_again(&mut self.nand, (ppn, Cause::Recovery), &mut [], &mut self.spare, is_whole);
        let (tag, is_zero) = (IplTag::decode(&self.spare), is_all(&self.spare, 0));
        match read {
            Ok(_) if is_zero => Err(corrupted(Invariant::I4, "a page reads as zeros", ppn)),
            Ok(_) if tag.is_some_and(|tag| u32::from(tag.page) != self.form.geometry.page_in_block(ppn)) => {
                Err(corrupted(Invariant::I4, "a page of another place", ppn))
            }
            Ok(Reading::Broken) if !self.nand.tears() => self.require_checkpoint(ppn),
            Ok(_) => Ok(tag),
            Err(NandError::Uncorrectable(_)) if self.nand.tears() => {
                self.spare.fill(0);
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Reads the tag of a page: from its spare area, or (`whole`) together with the data into the page
    /// buffer. The flag is true if the data are in the page buffer.
    pub(super) fn read_page(&mut self, ppn: Ppn, whole: bool) -> Result<(Option<IplTag>, bool), IndexError> {
        if whole && self.read_whole(ppn)? {
            return Ok((IplTag::decode(&self.spare), true));
        }
        // Whatever is wrong with the page, this will say so.
        Ok((self.read_spare(ppn)?, false))
    }

    /// Reads a page and its spare area. Returns false unless both are sound.
    fn read_whole(&mut self, ppn: Ppn) -> Result<bool, IndexError> {
        let (page, unit_bytes) = (self.form.geometry.page_in_block(ppn), self.form.format.unit_bytes);
        let is_whole = |data: &[u8], spare: &[u8]| match IplTag::decode(spare) {
            Some(tag) if u32::from(tag.page) != page => false,
            Some(tag) => tag.kind == PageKind::Data || has_whole_units(data, unit_bytes),
            None => is_all(spare, 0xff),
        };
        let place = (ppn, Cause::Recovery);
        match read_again(&mut self.nand, place, &mut self.page, &mut self.spare, is_whole) {
            Ok(Reading::Broken) | Err(NandError::Uncorrectable(_)) => Ok(false),
            Ok(reading) => {
                if IplTag::decode(&self.spare).is_some_and(|tag| tag.kind == PageKind::Log) {
                    self.note_reading(ppn, reading);
                }
                Ok(true)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Checks a page without a tag on a chip that tears no pages: it must belong to a checkpoint, or it is
    /// damaged.
    fn require_checkpoint(&mut self, ppn: Ppn) -> Result<Option<IplTag>, IndexError> {
        let mut spare = vec![0xff; self.spare.len()];
        let is_whole = |data: &[u8], spare: &[u8]| is_of_checkpoint(ppn, data, spare);
        match read_again(&mut self.nand, (ppn, Cause::Recovery), &mut self.page, &mut spare, is_whole)? {
            Reading::Broken => Err(corrupted(Invariant::I4, "a page's tag does not match", ppn)),
            Reading::Whole | Reading::Corrected | Reading::Weak => Ok(None),
        }
    }

    /// Refuses a chip with nodes in a checkpoint block. Such a block is erased before it is used for
    /// checkpoints, and an anchor block stays one for ever.
    pub(super) fn refuse_nodes_in(&mut self, pbn: Pbn) -> Result<(), IndexError> {
        let first = self.form.geometry.page_at(pbn, 0);
        match read_again(&mut self.nand, (first, Cause::Recovery), &mut [], &mut self.spare, |_, _| true) {
            Ok(_) if IplTag::decode(&self.spare).is_some() => {
                Err(corrupted(Invariant::I4, "a page of another place", first))
            }
            Ok(_) | Err(NandError::Uncorrectable(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads a page of log units whole into the page buffer; false when it cannot be read.
    pub(super) fn read_log_page(&mut self, ppn: Ppn) -> Result<bool, IndexError> {
        let unit_bytes = self.form.format.unit_bytes;
        let is_whole = |data: &[u8], _: &[u8]| has_whole_units(data, unit_bytes);
        match read_again(&mut self.nand, (ppn, Cause::Recovery), &mut self.page, &mut [], is_whole) {
            Ok(Reading::Broken) if !self.nand.tears() => {
                Err(corrupted(Invariant::I5, "a log unit does not match", ppn))
            }
            Ok(reading) => {
                self.note_reading(ppn, reading);
                Ok(true)
            }
            Err(NandError::Uncorrectable(_)) if self.nand.tears() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads a page of a store that tears no pages into the page buffer. Returns `None` if nothing was ever
    /// written there.
    pub(super) fn read_placed(&mut self, ppn: Ppn) -> Result<Option<IplTag>, IndexError> {
        let is_placed = |data: &[u8], spare: &[u8]| {
            let is_blank = is_all(spare, 0xff) && is_all(data, 0xff);
            is_blank || is_whole(&self.form, ppn, data, spare)
        };
        let place = (ppn, Cause::Recovery);
        match read_again(&mut self.nand, place, &mut self.page, &mut self.spare, is_placed) {
            Ok(Reading::Broken) => Err(corrupted(Invariant::I4, "a page does not match its tag", ppn)),
            Ok(reading) => {
                self.note_reading(ppn, reading);
                Ok(IplTag::decode(&self.spare))
            }
            Err(NandError::Uncorrectable(_)) => Err(unreadable(ppn)),
            Err(error) => Err(error.into()),
        }
    }

    /// The heads of the whole units in the page buffer, with their places in the page.
    pub(super) fn units_in_page(&self, generation: u32) -> Vec<(u16, Head)> {
        let units = self.page.chunks_exact(self.form.format.unit_bytes);
        let heads = (0u16..).zip(units).filter_map(|(i, unit)| Some((i, Head::decode(unit)?)));
        heads.filter(|(_, head)| head.generation == generation).collect()
    }

    /// First tag of a block; `None` if the block is empty. If it is known not to have been, erased pages do
    /// not show that.
    pub(super) fn first_tag(&mut self, pbn: Pbn, is_known: bool) -> Result<Option<IplTag>, IndexError> {
        let pages = self.form.geometry.pages_per_block;
        let first_log = if self.form.is_fixed() { self.form.nodes_limit() } else { pages };
        for (area, most) in [0..FIRST_PAGES.min(first_log), first_log..pages].into_iter().zip(BLANK_PAGES) {
            let mut blank = 0;
            for page in area {
                if let Some(tag) = self.read_spare(self.form.geometry.page_at(pbn, page))? {
                    return Ok(Some(tag));
                }
                blank += u32::from(is_all(&self.spare, 0xff));
                if blank == most && !is_known {
                    break;
                }
            }
        }
        Ok(None)
    }

    /// The last image of a block.
    pub(super) fn last_image_of(&mut self, pbn: Pbn) -> Result<Option<u32>, IndexError> {
        for page in (0..self.form.geometry.pages_per_block).rev() {
            let tag = self.read_spare(self.form.geometry.page_at(pbn, page))?;
            if tag.is_some_and(|tag| tag.kind == PageKind::Data) {
                return Ok(Some(page));
            }
        }
        Ok(None)
    }

    /// The highest sequence number of the records in the page buffer.
    pub(super) fn newest_in_page(&self, generation: u32) -> u64 {
        let widths = self.form.shapes.widths();
        let mut newest = 0;
        for (unit, head) in self.units_in_page(generation) {
            newest = newest.max(head.first);
            for group in groups(&self.page[self.form.bytes_of(unit)]).flatten() {
                let numbers = records(widths, head.first, group.records).flatten().map(|record| record.0);
                newest = newest.max(numbers.max().unwrap_or(0));
            }
        }
        newest
    }

    /// Reads a whole image into the page buffer. Returns whether it agrees with its tag.
    pub(super) fn is_whole_image(&mut self, ppn: Ppn) -> Result<bool, IndexError> {
        let is_whole = |data: &[u8], spare: &[u8]| {
            IplTag::decode(spare).is_some_and(|tag| tag.data_crc == crc32(&[data]))
        };
        let place = (ppn, Cause::Recovery);
        match read_again(&mut self.nand, place, &mut self.page, &mut self.spare, is_whole) {
            Ok(reading) => Ok(reading != Reading::Broken),
            Err(NandError::Uncorrectable(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// Methods for writing.
impl<N: Nand> Medium<N> {
    /// Writes a tag into the spare buffer.
    pub(super) fn set_tag(&mut self, tag: &IplTag) {
        self.spare.fill(0xff);
        tag.encode(&mut self.spare);
    }

    /// Writes the image of a node into the buffers.
    pub(super) fn set_image(&mut self, node: &Node, tag: IplTag) {
        let shape = self.form.shapes.at(node.level);
        debug_assert!(
            node.level > 0 && node.count <= shape.capacity,
            "I1: an image of {} entries at level {}",
            node.count,
            node.level
        );
        self.page.fill(0xff);
        self.page[..shape.bytes()].copy_from_slice(&node.bytes[..shape.bytes()]);
        let (level, count) = (node.level, node.count as u16);
        let data_crc = crc32(&[&self.page]);
        self.set_tag(&IplTag { level, count, node: node.id, data_crc, ..tag });
    }

    /// Makes the page buffer ready for a unit: blank, or in place with the units that the page holds.
    pub(super) fn lay_out(&mut self, ppn: Ppn, unit: u16, cause: Cause) -> Result<(), IndexError> {
        self.page.fill(0xff);
        if self.form.is_placed() && self.form.bytes_of(unit).start > 0 {
            let frame = self.frame(ppn, cause)?;
            self.page.copy_from_slice(self.cache.page(frame).0);
        }
        Ok(())
    }

    /// Programs so much of the buffers, data and spare area; false when that failed.
    pub(super) fn program(&mut self, ppn: Ppn, cause: Cause, ends: [usize; 2]) -> Result<bool, IndexError> {
        self.weak.credit.note_program();
        match self.nand.program(ppn, cause, &self.page[..ends[0]], &self.spare[..ends[1]]) {
            Ok(()) => Ok(true),
            Err(NandError::ProgramFailed(_) | NandError::BadBlock(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Programs the buffers over a page of a store.
    pub(super) fn program_over(&mut self, ppn: Ppn, cause: Cause) -> Result<(), IndexError> {
        self.cache.forget(ppn);
        self.at_hand = None;
        self.weak.credit.note_program();
        match self.nand.program(ppn, cause, &self.page, &self.spare) {
            // The store below takes no more.
            Err(NandError::ProgramFailed(_)) => Err(IndexError::WornOut),
            other => Ok(other?),
        }
    }
}

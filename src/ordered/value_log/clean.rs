//! Room for values: cleaning in small parts, and looking for pages that become hard to read.

use super::ValueLog;
use super::blocks::Blocks;
use super::chunk::{HEAD_BYTES, Place, chunk_bytes};
use super::waiting::Waiting;
use crate::check::IndexError;
use crate::fault::IndexFault;
use crate::nand::{Cause, Nand};
use crate::ordered::OrderedIndex;
use crate::units::{Pbn, Ppn};

/// Number of empty blocks, beyond those kept and wanted, below which each written page cleans as much as it
/// takes.
const AHEAD: u32 = 2;

impl<I: OrderedIndex, N: Nand> ValueLog<I, N> {
    /// Makes room for `bytes` bytes of values. The present values of these keys are given back then.
    pub(super) fn make_room(&mut self, keys: &[&[u8]], bytes: usize) -> Result<(), IndexError> {
        let head = HEAD_BYTES + self.max_key();
        let pages = bytes / (self.log.page_bytes() - head) + 1;
        let need = (bytes + (pages + keys.len()) * head) as u64;
        if self.log.blocks.live() + self.log.used as u64 + need > self.capacity() {
            self.flush()?;
            let mut before = 0;
            for key in keys {
                let places = self.places_of(key)?.unwrap_or_default();
                before +=
                    places.iter().map(|place| chunk_bytes(key.len(), place.bytes.into())).sum::<usize>();
            }
            if self.log.blocks.live() + need > self.capacity() + before as u64 {
                return Err(self.log.no_room());
            }
        }
        let beyond = (pages as u32 + 1).saturating_sub(self.log.pages_left());
        let wanted = Blocks::KEPT + beyond.div_ceil(self.log.geometry.pages_per_block);
        let mut budget = None;
        // If all pages were moved twice over, that gave no room.
        for _ in 0..2 * self.log.geometry.pages() {
            let empty = self.log.blocks.empty();
            if empty >= wanted + AHEAD && !self.log.blocks.is_urgent() {
                return Ok(());
            }
            let left = budget.get_or_insert_with(|| self.pages_to_clean(pages as u32));
            if empty >= wanted && *left == 0 {
                return Ok(());
            }
            *left = left.saturating_sub(1);
            if !self.clean_page()? {
                break;
            }
        }
        if self.log.blocks.empty() >= wanted { Ok(()) } else { Err(self.log.no_room()) }
    }

    /// Number of pages to clean for `pages` written ones, so that as many are gained.
    fn pages_to_clean(&mut self, pages: u32) -> u32 {
        let block = u64::from(self.log.block_bytes());
        let victim =
            self.log.blocks.cleaning.map(|(block, _)| block).or_else(|| self.log.blocks.victim(block as u32));
        let live = victim.map_or(0, |victim| u64::from(self.log.blocks.live_of(victim)));
        (u64::from(pages) * block).div_ceil((block - live.min(block - 1)).max(block / 32)) as u32
    }

    /// Cleans a page of a victim. False if no block would give room.
    fn clean_page(&mut self) -> Result<bool, IndexError> {
        if self.moves_in_vain {
            return Ok(false);
        }
        let block_bytes = self.log.block_bytes();
        // A block that is filled again is cleaned later.
        let open = self.log.blocks.open;
        let next = match self.log.blocks.cleaning.take().filter(|(block, _)| open != Some(*block)) {
            Some(next) => Some(next),
            None => self.log.blocks.victim(block_bytes).map(|block| (block, 0)),
        };
        let Some((block, page)) = next else {
            // The cleaned block may be empty once the index is told of the moves.
            let is_any = !self.waiting.is_empty();
            self.flush()?;
            return Ok(is_any);
        };
        if self.log.blocks.live_of(block) == 0 {
            return Ok(true);
        }
        let moved = self.move_page_from((block, page));
        self.log.blocks.cleaning = None;
        let next = moved?;
        if self.log.blocks.open == Some(block) {
            return Ok(true);
        }
        if next == self.log.geometry.pages_per_block {
            self.log.blocks.cleaned(block);
        } else {
            self.log.blocks.cleaning = Some((block, next));
        }
        Ok(true)
    }

    /// Moves the chunks of the next page that is not erased. Returns the number of the page behind it. Others
    /// may follow an erased one, which was passed over.
    fn move_page_from(&mut self, (block, mut page): (Pbn, u32)) -> Result<u32, IndexError> {
        // The moved chunks must not go to the end of the same block.
        self.log.blocks.cleaning = Some((block, page));
        let pages = self.log.geometry.pages_per_block;
        let mut is_moved = false;
        while page < pages && !is_moved {
            is_moved = self.move_page(self.log.geometry.page_at(block, page))?;
            page += 1;
        }
        Ok(page)
    }

    /// Moves the chunks of a page that the index still names. False if the page is erased.
    fn move_page(&mut self, ppn: Ppn) -> Result<bool, IndexError> {
        let mut at = 0;
        loop {
            // Moving values may have read other pages meanwhile.
            if !self.log.load(ppn, Cause::GarbageCollection)? {
                return Ok(true);
            }
            if at == 0 && self.log.is_erased() {
                return Ok(false);
            }
            let Some((chunk, is_whole)) = self.log.chunk(ppn, at) else { return Ok(true) };
            let (bytes, key) = (chunk.bytes(), chunk.key.to_vec());
            let place = Place { page: ppn, at: at as u16, bytes: chunk.value.len() as u16 };
            // A waiting value lies elsewhere already.
            if is_whole
                && key.len() <= self.max_key()
                && !self.waiting.iter().any(|waiting| *waiting.key == *key)
            {
                let is_here = self.places_of(&key)?.is_some_and(|places| places.contains(&place));
                if is_here {
                    let held = self.held.clone();
                    self.move_value(&key, &held)?;
                }
            }
            at += bytes;
        }
    }

    /// Appends a value again. A value that cannot be read stays where it is, so that a later read reports the
    /// error.
    fn move_value(&mut self, key: &[u8], held: &[u8]) -> Result<(), IndexError> {
        let (mut value, cause) = (Waiting::new(key, true), Cause::GarbageCollection);
        let (held, mut mark) = (self.log.decode(key, held)?, 0);
        for (number, place) in held.places().enumerate() {
            let found = match self.log.find((key, number as u16), place, cause).map_err(IndexFault::from) {
                Err(fault) if fault.is_loss() => {
                    value.give_up(&mut self.log);
                    return Ok(());
                }
                found => found?,
            };
            mark = self.log.mark_found(mark, place);
            let (mut from, end) = (found.start, found.end);
            while from < end {
                match value.append(&mut self.log, None, (from, end - from)) {
                    Some(taken) => from += taken,
                    None => value = self.write_tail_with(value, cause)?,
                }
            }
        }
        if !held.is_of(mark) {
            value.give_up(&mut self.log);
            return Ok(());
        }
        value.is_whole = true;
        self.moved += 1;
        self.waiting.push(value);
        Ok(())
    }

    /// Does work of later changes ahead of time, for about `budget` pages: maintains the index, and cleans
    /// blocks of which less than half is live. Returns about the number of pages of such work that are left.
    pub fn maintain(&mut self, budget: u32) -> Result<u32, IndexError> {
        let mut left = self.index.index_mut().maintain(budget)?;
        let half = self.log.block_bytes() / 2;
        for _ in 0..budget {
            let is_worth_it = self.log.blocks.cleaning.is_some()
                || self.log.blocks.is_urgent()
                || self.log.blocks.emptiest().is_some_and(|live| live < half);
            if !is_worth_it || !self.clean_ahead()? {
                return Ok(left);
            }
        }
        left += self.log.blocks.below(half) * self.log.geometry.pages_per_block;
        Ok(left)
    }

    /// Looks for pages that become hard to read, in the index and the log. It reads about `budget` pages of
    /// each from where the last call ended, and empties the blocks of weak ones. Returns about the number of
    /// pages left of the round; 0 at its end.
    pub fn scrub(&mut self, budget: u32) -> Result<u32, IndexError> {
        let left = self.index.index_mut().scrub(budget)?;
        let (geometry, end) = (self.log.geometry, self.log.geometry.pages());
        let stop = self.scrubbed.saturating_add(budget).min(end);
        while self.scrubbed < stop {
            let ppn = Ppn(self.scrubbed);
            let block: Pbn = geometry.block_of(ppn);
            if self.log.blocks.live_of(block) == 0 {
                self.scrubbed = (block.0 + 1) * geometry.pages_per_block;
                continue;
            }
            // A page that cannot be read is reported to whoever asks for it.
            self.log.load(ppn, Cause::Scrubbing)?;
            self.scrubbed += 1;
        }
        let rest = end.saturating_sub(self.scrubbed);
        if rest == 0 {
            self.scrubbed = 0;
        }
        while self.log.blocks.is_urgent() && self.clean_ahead()? {}
        Ok(left.max(rest))
    }

    /// Cleans a page before a change needs that. False if no block would give room, or if there is no room
    /// for the moved values.
    fn clean_ahead(&mut self) -> Result<bool, IndexError> {
        match self.clean_page() {
            Err(error) if error.is_refusal() => Ok(false),
            done => done,
        }
    }
}

//! Reads of levels: a page by its place, the page in which a key belongs, and the record of a key.

use super::fences::position;
use super::level::Place;
use super::medium::Medium;
use super::space::Stock;
use crate::check::Invariant;
use crate::fault::IndexFault;
use crate::nand::Nand;
use crate::units::Ppn;

pub(super) struct Looked {
    /// True if the key has a value.
    pub(super) found: bool,
    /// Number of levels of which a page was read. `filtered` is the number of levels that their filters ruled
    /// out.
    pub(super) read: u32,
    pub(super) filtered: u32,
}

/// Reads of levels. They change nothing but the buffers of the medium.
pub(super) struct Sight<'a, N> {
    pub(super) medium: &'a mut Medium<N>,
    pub(super) stock: &'a Stock,
}

impl<N: Nand> Sight<'_, N> {
    /// Reads a run page into the input buffer, unless it is there. A page that was hard to read is noted as
    /// weak.
    pub(super) fn load_page(&mut self, ppn: Ppn) -> Result<(), IndexFault> {
        let erases = self.stock.space.blocks.erases(self.stock.geometry.block_of(ppn));
        if self.medium.load(ppn, erases)? && self.medium.weak.is_none() {
            self.medium.weak = Some(self.stock.levels.disturbed_with(ppn));
        }
        Ok(())
    }

    /// Reads the page at a place of a level into the input buffer. Returns its number.
    pub(super) fn load_place(&mut self, level: usize, place: Place) -> Result<Ppn, IndexFault> {
        let missing = || IndexFault::broken_at(Invariant::I3, "a level has no such page", place.1 as u64);
        let ppn = self.stock.levels[level].page(place).ok_or_else(missing)?;
        self.load_page(ppn)?;
        Ok(ppn)
    }

    /// Finds the last page, in the key's part of a level, whose first key is at most `key`. The page is then
    /// in the input buffer.
    pub(super) fn seek(&mut self, level: usize, key: &[u8]) -> Result<Option<Place>, IndexFault> {
        let part = self.stock.levels[level].part_of(key);
        let found = self.stock.levels[level].run(part).guess(position(key));
        let Some((mut low, mut middle, mut high)) = found else { return Ok(None) };
        let mut back = 1;
        loop {
            self.load_place(level, (part, middle))?;
            let (begins, ends) = self.medium.spans(key)?;
            if begins {
                if middle == high || !ends {
                    return Ok(Some((part, middle)));
                }
                low = middle;
            } else if middle > low {
                high = middle - 1;
            } else if low == 0 {
                return Ok(None);
            } else {
                // The fence was rounded down: the page lies before.
                high = low - 1;
                low = low.saturating_sub(back);
                back *= 2;
            }
            middle = (low + high).div_ceil(2);
        }
    }

    /// True if a step of the next level took the record of `key` from the page in the input buffer: the page
    /// lies around that level's cursor, and the key is below the cursor.
    fn is_taken(&self, level: usize, key: &[u8]) -> Result<bool, IndexFault> {
        let Some(below) = self.stock.levels.get(level + 1) else { return Ok(false) };
        let cursor = &below.cursor[..];
        if key >= cursor {
            return Ok(false);
        }
        let view = self.medium.view()?;
        Ok(view.order(view.count() - 1, cursor).is_ge())
    }

    /// Looks a key up on the levels, from the first level down, and copies its value to `value`, if that is
    /// asked for.
    pub(super) fn look_up(&mut self, key: &[u8], value: Option<&mut [u8]>) -> Result<Looked, IndexFault> {
        let mut looked = Looked { found: false, read: 0, filtered: 0 };
        for level in 0..self.stock.levels.len() {
            if self.stock.levels.is_filtered(level, key) {
                looked.filtered += 1;
                continue;
            }
            looked.read += 1;
            if self.seek(level, key)?.is_none() {
                continue;
            }
            let (at, is_there) = self.medium.view()?.find(key);
            if !is_there || self.is_taken(level, key)? {
                continue;
            }
            let view = self.medium.view()?;
            looked.found = !view.is_tombstone(at);
            if let Some(value) = value.filter(|_| looked.found) {
                view.value(at, value);
            }
            break;
        }
        Ok(looked)
    }
}

//! Records: bases and notes, and what may be done before the next one.

use super::base::{BaseContents, NoteContents};
use super::{Flash, Mark};
use crate::fault::StoreFault;
use crate::nand::Nand;
use crate::units::{Pbn, Ppn};
use alloc::vec::Vec;

impl<N: Nand> Flash<N> {
    /// Must be called before the first program of an operation. `extra` are the scheme's own bytes, should a
    /// base be written.
    pub fn begin(&mut self, extra: impl FnOnce() -> Vec<u8>) -> Result<(), StoreFault> {
        match self.mark {
            Mark::Nothing if self.is_record_due() => self.write_note(extra),
            Mark::Nothing => Ok(()),
            Mark::Base => self.write_base(false, &extra()),
            Mark::Note => self.write_note(extra),
        }
    }

    fn is_record_due(&self) -> bool {
        self.since_record >= self.record_interval()
    }

    /// A write that failed half-way may have left a whole page of the next version: it must be in the past of
    /// the record that follows (F4), or it would pass for one that was programmed after it.
    fn leave_begun_version(&mut self) {
        if self.is_next_begun {
            self.pass_version();
        }
    }

    /// Writes a base. When it fails, the previous one still holds.
    pub(crate) fn write_base(&mut self, is_clean: bool, extra: &[u8]) -> Result<(), StoreFault> {
        self.leave_begun_version();
        let mut page = self.lend_page();
        let contents = BaseContents {
            geometry: self.geometry,
            validity: self.blocks.validity(),
            fixed: self.fixed_part(is_clean, extra.len()),
            slots: &self.slots,
            tags: &self.tags,
            lost: &self.lost,
            extra,
        };
        self.mark = Mark::Base;
        let written = self.area.write(&mut self.nand, &mut self.blocks, &contents, &mut page);
        self.return_page(page);
        written?;
        for pbn in core::mem::take(&mut self.held) {
            self.blocks.discard(pbn);
        }
        self.mark = if is_clean { Mark::Note } else { Mark::Nothing };
        self.trimmed.clear();
        self.changed.clear();
        self.since_record = 0;
        self.erases_since_base.clear();
        self.erases_since_base.resize(self.geometry.blocks as usize, 0);
        self.counters.bases += 1;
        Ok(())
    }

    /// Says what has changed since the last record, and so that something is programmed after the base.
    fn write_note(&mut self, extra: impl FnOnce() -> Vec<u8>) -> Result<(), StoreFault> {
        self.leave_begun_version();
        // Where valid pages are counted the map says which they are, and every record what the map is.
        let is_counted = self.is_counted();
        let (own, later) = if is_counted { (extra(), None) } else { (Vec::new(), Some(extra)) };
        let mut page = self.lend_page();
        let note = NoteContents {
            geometry: self.geometry,
            next_version: self.next_version,
            trimmed: &self.trimmed,
            changed: &self.changed,
            slots: &self.slots,
            tags: &self.tags,
            own: is_counted.then_some(&own),
            // On two pages: if one that says that a clean base is one no more goes bad, the other tells.
            bytes_min: if self.mark == Mark::Note { page.len() } else { 0 },
        };
        let written = self.area.write_note(&mut self.nand, &self.blocks, &note, &mut page);
        self.return_page(page);
        if !written? {
            return self.write_base(false, &later.map_or(own, |extra| extra()));
        }
        self.mark = Mark::Nothing;
        self.trimmed.clear();
        self.changed.clear();
        self.since_record = 0;
        Ok(())
    }

    /// Before a block is erased: the record that F5 asks for.
    pub(super) fn record_before_erase(
        &mut self,
        pbn: Pbn,
        extra: impl FnOnce() -> Vec<u8>,
    ) -> Result<(), StoreFault> {
        if self.mark == Mark::Base {
            self.write_base(false, &extra())
        } else if self.has_changed(pbn) {
            self.write_note(extra)
        } else {
            Ok(())
        }
    }

    /// A block is not any more what the last record says.
    pub(super) fn touch(&mut self, pbn: Pbn) {
        self.changed.set(pbn);
    }

    pub(super) fn has_changed(&self, pbn: Pbn) -> bool {
        self.changed.has(pbn)
    }

    /// Makes the trims so far survive a power cut.
    pub(crate) fn sync(&mut self, extra: impl FnOnce() -> Vec<u8>) -> Result<(), StoreFault> {
        match (self.trimmed.is_empty(), self.mark) {
            (true, _) => Ok(()),
            (false, Mark::Base) => self.write_base(false, &extra()),
            (false, _) => self.write_note(extra),
        }
    }

    /// Notes that a logical page was dropped; the scheme has invalidated it.
    pub(crate) fn note_trim(&mut self, lpn: u32, ppn: Option<Ppn>) {
        debug_assert!(lpn < self.page_count, "a page beyond the store is trimmed");
        debug_assert!(ppn.is_none_or(|ppn| !self.is_surely_valid(ppn)), "F1: a trimmed page is valid");
        if !self.trimmed.insert(lpn) {
            // Only what every block holds can tell of this one, too.
            self.mark = Mark::Base;
        }
        self.lost.remove(&lpn);
    }

    /// Whether no further trim can be remembered before the next record.
    pub(crate) fn has_many_trims(&self) -> bool {
        self.trimmed.is_full()
    }

    /// Whether the newest version of a logical page cannot be read.
    pub(crate) fn is_lost(&self, lpn: u32) -> bool {
        self.lost.contains(&lpn)
    }
}

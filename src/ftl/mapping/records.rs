//! Records: bases and notes, and the conditions under which the next one is due.

use super::base::{BaseContents, NoteContents};
use super::marks::Marks;
use super::state::State;
use super::trims::Trims;
use super::{Chip, ERASES_PER_BASE_MAX, Mark, note_pages};
use crate::blocks::checkpoint::CheckpointArea;
use crate::fault::StoreFault;
use crate::nand::{Geometry, Nand};
use crate::units::{Pbn, Ppn};
use alloc::vec::Vec;

/// Records, and the contents of the next one.
pub(crate) struct Records {
    pub(super) area: CheckpointArea,
    pub(crate) mark: Mark,
    /// True if a page of the next version was programmed, and its write is not complete.
    pub(super) is_next_begun: bool,
    /// Pages programmed since the last record.
    pub(crate) since: u32,
    /// Pages trimmed since the last record that lists trims.
    pub(super) trimmed: Trims,
    /// Blocks that changed since the last record.
    pub(super) changed: Marks,
    /// Erases of each block since the last base. The first base makes this list, so that a mount need not
    /// hold it.
    erases: Vec<u8>,
    /// Blocks to which no base may be written before there is a new one, after an unclean end (F5).
    pub(super) held: Vec<Pbn>,
}

impl Records {
    pub(super) fn new(mut area: CheckpointArea, geometry: Geometry) -> Records {
        area.be_careful(note_pages(geometry));
        Records {
            area,
            mark: Mark::Base,
            is_next_begun: false,
            since: 0,
            trimmed: Trims::for_pages_of(geometry),
            changed: Marks::none(geometry.blocks),
            erases: Vec::new(),
            held: Vec::new(),
        }
    }

    /// Notes an erase: the last record does not describe the block any more.
    pub(super) fn note_erase(&mut self, pbn: Pbn) {
        self.changed.set(pbn);
        // The list does not exist yet if a base is due anyway.
        if let Some(erases) = self.erases.get_mut(pbn.index()) {
            *erases = erases.saturating_add(1);
            if *erases >= ERASES_PER_BASE_MAX {
                self.mark = Mark::Base;
            }
        }
    }

    fn begin_anew(&mut self, mark: Mark) {
        self.mark = mark;
        self.trimmed.clear();
        self.changed.clear();
        self.since = 0;
    }

    fn write_base(
        &mut self,
        nand: &mut (impl Nand + ?Sized),
        state: &mut State,
        (is_clean, extra): (bool, &[u8]),
        page: &mut [u8],
    ) -> Result<(), StoreFault> {
        let contents = BaseContents {
            geometry: state.geometry,
            validity: state.blocks.validity(),
            fixed: state.fixed_part(is_clean, extra.len()),
            slots: &state.slots,
            tags: &state.tags,
            lost: &state.lost,
            extra,
        };
        self.mark = Mark::Base;
        self.area.write(nand, &mut state.blocks, &contents, page)?;
        for pbn in core::mem::take(&mut self.held) {
            state.blocks.discard(pbn);
        }
        self.begin_anew(if is_clean { Mark::Note } else { Mark::Nothing });
        self.erases.clear();
        self.erases.resize(state.geometry.blocks as usize, 0);
        Ok(())
    }

    /// Writes a note. False if a base must be written instead.
    fn write_note(
        &mut self,
        nand: &mut (impl Nand + ?Sized),
        state: &State,
        own: Option<&[u8]>,
        page: &mut [u8],
    ) -> Result<bool, StoreFault> {
        let note = NoteContents {
            state,
            trimmed: &self.trimmed,
            changed: &self.changed,
            own,
            // This note has two pages: if the one that voids a clean base goes bad, the other page tells.
            bytes_min: if self.mark == Mark::Note { page.len() } else { 0 },
        };
        let is_written = self.area.write_note(nand, &state.blocks, &note, page)?;
        if is_written {
            self.begin_anew(Mark::Nothing);
        }
        Ok(is_written)
    }
}

impl<N: Nand + ?Sized> Chip<N> {
    /// Prepares the chip for the first program of an operation; every operation must call it. `extra` makes
    /// the scheme's own bytes, in case a base is written.
    pub fn begin(&mut self, extra: impl FnOnce() -> Vec<u8>) -> Result<(), StoreFault> {
        match self.records.mark {
            Mark::Nothing if self.records.since >= self.state.record_interval() => self.write_note(extra),
            Mark::Nothing => Ok(()),
            Mark::Base => self.write_base(false, &extra()),
            Mark::Note => self.write_note(extra),
        }
    }

    /// Passes over a version of which a failed write may have left a whole page. It must be older than the
    /// record that follows (F4), or the page would pass for one programmed after the record.
    fn leave_begun_version(&mut self) {
        debug_assert!(!self.page.is_empty(), "the page of RAM is lent while a record is due");
        self.loaded = None;
        if self.records.is_next_begun {
            self.pass_version();
        }
    }

    /// Uses up the next version, for a page or for nothing.
    pub(super) fn pass_version(&mut self) {
        self.state.next_version += 1;
        self.records.is_next_begun = false;
    }

    /// Writes a base. If this fails, the previous one still holds.
    pub(crate) fn write_base(&mut self, is_clean: bool, extra: &[u8]) -> Result<(), StoreFault> {
        self.leave_begun_version();
        self.records.write_base(&mut self.nand, &mut self.state, (is_clean, extra), &mut self.page)?;
        self.counters.bases += 1;
        Ok(())
    }

    /// Writes a note: the changes since the last record, which also void a clean base.
    fn write_note(&mut self, extra: impl FnOnce() -> Vec<u8>) -> Result<(), StoreFault> {
        self.leave_begun_version();
        // If valid pages are counted, the map tells which these are, and every record tells the map.
        let is_counted = self.state.is_counted();
        let (own, later) = if is_counted { (extra(), None) } else { (Vec::new(), Some(extra)) };
        let said = is_counted.then_some(&own[..]);
        if self.records.write_note(&mut self.nand, &self.state, said, &mut self.page)? {
            return Ok(());
        }
        self.write_base(false, &later.map_or(own, |extra| extra()))
    }

    /// Writes the record that F5 requires before a block is erased.
    pub(super) fn record_before_erase(
        &mut self,
        pbn: Pbn,
        extra: impl FnOnce() -> Vec<u8>,
    ) -> Result<(), StoreFault> {
        if self.records.mark == Mark::Base {
            self.write_base(false, &extra())
        } else if self.records.changed.has(pbn) {
            self.write_note(extra)
        } else {
            Ok(())
        }
    }

    /// Makes the trims so far survive a power cut.
    pub(crate) fn sync(&mut self, extra: impl FnOnce() -> Vec<u8>) -> Result<(), StoreFault> {
        match (self.records.trimmed.is_empty(), self.records.mark) {
            (true, _) => Ok(()),
            (false, Mark::Base) => self.write_base(false, &extra()),
            (false, _) => self.write_note(extra),
        }
    }

    /// Notes that a logical page was trimmed, after the scheme made it invalid.
    pub(crate) fn note_trim(&mut self, lpn: u32, ppn: Option<Ppn>) {
        debug_assert!(lpn < self.state.page_count, "a page beyond the store is trimmed");
        debug_assert!(ppn.is_none_or(|ppn| !self.state.is_surely_valid(ppn)), "F1: a trimmed page is valid");
        if !self.records.trimmed.insert(lpn) {
            // Only a base, which describes every block, can tell of this trim too.
            self.records.mark = Mark::Base;
        }
        self.state.lost.remove(&lpn);
    }

    /// True if the newest version of a logical page cannot be read.
    pub(crate) fn is_lost(&self, lpn: u32) -> bool {
        self.state.lost.contains(&lpn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::BlockTable;
    use crate::ftl::dftl::Dftl;
    use crate::ftl::mapping::Scheme;
    use crate::nand::sim::SimChip;
    use crate::testing::schemes::chip;
    use alloc::vec;

    #[test]
    fn a_record_says_all_and_many_erases_ask_for_a_base() {
        let mut nand: SimChip = chip(Geometry::new(128, 16, 8, 60));
        let mut blocks = BlockTable::new(nand.geometry());
        let area = CheckpointArea::format(&mut nand, &mut blocks).unwrap();
        let mut records = Records::new(area, blocks.geometry());
        let (mut state, mut page) = (State::new(Dftl::RULES, blocks), vec![0; 128]);
        assert_eq!(records.mark, Mark::Base);
        records.write_base(&mut nand, &mut state, (true, &[]), &mut page).unwrap();
        assert_eq!(records.mark, Mark::Note);
        records.changed.set(Pbn(9));
        assert!(records.trimmed.insert(7) && records.write_note(&mut nand, &state, None, &mut page).unwrap());
        assert_eq!((records.mark, records.changed.has(Pbn(9))), (Mark::Nothing, false));
        assert!(records.trimmed.is_empty());
        for erase in 1..=ERASES_PER_BASE_MAX {
            records.note_erase(Pbn(9));
            assert_eq!(records.mark == Mark::Base, erase == ERASES_PER_BASE_MAX, "{erase} erases");
        }
    }
}

//! Records on the chip, which are checkpoints and notes: the contents of the next one, and when it is due.

use super::note::{Changes, NoteContents};
use super::settings::Limits;
use super::state::{self, State, StateContents};
use super::{Work, worn_out};
use crate::blocks::checkpoint::CheckpointArea;
use crate::fault::StoreFault;
use crate::nand::{Geometry, Nand};
use crate::units::{Lpn, Pbn};
use alloc::vec::Vec;

/// Records: their place, the changes since the last one, and when the next one must come.
pub(super) struct Records {
    area: CheckpointArea,
    /// Changes since the last record.
    pub(super) changes: Changes,
    blocks_since_checkpoint: u32,
    /// True after an unclean end: full blocks without valid pages are kept until a checkpoint is complete
    /// (P6).
    pub(super) holds_blocks: bool,
    /// True if a checkpoint must come before the next program (P5).
    pub(super) stale: bool,
    /// True if a checkpoint should come before the next write.
    due: bool,
    /// Buffer for a record, made by the first one. The store's other buffer may hold a page that is to be
    /// moved.
    page: Vec<u8>,
}

fn zeros(page: &mut Vec<u8>, bytes: usize) -> &mut [u8] {
    page.clear();
    page.reserve_exact(bytes);
    page.resize(bytes, 0);
    page
}

impl Records {
    pub(super) fn new(mut area: CheckpointArea, geometry: Geometry, limits: &Limits) -> Records {
        area.be_careful(limits.note_pages);
        Records {
            area,
            changes: Changes::none(geometry, limits.atomic_pages),
            blocks_since_checkpoint: 0,
            holds_blocks: false,
            stale: false,
            due: false,
            page: Vec::new(),
        }
    }

    /// Notes that the place of a logical page has changed since the last record.
    pub(super) fn note(&mut self, lpn: Lpn) {
        self.due |= !self.changes.note(lpn.0);
    }

    /// Notes that a block was opened.
    pub(super) fn open(&mut self, pbn: Pbn) {
        self.changes.touch(pbn);
        self.blocks_since_checkpoint += 1;
    }

    /// True if `pages` more logical pages can be noted before the next record.
    pub(super) fn takes(&self, pages: usize) -> bool {
        !self.due && self.changes.has_room_for(pages)
    }

    /// True if a checkpoint should come before the next write.
    pub(super) fn is_due(&self) -> bool {
        self.due
    }

    /// True if a note is not enough.
    fn needs_checkpoint(&self) -> bool {
        self.stale || self.due
    }

    /// True if a checkpoint comes before a write. `interval` is the number of blocks opened between two
    /// checkpoints.
    pub(super) fn wants_checkpoint(&self, interval: u32) -> bool {
        self.needs_checkpoint() || self.blocks_since_checkpoint >= interval
    }

    /// True if a record must be written before this block is freed (P6).
    pub(super) fn precedes_return_of(&self, pbn: Pbn) -> bool {
        self.changes.has_touched(pbn) || self.needs_checkpoint()
    }

    /// True if there are numbers left for records.
    pub(super) fn has_numbers(&self) -> bool {
        self.area.has_numbers()
    }

    pub(super) fn checkpoint_version(&self) -> u64 {
        self.area.version()
    }

    /// True if there is an unreadable page where a newer record might be.
    pub(super) fn is_ragged(&self) -> bool {
        self.area.is_ragged()
    }

    pub(super) fn ram_bytes(&self, state: &State) -> usize {
        let bytes = state::encoded_bytes(state.blocks.geometry(), state.map.len() as u32);
        self.area.ram_bytes(bytes) + self.changes.ram_bytes()
    }

    /// Writes a checkpoint. If it fails, the previous record still holds.
    fn write_checkpoint(
        &mut self,
        nand: &mut (impl Nand + ?Sized),
        state: &mut State,
    ) -> Result<(), StoreFault> {
        let versions = state.take_version();
        let geometry = state.blocks.geometry();
        let contents = StateContents {
            geometry,
            fixed: state.fixed_part(),
            first_crc: &state.first_crc,
            map: &state.map,
        };
        let page = zeros(&mut self.page, geometry.page_bytes as usize);
        if let Err(error) = self.area.write(nand, &mut state.blocks, &contents, page) {
            (state.next_version, state.committed) = versions;
            // The checkpoint may be complete nevertheless: nothing gets its version.
            self.due |= self.area.is_torn() || !error.is_full();
            return Err(error);
        }
        self.changes.clear();
        self.blocks_since_checkpoint = 0;
        (self.stale, self.due) = (false, false);
        Ok(())
    }

    /// Writes a note. False if a checkpoint is needed.
    fn write_note(&mut self, nand: &mut (impl Nand + ?Sized), state: &mut State) -> Result<bool, StoreFault> {
        if self.needs_checkpoint() {
            return Ok(false);
        }
        state.take_version();
        self.changes.settle();
        let geometry = state.blocks.geometry();
        let note = NoteContents {
            geometry,
            next_version: state.next_version,
            frontiers: state.frontiers,
            first_crc: &state.first_crc,
            map: &state.map,
            changes: &self.changes,
        };
        let page = zeros(&mut self.page, geometry.page_bytes as usize);
        let written = self.area.write_note(nand, &state.blocks, &note, page);
        match written {
            Ok(true) => self.changes.clear(),
            // A note that failed may be complete nevertheless: nothing gets its version.
            _ => self.due = true,
        }
        written
    }
}

impl<N: Nand + ?Sized> Work<'_, N> {
    /// Writes a checkpoint, and waits for it.
    pub(super) fn checkpoint(&mut self) -> Result<(), StoreFault> {
        self.wait_for_group()?;
        self.write_checkpoint().map_err(worn_out)?;
        self.wait()
    }

    /// Writes a checkpoint. `Full` if the chip has no block for it.
    fn write_checkpoint(&mut self) -> Result<(), StoreFault> {
        let core = &mut *self.core;
        core.records.write_checkpoint(self.nand, &mut core.state)?;
        core.counters.checkpoints += 1;
        if core::mem::take(&mut core.records.holds_blocks) {
            core.state.discard_empty(&core.doomed);
        }
        Ok(())
    }

    /// Writes a record, so that everything so far survives a power cut: a note, or a checkpoint if a note is
    /// not enough.
    pub(super) fn write_record(&mut self) -> Result<(), StoreFault> {
        let core = &mut *self.core;
        if !core.records.write_note(self.nand, &mut core.state)? {
            return self.write_checkpoint();
        }
        core.counters.notes += 1;
        Ok(())
    }

    /// Makes the pending trims survive a power cut.
    pub(super) fn persist_trims(&mut self) -> Result<(), StoreFault> {
        if self.core.records.changes.has_trims {
            self.outside_batch(Work::write_record)?;
        }
        self.wait()
    }
}

#[cfg(test)]
mod tests {
    use super::super::FtlConfig;
    use super::super::note::changes_max;
    use super::*;

    #[test]
    fn a_change_that_no_note_tells_makes_a_checkpoint_due() {
        let geometry = Geometry::new(64, 16, 4, 22);
        let limits = Limits::for_chip(geometry, &FtlConfig::default(), 22).unwrap();
        let mut records = Records::new(CheckpointArea::empty(geometry), geometry, &limits);
        records.open(Pbn(5));
        assert!(records.precedes_return_of(Pbn(5)) && !records.precedes_return_of(Pbn(6)));
        assert!(records.wants_checkpoint(1) && !records.wants_checkpoint(2));
        (0..changes_max(geometry, limits.atomic_pages)).for_each(|lpn| records.note(Lpn(lpn as u32)));
        assert!(records.takes(0) && !records.takes(1) && !records.is_due());
        records.note(Lpn(0));
        assert!(records.is_due() && !records.takes(0) && records.precedes_return_of(Pbn(6)));
    }
}

//! Rows of the table: three bytes for each block, with its use and its erases.
//!
//! While a checkpoint is written, the encoded table shows the old rows of the blocks that the checkpoint
//! takes ([`Rows::then`]): a record tells the state before it, whenever each of its pages is written.

use super::BlockState;
use alloc::vec;
use alloc::vec::Vec;

/// Largest erase count; a block with more erases keeps this number. No part is specified for a tenth of it.
pub(super) const ERASES_MAX: u32 = (1 << STATE_SHIFT) - 1;

/// Erases have 21 bits, and the use has the other three.
const STATE_SHIFT: u32 = 21;
/// Use of a block that is Free and was erased before it was taken.
const AHEAD: u32 = 6;

type Row = [u8; 3];

const fn number(row: Row) -> u32 {
    u32::from_le_bytes([row[0], row[1], row[2], 0])
}

const fn state(row: Row) -> BlockState {
    match number(row) >> STATE_SHIFT {
        0 | AHEAD => BlockState::Free,
        1 => BlockState::Unclean,
        2 => BlockState::Open,
        3 => BlockState::Full,
        4 => BlockState::Reserved,
        _ => BlockState::Bad,
    }
}

#[derive(Clone, Debug)]
pub(super) struct Rows {
    rows: Vec<Row>,
    /// While a record is being written: the old values of the rows that have changed since it was begun.
    before: Option<Vec<(u32, Row)>>,
}

impl Rows {
    /// Bytes of RAM for each block.
    pub(super) const BYTES_EACH: usize = size_of::<Row>();

    /// Bytes of RAM for the old value of a row.
    pub(super) const BEFORE_BYTES: usize = size_of::<(u32, Row)>();

    /// Rows of blocks of which nothing is known.
    pub(super) fn unclean(blocks: u32) -> Rows {
        let [low, middle, high, _] = ((BlockState::Unclean as u32) << STATE_SHIFT).to_le_bytes();
        Rows { rows: vec![[low, middle, high]; blocks as usize], before: None }
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    #[inline]
    pub(super) fn state(&self, at: usize) -> BlockState {
        state(self.rows[at])
    }

    #[inline]
    pub(super) fn set_state(&mut self, at: usize, state: BlockState) {
        self.set(at, state as u32, self.erases(at));
    }

    /// Notes that a free block was erased ahead of use. The erase is counted when the block is taken, so that
    /// it keeps its place in the order of wear.
    pub(super) fn set_ahead(&mut self, at: usize) {
        self.set(at, AHEAD, self.erases(at));
    }

    /// Clears the note that a block was erased ahead of use. Returns whether there was one.
    pub(super) fn take_ahead(&mut self, at: usize) -> bool {
        let is_ahead = number(self.rows[at]) >> STATE_SHIFT == AHEAD;
        if is_ahead {
            self.set_state(at, BlockState::Free);
        }
        is_ahead
    }

    #[inline]
    pub(super) fn erases(&self, at: usize) -> u32 {
        number(self.rows[at]) & ERASES_MAX
    }

    pub(super) fn set_erases(&mut self, at: usize, erases: u32) {
        self.set(at, number(self.rows[at]) >> STATE_SHIFT, erases.min(ERASES_MAX));
    }

    fn set(&mut self, at: usize, state: u32, erases: u32) {
        if let Some(before) = &mut self.before
            && !before.iter().any(|row| row.0 == at as u32)
        {
            before.push((at as u32, self.rows[at]));
        }
        let [low, middle, high, _] = (state << STATE_SHIFT | erases).to_le_bytes();
        self.rows[at] = [low, middle, high];
    }

    /// Begins a record, which tells the present state.
    pub(super) fn begin_record(&mut self) {
        self.before = Some(Vec::new());
    }

    /// Makes room for `rows` rows that will change before the record is written.
    pub(super) fn expect_changes(&mut self, rows: usize) {
        if let Some(before) = &mut self.before {
            before.reserve_exact(rows);
        }
    }

    /// Ends a record, whether it was written or not.
    pub(super) fn end_record(&mut self) {
        self.before = None;
    }

    /// Use and erases of a block when the record being written was begun.
    pub(super) fn then(&self, at: usize) -> (BlockState, u32) {
        let before = self.before.iter().flatten().find(|row| row.0 == at as u32);
        let row = before.map_or(self.rows[at], |row| row.1);
        (state(row), number(row) & ERASES_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn use_and_erases_do_not_touch_each_other() {
        use BlockState::{Bad, Free, Full, Open, Reserved, Unclean};
        let mut rows = Rows::unclean(3);
        assert_eq!((rows.state(1), rows.erases(1)), (Unclean, 0));
        for state in [Free, Unclean, Open, Full, Reserved, Bad] {
            rows.set_state(1, state);
            rows.set_erases(1, 0x12_3456);
            assert_eq!((rows.state(1), rows.erases(1)), (state, 0x12_3456));
        }
        rows.set_ahead(1);
        assert_eq!(rows.state(1), Free);
        assert!(rows.take_ahead(1) && !rows.take_ahead(1));
        rows.set_erases(1, u32::MAX);
        assert_eq!((rows.erases(1), rows.state(1)), (ERASES_MAX, Free));
        assert_eq!((rows.state(0), rows.state(2), rows.erases(0)), (Unclean, Unclean, 0));
    }

    #[test]
    fn a_record_says_what_was_so_when_it_was_begun() {
        let mut rows = Rows::unclean(3);
        rows.set_erases(2, 7);
        rows.begin_record();
        rows.set_state(2, BlockState::Open);
        rows.set_erases(2, 8);
        rows.set_state(2, BlockState::Reserved);
        assert_eq!((rows.state(2), rows.erases(2)), (BlockState::Reserved, 8));
        assert_eq!(rows.then(2), (BlockState::Unclean, 7));
        assert_eq!(rows.then(1), (BlockState::Unclean, 0));
        rows.end_record();
        assert_eq!(rows.then(2), (BlockState::Reserved, 8));
    }
}

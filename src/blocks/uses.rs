//! Use of each block, and its place by that use: rows and places, kept in step (T1).

use super::places::Places;
use super::rows::Rows;
use super::{BlockState, Wear};
use crate::nand::Geometry;
use crate::units::Pbn;

/// Use and wear of all blocks, and the order in which they are taken or collected. The callers give the
/// number of valid pages, for blocks that are or become full.
#[derive(Clone, Debug)]
pub(super) struct Uses {
    pub(super) rows: Rows,
    pub(super) places: Places,
}

impl Uses {
    pub(super) fn unclean(geometry: Geometry) -> Uses {
        Uses {
            rows: Rows::unclean(geometry.blocks),
            places: Places::unworn(geometry.blocks, geometry.pages_per_block),
        }
    }

    #[inline]
    pub(super) fn state(&self, pbn: Pbn) -> BlockState {
        self.rows.state(pbn.index())
    }

    #[inline]
    pub(super) fn erases(&self, pbn: Pbn) -> u32 {
        self.rows.erases(pbn.index())
    }

    pub(super) fn first_free(&self, wear: Wear) -> Option<Pbn> {
        match wear {
            Wear::Least => self.places.least_worn(),
            Wear::Most => self.places.most_worn(),
        }
    }

    pub(super) fn set_state(&mut self, pbn: Pbn, state: BlockState, valid: u32) {
        self.unlink(pbn, valid);
        self.link(pbn, state, valid);
    }

    pub(super) fn set_erases(&mut self, pbn: Pbn, erases: u32, valid: u32) {
        let state = self.state(pbn);
        self.unlink(pbn, valid);
        self.rows.set_erases(pbn.index(), erases);
        self.link(pbn, state, valid);
    }

    fn unlink(&mut self, pbn: Pbn, valid: u32) {
        let state = self.state(pbn);
        if state.is_free() {
            assert!(self.places.remove_free(&self.rows, pbn), "T1: {pbn} is missing from the pool");
        } else if state == BlockState::Full {
            self.places.remove(pbn, valid);
        }
    }

    /// Gives a use, and a place, to a block that has no place.
    pub(super) fn link(&mut self, pbn: Pbn, state: BlockState, valid: u32) {
        debug_assert!(!self.places.is_free(&self.rows, pbn), "T1: {pbn} is in the pool");
        self.rows.set_state(pbn.index(), state);
        if state.is_free() {
            self.places.add_free(&self.rows, pbn);
        } else if state == BlockState::Full {
            self.places.add(pbn, valid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_stands_where_its_use_and_its_erases_say() {
        let mut uses = Uses::unclean(Geometry::new(512, 16, 8, 5));
        let valid = 3;
        uses.set_erases(Pbn(0), 2, valid);
        assert_eq!((uses.first_free(Wear::Least), uses.first_free(Wear::Most)), (Some(Pbn(1)), Some(Pbn(0))));
        uses.set_state(Pbn(1), BlockState::Full, valid);
        uses.set_state(Pbn(2), BlockState::Open, valid);
        assert_eq!((uses.places.emptiest(), uses.places.free()), (Some(Pbn(1)), 3));
        assert_eq!(uses.places.with_valid(3).count(), 1);
        uses.set_erases(Pbn(1), 7, valid);
        uses.set_state(Pbn(1), BlockState::Unclean, valid);
        assert_eq!((uses.places.emptiest(), uses.first_free(Wear::Most)), (None, Some(Pbn(1))));
        assert_eq!((uses.state(Pbn(2)), uses.erases(Pbn(1))), (BlockState::Open, 7));
    }
}

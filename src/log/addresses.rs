//! Addresses of pages: the block of each, the held addresses, and those freed by an operation.

use super::held::Held;
use crate::blocks::BlockTable;
use crate::nand::Geometry;
use crate::units::{Pbn, Ppn};
use alloc::vec::Vec;

/// The list of replaced pages keeps RAM for at least this many.
const KEPT: usize = 16;

/// Which block answers to each address of the log, and which addresses are in use.
pub(super) struct Addresses {
    /// Pairs, sorted: a *home*, which is the block of an address by its number, and the block that replaces
    /// it on the chip.
    pub(super) replaced: Vec<(Pbn, Pbn)>,
    /// Low half of each block's number in the order of opening, by home. A page with an older number does not
    /// belong to the block.
    pub(super) openings: Vec<u16>,
    pub(super) held: Held,
    /// Pages that die when the current operation is finished.
    pub(super) dying: Vec<Ppn>,
    /// For pages that keep their places: every place below this one is in use.
    next_free: u32,
    /// True if more pages may count as valid than the tree leads to.
    pub(super) bits_in_doubt: bool,
    /// True if that is so since a mount, and no walk has settled it or failed to.
    pub(super) is_unsettled: bool,
}

impl Addresses {
    pub(super) fn new(replaced: Vec<(Pbn, Pbn)>, openings: Vec<u16>) -> Addresses {
        let (held, dying) = (Held::default(), Vec::new());
        let (bits_in_doubt, is_unsettled) = (false, false);
        Addresses { replaced, openings, held, dying, next_free: 0, bits_in_doubt, is_unsettled }
    }

    /// Place on the chip of the page with this address.
    pub(super) fn physical(&self, geometry: Geometry, ppn: Ppn) -> Ppn {
        if self.replaced.is_empty() {
            return ppn;
        }
        let home = geometry.block_of(ppn);
        geometry.page_at(self.physical_block(home), geometry.page_in_block(ppn))
    }

    /// Block that answers to the addresses of `home`.
    pub(super) fn physical_block(&self, home: Pbn) -> Pbn {
        match self.replaced.binary_search_by_key(&home, |pair| pair.0) {
            Ok(i) => self.replaced[i].1,
            Err(_) => home,
        }
    }

    /// The home that a block replaces.
    pub(super) fn home_of_stand_in(&self, block: Pbn) -> Option<Pbn> {
        self.replaced.iter().find(|pair| pair.1 == block).map(|pair| pair.0)
    }

    /// Makes a block answer to the addresses of another one.
    pub(super) fn stand_in(&mut self, home: Pbn, block: Pbn) {
        match self.replaced.binary_search_by_key(&home, |pair| pair.0) {
            Ok(at) => self.replaced[at].1 = block,
            Err(at) => self.replaced.insert(at, (home, block)),
        }
    }

    /// Notes that a home is no longer replaced.
    pub(super) fn end_stand_in(&mut self, home: Pbn) {
        self.replaced.retain(|pair| pair.0 != home);
    }

    /// Notes that a page dies with the end of the operation.
    pub(super) fn give_up(&mut self, ppn: Ppn) {
        // The capacity is not doubled: the pages of a batch are many.
        if self.dying.len() == self.dying.capacity() {
            self.dying.reserve_exact((self.dying.len() / 8).max(KEPT));
        }
        self.dying.push(ppn);
    }

    /// Ends an operation: the pages that it gave up die.
    pub(super) fn finish(&mut self, blocks: &mut BlockTable, counts: bool) {
        while let Some(ppn) = self.dying.pop() {
            // A damaged tree may have led to one page twice.
            if blocks.is_valid(ppn) && !(counts && self.dying.contains(&ppn)) {
                blocks.invalidate(ppn);
                self.next_free = self.next_free.min(ppn.0);
            }
        }
        if self.dying.capacity() > KEPT {
            self.dying = Vec::new();
        }
    }

    /// Lowest place without a valid page, for pages that keep their places.
    pub(super) fn free_place(&mut self, blocks: &BlockTable) -> Option<Ppn> {
        let mut places = (self.next_free..blocks.geometry().pages()).map(Ppn);
        let free = places.find(|ppn| !blocks.is_valid(*ppn))?;
        self.next_free = free.0 + 1;
        Some(free)
    }

    /// Place of the first page that died in the operation, if any did. The next page is written over it.
    pub(super) fn first_given_up(&mut self, blocks: &mut BlockTable) -> Option<Ppn> {
        let ppn = self.dying.first().copied()?;
        // A damaged tree may have led to it twice.
        self.dying.retain(|other| *other != ppn);
        debug_assert!(blocks.is_valid(ppn), "{ppn} is written over and held nothing");
        blocks.invalidate(ppn);
        Some(ppn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::placed::placed_state;
    use alloc::vec;

    fn geometry() -> Geometry {
        Geometry::new(512, 64, 4, 8)
    }

    fn addresses() -> (Addresses, BlockTable) {
        (Addresses::new(Vec::new(), vec![0; 8]), placed_state(geometry(), b"owner").1.blocks)
    }

    #[test]
    fn a_block_stands_in_for_another_until_that_is_reclaimed() {
        let (mut addresses, _) = addresses();
        addresses.stand_in(Pbn(5), Pbn(7));
        addresses.stand_in(Pbn(2), Pbn(6));
        assert_eq!(addresses.physical(geometry(), Ppn(21)), Ppn(29));
        assert_eq!(addresses.physical(geometry(), Ppn(12)), Ppn(12));
        assert_eq!(
            (addresses.home_of_stand_in(Pbn(6)), addresses.home_of_stand_in(Pbn(5))),
            (Some(Pbn(2)), None)
        );
        addresses.stand_in(Pbn(2), Pbn(0));
        addresses.end_stand_in(Pbn(5));
        assert_eq!(addresses.replaced, [(Pbn(2), Pbn(0))]);
        assert_eq!(addresses.physical(geometry(), Ppn(21)), Ppn(21));
    }

    #[test]
    fn pages_die_with_the_end_of_the_operation_and_their_places_are_free() {
        let (mut addresses, mut blocks) = addresses();
        let first = addresses.free_place(&blocks);
        assert_eq!(first, Some(Ppn(0)));
        [0, 1, 2].map(Ppn).into_iter().for_each(|ppn| blocks.mark_valid(ppn));
        assert_eq!(addresses.free_place(&blocks), Some(Ppn(3)));
        addresses.give_up(Ppn(1));
        addresses.give_up(Ppn(2));
        addresses.give_up(Ppn(1));
        assert!(blocks.is_valid(Ppn(1)), "a cut may bring it back");
        assert_eq!(addresses.first_given_up(&mut blocks), Some(Ppn(1)));
        blocks.mark_valid(Ppn(1));
        addresses.finish(&mut blocks, false);
        assert!(blocks.is_valid(Ppn(1)) && !blocks.is_valid(Ppn(2)));
        assert_eq!(addresses.free_place(&blocks), Some(Ppn(2)));
    }
}

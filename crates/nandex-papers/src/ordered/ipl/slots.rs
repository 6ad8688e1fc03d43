//! The table of nodes, by number: the place of each.
//!
//! The table grows in small pieces, so that an old table is never held beside a new one. The slot of an
//! unused number names the next unused number.

use super::layout::NO_UNIT;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

/// No block: the number names no node.
pub(super) const NO_BLOCK: u32 = u32::MAX;

/// No number of a node.
const NO_NODE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) block: u32,
    /// Page of the image in the block; for a ghost, that of the node it came from.
    pub(super) base: u16,
    /// Newest log unit with records of the node.
    pub(super) last: u16,
}

impl Slot {
    pub(super) const NONE: Slot = Slot { block: NO_BLOCK, base: 0, last: NO_UNIT };

    /// A slot of no node, with the number that is free after it.
    fn free(next: Option<u32>) -> Slot {
        let next = next.unwrap_or(NO_NODE);
        Slot { block: NO_BLOCK, base: next as u16, last: (next >> 16) as u16 }
    }

    fn next_free(&self) -> Option<u32> {
        Some(u32::from(self.last) << 16 | u32::from(self.base)).filter(|&next| next != NO_NODE)
    }
}

pub(super) const PIECE: usize = 64;

pub(super) const PIECE_BYTES: usize = PIECE * size_of::<Slot>();

/// The slots of all numbers given out so far.
#[derive(Debug, Default)]
// In boxes: the list of them is copied as it grows, and they are not.
#[allow(clippy::vec_box)]
pub(super) struct Slots {
    pieces: Vec<Box<[Slot; PIECE]>>,
    len: usize,
    free: Option<u32>,
    free_count: usize,
}

impl Slots {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Numbers that name no node.
    pub(super) fn free_count(&self) -> usize {
        self.free_count
    }

    pub(super) fn get(&self, id: u32) -> Option<&Slot> {
        ((id as usize) < self.len).then(|| &self[id as usize])
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Slot> {
        self.pieces.iter().flat_map(|piece| piece.iter()).take(self.len)
    }

    pub(super) fn push(&mut self, slot: Slot) {
        if self.len == self.pieces.len() * PIECE {
            if self.pieces.len() == self.pieces.capacity() {
                self.pieces.reserve_exact(self.list_growth());
            }
            self.pieces.push(Box::new([Slot::NONE; PIECE]));
        }
        self.len += 1;
        let last = self.len - 1;
        self[last] = slot;
    }

    /// Takes an unused number, if there is one.
    pub(super) fn take_free(&mut self) -> Option<u32> {
        let id = self.free?;
        let slot = &mut self[id as usize];
        debug_assert!(slot.block == NO_BLOCK, "I3: number {id} is given out twice");
        let next = slot.next_free();
        *slot = Slot::NONE;
        self.free = next;
        self.free_count -= 1;
        Some(id)
    }

    /// The number names no node any more; it is the next one that is given out.
    pub(super) fn give_back(&mut self, id: u32) {
        self[id as usize] = Slot::free(self.free);
        self.free = Some(id);
        self.free_count += 1;
    }

    fn list_growth(&self) -> usize {
        (self.pieces.len() / 8).max(8)
    }

    /// Bytes that `births` new numbers take. The list of pieces is held twice while it grows.
    pub(super) fn growth_bytes(&self, births: usize) -> usize {
        let spare = self.pieces.len() * PIECE - self.len + self.free_count;
        let pieces = births.saturating_sub(spare).div_ceil(PIECE);
        let is_list_full = self.pieces.len() + pieces > self.pieces.capacity();
        let list = if is_list_full { self.pieces.len() + self.list_growth() } else { 0 };
        pieces * PIECE_BYTES + list * size_of::<usize>()
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.pieces.len() * PIECE_BYTES + self.pieces.capacity() * size_of::<usize>()
    }
}

impl Index<usize> for Slots {
    type Output = Slot;

    fn index(&self, id: usize) -> &Slot {
        &self.pieces[id / PIECE][id % PIECE]
    }
}

impl IndexMut<usize> for Slots {
    fn index_mut(&mut self, id: usize) -> &mut Slot {
        &mut self.pieces[id / PIECE][id % PIECE]
    }
}

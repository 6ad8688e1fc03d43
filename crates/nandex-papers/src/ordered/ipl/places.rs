//! Where the nodes are: their slots, the rows of their blocks, and the pages and blocks that they left since
//! the last commit.

use super::form::Form;
use super::slots::{NO_BLOCK, Slot, Slots};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::{Index, IndexMut};
use nandex::check::{IndexError, Invariant};
use nandex::codec::{get_u40, put_u40};
use nandex::sort;
use nandex::units::{Pbn, Ppn};

/// A sequence number of five bytes, as on the chip: there are two for each block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Number([u8; 5]);

impl From<u64> for Number {
    fn from(number: u64) -> Number {
        let mut bytes = [0; 5];
        put_u40(&mut bytes, 0, number);
        Number(bytes)
    }
}

impl Number {
    pub(super) const ZERO: Number = Number([0; 5]);

    pub(super) fn get(self) -> u64 {
        get_u40(&self.0, 0)
    }
}

/// The state of a block of nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Block {
    /// Number in the order of opening.
    pub(super) generation: u32,
    /// Next log unit; in a dynamic block also the place of the next image.
    pub(super) cursor: u16,
    /// The next page for an image, in a fixed block.
    pub(super) data_next: u16,
    /// Number of nodes in the block.
    pub(super) live: u16,
    /// Number of programmed log units.
    pub(super) units: u16,
    /// Nothing here is older than this number.
    pub(super) born: Number,
    /// Nothing here is newer.
    pub(super) newest: Number,
}

/// The places of the nodes.
#[derive(Default)]
pub(super) struct Places {
    pub(super) blocks: Vec<Block>,
    /// Place of each node, by number.
    pub(super) slots: Slots,
    /// Blocks whose nodes are elsewhere, kept until the next commit.
    pub(super) held: Vec<Pbn>,
    /// In place: pages that nodes left, kept until the next commit.
    pub(super) pending: Vec<Ppn>,
}

impl Index<Pbn> for Places {
    type Output = Block;

    fn index(&self, pbn: Pbn) -> &Block {
        &self.blocks[pbn.index()]
    }
}

impl IndexMut<Pbn> for Places {
    fn index_mut(&mut self, pbn: Pbn) -> &mut Block {
        &mut self.blocks[pbn.index()]
    }
}

impl Places {
    /// Resets the rows to `blocks` empty blocks.
    pub(super) fn clear_blocks(&mut self, blocks: u32) {
        self.blocks = vec![Block::default(); blocks as usize];
    }

    /// The blocks that hold nodes.
    pub(super) fn in_use(&self) -> impl Iterator<Item = Pbn> {
        (0u32..).zip(&self.blocks).filter(|(_, block)| block.live > 0).map(|(pbn, _)| Pbn(pbn))
    }

    pub(super) fn live(&self, pbn: Pbn) -> u32 {
        self[pbn].live.into()
    }

    pub(super) fn slot(&self, id: u32) -> Result<Slot, IndexError> {
        match self.slots.get(id) {
            Some(slot) if slot.block != NO_BLOCK => Ok(*slot),
            _ => Err(IndexError::broken(Invariant::I3, "a child that does not exist", u64::from(id))),
        }
    }

    /// The block of a node that exists.
    pub(super) fn block_of(&self, id: u32) -> Pbn {
        let block = self.slots[id as usize].block;
        assert!(block != NO_BLOCK, "I3: node {id} does not exist");
        Pbn(block)
    }

    /// A number for a new node, which is nowhere yet.
    pub(super) fn new_id(&mut self) -> u32 {
        if let Some(id) = self.slots.take_free() {
            return id;
        }
        self.slots.push(Slot::NONE);
        self.slots.len() as u32 - 1
    }

    /// Puts a node somewhere, by a change of this number; the block that it was the last one to leave.
    pub(super) fn set_slot(&mut self, id: u32, slot: Slot, sequence: u64) -> Option<Pbn> {
        let old = core::mem::replace(&mut self.slots[id as usize], slot);
        if old.block == slot.block {
            return None;
        }
        self[Pbn(slot.block)].live += 1;
        self.leave(old, sequence)
    }

    /// Takes a node out of the tree, by a change of this number; the block that it was the last one to leave.
    pub(super) fn drop_node(&mut self, id: u32, sequence: u64, form: &Form) -> Option<Pbn> {
        let old = core::mem::replace(&mut self.slots[id as usize], Slot::NONE);
        assert!(old.block != NO_BLOCK, "I3: node {id} is dropped twice");
        self.note_pending(old, form);
        self.slots.give_back(id);
        self.leave(old, sequence)
    }

    /// A node left its place; a block that is left by the last one waits for the commit.
    fn leave(&mut self, old: Slot, sequence: u64) -> Option<Pbn> {
        let pbn = Some(Pbn(old.block)).filter(|pbn| pbn.0 != NO_BLOCK)?;
        // No record here says so; but the block is wanted if a cut comes before the commit.
        let block = &mut self[pbn];
        block.newest = sequence.into();
        debug_assert!(block.live > 0, "I3: a node leaves {pbn}, which has none");
        block.live -= 1;
        if block.live > 0 {
            return None;
        }
        debug_assert!(!self.held.contains(&pbn), "I4: {pbn} is kept twice");
        self.held.push(pbn);
        Some(pbn)
    }

    /// In the form in place: keeps the page that a node leaves until the next commit.
    pub(super) fn note_pending(&mut self, old: Slot, form: &Form) {
        if form.is_placed() && old.block != NO_BLOCK {
            self.pending.push(form.geometry.page_at(Pbn(old.block), old.base.into()));
        }
    }

    /// Pages that a block still takes images on.
    pub(super) fn image_room(&self, pbn: Pbn, form: &Form) -> u32 {
        let pending = self.pending.iter().filter(|&&ppn| form.geometry.block_of(ppn) == pbn).count();
        form.image_room(&self[pbn], pending as u32)
    }

    /// Nodes of these blocks, in the order of their images.
    pub(super) fn nodes_of(&self, sources: &[Pbn]) -> Vec<u32> {
        let here = |slot: &Slot| sources.iter().any(|source| source.0 == slot.block);
        // At once: what grows is held twice.
        let mut ids = Vec::with_capacity(sources.iter().map(|&pbn| self.live(pbn) as usize).sum());
        ids.extend((0u32..).zip(self.slots.iter()).filter(|(_, slot)| here(slot)).map(|(id, _)| id));
        let place = |id: u32| (self.slots[id as usize].block, self.slots[id as usize].base);
        sort::unstable_by_key(&mut ids, |&id| (place(id), id));
        ids
    }

    /// The block with the fewest nodes, at most `live_max`, but not this one.
    pub(super) fn sparsest(&self, except: Option<Pbn>, live_max: u32) -> Option<Pbn> {
        let used = self.in_use().filter(|&pbn| Some(pbn) != except && self.live(pbn) <= live_max);
        used.min_by_key(|&pbn| (self[pbn].live, pbn))
    }

    /// How many nodes each of the pages of a group is the image of.
    pub(super) fn images_in(&self, pbn: Pbn, form: &Form) -> Vec<u16> {
        let mut nodes = vec![0; form.geometry.pages_per_block as usize];
        for slot in self.slots.iter().filter(|slot| slot.block == pbn.0) {
            nodes[usize::from(slot.base)] += 1;
        }
        nodes
    }

    /// Whether a page is the image of more than one node.
    pub(super) fn is_shared(&self, place: Slot) -> bool {
        let at = (place.block, place.base);
        self.slots.iter().filter(|slot| (slot.block, slot.base) == at).nth(1).is_some()
    }

    /// The first page of a group that neither an image nor the log needs.
    pub(super) fn page_in(&self, pbn: Pbn, form: &Form) -> Result<u32, IndexError> {
        self.free_page(pbn, &self.images_in(pbn, form), form)
    }

    /// A page as by [`Places::page_in`], of a group whose images are known.
    pub(super) fn free_page(&self, pbn: Pbn, images: &[u16], form: &Form) -> Result<u32, IndexError> {
        let kept = if form.is_fixed() { form.format.log_pages } else { form.cursor_page(&self[pbn]) };
        let is_free = |&page: &u32| {
            images[page as usize] == 0 && !self.pending.contains(&form.geometry.page_at(pbn, page))
        };
        let mut pages = 0..form.geometry.pages_per_block - kept;
        debug_assert!(pages.clone().any(|page| is_free(&page)), "I6: {pbn} has no page for an image");
        pages.find(is_free).ok_or(IndexError::NO_BLOCK)
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<Block>()
            + self.slots.ram_bytes()
            + (self.held.capacity() + self.pending.capacity()) * 4
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::NO_UNIT;
    use super::*;

    #[test]
    fn a_block_that_the_last_node_leaves_waits_for_the_commit() {
        let mut places = Places::default();
        places.clear_blocks(3);
        let at = |block: u32| Slot { block, base: 0, last: NO_UNIT };
        let ids = [places.new_id(), places.new_id()];
        for id in ids {
            assert_eq!(places.set_slot(id, at(1), 5), None);
        }
        assert_eq!((places.live(Pbn(1)), places.sparsest(None, 1)), (2, None));
        assert_eq!(places.set_slot(ids[0], at(2), 6), None);
        assert_eq!(places.sparsest(None, 1), Some(Pbn(1)));
        assert_eq!(places.set_slot(ids[1], at(2), 7), Some(Pbn(1)));
        assert_eq!((&places.held[..], places[Pbn(1)].newest.get()), (&[Pbn(1)][..], 7));
        assert_eq!(places.nodes_of(&[Pbn(2)]), ids);
    }
}

//! The trait of a tree below a pool. The B+-tree, the MB-tree's and the PIO B-tree's take pools in this way.

use super::pool::Demand;
use nandex::check::IndexError;
use nandex::nand::Cause;
use nandex::ordered::bplus::BPlusTree;
use nandex::ordered::bplus::ground::{Applied, LeafSpan, Lookup};
use nandex::ordered::change::Change;
use nandex::ordered::{Durability, OrderedIndex};
use nandex::store::PageStore;

/// Leaves of a B+-tree that a commit writes at most at once: a group that fills more goes in portions.
const LEAVES_MAX: usize = 2;

/// The hints that the pool gives beside a group.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hints {
    /// Reads of the leaf while the group waited, where the tree counts them.
    pub(in crate::ordered) reads: u16,
    /// Whether pages are left besides those that the requests of the pool may ask for.
    pub(in crate::ordered) is_roomy: bool,
}

/// A tree that takes groups of changes.
pub trait GroupTree: OrderedIndex {
    /// Whether each group is for one leaf. Else all that waits is one group.
    const GROUPS_BY_LEAF: bool = true;

    /// Whether it wants to be told how often a leaf was read while a group waited for it.
    const COUNTS_READS: bool = false;

    /// Refuses to go on after a write whose effect is unknown.
    fn ready(&self) -> Result<(), IndexError>;

    /// Whether a key is in the tree, and which keys are grouped with it. Reads the path.
    fn lookup(&mut self, key: &[u8], cause: Cause) -> Result<Lookup, IndexError>;

    /// Which keys are grouped with a key. Reads no leaf.
    fn group_span(&mut self, key: &[u8]) -> Result<LeafSpan, IndexError>;

    /// Entries in the leaf of a key. Reads the path.
    fn entries_near(&mut self, key: &[u8]) -> Result<usize, IndexError>;

    /// The fewest and the most entries of a leaf.
    fn leaf_fill(&self) -> (usize, usize);

    /// Whether what waits surely finds free pages, whatever order it comes in.
    fn has_room(&self, demand: Demand) -> bool;

    /// Applies the first changes of a group, at least one, or on error none; their keys ascend strictly.
    fn apply_group<'a>(
        &mut self,
        changes: impl Iterator<Item = Change<'a>> + Clone,
        hints: Hints,
    ) -> Result<Applied, IndexError>;

    /// Before a change waits: a mount after a cut tells that it is gone, unless a journal has it.
    fn admit_change(&mut self) -> Result<(), IndexError>;

    /// The class that the tree would promise on its store if no change waited.
    fn class_on_store(&self) -> Durability;

    /// The store of the tree.
    fn store_below(&mut self) -> &mut dyn PageStore;
}

impl<S: PageStore> GroupTree for BPlusTree<S> {
    fn ready(&self) -> Result<(), IndexError> {
        Ok(BPlusTree::ready(self)?)
    }

    fn lookup(&mut self, key: &[u8], cause: Cause) -> Result<Lookup, IndexError> {
        Ok(BPlusTree::lookup(self, key, cause)?)
    }

    fn group_span(&mut self, key: &[u8]) -> Result<LeafSpan, IndexError> {
        Ok(self.leaf_span(key)?)
    }

    fn entries_near(&mut self, key: &[u8]) -> Result<usize, IndexError> {
        Ok(self.leaf_entries(key)?)
    }

    fn leaf_fill(&self) -> (usize, usize) {
        BPlusTree::leaf_fill(self)
    }

    fn has_room(&self, demand: Demand) -> bool {
        self.has_room_for(demand.leaf_splits_max(BPlusTree::leaf_fill(self).1))
    }

    fn apply_group<'a>(
        &mut self,
        changes: impl Iterator<Item = Change<'a>> + Clone,
        _: Hints,
    ) -> Result<Applied, IndexError> {
        Ok(self.apply_to_leaf(changes, LEAVES_MAX)?)
    }

    fn admit_change(&mut self) -> Result<(), IndexError> {
        Ok(BPlusTree::admit_change(self)?)
    }

    fn class_on_store(&self) -> Durability {
        BPlusTree::class_on_store(self)
    }

    fn store_below(&mut self) -> &mut dyn PageStore {
        self.store_mut()
    }
}

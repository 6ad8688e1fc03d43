//! The trait of a tree below a pool. The B+-tree, the MB-tree's and the PIO B-tree's take pools in this way.

use super::pool::Demand;
use nandex::check::IndexError;
use nandex::nand::Cause;
use nandex::ordered::bplus::BPlusTree;
use nandex::ordered::bplus::ground::{Applied, LeafSpan, Lookup};
use nandex::ordered::change::Change;
use nandex::ordered::{Durability, OrderedIndex};
use nandex::store::PageStore;

/// Most B+-tree leaves written by one commit. A larger group is committed in portions.
const LEAVES_MAX: usize = 2;

/// Facts about a group that the pool tells the tree.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hints {
    /// Reads of the group's leaf while the group waited, if the tree wants them counted.
    pub(in crate::ordered) reads: u16,
    /// Whether the store has pages beyond those that the requests of the pool may need.
    pub(in crate::ordered) is_roomy: bool,
}

/// A tree that takes changes from a pool in groups.
pub trait GroupTree: OrderedIndex {
    /// Whether the changes of each leaf are a group. If not, all waiting changes are one group.
    const GROUPS_BY_LEAF: bool = true;

    /// Whether the pool counts, for [`Hints`], the reads of a leaf while its group waits.
    const COUNTS_READS: bool = false;

    /// Refuses to go on after a write whose effect is unknown.
    fn ready(&self) -> Result<(), IndexError>;

    /// Finds whether the tree has a key, and which keys share its group. Reads the path to the leaf.
    fn lookup(&mut self, key: &[u8], cause: Cause) -> Result<Lookup, IndexError>;

    /// Finds which keys share the group of a key. Reads no leaf.
    fn group_span(&mut self, key: &[u8]) -> Result<LeafSpan, IndexError>;

    /// Number of entries in the leaf of a key. Reads the path to the leaf.
    fn entries_near(&mut self, key: &[u8]) -> Result<usize, IndexError>;

    /// The fewest and the most entries of a leaf.
    fn leaf_fill(&self) -> (usize, usize);

    /// Whether the waiting requests are certain to find free pages, in whatever order they are committed.
    fn has_room(&self, demand: Demand) -> bool;

    /// Applies the first changes of a group and returns how many: at least one, or none on an error. The
    /// keys must ascend strictly.
    fn apply_group<'a>(
        &mut self,
        changes: impl Iterator<Item = Change<'a>> + Clone,
        hints: Hints,
    ) -> Result<Applied, IndexError>;

    /// Removes the clean mark before a change may wait, so that a mount after a cut can tell that changes
    /// are lost. A journal makes that unnecessary.
    fn admit_change(&mut self) -> Result<(), IndexError>;

    /// The durability class that the tree would promise on its store if no change waited.
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

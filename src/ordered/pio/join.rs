//! Room in a full store: removals are appended, so leaves get sparse without a page getting free.
//!
//! Before a change is refused, all leaves are read once, in key order, each with the next one below the same parent. An
//! empty leaf leaves the directory; two that fill seven eighths of one at most are written to the pages of the first, and the
//! second goes. Each such step is one group and changes no record, so a cut between two of them, or a change that is
//! refused all the same, leaves the contents as they were. When nothing was found, leaves are not read for this again before a record was
//! removed or a leaf consolidated.

use super::page::LeafLayout;
use super::tree::SegmentTree;
use super::update::laid;
use crate::check::IndexError;
use crate::ftl::PageStore;
use crate::nand::Cause;
use crate::ordered::bplus::{Edit, Name};
use crate::units::Lpn;
use alloc::boxed::Box;

impl<S: PageStore> SegmentTree<S> {
    /// Joins what neighbours can be joined; returns whether there were any.
    pub(super) fn join_sparse_leaves(&mut self) -> Result<bool, IndexError> {
        if self.is_tight {
            return Ok(false);
        }
        let before = self.leaves;
        let mut next = Some(self.least_key());
        while let Some(key) = next {
            next = self.join_at(&key)?;
        }
        self.is_tight = self.leaves == before;
        Ok(!self.is_tight)
    }

    /// Joins the leaf of a key and the next one below the same parent if it can; returns the key to go on with.
    fn join_at(&mut self, key: &[u8]) -> Result<Option<Box<[u8]>>, IndexError> {
        let Some(left) = self.directory.name_of(key, Cause::Merge)? else { return Ok(None) };
        let Some(right) = self.directory.name_at(left.slot + 1)? else { return Ok(left.span.high) };
        let used = self.read_leaves(&[left.page, right.page], Cause::Merge)?;
        let base = self.layout.segments;
        let of_right = self.gather(base, used[1]);
        let of_left = self.gather(0, used[0]);
        if of_right == 0 {
            self.drop_leaf(&right)?;
        } else if of_left == 0 {
            self.drop_leaf(&left)?;
        } else if of_left + of_right <= self.layout.joins() {
            let held = self.gather_more(base, used[1], of_left);
            self.join(&left, &right, held)?;
        } else {
            return Ok(left.span.high);
        }
        Ok(Some(key.into()))
    }

    /// Writes the records in hand to the first of two leaves in frames; the second goes.
    fn join(&mut self, left: &Name, right: &Name, held: usize) -> Result<(), IndexError> {
        let (slot, gone) = (self.slot_of(left.page)?, self.slot_of(right.page)?);
        let epoch = LeafLayout::head(&self.frames[0]).epoch.wrapping_add(1);
        let used = self.lay_leaf((slot, 0), (0, held), epoch);
        self.pages_of(gone).for_each(|page| self.directory.give_up_page(Lpn(page)));
        self.directory.change_names(Edit::Remove(right.slot), &laid(&self.frames[..used]))?;
        self.segments[slot] = used as u8;
        self.leaf_is_gone(gone);
        self.counts.leaf_joins += 1;
        Ok(())
    }
}

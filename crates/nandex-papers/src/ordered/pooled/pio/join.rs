//! Making room in a full store. Removals are appended, so leaves become sparse without freeing pages.
//!
//! Before a change is refused, all leaves are read once, in key order, each with the next one below the same
//! parent. An empty leaf is removed from the directory. Two leaves that together fill at most seven eighths
//! of one are written to the pages of the first, and the second is removed. Each such step is one group and
//! changes no record, so a cut between two steps, or a change refused in the end, leaves the contents
//! unchanged. If nothing was found, leaves are not read for this again before a record is removed or a leaf
//! is consolidated.
//!
//! Then the full leaf and a neighbour below the same parent *share* their records evenly, if that leaves a
//! quarter of both free. Without this, an emptied leaf would be of no use to the full one beside it in a
//! store of few leaves.

use super::page::LeafLayout;
use super::tree::SegmentTree;
use super::update::laid;
use crate::ordered::pooled::leaves::least_key;
use alloc::boxed::Box;
use nandex::check::IndexError;
use nandex::nand::Cause;
use nandex::ordered::bplus::ground::{Edit, Name};
use nandex::store::PageStore;
use nandex::units::Lpn;

impl<S: PageStore> SegmentTree<S> {
    /// Joins neighbouring leaves if their records fit into one. Returns whether any were joined.
    pub(super) fn join_sparse_leaves(&mut self) -> Result<bool, IndexError> {
        if self.is_tight {
            return Ok(false);
        }
        let before = self.leaves;
        let mut next = Some(least_key(self.layout.record));
        while let Some(key) = next {
            next = self.join_at(&key)?;
        }
        self.is_tight = self.leaves == before;
        Ok(!self.is_tight)
    }

    /// Joins the leaf of a key and the next one below the same parent, if possible. Returns the key to
    /// continue with.
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

    /// Makes room in the leaf of a key by sharing with a neighbour. Returns whether it did.
    pub(super) fn share_with_neighbour(&mut self, key: &[u8]) -> Result<bool, IndexError> {
        for neighbour_is_right in [true, false] {
            let Some(name) = self.directory.name_of(key, Cause::Merge)? else { return Ok(false) };
            let beside = if neighbour_is_right { Some(name.slot + 1) } else { name.slot.checked_sub(1) };
            let Some(slot) = beside else { continue };
            let Some(neighbour) = self.directory.name_at(slot)? else { continue };
            let (left, right) = if neighbour_is_right { (name, neighbour) } else { (neighbour, name) };
            if self.share(&left, &right)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Gives each of two leaves half of their records.
    fn share(&mut self, left: &Name, right: &Name) -> Result<bool, IndexError> {
        let used = self.read_leaves(&[left.page, right.page], Cause::Merge)?;
        let base = self.layout.segments;
        let of_right = self.gather(base, used[1]);
        let of_left = self.gather(0, used[0]);
        if of_left + of_right > 2 * self.layout.keeps() {
            return Ok(false);
        }
        let held = self.gather_more(base, used[1], of_left);
        let share = held.div_ceil(2);
        if share == held {
            return Ok(false);
        }
        let slots = [self.slot_of(left.page)?, self.slot_of(right.page)?];
        let epochs = [0, base].map(|frame| LeafLayout::head(&self.frames[frame]).epoch.wrapping_add(1));
        let of_first = self.lay_leaf((slots[0], 0), (0, share), epochs[0]);
        let of_second = self.lay_leaf((slots[1], of_first), (share, held - share), epochs[1]);
        let boundary: Box<[u8]> = self.flat_shape.key(&self.flat, share).into();
        let pages = laid(&self.frames[..of_first + of_second]);
        self.directory.change_names(Edit::Rename(right.slot, &boundary), &pages)?;
        (self.segments[slots[0]], self.segments[slots[1]]) = (of_first as u8, of_second as u8);
        self.counts.leaf_shares += 1;
        Ok(true)
    }

    /// Writes the gathered records to the first of two leaves in the frames, and frees the second.
    fn join(&mut self, left: &Name, right: &Name, held: usize) -> Result<(), IndexError> {
        let (slot, gone) = (self.slot_of(left.page)?, self.slot_of(right.page)?);
        let epoch = LeafLayout::head(&self.frames[0]).epoch.wrapping_add(1);
        let used = self.lay_leaf((slot, 0), (0, held), epoch);
        self.pages_of(gone).for_each(|page| self.directory.pages_mut().give_up_leaf(Lpn(page)));
        self.directory.change_names(Edit::Remove(right.slot), &laid(&self.frames[..used]))?;
        self.segments[slot] = used as u8;
        self.leaf_is_gone(gone);
        self.counts.leaf_joins += 1;
        Ok(())
    }
}

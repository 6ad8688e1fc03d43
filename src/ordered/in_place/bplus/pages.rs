//! The pages of the store that a tree uses, and those that the current operation takes and frees.
//!
//! A taken page is in use at once, and free again if the operation is abandoned. A freed page stays in use
//! until the operation is written.

use super::nodes::Nodes;
use super::page::{Layout, ROOT, SUPERBLOCK};
use crate::check::IndexError;
use crate::fault::IndexFault;
use crate::ordered::Room;
use crate::store::PageStore;
use crate::store::space::Space;
use crate::units::Lpn;
use alloc::vec::Vec;

/// The pages in use, and those taken and freed by the current operation.
pub struct Pages {
    pub(super) space: Space,
    /// Pages taken by the current operation.
    pub(super) taken: Vec<Lpn>,
    /// Pages freed by the current operation.
    pub(super) freed: Vec<Lpn>,
    /// How many of the pages in `taken`, and in `freed`, are pages of leaves that the records name, and not
    /// nodes.
    leaf_pages: (usize, usize),
}

impl Pages {
    /// Only the superblock and the root are in use.
    pub(super) fn new(mut space: Space, layout: &Layout) -> Pages {
        space.claim(SUPERBLOCK);
        space.claim(ROOT);
        let list = || Vec::with_capacity(layout.height_max() + 1);
        Pages { space, taken: list(), freed: list(), leaf_pages: (0, 0) }
    }

    pub(super) fn begin(&mut self) {
        self.taken.clear();
        self.freed.clear();
        self.leaf_pages = (0, 0);
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.space.held_bytes() + (self.taken.capacity() + self.freed.capacity()) * size_of::<Lpn>()
    }

    /// Takes a free page for a node.
    pub(super) fn take(&mut self) -> Result<Lpn, IndexFault> {
        let lpn = self.space.allocate().ok_or(IndexError::NO_BLOCK)?;
        self.taken.push(lpn);
        Ok(lpn)
    }

    /// Takes a free page for a leaf that a record will name. If there is none, the pages taken by the
    /// operation are freed.
    pub fn take_for_leaf(&mut self) -> Result<Lpn, IndexFault> {
        match self.space.allocate() {
            Some(lpn) => {
                self.note_taken(lpn);
                Ok(lpn)
            }
            None => {
                self.give_back();
                Err(IndexError::NO_BLOCK.into())
            }
        }
    }

    /// Takes these free pages for a leaf that records name.
    pub fn take_run(&mut self, pages: core::ops::Range<u32>) {
        for lpn in pages.map(Lpn) {
            assert!(self.space.claim(lpn), "B6: {lpn} is in use");
            self.note_taken(lpn);
        }
    }

    fn note_taken(&mut self, lpn: Lpn) {
        debug_assert!(self.space.is_used(lpn), "B6: {lpn} was taken and is free");
        self.taken.push(lpn);
        self.leaf_pages.0 += 1;
        debug_assert!(self.leaf_pages.0 <= self.taken.len(), "more pages of leaves than were taken");
    }

    /// Gives up a page of a leaf that records name.
    pub fn give_up_leaf(&mut self, lpn: Lpn) {
        debug_assert!(lpn.0 > ROOT.0, "B6: {lpn} is never free");
        self.freed.push(lpn);
        self.leaf_pages.1 += 1;
    }

    /// Frees the pages that the current operation took.
    pub fn give_back(&mut self) {
        self.taken.drain(..).for_each(|lpn| self.space.release(lpn));
        self.leaf_pages.0 = 0;
    }

    /// Takes a free page for a leaf that is loaded.
    pub fn take_to_load(&mut self) -> Result<Lpn, IndexFault> {
        self.space.allocate().ok_or_else(|| IndexError::NO_BLOCK.into())
    }

    /// Takes these free pages for a load.
    pub fn claim_to_load(&mut self, pages: core::ops::Range<u32>) {
        pages.map(Lpn).for_each(|lpn| assert!(self.space.claim(lpn), "B6: {lpn} is in use"));
    }

    /// Numbers of nodes that the current operation took and gave up.
    pub(super) fn nodes(&self) -> (usize, usize) {
        (self.taken.len() - self.leaf_pages.0, self.freed.len() - self.leaf_pages.1)
    }

    /// Makes the pages freed by the operation available, after its writes.
    pub(super) fn settle(&mut self, store: &mut dyn PageStore) -> Result<(), IndexFault> {
        for &lpn in &self.freed {
            debug_assert!(lpn.0 > ROOT.0, "B6: {lpn} is never free");
            if self.space.release_written(lpn) {
                trim(store, lpn)?;
            }
        }
        Ok(())
    }

    /// Trims the pages whose trims waited for a sync.
    pub(super) fn trim_waiting(&mut self, store: &mut dyn PageStore) -> Result<(), IndexFault> {
        let mut start = SUPERBLOCK;
        while let Some(lpn) = self.space.next_untrimmed(start) {
            trim(store, lpn)?;
            start = lpn;
        }
        Ok(())
    }

    /// Frees every page but the superblock and the root.
    pub(super) fn free_all(&mut self, store: &mut dyn PageStore) -> Result<(), IndexFault> {
        for lpn in (ROOT.0 + 1..self.space.page_count()).map(Lpn) {
            if self.space.is_used(lpn) && self.space.release_written(lpn) {
                trim(store, lpn)?;
            }
        }
        Ok(())
    }

    /// Room for more records: each free page may become a leaf, except for the parents that these need. The
    /// store keeps `withheld` pages for itself.
    pub(super) fn room(&self, nodes: &Nodes, withheld: u32) -> Room {
        let layout = &nodes.layout;
        let pages = u64::from(self.space.free_pages().saturating_sub(withheld));
        let used = u64::from(layout.page_count).saturating_sub(pages);
        let parents = pages / layout.half(2).max(1) as u64 + 2;
        let records = Room::records_of(pages.saturating_sub(parents), used, layout.half(1) as u64);
        // A root that is divided makes the tree higher.
        let surely = match layout.height_max().saturating_sub(nodes.height) {
            0 => 0,
            1 => records.min(layout.half(2) as u64),
            _ => records,
        };
        Room { pages, records, surely }
    }
}

/// Trims a page that no node uses. A store that has no room to note it only keeps the page longer.
pub(super) fn trim(store: &mut dyn PageStore, lpn: Lpn) -> Result<(), IndexFault> {
    match store.trim(lpn) {
        Err(error) if error.is_refusal() => Ok(()),
        done => Ok(done?),
    }
}

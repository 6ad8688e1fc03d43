//! The tree as a directory: each record names a leaf of another tree, of one or several pages, by the page
//! where the leaf begins.
//!
//! The record for a key is the last one whose key is not above it; the first record of all has the least
//! possible key. Pages of leaves come from the same store and are written in one group with the nodes that an
//! edit changes. The first record of a node is never removed or renamed, so the bounds above the node stay.

use super::batch::LeafSpan;
use super::check::Walk;
use super::nodes::{Place, frame_at};
use super::page::corrupted;
use super::pages::Pages;
use super::read::{NodeAt, Source};
use super::{BPlusTree, Work};
use crate::check::Invariant;
use crate::codec::get_u32;
use crate::fault::IndexFault;
use crate::nand::Cause;
use crate::ordered::Room;
use crate::store::space::Space;
use crate::store::{PageStore, batch};
use crate::units::Lpn;
use alloc::vec::Vec;

/// Leaf that the directory names.
#[derive(Clone, Debug)]
pub struct Name {
    /// Keys that belong to the leaf.
    pub span: LeafSpan,
    /// First page of the leaf.
    pub page: Lpn,
    /// Place of the leaf's record in the directory's node, which stays in RAM until the next search.
    pub slot: usize,
}

/// Visitor of the leaves that a directory names. It gets the store to read them, and the pages in use to
/// claim theirs.
pub(crate) type VisitLeaf<'a> =
    &'a mut dyn FnMut(&mut dyn PageStore, &mut Space, Lpn) -> Result<(), IndexFault>;

/// Change of one record in the node that was searched last.
#[derive(Clone, Copy, Debug)]
pub enum Edit<'a> {
    /// The directory stays as it is.
    Keep,
    /// A new record with this key and page is put at this place.
    Insert(usize, &'a [u8], Lpn),
    /// The record at this place is removed.
    Remove(usize),
    /// Gives this key to the record at this place.
    Rename(usize, &'a [u8]),
    /// The record at this place gets the page of the next record, which is removed.
    Absorb(usize),
}

#[doc(hidden)]
impl<S: PageStore> BPlusTree<S> {
    /// Calls `act` with the tree's store and a function that tells which pages are in use.
    pub fn with_store<T>(&mut self, act: impl FnOnce(&mut S, &dyn Fn(Lpn) -> bool) -> T) -> T {
        let space = &self.core.pages.space;
        act(&mut self.store.0, &|lpn| lpn.0 < space.page_count() && space.is_used(lpn))
    }

    /// Returns the leaf of a key. `None` while the directory is empty.
    pub fn name_of(&mut self, key: &[u8], cause: Cause) -> Result<Option<Name>, IndexFault> {
        self.work().name_of(key, cause)
    }

    /// The leaf named by the record at place `slot` of the same node, if there is one.
    pub fn name_at(&self, slot: usize) -> Result<Option<Name>, IndexFault> {
        self.core.nodes.name_at(slot)
    }

    /// Returns an error if a number cannot be the page of a leaf.
    pub fn leaf_page(&self, number: u32) -> Result<Lpn, IndexFault> {
        self.core.nodes.leaf_page(number)
    }

    /// Map of the used and the free pages.
    pub fn space(&self) -> &Space {
        &self.core.pages.space
    }

    /// Room for more records if the store keeps `withheld` pages for itself.
    pub fn room_without(&self, withheld: u32) -> Room {
        self.core.pages.room(&self.core.nodes, withheld)
    }

    /// Pages of the tree, to take pages for leaves. They are given back unless the next
    /// [`BPlusTree::change_names`] succeeds, and pages given up are free once it does.
    pub fn pages_mut(&mut self) -> &mut Pages {
        &mut self.core.pages
    }

    /// Writes pages of leaves and changes a record with them, as one group.
    pub fn change_names(&mut self, edit: Edit<'_>, pages: &[(Lpn, &[u8])]) -> Result<(), IndexFault> {
        self.work().change_names(edit, pages)
    }

    /// Visits every leaf.
    pub fn walk_names(&mut self, cause: Cause, visit: VisitLeaf<'_>) -> Result<(), IndexFault> {
        let mut work = self.work();
        work.fetch_root(cause)?;
        work.walk_names_below(0, cause, visit)
    }

    /// Checks the directory and shows its records. The caller must reach the pages that they name, and then
    /// call [`BPlusTree::check_names_end`].
    pub fn check_names(&mut self, show: &mut dyn FnMut(&[u8], Lpn)) -> Result<Walk, IndexFault> {
        let mut walk = self.work().check_nodes(&mut |key, value| show(key, Lpn(get_u32(value, 0))))?;
        walk.report.records = 0;
        Ok(walk)
    }

    /// Checks that all pages in use were reached.
    pub fn check_names_end(&self, walk: &mut Walk) {
        self.core.pages.check(walk);
    }

    /// Prepares a bulk load: pages of leaves may be written before [`BPlusTree::bulk_load`] gets their names.
    /// The directory must be empty.
    pub fn begin_names(&mut self) -> Result<(), IndexFault> {
        self.change_follows()
    }

    /// Frees all pages that were loaded.
    pub fn give_up_names(&mut self) -> Result<(), IndexFault> {
        self.core.pages.free_all(&mut self.store)
    }

    /// Returns the leaves of ascending keys, each with the number of keys that belong to it. The nodes of a
    /// level are read together, as many at a time as there are frames. Empty while the directory is empty.
    pub fn names_of(&mut self, keys: &[&[u8]], frames: usize) -> Result<Vec<(Lpn, usize)>, IndexFault> {
        self.work().names_of(keys, frames)
    }
}

impl Work<'_> {
    fn name_of(&mut self, key: &[u8], cause: Cause) -> Result<Option<Name>, IndexFault> {
        self.follow(key, self.core.nodes.height, cause)?;
        let (nodes, leaf) = (&self.core.nodes, self.core.nodes.leaf());
        if leaf.count() == 0 {
            return Ok(None);
        }
        let place = match nodes.layout.leaf.search(leaf.area(), leaf.count(), key) {
            Ok(at) => Some(at),
            Err(at) => at.checked_sub(1),
        };
        let slot = place.ok_or_else(|| {
            corrupted(Invariant::B3, "no record of the directory is for the key", leaf.lpn())
        })?;
        let name = nodes.name_at(slot)?;
        if name.as_ref().is_some_and(|name| !name.span.contains(key)) {
            let found = "a key lies outside the bounds of the path to it";
            return Err(corrupted(Invariant::B3, found, leaf.lpn()));
        }
        Ok(name)
    }

    fn change_names(&mut self, edit: Edit<'_>, pages: &[(Lpn, &[u8])]) -> Result<(), IndexFault> {
        let nodes = &mut self.core.nodes;
        debug_assert!(
            matches!(edit, Edit::Keep) || nodes.leaf().level() == 1,
            "B5: the directory was not searched"
        );
        debug_assert!(
            !matches!(edit, Edit::Insert(0, ..)) || nodes.leaf().count() == 0,
            "the first record of a node stays"
        );
        let shape = nodes.layout.leaf;
        let done = match edit {
            Edit::Keep => Ok(()),
            Edit::Insert(slot, key, page) => self.core.add(slot, key, &page.0.to_le_bytes()),
            Edit::Remove(slot) => {
                assert!(slot > 0 || nodes.leaf().count() == 1, "the first record of a node stays");
                self.take(slot)
            }
            Edit::Absorb(slot) => {
                let leaf = nodes.leaf_mut();
                let mut page = [0; 4];
                page.copy_from_slice(shape.value(leaf.area(), slot + 1));
                shape.set_value(leaf.area_mut(), slot, &page);
                self.take(slot + 1)
            }
            Edit::Rename(slot, key) => {
                assert!(slot > 0, "the first record of a node stays");
                let leaf = nodes.leaf_mut();
                debug_assert!(slot < leaf.count(), "no record {slot} to rename");
                shape.set_key(leaf.area_mut(), slot, key);
                leaf.is_dirty = true;
                Ok(())
            }
        };
        self.finish_with(done, pages)
    }

    fn walk_names_below(
        &mut self,
        depth: usize,
        cause: Cause,
        visit: VisitLeaf<'_>,
    ) -> Result<(), IndexFault> {
        let level = self.core.nodes.level(depth);
        debug_assert_eq!(self.core.nodes.path[depth].level(), level, "B5: another level in the path");
        for slot in 0..self.core.nodes.path[depth].count() {
            let nodes = &self.core.nodes;
            let node = &nodes.path[depth];
            if level == 1 {
                let page = nodes.named_page(node, slot)?;
                visit(self.store, &mut self.core.pages.space, page)?;
            } else {
                let child = nodes.layout.child(node, slot)?;
                self.fetch(depth + 1, child, Some(level - 1), cause)?;
                self.walk_names_below(depth + 1, cause, visit)?;
            }
        }
        Ok(())
    }

    fn names_of(&mut self, keys: &[&[u8]], frames: usize) -> Result<Vec<(Lpn, usize)>, IndexFault> {
        self.core.mark.ready()?;
        self.fetch_root(Cause::Host)?;
        let nodes = &self.core.nodes;
        if nodes.path[0].count() == 0 || keys.is_empty() {
            return Ok(Vec::new());
        }
        let mut found = nodes.children_of(Place::Path(0), keys)?;
        for level in (1..nodes.height).rev() {
            let (mut below, mut at) = (Vec::new(), 0);
            for some in found.chunks(frames.max(1)) {
                self.fetch_together(some, level)?;
                for (i, &(_, count)) in some.iter().enumerate() {
                    below.extend(self.core.nodes.children_of(Place::Extra(i), &keys[at..at + count])?);
                    at += count;
                }
            }
            found = below;
        }
        Ok(found)
    }

    /// Reads nodes of one level together, into the extra frames.
    fn fetch_together(&mut self, wanted: &[(Lpn, usize)], level: usize) -> Result<(), IndexFault> {
        let nodes = &mut self.core.nodes;
        debug_assert!((1..nodes.height).contains(&level), "B5: level {level} below the root");
        let layout = nodes.layout;
        frame_at(&mut nodes.extra, wanted.len() - 1, &layout);
        batch(&mut *self.store, |store| {
            let mut reads = wanted.iter().zip(nodes.extra.iter_mut());
            reads.try_for_each(|((lpn, _), frame)| {
                let source = Source { store: &mut *store, staged: None };
                source.load(&layout, NodeAt { lpn: *lpn, level: Some(level) }, Cause::Host, frame)
            })
        })
    }
}

//! The tree as a directory: its records name the leaves of another tree, which lie in several pages each, by
//! the page where they begin.
//!
//! The record for a key is the last whose key is not above it; the first of all has the least key there is.
//! Pages of leaves come from the same store and are written in one group with the nodes that an edit changes.
//! Of the records in a node the first is never removed nor renamed, so the bounds above it stay.

use super::change::load;
use super::page::{Frame, ROOT, corrupted};
use super::walk::Walk;
use super::{BPlusTree, LeafSpan, frame_at};
use crate::check::{IndexError, Invariant};
use crate::codec::get_u32;
use crate::fault::IndexFault;
use crate::nand::Cause;
use crate::store::space::Space;
use crate::store::{PageStore, batch};
use crate::units::Lpn;
use alloc::vec::Vec;

/// A leaf that the directory names.
#[derive(Clone, Debug)]
pub(in crate::ordered) struct Name {
    /// The keys that belong to it.
    pub(in crate::ordered) span: LeafSpan,
    /// Where it begins.
    pub(in crate::ordered) page: Lpn,
    /// The name's place in the directory's node, which stays in RAM until the next search.
    pub(in crate::ordered) slot: usize,
}

/// A change of one record in the node that was searched last.
#[derive(Clone, Copy, Debug)]
pub(in crate::ordered) enum Edit<'a> {
    /// The directory stays as it is.
    Keep,
    /// A new record at this place: key and page.
    Insert(usize, &'a [u8], Lpn),
    /// The record at this place goes.
    Remove(usize),
    /// The record at this place has this key now.
    Rename(usize, &'a [u8]),
    /// The record at this place names what the next one does, which goes.
    Absorb(usize),
}

impl<S: PageStore> BPlusTree<S> {
    /// The leaf of a key; none while the directory is empty.
    pub(in crate::ordered) fn name_of(
        &mut self,
        key: &[u8],
        cause: Cause,
    ) -> Result<Option<Name>, IndexFault> {
        self.follow(key, self.height, cause)?;
        let leaf = self.leaf();
        if leaf.count() == 0 {
            return Ok(None);
        }
        let place = match self.layout.leaf.search(leaf.area(), leaf.count(), key) {
            Ok(at) => Some(at),
            Err(at) => at.checked_sub(1),
        };
        let slot = place.ok_or_else(|| {
            corrupted(Invariant::B3, "no record of the directory is for the key", leaf.lpn())
        })?;
        let name = self.name_at(slot)?;
        if name.as_ref().is_some_and(|name| !name.span.contains(key)) {
            return Err(corrupted(
                Invariant::B3,
                "a key lies outside the bounds of the path to it",
                leaf.lpn(),
            ));
        }
        Ok(name)
    }

    /// The leaf that the record at a place of the same node names, if there is one.
    pub(in crate::ordered) fn name_at(&self, slot: usize) -> Result<Option<Name>, IndexFault> {
        let (leaf, shape) = (self.leaf(), &self.layout.leaf);
        if slot >= leaf.count() {
            return Ok(None);
        }
        let low = Some(shape.key(leaf.area(), slot).into());
        let high = if slot + 1 < leaf.count() {
            Some(shape.key(leaf.area(), slot + 1).into())
        } else {
            self.span_around_leaf(0, 0).high
        };
        Ok(Some(Name { span: LeafSpan { low, high }, page: self.named_page(leaf, slot)?, slot }))
    }

    fn named_page(&self, leaf: &Frame, slot: usize) -> Result<Lpn, IndexFault> {
        self.leaf_page(get_u32(self.layout.leaf.value(leaf.area(), slot), 0))
    }

    /// Refuses a number that cannot be the page of a leaf.
    pub(in crate::ordered) fn leaf_page(&self, number: u32) -> Result<Lpn, IndexFault> {
        if number > ROOT.0 && number < self.layout.page_count {
            Ok(Lpn(number))
        } else {
            Err(corrupted(Invariant::B6, "the page of a leaf cannot be one", Lpn(number)))
        }
    }

    /// Takes a page for a leaf. It is given back unless the next [`BPlusTree::change_names`] succeeds.
    pub(in crate::ordered) fn take_page(&mut self) -> Result<Lpn, IndexFault> {
        match self.space.allocate() {
            Some(lpn) => {
                self.note_taken(lpn);
                Ok(lpn)
            }
            None => {
                self.return_pages();
                Err(IndexError::Full.into())
            }
        }
    }

    /// Takes certain pages that are free.
    pub(in crate::ordered) fn take_pages(&mut self, pages: core::ops::Range<u32>) {
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

    /// Gives back what was taken since the search.
    pub(in crate::ordered) fn return_pages(&mut self) {
        self.taken.drain(..).for_each(|lpn| self.space.release(lpn));
        self.leaf_pages.0 = 0;
    }

    /// Gives up a page of a leaf with the next [`BPlusTree::change_names`].
    pub(in crate::ordered) fn give_up_page(&mut self, lpn: Lpn) {
        debug_assert!(lpn.0 > ROOT.0, "B6: {lpn} is never free");
        self.freed.push(lpn);
        self.leaf_pages.1 += 1;
    }

    /// Writes pages of leaves and changes a record with them, as one group.
    pub(in crate::ordered) fn change_names(
        &mut self,
        edit: Edit<'_>,
        pages: &[(Lpn, &[u8])],
    ) -> Result<(), IndexFault> {
        debug_assert!(
            matches!(edit, Edit::Keep) || self.leaf().level() == 1,
            "B5: the directory was not searched"
        );
        debug_assert!(
            !matches!(edit, Edit::Insert(0, ..)) || self.leaf().count() == 0,
            "the first record of a node stays"
        );
        let done = match edit {
            Edit::Keep => Ok(()),
            Edit::Insert(slot, key, page) => self.add(slot, key, &page.0.to_le_bytes()),
            Edit::Remove(slot) => {
                assert!(slot > 0 || self.leaf().count() == 1, "the first record of a node stays");
                self.take(slot)
            }
            Edit::Absorb(slot) => {
                let (shape, leaf) = (self.layout.leaf, &mut self.path[self.height - 1]);
                let mut page = [0; 4];
                page.copy_from_slice(shape.value(leaf.area(), slot + 1));
                shape.set_value(leaf.area_mut(), slot, &page);
                self.take(slot + 1)
            }
            Edit::Rename(slot, key) => {
                assert!(slot > 0, "the first record of a node stays");
                let (shape, leaf) = (self.layout.leaf, &mut self.path[self.height - 1]);
                debug_assert!(slot < leaf.count(), "no record {slot} to rename");
                shape.set_key(leaf.area_mut(), slot, key);
                leaf.is_dirty = true;
                Ok(())
            }
        };
        self.finish_with(done, pages)
    }

    /// Shows every leaf, with the store to read it and the pages in use to claim its own.
    pub(in crate::ordered) fn walk_names(
        &mut self,
        cause: Cause,
        visit: &mut dyn FnMut(&mut S, &mut Space, Lpn) -> Result<(), IndexFault>,
    ) -> Result<(), IndexFault> {
        self.begin();
        self.fetch(0, ROOT, Some(self.height), cause)?;
        self.walk_names_below(0, cause, visit)
    }

    fn walk_names_below(
        &mut self,
        depth: usize,
        cause: Cause,
        visit: &mut dyn FnMut(&mut S, &mut Space, Lpn) -> Result<(), IndexFault>,
    ) -> Result<(), IndexFault> {
        let level = self.height - depth;
        debug_assert_eq!(self.path[depth].level(), level, "B5: another level in the path");
        for slot in 0..self.path[depth].count() {
            if level == 1 {
                let page = self.named_page(&self.path[depth], slot)?;
                visit(&mut self.store, &mut self.space, page)?;
            } else {
                let child = self.layout.child(&self.path[depth], slot)?;
                self.fetch(depth + 1, child, Some(level - 1), cause)?;
                self.walk_names_below(depth + 1, cause, visit)?;
            }
        }
        Ok(())
    }

    /// Checks the directory and shows its records; what they name is to be reached by the caller, who then
    /// calls [`BPlusTree::check_names_end`].
    pub(in crate::ordered) fn check_names(
        &mut self,
        show: &mut dyn FnMut(&[u8], Lpn),
    ) -> Result<Walk, IndexFault> {
        let mut walk = self.check_nodes(&mut |key, value| show(key, Lpn(get_u32(value, 0))))?;
        walk.report.records = 0;
        Ok(walk)
    }

    /// Checks that all pages in use were reached.
    pub(in crate::ordered) fn check_names_end(&self, walk: &mut Walk) {
        self.check_space(walk);
    }

    /// Prepares a bulk load: pages of leaves may be written before [`BPlusTree::bulk_load`] is given their
    /// names. The directory must be empty.
    pub(in crate::ordered) fn begin_names(&mut self) -> Result<(), IndexFault> {
        self.ready()?;
        self.begin();
        self.unmark_clean()
    }

    /// Takes a page for a leaf that is loaded.
    pub(in crate::ordered) fn take_page_to_load(&mut self) -> Result<Lpn, IndexFault> {
        self.space.allocate().ok_or_else(|| IndexError::Full.into())
    }

    /// Takes certain pages that are free, for a load.
    pub(in crate::ordered) fn claim_to_load(&mut self, pages: core::ops::Range<u32>) {
        pages.map(Lpn).for_each(|lpn| assert!(self.space.claim(lpn), "B6: {lpn} is in use"));
    }

    /// Gives up everything that was loaded.
    pub(in crate::ordered) fn give_up_names(&mut self) -> Result<(), IndexFault> {
        self.unload()
    }

    /// Pages in use, and free ones.
    pub(in crate::ordered) fn space(&self) -> &Space {
        &self.space
    }

    /// The leaves of keys that ascend, level by level: the nodes of a level are read together, as many as
    /// there are frames. Each leaf comes with the number of keys that belong to it; nothing while the
    /// directory is empty.
    pub(in crate::ordered) fn names_of(
        &mut self,
        keys: &[&[u8]],
        frames: usize,
    ) -> Result<Vec<(Lpn, usize)>, IndexFault> {
        self.ready()?;
        self.begin();
        self.fetch(0, ROOT, Some(self.height), Cause::Host)?;
        if self.path[0].count() == 0 || keys.is_empty() {
            return Ok(Vec::new());
        }
        let mut nodes = self.children_of(Place::Root, keys)?;
        for level in (1..self.height).rev() {
            let (mut below, mut at) = (Vec::new(), 0);
            for some in nodes.chunks(frames.max(1)) {
                self.fetch_together(some, level)?;
                for (i, &(_, count)) in some.iter().enumerate() {
                    below.extend(self.children_of(Place::Frame(i), &keys[at..at + count])?);
                    at += count;
                }
            }
            nodes = below;
        }
        Ok(nodes)
    }

    /// Reads nodes of a level at once, to the extra frames.
    fn fetch_together(&mut self, nodes: &[(Lpn, usize)], level: usize) -> Result<(), IndexFault> {
        let BPlusTree { store, layout, extra, .. } = self;
        debug_assert!((1..self.height).contains(&level), "B5: level {level} below the root");
        frame_at(extra, nodes.len() - 1, layout);
        batch(store, |store| {
            let mut reads = nodes.iter().zip(extra.iter_mut());
            reads.try_for_each(|((lpn, _), frame)| {
                load((store, None), layout, (*lpn, Some(level)), Cause::Host, frame)
            })
        })
    }

    /// Which children of a node keys belong to, each with their number.
    fn children_of(&self, place: Place, keys: &[&[u8]]) -> Result<Vec<(Lpn, usize)>, IndexFault> {
        let node = match place {
            Place::Root => &self.path[0],
            Place::Frame(i) => &self.extra[i],
        };
        debug_assert!(node.count() > 0, "B4: an empty node has no child for a key");
        let (is_leaf, shape) = (node.level() == 1, self.layout.shape(node.level()));
        let mut children: Vec<(Lpn, usize)> = Vec::new();
        let mut last = None;
        for key in keys {
            let slot = shape.child_slot(node.area(), node.count(), key);
            match children.last_mut() {
                Some((_, count)) if last == Some(slot) => *count += 1,
                _ if is_leaf => children.push((self.named_page(node, slot)?, 1)),
                _ => children.push((self.layout.child(node, slot)?, 1)),
            }
            last = Some(slot);
        }
        debug_assert_eq!(
            children.iter().map(|child| child.1).sum::<usize>(),
            keys.len(),
            "a key without a child"
        );
        Ok(children)
    }
}

/// Where a node of a search for many keys stands.
#[derive(Clone, Copy)]
enum Place {
    Root,
    Frame(usize),
}

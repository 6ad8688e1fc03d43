//! The tree in the least RAM.
//!
//! A path is in RAM, as ever, and three pages at least. An operation changes three at most:
//! - A full leaf is split below a parent with room. So the full nodes above it are split before, from the
//!   highest on, each in a group of its own: it, its new neighbour and its parent; or both halves of the
//!   root, and the root.
//! - A leaf with too few records is mended below a parent that can do without an entry. So the nodes above it
//!   that cannot are evened out or merged before, in the same way.
//!
//! Each group leaves a tree with the same records, so a cut between two of them does no harm; then the path
//! is read again. The page of RAM for a new node or a neighbour is lent by a frame of the path that takes no
//! part ([`Frame::is_lent`]).
//!
//! Free pages are known of one part of the store at a time ([`Space::windowed`]). When it has too few left,
//! the internal nodes are read for those of another.

use super::BPlusTree;
use super::change::Mended;
use super::page::{self, Frame, LEAST_CAPACITY, Layout, ROOT, SUPERBLOCK};
use super::rules::{Overflow, Underflow};
use crate::check::{IndexError, words};
use crate::fault::IndexFault;
use crate::nand::Cause;
use crate::ordered::Records;
use crate::store::PageStore;
use crate::store::space::Space;
use crate::units::Lpn;
use core::cmp::Ordering;

/// Pages that an operation changes at most.
const PAGES_MAX: usize = 3;

/// Parts of the store of which one is known at a time, and the fewest pages of one.
const PARTS: u32 = 16;
const PART_MIN: u32 = 512;

/// Whether a tree can do with it on a store.
pub(super) fn is_possible(layout: &Layout, store: &(impl PageStore + ?Sized)) -> bool {
    cfg!(feature = "in-parts")
        && layout.internal.capacity >= LEAST_CAPACITY
        && (layout.overflow, layout.underflow) == (Overflow::Split, Underflow::Merge)
        && store.durable_writes()
        && store.atomic_pages_max() >= layout.group_pages_max()
}

/// The free pages of the store.
pub(super) fn space(layout: &Layout) -> Space {
    Space::windowed(layout.page_count, part_pages(layout))
}

fn part_pages(layout: &Layout) -> u32 {
    layout.page_count.div_ceil(PARTS).max(PART_MIN)
}

/// Bytes of RAM that the tree takes beside the store.
pub(super) fn ram_bytes(layout: &Layout) -> usize {
    let frames = layout.height_max().max(PAGES_MAX);
    let lists = 2 * (layout.height_max() + 1) * size_of::<Lpn>();
    frames * (layout.page_bytes + size_of::<Frame>())
        + Space::windowed_bytes(layout.page_count, part_pages(layout))
        + lists
}

impl<S: PageStore> BPlusTree<S> {
    /// Whether the least RAM is taken.
    pub(super) fn is_least(&self) -> bool {
        cfg!(feature = "in-parts") && self.least
    }

    pub(super) fn insert_least(&mut self, key: &[u8], value: &[u8]) -> Result<bool, IndexFault> {
        loop {
            let found = self.find(key)?;
            let edit = match found {
                Ok(at) => {
                    self.overwrite(at, value);
                    Ok(())
                }
                Err(at) => {
                    if self.leaf().count() == self.layout.leaf.capacity {
                        let highest = self.highest_full();
                        if self.seek_room(self.height - highest + usize::from(highest == 0))? {
                            continue;
                        }
                        if highest + 1 < self.height {
                            self.split_ahead(highest)?;
                            continue;
                        }
                        self.borrow_frames(highest);
                    }
                    self.add(at, key, value)
                }
            };
            self.finish(edit)?;
            return Ok(found.is_ok());
        }
    }

    /// The depth of the highest of the full nodes that the leaf, which is full, has right above it; its own
    /// where there are none.
    fn highest_full(&self) -> usize {
        let full = |node: &&Frame| node.count() == self.layout.internal.capacity;
        let parents = &self.path[..self.height - 1];
        parents.len() - parents.iter().rev().take_while(full).count()
    }

    /// Splits a full internal node of the path below a parent with room, or the root. The half that the path
    /// goes through has not more entries, for it gets one soon.
    fn split_ahead(&mut self, depth: usize) -> Result<(), IndexFault> {
        debug_assert_eq!(
            self.path[depth].count(),
            self.layout.internal.capacity,
            "B4: a split of no full node"
        );
        if depth == 0 && self.height == self.layout.height_max() {
            return Err(IndexError::Full.into());
        }
        self.borrow_frames(depth);
        let edit = self.halve(depth);
        self.finish(edit)
    }

    fn halve(&mut self, depth: usize) -> Result<(), IndexFault> {
        let (shape, level) = (self.layout.internal, self.level(depth));
        let (full, slot) = (self.path[depth].count(), self.path[depth].slot);
        let lower = if slot < full / 2 { full / 2 } else { full.div_ceil(2) };
        if depth > 0 {
            let right = self.new_node(level)?;
            page::move_right(&shape, &mut self.path[depth], &mut self.extra[right], full - lower);
            return self.announce(depth, right);
        }
        let (left, right) = (self.new_node(level)?, self.new_node(level)?);
        self.extra[left].copy_node(&self.path[0]);
        let (below, above) = self.extra.split_at_mut(right);
        page::move_right(&shape, &mut below[left], &mut above[0], full - lower);
        self.put_root_above(left..right + 1);
        Ok(())
    }

    pub(super) fn remove_least(&mut self, key: &[u8]) -> Result<bool, IndexFault> {
        loop {
            let Ok(at) = self.find(key)? else { return Ok(false) };
            let depth = self.height - 1;
            let is_mended = depth > 0 && self.leaf().count() <= self.layout.half(1);
            if is_mended {
                let highest = self.highest_meagre();
                if highest < depth {
                    let mended = self.mend_alone(highest, (self.layout.internal.capacity, true));
                    self.finish(mended)?;
                    continue;
                }
            }
            self.path[depth].remove(&self.layout.leaf, at);
            let edit = match is_mended {
                true => self.mend_alone(depth, (2 * self.layout.half(1) - 1, false)),
                false => Ok(()),
            };
            self.finish(edit)?;
            return Ok(true);
        }
    }

    /// The depth of the highest of the nodes, right above the leaf, that cannot do without an entry; that of
    /// the leaf where its parent can. The root can.
    fn highest_meagre(&self) -> usize {
        let least = self.layout.internal.capacity / 2;
        let parents = self.path.get(1..self.height - 1).unwrap_or(&[]);
        let count = parents.iter().rev().take_while(|node| node.count() <= least).count();
        self.height - 1 - count
    }

    /// Mends a node below a parent that can do without an entry; as [`BPlusTree::mend`].
    fn mend_alone(&mut self, depth: usize, merged: (usize, bool)) -> Result<(), IndexFault> {
        self.borrow_frames(depth);
        if let Mended::Merged(child) = self.mend(depth, merged)?
            && depth == 1
            && self.path[0].count() == 1
        {
            self.lower_root(child);
        }
        Ok(())
    }

    /// Sees to it that there are frames for a new neighbour of a node of the path, or for both halves of the
    /// root: those of nodes lend theirs that are neither it nor its parent.
    fn borrow_frames(&mut self, depth: usize) {
        let wanted = self.extra_used + if depth == 0 { 2 } else { 1 };
        for at in (0..self.path.len()).rev().filter(|&at| at != depth && at + 1 != depth) {
            if self.extra.len() >= wanted {
                return;
            }
            let lender = &mut self.path[at];
            if !lender.is_lent() {
                let bytes = core::mem::take(&mut lender.bytes);
                self.extra.push(Frame { bytes, slot: 0, is_dirty: false });
                lender.is_dirty = false;
            }
        }
        while self.extra.len() < wanted {
            self.extra.push(self.layout.frame());
        }
    }

    /// Gives a frame of the path the page of RAM that it lent, or that another has to spare.
    pub(super) fn give_back(&mut self, depth: usize) {
        let is_there = self.path.get(depth).is_some_and(|frame| !frame.is_lent());
        if is_there || self.extra.len() <= self.extra_used {
            if !is_there && depth < self.path.len() {
                self.path[depth] = self.layout.frame();
            }
            return;
        }
        let Some(frame) = self.extra.pop() else { return };
        match self.path.get_mut(depth) {
            Some(place) => *place = frame,
            None => self.path.push(frame),
        }
    }

    /// Sees to it that so many free pages are known; whether the path was lost by that.
    fn seek_room(&mut self, pages: usize) -> Result<bool, IndexFault> {
        if self.space.room() as usize >= pages {
            return Ok(false);
        }
        let roomiest = self.space.roomiest(pages as u32).ok_or(IndexError::Full)?;
        self.space.look_at(roomiest);
        self.begin();
        for lpn in [SUPERBLOCK, ROOT] {
            self.space.mark(lpn);
        }
        self.fetch(0, ROOT, Some(self.height), Cause::Host)?;
        self.claim_below(0, Cause::Host)?;
        Ok(true)
    }

    /// Fills an empty tree record by record. After an error the tree is empty still.
    pub(super) fn load_least(&mut self, records: Records<'_, '_>) -> Result<u64, IndexFault> {
        self.ready()?;
        self.begin();
        self.fetch(0, ROOT, Some(self.height), Cause::Host)?;
        if self.height > 1 || self.path[0].count() > 0 {
            return Err(IndexError::Unsupported(words("a bulk load needs an empty tree").into()).into());
        }
        let loaded = self.append_all(records);
        if loaded.is_err() && !self.is_interrupted {
            self.clear()?;
        }
        loaded
    }

    fn append_all(&mut self, records: Records<'_, '_>) -> Result<u64, IndexFault> {
        let format = self.layout.record;
        let mut last = [0; 255];
        let last = &mut last[..usize::from(format.key_bytes)];
        let mut count = 0;
        for (key, value) in records {
            format.check_key(key)?;
            format.check_value(value)?;
            if count > 0 && (*last).cmp(key) != Ordering::Less {
                return Err(IndexError::NotSorted { position: count }.into());
            }
            last.copy_from_slice(key);
            self.insert_least(key, value)?;
            count += 1;
        }
        Ok(count)
    }

    /// Makes the tree an empty root.
    fn clear(&mut self) -> Result<(), IndexFault> {
        self.begin();
        self.give_back(0);
        self.path[0].reset(ROOT, 1);
        self.path[0].seal();
        self.store.write(ROOT, Cause::Host, &self.path[0].bytes)?;
        self.path[0].is_dirty = false;
        self.height = 1;
        self.space = space(&self.layout);
        for lpn in [SUPERBLOCK, ROOT] {
            self.space.claim(lpn);
        }
        (ROOT.0 + 1..self.layout.page_count).try_for_each(|lpn| super::trim(&mut self.store, Lpn(lpn)))
    }
}

//! The tree in the least RAM.
//!
//! The path is in RAM, as always, and at least three pages. An operation changes at most three pages:
//! - A full leaf is split below a parent with room. So the full nodes above it are split before, from the
//!   highest on, each in a group of its own: the node, its new neighbour and its parent; or both halves of
//!   the root, and the root.
//! - A leaf with too few records is mended below a parent that can do without an entry. So the nodes above it
//!   that cannot are evened out or merged before, in the same way.
//!
//! Each group leaves a tree with the same records, so a cut between two of them does no harm. Then the path
//! is read again. A new node or a neighbour takes the page of RAM of a frame of the path that is not involved
//! ([`Frame::is_lent`]).
//!
//! Free pages are known of one part of the store at a time ([`Space::windowed`]). If it has too few left, the
//! internal nodes are read to find those of another part.

use super::page::{self, Frame, LEAST_CAPACITY, Layout, ROOT, SUPERBLOCK};
use super::pages::trim;
use super::rules::{Overflow, Underflow};
use super::{Core, Work};
use crate::check::{IndexError, Limit};
use crate::fault::IndexFault;
use crate::nand::Cause;
use crate::ordered::Records;
use crate::store::PageStore;
use crate::store::space::Space;
use crate::units::Lpn;
use core::cmp::Ordering;

/// Largest number of pages that an operation changes.
const PAGES_MAX: usize = 3;

/// Number of parts of the store, of which one is known at a time. A part has at least `PART_MIN` pages.
const PARTS: u32 = 16;
const PART_MIN: u32 = 512;

/// True if a tree on this store can do with the least RAM.
pub(super) fn is_possible(layout: &Layout, store: &(impl PageStore + ?Sized)) -> bool {
    cfg!(feature = "in-parts")
        && layout.internal.capacity >= LEAST_CAPACITY
        && (layout.overflow, layout.underflow) == (Overflow::Split, Underflow::Merge)
        && store.durable_writes()
        && store.atomic_pages_max() >= layout.group_pages_max()
}

/// Map of the free pages of the store, one part at a time.
pub(super) fn space(layout: &Layout) -> Space {
    Space::windowed(layout.page_count, part_pages(layout))
}

fn part_pages(layout: &Layout) -> u32 {
    layout.page_count.div_ceil(PARTS).max(PART_MIN)
}

/// Bytes of RAM that the tree takes besides the store.
pub(super) fn ram_bytes(layout: &Layout) -> usize {
    let frames = layout.height_max().max(PAGES_MAX);
    let lists = 2 * (layout.height_max() + 1) * size_of::<Lpn>();
    frames * (layout.page_bytes + size_of::<Frame>())
        + Space::windowed_bytes(layout.page_count, part_pages(layout))
        + lists
}

impl Core {
    /// True if the tree takes the least RAM.
    pub(super) fn is_least(&self) -> bool {
        cfg!(feature = "in-parts") && self.least
    }

    /// Splits an internal node of the path in halves. The half through which the path goes does not get more
    /// entries than the other.
    fn halve(&mut self, depth: usize) -> Result<(), IndexFault> {
        let (shape, level) = (self.nodes.layout.internal, self.nodes.level(depth));
        let (full, slot) = (self.nodes.path[depth].count(), self.nodes.path[depth].slot);
        let lower = if slot < full / 2 { full / 2 } else { full.div_ceil(2) };
        if depth > 0 {
            let right = self.new_node(level)?;
            let nodes = &mut self.nodes;
            page::move_right(&shape, &mut nodes.path[depth], &mut nodes.extra[right], full - lower);
            return self.announce(depth, right);
        }
        let (left, right) = (self.new_node(level)?, self.new_node(level)?);
        let nodes = &mut self.nodes;
        nodes.extra[left].copy_node(&nodes.path[0]);
        let (below, above) = nodes.extra.split_at_mut(right);
        page::move_right(&shape, &mut below[left], &mut above[0], full - lower);
        nodes.put_root_above(left..right + 1);
        Ok(())
    }
}

impl Work<'_> {
    pub(super) fn insert_least(&mut self, key: &[u8], value: &[u8]) -> Result<bool, IndexFault> {
        loop {
            let found = self.find(key)?;
            let nodes = &mut self.core.nodes;
            let edit = match found {
                Ok(at) => {
                    nodes.overwrite(at, value);
                    Ok(())
                }
                Err(at) => {
                    if nodes.leaf().count() == nodes.layout.leaf.capacity {
                        let (highest, height) = (nodes.highest_full(), nodes.height);
                        if self.seek_room(height - highest + usize::from(highest == 0))? {
                            continue;
                        }
                        if highest + 1 < height {
                            self.split_ahead(highest)?;
                            continue;
                        }
                        self.core.nodes.borrow_frames(highest);
                    }
                    self.core.add(at, key, value)
                }
            };
            self.finish(edit)?;
            return Ok(found.is_ok());
        }
    }

    /// Splits a full internal node of the path below a parent with room, or the root. The half through which
    /// the path goes does not get more entries than the other, since it gets one soon.
    fn split_ahead(&mut self, depth: usize) -> Result<(), IndexFault> {
        let nodes = &mut self.core.nodes;
        debug_assert_eq!(
            nodes.path[depth].count(),
            nodes.layout.internal.capacity,
            "B4: a split of no full node"
        );
        if depth == 0 && nodes.height == nodes.layout.height_max() {
            return Err(IndexError::Full(Limit::Height).into());
        }
        nodes.borrow_frames(depth);
        let edit = self.core.halve(depth);
        self.finish(edit)
    }

    pub(super) fn remove_least(&mut self, key: &[u8]) -> Result<bool, IndexFault> {
        loop {
            let Ok(at) = self.find(key)? else { return Ok(false) };
            let nodes = &mut self.core.nodes;
            let (depth, half) = (nodes.height - 1, nodes.layout.half(1));
            let is_mended = depth > 0 && nodes.leaf().count() <= half;
            if is_mended {
                let (highest, most) = (nodes.highest_meagre(), nodes.layout.internal.capacity);
                if highest < depth {
                    let mended = self.mend_alone(highest, (most, true));
                    self.finish(mended)?;
                    continue;
                }
            }
            let nodes = &mut self.core.nodes;
            nodes.path[depth].remove(&nodes.layout.leaf, at);
            let edit = match is_mended {
                true => self.mend_alone(depth, (2 * half - 1, false)),
                false => Ok(()),
            };
            self.finish(edit)?;
            return Ok(true);
        }
    }

    /// Mends a node, as [`Work::mend`] does, below a parent that can do without an entry.
    fn mend_alone(&mut self, depth: usize, merged: (usize, bool)) -> Result<(), IndexFault> {
        self.core.nodes.borrow_frames(depth);
        let mended = self.mend(depth, merged)?;
        self.lower_root_above(depth, mended);
        Ok(())
    }

    /// Makes sure that `pages` free pages are known. Returns true if this overwrote the path in RAM.
    fn seek_room(&mut self, pages: usize) -> Result<bool, IndexFault> {
        let space = &mut self.core.pages.space;
        if space.room() as usize >= pages {
            return Ok(false);
        }
        let roomiest = space.roomiest(pages as u32).ok_or(IndexError::NO_BLOCK)?;
        space.look_at(roomiest);
        for lpn in [SUPERBLOCK, ROOT] {
            space.mark(lpn);
        }
        self.fetch_root(Cause::Host)?;
        self.claim_below(0, Cause::Host)?;
        Ok(true)
    }

    /// Fills an empty tree record by record. After an error the tree is still empty.
    pub(super) fn load_least(&mut self, records: Records<'_, '_>) -> Result<u64, IndexFault> {
        self.require_empty()?;
        let loaded = self.append_all(records);
        if loaded.is_err() && !self.core.mark.is_interrupted {
            self.clear()?;
        }
        loaded
    }

    fn append_all(&mut self, records: Records<'_, '_>) -> Result<u64, IndexFault> {
        let format = self.core.nodes.layout.record;
        let mut last = [0; 255];
        let last = &mut last[..usize::from(format.key_bytes)];
        let mut count = 0;
        for (key, value) in records {
            format.check(key, value)?;
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
        self.core.begin();
        let nodes = &mut self.core.nodes;
        nodes.give_back(0);
        nodes.path[0].reset(ROOT, 1);
        nodes.path[0].seal();
        self.store.write(ROOT, Cause::Host, &nodes.path[0].bytes)?;
        nodes.path[0].is_dirty = false;
        nodes.height = 1;
        let pages = nodes.layout.page_count;
        self.core.pages.space = space(&nodes.layout);
        for lpn in [SUPERBLOCK, ROOT] {
            self.core.pages.space.claim(lpn);
        }
        (ROOT.0 + 1..pages).try_for_each(|lpn| trim(self.store, Lpn(lpn)))
    }
}

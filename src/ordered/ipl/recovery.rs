//! Mounting after a power cut: the tree is found again from the tags and the log units alone.
//!
//! 1. A look at every page (`views`) finds `S`, the highest number that any page calls committed. What is
//!    newer than `S` is void.
//! 2. Of each node the newest version that is not void counts: its images and ghost records are ordered by
//!    sequence number, then by generation. A merge that is not complete counts for nothing.
//! 3. A walk over the inner nodes finds which nodes belong to the tree; others were removed.
//! 4. What no cut can have taken is missed (`losses`): the mount is refused.
//! 5. Void blocks and cut merges are erased.
//! 6. The session gets a new number, on the chip, before anything else is programmed.
//! 7. Blocks with void pages are merged and erased, so that their numbers are never taken for committed ones
//!    later.
//!
//! Steps 5 to 7 are for writing. Where the chip has no block left for them the tree is read-only.
//!
//! In each block as many pages are left unused after the last whole one as sessions may have torn one there:
//! a page may read as erased and yet be half programmed.

use super::checkpoint::Saved;
use super::image::Node;
use super::layout::{Change, Head, NO_UNIT, PageKind, groups, records};
use super::store::{ROOT, Slot, Store};
use super::views::View;
use crate::check::IndexError;
use crate::nand::{Cause, Nand};
use crate::units::Pbn;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

/// A version of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Version {
    pub(super) sequence: u64,
    pub(super) generation: u32,
    pub(super) slot: Slot,
}

/// By node: the number that it was placed at in a block, and where.
type Placed = BTreeMap<u32, (u64, Slot)>;

/// By node: the number of its newest log record, and the block of that.
type Logged = BTreeMap<u32, (u64, Pbn)>;

/// The contents of the blocks that are not void.
#[derive(Default)]
pub(super) struct Held {
    /// The newest version of each node.
    pub(super) versions: Vec<Option<Version>>,
    /// The newest log record of each node, and its block.
    pub(super) logged: Logged,
    /// Blocks with void pages.
    pub(super) tainted: Vec<Pbn>,
}

impl<N: Nand> Store<N> {
    /// Finds the tree on a chip that was not closed.
    pub(super) fn recover(&mut self, saved: &Saved) -> Result<(), IndexError> {
        let views = self.look_around(saved.generation)?;
        let committed =
            views.iter().map(|view| view.newest_committed).max().unwrap_or(0).max(saved.committed);
        self.committed = committed;
        self.sequence = views.iter().map(|view| view.newest).max().unwrap_or(0).max(committed);
        // The newest blocks may be gone again; their numbers are not given twice.
        let generations = views.iter().map(|view| view.generation);
        self.generation = generations.fold(self.opened.max(saved.generation), u32::max);
        self.session = saved.session;
        if let Some(view) = views.iter().find(|view| view.newest_session() > saved.session) {
            let (what, at) =
                ("the checkpoint that began a session is missing", self.geometry.page_at(view.pbn, 0));
            return Err(IndexError::Corrupted { what, at: u64::from(at.0) });
        }
        if views.iter().any(|view| view.is_complete() && view.is_void(committed) && !view.protected) {
            return Err(IndexError::NotCleanlyClosed);
        }
        let held = self.versions(&views)?;
        self.choose(&held.versions, &views)?;
        self.notice_losses(&views, &held, saved)?;
        self.session += 1;
        self.place_cursors(&views);
        debug_assert!(
            self.committed <= self.sequence && self.opened <= self.generation,
            "I7: {} is committed of {}, {} opened of {}",
            self.committed,
            self.sequence,
            self.opened,
            self.generation
        );
        self.settle_states()?;
        match self.tidy_up(&views, &held.tainted) {
            Err(error) if error.is_refusal() => {
                self.read_only = true;
                Ok(())
            }
            other => other,
        }
    }

    /// Makes the chip fit for more: what is void goes, and the new session is known.
    fn tidy_up(&mut self, views: &[View], tainted: &[Pbn]) -> Result<(), IndexError> {
        let committed = self.committed;
        // Before there is a new session: a merge of this one is never found cut later.
        for view in views.iter().filter(|view| view.is_void(committed) || !view.is_complete()) {
            self.erase_unused(view.pbn)?;
        }
        self.write_checkpoint(false)?;
        self.clean(tainted)?;
        self.committed = self.sequence;
        Ok(())
    }

    /// The versions that the blocks hold. Blocks that are not whole give none, but what they log is known.
    fn versions(&mut self, views: &[View]) -> Result<Held, IndexError> {
        let (mut held, committed) = (Held::default(), self.committed);
        for view in views.iter().filter(|view| !view.is_void(committed)) {
            let mut here = BTreeMap::new();
            let has_void = self.read_block(view, &mut here, &mut held.logged)?;
            if !view.is_complete() {
                continue;
            }
            if has_void {
                held.tainted.push(view.pbn);
            }
            for (id, (sequence, slot)) in here {
                let version = Version { sequence, generation: view.generation, slot };
                offer(&mut held.versions, id, version, self.geometry.pages());
            }
        }
        Ok(held)
    }

    /// The nodes of a block, each with the number it was placed there at. True: some pages are void.
    fn read_block(
        &mut self,
        view: &View,
        here: &mut Placed,
        logged: &mut Logged,
    ) -> Result<bool, IndexError> {
        let (mut has_void, per_page) = (false, self.units_per_page());
        for page in 0..self.geometry.pages_per_block {
            let ppn = self.geometry.page_at(view.pbn, page);
            let Some(tag) = self.read_spare(ppn)?.filter(|tag| tag.generation == view.generation) else {
                continue;
            };
            let beyond = view.last_image.is_none_or(|(last, _)| page > last);
            match tag.kind {
                PageKind::Data if beyond => {}
                PageKind::Data if tag.sequence > self.committed => has_void = true,
                PageKind::Data => {
                    let slot = Slot { block: view.pbn.0, base: page as u16, last: NO_UNIT };
                    let old = here.get(&tag.node).map_or(0, |old| old.0);
                    if tag.sequence >= old {
                        here.insert(tag.node, (tag.sequence, slot));
                    }
                }
                PageKind::Log => {
                    if !self.read_log_page(ppn)? {
                        continue;
                    }
                    for (i, head) in self.units_in_page(view.generation) {
                        if head.first > self.committed {
                            has_void = true;
                        } else {
                            self.read_unit(view.pbn, (page * per_page + i, i, head), here, logged);
                        }
                    }
                }
            }
        }
        Ok(has_void)
    }

    /// Takes the ghosts and the chains of a unit in the page buffer over.
    fn read_unit(
        &self,
        pbn: Pbn,
        (unit, in_page, head): (u32, u32, Head),
        here: &mut Placed,
        logged: &mut Logged,
    ) {
        let size = self.format.unit_bytes;
        let at = in_page as usize * size;
        for group in groups(&self.page[at..at + size]).flatten() {
            let found = records(self.shapes.widths(), head.first, group.records).flatten();
            for (sequence, change) in found {
                let newest = logged.entry(group.node).or_insert((sequence, pbn));
                *newest = (sequence, pbn).max(*newest);
                let (Change::Ghost { base, .. } | Change::GhostOfAll { base, .. }) = change else { continue };
                if here.get(&group.node).is_none_or(|old| old.0 < sequence) {
                    here.insert(group.node, (sequence, Slot { block: pbn.0, base, last: NO_UNIT }));
                }
            }
            if let Some((_, slot)) = here.get_mut(&group.node) {
                slot.last = unit as u16;
            }
        }
    }

    /// Takes the nodes that the tree reaches, and only those.
    fn choose(&mut self, versions: &[Option<Version>], views: &[View]) -> Result<(), IndexError> {
        for view in views {
            self.block(view.pbn).generation = view.generation;
        }
        let slot = |version: &Option<Version>| version.map_or(Slot::NONE, |version| version.slot);
        self.slots = versions.iter().map(slot).collect();
        self.reach()
    }

    /// Takes the nodes that the tree reaches, of those that have a place.
    pub(super) fn reach(&mut self) -> Result<(), IndexError> {
        let mut reached = vec![false; self.slots.len()];
        let mut node = Node::default();
        let mut todo = vec![(ROOT, 0)];
        while let Some((id, level)) = todo.pop() {
            self.slot(id)?;
            if core::mem::replace(&mut reached[id as usize], true) {
                return Err(IndexError::Corrupted { what: "I3: a node is reached twice", at: u64::from(id) });
            }
            if level == 1 {
                continue;
            }
            self.load(id, &mut node, Cause::Recovery)?;
            if level != 0 && node.level != level {
                return Err(IndexError::Corrupted { what: "I2: a node of another level", at: u64::from(id) });
            }
            if node.level > 1 {
                todo.extend((0..node.count).map(|i| (node.child(&self.shapes, i), node.level - 1)));
            }
        }
        for (id, is_reached) in (0u32..).zip(reached) {
            if is_reached {
                let block = self.slots[id as usize].block;
                self.blocks[block as usize].live += 1;
            } else {
                self.slots[id as usize] = Slot::NONE;
                self.free_ids.push(id);
            }
        }
        self.free_ids.reverse();
        Ok(())
    }

    /// Where each block goes on, behind all pages that may be torn.
    fn place_cursors(&mut self, views: &[View]) {
        let (pages, per_page) = (self.geometry.pages_per_block, self.units_per_page());
        let (fixed, session) = (self.is_fixed(), self.session);
        let first_log = pages - self.format.log_pages;
        let after = |page: u32, since: u32, end: u32| {
            (page + 1).saturating_add(session.saturating_sub(since)).min(end)
        };
        for view in views {
            let images = view.last_image.map_or((0, view.first_session), |last| last);
            let block = &mut self.blocks[view.pbn.index()];
            block.units = view.units;
            block.born = view.merge_sequence;
            block.newest = view.newest.min(self.committed);
            if fixed {
                block.data_next = after(images.0, images.1, first_log) as u16;
                let (page, since) = view.last_log.unwrap_or((first_log - 1, view.first_session));
                block.cursor = (after(page, since, pages) * per_page) as u16;
            } else {
                let (page, since) = view.last_log.map_or(images, |log| log.max(images));
                block.cursor = (after(page, since, pages) * per_page) as u16;
            }
        }
    }

    /// Merges the blocks that have void pages, and erases them.
    fn clean(&mut self, tainted: &[Pbn]) -> Result<(), IndexError> {
        for &pbn in tainted {
            if self.blocks[pbn.index()].live > 0 {
                self.merge(&[pbn], self.format.nodes_limit(self.geometry), Cause::Recovery)?;
            }
            self.erase_unused(pbn)?;
        }
        Ok(())
    }

    fn erase_unused(&mut self, pbn: Pbn) -> Result<(), IndexError> {
        // The checkpoint or a merge may have taken the block in the meantime, erased.
        if self.table.state(pbn) != crate::blocks::BlockState::Unclean {
            return Ok(());
        }
        debug_assert!(self.blocks[pbn.index()].live == 0, "I4: {pbn} is erased and has nodes");
        self.table.claim(pbn);
        if self.table.erase(&mut self.nand, pbn, Cause::Recovery)? {
            self.table.release(pbn);
        }
        Ok(())
    }
}

/// Takes a version if it is the newest one of its node so far.
pub(super) fn offer(versions: &mut Vec<Option<Version>>, id: u32, version: Version, nodes_max: u32) {
    // A number beyond all pages is that of no node.
    if id >= nodes_max.saturating_mul(2) {
        return;
    }
    if versions.len() <= id as usize {
        versions.resize(id as usize + 1, None);
    }
    let best = &mut versions[id as usize];
    let rank = |version: &Version| (version.sequence, version.generation);
    if best.as_ref().is_none_or(|old| rank(old) < rank(&version)) {
        *best = Some(version);
    }
}

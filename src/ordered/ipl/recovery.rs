//! Mounting after a power cut: the tree is found again from the tags and the log units alone.
//!
//! 1. A look at every page finds `S`, the highest number that any page calls committed. What is newer than `S` is void.
//! 2. Of each node the newest version that is not void counts: its images and ghost records are ordered by sequence number,
//!    then by generation. A merge that is not complete counts for nothing.
//! 3. A walk over the inner nodes finds which nodes belong to the tree; others were removed.
//! 4. Void blocks and cut merges are erased.
//! 5. The session gets a new number, on the chip, before anything else is programmed.
//! 6. Blocks with void pages are merged and erased, so that their numbers are never taken for committed ones later.
//!
//! In each block as many pages are left unused after the last whole one as sessions may have torn one there: a page may read
//! as erased and yet be half programmed.

use super::checkpoint::Saved;
use super::image::Node;
use super::layout::{Change, Head, Link, NO_UNIT, PageKind, Tag, groups, records};
use super::store::{NO_BLOCK, ROOT, Slot, Store};
use crate::check::IndexError;
use crate::codec::crc32;
use crate::nand::{Cause, Nand, NandError};
use crate::units::{Pbn, Ppn};
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

/// A block of which none of the first pages has a tag holds nothing. More than one is tried, so that one damaged page does
/// not hide the block and bring older versions of its nodes back.
const FIRST_PAGES: u32 = 4;

/// What the first look at a block finds.
#[derive(Clone, Debug)]
struct View {
    pbn: Pbn,
    generation: u32,
    /// Pages of the merge that opened the block, and how many of them are whole.
    merged: (u16, u16),
    /// The merge contains what is up to this number.
    merge_sequence: u64,
    protected: bool,
    first_session: u32,
    /// The last image: page, session.
    last_image: Option<(u32, u32)>,
    /// The last page with a log unit: page, session.
    last_log: Option<(u32, u32)>,
    /// Log units found, and whether they are all.
    units: u16,
    gap: bool,
    newest_committed: u64,
    newest: u64,
    /// Which units are whole, or begin a whole image; and what was programmed before each.
    whole: Vec<bool>,
    links: Vec<Link>,
    /// A page that cannot be read may have held sectors.
    unreadable: Option<Ppn>,
}

impl View {
    fn is_complete(&self) -> bool {
        self.merged.0 == self.merged.1
    }

    fn is_void(&self, committed: u64) -> bool {
        self.merged.1 > 0 && self.merge_sequence > committed
    }
}

/// A version of a node.
#[derive(Clone, Copy, Debug)]
struct Version {
    sequence: u64,
    generation: u32,
    slot: Slot,
}

impl<N: Nand> Store<N> {
    /// Finds the tree on a chip that was not closed.
    pub(super) fn recover(&mut self, saved: Saved) -> Result<(), IndexError> {
        let mut views = Vec::new();
        for pbn in (0..self.geometry.blocks).map(Pbn) {
            use crate::ftl::blocks::BlockState::{Bad, Reserved};
            if matches!(self.table.state(pbn), Bad | Reserved) {
                continue;
            }
            if let Some(view) = self.look_at(pbn)? {
                views.push(view);
            }
        }
        let committed =
            views.iter().map(|view| view.newest_committed).max().unwrap_or(0).max(saved.committed);
        self.committed = committed;
        self.sequence = views.iter().map(|view| view.newest).max().unwrap_or(0).max(committed);
        self.generation = views.iter().map(|view| view.generation).max().unwrap_or(0).max(saved.generation);
        self.session = saved.session;
        if views.iter().any(|view| view.is_complete() && view.is_void(committed) && !view.protected) {
            return Err(IndexError::NotCleanlyClosed);
        }
        let (versions, tainted) = self.versions(&views)?;
        self.choose(&versions, &views)?;
        self.notice_losses(&views, &versions, &saved)?;
        self.session += 1;
        self.place_cursors(&views);
        self.settle_states()?;
        // Before there is a new session: a merge of this one is never found cut later.
        for view in views.iter().filter(|view| view.is_void(committed) || !view.is_complete()) {
            self.erase_unused(view.pbn)?;
        }
        self.write_checkpoint(false)?;
        self.clean(&tainted)?;
        self.committed = self.sequence;
        Ok(())
    }

    fn read_spare(&mut self, ppn: Ppn) -> Result<Option<Tag>, IndexError> {
        let mut spare = core::mem::take(&mut self.spare);
        let read = self.nand.read(ppn, Cause::Recovery, &mut [], &mut spare);
        let tag = Tag::decode(&spare);
        self.spare = spare;
        match read {
            Ok(()) => Ok(tag),
            Err(NandError::Uncorrectable(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads a page whole into the page buffer; false when it cannot be read.
    fn read_page(&mut self, ppn: Ppn) -> Result<bool, IndexError> {
        match self.nand.read(ppn, Cause::Recovery, &mut self.page, &mut []) {
            Ok(()) => Ok(true),
            Err(NandError::Uncorrectable(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// The heads of the whole units in the page buffer, with their places in the page.
    fn units_in_page(&self, generation: u32) -> Vec<(u32, Head)> {
        let units = self.page.chunks_exact(self.format.unit_bytes);
        let heads = (0u32..).zip(units).filter_map(|(i, unit)| Some((i, Head::decode(unit)?)));
        heads.filter(|(_, head)| head.generation == generation).collect()
    }

    /// What a block holds; `None` when its first pages say nothing.
    fn look_at(&mut self, pbn: Pbn) -> Result<Option<View>, IndexError> {
        if self.nand.is_bad(pbn)? {
            self.table.retire(pbn);
            return Ok(None);
        }
        let mut first = None;
        for page in 0..FIRST_PAGES.min(self.geometry.pages_per_block) {
            first = self.read_spare(self.geometry.page_at(pbn, page))?;
            if first.is_some() {
                break;
            }
        }
        let Some(first) = first else { return Ok(None) };
        let mut view = View {
            pbn,
            generation: first.generation,
            merged: (0, first.place.1),
            merge_sequence: first.sequence,
            protected: first.protected,
            first_session: first.session,
            last_image: None,
            last_log: None,
            units: 0,
            gap: false,
            newest_committed: 0,
            newest: 0,
            whole: vec![false; self.units_per_block() as usize],
            links: Vec::new(),
            unreadable: None,
        };
        for page in 0..self.geometry.pages_per_block {
            self.look_at_page(&mut view, page)?;
        }
        // Only the last image can be half programmed and yet have a whole tag.
        if let Some((page, _)) = view.last_image
            && !self.is_whole(self.geometry.page_at(pbn, page))?
        {
            self.forget_last_image(&mut view, page)?;
        }
        Ok(view.last_image.is_some().then_some(view))
    }

    fn look_at_page(&mut self, view: &mut View, page: u32) -> Result<(), IndexError> {
        let ppn = self.geometry.page_at(view.pbn, page);
        let tag = self.read_spare(ppn)?.filter(|tag| tag.generation == view.generation);
        match tag {
            Some(tag) if tag.kind == PageKind::Data => {
                if tag.place.1 > 0 {
                    view.merged.0 +=
                        u16::from(u32::from(tag.place.0) == page && tag.place.1 == view.merged.1);
                }
                view.last_image = Some((page, tag.session));
                view.whole[(page * self.units_per_page()) as usize] = true;
                view.links.push(tag.before);
                view.newest = view.newest.max(tag.sequence);
                view.newest_committed = view.newest_committed.max(tag.committed);
            }
            Some(_) => {
                if !self.read_page(ppn)? {
                    return Ok(());
                }
                view.newest = view.newest.max(self.newest_in_page(view.generation));
                for (i, head) in self.units_in_page(view.generation) {
                    view.whole[(page * self.units_per_page() + i) as usize] = true;
                    view.links.push(head.before);
                    view.gap |= head.ordinal != view.units;
                    view.units += 1;
                    view.last_log = Some((page, head.session));
                    view.newest_committed = view.newest_committed.max(head.committed);
                }
            }
            None if self.units_per_page() > 1 && !self.read_page(ppn)? => view.unreadable = Some(ppn),
            None => {}
        }
        Ok(())
    }

    /// The highest sequence number of the records in the page buffer.
    fn newest_in_page(&self, generation: u32) -> u64 {
        let widths = self.shapes.widths();
        let mut newest = 0;
        for unit in self.page.chunks_exact(self.format.unit_bytes) {
            let Some(head) = Head::decode(unit).filter(|head| head.generation == generation) else {
                continue;
            };
            newest = newest.max(head.first);
            for group in groups(unit).flatten() {
                let numbers = records(widths, head.first, group.records).flatten().map(|record| record.0);
                newest = newest.max(numbers.max().unwrap_or(0));
            }
        }
        newest
    }

    fn is_whole(&mut self, ppn: Ppn) -> Result<bool, IndexError> {
        let tag = self.read_spare(ppn)?;
        let read = self.read_page(ppn)?;
        Ok(read && tag.is_some_and(|tag| tag.data_crc == crc32(&[&self.page])))
    }

    /// The last image is torn: what the block says without it.
    fn forget_last_image(&mut self, view: &mut View, torn: u32) -> Result<(), IndexError> {
        let place = self.read_spare(self.geometry.page_at(view.pbn, torn))?.map_or(0, |tag| tag.place.1);
        if place > 0 {
            view.merged.0 = view.merged.0.saturating_sub(1);
        }
        (view.last_image, view.newest, view.newest_committed) = (None, 0, 0);
        view.whole.fill(false);
        view.links.clear();
        let (units, gap, merged) = (view.units, view.gap, view.merged);
        for page in (0..self.geometry.pages_per_block).filter(|&page| page != torn) {
            self.look_at_page(view, page)?;
        }
        (view.units, view.gap, view.merged) = (units, gap, merged);
        Ok(())
    }

    /// The newest version of each node that is not void, and which blocks have void pages.
    fn versions(&mut self, views: &[View]) -> Result<(Vec<Option<Version>>, Vec<Pbn>), IndexError> {
        let (mut versions, mut tainted) = (Vec::new(), Vec::new());
        for view in views {
            if view.is_void(self.committed) || !view.is_complete() {
                continue;
            }
            let mut here = BTreeMap::new();
            if self.read_block(view, &mut here)? {
                tainted.push(view.pbn);
            }
            for (id, (sequence, slot)) in here {
                let version = Version { sequence, generation: view.generation, slot };
                offer(&mut versions, id, version, self.geometry.pages());
            }
        }
        Ok((versions, tainted))
    }

    /// The nodes of a block, each with the number it was placed there at. True: some pages are void.
    fn read_block(&mut self, view: &View, here: &mut BTreeMap<u32, (u64, Slot)>) -> Result<bool, IndexError> {
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
                    if !self.read_page(ppn)? {
                        continue;
                    }
                    for (i, head) in self.units_in_page(view.generation) {
                        if head.first > self.committed {
                            has_void = true;
                        } else {
                            self.read_unit(view.pbn, (page * per_page + i, i, head), here);
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
        here: &mut BTreeMap<u32, (u64, Slot)>,
    ) {
        let size = self.format.unit_bytes;
        let at = in_page as usize * size;
        for group in groups(&self.page[at..at + size]).flatten() {
            let found = records(self.shapes.widths(), head.first, group.records).flatten();
            for (sequence, change) in found {
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

    /// Refuses a chip on which something is missing that no power cut can have taken.
    fn notice_losses(
        &mut self,
        views: &[View],
        versions: &[Option<Version>],
        saved: &Saved,
    ) -> Result<(), IndexError> {
        let lost = |what, pbn: Pbn| Err(IndexError::Corrupted { what, at: u64::from(pbn.0) });
        for link in views.iter().flat_map(|view| &view.links) {
            let Ok(found) = views.binary_search_by_key(&link.block, |view| view.pbn.0) else { continue };
            let view = &views[found];
            let lives = view.generation == link.generation && self.blocks[view.pbn.index()].live > 0;
            if lives && view.whole.get(usize::from(link.unit)) == Some(&false) {
                return lost("I5: the page programmed before another one is missing", view.pbn);
            }
        }
        for view in views {
            let live = self.blocks[view.pbn.index()].live;
            if live > 0 && view.gap {
                return lost("I5: a log unit is missing", view.pbn);
            }
            if let Some(ppn) = view.unreadable.filter(|_| live > 0) {
                let what = "I5: a page of log sectors cannot be read";
                return Err(IndexError::Corrupted { what, at: u64::from(ppn.0) });
            }
            let known = saved.blocks.iter().find(|known| known.0 == view.pbn);
            let known = known.filter(|known| known.1.generation == view.generation);
            if live > 0 && known.is_some_and(|known| view.units < known.1.units) {
                return lost("I5: the last log units of a block are missing", view.pbn);
            }
            let may_be_cut = view.generation == self.generation && view.first_session == saved.session;
            if view.is_complete() || view.is_void(self.committed) || may_be_cut {
                continue;
            }
            for page in 0..self.geometry.pages_per_block {
                let tag = self.read_spare(self.geometry.page_at(view.pbn, page))?;
                let is_image = |tag: &Tag| tag.kind == PageKind::Data && tag.sequence <= self.committed;
                let Some(tag) = tag.filter(is_image) else { continue };
                let chosen = versions.get(tag.node as usize).copied().flatten();
                let in_tree = self.slots.get(tag.node as usize).is_some_and(|slot| slot.block != NO_BLOCK);
                let newer = chosen.is_none_or(|chosen| {
                    (chosen.sequence, chosen.generation) < (tag.sequence, tag.generation)
                });
                if in_tree && newer {
                    return lost("I4: an image of a merge is missing", view.pbn);
                }
            }
        }
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
        if self.table.state(pbn) != crate::ftl::blocks::BlockState::Unclean {
            return Ok(());
        }
        self.table.claim(pbn);
        if self.table.erase(&mut self.nand, pbn, Cause::Recovery)? {
            self.table.release(pbn);
        }
        Ok(())
    }
}

fn offer(versions: &mut Vec<Option<Version>>, id: u32, version: Version, nodes_max: u32) {
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

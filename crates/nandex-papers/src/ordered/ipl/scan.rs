//! Passes over the chip after a power cut, each page read once.
//!
//! Void pages must be known before the versions of the nodes can be chosen, and `S`, the highest number that
//! any page calls committed, is known for certain when all pages were read. So it is guessed first: pages are
//! programmed in order, and where each block went on since the checkpoint is found by a few reads. A pass
//! that finds another `S`, or an image that the cut tore, is made again.
//!
//! ```text
//! guess   | x y z . |  | x y . . |  | x y z z |     the first page of each block, the last programmed one
//! pass    | x x x . |  | x x . . |  | x x x x |     every page: its tag, or a page of log units whole
//! ```
//!
//! A pass keeps a row for each node and marks for each page, for as many as there is RAM for (`look`); others
//! wait for another pass.

use super::layout::{Change, Head, IplTag, NO_UNIT, PageKind, groups, records};
use super::look::{Broken, Look, flag};
use super::store::{Block, Slot, Store, corrupted};
use super::views::View;
use nandex::check::{IndexError, Invariant};
use nandex::nand::{Cause, Nand, NandError, read_again};
use nandex::units::{Pbn, Ppn};

impl<N: Nand> Store<N> {
    /// Looks at every block, of which the rows are those of the checkpoint, and finds the nodes. Some RAM may
    /// be taken.
    pub(super) fn look_around(&mut self, ram: Option<usize>) -> Result<Look, IndexError> {
        let mut look = Look::new(self.geometry, self.units_per_page(), ram);
        let saved = self.committed;
        look.committed = saved;
        self.guess(&mut look)?;
        loop {
            look.begin(true);
            self.slots = super::slots::Slots::default();
            self.pass(&mut look)?;
            look.found_committed = look.found_committed.max(saved);
            let has_torn = self.judge_broken(&mut look)?;
            if !has_torn && look.found_committed == look.committed {
                break;
            }
            if !has_torn {
                look.committed = look.found_committed;
            }
        }
        while !look.end(&mut self.slots) {
            look.begin(false);
            self.pass(&mut look)?;
        }
        look.drop_tables();
        Ok(look)
    }

    /// Finds the blocks in use, and guesses what is committed.
    fn guess(&mut self, look: &mut Look) -> Result<(), IndexError> {
        use nandex::blocks::BlockState::{Bad, Reserved};
        for pbn in (0..self.geometry.blocks).map(Pbn) {
            let known = core::mem::take(self.block(pbn));
            match self.table.state(pbn) {
                Bad => continue,
                Reserved => {
                    self.refuse_nodes_in(pbn)?;
                    continue;
                }
                _ => {}
            }
            if self.nand.is_bad(pbn)? {
                self.table.retire(pbn);
                continue;
            }
            let Some(first) = self.first_tag(pbn)? else { continue };
            look.set(pbn, flag::USED);
            let is_known = known.generation == first.generation;
            let row = Block { generation: first.generation, ..Block::default() };
            *self.block(pbn) = if is_known { known } else { row };
            if is_known {
                look.set(pbn, flag::KNOWN);
            }
            // What is neither known nor newer was programmed before the checkpoint.
            if is_known || first.generation > self.generation {
                self.guess_of(pbn, &first, is_known, look)?;
            }
        }
        look.sort_generations(&self.blocks);
        Ok(())
    }

    /// Refuses a chip on which a block of nodes stands in the place of one of checkpoints: that is erased
    /// before it becomes one, and an anchor is one for ever.
    fn refuse_nodes_in(&mut self, pbn: Pbn) -> Result<(), IndexError> {
        let first = self.geometry.page_at(pbn, 0);
        match read_again(&mut self.nand, (first, Cause::Recovery), &mut [], &mut self.spare, |_, _| true) {
            Ok(_) if IplTag::decode(&self.spare).is_some() => {
                Err(corrupted(Invariant::I4, "a page of another place", first))
            }
            Ok(_) | Err(NandError::Uncorrectable(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Guesses what the newest pages of a block call committed.
    fn guess_of(
        &mut self,
        pbn: Pbn,
        first: &IplTag,
        is_known: bool,
        look: &mut Look,
    ) -> Result<(), IndexError> {
        let (pages, per_page) = (self.geometry.pages_per_block, self.units_per_page());
        let first_log = if self.is_fixed() { pages - self.format.log_pages } else { 0 };
        let Block { cursor, data_next, .. } = self.blocks[pbn.index()];
        let merged = u32::from(first.merged).min(pages);
        // What came before the checkpoint says nothing new; the merge of a newer block does.
        let merge = merged.saturating_sub(1);
        let log = if is_known { u32::from(cursor) / per_page } else { first_log.max(merge) };
        self.guess_in(pbn, (log, pages), look)?;
        if self.is_fixed() {
            let images = if is_known { data_next.into() } else { merge };
            self.guess_in(pbn, (images, first_log), look)?;
        }
        Ok(())
    }

    /// Guesses what the last programmed page among these calls committed; those before are of one session.
    fn guess_in(&mut self, pbn: Pbn, (start, end): (u32, u32), look: &mut Look) -> Result<(), IndexError> {
        let (mut low, mut high, mut step) = (start, end, 1);
        while low < high {
            let page = if high == end { (low + step - 1).min(end - 1) } else { low.midpoint(high) };
            if self.read_spare(self.geometry.page_at(pbn, page))?.is_some() {
                (low, step) = (page + 1, 2 * step);
            } else {
                high = page;
            }
        }
        // The last one may be torn.
        for page in (start..low).rev().take(2) {
            let ppn = self.geometry.page_at(pbn, page);
            let generation = self.blocks[pbn.index()].generation;
            let (tag, _) = self.read_page(ppn, true)?;
            let Some(tag) = tag.filter(|tag| tag.generation == generation) else { continue };
            if tag.kind == PageKind::Log {
                let newest = self.units_in_page(generation).last().map(|(_, head)| head.committed);
                look.committed = look.committed.max(newest.unwrap_or(0));
                if newest.is_some() {
                    break;
                }
            } else if tag.committed <= look.committed || self.is_whole_image(ppn)? {
                look.committed = look.committed.max(tag.committed);
                break;
            }
        }
        Ok(())
    }

    /// Reads every page once.
    fn pass(&mut self, look: &mut Look) -> Result<(), IndexError> {
        for pbn in (0..self.geometry.blocks).map(Pbn) {
            if look.has(pbn, flag::USED) {
                self.look_at(pbn, look)?;
            }
        }
        Ok(())
    }

    /// A look at a block.
    fn look_at(&mut self, pbn: Pbn, look: &mut Look) -> Result<(), IndexError> {
        let torn = if look.has(pbn, flag::TORN) { self.last_image_of(pbn)? } else { None };
        look.flags[pbn.index()] &= !flag::OF_A_PASS;
        look.merging.clear();
        // That of the first page, as a rule.
        let first = self.first_tag(pbn)?;
        let first = first.ok_or(corrupted(
            Invariant::I4,
            "a page's tag does not match",
            self.geometry.page_at(pbn, 0),
        ))?;
        let mut view = View::new(pbn, &first);
        let mut expect_data = false;
        let mut last_is_whole = None;
        for page in 0..self.geometry.pages_per_block {
            if torn == Some(page) {
                continue;
            }
            let ppn = self.geometry.page_at(pbn, page);
            let (tag, has_data) = match page {
                0 if first.page == 0 => (Some(first), false),
                _ => self.read_page(ppn, self.wants_data(&view, page, expect_data))?,
            };
            expect_data = tag.is_some();
            let Some(tag) = tag else {
                if self.units_per_page() > 1 && !has_data && !self.read_log_page(ppn)? {
                    look.set(pbn, flag::UNREADABLE);
                }
                continue;
            };
            if tag.generation != view.generation {
                return Err(corrupted(Invariant::I4, "a page of another life of its block", ppn));
            }
            if tag.kind == PageKind::Data {
                last_is_whole = has_data.then(|| nandex::codec::crc32(&[&self.page]) == tag.data_crc);
                self.look_at_image(&mut view, page, &tag, look);
            } else if has_data || self.read_log_page(ppn)? {
                self.look_at_units(&mut view, page, &tag, look);
            }
            if page + 1 == u32::from(view.merged.1) {
                self.offer_merged(&view, look);
            }
        }
        self.note_view(&view, last_is_whole, look)
    }

    /// Whether a page is one of log units, as far as those before it tell.
    fn wants_data(&self, view: &View, page: u32, is_followed: bool) -> bool {
        let first_log = self.geometry.pages_per_block - self.format.log_pages;
        let may_be_log = !self.is_fixed() || page >= first_log;
        // Sectors are told from a blank page by all of it.
        page >= u32::from(view.merged.1).max(1)
            && (self.units_per_page() > 1
                || may_be_log && (is_followed || page == first_log && self.is_fixed()))
    }

    fn area_start(&self, page: u32) -> u32 {
        let first_log = self.geometry.pages_per_block - self.format.log_pages;
        if self.is_fixed() && page >= first_log { first_log } else { 0 }
    }

    fn note_tag(&mut self, tag: &IplTag, look: &mut Look) {
        self.opened = self.opened.max(tag.before.opened);
        look.note_link(&tag.before, &self.blocks);
    }

    fn look_at_image(&mut self, view: &mut View, page: u32, tag: &IplTag, look: &mut Look) {
        self.note_tag(tag, look);
        look.note_whole(view.pbn, page, page * self.units_per_page());
        look.found_committed = look.found_committed.max(tag.committed);
        view.note_image(page, tag, self.area_start(page));
        if view.is_void(look.committed) {
            return;
        }
        if tag.sequence > look.committed {
            look.set(view.pbn, flag::TAINTED);
        } else if page < u32::from(view.merged.1) {
            look.merging.push((tag.node, page as u16));
        } else if view.is_complete() {
            let slot = Slot { block: view.pbn.0, base: page as u16, last: NO_UNIT };
            look.offer(tag.node, (tag.sequence, slot, false), &self.blocks);
        }
    }

    /// Offers the nodes of the merge that opened a block, all of whose pages were looked at.
    fn offer_merged(&self, view: &View, look: &mut Look) {
        let merging = core::mem::take(&mut look.merging);
        if view.is_complete() {
            for &(id, base) in &merging {
                let slot = Slot { block: view.pbn.0, base, last: NO_UNIT };
                look.offer(id, (view.merge_sequence, slot, false), &self.blocks);
            }
        }
        look.merging = merging;
    }

    /// The units in the page buffer.
    fn look_at_units(&mut self, view: &mut View, page: u32, tag: &IplTag, look: &mut Look) {
        view.newest = view.newest.max(self.newest_in_page(view.generation));
        let units = self.units_in_page(view.generation);
        let Some(&(last, _)) = units.last() else { return };
        let first_unit = page * self.units_per_page();
        self.note_tag(tag, look);
        look.note_whole(view.pbn, page, first_unit + last);
        view.note_page(page, tag, self.area_start(page));
        for &(i, head) in &units {
            view.note_unit(page, first_unit + i, &head, tag.session);
            self.opened = self.opened.max(head.before.opened);
            look.note_link(&head.before, &self.blocks);
            look.note_dead(head.dead, &self.blocks);
            look.found_committed = look.found_committed.max(head.committed);
            if view.is_void(look.committed) {
                continue;
            }
            if head.first > look.committed {
                look.set(view.pbn, flag::TAINTED);
            } else {
                self.read_unit(view, (first_unit + i, i, head), look);
            }
        }
    }

    /// Takes the ghosts and the chains of a unit in the page buffer over. Blocks that are not whole give no
    /// versions, but what they log is known.
    fn read_unit(&self, view: &View, (unit, in_page, head): (u32, u32, Head), look: &mut Look) {
        let (size, pbn) = (self.format.unit_bytes, view.pbn);
        let at = in_page as usize * size;
        for group in groups(&self.page[at..at + size]).flatten() {
            let found = records(self.shapes.widths(), head.first, group.records).flatten();
            for (sequence, change) in found {
                look.note_record(group.node, sequence, pbn);
                let (Change::Ghost { base, .. } | Change::GhostOfAll { base, .. }) = change else { continue };
                if view.is_complete() {
                    let slot = Slot { block: pbn.0, base, last: NO_UNIT };
                    look.offer(group.node, (sequence, slot, true), &self.blocks);
                }
            }
            look.note_last(group.node, pbn, unit as u16);
        }
    }

    /// Ends the look at a block.
    fn note_view(&mut self, view: &View, is_whole: Option<bool>, look: &mut Look) -> Result<(), IndexError> {
        let pbn = view.pbn;
        if view.is_complete() {
            // A whole merge says of itself and of those before it that they were whole.
            self.opened = self.opened.max(view.generation);
        }
        if view.is_empty() {
            look.flags[pbn.index()] &= !(flag::USED | flag::TAINTED);
            *self.block(pbn) = Block { generation: view.generation, ..Block::default() };
            return Ok(());
        }
        if view.newest_session() > self.session {
            let what = "the checkpoint that began a session is missing";
            return Err(IndexError::corrupted(what, self.geometry.page_at(pbn, 0).0.into()));
        }
        look.newest = look.newest.max(view.newest);
        self.generation = self.generation.max(view.generation);
        if !view.is_complete() {
            look.flags[pbn.index()] &= !flag::TAINTED;
        }
        let found = [
            (view.is_complete(), flag::COMPLETE),
            (view.is_void(look.committed), flag::VOID),
            (!view.protected, flag::UNPROTECTED),
            (view.gap, flag::GAP),
        ];
        found.iter().filter(|found| found.0).for_each(|found| look.set(pbn, found.1));
        let known = look.has(pbn, flag::KNOWN) && !look.has(pbn, flag::SEEN);
        if known && view.units < self.blocks[pbn.index()].units {
            look.set(pbn, flag::FEWER);
        }
        look.set(pbn, flag::SEEN);
        *self.block(pbn) = self.row_of(view, look.committed);
        self.note_broken(view, is_whole, look)
    }

    /// Where a block goes on in the next session, behind all pages that may be torn.
    fn row_of(&self, view: &View, committed: u64) -> Block {
        let (pages, per_page, session) =
            (self.geometry.pages_per_block, self.units_per_page(), self.session + 1);
        let first_log = pages - self.format.log_pages;
        let after = |page: u32, since: u32, end: u32| {
            (page + 1).saturating_add(session.saturating_sub(since)).min(end)
        };
        let images = view.last_image.map_or((0, view.first_session), |last| last);
        let mut block = Block {
            generation: view.generation,
            units: view.units,
            born: view.merge_sequence.into(),
            newest: view.newest.min(committed).into(),
            ..Block::default()
        };
        if self.is_fixed() {
            block.data_next = after(images.0, images.1, first_log) as u16;
            let (page, since) = view.last_log.unwrap_or((first_log - 1, view.first_session));
            block.cursor = (after(page, since, pages) * per_page) as u16;
        } else {
            let (page, since) = view.last_log.map_or(images, |log| log.max(images));
            block.cursor = (after(page, since, pages) * per_page) as u16;
        }
        block
    }

    /// Notes a last image that is not what its tag says: only the last one can be half programmed and yet
    /// have a whole tag. One that others were programmed after is damaged, and whoever reads it will say so.
    fn note_broken(
        &mut self,
        view: &View,
        is_whole: Option<bool>,
        look: &mut Look,
    ) -> Result<(), IndexError> {
        let pbn = view.pbn;
        let (is_judged, merged) = (look.has(pbn, flag::JUDGED), u32::from(view.merged.1));
        let last = view.last_image.filter(|_| self.nand.tears() && !is_judged && !view.is_followed());
        let Some((page, _)) = last else { return Ok(()) };
        if self.was_opened(view.generation, page, merged) || is_whole == Some(true) {
            return Ok(());
        }
        if !self.is_whole_image(self.geometry.page_at(pbn, page))? {
            look.broken.push(Broken { pbn, page, merged });
        }
        Ok(())
    }

    /// Whether a page is one of a merge that was whole.
    fn was_opened(&self, generation: u32, page: u32, merged: u32) -> bool {
        generation <= self.opened && page < merged
    }

    /// Decides which last images were torn by a cut. True: there are some, and nothing of them counts.
    fn judge_broken(&mut self, look: &mut Look) -> Result<bool, IndexError> {
        let mut has_torn = false;
        for Broken { pbn, page, merged } in core::mem::take(&mut look.broken) {
            let generation = self.blocks[pbn.index()].generation;
            look.set(pbn, flag::JUDGED);
            if !self.was_opened(generation, page, merged) && !self.is_named(pbn, page, look)? {
                look.set(pbn, flag::TORN);
                has_torn = true;
            }
        }
        Ok(has_torn)
    }

    /// Whether any page names this one as that programmed before it.
    fn is_named(&mut self, pbn: Pbn, page: u32, look: &Look) -> Result<bool, IndexError> {
        let wanted = (self.blocks[pbn.index()].generation, (page * self.units_per_page()) as u16);
        for other in look.with(flag::USED) {
            for page in 0..self.geometry.pages_per_block {
                let ppn: Ppn = self.geometry.page_at(other, page);
                let Some(tag) = self.read_spare(ppn)? else { continue };
                if (tag.before.generation, tag.before.unit) == wanted {
                    return Ok(true);
                }
                if self.units_per_page() > 1 && tag.kind == PageKind::Log && self.read_log_page(ppn)? {
                    let mut heads = self.units_in_page(tag.generation).into_iter().map(|(_, head)| head);
                    if heads.any(|head| (head.before.generation, head.before.unit) == wanted) {
                        return Ok(true);
                    }
                }
            }
        }
        Ok(false)
    }
}

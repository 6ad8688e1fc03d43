//! Passes over the chip after a power cut, each page in use read once.
//!
//! A block that the checkpoint does not know and that was opened before it holds nothing: its first page is
//! read, no more. Only if a known block seems to have lost a page do the passes look at all blocks, as any of
//! them may name that page.
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

use super::form::Form;
use super::layout::{Head, IplTag, Link, NO_UNIT, PageKind, groups, records};
use super::look::{Broken, Look, flag};
use super::medium::{Medium, corrupted};
use super::numbers::Numbers;
use super::places::{Block, Places};
use super::slots::{Slot, Slots};
use super::views::View;
use nandex::blocks::BlockTable;
use nandex::check::{IndexError, Invariant};
use nandex::nand::Nand;
use nandex::units::Pbn;

/// The parts that a look at the chip reads and fills, and its findings.
pub(super) struct Scan<'a, N> {
    pub(super) form: Form,
    pub(super) medium: &'a mut Medium<N>,
    pub(super) numbers: &'a mut Numbers,
    pub(super) places: &'a mut Places,
    pub(super) table: &'a mut BlockTable,
    pub(super) look: Look,
}

impl<N: Nand> Scan<'_, N> {
    /// Looks at every block, of which the rows are those of the checkpoint, and finds the nodes.
    pub(super) fn look_around(mut self) -> Result<Look, IndexError> {
        let saved = self.numbers.committed;
        self.look.committed = saved;
        self.guess()?;
        loop {
            self.look.begin(true);
            self.places.slots = Slots::default();
            self.pass()?;
            if self.look.takes_left(&self.places.blocks) {
                continue;
            }
            let has_torn = self.judge_broken()?;
            let found = self.look.found_committed.max(saved);
            if !has_torn && found == self.look.committed {
                break;
            }
            if !has_torn {
                self.look.committed = found;
            }
        }
        while !self.look.end(&mut self.places.slots) {
            self.look.begin(false);
            self.pass()?;
        }
        self.look.drop_tables();
        Ok(self.look)
    }

    /// Finds the blocks in use, and guesses the last commit.
    fn guess(&mut self) -> Result<(), IndexError> {
        use nandex::blocks::BlockState::{Bad, Reserved};
        for pbn in (0..self.form.geometry.blocks).map(Pbn) {
            let known = core::mem::take(&mut self.places[pbn]);
            match self.table.state(pbn) {
                Bad => continue,
                Reserved => {
                    self.medium.refuse_nodes_in(pbn)?;
                    continue;
                }
                _ => {}
            }
            if self.medium.nand.is_bad(pbn)? {
                self.table.retire(pbn);
                continue;
            }
            let Some(first) = self.medium.first_tag(pbn, known.generation > 0)? else { continue };
            let is_known = known.generation == first.generation;
            let is_newer = first.generation > self.numbers.generation;
            // What is neither known nor newer was left before the checkpoint. A void merge is looked at, so
            // that it is erased.
            let is_left = !is_known && !is_newer && first.sequence <= self.numbers.committed;
            self.look.set(pbn, if is_left { flag::LEFT } else { flag::USED });
            let row = Block { generation: first.generation, ..Block::default() };
            self.places[pbn] = if is_known { known } else { row };
            if is_known {
                self.look.set(pbn, flag::KNOWN);
            }
            if is_known || is_newer {
                self.guess_of(pbn, &first, is_known)?;
            }
        }
        self.look.sort_generations(&self.places.blocks);
        Ok(())
    }

    /// Guesses the last commit from the newest pages of a block.
    fn guess_of(&mut self, pbn: Pbn, first: &IplTag, is_known: bool) -> Result<(), IndexError> {
        let (pages, per_page) = (self.form.geometry.pages_per_block, self.form.units_per_page());
        let first_log = if self.form.is_fixed() { self.form.nodes_limit() } else { 0 };
        let Block { cursor, data_next, .. } = self.places[pbn];
        let merged = u32::from(first.merged).min(pages);
        // What came before the checkpoint says nothing new; the merge of a newer block does.
        let merge = merged.saturating_sub(1);
        let log = if is_known { u32::from(cursor) / per_page } else { first_log.max(merge) };
        self.guess_in(pbn, (log, pages))?;
        if self.form.is_fixed() {
            let images = if is_known { data_next.into() } else { merge };
            self.guess_in(pbn, (images, first_log))?;
        }
        Ok(())
    }

    /// Guesses the commit named by the last programmed page in a range whose earlier pages are of one
    /// session.
    fn guess_in(&mut self, pbn: Pbn, (start, end): (u32, u32)) -> Result<(), IndexError> {
        let (mut low, mut high, mut step) = (start, end, 1);
        while low < high {
            let page = if high == end { (low + step - 1).min(end - 1) } else { low.midpoint(high) };
            if self.medium.read_spare(self.form.geometry.page_at(pbn, page))?.is_some() {
                (low, step) = (page + 1, 2 * step);
            } else {
                high = page;
            }
        }
        // The last one may be torn.
        for page in (start..low).rev().take(2) {
            let ppn = self.form.geometry.page_at(pbn, page);
            let generation = self.places[pbn].generation;
            let (tag, _) = self.medium.read_page(ppn, true)?;
            let Some(tag) = tag.filter(|tag| tag.generation == generation) else { continue };
            if tag.kind == PageKind::Log {
                let newest = self.medium.units_in_page(generation).last().map(|(_, head)| head.committed);
                self.look.committed = self.look.committed.max(newest.unwrap_or(0));
                if newest.is_some() {
                    break;
                }
            } else if tag.committed <= self.look.committed || self.medium.is_whole_image(ppn)? {
                self.look.committed = self.look.committed.max(tag.committed);
                break;
            }
        }
        Ok(())
    }

    /// Reads every page once.
    fn pass(&mut self) -> Result<(), IndexError> {
        for pbn in (0..self.form.geometry.blocks).map(Pbn) {
            if self.look.has(pbn, flag::USED) {
                self.look_at(pbn)?;
            }
        }
        Ok(())
    }

    /// A look at a block.
    fn look_at(&mut self, pbn: Pbn) -> Result<(), IndexError> {
        let torn = if self.look.has(pbn, flag::TORN) { self.medium.last_image_of(pbn)? } else { None };
        self.look.flags[pbn.index()] &= !flag::OF_A_PASS;
        self.look.merging.clear();
        // That of the first page, as a rule.
        let first = self.medium.first_tag(pbn, true)?;
        let first = first.ok_or(corrupted(
            Invariant::I4,
            "a page's tag does not match",
            self.form.geometry.page_at(pbn, 0),
        ))?;
        let mut view = View::new(pbn, &first);
        let mut expect_data = false;
        let mut last_is_whole = None;
        for page in 0..self.form.geometry.pages_per_block {
            if torn == Some(page) {
                continue;
            }
            let ppn = self.form.geometry.page_at(pbn, page);
            let (tag, has_data) = match page {
                0 if first.page == 0 => (Some(first), false),
                _ => self.medium.read_page(ppn, self.wants_data(&view, page, expect_data))?,
            };
            expect_data = tag.is_some();
            let Some(tag) = tag else {
                if self.form.units_per_page() > 1 && !has_data && !self.medium.read_log_page(ppn)? {
                    self.look.set(pbn, flag::UNREADABLE);
                }
                continue;
            };
            if tag.generation != view.first.generation {
                return Err(corrupted(Invariant::I4, "a page of another life of its block", ppn));
            }
            if tag.kind == PageKind::Data {
                last_is_whole = has_data.then(|| nandex::codec::crc32(&[&self.medium.page]) == tag.data_crc);
                self.look_at_image(&mut view, page, &tag);
            } else if has_data || self.medium.read_log_page(ppn)? {
                self.look_at_units(&mut view, page, &tag);
            }
            if page + 1 == u32::from(view.first.merged) {
                self.offer_merged(&view);
            }
        }
        self.note_view(&view, last_is_whole)
    }

    /// True if a page has log units, judging by the pages before it.
    fn wants_data(&self, view: &View, page: u32, is_followed: bool) -> bool {
        let first_log = self.form.nodes_limit();
        let may_be_log = !self.form.is_fixed() || page >= first_log;
        // Sectors are told from a blank page by all of it.
        page >= u32::from(view.first.merged).max(1)
            && (self.form.units_per_page() > 1
                || may_be_log && (is_followed || page == first_log && self.form.is_fixed()))
    }

    fn area_start(&self, page: u32) -> u32 {
        let first_log = self.form.nodes_limit();
        if self.form.is_fixed() && page >= first_log { first_log } else { 0 }
    }

    fn note_link(&mut self, link: &Link) {
        self.numbers.opened = self.numbers.opened.max(link.opened);
        self.look.note_link(link, &self.places.blocks);
    }

    fn look_at_image(&mut self, view: &mut View, page: u32, tag: &IplTag) {
        self.note_link(&tag.before);
        let unit = (page * self.form.units_per_page()) as u16;
        self.look.note_whole(view.pbn, (page, unit), &self.places.blocks);
        self.look.found_committed = self.look.found_committed.max(tag.committed);
        view.note_image(page, tag, self.area_start(page));
        if view.is_void(self.look.committed) {
            return;
        }
        if tag.sequence > self.look.committed {
            self.look.set(view.pbn, flag::TAINTED);
        } else if page < u32::from(view.first.merged) {
            self.look.merging.push((tag.node, page as u16));
        } else if view.is_complete() {
            let slot = Slot { block: view.pbn.0, base: page as u16, last: NO_UNIT };
            self.look.offer(tag.node, (tag.sequence, slot, false), &self.places.blocks);
        }
    }

    /// Offers the nodes of the merge that opened a block, once all its pages were examined.
    fn offer_merged(&mut self, view: &View) {
        let merging = core::mem::take(&mut self.look.merging);
        if view.is_complete() {
            for &(id, base) in &merging {
                let slot = Slot { block: view.pbn.0, base, last: NO_UNIT };
                self.look.offer(id, (view.first.sequence, slot, false), &self.places.blocks);
            }
        }
        self.look.merging = merging;
    }

    /// Examines the units in the page buffer.
    fn look_at_units(&mut self, view: &mut View, page: u32, tag: &IplTag) {
        view.newest = view.newest.max(self.medium.newest_in_page(view.first.generation));
        let units = self.medium.units_in_page(view.first.generation);
        let Some(&(last, _)) = units.last() else { return };
        let first_unit = (page * self.form.units_per_page()) as u16;
        self.note_link(&tag.before);
        self.look.note_whole(view.pbn, (page, first_unit + last), &self.places.blocks);
        view.note_page(page, tag, self.area_start(page));
        for &(i, head) in &units {
            view.note_unit(page, first_unit + i, &head, tag.session);
            self.note_link(&head.before);
            self.look.note_dead(head.dead, &self.places.blocks);
            self.look.found_committed = self.look.found_committed.max(head.committed);
            if view.is_void(self.look.committed) {
                continue;
            }
            if head.first > self.look.committed {
                self.look.set(view.pbn, flag::TAINTED);
            } else {
                self.read_unit(view, first_unit + i, head);
            }
        }
    }

    /// Takes the ghosts and chains from a unit in the page buffer. Incomplete blocks give no versions, but
    /// their records are noted.
    fn read_unit(&mut self, view: &View, unit: u16, head: Head) {
        let pbn = view.pbn;
        for group in groups(&self.medium.page[self.form.bytes_of(unit)]).flatten() {
            let found = records(self.form.shapes.widths(), head.first, group.records).flatten();
            for (sequence, change) in found {
                self.look.note_record(group.node, sequence, pbn);
                if let Some((_, base)) = change.source()
                    && view.is_complete()
                {
                    let slot = Slot { block: pbn.0, base, last: NO_UNIT };
                    self.look.offer(group.node, (sequence, slot, true), &self.places.blocks);
                }
            }
            self.look.note_last(group.node, pbn, unit);
        }
    }

    /// Ends the look at a block.
    fn note_view(&mut self, view: &View, is_whole: Option<bool>) -> Result<(), IndexError> {
        let pbn = view.pbn;
        if view.is_complete() {
            // A whole merge says of itself and of those before it that they were whole.
            self.numbers.opened = self.numbers.opened.max(view.first.generation);
        }
        if view.is_empty() {
            self.look.flags[pbn.index()] &= !(flag::USED | flag::TAINTED);
            self.places[pbn] = Block { generation: view.first.generation, ..Block::default() };
            return Ok(());
        }
        if view.newest_session() > self.numbers.session {
            let what = "the checkpoint that began a session is missing";
            return Err(IndexError::corrupted(what, self.form.geometry.page_at(pbn, 0).0.into()));
        }
        self.look.newest = self.look.newest.max(view.newest);
        self.numbers.generation = self.numbers.generation.max(view.first.generation);
        if !view.is_complete() {
            self.look.flags[pbn.index()] &= !flag::TAINTED;
        }
        let found = [
            (view.is_complete(), flag::COMPLETE),
            (view.is_void(self.look.committed), flag::VOID),
            (!view.first.protected, flag::UNPROTECTED),
            (view.gap, flag::GAP),
        ];
        found.iter().filter(|found| found.0).for_each(|found| self.look.set(pbn, found.1));
        let known = self.look.has(pbn, flag::KNOWN) && !self.look.has(pbn, flag::SEEN);
        let old_images = if known { self.compare(view) } else { 0 };
        self.look.set(pbn, flag::SEEN);
        self.places[pbn] = self.row_of(view, self.numbers.session + 1);
        self.note_broken(view, is_whole, old_images)
    }

    /// Compares a block with its row in the checkpoint, which was written in this session. Returns the page
    /// behind those with images of before.
    fn compare(&mut self, view: &View) -> u32 {
        let (saved, found) = (self.places[view.pbn], self.row_of(view, self.numbers.session));
        if view.units < saved.units {
            self.look.set(view.pbn, flag::FEWER);
        }
        if saved.cursor > found.cursor || saved.data_next > found.data_next {
            self.look.set(view.pbn, flag::SHORT);
        }
        if self.form.is_fixed() { saved.data_next.into() } else { self.form.cursor_page(&saved) }
    }

    /// Row of a block for a session, which continues behind all pages that may be torn.
    fn row_of(&self, view: &View, session: u32) -> Block {
        let form = &self.form;
        let (pages, first_log) = (form.geometry.pages_per_block, form.nodes_limit());
        let after = |page: u32, since: u32, end: u32| {
            (page + 1).saturating_add(session.saturating_sub(since)).min(end)
        };
        let images = view.last_image.map_or((0, view.first.session), |last| last);
        let mut block = Block {
            generation: view.first.generation,
            units: view.units,
            born: view.first.sequence.into(),
            newest: view.newest.min(self.look.committed).into(),
            ..Block::default()
        };
        let (page, since) = if form.is_fixed() {
            block.data_next = after(images.0, images.1, first_log) as u16;
            view.last_log.unwrap_or((first_log - 1, view.first.session))
        } else {
            view.last_log.map_or(images, |log| log.max(images))
        };
        block.cursor = (after(page, since, pages) * form.units_per_page()) as u16;
        block
    }

    /// Notes a last image that does not agree with its tag. Only the last page can be half programmed and
    /// have a whole tag. If other pages were programmed after it, it is damaged, and reading it reports that.
    fn note_broken(
        &mut self,
        view: &View,
        is_whole: Option<bool>,
        old_images: u32,
    ) -> Result<(), IndexError> {
        let pbn = view.pbn;
        let (is_judged, merged) = (self.look.has(pbn, flag::JUDGED), u32::from(view.first.merged));
        let last = view.last_image.filter(|_| self.medium.nand.tears() && !is_judged && !view.is_followed());
        let Some((page, _)) = last else { return Ok(()) };
        if self.was_opened(view.first.generation, page, merged) || is_whole == Some(true) {
            return Ok(());
        }
        if !self.medium.is_whole_image(self.form.geometry.page_at(pbn, page))? {
            if page < old_images {
                self.look.set(pbn, flag::SHORT);
            }
            self.look.broken.push(Broken { pbn, page, merged });
        }
        Ok(())
    }

    /// True if a page belongs to a merge that was complete.
    fn was_opened(&self, generation: u32, page: u32, merged: u32) -> bool {
        generation <= self.numbers.opened && page < merged
    }

    /// Decides which last images were torn by a cut. Returns true if there are some; they do not count.
    fn judge_broken(&mut self) -> Result<bool, IndexError> {
        let mut has_torn = false;
        for Broken { pbn, page, merged } in core::mem::take(&mut self.look.broken) {
            let generation = self.places[pbn].generation;
            self.look.set(pbn, flag::JUDGED);
            if !self.was_opened(generation, page, merged) && !self.is_named(pbn, page)? {
                self.look.set(pbn, flag::TORN);
                has_torn = true;
            }
        }
        Ok(has_torn)
    }

    /// True if any page names this one as programmed before it.
    fn is_named(&mut self, pbn: Pbn, page: u32) -> Result<bool, IndexError> {
        let wanted = (self.places[pbn].generation, (page * self.form.units_per_page()) as u16);
        for other in self.look.with(flag::USED) {
            for page in 0..self.form.geometry.pages_per_block {
                let ppn = self.form.geometry.page_at(other, page);
                let Some(tag) = self.medium.read_spare(ppn)? else { continue };
                if (tag.before.generation, tag.before.unit) == wanted {
                    return Ok(true);
                }
                if self.form.units_per_page() > 1
                    && tag.kind == PageKind::Log
                    && self.medium.read_log_page(ppn)?
                {
                    let units = self.medium.units_in_page(tag.generation);
                    if units.iter().any(|(_, head)| (head.before.generation, head.before.unit) == wanted) {
                        return Ok(true);
                    }
                }
            }
        }
        Ok(false)
    }
}

//! The first look at a chip that was not closed: what each block says of itself.
//!
//! A page is *whole* if its tag or one of its units can be read. A power cut leaves at most one page a
//! session that is not, and nothing of that session comes after it: a page that is not whole between two of
//! one session is damage (`gap`). A page of zeros is damage as well: neither a program nor an erase that was
//! cut leaves one. So is a whole page of another place, or of another life of its block, which was erased
//! before it was programmed again. On a chip that tears no page one that is not whole is always damage.

use super::layout::{Head, IplTag, Link, PageKind, groups, records};
use super::store::{Store, corrupted};
use crate::blocks::checkpoint::is_of_checkpoint;
use crate::check::IndexError;
use crate::codec::crc32;
use crate::nand::{Cause, Nand, NandError, Reading, read_again};
use crate::units::{Pbn, Ppn};
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;

/// A block of which none of the first pages has a tag holds nothing, nor one of a log region. More than one
/// is tried, so that one damaged page does not hide the block and bring older versions of its nodes back.
const FIRST_PAGES: u32 = 4;

/// The findings of the first look at a block.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) pbn: Pbn,
    pub(super) generation: u32,
    /// Pages of the merge that opened the block that are whole, and how many there were.
    pub(super) merged: (u16, u16),
    /// The merge contains what is up to this number.
    pub(super) merge_sequence: u64,
    pub(super) protected: bool,
    pub(super) first_session: u32,
    /// The last image: page, session.
    pub(super) last_image: Option<(u32, u32)>,
    /// The last page with a log unit: page, session.
    pub(super) last_log: Option<(u32, u32)>,
    /// Log units found.
    pub(super) units: u16,
    /// Something is missing between two pages or units that no cut can have taken.
    pub(super) gap: bool,
    pub(super) newest_committed: u64,
    pub(super) newest: u64,
    /// Blocks up to this generation were opened whole.
    pub(super) opened: u32,
    /// Blocks that were given back, by their generations.
    pub(super) dead: Vec<u32>,
    /// Which units are whole, or begin a whole image; and what was programmed before each.
    pub(super) whole: Vec<bool>,
    pub(super) links: Vec<Link>,
    /// A page that cannot be read may have held sectors.
    pub(super) unreadable: Option<Ppn>,
}

impl View {
    fn new(pbn: Pbn, first: &IplTag, units: u32) -> View {
        View {
            pbn,
            generation: first.generation,
            merged: (0, first.merged),
            merge_sequence: first.sequence,
            protected: first.protected,
            first_session: first.session,
            last_image: None,
            last_log: None,
            units: 0,
            gap: false,
            newest_committed: 0,
            newest: 0,
            opened: 0,
            dead: Vec::new(),
            whole: vec![false; units as usize],
            links: Vec::new(),
            unreadable: None,
        }
    }

    /// Whether the merge that opened the block is whole.
    pub(super) fn is_complete(&self) -> bool {
        self.merged.0 == self.merged.1 && self.whole[0]
    }

    /// The last session that programmed a page here.
    pub(super) fn newest_session(&self) -> u32 {
        let last = [self.last_image, self.last_log].into_iter().flatten().map(|(_, session)| session);
        last.fold(self.first_session, u32::max)
    }

    pub(super) fn is_void(&self, committed: u64) -> bool {
        self.merged.1 > 0 && self.merge_sequence > committed
    }

    fn is_empty(&self) -> bool {
        self.last_image.is_none() && self.last_log.is_none()
    }

    /// Notes a whole page, the session of which is known, in an area that begins at `start`.
    fn note_page(&mut self, page: u32, tag: &IplTag, start: u32) {
        let before =
            [self.last_image, self.last_log].into_iter().flatten().filter(|last| last.0 >= start).max();
        // The first page of an area that is not whole is noticed by the merge, or by the ordinals of the
        // units.
        self.gap |= before.is_some_and(|(last, session)| last + 1 < page && session == tag.session);
        self.links.push(tag.before);
        self.opened = self.opened.max(tag.before.opened);
    }

    /// Notes an image.
    fn note_image(&mut self, (page, unit): (u32, u32), tag: &IplTag, start: u32) {
        self.note_page(page, tag, start);
        self.merged.0 += u16::from(tag.merged > 0 && tag.merged == self.merged.1);
        self.last_image = Some((page, tag.session));
        self.whole[unit as usize] = true;
        self.newest = self.newest.max(tag.sequence);
        self.newest_committed = self.newest_committed.max(tag.committed);
    }

    /// Notes a log unit.
    fn note_unit(&mut self, page: u32, unit: u32, head: &Head, session: u32) {
        self.whole[unit as usize] = true;
        self.links.push(head.before);
        self.opened = self.opened.max(head.before.opened);
        if self.dead.last() != Some(&head.dead) {
            self.dead.push(head.dead);
        }
        self.gap |= head.ordinal != self.units;
        self.units += 1;
        self.last_log = Some((page, session));
        self.newest_committed = self.newest_committed.max(head.committed);
    }
}

fn is_all(bytes: &[u8], byte: u8) -> bool {
    bytes.iter().all(|&found| found == byte)
}

/// Whether every unit of a page is whole or blank.
pub(super) fn has_whole_units(page: &[u8], unit_bytes: usize) -> bool {
    page.chunks_exact(unit_bytes).all(|unit| Head::decode(unit).is_some() || is_all(unit, 0xff))
}

impl<N: Nand> Store<N> {
    /// Looks at every block, and decides which last images were torn by a cut.
    pub(super) fn look_around(&mut self, opened: u32) -> Result<Vec<View>, IndexError> {
        use crate::blocks::BlockState::{Bad, Reserved};
        let mut views = Vec::new();
        for pbn in (0..self.geometry.blocks).map(Pbn) {
            if !matches!(self.table.state(pbn), Bad | Reserved)
                && let Some(view) = self.look_at(pbn)?
            {
                views.push(view);
            }
        }
        // A whole merge says of itself and of those before it that they were whole.
        let whole = views.iter().filter(|view| view.is_complete()).map(|view| view.generation);
        self.opened = views.iter().map(|view| view.opened).chain(whole).fold(opened, u32::max);
        let named: BTreeSet<(u32, u16)> =
            views.iter().flat_map(|view| &view.links).map(|link| (link.generation, link.unit)).collect();
        for view in &mut views {
            self.forget_torn_image(view, &named)?;
        }
        views.retain(|view| !view.is_empty());
        Ok(views)
    }

    pub(super) fn read_spare(&mut self, ppn: Ppn) -> Result<Option<IplTag>, IndexError> {
        let mut spare = core::mem::take(&mut self.spare);
        let is_whole = |_: &[u8], spare: &[u8]| IplTag::decode(spare).is_some() || is_all(spare, 0xff);
        let read = read_again(&mut self.nand, (ppn, Cause::Recovery), &mut [], &mut spare, is_whole);
        let (tag, is_zero) = (IplTag::decode(&spare), is_all(&spare, 0));
        self.spare = spare;
        match read {
            Ok(_) if is_zero => Err(corrupted("I4: a page reads as zeros", ppn)),
            Ok(_) if tag.is_some_and(|tag| u32::from(tag.page) != self.geometry.page_in_block(ppn)) => {
                Err(corrupted("I4: a page of another place", ppn))
            }
            Ok(Reading::Broken) if !self.nand.tears() => self.require_checkpoint(ppn),
            Ok(_) => Ok(tag),
            Err(NandError::Uncorrectable(_)) if self.nand.tears() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// On a chip that tears no page, one that has no tag is of checkpoints, or damaged.
    fn require_checkpoint(&mut self, ppn: Ppn) -> Result<Option<IplTag>, IndexError> {
        let mut spare = vec![0xff; self.spare.len()];
        let is_whole = |data: &[u8], spare: &[u8]| is_of_checkpoint(ppn, data, spare);
        match read_again(&mut self.nand, (ppn, Cause::Recovery), &mut self.page, &mut spare, is_whole)? {
            Reading::Broken => Err(corrupted("I4: a page's tag does not match", ppn)),
            Reading::Whole | Reading::Weak => Ok(None),
        }
    }

    /// Reads a page of log units whole into the page buffer; false when it cannot be read.
    pub(super) fn read_log_page(&mut self, ppn: Ppn) -> Result<bool, IndexError> {
        let unit_bytes = self.format.unit_bytes;
        let is_whole = |data: &[u8], _: &[u8]| has_whole_units(data, unit_bytes);
        match read_again(&mut self.nand, (ppn, Cause::Recovery), &mut self.page, &mut [], is_whole) {
            Ok(Reading::Broken) if !self.nand.tears() => Err(corrupted("I5: a log unit does not match", ppn)),
            Ok(reading) => {
                self.note_reading(ppn, reading);
                Ok(true)
            }
            Err(NandError::Uncorrectable(_)) if self.nand.tears() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// The heads of the whole units in the page buffer, with their places in the page.
    pub(super) fn units_in_page(&self, generation: u32) -> Vec<(u32, Head)> {
        let units = self.page.chunks_exact(self.format.unit_bytes);
        let heads = (0u32..).zip(units).filter_map(|(i, unit)| Some((i, Head::decode(unit)?)));
        heads.filter(|(_, head)| head.generation == generation).collect()
    }

    /// The pages that tell whether a block holds anything.
    fn telling_pages(&self) -> impl Iterator<Item = u32> + use<N> {
        let pages = self.geometry.pages_per_block;
        let first_log = if self.is_fixed() { pages - self.format.log_pages } else { pages };
        (0..FIRST_PAGES.min(first_log)).chain(first_log..pages)
    }

    /// The first look at a block; `None` when its first pages say nothing.
    fn look_at(&mut self, pbn: Pbn) -> Result<Option<View>, IndexError> {
        if self.nand.is_bad(pbn)? {
            self.table.retire(pbn);
            return Ok(None);
        }
        let mut first = None;
        for page in self.telling_pages() {
            first = self.read_spare(self.geometry.page_at(pbn, page))?;
            if first.is_some() {
                break;
            }
        }
        let Some(first) = first else { return Ok(None) };
        let mut view = View::new(pbn, &first, self.units_per_block());
        for page in 0..self.geometry.pages_per_block {
            self.look_at_page(&mut view, page)?;
        }
        Ok(Some(view))
    }

    fn look_at_page(&mut self, view: &mut View, page: u32) -> Result<(), IndexError> {
        let (ppn, per_page) = (self.geometry.page_at(view.pbn, page), self.units_per_page());
        let first_log = self.geometry.pages_per_block - self.format.log_pages;
        let start = if self.is_fixed() && page >= first_log { first_log } else { 0 };
        let tag = self.read_spare(ppn)?;
        if tag.is_some_and(|tag| tag.generation != view.generation) {
            return Err(corrupted("I4: a page of another life of its block", ppn));
        }
        match tag {
            Some(tag) if tag.kind == PageKind::Data => view.note_image((page, page * per_page), &tag, start),
            Some(tag) => {
                if !self.read_log_page(ppn)? {
                    return Ok(());
                }
                view.newest = view.newest.max(self.newest_in_page(view.generation));
                let units = self.units_in_page(view.generation);
                if !units.is_empty() {
                    view.note_page(page, &tag, start);
                }
                for (i, head) in units {
                    view.note_unit(page, page * per_page + i, &head, tag.session);
                }
            }
            None if per_page > 1 && !self.read_log_page(ppn)? => view.unreadable = Some(ppn),
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

    /// Reads an image whole into the page buffer; whether it is what its tag says.
    fn is_whole_image(&mut self, ppn: Ppn) -> Result<bool, IndexError> {
        let mut spare = core::mem::take(&mut self.spare);
        let is_whole = |data: &[u8], spare: &[u8]| {
            IplTag::decode(spare).is_some_and(|tag| tag.data_crc == crc32(&[data]))
        };
        let read = read_again(&mut self.nand, (ppn, Cause::Recovery), &mut self.page, &mut spare, is_whole);
        self.spare = spare;
        match read {
            Ok(reading) => Ok(reading != Reading::Broken),
            Err(NandError::Uncorrectable(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes the last image out of a view if a cut tore it: only the last one can be half programmed and yet
    /// have a whole tag. One that others were programmed after is damaged, and whoever reads it will say so.
    fn forget_torn_image(&mut self, view: &mut View, named: &BTreeSet<(u32, u16)>) -> Result<(), IndexError> {
        let Some((torn, session)) = view.last_image.filter(|_| self.nand.tears()) else { return Ok(()) };
        let is_followed = view.last_log.is_some_and(|log| log.0 > torn && log.1 == session);
        let unit = (torn * self.units_per_page()) as u16;
        if is_followed
            || view.generation <= self.opened && torn < u32::from(view.merged.1)
            || named.contains(&(view.generation, unit))
            || self.is_whole_image(self.geometry.page_at(view.pbn, torn))?
        {
            return Ok(());
        }
        let again = View::new(view.pbn, &self.tag_of(view)?, self.units_per_block());
        *view = View { merge_sequence: view.merge_sequence, protected: view.protected, ..again };
        for page in (0..self.geometry.pages_per_block).filter(|&page| page != torn) {
            self.look_at_page(view, page)?;
        }
        Ok(())
    }

    /// The tag that a view was made from.
    fn tag_of(&mut self, view: &View) -> Result<IplTag, IndexError> {
        for page in self.telling_pages() {
            let tag = self.read_spare(self.geometry.page_at(view.pbn, page))?;
            if let Some(tag) = tag.filter(|tag| tag.generation == view.generation) {
                return Ok(tag);
            }
        }
        Err(corrupted("I4: a page's tag does not match", self.geometry.page_at(view.pbn, 0)))
    }
}

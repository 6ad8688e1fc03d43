//! Formatting and mounting.

use super::coder::View;
use super::commit::{SEALS, Sealed, Stand};
use super::fences::position;
use super::filter::FILTERS;
use super::level::{Level, Part};
use super::page::{After, HEADER_BYTES, Header, Kind, is_blank};
use super::root::{Item, LevelRoot, Reader, Root, Row, Wrong, read};
use super::summary::{Groups, places};
use super::{Plow, PlowConfig, State};
use crate::check::{IndexError, Invariant, message, words};
use crate::fault::IndexFault;
use crate::nand::{Cause, Nand, NandError, Reading, Unfit, read_again};
use crate::ordered::Durability;
use crate::units::{Pbn, Ppn};
use alloc::vec::Vec;
use core::cell::Cell;

/// Findings of a look at the chip.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The newest program.
    pub(super) newest: u64,
    /// The newest commit page that a page names, and where.
    named: (u64, u32),
    /// The newest commit page.
    commit: Option<(u64, Ppn)>,
    /// Blocks with commit pages, each with the first program found there.
    commit_blocks: Vec<(u64, Pbn)>,
    /// The newest page of a level that commits.
    carried: Option<(u64, Ppn)>,
    /// The page of the map that is in the output buffer.
    pub(super) map_page: Option<Ppn>,
    /// Pages that are neither whole nor blank, though no cut leaves such: of each block the last one met.
    pub(super) damaged: Vec<Ppn>,
    /// The newest page that belongs in another place, and where it was met.
    pub(super) displaced: (u64, u32),
}

/// The nature of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Whole(Header),
    Blank,
    Broken,
}

/// A root that makes no sense, I1.
#[cold]
pub(super) fn broken_root(page: u32) -> IndexFault {
    IndexFault::broken(Invariant::I1, "the root makes no sense", page)
}

impl<N: Nand> Plow<N> {
    /// Erases the chip and makes an empty index on it.
    pub fn format(nand: N, config: &PlowConfig) -> Result<Plow<N>, IndexError> {
        let mut plow = Plow::assemble(nand, config)?;
        plow.set_up()?;
        Ok(plow)
    }

    #[inline(never)]
    fn set_up(&mut self) -> Result<(), IndexFault> {
        self.note_bad_blocks()?;
        for _ in 0..self.blocks.free() {
            self.blocks.prepare(&mut self.nand, Cause::Checkpoint)?;
        }
        for _ in 0..if self.shares.fixed { self.shares.levels } else { 1 } {
            self.add_level();
        }
        self.close_inner()
    }

    /// Finds the index on the chip again.
    pub fn mount(nand: N, config: &PlowConfig) -> Result<Plow<N>, IndexError> {
        let mut plow = Plow::assemble(nand, config)?;
        plow.recover()?;
        Ok(plow)
    }

    #[inline(never)]
    fn recover(&mut self) -> Result<(), IndexFault> {
        self.cause = Cause::Recovery;
        self.note_bad_blocks()?;
        self.keep_none();
        let mut seen = Seen::default();
        for block in (0..self.geometry.blocks).map(Pbn) {
            if self.blocks.state(block) != State::Bad {
                self.look_at(block, &mut seen)?;
            }
        }
        self.find_commit(&mut seen)?;
        let Some((sequence, ppn)) = seen.commit else {
            self.require_older(&seen)?;
            let found = crate::nand::unfit(&mut self.nand, words("the chip holds no commit page of plow"))?;
            return Err(IndexError::NotFormatted(found).into());
        };
        self.take_root(ppn, sequence, &mut seen)?;
        if self.commits.followed && self.durability == Durability::None {
            return Err(IndexError::NotCleanlyClosed.into());
        }
        // In other classes that is no news, and not said again.
        self.dirty |= core::mem::take(&mut self.commits.followed);
        if seen.named.0 > sequence {
            let what = "a page names a newer commit page than there is";
            return Err(IndexFault::broken(Invariant::I1, what, seen.named.1));
        }
        if let Some((_, ppn)) = seen.carried.filter(|carried| carried.0 == sequence + 1)
            && let Found::Whole(header) = self.examine(ppn)?
        {
            self.blocks.set(self.geometry.block_of(ppn), State::Used);
            // Until the first plan is made, for its filter.
            self.plan.pages_max[0] = self.planned_for as u64;
            self.take_carried(ppn, &header)?;
        }
        self.require_older(&seen)?;
        self.number_behind(seen.newest.max(sequence));
        self.cause = Cause::Host;
        self.choose_plan();
        self.keep_fences_short();
        // What is dead is not known: where there is no room, a sweep finds out.
        self.changes = self.page_records;
        Ok(())
    }

    pub(super) fn close_inner(&mut self) -> Result<(), IndexFault> {
        match self.summarise_open() {
            // A mount reads the pages then.
            Err(error) if !error.is_refusal() => return Err(error),
            _ => {}
        }
        self.commit_last(true)?;
        // Once more in another block, so that one of them may be lost.
        self.commits.open = None;
        match self.commit(true) {
            Err(error) if error.is_refusal() => {
                (self.dirty, self.clean) = (false, true);
                Ok(())
            }
            other => other,
        }
    }

    /// Looks for the newest commit page in the newest block that has any.
    fn find_commit(&mut self, seen: &mut Seen) -> Result<(), IndexFault> {
        // From the newest on. They are few, so that none but the largest is looked for each time.
        let mut blocks = core::mem::take(&mut seen.commit_blocks);
        while let Some(newest) = (0..blocks.len()).max_by_key(|&i| blocks[i]) {
            let (first, block) = blocks.swap_remove(newest);
            for page in (0..self.programmed(block, seen)?).rev() {
                let ppn = self.geometry.page_at(block, page);
                // What is older than the first page was there in an earlier life of the block.
                if let Found::Whole(header) = self.see(ppn, seen)?
                    && header.sequence >= first
                {
                    self.note(ppn, &header, seen);
                    if header.kind == Kind::Commit {
                        break;
                    }
                }
            }
            if seen.commit.is_some_and(|(_, ppn)| self.geometry.block_of(ppn) == block) {
                break;
            }
        }
        Ok(())
    }

    /// Pages of a block that were programmed: they are the first ones. A torn page may count or not.
    fn programmed(&mut self, block: Pbn, seen: &mut Seen) -> Result<u32, IndexFault> {
        let pages = self.geometry.pages_per_block;
        let (mut low, mut high) = (0, pages);
        while low < high {
            let middle = low.midpoint(high);
            if self.see(self.geometry.page_at(block, middle), seen)? == Found::Blank {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        // A page that only reads as erased, since it is damaged, has others behind it.
        let behind = self.geometry.page_at(block, low).0 + 1;
        let is_end = low + 1 >= pages || self.see(Ppn(behind), seen)? == Found::Blank;
        Ok(if is_end { low } else { pages })
    }

    /// Notes the newest whole page of a block.
    pub(super) fn look_at_newest(&mut self, block: Pbn, seen: &mut Seen) -> Result<(), IndexFault> {
        let mut page = self.programmed(block, seen)?;
        while page > 0 {
            page -= 1;
            if let Found::Whole(_) = self.look_at_page(self.geometry.page_at(block, page), seen)? {
                break;
            }
        }
        Ok(())
    }

    /// Reads any page into the input buffer, and notes it if it is whole.
    pub(super) fn look_at_page(&mut self, ppn: Ppn, seen: &mut Seen) -> Result<Found, IndexFault> {
        let found = self.see(ppn, seen)?;
        if let Found::Whole(header) = &found {
            self.note(ppn, header, seen);
        }
        Ok(found)
    }

    fn note_bad_blocks(&mut self) -> Result<(), IndexFault> {
        for block in (0..self.geometry.blocks).map(Pbn) {
            if self.nand.is_bad(block)? {
                self.blocks.set(block, State::Bad);
            }
        }
        Ok(())
    }

    /// Reads any page into the input buffer.
    pub(super) fn examine(&mut self, ppn: Ppn) -> Result<Found, IndexFault> {
        self.loaded = None;
        let is_whole = |page: &[u8], _: &[u8]| Header::decode(page, ppn).is_some() || is_blank(page);
        match read_again(&mut self.nand, (ppn, Cause::Recovery), &mut self.input, &mut [], is_whole) {
            Ok(Reading::Broken) => return Ok(Found::Broken),
            Err(NandError::Uncorrectable(_)) => {
                self.input.fill(0);
                return Ok(Found::Broken);
            }
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        if is_blank(&self.input) {
            return Ok(Found::Blank);
        }
        Ok(Header::decode(&self.input, ppn).map_or(Found::Broken, Found::Whole))
    }

    /// Notes what a page says of the history.
    fn note(&mut self, ppn: Ppn, header: &Header, seen: &mut Seen) {
        let block = self.geometry.block_of(ppn);
        self.blocks.set_erases(block, self.blocks.erases(block).max(header.erases));
        seen.newest = seen.newest.max(header.sequence);
        if header.commit > seen.named.0 {
            seen.named = (header.commit, ppn.0);
        }
        if header.commits && seen.carried.is_none_or(|(newest, _)| header.sequence > newest) {
            seen.carried = Some((header.sequence, ppn));
        }
        if header.kind == Kind::Commit && seen.commit_blocks.last().is_none_or(|last| last.1 != block) {
            seen.commit_blocks.push((header.sequence, block));
        }
        if header.kind == Kind::Commit && seen.commit.is_none_or(|(newest, _)| header.sequence > newest) {
            seen.commit = Some((header.sequence, ppn));
        }
    }

    /// Looks at the first page of a block, and at all where that one says nothing.
    fn look_at(&mut self, block: Pbn, seen: &mut Seen) -> Result<(), IndexFault> {
        let found = self.look_at_page(self.geometry.page_at(block, 0), seen)?;
        self.keep_first(block, found);
        match found {
            Found::Whole(_) => Ok(()),
            // A page may read as erased that was being programmed, or is damaged.
            _ if self.see(self.geometry.page_at(block, 1), seen)? == Found::Blank => Ok(()),
            _ => {
                for page in 0..self.geometry.pages_per_block {
                    self.look_at_page(self.geometry.page_at(block, page), seen)?;
                }
                Ok(())
            }
        }
    }

    fn take_root(&mut self, ppn: Ppn, sequence: u64, seen: &mut Seen) -> Result<(), IndexFault> {
        let broken = || broken_root(ppn.0);
        let Found::Whole(header) = self.examine(ppn)? else { return Err(broken()) };
        let mut reader = Reader::new(&self.input[HEADER_BYTES..]);
        let root = match read(&mut reader, self.geometry, self.record) {
            Ok(root) => root,
            Err(Wrong::Other(differs)) => {
                let what = words("the index on the chip is of another chip or of other records");
                return Err(IndexError::other(differs, what).into());
            }
            Err(Wrong::Newer(version)) => {
                return Err(IndexError::NotFormatted(Unfit::Newer { version }).into());
            }
            Err(Wrong::Mapped) => {
                let what = words("the root's extents lie in map pages: this build lacks \"full\"");
                return Err(IndexError::Unsupported(what.into()).into());
            }
            Err(Wrong::Broken) => return Err(broken()),
        };
        let at = HEADER_BYTES + reader.at();
        if root.levels.len() > super::cost::LEVELS_MAX {
            return Err(broken());
        }
        self.commits.sequence = sequence;
        let block = self.geometry.block_of(ppn);
        self.commits.newest = Some(block);
        self.take_block(block);
        self.clean = header.after == After::Nothing;
        self.commits.followed = header.after == After::Changes;
        let stand = Stand { round: root.levels[0].round, cursor: root.levels[0].cursor.clone() };
        self.take_records(at, &header, None)?;
        self.take_sealed(&root, &stand)?;
        self.page_records = root.page_records;
        self.blocks.touch(Pbn(root.worn.touched.saturating_sub(1)));
        self.take_map(&root)?;
        let all_rows = root.levels.iter().flat_map(|level| level.rows.iter().flatten());
        for item in all_rows {
            if let Item::Row(row) = item {
                self.blocks.set(self.geometry.block_of(row.first), State::Used);
            }
        }
        // While the output buffer holds what a look at the chip found.
        self.look_behind_root((sequence, &root.worn), seen)?;
        let is_alone = root.levels.len() == 1;
        for level in &root.levels {
            self.take_level(level, is_alone, seen)?;
        }
        Ok(())
    }

    pub(super) fn take_block(&mut self, block: Pbn) {
        self.blocks.set(block, State::Used);
        if !self.commits.blocks.contains(&block) {
            self.commits.blocks.push(block);
        }
    }

    /// Enters the records of the page in the input buffer into the memtable, those that are not there yet; of
    /// a sealed page only what the sweep has not passed since.
    fn take_records(
        &mut self,
        at: usize,
        header: &Header,
        since: Option<(&Stand, &Stand)>,
    ) -> Result<(), IndexFault> {
        if header.count == 0 {
            return Ok(());
        }
        let input = core::mem::take(&mut self.input);
        let Some(view) = View::new(&input[at.min(input.len())..], self.record, header.count.into(), true)
        else {
            self.input = input;
            return Err(IndexFault::broken(Invariant::I5, "the records of a commit page make no sense", 0));
        };
        let known = Cell::default();
        let view = view.noting(&known);
        let mut key = alloc::vec![0; self.record.key_bytes.into()];
        let mut value = alloc::vec![0; self.record.value_bytes.into()];
        for i in 0..view.count() {
            view.key(i, &mut key);
            view.value(i, &mut value);
            let is_passed = since.is_some_and(|(then, now)| then.has_passed(&key, now));
            if !is_passed && self.memtable.find(&key).is_err() {
                if !self.memtable.takes(1) {
                    return Err(self.too_large_a_memtable());
                }
                let value = (!view.is_tombstone(i)).then_some(&value[..]);
                self.memtable.put(&key, value, since.is_some());
            }
        }
        self.input = input;
        Ok(())
    }

    fn too_large_a_memtable(&self) -> IndexFault {
        IndexError::Unsupported(
            message!(
                "the memtable on the chip is larger than the {} records that the RAM leaves room for",
                self.memtable.capacity()
            )
            .into(),
        )
        .into()
    }

    /// Takes the records of the sealed pages, the newest page first.
    fn take_sealed(&mut self, root: &Root, now: &Stand) -> Result<(), IndexFault> {
        if !SEALS && root.sealed > 0 {
            let what = words("the newest changes lie in sealed pages: this build lacks \"full\"");
            return Err(IndexError::Unsupported(what.into()).into());
        }
        let mut next = root.newest_sealed;
        let sealed = if SEALS { root.sealed } else { 0 };
        for _ in 0..sealed {
            let missing = |ppn: Ppn| IndexFault::broken(Invariant::I5, "a sealed page is missing", ppn.0);
            let Some((ppn, sequence)) = next else { return Err(missing(Ppn(0))) };
            let header = match self.examine(ppn)? {
                Found::Whole(header) if header.kind == Kind::Sealed && header.sequence == sequence => header,
                _ => return Err(missing(ppn)),
            };
            let mut reader = Reader::new(&self.input[HEADER_BYTES..]);
            let mut read = || {
                let round = reader.short()?;
                let cursor = reader.key(self.record.key_bytes)?;
                let before = reader.below(self.geometry.pages() + 1)?;
                Some((Stand { round, cursor }, before, reader.number()?))
            };
            let Some((stand, before, of)) = read() else { return Err(missing(ppn)) };
            let at = HEADER_BYTES + reader.at();
            self.take_records(at, &header, Some((&stand, now)))?;
            self.take_block(self.geometry.block_of(ppn));
            self.make_room_for_sealed();
            self.commits.sealed.push_front(Sealed { ppn, sequence, stand, pages: 1 });
            next = before.checked_sub(1).map(|page| (Ppn(page), of));
        }
        Ok(())
    }

    fn take_level(&mut self, root: &LevelRoot, is_alone: bool, seen: &mut Seen) -> Result<(), IndexFault> {
        let number = self.levels.len();
        let (cursor, round, records) = (root.cursor.clone(), root.round, root.records);
        self.levels.push(Level { cursor, round, records, ..Level::default() });
        let is_filtered = FILTERS && number == 0 && !is_alone;
        if is_filtered {
            // Until the first plan is made: the pages that share the filters' bytes.
            let mut pages = 0;
            for item in root.rows.iter().flatten() {
                for place in item.places() {
                    pages += self.row_of(item, place, seen)?.pages as usize;
                }
            }
            self.planned_for = pages;
        }
        let mut floor: Option<u64> = None;
        for (part, rows) in [(Part::New, &root.rows[1]), (Part::Old, &root.rows[0])] {
            if part == Part::Old {
                floor = floor.max(Some(position(&root.cursor)));
            }
            for item in rows {
                for place in item.places() {
                    let row = self.row_of(item, place, seen)?;
                    floor = self.take_row((root, part), row, (floor, is_filtered), seen)?;
                    if item.listed().is_some() {
                        self.note_listed((number, part), row, place);
                    }
                }
            }
        }
        if let Some((block, next)) = root.open {
            // What was programmed there since; the first of it may commit.
            if next < self.geometry.pages_per_block {
                self.look_at_page(self.geometry.page_at(block, next), seen)?;
            }
            self.look_at_newest(block, seen)?;
        }
        Ok(())
    }

    /// A row that an item of a root tells of.
    fn row_of(&mut self, item: &Item, place: usize, seen: &mut Seen) -> Result<Row, IndexFault> {
        match *item {
            Item::Row(row) => Ok(row),
            Item::Listed(..) => self.listed_row(place, seen),
        }
    }

    /// Reads the summary of a block into the input buffer if there is one at these places; its header.
    fn find_summary(&mut self, places: [Option<Ppn>; 2], erases: u16) -> Result<Option<Header>, IndexFault> {
        for ppn in places.into_iter().flatten() {
            if let Found::Whole(header) = self.examine(ppn)?
                && header.kind == Kind::Summary
                && header.erases == erases
            {
                return Ok(Some(header));
            }
        }
        Ok(None)
    }

    /// The pages of a row of the level that is being taken: they join its fences, by the summary of their
    /// block if there is one, else by reading them. A position that no page of the level yet to come begins
    /// before comes in, and goes out anew.
    fn take_row(
        &mut self,
        (root, part): (&LevelRoot, Part),
        row: Row,
        (mut floor, is_filtered): (Option<u64>, bool),
        seen: &mut Seen,
    ) -> Result<Option<u64>, IndexFault> {
        let level = self.levels.len() - 1;
        let block = self.geometry.block_of(row.first);
        self.blocks.set(block, State::Used);
        self.blocks.set_erases(block, row.erases);
        let is_open = root.open.is_some_and(|open| open.0 == block);
        let summary = match cfg!(feature = "full") && !is_filtered {
            true => {
                let last = root.last_beside(row, self.geometry);
                self.find_summary(places(self.geometry, last, is_open), row.erases)?
            }
            false => None,
        };
        let start = row.first.0 % self.geometry.pages_per_block;
        let mut page = 0;
        if let Some(header) = summary {
            let input = core::mem::take(&mut self.input);
            let is_of_before = header.sequence < self.commits.sequence;
            let groups = Groups::new(&input[HEADER_BYTES..], header.count);
            for low in
                groups.and_then(|groups| groups.of_row(start, row.pages, is_of_before)).into_iter().flatten()
            {
                self.push_row((level, part), Ppn(row.first.0 + page), low, page > 0);
                (floor, page) = (floor.max(Some(low)), page + 1);
            }
            self.input = input;
        }
        for page in page..row.pages {
            let ppn = Ppn(row.first.0 + page);
            let low = match self.examine(ppn)? {
                Found::Whole(header) if header.kind == Kind::Run && header.erases == row.erases => {
                    self.note(ppn, &header, seen);
                    let (low, last) = self.learn(level, ppn, &header)?;
                    floor = floor.max(Some(last));
                    low
                }
                // A page that cannot be read begins behind the one before it; whoever needs it is told.
                _ => floor.unwrap_or(0),
            };
            self.push_row((level, part), ppn, low, page > 0);
        }
        self.keep_fences_short();
        Ok(floor)
    }

    fn push_row(&mut self, (level, part): (usize, Part), ppn: Ppn, low: u64, joins: bool) {
        let level = &mut self.levels[level];
        let run = if part == Part::Old { &mut level.old } else { &mut level.new };
        run.push(ppn, low, joins);
    }

    /// The position of the first key of the page in the input buffer, and one that no page behind it begins
    /// before; notes its filter.
    fn learn(&mut self, level: usize, ppn: Ppn, header: &Header) -> Result<(u64, u64), IndexFault> {
        let view =
            View::new(&self.input[HEADER_BYTES..], self.record, header.count.into(), header.tombstones)
                .filter(|view| view.count() > 0);
        let what = "the records of a page make no sense";
        let known = Cell::default();
        let Some(view) = view.map(|view| view.noting(&known)) else {
            return Err(IndexFault::broken(Invariant::I3, what, ppn.0));
        };
        let (first, end) = (position(&view.key_owned(0)), position(&view.key_owned(view.count() - 1)));
        if level == 0 && self.planned_for > 0 {
            let pages = self.planned_for;
            let bytes = self.filters.share(1, pages + 1, pages);
            self.filters.insert(ppn, bytes, (view.count(), &|i| view.key_owned(i)));
        }
        Ok((first, end.saturating_add((self.record.key_bytes <= 8).into())))
    }
}

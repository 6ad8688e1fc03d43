//! Formatting and mounting.

use super::Core;
use super::anchor::ANCHORS;
use super::blocks::State;
use super::coder::View;
use super::commit::{Commits, SEALS, Sealed, Stand, sealed_listed};
use super::config::{MEMTABLE_MIN, Shares};
use super::fences::position;
use super::filter::{FILTERS, Filters};
use super::give::give_first;
use super::level::{Level, Part};
use super::levels::Levels;
use super::map::Map;
use super::medium::Found;
use super::memtable::Memtable;
use super::page::{After, HEADER_BYTES, Header, Kind};
use super::root::{Item, LevelRoot, Reader, Root, Row, Wrong, read};
use super::space::Stock;
use super::summary::{Groups, places};
use super::survey::{Seen, Survey};
use crate::check::{IndexError, Invariant, words};
use crate::fault::IndexFault;
use crate::nand::{Cause, Nand, Unfit, unfit};
use crate::ordered::{Durability, RecordFormat};
use crate::units::{Pbn, Ppn};
use alloc::collections::VecDeque;
use core::cell::Cell;
use core::ops::Range;

/// Returns the error for a root that contradicts itself (I1).
#[cold]
pub(super) fn broken_root(page: u32) -> IndexFault {
    IndexFault::broken(Invariant::I1, "the root makes no sense", page)
}

/// Returns the error for a sealed page that is not there (I5).
#[cold]
fn no_sealed(ppn: Ppn) -> IndexFault {
    IndexFault::broken(Invariant::I5, "a sealed page is missing", ppn.0)
}

impl<N: Nand> Core<N> {
    #[inline(never)]
    pub(super) fn set_up(&mut self) -> Result<(), IndexFault> {
        give_first(self);
        self.stock.space.blocks.note_bad(&mut self.medium.nand)?;
        self.stock.space.blocks.choose_places();
        for _ in 0..self.stock.space.blocks.free() {
            self.stock.space.blocks.prepare(&mut self.medium.nand, Cause::Checkpoint)?;
        }
        for _ in 0..if self.planner.shares.fixed { self.planner.shares.levels } else { 1 } {
            self.stock.levels.add();
        }
        self.close()?;
        self.stock.require_room_for_a_record()
    }

    #[inline(never)]
    pub(super) fn recover(&mut self) -> Result<(), IndexFault> {
        self.medium.cause = Cause::Recovery;
        self.stock.space.blocks.note_bad(&mut self.medium.nand)?;
        let shares = self.planner.shares;
        let anchored = if ANCHORS { take_over(self, true) } else { Ok(None) };
        let found = match anchored {
            Ok(Some((sequence, seen))) if seen.named.0 <= sequence => Some((sequence, seen)),
            _ if ANCHORS => {
                self.planner.shares = shares;
                self.stock.forget(&shares);
                take_over(self, false)?
            }
            _ => take_over(self, false)?,
        };
        let Some((sequence, seen)) = found else {
            let found = unfit(&mut self.medium.nand, words("the chip holds no commit page of plow"))?;
            return Err(IndexError::NotFormatted(found).into());
        };
        if self.stock.commits.followed && self.stock.commits.durability == Durability::None {
            return Err(IndexError::NotCleanlyClosed.into());
        }
        // In the other classes that is no news, and is not written again.
        self.stock.commits.dirty |= core::mem::take(&mut self.stock.commits.followed);
        if seen.named.0 > sequence {
            let what = "a page names a newer commit page than there is";
            return Err(IndexFault::broken(Invariant::I1, what, seen.named.1));
        }
        if let Some((_, ppn)) = seen.carried.filter(|carried| carried.0 == sequence + 1)
            && let Found::Whole(header) = self.medium.examine(ppn)?
        {
            self.stock.space.blocks.set(self.stock.geometry.block_of(ppn), State::Used);
            // The first plan is not made yet; the filter needs this number.
            self.planner.plan.pages_max[0] = self.planner.planned_for as u64;
            self.take_carried(ppn, &header)?;
        }
        let newest = seen.newest.max(sequence);
        let geometry = self.stock.geometry;
        Survey::new(&mut self.medium, geometry, &mut self.stock.space.blocks, seen)
            .require_older(sequence)?;
        self.medium.number_behind(newest);
        self.medium.cause = Cause::Host;
        self.choose_plan();
        self.stock.levels.keep_short(&self.planner.shares);
        // It is not known what is dead. If there is no room, a sweep finds out.
        self.stock.space.changes = self.stock.levels.page_records;
        Ok(())
    }

    pub(super) fn close(&mut self) -> Result<(), IndexFault> {
        match self.summarise_open() {
            // Then a mount reads the pages.
            Err(error) if !error.is_refusal() => return Err(error),
            _ => {}
        }
        self.commit_last(true)?;
        // A second commit page goes to another block, so that one of the two may be lost.
        self.stock.commits.open = None;
        match self.commit(true) {
            Err(error) if error.is_refusal() => {
                (self.stock.commits.dirty, self.stock.commits.clean) = (false, true);
                Ok(())
            }
            other => other,
        }
    }
}

impl Stock {
    /// Forgets what a mount took over: the anchor that led it is in doubt.
    fn forget(&mut self, shares: &Shares) {
        let record = self.memtable.record;
        self.levels = Levels::none(self.geometry.pages_per_block, shares.extents_max);
        self.memtable = Memtable::new(record, 0);
        self.commits = Commits::none(self.commits.durability, record, self.geometry);
        self.space.map = Map::none(shares.maps);
        self.space.blocks.doubt_anchor();
    }
}

/// Finds the newest commit page, and takes over its root and all that the root names. Looks only where the
/// newest anchor says (`is_anchored`), or everywhere. `None` if there is no commit page, or if the anchor is
/// in doubt.
fn take_over<N: Nand>(core: &mut Core<N>, is_anchored: bool) -> Result<Option<(u64, Seen)>, IndexFault> {
    let Core { medium, stock, planner, .. } = core;
    let Stock { geometry, space, levels, memtable, commits } = stock;
    let record = medium.record;
    let mut chip = Survey::new(medium, *geometry, &mut space.blocks, Seen::default());
    let found = match is_anchored {
        true if chip.find_anchor()? => chip.look_at_named()?,
        true => None,
        false => chip.look_at_all()?,
    };
    let Some((sequence, ppn)) = found else {
        if !is_anchored {
            chip.require_older(0)?;
        }
        return Ok(None);
    };
    let map = space.map.as_deref_mut();
    let shares = &mut planner.shares;
    let (filtered, floor, lacking) = (0, None, 0);
    let mut taking =
        Taking { chip, levels, memtable, commits, map, shares, record, filtered, floor, lacking };
    if !taking.root(ppn, sequence)? {
        return Ok(None);
    }
    let (filtered, seen) = (taking.filtered, taking.chip.seen);
    planner.planned_for = filtered;
    Ok(Some((sequence, seen)))
}

/// Mount after the newest commit page is found: takes over its root, and all that the root names.
pub(super) struct Taking<'a, N> {
    pub(super) chip: Survey<'a, N>,
    pub(super) levels: &'a mut Levels,
    pub(super) memtable: &'a mut Memtable,
    commits: &'a mut Commits,
    pub(super) map: Option<&'a mut Map>,
    shares: &'a mut Shares,
    pub(super) record: RecordFormat,
    /// Number of pages that share the bytes of the filters, until the first plan is made.
    filtered: usize,
    /// Lower bound of the positions of the level's pages still to come.
    floor: Option<u64>,
    /// Number of records for which the memtable had no room.
    lacking: usize,
}

/// Where the records that wait are: behind the root in the commit page, in sealed pages, and in changes
/// behind the commit page.
struct Waiting {
    ppn: Ppn,
    /// Program number of the commit page.
    sequence: u64,
    /// Offset of the records in the commit page.
    at: usize,
    /// Where the first sweep stood.
    stand: Stand,
    sealed: u32,
    newest_sealed: Option<(Ppn, u64)>,
    appended: bool,
}

impl<N: Nand> Taking<'_, N> {
    /// Takes over the root. False if it knows nothing of the anchor that led there.
    fn root(&mut self, ppn: Ppn, sequence: u64) -> Result<bool, IndexFault> {
        let broken = || broken_root(ppn.0);
        let Found::Whole(header) = self.chip.medium.examine(ppn)? else { return Err(broken()) };
        let mut reader = Reader::new(&self.chip.medium.input[HEADER_BYTES..]);
        let root = match read(&mut reader, self.chip.geometry, self.record) {
            Ok(root) => root,
            Err(Wrong::Other(differs)) => {
                let what = words("the index on the chip is of another chip or of other records");
                return Err(IndexError::other(differs, what).into());
            }
            Err(Wrong::Newer(version)) => {
                return Err(IndexError::NotFormatted(Unfit::Newer { version }).into());
            }
            Err(Wrong::Lacks(what)) => return Err(IndexError::Unsupported(what.into()).into()),
            Err(Wrong::Broken) => return Err(broken()),
        };
        let at = HEADER_BYTES + reader.at();
        if root.levels.len() > super::cost::LEVELS_MAX {
            return Err(broken());
        }
        if root.places.is_none() && self.chip.blocks.anchor.as_ref().is_some_and(|anchor| anchor.in_force) {
            return Ok(false);
        }
        self.chip.blocks.take_places(root.places);
        self.commits.sequence = sequence;
        let block = self.chip.geometry.block_of(ppn);
        self.commits.newest = Some(block);
        self.block(block);
        self.commits.clean = header.after == After::Nothing;
        self.commits.followed = header.after == After::Changes;
        let extents = root.levels.iter().map(LevelRoot::extents).sum();
        let stand = Stand { round: root.levels[0].round, cursor: root.levels[0].cursor.clone() };
        let Root { sealed, newest_sealed, appended, .. } = root;
        let waiting = Waiting { ppn, sequence, at, stand, sealed, newest_sealed, appended };
        let form = (self.record, self.chip.geometry);
        let is_mapped = root.map.is_some();
        let extents = self.shares.counted(form.1, (extents, is_mapped));
        if !self.shares.divide_mounted(form, (extents, is_mapped)) {
            drop(root);
            return self.refuse_ram(&waiting, extents).map(|()| true);
        }
        self.levels.filters = Filters::new(self.shares.filter);
        if let Some(map) = self.map.as_mut().filter(|_| self.shares.has_map_bytes(form)) {
            map.make_places(form.1.blocks);
        }
        // Where RAM is short, the list of the root's items must go before the memtable comes.
        let is_late = self.shares.grows();
        if is_late {
            self.mark_sealed(&waiting)?;
        } else {
            self.waiting(&waiting, Some(header), extents)?;
        }
        self.levels.page_records = root.page_records;
        self.chip.blocks.touch(Pbn(root.worn.touched.saturating_sub(1)));
        self.map(&root)?;
        let all_rows = root.levels.iter().flat_map(|level| level.rows.iter().flatten());
        for item in all_rows {
            if let Some(row) = item.row() {
                self.chip.blocks.set(self.chip.geometry.block_of(row.first), State::Used);
            }
        }
        // The look comes first, while the output buffer still holds the findings of the survey.
        self.chip.look_behind_root(sequence, &root.worn)?;
        let is_filtered = FILTERS && root.levels.len() > 1;
        for (number, level) in root.levels.iter().enumerate() {
            self.level(level, is_filtered && number == 0)?;
        }
        drop(root);
        if is_late {
            self.waiting(&waiting, None, extents)?;
        }
        Ok(true)
    }

    /// Takes the records that wait into the memtable. `header` is that of the commit page, if the page is in
    /// the input buffer. If they are too many, the memtable gets all RAM that the lists leave.
    fn waiting(
        &mut self,
        waiting: &Waiting,
        header: Option<Header>,
        extents: usize,
    ) -> Result<(), IndexFault> {
        let form = (self.record, self.chip.geometry);
        *self.memtable = Memtable::new(self.record, self.shares.memtable);
        self.take_waiting(waiting, header)?;
        if self.lacking > 0 {
            let records = self.memtable.capacity() + self.lacking;
            self.shares.divide_for_records(form, extents, records);
            self.commits.sealed = VecDeque::new();
            // Nothing is there twice, not even for a moment.
            self.levels.filters = Filters::new(0);
            self.levels.keep_short(self.shares);
            *self.memtable = Memtable::new(self.record, 0);
            self.levels.filters = Filters::new(self.shares.filter);
            *self.memtable = Memtable::new(self.record, self.shares.memtable);
            self.take_waiting(waiting, None)?;
        }
        if self.lacking > 0 {
            let records = self.memtable.capacity() + self.lacking;
            return Err(self.shares.too_little(form, extents, records));
        }
        Ok(())
    }

    /// Refuses a mount for which there is too little RAM, and counts the records that wait to name how much
    /// it needs.
    fn refuse_ram(&mut self, waiting: &Waiting, extents: usize) -> Result<(), IndexFault> {
        *self.memtable = Memtable::new(self.record, MEMTABLE_MIN);
        self.take_waiting(waiting, None)?;
        let records = self.memtable.capacity() + self.lacking;
        Err(self.shares.too_little((self.record, self.chip.geometry), extents, records))
    }

    fn take_waiting(&mut self, waiting: &Waiting, header: Option<Header>) -> Result<(), IndexFault> {
        self.lacking = 0;
        let header = match header {
            Some(header) => header,
            None => match self.chip.medium.examine(waiting.ppn)? {
                Found::Whole(header) => header,
                _ => return Err(broken_root(waiting.ppn.0)),
            },
        };
        self.records(waiting.at, &header, None)?;
        self.sealed(waiting)?;
        if SEALS && waiting.appended {
            self.changes_behind(waiting.ppn, waiting.sequence)?;
        }
        Ok(())
    }

    pub(super) fn block(&mut self, block: Pbn) {
        self.chip.blocks.set(block, State::Used);
        self.commits.list_block(block);
    }

    /// Enters the records of the page in the input buffer into the memtable, unless newer ones are there.
    /// From a sealed page only records that the sweep has not passed since (`since`) are entered.
    fn records(
        &mut self,
        at: usize,
        header: &Header,
        since: Option<(&Stand, &Stand)>,
    ) -> Result<(), IndexFault> {
        if header.count == 0 {
            return Ok(());
        }
        let input = core::mem::take(&mut self.chip.medium.input);
        let Some(view) = View::new(&input[at.min(input.len())..], self.record, header.count.into(), true)
        else {
            self.chip.medium.input = input;
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
                let value = (!view.is_tombstone(i)).then_some(&value[..]);
                self.enter(&key, value, since.is_some());
            }
        }
        self.chip.medium.input = input;
        Ok(())
    }

    /// Enters a record into the memtable, or counts it if there is no room.
    pub(super) fn enter(&mut self, key: &[u8], value: Option<&[u8]>, is_sealed: bool) {
        if !self.memtable.takes(1) && self.memtable.find(key).is_err() {
            self.lacking += 1;
            return;
        }
        self.memtable.put(key, value, is_sealed);
    }

    /// The fields with which a sealed page begins: where the sweep stood, and page + 1 and program of the
    /// sealed page before it.
    pub(super) fn sealed_fields(&self, reader: &mut Reader<'_>) -> Option<(Stand, u32, u64)> {
        let round = reader.short()?;
        let cursor = reader.key(self.record.key_bytes)?;
        let before = reader.below(self.chip.geometry.pages() + 1)?;
        Some((Stand { round, cursor }, before, reader.number()?))
    }

    /// Reads the sealed page to which `next` leads into the input buffer. Returns its header and where it
    /// lies.
    fn sealed_page(&mut self, next: Option<(Ppn, u64)>) -> Result<(Header, Ppn, u64), IndexFault> {
        let Some((ppn, sequence)) = next else { return Err(no_sealed(Ppn(0))) };
        match self.chip.medium.examine(ppn)? {
            Found::Whole(header)
                if matches!(header.kind, Kind::Sealed | Kind::Changes) && header.sequence == sequence =>
            {
                Ok((header, ppn, sequence))
            }
            _ => Err(no_sealed(ppn)),
        }
    }

    /// Marks the blocks of the sealed pages.
    fn mark_sealed(&mut self, waiting: &Waiting) -> Result<(), IndexFault> {
        let mut next = waiting.newest_sealed;
        for _ in 0..if SEALS { waiting.sealed } else { 0 } {
            let (_, ppn, _) = self.sealed_page(next)?;
            let mut reader = Reader::new(&self.chip.medium.input[HEADER_BYTES..]);
            let Some((_, before, of)) = self.sealed_fields(&mut reader) else { return Err(no_sealed(ppn)) };
            self.block(self.chip.geometry.block_of(ppn));
            next = before.checked_sub(1).map(|page| (Ppn(page), of));
        }
        Ok(())
    }

    /// Enters the records of the sealed pages, the newest page first.
    fn sealed(&mut self, waiting: &Waiting) -> Result<(), IndexFault> {
        if !SEALS && waiting.sealed > 0 {
            let what = words("the newest changes lie in sealed pages: this build lacks \"full\"");
            return Err(IndexError::Unsupported(what.into()).into());
        }
        let (geometry, now) = (self.chip.geometry, &waiting.stand);
        let most = sealed_listed(self.record, geometry, self.memtable.capacity());
        let mut next = waiting.newest_sealed;
        for _ in 0..if SEALS { waiting.sealed } else { 0 } {
            let (header, ppn, sequence) = self.sealed_page(next)?;
            let mut reader = Reader::new(&self.chip.medium.input[HEADER_BYTES..]);
            let Some((stand, before, of)) = self.sealed_fields(&mut reader) else {
                return Err(no_sealed(ppn));
            };
            let at = HEADER_BYTES + reader.at();
            let stand = if header.kind == Kind::Changes {
                self.sealed_changes(ppn, &header, now)?
            } else {
                self.records(at, &header, Some((&stand, now)))?;
                stand
            };
            self.block(self.chip.geometry.block_of(ppn));
            self.commits.make_room_for_sealed(most, geometry);
            self.commits.sealed.push_front(Sealed { ppn, sequence, stand, pages: 1 });
            next = before.checked_sub(1).map(|page| (Ppn(page), of));
        }
        Ok(())
    }

    fn level(&mut self, root: &LevelRoot, is_filtered: bool) -> Result<(), IndexFault> {
        let number = self.levels.len();
        let (cursor, round, records) = (root.cursor.clone(), root.round, root.records);
        self.levels.push(Level { cursor, round, records, ..Level::default() });
        for item in root.rows.iter().flatten().filter(|_| is_filtered) {
            for place in item.places() {
                self.filtered += self.row_of(item, place)?.pages as usize;
            }
        }
        self.floor = None;
        for (part, rows) in [(Part::New, &root.rows[1]), (Part::Old, &root.rows[0])] {
            if part == Part::Old {
                self.floor = self.floor.max(Some(position(&root.cursor)));
            }
            for item in rows {
                for place in item.places() {
                    let row = self.row_of(item, place)?;
                    self.row(root, part, row, is_filtered)?;
                    if item.listed().is_some() {
                        self.note_listed((number, part), row, place);
                    }
                }
            }
        }
        if let Some((block, next)) = root.open {
            // Pages may have been programmed in the open block since; the first of them may commit.
            if next < self.chip.geometry.pages_per_block {
                self.chip.look_at_page(self.chip.geometry.page_at(block, next))?;
            }
            self.chip.look_at_newest(block)?;
        }
        Ok(())
    }

    /// Row that an item of a root stands for.
    fn row_of(&mut self, item: &Item, place: usize) -> Result<Row, IndexFault> {
        item.row().map_or_else(|| self.listed_row(place), Ok)
    }

    /// Takes over the pages of a row of the level: adds them to the fences, from the summary of their block
    /// if there is one, otherwise by reading them.
    fn row(&mut self, root: &LevelRoot, part: Part, row: Row, is_filtered: bool) -> Result<(), IndexFault> {
        let block = self.chip.geometry.block_of(row.first);
        self.chip.blocks.set(block, State::Used);
        self.chip.blocks.set_erases(block, row.erases);
        let told = if cfg!(feature = "full") && !is_filtered { self.told(root, row)? } else { None };
        let mut page = told.map_or(row.pages, |(_, first)| first);
        self.read_pages(part, row, 0..page)?;
        if let Some((groups, first)) = told {
            if first > 0 {
                self.told(root, row)?;
            }
            let input = core::mem::take(&mut self.chip.medium.input);
            let start = self.chip.geometry.page_in_block(row.first);
            let told = Groups::new(&input[HEADER_BYTES..], groups);
            let told = told.and_then(|groups| groups.of_row(start, row.pages));
            for low in told.into_iter().flat_map(|(_, positions)| positions) {
                self.push(part, Ppn(row.first.0 + page), low, page > 0);
                (self.floor, page) = (self.floor.max(Some(low)), page + 1);
            }
            self.chip.medium.input = input;
        }
        self.read_pages(part, row, page..row.pages)?;
        self.levels.keep_short(self.shares);
        Ok(())
    }

    /// Reads the summary of a row's block into the input buffer. Returns the number of its groups, and the
    /// first page of the row with which one begins. `None` if it tells of no page of the row.
    fn told(&mut self, root: &LevelRoot, row: Row) -> Result<Option<(u16, u32)>, IndexFault> {
        let geometry = self.chip.geometry;
        let is_open = root.open.is_some_and(|open| open.0 == geometry.block_of(row.first));
        let places = places(geometry, root.last_beside(row, geometry), is_open);
        let Some(header) = self.chip.find_summary(places, row.erases)? else { return Ok(None) };
        let groups = Groups::new(&self.chip.medium.input[HEADER_BYTES..], header.count);
        let told = groups.and_then(|groups| groups.of_row(geometry.page_in_block(row.first), row.pages));
        Ok(told.map(|(first, _)| (header.count, first)))
    }

    /// Takes over pages of a row by reading them.
    fn read_pages(&mut self, part: Part, row: Row, pages: Range<u32>) -> Result<(), IndexFault> {
        for page in pages {
            let ppn = Ppn(row.first.0 + page);
            let low = match self.chip.medium.examine(ppn)? {
                Found::Whole(header) if header.kind == Kind::Run && header.erases == row.erases => {
                    self.chip.note(ppn, &header);
                    self.learn(self.levels.len() - 1, ppn, &header)?
                }
                // A page that cannot be read counts as beginning behind the page before it; whoever needs it
                // is told.
                _ => self.floor.unwrap_or(0),
            };
            self.push(part, ppn, low, page > 0);
        }
        Ok(())
    }

    /// Adds a page to the newest level.
    fn push(&mut self, part: Part, ppn: Ppn, low: u64, joins: bool) {
        let level = self.levels.len() - 1;
        self.levels[level].run_mut(part).push(ppn, low, joins);
    }

    /// Position of the first key of the page in the input buffer. Makes the page's filter, and notes that no
    /// page behind it begins before its last key.
    fn learn(&mut self, level: usize, ppn: Ppn, header: &Header) -> Result<u64, IndexFault> {
        let (body, known) = (&self.chip.medium.input[HEADER_BYTES..], Cell::default());
        let view = View::new(body, self.record, header.count.into(), header.tombstones);
        let Some(view) = view.filter(|view| view.count() > 0).map(|view| view.noting(&known)) else {
            return Err(IndexFault::broken(Invariant::I3, "the records of a page make no sense", ppn.0));
        };
        let (first, end) = (position(&view.key_at(0)), position(&view.key_at(view.count() - 1)));
        if level == 0 && self.filtered > 0 {
            let bytes = self.levels.filters.share(1, self.filtered + 1, self.filtered);
            self.levels.filters.insert(ppn, bytes, &view);
        }
        self.floor = self.floor.max(Some(end.saturating_add((self.record.key_bytes <= 8).into())));
        Ok(first)
    }
}

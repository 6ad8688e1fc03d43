//! The step, the one primitive: the records under a level's cursor and those of the level above in the same
//! range are merged into one page, and the cursor moves.

use super::coder::{Builder, Expected, View};
use super::drain::Drain;
use super::fences::position;
use super::io::Target;
use super::level::{Part, Place};
use super::page::{HEADER_BYTES, Header};
use super::{Plow, Source};
use crate::check::IndexError;
use crate::nand::Nand;
use crate::units::Ppn;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Ordering;

/// How often a page is begun anew because its code was chosen for other gaps than come.
const TRIES: usize = 3;
/// Pages that a step reads at most before it writes what it has.
const READS_MAX: usize = 16;

/// The old pages of the level, read one after the other.
#[derive(Debug, Default)]
struct Below {
    /// Pages that are used up.
    used: usize,
    /// The record of the page after them that is next.
    index: usize,
    /// Whether there is one, and its key.
    is_there: bool,
    key: Vec<u8>,
    value: Vec<u8>,
    is_tombstone: bool,
    /// The first and the last key of the page, and its records.
    first: Vec<u8>,
    last: Vec<u8>,
    count: usize,
}

/// The records of the level above: the memtable's, or what the slice holds of a level's.
#[derive(Debug, Default)]
struct Above {
    /// The next record of the memtable or of the slice.
    at: usize,
    /// Records in the slice.
    held: usize,
    /// The page from which the slice goes on, and its record.
    next: Option<(Place, usize)>,
    /// Pages of which every record is in the slice or went through it, each with its last key.
    passed: Vec<(Part, Ppn, Vec<u8>)>,
}

/// A step under way.
#[derive(Debug)]
struct Step {
    level: usize,
    from: Box<[u8]>,
    /// The cursor of the next level, at which the page must end.
    limit: Option<Box<[u8]>>,
    below: Below,
    above: Above,
    builder: Option<Builder>,
    reads: usize,
    /// Records taken from the level above, and from the old pages.
    taken: [usize; 2],
    /// Whether it ended at the limit.
    is_limited: bool,
    /// Whether it ended because of a gap for which the page's code was not chosen.
    is_surprised: bool,
    /// The key behind that gap and the records before it, from an earlier try.
    surprise: Option<(Vec<u8>, usize)>,
    /// The first key not merged; none at the end of all keys.
    stop: Option<Vec<u8>>,
}

/// Which of the two has the next record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Above,
    Below,
    /// Both have it; the one above is newer.
    Both,
}

impl<N: Nand> Plow<N> {
    /// One step of a level.
    pub(super) fn step(&mut self, level: usize) -> Result<(), IndexError> {
        if !self.has_place(Target::Level(level)) {
            if self.blocks.left() == 0 {
                return Err(self.no_room());
            }
            self.commit(false)?;
            if !self.has_place(Target::Level(level)) {
                return Err(self.no_room());
            }
        }
        let cause = self.begin_merging();
        let mut done = self.step_once(level);
        // A sweep that only ever came up to the next one would write a short page each time: it passes it at
        // once.
        if done == Ok(true) && self.drain == Drain::Off && self.has_place(Target::Level(level)) {
            done = self.step_once(level);
        }
        self.cause = cause;
        done.map(|_| ())
    }

    /// One step; whether the page ended at the next level's cursor, less than half full.
    fn step_once(&mut self, level: usize) -> Result<bool, IndexError> {
        let mut surprise = None;
        for _ in 1..TRIES {
            let step = self.merged(level, surprise.take())?;
            let count = step.builder.map_or(0, |builder| builder.count());
            match &step.stop {
                Some(stop) if step.is_surprised => surprise = Some((stop.clone(), count)),
                _ => return self.finish(step),
            }
        }
        let step = self.merged(level, surprise)?;
        self.finish(step)
    }

    /// A step up to the point where its page is in the output buffer.
    fn merged(&mut self, level: usize, surprise: Option<(Vec<u8>, usize)>) -> Result<Step, IndexError> {
        let from = self.levels[level].cursor.clone();
        // A level that is drained goes once the sweep of the last one is at its cursor.
        let other = match self.drain {
            Drain::Sweep if level + 1 == self.levels.len() => level.checked_sub(1),
            _ => Some(level + 1),
        };
        let limit = other.and_then(|other| self.levels.get(other));
        let limit = limit.map(|other| other.cursor.clone()).filter(|cursor| *cursor > from);
        let (key, value) = (self.record.key_bytes.into(), self.record.value_bytes.into());
        let below = Below { key: vec![0; key], value: vec![0; value], ..Below::default() };
        let mut step = Step {
            level,
            from,
            limit,
            below,
            above: Above::default(),
            builder: None,
            reads: 0,
            taken: [0; 2],
            is_limited: false,
            is_surprised: false,
            surprise,
            stop: None,
        };
        match self.source(level) {
            Source::Memtable => step.above.at = self.memtable.lower_bound(&step.from),
            Source::Level(upper) => {
                let from = step.from.clone();
                let sought = self.seek(upper, &from)?;
                step.reads += 1;
                step.above.next = match sought {
                    Some(place) => Some((place, 0)),
                    // Every page of that part begins after the key.
                    None => {
                        let first = (self.levels[upper].part_of(&from), 0);
                        let is_there = self.levels[upper].page(first).is_some();
                        let other =
                            Some((Part::Old, 0)).filter(|&place| self.levels[upper].page(place).is_some());
                        (if is_there { Some(first) } else { other }).map(|place| (place, 0))
                    }
                };
                // It is in the input buffer now, where the page below comes next.
                if sought.is_some() {
                    self.fill_slice(&mut step, upper)?;
                }
            }
        }
        self.read_below(&mut step)?;
        self.merge(&mut step)?;
        Ok(step)
    }

    /// Reads old pages until there is a record not below where the step begins; the page stays in the input
    /// buffer.
    fn read_below(&mut self, step: &mut Step) -> Result<(), IndexError> {
        let below = &mut step.below;
        below.is_there = false;
        while let Some(page) = self.levels[step.level].old.page(below.used) {
            self.load_page(page)?;
            step.reads += 1;
            let view = self.view()?;
            let mut index = view.search(&step.from, &mut below.key).0;
            if let Some(next) = self.levels.get(step.level + 1) {
                // What the next level took from the page around its cursor is dead.
                let taken = view.search(&next.cursor, &mut below.key).0;
                index = index.max(if taken < view.count() { taken } else { 0 });
            }
            if index < view.count() {
                (below.index, below.is_there, below.count) = (index, true, view.count());
                (below.first, below.last) = (view.key_owned(0), view.key_owned(view.count() - 1));
                below.take(&view);
                return Ok(());
            }
            below.used += 1;
        }
        Ok(())
    }

    /// The next record of the old pages.
    fn advance_below(&mut self, step: &mut Step) -> Result<(), IndexError> {
        let below = &mut step.below;
        let Some(page) = self.levels[step.level].old.page(below.used) else {
            below.is_there = false;
            return Ok(());
        };
        self.load_page(page)?;
        let view = self.view()?;
        below.index += 1;
        if below.index < view.count() {
            below.take(&view);
            return Ok(());
        }
        below.used += 1;
        self.read_below(step)
    }

    /// Fills the slice with the next records of a page of the level above that are not below where the step
    /// begins.
    fn fill_slice(&mut self, step: &mut Step, upper: usize) -> Result<(), IndexError> {
        let above = &mut step.above;
        (above.at, above.held) = (0, 0);
        self.slice.clear();
        let stride = self.record.entry_bytes() + 1;
        let mut scratch = vec![0; self.record.key_bytes.into()];
        if let Some((place, index)) = above.next {
            let is_there =
                self.loaded.is_some_and(|loaded| Some(loaded.ppn) == self.levels[upper].page(place));
            let ppn = self.load_place(upper, place)?;
            step.reads += usize::from(!is_there);
            let mut slice = core::mem::take(&mut self.slice);
            let view = self.view()?;
            let count = view.count();
            // Below its own cursor the first old page is dead.
            let own = if place.0 == Part::Old { &self.levels[upper].cursor } else { &step.from };
            let start = index.max(view.search(own.max(&step.from), &mut scratch).0);
            let end = count.min(start + self.shares.slice);
            for i in start..end {
                let at = slice.len();
                slice.resize(at + stride, 0);
                copy_record(&view, i, &mut slice[at..], self.record.key_bytes.into());
            }
            let last = view.key_owned(count - 1);
            self.slice = slice;
            above.held = end.saturating_sub(start);
            above.next = Some((place, end)).filter(|_| end < count);
            if above.next.is_none() {
                if above.held > 0 {
                    above.passed.push((place.0, ppn, last));
                }
                above.next = self.levels[upper].next(place).map(|place| (place, 0));
            }
        }
        Ok(())
    }

    /// Whether the level above must be read to know which record is next.
    fn needs_above(&self, step: &Step) -> bool {
        let (above, below) = (&step.above, &step.below);
        let Source::Level(upper) = self.source(step.level) else { return false };
        if above.at < above.held {
            return false;
        }
        match above.next {
            None => false,
            Some((_, index)) if index > 0 || !below.is_there => true,
            // What begins after the next record below may wait.
            Some((place, _)) => {
                let run = self.levels[upper].run(place.0);
                let reached = run.find(position(&below.key));
                place.0 == Part::New && self.levels[upper].part_of(&below.key) == Part::Old
                    || self.levels[upper].part_of(&below.key) == place.0
                        && reached.is_some_and(|(_, last)| place.1 <= last)
            }
        }
    }

    fn above_key(&self, step: &Step) -> Option<&[u8]> {
        let above = &step.above;
        match self.source(step.level) {
            Source::Memtable => (above.at < self.memtable.len()).then(|| self.memtable.key(above.at)),
            Source::Level(_) => (above.at < above.held).then(|| self.sliced(above.at).0),
        }
    }

    /// A record of the slice.
    fn sliced(&self, i: usize) -> (&[u8], Option<&[u8]>) {
        let stride = self.record.entry_bytes() + 1;
        let (record, flag) = self.slice[i * stride..(i + 1) * stride].split_at(stride - 1);
        let (key, value) = record.split_at(self.record.key_bytes.into());
        (key, (flag[0] == 0).then_some(value))
    }

    fn merge(&mut self, step: &mut Step) -> Result<(), IndexError> {
        loop {
            if let (true, Source::Level(upper)) = (self.needs_above(step), self.source(step.level)) {
                self.fill_slice(step, upper)?;
                continue;
            }
            let next = match (self.above_key(step), step.below.is_there) {
                (None, false) => {
                    step.stop = step.limit.as_ref().map(|limit| limit.to_vec());
                    return Ok(());
                }
                (Some(_), false) => Next::Above,
                (None, true) => Next::Below,
                (Some(above), true) => match above.cmp(&step.below.key) {
                    Ordering::Less => Next::Above,
                    Ordering::Equal => Next::Both,
                    Ordering::Greater => Next::Below,
                },
            };
            if !self.take_next(step, next)? {
                return Ok(());
            }
        }
    }

    /// Takes the next record into the page; false where the step ends before it.
    fn take_next(&mut self, step: &mut Step, next: Next) -> Result<bool, IndexError> {
        let is_last_level = step.level + 1 == self.levels.len();
        let mut output = core::mem::take(&mut self.output);
        let (key, value) = match (next, self.source(step.level)) {
            (Next::Below, _) => {
                (&step.below.key[..], (!step.below.is_tombstone).then_some(&step.below.value[..]))
            }
            (_, Source::Memtable) => (self.memtable.key(step.above.at), self.memtable.value(step.above.at)),
            (_, Source::Level(_)) => self.sliced(step.above.at),
        };
        let body = &mut output[HEADER_BYTES..];
        let is_beyond = step.limit.as_ref().is_some_and(|limit| key >= &limit[..]);
        // Where much is hidden or pages are short, a step ends after so many pages all the same.
        let is_over = step.reads > READS_MAX && key > &step.from[..];
        let fits = if is_beyond || is_over {
            false
        } else if value.is_none() && is_last_level {
            // Nothing below is left to hide.
            true
        } else {
            let builder = step.builder.get_or_insert_with(|| {
                let (low, last, count) = match &step.surprise {
                    Some((last, count)) => (key, &last[..], count + 1),
                    None => self.expected(step.level, &step.below, &step.above, key),
                };
                let tombstones = !is_last_level;
                Builder::begin(body, self.record, Expected { first: key, low, last, count, tombstones })
            });
            let fits = builder.append(body, key, value);
            step.is_surprised = !fits && builder.is_short(body);
            fits
        };
        if !fits {
            step.is_limited = is_beyond;
            step.stop = match &step.limit {
                Some(limit) if is_beyond => Some(limit.to_vec()),
                _ => Some(key.to_vec()),
            };
        }
        self.output = output;
        if !fits {
            return Ok(false);
        }
        if next != Next::Below {
            step.above.at += 1;
            step.taken[0] += 1;
        }
        if next != Next::Above {
            step.taken[1] += 1;
            self.advance_below(step)?;
        }
        Ok(true)
    }

    /// A first and a last key and the number of records between them, as the step sees them: from these the
    /// code is chosen.
    fn expected<'a>(
        &'a self,
        level: usize,
        below: &'a Below,
        above: &Above,
        first: &'a [u8],
    ) -> (&'a [u8], &'a [u8], usize) {
        let (low, last, count) =
            if below.is_there { (&below.first[..], &below.last[..], below.count) } else { (first, first, 0) };
        let (at, end) = match self.source(level) {
            Source::Memtable => (above.at, self.memtable.len()),
            Source::Level(_) => (above.at, above.held),
        };
        let key = |i: usize| match self.source(level) {
            Source::Memtable => self.memtable.key(i),
            Source::Level(_) => self.sliced(i).0,
        };
        if count > 0 && last > first {
            let more = (at..end).take_while(|&i| key(i) <= last).count();
            return (low, last, count + more);
        }
        match end.checked_sub(1).filter(|&i| i >= at) {
            Some(i) => (first, key(i).max(first), end - at),
            None => (first, first, 1),
        }
    }

    /// Programs the page and takes what went into it from where it was.
    fn finish(&mut self, step: Step) -> Result<bool, IndexError> {
        let level = step.level;
        let count = step.builder.map_or(0, |builder| builder.count());
        let tombstones = level + 1 < self.levels.len();
        if count > 0 {
            let ppn = self.program(Target::Level(level), Header::run(count, tombstones))?;
            // The filter of the new page may have the bytes of theirs.
            for used in 0..if level == 0 { step.below.used } else { 0 } {
                let page = self.levels[level].old.page(used);
                page.into_iter().for_each(|page| self.filters.remove(page));
            }
            self.adopt((level, Part::New), ppn, count, tombstones);
            self.summarise_full(level)?;
        }
        self.counters.steps[level] += 1;
        self.dirty = true;
        let held = &mut self.levels[level].records;
        *held = (*held + count).saturating_sub(step.taken[1]);
        let stop = step.stop.as_deref();
        match self.source(level) {
            Source::Memtable => self.memtable.remove_range(&step.from, stop),
            Source::Level(upper) => {
                let held = &mut self.levels[upper].records;
                *held = held.saturating_sub(step.taken[0]);
                for (part, ppn, last) in step.above.passed {
                    if stop.is_none_or(|stop| &last[..] < stop) {
                        self.drop_page(upper, part, ppn);
                    }
                }
            }
        }
        for _ in 0..step.below.used {
            if let Some(ppn) = self.levels[level].old.page(0) {
                self.drop_page(level, Part::Old, ppn);
            }
        }
        match step.stop {
            Some(stop) => self.levels[level].cursor = stop.into(),
            None => self.levels[level].wrap(),
        }
        self.keep_fences_short();
        Ok(step.is_limited && (count as u64) < self.page_records / 2)
    }

    /// Enters the page in the output buffer at the end of a level's new pages, or of the old ones.
    pub(super) fn adopt(&mut self, (level, part): (usize, Part), ppn: Ppn, count: usize, tombstones: bool) {
        let Some(view) = View::new(&self.output[HEADER_BYTES..], self.record, count, tombstones) else {
            return;
        };
        let (first, end) = (view.key_owned(0), view.key_owned(count - 1));
        if level == 0 && self.levels.len() > 1 {
            let pages = self.plan.pages_max[0] as usize;
            // Around two cursors pages are half dead.
            let bytes = self.filters.share(count, (pages + 1) * self.page_records as usize, pages + 3);
            self.filters.insert(ppn, bytes, &mut (0..count).map(|i| view.key_owned(i)));
        }
        if level + 1 == self.levels.len() {
            self.page_records = (count as u64).max((self.page_records + count as u64) / 2);
        }
        // Steps of the next level take pages from its cursor on: an extent that begins there need not be
        // parted.
        let joins = self.levels.get(level + 1).is_none_or(|below| below.cursor[..] != first[..])
            && !ppn.0.is_multiple_of(self.geometry.pages_per_block);
        let of_level = &mut self.levels[level];
        let run = if part == Part::New { &mut of_level.new } else { &mut of_level.old };
        run.push(ppn, position(&first), joins);
        self.note_top(&end);
    }

    fn drop_page(&mut self, level: usize, part: Part, ppn: Ppn) {
        self.levels[level].remove(part, ppn);
        if level == 0 {
            self.filters.remove(ppn);
        }
        self.leave_if_dead(level, self.geometry.block_of(ppn));
    }

    /// Halves the fences of the longest run until all fit their share of the RAM.
    pub(super) fn keep_fences_short(&mut self) {
        let held = |plow: &Plow<N>| -> usize {
            plow.levels.iter().map(|level| level.old.ram_bytes() + level.new.ram_bytes()).sum()
        };
        while held(self) > self.shares.fences {
            let runs = self.levels.iter_mut().flat_map(|level| [&mut level.old, &mut level.new]);
            let Some(longest) = runs.max_by_key(|run| run.ram_bytes()) else { return };
            if !longest.thin() {
                return;
            }
        }
    }
}

impl Below {
    fn take(&mut self, view: &View<'_>) {
        view.key(self.index, &mut self.key);
        view.value(self.index, &mut self.value);
        self.is_tombstone = view.is_tombstone(self.index);
    }
}

/// Copies a record as key, value, and whether it is a tombstone.
pub(super) fn copy_record(view: &View<'_>, i: usize, to: &mut [u8], key_bytes: usize) {
    let (record, flag) = to.split_at_mut(to.len() - 1);
    let (key, value) = record.split_at_mut(key_bytes);
    view.key(i, key);
    view.value(i, value);
    flag[0] = u8::from(view.is_tombstone(i));
}

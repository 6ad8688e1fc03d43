//! The step, the one primitive: the records under a level's cursor and those of the level above in the same
//! range are merged into one page, and the cursor moves.

use super::above::Above;
use super::carry::bytes_kept;
use super::coder::{Builder, Expected, View};
use super::drain::Drain;
use super::fences::{Run, position};
use super::io::Target;
use super::level::Part;
use super::page::{HEADER_BYTES, Header};
use super::{Plow, Source};
use crate::fault::IndexFault;
use crate::nand::Nand;
use crate::units::Ppn;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::Cell;
use core::cmp::Ordering;
use core::mem;

/// How often a page is begun anew because its code was chosen for other gaps than come.
const TRIES: usize = 3;
/// Pages that a step reads at most before it writes what it has.
const READS_MAX: usize = 16;

/// The old pages of the level, read one after the other.
#[derive(Debug, Default)]
pub(super) struct Below {
    /// Pages that are used up.
    used: usize,
    /// The record of the page after them that is next.
    index: usize,
    /// Whether there is one, and its key.
    pub(super) is_there: bool,
    pub(super) key: Vec<u8>,
    value: Vec<u8>,
    is_tombstone: bool,
    /// The first and the last key of the page and its records, until the page being written is begun.
    first: Vec<u8>,
    last: Vec<u8>,
    count: usize,
}

/// A step under way.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) level: usize,
    pub(super) from: Box<[u8]>,
    /// The cursor of the next level, at which the page must end.
    limit: Option<Box<[u8]>>,
    pub(super) below: Below,
    pub(super) above: Above,
    pub(super) builder: Option<Builder>,
    pub(super) reads: usize,
    /// The last key merged; empty before the first.
    merged: Vec<u8>,
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

/// The outcome of a step.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) level: usize,
    /// Records of its page.
    pub(super) count: usize,
    /// Old pages used up.
    pub(super) used: usize,
    /// Records taken from the level above, and from the old pages.
    pub(super) taken: [usize; 2],
    /// Pages of the level above that are used up, each with its last key.
    pub(super) passed: Vec<(Part, Ppn, Vec<u8>)>,
    pub(super) from: Box<[u8]>,
    /// The new cursor; none at the end of all keys.
    pub(super) stop: Option<Vec<u8>>,
}

/// Blocks below which the RAM has no room beside for a list that grows.
const BLOCKS_FEW: u32 = 64;

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
    pub(super) fn step(&mut self, level: usize) -> Result<(), IndexFault> {
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
        if done == Ok(true)
            && self.drain == Drain::Off
            && self.leaves_enough(level)
            && self.has_place(Target::Level(level))
        {
            done = self.step_once(level);
        }
        self.cause = cause;
        done.map(|_| ())
    }

    /// One step; whether the page ended at the next level's cursor, less than half full.
    fn step_once(&mut self, level: usize) -> Result<bool, IndexFault> {
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
    fn merged(&mut self, level: usize, surprise: Option<(Vec<u8>, usize)>) -> Result<Step, IndexFault> {
        let from = self.levels[level].cursor.clone();
        // A level that is drained goes once the sweep of the last one is at its cursor.
        let other = match self.drain {
            Drain::Sweep(_) if level + 1 == self.levels.len() => level.checked_sub(1),
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
            merged: Vec::new(),
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
                    self.copy_above(&mut step, upper)?;
                }
            }
        }
        self.read_below(&mut step)?;
        self.merge(&mut step)?;
        Ok(step)
    }

    /// Reads old pages until there is a record not below where the step begins; the page stays in the input
    /// buffer.
    fn read_below(&mut self, step: &mut Step) -> Result<(), IndexFault> {
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
                if step.builder.is_none() {
                    (below.first, below.last) = (view.key_owned(0), view.key_owned(view.count() - 1));
                }
                below.take(&view);
                return Ok(());
            }
            below.used += 1;
        }
        Ok(())
    }

    /// The next record of the old pages.
    fn advance_below(&mut self, step: &mut Step) -> Result<(), IndexFault> {
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

    fn merge(&mut self, step: &mut Step) -> Result<(), IndexFault> {
        loop {
            if let (true, Source::Level(upper)) = (self.needs_above(step), self.source(step.level)) {
                if self.copy_above(step, upper)? {
                    continue;
                }
                debug_assert!(!step.merged.is_empty(), "an empty page has room for a copy");
                step.stop = after(&step.merged);
                return Ok(());
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
    fn take_next(&mut self, step: &mut Step, next: Next) -> Result<bool, IndexFault> {
        let is_last_level = step.level + 1 == self.levels.len();
        let stride = self.stride();
        let mut output = mem::take(&mut self.output);
        if next != Next::Below && self.source(step.level) != Source::Memtable {
            self.take_copy(&output, &mut step.above);
        }
        let copy = mem::take(&mut step.above.record);
        let (key, value) = match (next, self.source(step.level)) {
            (Next::Below, _) => {
                (&step.below.key[..], (!step.below.is_tombstone).then_some(&step.below.value[..]))
            }
            (_, Source::Memtable) => (self.memtable.key(step.above.at), self.memtable.value(step.above.at)),
            (_, Source::Level(_)) => split_copy(&copy, self.record.key_bytes.into()),
        };
        let is_beyond = step.limit.as_ref().is_some_and(|limit| key >= &limit[..]);
        // Where much is hidden or pages are short, a step ends after so many pages all the same.
        let is_over = step.reads > READS_MAX && key > &step.from[..];
        let fits = if is_beyond || is_over {
            false
        } else if value.is_none() && is_last_level {
            // Nothing below is left to hide.
            true
        } else {
            let mut builder = match step.builder {
                Some(builder) => builder,
                None => {
                    let around = (mem::take(&mut step.below.first), mem::take(&mut step.below.last));
                    self.begin(step, &mut output, key, around)
                }
            };
            let body = &mut output[HEADER_BYTES..];
            let mut fits = builder.append_around(body, step.above.hole(stride), (key, value));
            while !fits && step.above.held > 0 {
                step.above.move_away(body, builder.used(), stride);
                fits = builder.append_around(body, step.above.hole(stride), (key, value));
                if !fits && !step.above.give_up_half(body, stride) {
                    // The record may still fit where the last copy lies.
                    if !step.above.keep_last(body, stride) {
                        break;
                    }
                    fits = builder.append_around(body, step.above.hole(stride), (key, value));
                }
            }
            step.is_surprised = !fits && builder.is_short(body);
            step.builder = Some(builder);
            fits
        };
        if !fits {
            step.is_limited = is_beyond;
            step.stop = match &step.limit {
                Some(limit) if is_beyond => Some(limit.to_vec()),
                _ => Some(key.to_vec()),
            };
        } else {
            step.merged.clear();
            step.merged.extend_from_slice(key);
        }
        self.output = output;
        // It may have been the last copy's turn to leave the page.
        if step.above.record.is_empty() {
            step.above.record = copy;
        }
        if !fits {
            return Ok(false);
        }
        if next != Next::Below {
            self.advance_above(step);
            step.taken[0] += 1;
        }
        if next != Next::Above {
            step.taken[1] += 1;
            self.advance_below(step)?;
        }
        Ok(true)
    }

    /// Begins the page in the output buffer, whose first key this is: its code is chosen from what the step
    /// sees, or saw in an earlier try.
    fn begin(&self, step: &Step, output: &mut [u8], first: &[u8], around: (Vec<u8>, Vec<u8>)) -> Builder {
        let (low, last, count) = match &step.surprise {
            Some((last, count)) => (first.to_vec(), last.clone(), count + 1),
            None => self.expected(step, output, first, around),
        };
        let tombstones = step.level + 1 < self.levels.len();
        let expected = Expected { first, low: &low, last: &last, count, tombstones };
        let hole = step.above.hole(self.stride());
        let kept = if self.may_carry() { bytes_kept(self.record, output.len()) } else { 0 };
        Builder::begin_around(&mut output[HEADER_BYTES..], hole, self.record, expected).keeping(kept)
    }

    /// A first and a last key and the number of records between them, as the step sees them.
    fn expected(
        &self,
        step: &Step,
        output: &[u8],
        first: &[u8],
        (low, last): (Vec<u8>, Vec<u8>),
    ) -> (Vec<u8>, Vec<u8>, usize) {
        let (below, above) = (&step.below, &step.above);
        let is_pooled = self.source(step.level) == Source::Memtable;
        let (at, end) = if is_pooled { (above.at, self.memtable.len()) } else { (0, above.held) };
        let key = |i: usize| match is_pooled {
            true => self.memtable.key(i),
            false => self.copied_key(output, above, i),
        };
        if below.is_there && below.count > 0 && last > low {
            let more = (at..end).take_while(|&i| key(i) <= &last[..]).count();
            return (low, last, below.count + more);
        }
        match end.checked_sub(1).filter(|&i| i >= at) {
            Some(i) => (first.to_vec(), key(i).max(first).to_vec(), end - at),
            None => (first.to_vec(), first.to_vec(), 1),
        }
    }

    /// Programs the page and takes what went into it from where it was.
    fn finish(&mut self, step: Step) -> Result<bool, IndexFault> {
        let level = step.level;
        let count = step.builder.map_or(0, |builder| builder.count());
        let is_short = step.is_limited && (count as u64) < self.page_records / 2;
        // What was copied and not merged is no part of the page.
        let copies = step.above.hole(self.stride());
        let mut passed = step.above.passed;
        if let Some(stop) = &step.stop {
            passed.retain(|passed| passed.2 < *stop);
        }
        let outcome = Outcome {
            level,
            count,
            used: step.below.used,
            taken: step.taken,
            passed,
            from: step.from,
            stop: step.stop,
        };
        // The lists of extents and commits may be copied where they grow: no record is held then.
        drop((step.below, step.surprise));
        let mut written = None;
        if let Some(builder) = step.builder.filter(|_| count > 0) {
            self.output[HEADER_BYTES..][copies].fill(0);
            let commits = !is_short && self.carry(&outcome, builder.used());
            let header = Header::run(count, level + 1 < self.levels.len());
            written = Some(self.program(Target::Level(level), Header { commits, ..header })?);
        }
        self.take_over(outcome, written);
        if written.is_some() {
            self.summarise_full(level)?;
        }
        self.dirty = true;
        self.keep_fences_short();
        Ok(is_short)
    }

    /// Enters the page of a step, if it has one, which is in the output buffer, and takes what went into it
    /// from where it was.
    pub(super) fn take_over(&mut self, outcome: Outcome, written: Option<Ppn>) {
        let Outcome { level, count, .. } = outcome;
        if let Some(ppn) = written {
            // The filter of the new page may have the bytes of theirs.
            for used in 0..if level == 0 { outcome.used } else { 0 } {
                let page = self.levels[level].old.page(used);
                page.into_iter().for_each(|page| self.filters.remove(page));
            }
            self.adopt((level, Part::New), ppn, count, level + 1 < self.levels.len());
        }
        self.counters.steps[level] += 1;
        let held = &mut self.levels[level].records;
        *held = (*held + count).saturating_sub(outcome.taken[1]);
        match self.source(level) {
            Source::Memtable => self.memtable.remove_range(&outcome.from, outcome.stop.as_deref()),
            Source::Level(upper) => {
                let held = &mut self.levels[upper].records;
                *held = held.saturating_sub(outcome.taken[0]);
                for (part, ppn, _) in outcome.passed {
                    self.drop_page(upper, part, ppn);
                }
            }
        }
        for _ in 0..outcome.used {
            if let Some(ppn) = self.levels[level].old.page(0) {
                self.drop_page(level, Part::Old, ppn);
            }
        }
        match outcome.stop {
            Some(stop) => self.levels[level].cursor = stop.into(),
            None => self.levels[level].wrap(),
        }
    }

    /// Enters the page in the output buffer at the end of a level's new pages, or of the old ones.
    pub(super) fn adopt(&mut self, (level, part): (usize, Part), ppn: Ppn, count: usize, tombstones: bool) {
        let known = Cell::default();
        let Some(view) = View::new(&self.output[HEADER_BYTES..], self.record, count, tombstones) else {
            return;
        };
        let view = view.noting(&known);
        let first = view.key_owned(0);
        let end = cfg!(feature = "full").then(|| view.key_owned(count - 1));
        if level == 0 {
            // One level alone grows; where all filters are too small for it, they are of use no longer.
            let pages = match self.levels.len() {
                1 => self.levels[0].pages() * 5 / 4,
                _ => self.plan.pages_max[0] as usize,
            };
            // Around two cursors pages are half dead.
            let bytes = self.filters.share(count, (pages + 1) * self.page_records as usize, pages + 3);
            self.filters.insert(ppn, bytes, (count, &|i| view.key_owned(i)));
        }
        if level + 1 == self.levels.len() {
            // While a level is left out, pages end at its cursor.
            let is_cut_short = cfg!(feature = "full") && matches!(self.drain, Drain::Sweep(_));
            let learnt = if is_cut_short { self.page_records } else { count as u64 };
            self.page_records = (count as u64).max((self.page_records + learnt) / 2);
        }
        // Steps of the next level take pages from its cursor on: an extent that begins there need not be
        // parted.
        let joins = self.levels.get(level + 1).is_none_or(|below| below.cursor[..] != first[..])
            && !ppn.0.is_multiple_of(self.geometry.pages_per_block);
        let low = position(&first);
        // The list of extents may be copied where it grows: no key is held then.
        drop(first);
        if let Some(end) = end {
            self.note_top(&end);
        }
        let of_level = &mut self.levels[level];
        let run = if part == Part::New { &mut of_level.new } else { &mut of_level.old };
        run.push(ppn, low, joins);
    }

    fn drop_page(&mut self, level: usize, part: Part, ppn: Ppn) {
        self.levels[level].remove(part, ppn);
        if level == 0 {
            self.filters.remove(ppn);
        }
        // Another page may be written there, with keys that are not above all others.
        if cfg!(feature = "full") {
            self.tail = self.tail.filter(|&tail| tail != ppn);
        }
        self.leave_if_dead(self.geometry.block_of(ppn));
    }

    /// Halves the fences of the longest run until all fit their share of the RAM.
    pub(super) fn keep_fences_short(&mut self) {
        let is_small = self.geometry.blocks < BLOCKS_FEW;
        let held = |plow: &Plow<N>| -> usize {
            let runs = || plow.levels.iter().flat_map(|level| [&level.old, &level.new]);
            let copied = runs().map(Run::copied_bytes).max().filter(|_| is_small);
            runs().map(Run::ram_bytes).sum::<usize>() + copied.unwrap_or(0)
        };
        while held(self) > self.shares.fences {
            let (mut longest, mut most) = (None, 0);
            for level in &mut self.levels {
                for run in [&mut level.old, &mut level.new] {
                    if run.ram_bytes() >= most {
                        (most, longest) = (run.ram_bytes(), Some(run));
                    }
                }
            }
            if !longest.is_some_and(Run::thin) {
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

/// The lowest key above this one; none if there is none.
fn after(key: &[u8]) -> Option<Vec<u8>> {
    let mut next = key.to_vec();
    let place = next.iter().rposition(|&byte| byte != 0xff)?;
    next[place] += 1;
    next[place + 1..].fill(0);
    Some(next)
}

/// The key and the value of a copy; none for a tombstone.
fn split_copy(copy: &[u8], key_bytes: usize) -> (&[u8], Option<&[u8]>) {
    let (record, flag) = copy.split_at(copy.len() - 1);
    let (key, value) = record.split_at(key_bytes);
    (key, (flag[0] == 0).then_some(value))
}

/// Copies a record as key, value, and whether it is a tombstone.
pub(super) fn copy_record(view: &View<'_>, i: usize, to: &mut [u8], key_bytes: usize) {
    let (record, flag) = to.split_at_mut(to.len() - 1);
    let (key, value) = record.split_at_mut(key_bytes);
    view.key(i, key);
    view.value(i, value);
    flag[0] = u8::from(view.is_tombstone(i));
}

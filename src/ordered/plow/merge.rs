//! The merge of a step: it fills a page from the old pages of the level and from the level above.

use super::above::Above;
use super::coder::{Builder, Expected, View};
use super::drain::Drain;
use super::level::Part;
use super::page::HEADER_BYTES;
use super::sight::Sight;
use super::step::Outcome;
use crate::fault::IndexFault;
use crate::nand::Nand;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::mem;
use core::ops::RangeInclusive;

/// A step that has read this many pages writes its page, full or not.
const READS_MAX: usize = 16;

/// The old pages of the level, read one after the other.
#[derive(Debug, Default)]
pub(super) struct Below {
    /// Number of pages that are used up.
    pub(super) used: usize,
    /// Index of the next record within its page, the first one not used up.
    index: usize,
    /// True if there is a next record; the fields below hold its key and value.
    pub(super) is_there: bool,
    pub(super) key: Vec<u8>,
    value: Vec<u8>,
    is_tombstone: bool,
    /// First and last key of the page and its number of records, kept until the page being written is begun.
    first: Vec<u8>,
    last: Vec<u8>,
    count: usize,
}

/// Bounds of the page that a step writes.
#[derive(Debug, Default)]
pub(super) struct Bounds {
    /// Number of records of the upper level that the step copies at a time.
    pub(super) slice: usize,
    /// Bytes of the page that are kept for the change under way.
    pub(super) kept: usize,
    /// Key before which the page ends.
    pub(super) end: Option<Box<[u8]>>,
    /// From an earlier try: the key behind a gap for which the code was not chosen, and the number of records
    /// before it.
    pub(super) surprise: Option<(Vec<u8>, usize)>,
}

#[derive(Debug, Default)]
pub(super) struct Step {
    pub(super) out: Outcome,
    /// Cursor of the next level, or another key, at which the page must end.
    limit: Option<Box<[u8]>>,
    /// Number of records of the upper level that the step copies at a time.
    pub(super) slice: usize,
    /// Bytes of the page that are kept for the change under way.
    pub(super) kept: usize,
    pub(super) below: Below,
    pub(super) above: Above,
    pub(super) builder: Option<Builder>,
    pub(super) reads: usize,
    /// The last key merged; empty before the first.
    merged: Vec<u8>,
    /// True if the page ended at the limit.
    pub(super) is_limited: bool,
    /// True if the page ended at a gap for which its code was not chosen.
    pub(super) is_surprised: bool,
    /// From an earlier try: the key behind such a gap, and the number of records before it.
    pub(super) surprise: Option<(Vec<u8>, usize)>,
}

/// Source of the next record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Above,
    Below,
    /// Both have a record of the key; the one above is newer.
    Both,
}

impl<N: Nand> Sight<'_, N> {
    /// Merges a step of a level until its page is complete in the output buffer.
    pub(super) fn merged(&mut self, level: usize, bounds: Bounds) -> Result<Step, IndexFault> {
        let Bounds { slice, kept, end, surprise } = bounds;
        let from = self.stock.levels[level].cursor.clone();
        // A level that is drained can go once the sweep of the last level is at its cursor.
        let other = match self.stock.levels.drain {
            Drain::Sweep(_) if level + 1 == self.stock.levels.len() => level.checked_sub(1),
            _ => Some(level + 1),
        };
        let limit = other.and_then(|other| self.stock.levels.get(other));
        let limit = limit.map(|other| other.cursor.clone()).filter(|cursor| *cursor > from);
        let limit = limit.into_iter().chain(end).min();
        let (key, value) = (self.medium.record.key_bytes.into(), self.medium.record.value_bytes.into());
        let mut step = Step { limit, slice, kept, surprise, ..Step::default() };
        (step.out.level, step.out.from) = (level, from);
        (step.below.key, step.below.value) = (vec![0; key], vec![0; value]);
        match step.upper() {
            None => step.above.at = self.stock.memtable.lower_bound(&step.out.from),
            Some(upper) => {
                let from = step.out.from.clone();
                let sought = self.seek(upper, &from)?;
                step.reads += 1;
                step.above.next = match sought {
                    Some(place) => Some((place, 0)),
                    // Every page of that part begins after the key.
                    None => {
                        let first = (self.stock.levels[upper].part_of(&from), 0);
                        let is_there = self.stock.levels[upper].page(first).is_some();
                        let other = Some((Part::Old, 0))
                            .filter(|&place| self.stock.levels[upper].page(place).is_some());
                        (if is_there { Some(first) } else { other }).map(|place| (place, 0))
                    }
                };
                // The page is in the input buffer now, and the page below is read into it next.
                if sought.is_some() {
                    self.copy_above(&mut step, upper)?;
                }
            }
        }
        self.read_below(&mut step)?;
        self.merge(&mut step)?;
        Ok(step)
    }

    /// Reads old pages up to the first record not below the beginning of the step. Its page stays in the
    /// input buffer.
    fn read_below(&mut self, step: &mut Step) -> Result<(), IndexFault> {
        let below = &mut step.below;
        below.is_there = false;
        while let Some(page) = self.stock.levels[step.out.level].old.page(below.used) {
            self.load_page(page)?;
            step.reads += 1;
            let view = self.medium.view()?;
            let mut index = view.search(&step.out.from, &mut below.key).0;
            if let Some(next) = self.stock.levels.get(step.out.level + 1) {
                // Records that the next level took from the page around its cursor are dead.
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

    /// Moves on to the next record of the old pages.
    fn advance_below(&mut self, step: &mut Step) -> Result<(), IndexFault> {
        let below = &mut step.below;
        let Some(page) = self.stock.levels[step.out.level].old.page(below.used) else {
            below.is_there = false;
            return Ok(());
        };
        self.load_page(page)?;
        let view = self.medium.view()?;
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
            if let Some(upper) = step.upper().filter(|&upper| self.needs_above(step, upper)) {
                if self.copy_above(step, upper)? {
                    continue;
                }
                debug_assert!(!step.merged.is_empty(), "an empty page has room for a copy");
                step.out.stop = after(&step.merged);
                return Ok(());
            }
            let next = match (self.above_key(step), step.below.is_there) {
                (None, false) => {
                    step.out.stop = step.limit.as_ref().map(|limit| limit.to_vec());
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

    /// Takes the next record into the page. False if the step ends before it.
    fn take_next(&mut self, step: &mut Step, next: Next) -> Result<bool, IndexFault> {
        let is_last_level = step.out.level + 1 == self.stock.levels.len();
        let stride = self.medium.stride();
        let mut output = mem::take(&mut self.medium.output);
        if next != Next::Below && step.out.level > 0 {
            self.take_copy(&output, &mut step.above);
        }
        let copy = mem::take(&mut step.above.record);
        let (key, value) = match (next, step.out.level) {
            (Next::Below, _) => {
                (&step.below.key[..], (!step.below.is_tombstone).then_some(&step.below.value[..]))
            }
            (_, 0) => (self.stock.memtable.key(step.above.at), self.stock.memtable.value(step.above.at)),
            _ => split_copy(&copy, self.medium.record.key_bytes.into()),
        };
        let is_beyond = step.limit.as_ref().is_some_and(|limit| key >= &limit[..]);
        // If much is hidden or pages are short, a step ends after this many reads all the same.
        let is_over = step.reads > READS_MAX && key > &step.out.from[..];
        let fits = if is_beyond || is_over {
            false
        } else if value.is_none() && is_last_level {
            // On the last level a tombstone has nothing left to hide.
            true
        } else {
            let mut builder = match step.builder {
                Some(builder) => builder,
                None => {
                    let below = mem::take(&mut step.below.first)..=mem::take(&mut step.below.last);
                    self.begin(step, &mut output, key, below)
                }
            };
            let body = &mut output[HEADER_BYTES..];
            let mut fits = builder.append_around(body, step.above.hole(stride), (key, value));
            while !fits && step.above.held > 0 {
                step.above.move_away(body, builder.used(), stride);
                fits = builder.append_around(body, step.above.hole(stride), (key, value));
                if !fits && !step.above.give_up_half(body, stride) {
                    // The record may still fit into the place of the last copy.
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
            step.out.stop = match &step.limit {
                Some(limit) if is_beyond => Some(limit.to_vec()),
                _ => Some(key.to_vec()),
            };
        } else {
            step.merged.clear();
            step.merged.extend_from_slice(key);
        }
        self.medium.output = output;
        // Taking the last copy out of the page may have been for this record.
        if step.above.record.is_empty() {
            step.above.record = copy;
        }
        if !fits {
            return Ok(false);
        }
        if next != Next::Below {
            self.advance_above(step);
            step.out.taken[0] += 1;
        }
        if next != Next::Above {
            step.out.taken[1] += 1;
            self.advance_below(step)?;
        }
        Ok(true)
    }

    /// Begins the page in the output buffer with its first key. The code of the page is chosen from the
    /// records that the step sees, or saw in an earlier try.
    fn begin(&self, step: &Step, output: &mut [u8], first: &[u8], below: RangeInclusive<Vec<u8>>) -> Builder {
        let (low, last, count) = match &step.surprise {
            Some((last, count)) => (first.to_vec(), last.clone(), count + 1),
            None => self.expected(step, output, first, below),
        };
        let tombstones = step.out.level + 1 < self.stock.levels.len();
        let expected = Expected { first, low: &low, last: &last, count, tombstones };
        let hole = step.above.hole(self.medium.stride());
        let builder = Builder::begin_around(&mut output[HEADER_BYTES..], hole, self.medium.record, expected);
        builder.keeping(step.kept)
    }

    /// Two keys and the number of records between them, as the step sees them.
    fn expected(
        &self,
        step: &Step,
        output: &[u8],
        first: &[u8],
        below_keys: RangeInclusive<Vec<u8>>,
    ) -> (Vec<u8>, Vec<u8>, usize) {
        let (below, above) = (&step.below, &step.above);
        let (low, last) = below_keys.into_inner();
        let is_pooled = step.out.level == 0;
        let (at, end) = if is_pooled { (above.at, self.stock.memtable.len()) } else { (0, above.held) };
        let key = |i: usize| match is_pooled {
            true => self.stock.memtable.key(i),
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
}

impl Step {
    /// The level above; `None` if that is the memtable.
    pub(super) fn upper(&self) -> Option<usize> {
        self.out.level.checked_sub(1)
    }
}

impl Below {
    fn take(&mut self, view: &View<'_>) {
        view.key(self.index, &mut self.key);
        view.value(self.index, &mut self.value);
        self.is_tombstone = view.is_tombstone(self.index);
    }
}

/// The next higher key of the same length; `None` for the highest.
fn after(key: &[u8]) -> Option<Vec<u8>> {
    let mut next = key.to_vec();
    let place = next.iter().rposition(|&byte| byte != 0xff)?;
    next[place] += 1;
    next[place + 1..].fill(0);
    Some(next)
}

/// Key and value of a copied record; no value for a tombstone.
fn split_copy(copy: &[u8], key_bytes: usize) -> (&[u8], Option<&[u8]>) {
    let (record, flag) = copy.split_at(copy.len() - 1);
    let (key, value) = record.split_at(key_bytes);
    (key, (flag[0] == 0).then_some(value))
}

/// Copies a record as key, value, and a flag for a tombstone.
pub(super) fn copy_record(view: &View<'_>, i: usize, to: &mut [u8], key_bytes: usize) {
    let (record, flag) = to.split_at_mut(to.len() - 1);
    let (key, value) = record.split_at_mut(key_bytes);
    view.key(i, key);
    view.value(i, value);
    flag[0] = u8::from(view.is_tombstone(i));
}

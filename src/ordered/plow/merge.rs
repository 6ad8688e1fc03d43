//! The merge of a step: it fills a page from the old pages of the level and from the level above.

use super::above::Above;
use super::coder::{Builder, Expected, View};
use super::drain::Drain;
use super::level::Part;
use super::page::HEADER_BYTES;
use super::scratch::{self, Held};
use super::sight::Sight;
use super::space::Stock;
use crate::fault::IndexFault;
use crate::nand::Nand;
use crate::ordered::key::Key;
use crate::units::Ppn;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::mem;

/// Most attempts to build a page, if its code was chosen for other gaps between keys than those met.
const TRIES: usize = 3;
/// A step that has read this many pages writes its page, full or not.
const READS_MAX: usize = 16;

/// The old pages of the level, read one after the other.
#[derive(Debug, Default)]
pub(super) struct Below<'b> {
    /// Number of pages that are used up.
    pub(super) used: usize,
    /// Index of the next record within its page, the first one not used up.
    index: usize,
    /// True if there is a next record; the fields below hold its key and value.
    pub(super) is_there: bool,
    pub(super) key: Held<'b>,
    value: Held<'b>,
    is_tombstone: bool,
    /// First and last key of the page and its number of records, for the page being written until it is
    /// begun.
    first: Held<'b>,
    last: Held<'b>,
    count: usize,
}

/// Bounds of the page that a step writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds<'b> {
    /// Number of records of the upper level that the step copies at a time.
    pub(super) slice: usize,
    /// Bytes of the page that are kept for the change under way.
    pub(super) kept: usize,
    /// Key before which the page ends.
    pub(super) end: Option<&'b [u8]>,
}

/// The key at which a page must end.
#[derive(Clone, Copy, Debug)]
enum Limit<'b> {
    /// The cursor of a level.
    Cursor(usize),
    Key(&'b [u8]),
}

impl<'b> Limit<'b> {
    fn key<'a>(self, stock: &'a Stock) -> &'a [u8]
    where
        'b: 'a,
    {
        match self {
            Limit::Cursor(level) => &stock.levels[level].cursor,
            Limit::Key(key) => key,
        }
    }
}

#[derive(Debug)]
pub(super) struct Step<'b> {
    pub(super) level: usize,
    /// Number of records taken from the level above, and from the old pages.
    pub(super) taken: [usize; 2],
    /// The new cursor, which is the first key not merged. Empty at the end of all keys.
    pub(super) stop: Held<'b>,
    pub(super) bounds: Bounds<'b>,
    limit: Option<Limit<'b>>,
    pub(super) below: Below<'b>,
    pub(super) above: Above<'b>,
    pub(super) builder: Option<Builder>,
    pub(super) reads: usize,
    /// The last key merged; empty before the first.
    merged: Held<'b>,
    /// True if the page ended at the limit.
    pub(super) is_limited: bool,
    /// True if the page ended at a gap for which its code was not chosen.
    is_surprised: bool,
    /// From an earlier try: the key behind such a gap, and the number of records before it. Empty if there
    /// was none.
    surprise: (Held<'b>, usize),
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
    /// Merges a step of a level until its page is complete in the output buffer. If its code was chosen for
    /// other gaps between keys than those met, the page is built again.
    pub(super) fn merged<'b>(
        &mut self,
        level: usize,
        bounds: Bounds<'b>,
        held: (&'b mut [u8], &'b mut Vec<(Part, Ppn)>),
    ) -> Result<Step<'b>, IndexFault> {
        let mut step = scratch::step((level, bounds), held, self.medium.record);
        step.limit = self.limit(level, bounds.end);
        for _ in 1..TRIES {
            self.merge_anew(&mut step)?;
            if !step.is_surprised || step.stop.is_empty() {
                return Ok(step);
            }
            step.surprise.1 = step.count();
            mem::swap(&mut step.stop, &mut step.surprise.0);
        }
        self.merge_anew(&mut step)?;
        Ok(step)
    }

    /// Cursor of the next level, or another key, at which the page of a step must end.
    fn limit<'b>(&self, level: usize, end: Option<&'b [u8]>) -> Option<Limit<'b>> {
        // A level that is drained can go once the sweep of the last level is at its cursor.
        let other = match self.stock.levels.drain {
            Drain::Sweep(_) if level + 1 == self.stock.levels.len() => level.checked_sub(1),
            _ => Some(level + 1),
        };
        let from = &self.stock.levels[level].cursor;
        let other =
            other.filter(|&other| self.stock.levels.get(other).is_some_and(|other| other.cursor > *from));
        let limits = other.map(Limit::Cursor).into_iter().chain(end.map(Limit::Key));
        limits.min_by_key(|limit| limit.key(self.stock))
    }

    fn merge_anew(&mut self, step: &mut Step<'_>) -> Result<(), IndexFault> {
        step.restart();
        let stock = self.stock;
        let from = &stock.levels[step.level].cursor[..];
        match step.upper() {
            None => step.above.at = stock.memtable.lower_bound(from),
            Some(upper) => {
                let sought = self.seek(upper, from)?;
                step.reads += 1;
                step.above.next = match sought {
                    Some(place) => Some((place, 0)),
                    // Every page of that part begins after the key.
                    None => {
                        let first = (stock.levels[upper].part_of(from), 0);
                        let is_there = stock.levels[upper].page(first).is_some();
                        let other =
                            Some((Part::Old, 0)).filter(|&place| stock.levels[upper].page(place).is_some());
                        (if is_there { Some(first) } else { other }).map(|place| (place, 0))
                    }
                };
                // The page is in the input buffer now, and the page below is read into it next.
                if sought.is_some() {
                    self.copy_above(step, upper)?;
                }
            }
        }
        self.read_below(step)?;
        self.merge(step)
    }

    /// Reads old pages up to the first record not below the beginning of the step. Its page stays in the
    /// input buffer.
    fn read_below(&mut self, step: &mut Step<'_>) -> Result<(), IndexFault> {
        let below = &mut step.below;
        below.is_there = false;
        while let Some(page) = self.stock.levels[step.level].old.page(below.used) {
            self.load_page(page)?;
            step.reads += 1;
            let view = self.medium.view()?;
            let mut index = view.find(&self.stock.levels[step.level].cursor).0;
            if let Some(next) = self.stock.levels.get(step.level + 1) {
                // Records that the next level took from the page around its cursor are dead.
                let taken = view.find(&next.cursor).0;
                index = index.max(if taken < view.count() { taken } else { 0 });
            }
            if index < view.count() {
                (below.index, below.is_there, below.count) = (index, true, view.count());
                if step.builder.is_none() {
                    view.key(0, below.first.whole());
                    view.key(view.count() - 1, below.last.whole());
                }
                below.take(&view);
                return Ok(());
            }
            below.used += 1;
        }
        Ok(())
    }

    /// Moves on to the next record of the old pages.
    fn advance_below(&mut self, step: &mut Step<'_>) -> Result<(), IndexFault> {
        let below = &mut step.below;
        let Some(page) = self.stock.levels[step.level].old.page(below.used) else {
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

    fn merge(&mut self, step: &mut Step<'_>) -> Result<(), IndexFault> {
        loop {
            if let Some(upper) = step.upper().filter(|&upper| self.needs_above(step, upper)) {
                if self.copy_above(step, upper)? {
                    continue;
                }
                debug_assert!(!step.merged.is_empty(), "an empty page has room for a copy");
                step.stop.set(&step.merged);
                step.stop.raise();
                return Ok(());
            }
            let next = match (self.above_key(step), step.below.is_there) {
                (None, false) => {
                    step.stop.set(step.limit.map_or(&[], |limit| limit.key(self.stock)));
                    return Ok(());
                }
                (Some(_), false) => Next::Above,
                (None, true) => Next::Below,
                (Some(above), true) => match above.cmp(&step.below.key[..]) {
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
    fn take_next(&mut self, step: &mut Step<'_>, next: Next) -> Result<bool, IndexFault> {
        let is_last_level = step.level + 1 == self.stock.levels.len();
        let stride = self.medium.stride();
        let mut output = mem::take(&mut self.medium.output);
        let mut copy = Held::default();
        if next != Next::Below && step.level > 0 {
            self.take_copy(&output, &mut step.above);
            copy = mem::take(&mut step.above.record);
        }
        let (key, value) = match (next, step.level) {
            (Next::Below, _) => {
                (&step.below.key[..], (!step.below.is_tombstone).then_some(&step.below.value[..]))
            }
            (_, 0) => (self.stock.memtable.key(step.above.at), self.stock.memtable.value(step.above.at)),
            _ => split_copy(&copy, self.medium.record.key_bytes.into()),
        };
        let limit = step.limit.map(|limit| limit.key(self.stock));
        let is_beyond = limit.is_some_and(|limit| key >= limit);
        // If much is hidden or pages are short, a step ends after this many reads all the same.
        let is_over = step.reads > READS_MAX && key > &self.stock.levels[step.level].cursor[..];
        let fits = if is_beyond || is_over {
            false
        } else if value.is_none() && is_last_level {
            // On the last level a tombstone has nothing left to hide.
            true
        } else {
            let mut builder = match step.builder {
                Some(builder) => builder,
                None => self.begin(step, &mut output, key),
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
            step.stop.set(limit.filter(|_| is_beyond).unwrap_or(key));
        } else {
            step.merged.set(key);
        }
        self.medium.output = output;
        // The last copy that left the page was that of this record, if it was in hand.
        if !copy.is_empty() {
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

    /// Begins the page in the output buffer with its first key. The code of the page is chosen from the
    /// records that the step sees, or saw in an earlier try.
    fn begin(&self, step: &Step<'_>, output: &mut [u8], first: &[u8]) -> Builder {
        let (low, last, count) = match &step.surprise {
            (last, count) if !last.is_empty() => (first, Key::of(last), count + 1),
            _ => self.expected(step, output, first),
        };
        let tombstones = step.level + 1 < self.stock.levels.len();
        let expected = Expected { first, low, last: &last, count, tombstones };
        let hole = step.above.hole(self.medium.stride());
        let builder = Builder::begin_around(&mut output[HEADER_BYTES..], hole, self.medium.record, expected);
        builder.keeping(step.bounds.kept)
    }

    /// Two keys and the number of records between them, as the step sees them.
    fn expected<'a>(&self, step: &'a Step<'_>, output: &[u8], first: &'a [u8]) -> (&'a [u8], Key, usize) {
        let (below, above) = (&step.below, &step.above);
        let (low, last) = (&below.first[..], &below.last[..]);
        let is_pooled = step.level == 0;
        let (at, end) = if is_pooled { (above.at, self.stock.memtable.len()) } else { (0, above.held) };
        let key = |i: usize| match is_pooled {
            true => self.stock.memtable.key(i),
            false => self.copied_key(output, above, i),
        };
        if below.is_there && below.count > 0 && last > low {
            let more = (at..end).take_while(|&i| key(i) <= last).count();
            return (low, Key::of(last), below.count + more);
        }
        match end.checked_sub(1).filter(|&i| i >= at) {
            Some(i) => (first, Key::of(key(i).max(first)), end - at),
            None => (first, Key::of(first), 1),
        }
    }
}

impl<'b> Step<'b> {
    /// A step with its buffers: for the new cursor, the last key merged, and the key of a surprise.
    pub(super) fn of(
        (level, bounds): (usize, Bounds<'b>),
        (below, above): (Below<'b>, Above<'b>),
        [stop, merged, surprise]: [Held<'b>; 3],
    ) -> Step<'b> {
        Step {
            level,
            taken: [0; 2],
            stop,
            bounds,
            limit: None,
            below,
            above,
            builder: None,
            reads: 0,
            merged,
            is_limited: false,
            is_surprised: false,
            surprise: (surprise, 0),
        }
    }

    /// The level above; `None` if that is the memtable.
    pub(super) fn upper(&self) -> Option<usize> {
        self.level.checked_sub(1)
    }

    /// Records of the page.
    pub(super) fn count(&self) -> usize {
        self.builder.map_or(0, |builder| builder.count())
    }

    /// Forgets what was merged.
    fn restart(&mut self) {
        (self.taken, self.builder, self.reads) = ([0; 2], None, 0);
        (self.is_limited, self.is_surprised) = (false, false);
        self.stop.clear();
        self.merged.clear();
        self.below.restart();
        self.above.restart();
    }
}

impl<'b> Below<'b> {
    /// No pages yet, with buffers for three keys and a value.
    pub(super) fn of([key, first, last]: [Held<'b>; 3], value: Held<'b>) -> Below<'b> {
        Below { key, first, last, value, ..Below::default() }
    }

    fn restart(&mut self) {
        (self.used, self.index, self.count) = (0, 0, 0);
        (self.is_there, self.is_tombstone) = (false, false);
        self.first.clear();
        self.last.clear();
    }

    fn take(&mut self, view: &View<'_>) {
        view.key(self.index, self.key.whole());
        view.value(self.index, self.value.whole());
        self.is_tombstone = view.is_tombstone(self.index);
    }
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

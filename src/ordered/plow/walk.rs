//! Walks over a range: the memtable and a page of each level, merged.
//!
//! The page of the last level is in the input buffer, that of the level above in the output buffer, so a walk
//! reads each of their pages once. Of the first of three levels a few records at a time are copied: of all
//! levels it has the fewest records in a range. A copy costs its page and, once more, that of the last level.

use super::level::{Part, Place};
use super::medium::{Beside, COPIES};
use super::merge::copy_record;
use super::sight::Sight;
use crate::fault::IndexFault;
use crate::nand::Nand;
use crate::ordered::{Bounds, Direction, Visit, within};
use core::cmp::Ordering;
use core::ops::{Bound, ControlFlow, Range};

/// Order of two keys in a walk of this direction.
fn ahead(a: &[u8], b: &[u8], direction: Direction) -> Ordering {
    match direction {
        Direction::Ascending => a.cmp(b),
        Direction::Descending => b.cmp(a),
    }
}

/// Where a walk begins, and which way it goes.
#[derive(Clone, Copy)]
struct Way<'a> {
    /// The first key, and whether it is still to be visited itself. `None`: at the end of the keys.
    from: Option<(&'a [u8], bool)>,
    direction: Direction,
}

impl<'a> Way<'a> {
    fn new(bounds: Bounds<'a>, direction: Direction) -> Way<'a> {
        let from = match if direction == Direction::Ascending { bounds.0 } else { bounds.1 } {
            Bound::Included(key) => Some((key, true)),
            Bound::Excluded(key) => Some((key, false)),
            Bound::Unbounded => None,
        };
        Way { from, direction }
    }

    /// Index of the next one of these records.
    fn head(self, rest: &Range<usize>) -> Option<usize> {
        match self.direction {
            _ if rest.is_empty() => None,
            Direction::Ascending => Some(rest.start),
            Direction::Descending => Some(rest.end - 1),
        }
    }

    fn step_on(self, rest: &mut Range<usize>) {
        match self.direction {
            Direction::Ascending => rest.start += 1,
            Direction::Descending => rest.end -= 1,
        }
    }

    /// The records of `all` still to be visited, if the first key is record `index` or belongs there.
    fn rest(self, all: Range<usize>, (index, found): (usize, bool)) -> Range<usize> {
        let inclusive = self.from.is_none_or(|(_, inclusive)| inclusive);
        match self.direction {
            Direction::Ascending => {
                (index + usize::from(found && !inclusive)).clamp(all.start, all.end)..all.end
            }
            Direction::Descending => {
                all.start..(index + usize::from(found && inclusive)).clamp(all.start, all.end)
            }
        }
    }
}

/// A level in a walk.
#[derive(Default)]
struct Reader {
    level: usize,
    /// The page being read, and its records still to come.
    here: Option<Place>,
    rest: Range<usize>,
    next: Option<Place>,
}

/// The levels of a walk. Any but the last may be missing, and has no records then.
struct Readers<'a> {
    last: Reader,
    last_key: &'a mut [u8],
    /// The level above the last.
    upper: Reader,
    upper_key: &'a mut [u8],
    /// The page in the output buffer, which is of that level.
    beside: Beside,
    first: Reader,
    /// Records of the first of three levels, and those still to come.
    copies: &'a mut [u8],
    copied: Range<usize>,
}

/// Number of sources: memtable, copies, the level above the last, and the last level. The earlier ones are
/// newer.
const SOURCES: usize = 4;

/// The newest source whose next record has the next key, and the index of that record.
fn newest(is_next: [bool; SOURCES], rests: [&Range<usize>; SOURCES], way: Way<'_>) -> Option<(usize, usize)> {
    let source = is_next.iter().position(|&is_next| is_next)?;
    Some((source, way.head(rests[source])?))
}

impl<N: Nand> Sight<'_, N> {
    /// Visits the records within the bounds.
    pub(super) fn walk(
        &mut self,
        bounds: Bounds<'_>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), IndexFault> {
        let mut aside = core::mem::take(&mut self.medium.aside);
        let done = self.walk_with(&mut aside, (bounds, Way::new(bounds, direction)), visit);
        self.medium.aside = aside;
        done
    }

    fn walk_with(
        &mut self,
        aside: &mut [u8],
        (bounds, way): (Bounds<'_>, Way<'_>),
        visit: Visit<'_>,
    ) -> Result<(), IndexFault> {
        let key_bytes = usize::from(self.medium.record.key_bytes);
        let (key, rest) = aside.split_at_mut(key_bytes);
        let (last_key, rest) = rest.split_at_mut(key_bytes);
        let (upper_key, rest) = rest.split_at_mut(key_bytes);
        let (value, copies) = rest.split_at_mut(self.medium.record.value_bytes.into());
        let (last, upper, first) = (Reader::default(), Reader::default(), Reader::default());
        let (beside, copied) = (Beside::default(), 0..0);
        let mut levels = Readers { last, last_key, upper, upper_key, beside, first, copies, copied };
        self.begin_all(&mut levels, way)?;
        let pool = &self.stock.memtable;
        let at = way.from.map(|(key, _)| pool.find(key).map_or_else(|at| (at, false), |at| (at, true)));
        let mut pooled = at.map_or(0..pool.len(), |at| way.rest(0..pool.len(), at));
        loop {
            let heads = self.heads(&levels, &pooled, way);
            let Some(next) = heads.into_iter().flatten().min_by(|a, b| ahead(a, b, way.direction)) else {
                return Ok(());
            };
            key.copy_from_slice(next);
            let is_next = heads.map(|head| head == Some(&key[..]));
            let order = within(key, bounds);
            let beyond =
                if way.direction == Direction::Ascending { Ordering::Greater } else { Ordering::Less };
            if order == beyond {
                return Ok(());
            }
            let is_value = match newest(
                is_next,
                [&pooled, &levels.copied, &levels.upper.rest, &levels.last.rest],
                way,
            ) {
                Some((0, i)) => self.stock.memtable.copy_value(i, value),
                Some(at) => self.value(&mut levels, at, value)?,
                None => false,
            };
            if is_next[0] {
                way.step_on(&mut pooled);
            }
            self.step_on(&mut levels, is_next, way)?;
            if is_value && order == Ordering::Equal && visit(key, value) == ControlFlow::Break(()) {
                return Ok(());
            }
        }
    }

    fn begin_all(&mut self, levels: &mut Readers<'_>, way: Way<'_>) -> Result<(), IndexFault> {
        let count = self.stock.levels.len();
        let reader = |sight: &mut Self, level| -> Result<Reader, IndexFault> {
            Ok(Reader { level, next: sight.begin_in(level, way)?, ..Reader::default() })
        };
        if count > 2 {
            levels.first = reader(self, 0)?;
            self.copy_on(levels, way)?;
        }
        if count > 1 {
            levels.upper = reader(self, count - 2)?;
            self.settle(&mut levels.upper, way)?;
            self.medium.exchange(&mut levels.beside);
            self.settle_upper(levels, way)?;
        }
        levels.last = reader(self, count - 1)?;
        self.settle_last(levels, way)
    }

    /// The page of a level at which a walk begins.
    fn begin_in(&mut self, level: usize, way: Way<'_>) -> Result<Option<Place>, IndexFault> {
        let Some((key, _)) = way.from else {
            return Ok(match way.direction {
                Direction::Ascending => self.stock.levels[level].first(),
                Direction::Descending => self.stock.levels[level].last(),
            });
        };
        if let Some(place) = self.seek(level, key)? {
            return Ok(Some(place));
        }
        // Every page of the key's part begins after it.
        let (part, of_level) = (self.stock.levels[level].part_of(key), &self.stock.levels[level]);
        Ok(match (way.direction, part) {
            (Direction::Ascending, Part::New) => of_level.first(),
            (Direction::Ascending, Part::Old) => Some((Part::Old, 0)).filter(|&p| of_level.page(p).is_some()),
            (Direction::Descending, Part::New) => None,
            (Direction::Descending, Part::Old) => {
                of_level.new.pages().checked_sub(1).map(|index| (Part::New, index))
            }
        })
    }

    /// Reads pages into the input buffer until one has a record still to come, or none is left.
    fn settle(&mut self, reader: &mut Reader, way: Way<'_>) -> Result<(), IndexFault> {
        while reader.rest.is_empty()
            && let Some(here) = reader.next
        {
            self.load_place(reader.level, here)?;
            reader.rest = self.rest_of((reader.level, here), way)?;
            reader.here = Some(here);
            reader.next = match way.direction {
                Direction::Ascending => self.stock.levels[reader.level].next(here),
                Direction::Descending => self.stock.levels[reader.level].previous(here),
            };
        }
        Ok(())
    }

    fn settle_last(&mut self, levels: &mut Readers<'_>, way: Way<'_>) -> Result<(), IndexFault> {
        self.settle(&mut levels.last, way)?;
        if let Some(i) = way.head(&levels.last.rest) {
            self.load_again(&levels.last)?;
            self.medium.view()?.key(i, levels.last_key);
        }
        Ok(())
    }

    fn settle_upper(&mut self, levels: &mut Readers<'_>, way: Way<'_>) -> Result<(), IndexFault> {
        if levels.upper.rest.is_empty() && levels.upper.next.is_some() {
            self.medium.exchange(&mut levels.beside);
            let settled = self.settle(&mut levels.upper, way);
            self.medium.exchange(&mut levels.beside);
            settled?;
        }
        if let Some(i) = way.head(&levels.upper.rest) {
            self.medium.view_beside(&levels.beside)?.key(i, levels.upper_key);
        }
        Ok(())
    }

    /// Reads the page of a reader into the input buffer, unless it is there.
    fn load_again(&mut self, reader: &Reader) -> Result<(), IndexFault> {
        match reader.here {
            Some(here) => self.load_place(reader.level, here).map(drop),
            None => Ok(()),
        }
    }

    /// Copies records of the first of three levels, once the copies have been visited.
    fn copy_on(&mut self, levels: &mut Readers<'_>, way: Way<'_>) -> Result<(), IndexFault> {
        if !levels.copied.is_empty() {
            return Ok(());
        }
        self.settle(&mut levels.first, way)?;
        let rest = levels.first.rest.clone();
        if rest.is_empty() {
            return Ok(());
        }
        self.load_again(&levels.first)?;
        let taken = rest.len().min(COPIES);
        let (from, left) = match way.direction {
            Direction::Ascending => (rest.start, rest.start + taken..rest.end),
            Direction::Descending => (rest.end - taken, rest.start..rest.end - taken),
        };
        let (view, key_bytes) = (self.medium.view()?, usize::from(self.medium.record.key_bytes));
        for (i, copy) in (from..from + taken).zip(levels.copies.chunks_exact_mut(self.medium.stride())) {
            copy_record(&view, i, copy, key_bytes);
        }
        (levels.first.rest, levels.copied) = (left, 0..taken);
        Ok(())
    }

    /// The live records of the page in the input buffer that a walk has still to visit.
    fn rest_of(&self, (level, place): (usize, Place), way: Way<'_>) -> Result<Range<usize>, IndexFault> {
        let view = self.medium.view()?;
        let count = view.count();
        let mut first = match place {
            (Part::Old, 0) => view.find(&self.stock.levels[level].cursor).0,
            _ => 0,
        };
        if let Some(below) = self.stock.levels.get(level + 1) {
            let taken = view.find(&below.cursor).0;
            // A page that ends before that cursor is not the one around it.
            if taken < count {
                first = first.max(taken);
            }
        }
        let Some((key, _)) = way.from else { return Ok(first..count) };
        Ok(way.rest(first..count, view.find(key)))
    }

    /// The next key of each source.
    fn heads<'a>(
        &'a self,
        levels: &'a Readers<'_>,
        pooled: &Range<usize>,
        way: Way<'_>,
    ) -> [Option<&'a [u8]>; SOURCES] {
        let (stride, key_bytes) = (self.medium.stride(), usize::from(self.medium.record.key_bytes));
        [
            way.head(pooled).map(|i| self.stock.memtable.key(i)),
            way.head(&levels.copied).map(|i| &levels.copies[i * stride..i * stride + key_bytes]),
            (!levels.upper.rest.is_empty()).then_some(&*levels.upper_key),
            (!levels.last.rest.is_empty()).then_some(&*levels.last_key),
        ]
    }

    /// Copies the value of record `i` of a source on flash. False for a tombstone.
    fn value(
        &mut self,
        levels: &mut Readers<'_>,
        (source, i): (usize, usize),
        value: &mut [u8],
    ) -> Result<bool, IndexFault> {
        if source == 1 {
            let stride = self.medium.stride();
            let record = &levels.copies[i * stride..(i + 1) * stride];
            value.copy_from_slice(&record[stride - 1 - value.len()..stride - 1]);
            return Ok(record[stride - 1] == 0);
        }
        if source == 3 {
            self.load_again(&levels.last)?;
        }
        let view = if source == 2 { self.medium.view_beside(&levels.beside) } else { self.medium.view() }?;
        let is_value = !view.is_tombstone(i);
        if is_value {
            view.value(i, value);
        }
        Ok(is_value)
    }

    /// Goes on behind the next records of the levels.
    fn step_on(
        &mut self,
        levels: &mut Readers<'_>,
        is_next: [bool; SOURCES],
        way: Way<'_>,
    ) -> Result<(), IndexFault> {
        let [_, in_copies, in_upper, in_last] = is_next;
        if in_last {
            way.step_on(&mut levels.last.rest);
            self.settle_last(levels, way)?;
        }
        if in_upper {
            way.step_on(&mut levels.upper.rest);
            self.settle_upper(levels, way)?;
        }
        if in_copies {
            way.step_on(&mut levels.copied);
            self.copy_on(levels, way)?;
        }
        Ok(())
    }
}

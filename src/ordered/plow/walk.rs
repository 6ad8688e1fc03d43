//! Walks over a range, in windows: the records of all levels but the last are gathered up to some key, then
//! the last level's pages are read up to there, and all are merged with the memtable.
//!
//! From each upper level a window takes the records of the range in one page, as far as the output buffer has
//! room. So a window costs one read for each level, and reaches as far as the level that ends first. The last
//! level's pages are read once each, and once more if a window begins within one.

use super::level::{Part, Place};
use super::merge::copy_record;
use super::sight::Sight;
use crate::fault::IndexFault;
use crate::nand::Nand;
use crate::ordered::{Bounds, Direction, Visit, within};
use crate::sort;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::ops::{Bound, ControlFlow, Range};

/// Position of a walk: the next key, and whether that key itself is still to be visited. `None` at the end of
/// the keys.
type At = Option<(Vec<u8>, bool)>;

/// Order of two keys in a walk of this direction.
fn ahead(a: &[u8], b: &[u8], direction: Direction) -> Ordering {
    match direction {
        Direction::Ascending => a.cmp(b),
        Direction::Descending => b.cmp(a),
    }
}

/// Position in the last level within a window.
struct Last {
    place: Option<Place>,
    /// Records of the page still to come. `None` before the page was read.
    rest: Option<Range<usize>>,
    key: Vec<u8>,
}

/// The part of a walk for which the upper levels' records are gathered.
struct Window<'a> {
    at: &'a At,
    edge: Option<&'a [u8]>,
    /// Records in the output buffer.
    gathered: usize,
}

impl<N: Nand> Sight<'_, N> {
    /// Visits the records within the bounds.
    pub(super) fn walk(
        &mut self,
        bounds: Bounds<'_>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), IndexFault> {
        let begin = if direction == Direction::Ascending { bounds.0 } else { bounds.1 };
        let mut at: At = match begin {
            Bound::Included(key) => Some((key.to_vec(), true)),
            Bound::Excluded(key) => Some((key.to_vec(), false)),
            Bound::Unbounded => None,
        };
        loop {
            let (gathered, edge) = self.gather(&at, direction)?;
            let window = Window { at: &at, edge: edge.as_deref(), gathered };
            let end = self.walk_window(&window, bounds, direction, visit)?;
            // A window that ends at a key has shown all up to it.
            match edge {
                Some(edge) if end.is_continue() => at = Some((edge, false)),
                _ => return Ok(()),
            }
        }
    }

    /// The page of a level at which a walk continues.
    fn begin_in(&mut self, level: usize, at: &At, direction: Direction) -> Result<Option<Place>, IndexFault> {
        let Some((key, _)) = at else {
            return Ok(match direction {
                Direction::Ascending => self.stock.levels[level].first(),
                Direction::Descending => self.stock.levels[level].last(),
            });
        };
        if let Some(place) = self.seek(level, key)? {
            return Ok(Some(place));
        }
        // Every page of the key's part begins after it.
        let (part, of_level) = (self.stock.levels[level].part_of(key), &self.stock.levels[level]);
        Ok(match (direction, part) {
            (Direction::Ascending, Part::New) => of_level.first(),
            (Direction::Ascending, Part::Old) => Some((Part::Old, 0)).filter(|&p| of_level.page(p).is_some()),
            (Direction::Descending, Part::New) => None,
            (Direction::Descending, Part::Old) => {
                of_level.new.pages().checked_sub(1).map(|index| (Part::New, index))
            }
        })
    }

    fn onward(&self, level: usize, place: Place, direction: Direction) -> Option<Place> {
        match direction {
            Direction::Ascending => self.stock.levels[level].next(place),
            Direction::Descending => self.stock.levels[level].previous(place),
        }
    }

    /// The live records of the page in the input buffer that the walk has still to visit.
    fn rest_of(
        &self,
        level: usize,
        place: Place,
        at: &At,
        direction: Direction,
    ) -> Result<Range<usize>, IndexFault> {
        let view = self.medium.view()?;
        let mut scratch = vec![0; self.medium.record.key_bytes.into()];
        let count = view.count();
        let mut first = match place {
            (Part::Old, 0) => view.search(&self.stock.levels[level].cursor, &mut scratch).0,
            _ => 0,
        };
        if let Some(below) = self.stock.levels.get(level + 1) {
            let taken = view.search(&below.cursor, &mut scratch).0;
            // A page that ends before that cursor is not the one around it.
            if taken < count {
                first = first.max(taken);
            }
        }
        Ok(match (at, direction) {
            (None, _) => first..count,
            (Some((key, inclusive)), Direction::Ascending) => {
                let (index, found) = view.search(key, &mut scratch);
                (index + usize::from(found && !inclusive)).clamp(first, count)..count
            }
            (Some((key, inclusive)), Direction::Descending) => {
                let (index, found) = view.search(key, &mut scratch);
                first..(index + usize::from(found && *inclusive)).clamp(first, count)
            }
        })
    }

    /// Gathers records of all levels but the last in the output buffer. Returns their number, and the key up
    /// to which they are complete.
    fn gather(&mut self, at: &At, direction: Direction) -> Result<(usize, Option<Vec<u8>>), IndexFault> {
        let uppers = self.stock.levels.len() - 1;
        let (stride, key_bytes) = (self.medium.stride(), usize::from(self.medium.record.key_bytes));
        let quota = self.medium.output.len() / stride / uppers.max(1);
        let (mut gathered, mut edge) = (0, None::<Vec<u8>>);
        for level in 0..uppers {
            let mut place = self.begin_in(level, at, direction)?;
            while let Some(here) = place {
                self.load_place(level, here)?;
                let rest = self.rest_of(level, here, at, direction)?;
                place = self.onward(level, here, direction);
                if rest.is_empty() {
                    continue;
                }
                let (view, output) = self.medium.view_and_output()?;
                let is_cut = rest.len() > quota;
                let taken = match direction {
                    _ if !is_cut => rest.clone(),
                    Direction::Ascending => rest.start..rest.start + quota,
                    Direction::Descending => rest.end - quota..rest.end,
                };
                let mut record = vec![0; stride];
                for i in taken.clone() {
                    copy_record(&view, i, &mut record, key_bytes);
                    gathered = insert(output, gathered, &record, key_bytes);
                }
                let outermost = match direction {
                    Direction::Ascending => view.key_owned(taken.end - 1),
                    Direction::Descending => view.key_owned(taken.start),
                };
                if is_cut || place.is_some() {
                    let is_nearer =
                        edge.as_ref().is_none_or(|edge| ahead(&outermost, edge, direction) == Ordering::Less);
                    edge = if is_nearer { Some(outermost) } else { edge };
                }
                break;
            }
        }
        Ok((gathered, edge))
    }

    /// Visits the records up to the edge. Breaks if the walk is over.
    fn walk_window(
        &mut self,
        &Window { at, edge, gathered }: &Window<'_>,
        bounds: Bounds<'_>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<ControlFlow<()>, IndexFault> {
        let key_bytes = usize::from(self.medium.record.key_bytes);
        let stride = self.medium.record.entry_bytes() + 1;
        let mut gathered = 0..gathered;
        let mut pooled = self.pooled_ahead(at, direction);
        let last_level = self.stock.levels.len() - 1;
        let place = self.begin_in(last_level, at, direction)?;
        let mut last = Last { place, rest: None, key: vec![0; key_bytes] };
        self.load_last(&mut last, at, direction)?;
        let mut key = vec![0; key_bytes];
        let mut value = vec![0; self.medium.record.value_bytes.into()];
        loop {
            let heads = [
                head(&pooled, direction).map(|i| self.stock.memtable.key(i)),
                head(&gathered, direction).map(|i| &self.medium.output[i * stride..i * stride + key_bytes]),
                last.place.is_some().then_some(&last.key[..]),
            ];
            let Some(next) = heads.into_iter().flatten().min_by(|a, b| ahead(a, b, direction)) else {
                return Ok(ControlFlow::Continue(()));
            };
            if edge.is_some_and(|edge| ahead(next, edge, direction) == Ordering::Greater) {
                return Ok(ControlFlow::Continue(()));
            }
            key.copy_from_slice(next);
            let is_beyond = match within(&key, bounds) {
                Ordering::Less => direction == Direction::Descending,
                Ordering::Greater => direction == Direction::Ascending,
                Ordering::Equal => false,
            };
            if is_beyond {
                return Ok(ControlFlow::Break(()));
            }
            let mut found = None;
            let [in_pool, in_gathered, in_last] = heads.map(|head| head == Some(&key[..]));
            if in_last {
                let view = self.medium.view()?;
                if let Some(i) = last.rest.as_ref().and_then(|rest| head(rest, direction)) {
                    view.value(i, &mut value);
                    found = Some(!view.is_tombstone(i));
                }
            }
            if let (true, Some(i)) = (in_gathered, head(&gathered, direction)) {
                let record = &self.medium.output[i * stride..(i + 1) * stride];
                value.copy_from_slice(&record[key_bytes..stride - 1]);
                found = Some(record[stride - 1] == 0);
                step_on(&mut gathered, direction);
            }
            if let (true, Some(i)) = (in_pool, head(&pooled, direction)) {
                found = Some(self.stock.memtable.copy_value(i, &mut value));
                step_on(&mut pooled, direction);
            }
            if in_last {
                last.rest.iter_mut().for_each(|rest| step_on(rest, direction));
                self.load_last(&mut last, &None, direction)?;
            }
            if found == Some(true)
                && within(&key, bounds) == Ordering::Equal
                && visit(&key, &value) == ControlFlow::Break(())
            {
                return Ok(ControlFlow::Break(()));
            }
        }
    }

    /// The records of the memtable that the walk has still to visit.
    fn pooled_ahead(&self, at: &At, direction: Direction) -> Range<usize> {
        let all = 0..self.stock.memtable.len();
        let Some((key, inclusive)) = at else { return all };
        let (index, found) = match self.stock.memtable.find(key) {
            Ok(index) => (index, true),
            Err(index) => (index, false),
        };
        match direction {
            Direction::Ascending => index + usize::from(found && !inclusive)..all.end,
            Direction::Descending => 0..index + usize::from(found && *inclusive),
        }
    }

    /// Reads pages of the last level until one has a record or none is left.
    fn load_last(&mut self, last: &mut Last, at: &At, direction: Direction) -> Result<(), IndexFault> {
        let level = self.stock.levels.len() - 1;
        while let Some(place) = last.place {
            let rest = match last.rest.take() {
                Some(rest) => rest,
                None => {
                    self.load_place(level, place)?;
                    self.rest_of(level, place, at, direction)?
                }
            };
            if let Some(i) = head(&rest, direction) {
                self.medium.view()?.key(i, &mut last.key);
                last.rest = Some(rest);
                return Ok(());
            }
            last.place = self.onward(level, place, direction);
        }
        Ok(())
    }
}

/// Index of the next record in the direction of the walk.
fn head(rest: &Range<usize>, direction: Direction) -> Option<usize> {
    match direction {
        _ if rest.is_empty() => None,
        Direction::Ascending => Some(rest.start),
        Direction::Descending => Some(rest.end - 1),
    }
}

fn step_on(rest: &mut Range<usize>, direction: Direction) {
    match direction {
        Direction::Ascending => rest.start += 1,
        Direction::Descending => rest.end -= 1,
    }
}

/// Inserts a record among sorted ones, unless its key is present: the present one is newer. Returns the
/// number of records.
fn insert(records: &mut [u8], count: usize, record: &[u8], key_bytes: usize) -> usize {
    let stride = record.len();
    let key = |i: usize| &records[i * stride..i * stride + key_bytes];
    let Err(low) = sort::search(0..count, |i| key(i).cmp(&record[..key_bytes])) else { return count };
    records.copy_within(low * stride..count * stride, (low + 1) * stride);
    records[low * stride..(low + 1) * stride].copy_from_slice(record);
    count + 1
}

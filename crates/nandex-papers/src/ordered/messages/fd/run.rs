//! Pages of the sorted runs: readers, cursors that go both ways, and the writer that announces each page to
//! the level above.
//!
//! A page is a unit:
//!
//! ```text
//! bytes  0..4   CRC-32 of the rest of the page
//!        4..8   the page's own number
//!        8      0xFD, the mark of a run         9      0
//!       10..12  entries
//!       12..16  unit before it in the run      16..20  unit after it, 0xFFFFFFFF for none
//!       20..    entries: kind (1) | key | value, at least 4 bytes |
//! ```
//!
//! Kinds are 1 a value, 2 a filter (tombstone), 3 an external fence, 4 an internal fence. The value of a
//! fence is a unit of the next level. Entries ascend by key, a fence before the record of its key.

use crate::ordered::messages::ground::{NONE, Shadow, Shape, Slice as Records, corrupted};
use alloc::vec;
use alloc::vec::Vec;
use nandex::check::{IndexError, Invariant};
use nandex::codec::{get_u16, get_u32, put_u16, put_u32};
use nandex::nand::Cause;
use nandex::ordered::Direction;
use nandex::units::Lpn;

pub(super) const EXTERNAL: u8 = 3;
pub(super) const INTERNAL: u8 = 4;
pub(super) const HEAD_BYTES: usize = 20;
const MARK: u8 = 0xFD;

/// A sorted run on the medium.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Level {
    pub(super) first: u32,
    pub(super) last: u32,
    pub(super) pages: u32,
    /// Number of values and filters. Fences are not counted.
    pub(super) records: u64,
}

#[derive(Clone)]
pub(super) struct RunPage {
    pub(super) shape: Shape,
    pub(super) unit: u32,
    bytes: Vec<u8>,
    pub(super) count: usize,
}

impl RunPage {
    pub(super) fn new(shape: Shape, page_bytes: usize) -> RunPage {
        RunPage { shape, unit: NONE, bytes: vec![0; page_bytes], count: 0 }
    }

    /// Largest number of entries in a page.
    pub(super) const fn capacity(shape: Shape, page_bytes: usize) -> usize {
        page_bytes.saturating_sub(HEAD_BYTES) / shape.bytes()
    }

    pub(super) fn read(
        &mut self,
        shadow: &mut Shadow<'_>,
        unit: u32,
        cause: Cause,
    ) -> Result<(), IndexError> {
        if unit >= shadow.units.count() {
            return Err(corrupted(Invariant::S3, "a page of a run lies beyond the store", Lpn(unit)));
        }
        let lpn = shadow.lpn(unit, 0);
        shadow.read(lpn, cause, &mut self.bytes)?;
        self.unit = unit;
        self.count = get_u16(&self.bytes, 10).into();
        let capacity = RunPage::capacity(self.shape, self.bytes.len());
        if self.bytes[8] != MARK || !(1..=capacity).contains(&self.count) {
            return Err(corrupted(Invariant::S2, "the page is no page of this run", lpn));
        }
        Ok(())
    }

    pub(super) fn entries(&self) -> Records<'_> {
        let bytes = &self.bytes[HEAD_BYTES..HEAD_BYTES + self.count * self.shape.bytes()];
        Records { shape: self.shape, bytes }
    }

    pub(super) fn neighbour(&self, direction: Direction) -> u32 {
        get_u32(&self.bytes, if direction == Direction::Ascending { 16 } else { 12 })
    }

    /// Number of entries whose keys are at most this key.
    pub(super) fn up_to(&self, key: &[u8]) -> usize {
        let (entries, mut low, mut high) = (self.entries(), 0, self.count);
        while low < high {
            let middle = usize::midpoint(low, high);
            if entries.key(middle) <= key { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// The unit of the next level that the last fence before entry `end` names.
    pub(super) fn fence_before(&self, end: usize) -> Option<u32> {
        let entries = self.entries();
        let fence = (0..end).rev().find(|&i| entries.kind(i) >= EXTERNAL)?;
        Some(get_u32(entries.value(fence), 0))
    }
}

/// A walk over the entries of a run, page by page, in either direction.
pub(super) struct Cursor {
    page: RunPage,
    at: usize,
    direction: Direction,
    /// Most pages still to read. A forged chain could be endless.
    left: u32,
    cause: Cause,
}

impl Cursor {
    /// A cursor on a page that was read. `at` counts from the end of the page if the direction is
    /// descending.
    pub(super) fn new(page: RunPage, direction: Direction, at: usize, left: u32) -> Cursor {
        Cursor { page, at, direction, left, cause: Cause::Host }
    }

    /// A cursor at the first entry of a run.
    pub(super) fn first(shadow: &mut Shadow<'_>, shape: Shape, run: &Level) -> Result<Cursor, IndexError> {
        let mut page = RunPage::new(shape, shadow.page_bytes());
        page.read(shadow, run.first, Cause::Merge)?;
        let direction = Direction::Ascending;
        Ok(Cursor { page, at: 0, direction, left: run.pages, cause: Cause::Merge })
    }

    /// The present entry. `None` at the end.
    pub(super) fn peek(&self) -> Option<&[u8]> {
        let count = self.page.count;
        if self.at >= count {
            return None;
        }
        let at = if self.direction == Direction::Ascending { self.at } else { count - 1 - self.at };
        Some(self.page.entries().at(at))
    }

    pub(super) fn advance(&mut self, shadow: &mut Shadow<'_>) -> Result<(), IndexError> {
        self.at += 1;
        self.turn(shadow)
    }

    /// Goes to the next page if the present one is exhausted.
    pub(super) fn turn(&mut self, shadow: &mut Shadow<'_>) -> Result<(), IndexError> {
        let next = self.page.neighbour(self.direction);
        if self.at < self.page.count || next == NONE {
            return Ok(());
        }
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            return Err(corrupted(Invariant::F2, "a run is longer than it should be", Lpn(next)));
        }
        self.page.read(shadow, next, self.cause)?;
        self.at = 0;
        Ok(())
    }

    /// Skips fences up to the next record. With `keeps_external` only internal fences are skipped.
    pub(super) fn skip_fences(
        &mut self,
        shadow: &mut Shadow<'_>,
        keeps_external: bool,
    ) -> Result<(), IndexError> {
        while let Some(entry) = self.peek() {
            if entry[0] < EXTERNAL || keeps_external && entry[0] == EXTERNAL {
                break;
            }
            self.advance(shadow)?;
        }
        Ok(())
    }
}

/// Writes the levels of a merge: the run of the lowest level, and above it runs of fences up to the head's.
pub(super) struct Writer {
    shape: Shape,
    capacity: usize,
    /// The runs being written, from the top level down.
    open: Vec<Open>,
    /// Whether there is a run below the lowest level written.
    has_lower: bool,
    /// The new fences of the head: key and unit of each page.
    pub(super) fences: Vec<u8>,
    pub(super) page_writes: u64,
}

struct Open {
    run: Level,
    page: RunPage,
    before: u32,
    target: u32,
}

impl Writer {
    /// A writer of `levels` levels, with room for the fences of a first run of `first` pages.
    pub(super) fn new(
        (shape, page_bytes): (Shape, usize),
        levels: usize,
        has_lower: bool,
        first: usize,
    ) -> Writer {
        let open = || Open {
            run: Level { first: NONE, last: NONE, ..Level::default() },
            page: RunPage::new(shape, page_bytes),
            before: NONE,
            target: NONE,
        };
        Writer {
            shape,
            capacity: RunPage::capacity(shape, page_bytes),
            open: (0..levels).map(|_| open()).collect(),
            has_lower,
            fences: Vec::with_capacity(first * (shape.key + 4)),
            page_writes: 0,
        }
    }

    fn fence(&self, kind: u8, key: &[u8], unit: u32) -> Vec<u8> {
        let mut entry = vec![0; self.shape.bytes()];
        entry[0] = kind;
        entry[1..=key.len()].copy_from_slice(key);
        put_u32(&mut entry, 1 + key.len(), unit);
        entry
    }

    pub(super) fn put(
        &mut self,
        shadow: &mut Shadow<'_>,
        level: usize,
        entry: &[u8],
    ) -> Result<(), IndexError> {
        let is_external = entry[0] == EXTERNAL;
        if self.open[level].page.count == self.capacity {
            let next = shadow.units.take()?;
            self.emit(shadow, level, next)?;
        }
        if self.open[level].page.count == 0 {
            self.begin(shadow, level, entry)?;
        }
        let open = &mut self.open[level];
        if is_external {
            open.target = get_u32(entry, 1 + self.shape.key);
        }
        open.run.records += u64::from(entry[0] < EXTERNAL);
        open.append(entry);
        Ok(())
    }

    /// Announces a new page to the level above, and begins it with a fence.
    fn begin(&mut self, shadow: &mut Shadow<'_>, level: usize, entry: &[u8]) -> Result<(), IndexError> {
        let is_first = self.open[level].run.pages == 0;
        if is_first {
            let unit = shadow.units.take()?;
            self.open[level].page.unit = unit;
            self.open[level].run.first = unit;
        }
        // Nothing is below the first page of a run.
        let zero = vec![0; self.shape.key];
        let key = if is_first { &zero[..] } else { &entry[1..=self.shape.key] };
        let unit = self.open[level].page.unit;
        self.open[level].run.pages += 1;
        if level == 0 {
            self.fences.extend_from_slice(key);
            self.fences.extend_from_slice(&unit.to_le_bytes());
        } else {
            let fence = self.fence(EXTERNAL, key, unit);
            self.put(shadow, level - 1, &fence)?;
        }
        if (level + 1 < self.open.len() || self.has_lower) && entry[0] != EXTERNAL {
            let fence = self.fence(INTERNAL, &entry[1..=self.shape.key], self.open[level].target);
            self.open[level].append(&fence);
        }
        Ok(())
    }

    /// Writes the page of a level; `next` follows it.
    fn emit(&mut self, shadow: &mut Shadow<'_>, level: usize, next: u32) -> Result<(), IndexError> {
        let open = &mut self.open[level];
        let page = &mut open.page;
        page.bytes[8] = MARK;
        put_u16(&mut page.bytes, 10, page.count as u16);
        put_u32(&mut page.bytes, 12, open.before);
        put_u32(&mut page.bytes, 16, next);
        let lpn = shadow.lpn(page.unit, 0);
        shadow.write(lpn, Cause::Merge, &mut page.bytes)?;
        self.page_writes += 1;
        (open.before, open.run.last) = (page.unit, page.unit);
        page.bytes.fill(0);
        (page.unit, page.count) = (next, 0);
        Ok(())
    }

    /// Writes the open pages. Returns the levels from the top on, without those that stayed empty.
    pub(super) fn finish(&mut self, shadow: &mut Shadow<'_>) -> Result<Vec<Level>, IndexError> {
        for level in (0..self.open.len()).rev() {
            if self.open[level].page.count > 0 {
                self.emit(shadow, level, NONE)?;
            }
        }
        Ok(self.open.iter().map(|open| open.run).filter(|run| run.pages > 0).collect())
    }
}

impl Open {
    fn append(&mut self, entry: &[u8]) {
        let at = HEAD_BYTES + self.page.count * entry.len();
        self.page.bytes[at..at + entry.len()].copy_from_slice(entry);
        self.page.count += 1;
    }
}

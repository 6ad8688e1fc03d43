//! Ordered indexes: fixed-size keys and values, in key order.

pub mod buffered;
pub mod change;
pub mod cursor;
mod forward;
mod in_place;
mod look_ups;
pub mod node;
mod path_log;
pub mod plow;
pub mod sbits;
pub mod typed;
pub mod value_log;
pub mod variable;

pub use in_place::bplus;
pub use path_log::ground::{RawConfig, spare_bytes_needed};
pub use path_log::{mu, vm, wandering};

pub use crate::index::{Durability, IndexStats, Metric, Room};
pub use change::Change;
pub use cursor::Cursor;
pub use look_ups::check_with_look_ups;

use crate::check::{CheckReport, IndexError};
use alloc::vec;
use core::cmp::Ordering;
use core::ops::{Bound, ControlFlow};

/// Sizes of the records of an index, fixed when it is formatted.
///
/// Keys are byte strings in `memcmp` order; an unsigned integer key is stored big-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordFormat {
    /// Bytes of a key, 1 to 255.
    pub key_bytes: u8,
    /// Bytes of a value, 0 to 255.
    pub value_bytes: u8,
}

impl RecordFormat {
    /// Records of these sizes.
    pub const fn new(key_bytes: u8, value_bytes: u8) -> RecordFormat {
        assert!(key_bytes > 0, "a key has at least one byte");
        RecordFormat { key_bytes, value_bytes }
    }

    /// Bytes of a leaf entry.
    pub const fn entry_bytes(&self) -> usize {
        self.key_bytes as usize + self.value_bytes as usize
    }

    /// Refuses a key of the wrong length.
    pub fn check_key(&self, key: &[u8]) -> Result<(), IndexError> {
        check_length("key", self.key_bytes, key.len())
    }

    /// Refuses a value of the wrong length.
    pub fn check_value(&self, value: &[u8]) -> Result<(), IndexError> {
        check_length("value", self.value_bytes, value.len())
    }

    /// Refuses a record of which one is of the wrong length.
    #[doc(hidden)]
    pub fn check(&self, key: &[u8], value: &[u8]) -> Result<(), IndexError> {
        self.check_key(key)?;
        self.check_value(value)
    }
}

fn check_length(what: &'static str, expected: u8, got: usize) -> Result<(), IndexError> {
    let expected = usize::from(expected);
    if got == expected { Ok(()) } else { Err(IndexError::WrongLength { what, expected, got }) }
}

/// The way a range is walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Smallest key first.
    Ascending,
    /// Largest key first.
    Descending,
}

/// Called for each record of a range; `Break` ends the walk.
pub type Visit<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>;

/// The bounds of a range.
#[doc(hidden)]
pub type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// Whether an index holds what a change leaves: after an update that was refused half-way and undone, whether
/// all of it got onto the chip before.
#[doc(hidden)]
pub fn holds_change(
    index: &mut impl OrderedIndex,
    (key, value): (&[u8], Option<&[u8]>),
) -> Result<bool, IndexError> {
    let mut now = vec![0; usize::from(index.record().value_bytes)];
    let is_there = index.get(key, &mut now)?;
    Ok(is_there == value.is_some() && value.is_none_or(|value| value == now))
}

/// Where a key lies: before the bounds, within or after them.
#[doc(hidden)]
pub fn within(key: &[u8], (low, high): (Bound<&[u8]>, Bound<&[u8]>)) -> Ordering {
    let before = match low {
        Bound::Included(low) => key < low,
        Bound::Excluded(low) => key <= low,
        Bound::Unbounded => false,
    };
    let after = match high {
        Bound::Included(high) => key > high,
        Bound::Excluded(high) => key >= high,
        Bound::Unbounded => false,
    };
    match (before, after) {
        (true, _) => Ordering::Less,
        (false, true) => Ordering::Greater,
        (false, false) => Ordering::Equal,
    }
}

/// Records in key order, each a key and a value.
pub type Records<'a, 'r> = &'a mut dyn Iterator<Item = (&'r [u8], &'r [u8])>;

/// An ordered index of fixed-size records with unique keys.
///
/// An index owns its storage; how it is formatted and mounted is its own affair (see the registry).
pub trait OrderedIndex: crate::shared::MaybeSend {
    /// The sizes of its records.
    fn record(&self) -> RecordFormat;

    /// The promise of the index about a power cut, with the settings it runs with.
    fn durability(&self) -> Durability;

    /// Looks a key up; when present copies its value to `value` and returns true.
    fn get(&mut self, key: &[u8], value: &mut [u8]) -> Result<bool, IndexError>;

    /// Inserts a record, or gives an existing key a new value; returns whether the key existed.
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, IndexError>;

    /// Gives a key a value and does not say whether it existed. An index whose changes wait before they reach
    /// their leaf need not look the key up then; any other inserts it, which this does.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), IndexError> {
        self.insert(key, value).map(drop)
    }

    /// Removes a key; returns whether it existed.
    fn remove(&mut self, key: &[u8]) -> Result<bool, IndexError>;

    /// The most changes that [`OrderedIndex::apply`] takes; 1 where several cannot be made as one.
    fn batch_max(&self) -> usize {
        1
    }

    /// Whether a batch of so many new records finds room as things are, before anything is freed for it; none
    /// where the index cannot tell without looking.
    fn takes_batch(&self, changes: usize) -> Option<bool> {
        let _ = changes;
        None
    }

    /// Whether a page that is older than the rest of the index is always told, so that records of two times
    /// never stand together. [`Variable`](variable::Variable) marks no values then.
    fn tells_older(&self) -> bool {
        false
    }

    /// Makes several changes, one after the other, all or none: neither a refusal nor a power cut leaves some
    /// of them. As durable as one operation. [`IndexError::BatchTooLarge`] names the limit.
    fn apply(&mut self, batch: &[Change<'_>]) -> Result<(), IndexError> {
        match batch {
            [] => Ok(()),
            [one] => change::change_one(self, *one),
            _ => Err(IndexError::BatchTooLarge { unit: "changes", most: 1 }),
        }
    }

    /// Fills an empty index with records whose keys ascend strictly; returns how many. An index that can be
    /// built from sorted records writes each page once and packs it full; any other inserts them one by one,
    /// which this does. When it returns, the records are as durable as after one operation; a power cut
    /// before leaves the first so many of them, or none.
    fn load(&mut self, records: Records<'_, '_>) -> Result<u64, IndexError> {
        let mut loaded = 0;
        for (key, value) in records {
            self.insert(key, value)?;
            loaded += 1;
        }
        Ok(loaded)
    }

    /// Visits the records between two bounds in key order, in either direction.
    fn range(
        &mut self,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), IndexError>;

    /// A place in the index, on no record yet. For a `dyn OrderedIndex`: [`Cursor::new`].
    fn cursor(&mut self) -> Cursor<'_, Self>
    where
        Self: Sized,
    {
        Cursor::new(self)
    }

    /// Does work that later operations would do: collects garbage, merges, erases, moves what became hard to
    /// read. About `budget` pages are read or programmed, a block at a time at least. Returns the pages of
    /// such work that are left, about; 0 where nothing is worth doing, as in an index that has none.
    fn maintain(&mut self, budget: u32) -> Result<u32, IndexError> {
        let _ = budget;
        Ok(0)
    }

    /// Looks for pages that become hard to read, before their records are asked for, and moves them: reads up
    /// to `budget` pages from where the last call ended. Returns the pages left of the round, about; 0 at its
    /// end. Such a page that an operation reads is moved without this.
    fn scrub(&mut self, budget: u32) -> Result<u32, IndexError> {
        let _ = budget;
        Ok(0)
    }

    /// The room left; none where the index cannot tell without looking.
    fn free(&self) -> Option<Room> {
        None
    }

    /// Makes every acknowledged operation survive a power cut.
    fn sync(&mut self) -> Result<(), IndexError>;

    /// Syncs and leaves the medium so that the next mount is cheapest (a checkpoint, a clean mark).
    fn close(&mut self) -> Result<(), IndexError> {
        self.sync()
    }

    /// Walks the whole index and checks its numbered invariants. The walk is neither counted nor timed.
    fn check(&mut self) -> Result<CheckReport, IndexError>;

    /// The statistics of the index.
    fn stats(&self) -> IndexStats;

    /// Bytes of RAM held: tables, buffers and caches.
    fn ram_bytes(&self) -> usize;
}

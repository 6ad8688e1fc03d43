//! Ordered indexes: fixed-size keys and values, in key order.

#[cfg(not(feature = "unstable"))]
pub(crate) mod buffered;
#[cfg(feature = "unstable")]
pub mod buffered;
pub mod change;
pub mod cursor;
mod forward;
pub mod furrow;
mod in_place;
#[doc(hidden)]
pub mod key;
mod look_ups;
#[cfg(not(feature = "unstable"))]
pub(crate) mod node;
#[cfg(feature = "unstable")]
pub mod node;
mod path_log;
pub mod plow;
pub mod sbits;
mod tour;
pub mod typed;
pub mod value_log;
pub mod variable;

pub use in_place::bplus;
pub use path_log::ground::{RawConfig, spare_bytes_needed};
pub use path_log::{mu, vm, wandering};

pub use crate::index::{Durability, IndexStats, Metric, Room};
pub use buffered::Answers;
pub use change::Change;
pub use cursor::Cursor;
pub use look_ups::check_with_look_ups;
#[doc(hidden)]
pub use tour::{Tour, entries_within};

use crate::check::{CheckReport, IndexError};
use alloc::vec;
use core::cmp::Ordering;
use core::ops::{Bound, ControlFlow};

/// Sizes of the records of an index. They are fixed when the index is formatted.
///
/// Keys are byte strings in `memcmp` order. An unsigned integer key is stored big-endian.
///
/// ```
/// use nandex::RecordFormat;
///
/// let record = RecordFormat::new(8, 4);
/// assert_eq!(record.entry_bytes(), 12);
/// assert!(record.check_key(&[0; 7]).is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordFormat {
    /// Bytes of a key, 1 to 255.
    pub key_bytes: u8,
    /// Bytes of a value, 0 to 255.
    pub value_bytes: u8,
}

impl RecordFormat {
    /// Returns the format of records with keys and values of these sizes.
    pub const fn new(key_bytes: u8, value_bytes: u8) -> RecordFormat {
        assert!(key_bytes > 0, "a key has at least one byte");
        RecordFormat { key_bytes, value_bytes }
    }

    /// Bytes of a leaf entry.
    pub const fn entry_bytes(&self) -> usize {
        self.key_bytes as usize + self.value_bytes as usize
    }

    /// Most records on so many pages, of which each takes whole records.
    #[doc(hidden)]
    pub const fn most_in(&self, pages: u64, page_bytes: usize) -> u64 {
        pages * (page_bytes / self.entry_bytes()) as u64
    }

    /// Returns an error if a key has the wrong length.
    pub fn check_key(&self, key: &[u8]) -> Result<(), IndexError> {
        check_length("key", self.key_bytes, key.len())
    }

    /// Returns an error if a value has the wrong length.
    pub fn check_value(&self, value: &[u8]) -> Result<(), IndexError> {
        check_length("value", self.value_bytes, value.len())
    }

    /// Refuses a record whose key or value has the wrong length.
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

/// Direction of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Smallest key first.
    Ascending,
    /// Largest key first.
    Descending,
}

/// Callback for each record of a range. `Break` ends the walk.
pub type Visit<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>;

/// Lower and upper bound of a range.
#[doc(hidden)]
pub type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// Returns true if an index holds the result of a change. After an update that was refused half-way and
/// undone, this tells if all of it had reached the chip.
#[doc(hidden)]
pub fn holds_change(
    index: &mut impl OrderedIndex,
    (key, value): (&[u8], Option<&[u8]>),
) -> Result<bool, IndexError> {
    let mut now = vec![0; usize::from(index.record().value_bytes)];
    let is_there = index.get(key, &mut now)?;
    Ok(is_there == value.is_some() && value.is_none_or(|value| value == now))
}

/// Returns the outcome of an update that was refused half-way and undone. It stands if all of it had reached
/// the chip. `existed` tells whether the key was there before, if the update got as far as that.
#[doc(hidden)]
pub fn outcome_of_undone<I: OrderedIndex, E: From<IndexError>>(
    index: &mut I,
    change: (&[u8], Option<&[u8]>),
    existed: Option<bool>,
    refused: E,
) -> Result<bool, E> {
    match existed {
        Some(existed) if holds_change(index, change)? => Ok(existed),
        _ => Err(refused),
    }
}

/// Compares a key with a range: less if it is before the bounds, equal if within, greater if after.
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

/// Records in key order, each with key and value.
pub type Records<'a, 'r> = &'a mut dyn Iterator<Item = (&'r [u8], &'r [u8])>;

/// An ordered index of fixed-size records with unique keys.
///
/// An index owns its storage. Formatting and mounting are functions of each index type.
///
/// ```
/// use nandex::ordered::Change;
/// use nandex::store::ram::RamStore;
/// use nandex::{BPlusConfig, BPlusTree, OrderedIndex, RecordFormat};
///
/// let config = BPlusConfig::new(RecordFormat::new(1, 1));
/// let tree = BPlusTree::format(RamStore::new(512, 100), &config)?;
/// let mut index: Box<dyn OrderedIndex> = Box::new(tree);
/// index.apply(&[Change { key: &[1], value: Some(&[9]) }])?;
/// assert!(index.get(&[1], &mut [0])? && index.remove(&[1])?);
/// assert!(index.check()?.is_sound() && index.stats().height == 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait OrderedIndex: crate::shared::MaybeSend {
    /// Sizes of the records.
    fn record(&self) -> RecordFormat;

    /// Durability class that the index promises with its settings.
    fn durability(&self) -> Durability;

    /// Looks a key up. If it exists, copies its value to `value` and returns true.
    fn get(&mut self, key: &[u8], value: &mut [u8]) -> Result<bool, IndexError>;

    /// Inserts a record, or gives an existing key a new value. Returns true if the key existed.
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, IndexError>;

    /// Gives a key a value and does not tell if the key existed. An index whose changes wait before they
    /// reach a leaf then need not look the key up. This default calls `insert`.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), IndexError> {
        self.insert(key, value).map(drop)
    }

    /// Removes a key. Returns true if it existed.
    fn remove(&mut self, key: &[u8]) -> Result<bool, IndexError>;

    /// Most changes that [`OrderedIndex::apply`] takes; 1 if the index cannot make several changes
    /// atomically.
    fn batch_max(&self) -> usize {
        1
    }

    /// Returns true if a batch of `changes` new records finds room at present, before space is reclaimed for
    /// it; `None` if the index cannot tell without I/O.
    fn takes_batch(&self, changes: usize) -> Option<bool> {
        let _ = changes;
        None
    }

    /// Returns true if the index always reports a page that is older than the rest, so that it never mixes
    /// records of two times. [`Variable`](variable::Variable) then marks no values.
    fn tells_older(&self) -> bool {
        false
    }

    /// Makes several changes in turn, atomically: after a refusal or a power cut, all changes are made or
    /// none. They are as durable as one operation. [`IndexError::BatchTooLarge`] gives the limit.
    fn apply(&mut self, batch: &[Change<'_>]) -> Result<(), IndexError> {
        match batch {
            [] => Ok(()),
            [one] => change::change_one(self, *one),
            _ => Err(IndexError::BatchTooLarge { unit: "changes", most: 1 }),
        }
    }

    /// Fills an empty index with records whose keys ascend strictly, and returns their number. An index that
    /// can be built from sorted records writes each page once and packs it full. This default inserts them
    /// one by one. When it returns, the records are as durable as after one operation. A power cut before
    /// leaves a prefix of the records, or none.
    fn load(&mut self, records: Records<'_, '_>) -> Result<u64, IndexError> {
        let mut loaded = 0;
        for (key, value) in records {
            self.insert(key, value)?;
            loaded += 1;
        }
        Ok(loaded)
    }

    /// Visits the records between two bounds in key order or in reverse key order.
    fn range(
        &mut self,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), IndexError>;

    /// Returns a cursor on no record. For a `dyn OrderedIndex` use [`Cursor::new`].
    fn cursor(&mut self) -> Cursor<'_, Self>
    where
        Self: Sized,
    {
        Cursor::new(self)
    }

    /// Does work that later operations would do: collects garbage, merges, erases, and moves pages that
    /// became hard to read. Reads or programs about `budget` pages, but at least one block. Returns about how
    /// many pages of such work are left; 0 if nothing is worth doing.
    fn maintain(&mut self, budget: u32) -> Result<u32, IndexError> {
        let _ = budget;
        Ok(0)
    }

    /// Looks for pages that became hard to read, and moves them before their records are asked for. Reads up
    /// to `budget` pages, from the end of the last call on. Returns about how many pages of the round are
    /// left; 0 at its end. Pages that operations find hard to read are moved without this.
    fn scrub(&mut self, budget: u32) -> Result<u32, IndexError> {
        let _ = budget;
        Ok(0)
    }

    /// Room that is left; `None` if the index cannot tell without I/O.
    fn free(&self) -> Option<Room> {
        None
    }

    /// Most records that the index can ever hold on this medium, set up like this: the fewer of those that
    /// its pages and those that its height and root allow, all nodes full. Random keys reach a share of it
    /// that the index's page tells. `None` if no closed form is known.
    ///
    /// A number far below the bytes of the medium by those of a record says that the layout does not suit
    /// the record. A format does not refuse that.
    fn records_max(&self) -> Option<u64> {
        None
    }

    /// Makes every acknowledged operation survive a power cut.
    fn sync(&mut self) -> Result<(), IndexError>;

    /// Syncs, and leaves the medium so that the next mount is cheapest: with a checkpoint or a clean mark.
    fn close(&mut self) -> Result<(), IndexError> {
        self.sync()
    }

    /// Walks the whole index and checks its numbered invariants. The walk is neither counted nor timed.
    fn check(&mut self) -> Result<CheckReport, IndexError>;

    /// Statistics of the index.
    fn stats(&self) -> IndexStats;

    /// Bytes of RAM of tables, buffers and caches.
    fn ram_bytes(&self) -> usize;
}

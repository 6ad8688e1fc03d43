//! A cursor: a position in an index that moves to a key and from record to record, in both directions.
//!
//! Every index has cursors, since they use [`OrderedIndex::range`]. A walk fetches some records, and nothing
//! is read while the cursor moves among them. The next walk costs as much as a range of the same number of
//! records, descent included. A cursor borrows its index, so the records cannot change meanwhile.

use crate::check::IndexError;
use crate::ordered::{Direction, OrderedIndex, RecordFormat};
use alloc::vec::Vec;
use core::ops::{Bound, ControlFlow};

/// Most records that a walk fetches.
const RECORDS: usize = 16;

#[derive(Clone, Copy, Debug)]
enum Goal<'k> {
    /// The record at the end at which the direction begins.
    End,
    /// The record with this key, or the next one in the direction.
    Key(&'k [u8]),
    /// The record after this key in the direction.
    Behind(&'k [u8]),
}

/// A place in an index: on a record, or on none.
///
/// ```
/// use nandex::nand::{catalogue::mlc_64m, sim::SimChip};
/// use nandex::ordered::{OrderedIndex, RawConfig, RecordFormat, mu::MuTree};
///
/// let chip = SimChip::new(&mlc_64m().with_blocks(64)).unwrap();
/// let mut tree = MuTree::format(chip, &RawConfig::new(RecordFormat::new(1, 1)))?;
/// for key in [3, 5, 9] {
///     tree.put(&[key], &[key + 1])?;
/// }
/// let mut cursor = tree.cursor();
/// assert!(cursor.seek(&[4])?);
/// assert_eq!(cursor.record(), Some((&[5][..], &[6][..])));
/// assert!(cursor.next()? && !cursor.next()?);
/// assert!(cursor.prev()? && cursor.key() == Some(&[9]));
/// let all: Result<Vec<_>, _> = tree.cursor().collect();
/// assert_eq!(all?.len(), 3);
/// # Ok::<(), nandex::IndexError>(())
/// ```
#[derive(Debug)]
pub struct Cursor<'i, I: OrderedIndex + ?Sized> {
    index: &'i mut I,
    place: Place,
}

impl<'i, I: OrderedIndex + ?Sized> Cursor<'i, I> {
    /// Returns a cursor on no record. `next` then moves it to the first record, `prev` to the last.
    pub const fn new(index: &'i mut I) -> Cursor<'i, I> {
        Cursor { index, place: Place::nowhere() }
    }

    /// Moves to the first record whose key is not below `key`. Returns false if there is none; the cursor is
    /// then past the last record.
    pub fn seek(&mut self, key: &[u8]) -> Result<bool, IndexError> {
        self.place.seek(self.index, key)
    }

    /// Moves to the last record whose key is not above `key`. Returns false if there is none; the cursor is
    /// then before the first record.
    pub fn seek_back(&mut self, key: &[u8]) -> Result<bool, IndexError> {
        self.place.go(self.index, Goal::Key(key), Direction::Descending)
    }

    /// Moves to the first record. Returns false if there is none.
    pub fn first(&mut self) -> Result<bool, IndexError> {
        self.place.go(self.index, Goal::End, Direction::Ascending)
    }

    /// Moves to the last record. Returns false if there is none.
    pub fn last(&mut self) -> Result<bool, IndexError> {
        self.place.go(self.index, Goal::End, Direction::Descending)
    }

    /// Moves to the record with the next higher key. Returns false if there is none; the cursor is then past
    /// the last record.
    #[allow(clippy::should_implement_trait, reason = "an iterator cannot say that a read failed and go on")]
    pub fn next(&mut self) -> Result<bool, IndexError> {
        self.place.step(self.index, Direction::Ascending)
    }

    /// Moves to the record with the next lower key. Returns false if there is none; the cursor is then before
    /// the first record.
    pub fn prev(&mut self) -> Result<bool, IndexError> {
        self.place.step(self.index, Direction::Descending)
    }

    /// Key and value of the record at the cursor; `None` if the cursor is on no record.
    pub fn record(&self) -> Option<(&[u8], &[u8])> {
        self.place.record(self.index.record())
    }

    /// Key of the record at the cursor; `None` if the cursor is on no record.
    pub fn key(&self) -> Option<&[u8]> {
        self.record().map(|record| record.0)
    }

    /// Value of the record at the cursor; `None` if the cursor is on no record.
    pub fn value(&self) -> Option<&[u8]> {
        self.record().map(|record| record.1)
    }
}

/// State of a cursor without its index, for an owner that keeps the two apart. It includes the records that
/// the last walk fetched ahead.
#[derive(Clone, Debug)]
pub struct Place {
    /// Fetched records, one after the other in the order of the direction.
    records: Vec<u8>,
    /// Number of the record of `records` on which the cursor is.
    at: usize,
    direction: Direction,
    stand: Stand,
}

/// Position of a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stand {
    /// No record yet.
    Nowhere,
    /// On a record.
    On,
    /// Past the last record or before the first one, depending on the direction of the move.
    Past(Direction),
}

impl Place {
    /// Returns the state of a cursor on no record.
    pub const fn nowhere() -> Place {
        Place { records: Vec::new(), at: 0, direction: Direction::Ascending, stand: Stand::Nowhere }
    }

    /// Moves to the first record of an index whose key is not below `key`, as [`Cursor::seek`] does.
    pub fn seek(&mut self, index: &mut (impl OrderedIndex + ?Sized), key: &[u8]) -> Result<bool, IndexError> {
        self.go(index, Goal::Key(key), Direction::Ascending)
    }

    /// Moves to the next record in a direction, as [`Cursor::next`] and [`Cursor::prev`] do.
    pub fn step(
        &mut self,
        index: &mut (impl OrderedIndex + ?Sized),
        direction: Direction,
    ) -> Result<bool, IndexError> {
        match self.stand {
            Stand::Nowhere => self.go(index, Goal::End, direction),
            Stand::Past(led) if led == direction => Ok(false),
            // A cursor past an end turns back to the record at this end.
            Stand::Past(_) => self.go(index, Goal::End, direction),
            Stand::On => {
                let format = index.record();
                if self.direction == direction && (self.at + 2) * format.entry_bytes() <= self.records.len() {
                    self.at += 1;
                    return Ok(true);
                }
                let key = self.record(format).map(|record| record.0.to_vec()).unwrap_or_default();
                self.go(index, Goal::Behind(&key), direction)
            }
        }
    }

    /// Record at the cursor, as fetched by the last move. `format` is that of the index.
    pub fn record(&self, format: RecordFormat) -> Option<(&[u8], &[u8])> {
        let entry = format.entry_bytes();
        let record = self.records.get(self.at * entry..(self.at + 1) * entry)?;
        (self.stand == Stand::On).then(|| record.split_at(format.key_bytes.into()))
    }

    /// Undoes a step that led to no record: the cursor is on the record before it again.
    pub fn stay(&mut self) {
        self.stand = if self.records.is_empty() { Stand::Nowhere } else { Stand::On };
    }

    /// Drops the records fetched ahead, since the index may have changed.
    pub fn forget_ahead(&mut self, format: RecordFormat) {
        self.records.truncate((self.at + 1) * format.entry_bytes());
    }

    /// Moves to the goal, and fetches records from there on. After an error the position is as before.
    fn go(
        &mut self,
        index: &mut (impl OrderedIndex + ?Sized),
        goal: Goal<'_>,
        direction: Direction,
    ) -> Result<bool, IndexError> {
        let format = index.record();
        let edge = match goal {
            Goal::End => Bound::Unbounded,
            Goal::Key(key) => Bound::Included(key),
            Goal::Behind(key) => Bound::Excluded(key),
        };
        if let Bound::Included(key) | Bound::Excluded(key) = edge {
            format.check_key(key)?;
        }
        let (low, high) = match direction {
            Direction::Ascending => (edge, Bound::Unbounded),
            Direction::Descending => (Bound::Unbounded, edge),
        };
        let most = RECORDS * format.entry_bytes();
        let mut records = Vec::with_capacity(most);
        index.range(low, high, direction, &mut |key, value| {
            records.extend_from_slice(key);
            records.extend_from_slice(value);
            if records.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        if records.is_empty() {
            self.stand = Stand::Past(direction);
            return Ok(false);
        }
        *self = Place { records, at: 0, direction, stand: Stand::On };
        Ok(true)
    }
}

/// Iterates over the records after the one at the cursor, or over all records if the cursor is on none. After
/// an error the next call tries the same record again.
impl<I: OrderedIndex + ?Sized> Iterator for Cursor<'_, I> {
    type Item = Result<(Vec<u8>, Vec<u8>), IndexError>;

    fn next(&mut self) -> Option<Self::Item> {
        match Cursor::next(self) {
            Ok(true) => self.record().map(|(key, value)| Ok((key.to_vec(), value.to_vec()))),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

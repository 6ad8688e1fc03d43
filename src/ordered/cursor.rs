//! A place in an index: it goes to a key and from record to record, in both directions.
//!
//! Any index has one, for it stands on [`OrderedIndex::range`]: a walk fetches some records, and while the
//! cursor moves among them nothing is read. Each further walk costs what a range of so many records does, its
//! descent included. A cursor borrows its index, so records cannot change beneath it.

use crate::check::IndexError;
use crate::ordered::{Direction, OrderedIndex, RecordFormat};
use alloc::vec::Vec;
use core::ops::{Bound, ControlFlow};

/// Records that a walk fetches at most.
const RECORDS: usize = 16;

/// Where a cursor is to stand.
#[derive(Clone, Copy, Debug)]
enum Goal<'k> {
    /// On the record at the end that the direction begins with.
    End,
    /// On this key, or the next one in the direction.
    Key(&'k [u8]),
    /// On the next key in the direction.
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
    /// A cursor that stands nowhere: `next` goes to the first record, `prev` to the last.
    pub const fn new(index: &'i mut I) -> Cursor<'i, I> {
        Cursor { index, place: Place::nowhere() }
    }

    /// Goes to the first record whose key is not below this one; false if there is none, and the cursor
    /// stands past the last record then.
    pub fn seek(&mut self, key: &[u8]) -> Result<bool, IndexError> {
        self.place.seek(self.index, key)
    }

    /// Goes to the last record whose key is not above this one; false if there is none, and the cursor stands
    /// before the first record then.
    pub fn seek_back(&mut self, key: &[u8]) -> Result<bool, IndexError> {
        self.place.go(self.index, Goal::Key(key), Direction::Descending)
    }

    /// Goes to the first record; false if there is none.
    pub fn first(&mut self) -> Result<bool, IndexError> {
        self.place.go(self.index, Goal::End, Direction::Ascending)
    }

    /// Goes to the last record; false if there is none.
    pub fn last(&mut self) -> Result<bool, IndexError> {
        self.place.go(self.index, Goal::End, Direction::Descending)
    }

    /// Goes to the record with the next higher key; false if there is none, and the cursor stands past the
    /// last record then.
    #[allow(clippy::should_implement_trait, reason = "an iterator cannot say that a read failed and go on")]
    pub fn next(&mut self) -> Result<bool, IndexError> {
        self.place.step(self.index, Direction::Ascending)
    }

    /// Goes to the record with the next lower key; false if there is none, and the cursor stands before the
    /// first record then.
    pub fn prev(&mut self) -> Result<bool, IndexError> {
        self.place.step(self.index, Direction::Descending)
    }

    /// The record that the cursor stands on: key and value.
    pub fn record(&self) -> Option<(&[u8], &[u8])> {
        self.place.record(self.index.record())
    }

    /// The key of the record that the cursor stands on.
    pub fn key(&self) -> Option<&[u8]> {
        self.record().map(|record| record.0)
    }

    /// The value of the record that the cursor stands on.
    pub fn value(&self) -> Option<&[u8]> {
        self.record().map(|record| record.1)
    }
}

/// The place of a cursor without its index, for whoever keeps them apart: on a record or nowhere, with the
/// records behind it that the last walk fetched.
#[derive(Clone, Debug)]
pub struct Place {
    /// Records fetched, in the order of the direction, one after the other.
    records: Vec<u8>,
    /// The record among them that the cursor stands on.
    at: usize,
    direction: Direction,
    stand: Stand,
}

/// Where a cursor stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stand {
    /// Nowhere yet.
    Nowhere,
    /// On a record.
    On,
    /// Past the last record, or past the first one: by the direction that led there.
    Past(Direction),
}

impl Place {
    /// On no record yet.
    pub const fn nowhere() -> Place {
        Place { records: Vec::new(), at: 0, direction: Direction::Ascending, stand: Stand::Nowhere }
    }

    /// Goes to the first record of an index whose key is not below this one, as [`Cursor::seek`] does.
    pub fn seek(&mut self, index: &mut (impl OrderedIndex + ?Sized), key: &[u8]) -> Result<bool, IndexError> {
        self.go(index, Goal::Key(key), Direction::Ascending)
    }

    /// Goes to the next record in a direction, as [`Cursor::next`] and [`Cursor::prev`] do.
    pub fn step(
        &mut self,
        index: &mut (impl OrderedIndex + ?Sized),
        direction: Direction,
    ) -> Result<bool, IndexError> {
        match self.stand {
            Stand::Nowhere => self.go(index, Goal::End, direction),
            Stand::Past(led) if led == direction => Ok(false),
            // Back from beyond: to the record at that end.
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

    /// The record at the place, of an index of this format: as it was when it was fetched.
    pub fn record(&self, format: RecordFormat) -> Option<(&[u8], &[u8])> {
        let entry = format.entry_bytes();
        let record = self.records.get(self.at * entry..(self.at + 1) * entry)?;
        (self.stand == Stand::On).then(|| record.split_at(format.key_bytes.into()))
    }

    /// Goes back to the record that the last step left for none.
    pub fn stay(&mut self) {
        self.stand = if self.records.is_empty() { Stand::Nowhere } else { Stand::On };
    }

    /// Forgets the records fetched ahead: the index may have changed since.
    pub fn forget_ahead(&mut self, format: RecordFormat) {
        self.records.truncate((self.at + 1) * format.entry_bytes());
    }

    /// Fetches records from the goal on. Where that fails the place stays as it is.
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

/// The records from where the cursor stands on, that one left out; from the first one if it stands nowhere.
/// After an error the same record is tried again.
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

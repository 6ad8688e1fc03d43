//! Records of any length over any ordered index: keys and values are byte strings, up to a limit each.
//!
//! For example, with keys of up to 8 bytes and pieces of 16 bytes, the record `"ab"` = 20 bytes becomes two
//! records of the index below, whose keys have 8 + 2 bytes:
//!
//! ```text
//! key   'a' 'b' 0 0 0 0 0 0 | 2 length | 0 piece      value  20 0 length | bytes 0 to 13
//! key   'a' 'b' 0 0 0 0 0 0 | 2 length | 1 piece      value  bytes 14 to 19, zeros
//! ```
//!
//! A key is filled up with zeros and followed by its length. This keeps the order of byte strings: the filled
//! keys of `"ab"` and `"ab\0"` are equal, and the lengths decide. A value is cut into *pieces* of the size of
//! the index's values. The first piece begins with the length of the whole value (2 bytes, little-endian).
//! All pieces of a change are one batch ([`OrderedIndex::apply`]), so after a power cut a value is whole, old
//! or new. If a page of the index is replaced by an older version, pieces of two values of a key may be
//! mixed. So the last of several pieces ends with a mark of the whole value, and each read compares it.
//!
//! * **Costs**: a value of one piece costs as much as a record of the index. Each further piece costs one
//!   more record, all in one batch. If values may have several pieces, a change first looks up the first
//!   piece, to learn the number of the old pieces. If one piece is enough for all values, `put` does not.
//! * **Long values** are written again with the neighbours of each piece. Beyond about a 20th of a page they
//!   cost less in a log of their own ([`value_log`](super::value_log)).
//! * **Limits**: an index without batches (`batch_max` of 1) takes values of one piece only. On average half
//!   of the last piece is unused, and each record has room for the longest key: choose both sizes with your
//!   records in mind.

mod mark;
#[cfg(test)]
mod tests;

use self::mark::{put_mark, require_whole};
use crate::check::{CheckReport, IndexError, message, words};
use crate::codec::get_u16;
use crate::ordered::change::newest_by_key;
use crate::ordered::look_ups::{Asked, look_all_up};
use crate::ordered::{Change, Direction, Durability, OrderedIndex, RecordFormat, Visit};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::{Bound, ControlFlow};

/// Bytes behind a filled key: its length, and the number of the piece.
const KEY_TAIL: usize = 2;
/// Bytes before a value: its length.
pub(in crate::ordered) const VALUE_HEAD: usize = 2;
/// Largest number of pieces of a value: the number 255 stands for the end of them.
const PIECES_MAX: usize = 255;

impl RecordFormat {
    /// Record format of an index below a [`Variable`] one: keys of up to `max_key` bytes, values in pieces of
    /// `piece` bytes, of which the first has 2 for the length.
    ///
    /// A piece that holds the usual value with its length is best. Panics if a key has more than 253 bytes or
    /// a piece fewer than 3.
    pub const fn variable(max_key: u8, piece: u8) -> RecordFormat {
        assert!(max_key <= u8::MAX - KEY_TAIL as u8, "a key has at most 253 bytes");
        assert!(piece as usize > VALUE_HEAD, "a piece has at least 3 bytes");
        RecordFormat::new(max_key + KEY_TAIL as u8, piece)
    }
}

/// An ordered index whose keys and values have any length up to a limit each.
///
/// ```
/// use nandex::nand::{catalogue::mlc_64m, sim::SimChip};
/// use nandex::ordered::variable::Variable;
/// use nandex::{MuTree, RawConfig, RecordFormat};
///
/// let chip = SimChip::new(&mlc_64m().with_blocks(64)).unwrap();
/// let tree = MuTree::format(chip, &RawConfig::new(RecordFormat::variable(16, 32)))?;
/// let mut names = Variable::new(tree, 200)?;
///
/// names.put(b"cat", b"Felis catus")?;
/// names.put(b"cattle", &[7; 200])?;
/// assert_eq!(names.get(b"cat")?.as_deref(), Some(&b"Felis catus"[..]));
/// assert!(names.insert(b"cat", b"")? && names.get(b"cat")? == Some(vec![]));
/// assert!(names.remove(b"cattle")?);
/// # Ok::<(), nandex::IndexError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Variable<I> {
    index: I,
    max_value: usize,
    /// Buffer for a key of the index below. `value` is the buffer for one piece.
    key: Vec<u8>,
    value: Vec<u8>,
}

impl<I: OrderedIndex> Variable<I> {
    /// Wraps an index with records as [`RecordFormat::variable`] makes them. Values have at most `max_value`
    /// bytes; that number must be the same at each mount, or larger.
    ///
    /// Refused if a value of `max_value` bytes takes more pieces than the index changes as one, or more than
    /// 255.
    pub fn new(index: I, max_value: usize) -> Result<Variable<I>, IndexError> {
        let RecordFormat { key_bytes, value_bytes } = index.record();
        let (key, value) = (usize::from(key_bytes), usize::from(value_bytes));
        if key < KEY_TAIL {
            return Err(IndexError::WrongLength { what: "key", expected: KEY_TAIL, got: key });
        }
        if value <= VALUE_HEAD {
            return Err(IndexError::WrongLength { what: "value", expected: VALUE_HEAD + 1, got: value });
        }
        let most = index.batch_max().min(PIECES_MAX);
        if max_value > usize::from(u16::MAX) || pieces(max_value, value) > most {
            return Err(IndexError::BatchTooLarge { unit: words("pieces of a value"), most });
        }
        Ok(Variable { index, max_value, key: vec![0; key], value: vec![0; value] })
    }

    /// Wraps a newly formatted index, as [`Variable::new`] does.
    ///
    /// Also refused if the index has no room for a single value of `max_value` bytes.
    pub fn format(index: I, max_value: usize) -> Result<Variable<I>, IndexError> {
        let variable = Variable::new(index, max_value)?;
        variable.require_room()?;
        Ok(variable)
    }

    /// Refuses a new index without room for a value of the largest size. One piece fits every index that
    /// could be formatted; for several pieces the index is asked.
    pub(in crate::ordered) fn require_room(&self) -> Result<(), IndexError> {
        let pieces = self.pieces_max();
        if pieces == 1 || self.index.takes_batch(pieces) != Some(false) {
            return Ok(());
        }
        let most = (1..pieces).rev().find(|&fewer| self.index.takes_batch(fewer) == Some(true)).unwrap_or(1);
        Err(IndexError::unsupported(message!(
            "a value takes up to {pieces} records of the index, as one batch, and there is room for {most}: it needs \
             more blocks, or longer records"
        )))
    }

    /// Largest number of bytes of a key.
    pub fn max_key(&self) -> usize {
        self.key.len() - KEY_TAIL
    }

    /// Largest number of bytes of a value.
    pub const fn max_value(&self) -> usize {
        self.max_value
    }

    /// Largest number of records of the index below for one value.
    pub(in crate::ordered) fn pieces_max(&self) -> usize {
        pieces(self.max_value, self.value.len())
    }

    /// Number of records of the index below for a value of `bytes` bytes.
    pub(in crate::ordered) fn pieces_of(&self, bytes: usize) -> usize {
        pieces(bytes, self.value.len())
    }

    /// Durability class of the index below. It holds for values of several pieces, too.
    pub fn durability(&self) -> Durability {
        self.index.durability()
    }

    /// Returns the index below.
    pub const fn index(&self) -> &I {
        &self.index
    }

    /// Returns the index below, to sync, close or maintain it: for everything that does not concern single
    /// records.
    pub const fn index_mut(&mut self) -> &mut I {
        &mut self.index
    }

    /// Gives the index below back.
    pub fn into_inner(self) -> I {
        self.index
    }

    /// Returns the value of a key.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, IndexError> {
        let mut value = Vec::new();
        Ok(self.get_into(key, &mut value)?.then_some(value))
    }

    /// Looks a key up. If it is present, its value replaces the contents of `value`, and the answer is true.
    pub fn get_into(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, IndexError> {
        let Some(bytes) = self.length_of(key)? else { return Ok(false) };
        value.clear();
        value.extend_from_slice(&self.value[VALUE_HEAD..]);
        let at = key_piece_at(self.key.len());
        for piece in 1..pieces(bytes, self.value.len()) {
            self.key[at] = piece as u8;
            if !self.index.get(&self.key, &mut self.value)? {
                return Err(lacking(piece));
            }
            value.extend_from_slice(&self.value);
        }
        require_whole(value, bytes, self.value.len())?;
        value.truncate(bytes);
        Ok(true)
    }

    /// Inserts a record, or gives an existing key a new value. Returns whether the key existed.
    pub fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, IndexError> {
        require_fits("value", value, self.max_value)?;
        let before = self.length_of(key)?;
        self.write(&[(Change::put(key, value), before)])?;
        Ok(before.is_some())
    }

    /// Gives a key a value, and does not tell whether it existed. That saves reads if every value has one
    /// piece and the index can do without.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), IndexError> {
        self.apply(&[Change::put(key, value)])
    }

    /// Removes a key. Returns whether it existed.
    pub fn remove(&mut self, key: &[u8]) -> Result<bool, IndexError> {
        let before = self.length_of(key)?;
        if before.is_some() {
            self.write(&[(Change::remove(key), before)])?;
        }
        Ok(before.is_some())
    }

    /// Makes several changes, all or none, as [`OrderedIndex::apply`] does. The limit of a batch counts the
    /// pieces of all values.
    pub fn apply(&mut self, batch: &[Change<'_>]) -> Result<(), IndexError> {
        let is_of_one = pieces(self.max_value, self.value.len()) == 1;
        let mut changes = Vec::with_capacity(batch.len());
        for change in newest_by_key(batch) {
            require_fits("value", change.value.unwrap_or_default(), self.max_value)?;
            let before = match change.value {
                Some(_) if is_of_one => None,
                _ => self.length_of(change.key)?,
            };
            changes.push((change, before));
        }
        self.write(&changes)
    }

    /// Visits the records between two bounds in key order, in either direction, until `visit` breaks.
    pub fn range(
        &mut self,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), IndexError> {
        let piece_bytes = self.value.len();
        let low = self.bound(low, [0, u8::MAX])?;
        let high = self.bound(high, [u8::MAX, 0])?;
        let mut parts = Parts::new(self.max_key(), piece_bytes);
        let mut broken = None;
        let (low, high) = (low.as_ref().map(Vec::as_slice), high.as_ref().map(Vec::as_slice));
        self.index.range(low, high, direction, &mut |key, value| match parts.add(key, value, direction) {
            Ok(true) => visit(parts.key(), &parts.value),
            Ok(false) => ControlFlow::Continue(()),
            Err(error) => {
                broken = Some(error);
                ControlFlow::Break(())
            }
        })?;
        match broken {
            Some(error) => Err(error),
            None if parts.is_begun => Err(lacking(parts.next)),
            None => Ok(()),
        }
    }

    /// Makes every acknowledged operation survive a power cut.
    pub fn sync(&mut self) -> Result<(), IndexError> {
        self.index.sync()
    }

    /// Syncs, and leaves the medium so that the next mount is cheapest.
    pub fn close(&mut self) -> Result<(), IndexError> {
        self.index.close()
    }

    /// Checks the index below, that each value has all its pieces and its mark, and that a look-up finds each
    /// record. The report counts whole records.
    pub fn check(&mut self) -> Result<CheckReport, IndexError> {
        let mut report = self.check_below()?;
        look_all_up(self, &mut report)?;
        Ok(report)
    }

    /// Checks the index below, and that each value has all its pieces and its mark.
    pub(super) fn check_below(&mut self) -> Result<CheckReport, IndexError> {
        let mut report = self.index.check()?;
        let mut records = 0;
        self.range(Bound::Unbounded, Bound::Unbounded, Direction::Ascending, &mut |_, _| {
            records += 1;
            ControlFlow::Continue(())
        })?;
        report.records = records;
        Ok(report)
    }

    /// Puts the key of a first piece into the buffer.
    fn begin_key(&mut self, key: &[u8]) -> Result<(), IndexError> {
        require_fits("key", key, self.max_key())?;
        fill_key(&mut self.key, key, 0);
        Ok(())
    }

    /// Number of bytes of a key's value. The first piece is in the buffer then.
    fn length_of(&mut self, key: &[u8]) -> Result<Option<usize>, IndexError> {
        self.begin_key(key)?;
        if !self.index.get(&self.key, &mut self.value)? {
            return Ok(None);
        }
        let bytes = length(&self.value);
        // No such value was ever written here: the index is another's.
        if pieces(bytes, self.value.len()) > PIECES_MAX { Err(lacking(PIECES_MAX)) } else { Ok(Some(bytes)) }
    }

    /// Replaces the pieces of values. The number of old pieces follows from the length of the old value.
    fn write(&mut self, changes: &[(Change<'_>, Option<usize>)]) -> Result<(), IndexError> {
        let (at, piece_bytes) = (key_piece_at(self.key.len()), self.value.len());
        let count = |bytes: Option<usize>| bytes.map_or(0, |bytes| pieces(bytes, piece_bytes));
        let (mut keys, mut values, mut is_put) = (Vec::new(), Vec::new(), Vec::new());
        let has_marks = !self.index.tells_older();
        for &(Change { key, value }, before) in changes {
            self.begin_key(key)?;
            let (now, before) = (count(value.map(<[u8]>::len)), count(before));
            for piece in 0..now.max(before) {
                self.key[at] = piece as u8;
                keys.extend_from_slice(&self.key);
                is_put.push(piece < now);
            }
            if let Some(value) = value {
                values.extend_from_slice(&(value.len() as u16).to_le_bytes());
                values.extend_from_slice(value);
                if has_marks {
                    put_mark(&mut values, value, piece_bytes);
                }
            }
            // Filled up to whole pieces; removed pieces have no bytes.
            values.resize(is_put.len() * piece_bytes, 0);
        }
        let pieces = keys.chunks_exact(self.key.len()).zip(values.chunks_exact(piece_bytes));
        let batch: Vec<Change<'_>> = pieces
            .zip(is_put)
            .map(|((key, value), is_put)| if is_put { Change::put(key, value) } else { Change::remove(key) })
            .collect();
        self.index.apply(&batch)
    }

    /// Bound of the index below: with the first piece number if the bound is included, else with the second.
    fn bound(&self, bound: Bound<&[u8]>, pieces: [u8; 2]) -> Result<Bound<Vec<u8>>, IndexError> {
        let filled = |key: &[u8], piece: u8| -> Result<Vec<u8>, IndexError> {
            require_fits("key", key, self.max_key())?;
            let mut filled = vec![0; self.key.len()];
            fill_key(&mut filled, key, piece);
            Ok(filled)
        };
        Ok(match bound {
            Bound::Included(key) => Bound::Included(filled(key, pieces[0])?),
            Bound::Excluded(key) => Bound::Excluded(filled(key, pieces[1])?),
            Bound::Unbounded => Bound::Unbounded,
        })
    }
}

impl<I: OrderedIndex> Asked for Variable<I> {
    fn walk(&mut self, from: Bound<&[u8]>, visit: Visit<'_>) -> Result<(), IndexError> {
        self.range(from, Bound::Unbounded, Direction::Ascending, visit)
    }

    fn ask(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, IndexError> {
        self.get_into(key, value)
    }
}

/// Pieces of one value, in the order in which a range search finds them.
struct Parts {
    max_key: usize,
    piece_bytes: usize,
    /// Key of the index without the piece number.
    key: Vec<u8>,
    value: Vec<u8>,
    is_begun: bool,
    /// Number of the next piece.
    next: usize,
    /// Number of pieces of the value that are known: all from the first one on.
    count: usize,
}

impl Parts {
    fn new(max_key: usize, piece_bytes: usize) -> Parts {
        let (key, value) = (Vec::new(), Vec::new());
        Parts { max_key, piece_bytes, key, value, is_begun: false, next: 0, count: 0 }
    }

    /// Key of the complete value.
    fn key(&self) -> &[u8] {
        &self.key[..usize::from(self.key[self.max_key]).min(self.max_key)]
    }

    /// Adds a piece. True if the value is complete with it.
    fn add(&mut self, key: &[u8], value: &[u8], direction: Direction) -> Result<bool, IndexError> {
        let at = key_piece_at(key.len());
        let piece = usize::from(key[at]);
        if !self.is_begun {
            self.key.clear();
            self.key.extend_from_slice(&key[..at]);
            self.is_begun = true;
            // In descending order the last piece comes first.
            self.next = if direction == Direction::Ascending { 0 } else { piece };
            self.count = self.next + 1;
            self.value.clear();
            self.value.resize(self.count * self.piece_bytes, 0);
        }
        if piece != self.next || self.key != key[..at] {
            return Err(lacking(self.next));
        }
        if piece == 0 {
            let count = pieces(length(value), self.piece_bytes);
            if direction == Direction::Descending && count != self.count {
                return Err(lacking(count - 1));
            }
            self.count = count;
            self.value.resize(count * self.piece_bytes, 0);
        }
        self.value[piece * self.piece_bytes..][..self.piece_bytes].copy_from_slice(value);
        let is_whole = match direction {
            Direction::Ascending => piece + 1 == self.count,
            Direction::Descending => piece == 0,
        };
        if is_whole {
            let bytes = length(&self.value);
            self.value.drain(..VALUE_HEAD);
            require_whole(&self.value, bytes, self.piece_bytes)?;
            self.value.truncate(bytes);
            self.is_begun = false;
        } else {
            self.next = if direction == Direction::Ascending { piece + 1 } else { piece - 1 };
        }
        Ok(is_whole)
    }
}

const fn key_piece_at(key_bytes: usize) -> usize {
    key_bytes - 1
}

/// Number of pieces of a value of `bytes` bytes.
const fn pieces(bytes: usize, piece_bytes: usize) -> usize {
    (bytes + VALUE_HEAD).div_ceil(piece_bytes)
}

/// Number of bytes of a value, as its first piece tells.
fn length(first: &[u8]) -> usize {
    get_u16(first, 0).into()
}

fn fill_key(filled: &mut [u8], key: &[u8], piece: u8) {
    let (bytes, tail) = filled.split_at_mut(filled.len() - KEY_TAIL);
    bytes[..key.len()].copy_from_slice(key);
    bytes[key.len()..].fill(0);
    tail.copy_from_slice(&[key.len() as u8, piece]);
}

pub(in crate::ordered) fn require_fits(
    what: &'static str,
    bytes: &[u8],
    most: usize,
) -> Result<(), IndexError> {
    let got = bytes.len();
    if got > most { Err(IndexError::WrongLength { what, expected: most, got }) } else { Ok(()) }
}

#[cold]
fn lacking(piece: usize) -> IndexError {
    IndexError::corrupted("a value lacks a piece", piece as u64)
}

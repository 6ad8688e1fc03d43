//! The model of an ordered index, operations on both, and their comparison.

use crate::check::IndexError;
use crate::ordered::buffered::Answers;
use crate::ordered::{Direction, OrderedIndex, RecordFormat};
use crate::rng::Rng;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::{Bound, ControlFlow, RangeBounds};

/// The records that an index must hold.
pub type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Records in the order of a walk.
pub type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// Lower and upper bound of a range.
pub type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// Bounds of the range of all records.
pub const ALL: Bounds = (Bound::Unbounded, Bound::Unbounded);

/// An operation of an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Insertion of a record with this key and value.
    Insert(Vec<u8>, Vec<u8>),
    /// Removal of a key.
    Remove(Vec<u8>),
    /// Look-up of a key.
    Get(Vec<u8>),
    /// Walk over a range, until more than this number of records were seen.
    Range(Bounds, Direction, usize),
    /// Sync.
    Sync,
    /// Close and mount. [`apply`] leaves this to the test.
    Remount,
}

/// Returns key number `n`. The number is at its end, so the keys are in the order of their numbers.
pub fn key(n: u64, record: RecordFormat) -> Vec<u8> {
    let mut key = vec![0x5a; usize::from(record.key_bytes)];
    let bytes = n.to_be_bytes();
    let width = key.len().min(bytes.len());
    let at = key.len() - width;
    key[at..].copy_from_slice(&bytes[bytes.len() - width..]);
    key
}

/// Returns a value that depends on the number `n` alone.
pub fn value(n: u64, record: RecordFormat) -> Vec<u8> {
    let mut value = vec![0; usize::from(record.value_bytes)];
    Rng::new(n).fill(&mut value);
    value
}

/// Shares of the kinds of operations, and number of keys.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// Number of keys: operations use the keys `0..keys`.
    pub keys: u64,
    /// Shares of insertions and of removals.
    pub updates: [u64; 2],
    /// Shares of look-ups and of ranges.
    pub reads: [u64; 2],
    /// Share of syncs.
    pub syncs: u64,
    /// Share of remounts.
    pub remounts: u64,
}

impl Mix {
    /// Returns the mix of insertions, removals and syncs alone.
    pub const fn updates(keys: u64, updates: [u64; 2], syncs: u64) -> Mix {
        Mix { keys, updates, reads: [0; 2], syncs, remounts: 0 }
    }

    /// Returns a mix of all operations. Insertions and removals have a random proportion, so that an index
    /// grows or shrinks.
    pub fn any(rng: &mut Rng, keys: u64) -> Mix {
        let updates = [6 * (1 + rng.below(19)), 6 * (1 + rng.below(19))];
        Mix { keys, updates, reads: [5, 5], syncs: 1, remounts: 1 }
    }

    /// Draws an operation.
    pub fn draw(&self, rng: &mut Rng, record: RecordFormat) -> Op {
        let shares =
            [self.updates[0], self.updates[1], self.reads[0], self.reads[1], self.syncs, self.remounts];
        let mut at = rng.below(shares.iter().sum());
        let kind = shares.iter().position(|share| {
            let is_it = at < *share;
            at = at.saturating_sub(*share);
            is_it
        });
        match kind {
            Some(0) => Op::Insert(key(rng.below(self.keys), record), value(rng.next_u64(), record)),
            Some(1) => Op::Remove(key(rng.below(self.keys), record)),
            Some(2) => Op::Get(key(rng.below(self.keys), record)),
            Some(3) => {
                let direction = if rng.chance(1, 2) { Direction::Ascending } else { Direction::Descending };
                let bounds = (self.bound(rng, record), self.bound(rng, record));
                Op::Range(bounds, direction, rng.below(50) as usize)
            }
            Some(4) => Op::Sync,
            _ => Op::Remount,
        }
    }

    fn bound(&self, rng: &mut Rng, record: RecordFormat) -> Bound<Vec<u8>> {
        let key = key(rng.below(self.keys), record);
        match rng.below(3) {
            0 => Bound::Unbounded,
            1 => Bound::Included(key),
            _ => Bound::Excluded(key),
        }
    }
}

/// Draws up to `most` operations of all kinds on `keys` keys.
pub fn ops(rng: &mut Rng, most: u64, keys: u64, record: RecordFormat) -> Vec<Op> {
    let mix = Mix::any(rng, keys);
    (0..=rng.below(most)).map(|_| mix.draw(rng, record)).collect()
}

/// Does one operation with index and model, and compares the results.
pub fn apply(index: &mut dyn OrderedIndex, model: &mut Model, op: &Op, answers: Answers) {
    let fails = |error: IndexError| -> ! { panic!("{op:?}: {error}") };
    let agree = |found: bool, expected: bool| {
        assert!(found == expected || answers == Answers::Pool && !found, "{op:?}: {found}");
    };
    match op {
        Op::Insert(key, value) => {
            let found = index.insert(key, value).unwrap_or_else(|error| fails(error));
            agree(found, model.insert(key.clone(), value.clone()).is_some());
        }
        Op::Remove(key) => {
            let found = index.remove(key).unwrap_or_else(|error| fails(error));
            agree(found, model.remove(key).is_some());
        }
        Op::Get(key) => assert_eq!(get(index, key), Ok(model.get(key).cloned()), "{op:?}"),
        Op::Range(bounds, direction, stop) => {
            let mut expected: Pairs = model
                .iter()
                .filter(|(key, _)| bounds.contains(*key))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect();
            if *direction == Direction::Descending {
                expected.reverse();
            }
            expected.truncate(stop + 1);
            assert_eq!(walk(index, bounds, *direction, *stop), Ok(expected), "{op:?}");
        }
        Op::Sync => index.sync().unwrap_or_else(|error| fails(error)),
        Op::Remount => {}
    }
}

/// Does operations with an index and its model. `remount` closes and mounts the index, and `look` is called
/// after each operation. From time to time the index is checked. At the end it must hold the model.
pub fn live<I: OrderedIndex>(
    mut index: I,
    ops: &[Op],
    answers: Answers,
    remount: &dyn Fn(I) -> I,
    look: &mut dyn FnMut(&mut I, &Op),
) -> (I, Model) {
    let mut model = Model::new();
    for (i, op) in ops.iter().enumerate() {
        apply(&mut index, &mut model, op, answers);
        if *op == Op::Remount {
            index = remount(index);
        }
        look(&mut index, op);
        if i % 8 == 0 {
            assert_sound(&mut index, &model);
        }
    }
    assert_holds(&mut index, &model);
    (index, model)
}

/// Inserts a record in index and model. Asserts that both tell the same about the key.
pub fn put(
    index: &mut dyn OrderedIndex,
    model: &mut Model,
    key: &[u8],
    value: &[u8],
) -> Result<bool, IndexError> {
    let existed = index.insert(key, value)?;
    assert_eq!(existed, model.insert(key.to_vec(), value.to_vec()).is_some(), "{key:?}");
    Ok(existed)
}

/// Removes a key from index and model. Asserts that both tell the same about the key.
pub fn take(index: &mut dyn OrderedIndex, model: &mut Model, key: &[u8]) -> Result<bool, IndexError> {
    let existed = index.remove(key)?;
    assert_eq!(existed, model.remove(key).is_some(), "{key:?}");
    Ok(existed)
}

/// Inserts records until the index is full. Returns the number of records that it took.
pub fn fill(
    index: &mut dyn OrderedIndex,
    model: &mut Model,
    next: &mut dyn FnMut() -> (Vec<u8>, Vec<u8>),
) -> usize {
    let mut taken = 0;
    loop {
        let (key, value) = next();
        match put(index, model, &key, &value) {
            Ok(_) => taken += 1,
            Err(IndexError::Full(_)) => return taken,
            Err(error) => panic!("{error} after {taken} records"),
        }
    }
}

/// Returns the value of a key; `None` if the key does not exist.
pub fn get(index: &mut dyn OrderedIndex, key: &[u8]) -> Result<Option<Vec<u8>>, IndexError> {
    let mut value = vec![0; usize::from(index.record().value_bytes)];
    Ok(index.get(key, &mut value)?.then_some(value))
}

/// Returns the records of a range, and ends after more than `stop` of them.
pub fn walk(
    index: &mut dyn OrderedIndex,
    (low, high): &Bounds,
    direction: Direction,
    stop: usize,
) -> Result<Pairs, IndexError> {
    let mut found = Vec::new();
    let (low, high) = (low.as_ref().map(Vec::as_slice), high.as_ref().map(Vec::as_slice));
    index.range(low, high, direction, &mut |key, value| {
        found.push((key.to_vec(), value.to_vec()));
        if found.len() > stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(found)
}

/// Returns all records.
///
/// # Panics
///
/// Panics if the keys do not ascend strictly.
pub fn contents(index: &mut dyn OrderedIndex) -> Result<Model, IndexError> {
    let all = walk(index, &ALL, Direction::Ascending, usize::MAX)?;
    assert!(all.is_sorted_by(|a, b| a.0 < b.0), "keys do not ascend: {all:?}");
    Ok(all.into_iter().collect())
}

/// Asserts that the check of the index finds no fault, and as many records as the model has.
pub fn assert_sound(index: &mut dyn OrderedIndex, model: &Model) {
    let report = index.check().unwrap_or_else(|error| panic!("check: {error}"));
    assert!(report.is_sound(), "{:?}", report.violations);
    assert_eq!(report.records, model.len() as u64, "records by the check");
}

/// Asserts that the index is sound, and that walks in both directions and a look-up of every key agree with
/// the model.
pub fn assert_holds(index: &mut dyn OrderedIndex, model: &Model) {
    assert_sound(index, model);
    let mut expected: Pairs = model.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    for direction in [Direction::Ascending, Direction::Descending] {
        assert_eq!(walk(index, &ALL, direction, usize::MAX).as_ref(), Ok(&expected), "{direction:?}");
        expected.reverse();
    }
    for (key, value) in model {
        assert_eq!(get(index, key).as_ref(), Ok(&Some(value.clone())), "{key:?}");
    }
}

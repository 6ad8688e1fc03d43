//! The common part of the tests of trees with waiting updates: small records, operations, a model, a power
//! cut.

use super::Answers;
use crate::check::IndexError;
use crate::nand::NandError;
use crate::ordered::{Direction, OrderedIndex, RecordFormat};
use crate::rng::Rng;
use crate::store::StoreError;
use crate::testing::Store;
use crate::units::Lpn;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::ops::{Bound, ControlFlow, RangeBounds};
use proptest::prelude::*;

pub(in crate::ordered) type Bytes = [u8; 2];
pub(in crate::ordered) type Model = BTreeMap<Bytes, Bytes>;
/// Every value that a key had, or that it was removed.
pub(in crate::ordered) type Values = BTreeSet<(Bytes, Option<Bytes>)>;

pub(in crate::ordered) const SMALL: RecordFormat = RecordFormat::new(2, 2);

pub(in crate::ordered) fn key(n: u16) -> [u8; 2] {
    n.to_be_bytes()
}

pub(in crate::ordered) fn walk(
    index: &mut impl OrderedIndex,
    (low, high): (Bound<u16>, Bound<u16>),
    direction: Direction,
    stop: usize,
) -> Result<Vec<(Bytes, Bytes)>, IndexError> {
    let (low, high) = (low.map(key), high.map(key));
    let mut found = Vec::new();
    let bounds = (low.as_ref().map(|k| &k[..]), high.as_ref().map(|k| &k[..]));
    index.range(bounds.0, bounds.1, direction, &mut |key, value| {
        found.push((key.try_into().unwrap(), value.try_into().unwrap()));
        if found.len() > stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(found)
}

pub(in crate::ordered) fn contents(index: &mut impl OrderedIndex) -> Result<Model, IndexError> {
    let unbounded = (Bound::Unbounded, Bound::Unbounded);
    Ok(walk(index, unbounded, Direction::Ascending, usize::MAX)?.into_iter().collect())
}

pub(in crate::ordered) fn assert_sound(index: &mut impl OrderedIndex, model: &Model) {
    let report = index.check().unwrap();
    assert!(report.is_sound(), "{:?}", report.violations);
    assert_eq!(report.records, model.len() as u64);
}

#[derive(Clone, Debug)]
pub(in crate::ordered) enum Op {
    Insert(u16, u16),
    Remove(u16),
    Get(u16),
    Range(Bound<u16>, Bound<u16>, Direction, usize),
    Sync,
    Remount,
}

pub(in crate::ordered) fn any_bound() -> impl Strategy<Value = Bound<u16>> {
    prop_oneof![
        Just(Bound::Unbounded),
        (0..400u16).prop_map(Bound::Included),
        (0..400u16).prop_map(Bound::Excluded)
    ]
}

/// Operations with insertions and removals in any proportion, so that trees grow and wither.
pub(in crate::ordered) fn any_ops() -> impl Strategy<Value = Vec<Op>> {
    (1..20u32, 1..20u32).prop_flat_map(|(inserts, removes)| {
        let direction = prop_oneof![Just(Direction::Ascending), Just(Direction::Descending)];
        let op = prop_oneof![
            inserts * 6 => (0..400u16, any::<u16>()).prop_map(|(k, v)| Op::Insert(k, v)),
            removes * 6 => (0..400u16).prop_map(Op::Remove),
            5 => (0..400u16).prop_map(Op::Get),
            5 => (any_bound(), any_bound(), direction, 0..50usize)
                .prop_map(|(low, high, direction, stop)| Op::Range(low, high, direction, stop)),
            1 => Just(Op::Sync),
            1 => Just(Op::Remount),
        ];
        proptest::collection::vec(op, 1..900)
    })
}

/// Does one operation with index and model. With exact answers they agree on what existed.
pub(in crate::ordered) fn run_op(
    index: &mut impl OrderedIndex,
    op: &Op,
    model: &mut Model,
    answers: Answers,
) {
    let exact = answers == Answers::Exact;
    match *op {
        Op::Insert(n, v) => {
            let (found, expected) =
                (index.insert(&key(n), &key(v)).unwrap(), model.insert(key(n), key(v)).is_some());
            assert!(found == expected || !exact && !found);
        }
        Op::Remove(n) => {
            let (found, expected) = (index.remove(&key(n)).unwrap(), model.remove(&key(n)).is_some());
            assert!(found == expected || !exact && !found);
        }
        Op::Get(n) => {
            let mut found = [0; 2];
            assert_eq!(index.get(&key(n), &mut found), Ok(model.contains_key(&key(n))));
            assert!(model.get(&key(n)).is_none_or(|expected| *expected == found));
        }
        Op::Range(low, high, direction, stop) => {
            let bounds = (low.map(key), high.map(key));
            let within = |entry: &(&[u8; 2], &[u8; 2])| bounds.contains(entry.0);
            let mut expected: Vec<_> = model.iter().filter(within).map(|(k, v)| (*k, *v)).collect();
            if direction == Direction::Descending {
                expected.reverse();
            }
            expected.truncate(stop + 1);
            assert_eq!(walk(index, (low, high), direction, stop).unwrap(), expected);
        }
        Op::Sync => index.sync().unwrap(),
        Op::Remount => {}
    }
}

/// Works until the power fails; returns the contents at the last sync, and every value that a key had since.
pub(in crate::ordered) fn work_until_the_cut(index: &mut impl OrderedIndex) -> (Model, Values) {
    let (mut synced, mut model, mut since) = (Model::new(), Model::new(), BTreeSet::new());
    let mut rng = Rng::new(3);
    loop {
        let (n, v) = (key(rng.below(120) as u16), key(rng.below(9_999) as u16));
        let done = match rng.below(60) {
            0 => {
                let done = index.sync();
                if done.is_ok() {
                    (synced, since) = (model.clone(), BTreeSet::new());
                }
                done
            }
            1..30 => {
                since.insert((n, Some(v)));
                model.insert(n, v);
                index.insert(&n, &v).map(drop)
            }
            _ => {
                since.insert((n, None));
                model.remove(&n);
                index.remove(&n).map(drop)
            }
        };
        if let Err(error) = done {
            assert_eq!(error, IndexError::Store(StoreError::Nand(NandError::PowerLost)));
            if index.sync() == Err(IndexError::Interrupted) {
                // Where only the layer below gave up, what is read is told by its pages; nothing is ever
                // written again.
                assert!(matches!(index.get(&n, &mut [0; 2]), Ok(_) | Err(IndexError::Interrupted)));
                assert_eq!(index.sync(), Err(IndexError::Interrupted));
            }
            return (synced, since);
        }
    }
}

pub(in crate::ordered) fn assert_each_key_is_synced_or_later(found: &Model, synced: &Model, since: &Values) {
    for n in (0..120).map(key) {
        let value = found.get(&n).copied();
        assert!(value == synced.get(&n).copied() || since.contains(&(n, value)), "{n:?}");
    }
}

/// Which records go from a full store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ordered) enum Gone {
    LowerHalf,
    UpperHalf,
    Scattered,
}

/// Fills a store until it refuses a record, removes half of the records, and does so again: each fill finds
/// room for half as many records as went before it. Every removal finds room, and what is refused changes
/// nothing.
pub(in crate::ordered) fn assert_takes_again(index: &mut impl OrderedIndex, gone: Gone, seed: u64) {
    let (mut model, mut rng) = (Model::new(), Rng::new(seed));
    let mut removed = 0;
    for round in 0..4u16 {
        let mut inserted = 0;
        loop {
            let n = key(rng.below(60_000) as u16);
            match index.insert(&n, &key(round)) {
                Ok(existed) => assert_eq!(existed, model.insert(n, key(round)).is_some()),
                Err(error) => break assert_eq!(error, IndexError::Full),
            }
            inserted += 1;
        }
        assert!(inserted > 0 && 2 * inserted >= removed, "round {round}: {inserted} for {removed}");
        assert_sound(index, &model);
        assert_eq!(contents(index).unwrap(), model);
        let (count, lower) = (model.len(), model.len() / 2);
        let goes = |i: usize| match gone {
            Gone::LowerHalf => i < lower,
            Gone::UpperHalf => i >= lower,
            Gone::Scattered => i.is_multiple_of(2),
        };
        let keys: Vec<_> = model.keys().enumerate().filter(|&(i, _)| goes(i)).map(|(_, n)| *n).collect();
        for n in &keys {
            assert_eq!(index.remove(n), Ok(true), "round {round}, {count} records");
            model.remove(n);
        }
        removed = keys.len();
        assert_sound(index, &model);
        if round == 1 {
            index.sync().unwrap();
        }
    }
    assert_eq!(contents(index).unwrap(), model);
}

/// Overwrites bytes of pages, and lets the checksums say that all is well.
pub(in crate::ordered) fn forge(store: &Store, forgeries: Vec<(u32, usize, u8)>) {
    for (lpn, at, byte) in forgeries {
        let mut page = store.page_of(Lpn(lpn));
        page[at] = byte;
        let crc = crate::codec::crc32(&[&page[4..]]);
        crate::codec::put_u32(&mut page, 0, crc);
        store.put(Lpn(lpn), &page);
    }
}

/// Uses an index that may hold anything.
pub(in crate::ordered) fn use_forged(index: &mut impl OrderedIndex, seed: u64) {
    let mut rng = Rng::new(seed);
    for _ in 0..120 {
        let n = key(rng.below(70) as u16);
        let _ = match rng.below(5) {
            0 | 1 => index.insert(&n, &[1; 2]),
            2 | 3 => index.remove(&n),
            _ => index.get(&n, &mut [0; 2]),
        };
    }
    let _ = contents(index);
    let _ = index.sync();
    let _ = index.check();
}

/// Fills an index three times and removes half of its records each time; `changes`: what is there can be
/// changed while it is full.
pub(in crate::ordered) fn fill_and_drain(index: &mut impl OrderedIndex, changes: bool) {
    let (mut model, mut rng) = (Model::new(), Rng::new(2));
    for round in 0..3u16 {
        let mut inserted = 0;
        loop {
            let n = key(rng.next_u64() as u16);
            match index.insert(&n, &key(round)) {
                Ok(_) => model.insert(n, key(round)),
                Err(error) => {
                    assert_eq!(error, IndexError::Full);
                    break;
                }
            };
            inserted += 1;
        }
        assert!(inserted > 40, "{inserted}");
        assert_sound(index, &model);
        for (n, value) in model.iter_mut().filter(|_| changes) {
            *value = key(round);
            assert_eq!(index.insert(n, value), Ok(true));
        }
        let gone: Vec<Bytes> = model.keys().take(model.len() / 2).copied().collect();
        for n in gone {
            assert_eq!(index.remove(&n), Ok(true));
            model.remove(&n);
        }
        index.sync().unwrap();
        assert_eq!(contents(index).unwrap(), model);
        assert_sound(index, &model);
    }
}

/// Records in random order, some of them several times, and a close.
pub(in crate::ordered) fn put_some(index: &mut impl OrderedIndex, rng: &mut Rng) -> Model {
    let mut model = Model::new();
    for _ in 0..900 {
        let n = key(rng.below(300) as u16);
        index.insert(&n, &n).unwrap();
        model.insert(n, n);
    }
    index.close().unwrap();
    model
}

/// Flips one bit after the other of the first pages of a store whose index holds the model: it is refused, or
/// changes nothing. How often was what?
pub(in crate::ordered) fn flip_bits(
    (store, pages): (&Store, u64),
    (model, rng): (&Model, &mut Rng),
    mount: impl Fn(Store) -> Result<Model, IndexError>,
) -> (u32, u32) {
    let (mut refused, mut right) = (0, 0);
    for _ in 0..1_500 {
        let store = store.copy();
        let (lpn, bit) = (Lpn(rng.below(pages) as u32), rng.below(1024) as usize);
        let mut page = store.page_of(lpn);
        if page == [0; 128] {
            continue;
        }
        page[bit / 8] ^= 1 << (bit % 8);
        store.put(lpn, &page);
        match mount(store) {
            Ok(found) => {
                assert_eq!(found, *model);
                right += 1;
            }
            Err(_) => refused += 1,
        }
    }
    (refused, right)
}

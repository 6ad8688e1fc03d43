//! The common part of the tests of trees with waiting updates: small records, operations, a model, a power
//! cut.

use alloc::vec::Vec;
use nandex::check::IndexError;
use nandex::nand::NandError;
use nandex::ordered::{Direction, OrderedIndex, RecordFormat};
use nandex::rng::Rng;
use nandex::store::StoreError;
use nandex::testing::{self, Mix, Store};
use nandex::units::Lpn;

pub(in crate::ordered) use nandex::testing::{
    History, Model, Op, assert_holds, assert_sound, contents, live, put, take,
};

pub(in crate::ordered) const SMALL: RecordFormat = RecordFormat::new(2, 2);

pub(in crate::ordered) fn key(n: u16) -> [u8; 2] {
    n.to_be_bytes()
}

/// Random operations of every kind.
pub(in crate::ordered) fn any_ops(rng: &mut Rng) -> Vec<Op> {
    testing::ops(rng, 900, 400, SMALL)
}

pub(in crate::ordered) fn work_until_the_cut(index: &mut dyn OrderedIndex) -> History {
    let mut history = History::new(Model::new());
    let error = history.work(index, &mut Rng::new(3), Mix::updates(120, [29, 30], 1));
    assert_eq!(error, IndexError::Store(StoreError::Nand(NandError::PowerLost)));
    if index.sync() == Err(IndexError::Interrupted) {
        // Where only the layer below gave up, what is read is told by its pages; nothing is ever written
        // again.
        if let Some(n) = history.in_flight() {
            let found = index.get(n, &mut [0; 2]);
            assert!(matches!(found, Ok(_) | Err(IndexError::Interrupted)), "{found:?}");
        }
        assert_eq!(index.sync(), Err(IndexError::Interrupted));
    }
    history
}

/// The records that are removed from a full store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ordered) enum Gone {
    LowerHalf,
    UpperHalf,
    Scattered,
}

/// Fills a store until it refuses a record, removes half of the records, and does both again. Each fill
/// must find room for at least half as many records as were removed. Removals must always find room, and
/// refused operations must change nothing.
pub(in crate::ordered) fn assert_takes_again(index: &mut dyn OrderedIndex, gone: Gone, seed: u64) {
    let (mut model, mut rng) = (Model::new(), Rng::new(seed));
    let mut removed = 0;
    for round in 0..4u16 {
        let mut next = || (key(rng.below(60_000) as u16).to_vec(), key(round).to_vec());
        let inserted = testing::fill(index, &mut model, &mut next);
        assert!(inserted > 0 && 2 * inserted >= removed, "round {round}: {inserted} for {removed}");
        assert_holds(index, &model);
        let (count, lower) = (model.len(), model.len() / 2);
        let goes = |i: usize| match gone {
            Gone::LowerHalf => i < lower,
            Gone::UpperHalf => i >= lower,
            Gone::Scattered => i.is_multiple_of(2),
        };
        let keys: Vec<_> =
            model.keys().enumerate().filter(|&(i, _)| goes(i)).map(|(_, n)| n.clone()).collect();
        for n in &keys {
            assert_eq!(take(index, &mut model, n), Ok(true), "round {round}, {count} records");
        }
        removed = keys.len();
        assert_sound(index, &model);
        if round == 1 {
            index.sync().unwrap();
        }
    }
    assert_holds(index, &model);
}

/// Random forgeries, fewer than `most`: page, offset and byte of each.
pub(in crate::ordered) fn any_forgeries(
    rng: &mut Rng,
    (pages, offsets): (u64, u64),
    most: u64,
) -> Vec<(u32, usize, u8)> {
    let count = 1 + rng.below(most - 1);
    let mut one = || (rng.below(pages) as u32, 4 + rng.below(offsets - 4) as usize, rng.next_u64() as u8);
    (0..count).map(|_| one()).collect()
}

/// Overwrites bytes of pages and corrects the checksums.
pub(in crate::ordered) fn forge(store: &Store, forgeries: Vec<(u32, usize, u8)>) {
    for (lpn, at, byte) in forgeries {
        let mut page = store.page_of(Lpn(lpn));
        page[at] = byte;
        let crc = nandex::codec::crc32(&[&page[4..]]);
        nandex::codec::put_u32(&mut page, 0, crc);
        store.put(Lpn(lpn), &page);
    }
}

/// Uses an index whose contents may be anything.
pub(in crate::ordered) fn use_forged(index: &mut dyn OrderedIndex, seed: u64) {
    let mut rng = Rng::new(seed);
    for _ in 0..120 {
        let n = key(rng.below(70) as u16);
        let _ = match rng.below(5) {
            0 | 1 => index.insert(&n, &[1; 2]),
            2 | 3 => index.remove(&n),
            _ => index.get(&n, &mut [0; 2]),
        };
    }
    let _ = testing::walk(index, &testing::ALL, Direction::Ascending, usize::MAX);
    let _ = index.sync();
    let _ = index.check();
}

/// Fills an index three times and removes half of its records each time. `changes` says that records can be
/// changed while the index is full.
pub(in crate::ordered) fn fill_and_drain(index: &mut dyn OrderedIndex, changes: bool) {
    let (mut model, mut rng) = (Model::new(), Rng::new(2));
    for round in 0..3u16 {
        let mut next = || (key(rng.next_u64() as u16).to_vec(), key(round).to_vec());
        let inserted = testing::fill(index, &mut model, &mut next);
        assert!(inserted > 40, "{inserted}");
        assert_sound(index, &model);
        for (n, value) in model.iter_mut().filter(|_| changes) {
            *value = key(round).to_vec();
            assert_eq!(index.insert(n, value), Ok(true));
        }
        let gone: Vec<_> = model.keys().take(model.len() / 2).cloned().collect();
        for n in gone {
            assert_eq!(take(index, &mut model, &n), Ok(true));
        }
        index.sync().unwrap();
        assert_holds(index, &model);
    }
}

/// Puts records in random order, some of them several times, and closes the index.
pub(in crate::ordered) fn put_some(index: &mut dyn OrderedIndex, rng: &mut Rng) -> Model {
    let mut model = Model::new();
    for _ in 0..900 {
        let n = key(rng.below(300) as u16);
        put(index, &mut model, &n, &n).unwrap();
    }
    index.close().unwrap();
    model
}

/// Flips single bits of the first pages of a store whose index holds the model. A mount must refuse the
/// store or find the model. Returns the number of each.
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

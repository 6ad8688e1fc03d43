//! The trees on logical pages at the edge: full stores, power-offs and cuts there, and stores that stop
//! taking writes.
//!
//! The store is a plain one in memory, so that what fails here is the fault of tree or journal and of no FTL.

#![allow(clippy::unwrap_used)]

mod trees;

use nandex::Shared;
use nandex::ordered::{Direction, Durability, RecordFormat};
use nandex::rng::Rng;
use nandex::testing::{ALL, Call, Model, Store, contents, walk};
use nandex::{IndexError, NandError, OrderedIndex, StoreError};
use trees::{OpenTree, TREES};

/// The answer of a store once it has taken its writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    WornOut,
    Full,
    PowerLost,
}

/// A store that takes so many writes and trims; what it holds outlives the index.
struct Mortal {
    store: Store,
    left: Shared<Option<u64>>,
    end: End,
}

impl Mortal {
    fn new(pages: u32, end: End) -> Mortal {
        let (store, left) = (Store::new(PAGE_BYTES, pages), Shared::new(None));
        let counted = left.clone();
        store.on_call(move |call| match (call, &mut *counted.lock()) {
            (Call::Write(..) | Call::Trim(_), Some(0)) => Err(end.error()),
            (Call::Write(..) | Call::Trim(_), Some(left)) => {
                *left -= 1;
                Ok(())
            }
            (Call::Sync | Call::Checkpoint, Some(0)) if end == End::PowerLost => Err(end.error()),
            _ => Ok(()),
        });
        Mortal { store, left, end }
    }

    fn live_for(&self, writes: Option<u64>) {
        *self.left.lock() = writes;
    }

    fn is_dead(&self) -> bool {
        *self.left.lock() == Some(0)
    }
}

impl End {
    fn error(self) -> StoreError {
        match self {
            End::WornOut => StoreError::WornOut,
            End::Full => StoreError::Full,
            End::PowerLost => StoreError::Nand(NandError::PowerLost),
        }
    }
}

const PAGE_BYTES: usize = 512;
const RECORD: RecordFormat = RecordFormat::new(8, 8);

fn class_of(seed: u64) -> Durability {
    [Durability::EveryOperation, Durability::EverySync][seed as usize % 2]
}

/// A key and what stood under it before.
type Undo = (Vec<u8>, Option<Vec<u8>>);

/// A tree on its store with what it should hold, and the changes that a power cut may take back, oldest
/// first.
struct Life {
    name: String,
    tree: OpenTree,
    class: Durability,
    store: Mortal,
    index: Option<Box<dyn OrderedIndex>>,
    now: Model,
    loose: Vec<Undo>,
    rng: Rng,
}

impl Life {
    fn new((name, tree): (&str, OpenTree), pages: u32, seed: u64, end: End) -> Option<Life> {
        let (class, store) = (class_of(seed), Mortal::new(pages, end));
        let index = match tree(Box::new(store.store.handle()), class, false) {
            Err(error) if error.is_unsupported() => return None,
            index => index.unwrap_or_else(|error| panic!("{name} on {pages} pages: format: {error}")),
        };
        let name = format!("{name} on {pages} pages, seed {seed}");
        let (now, loose, rng) = (Model::new(), Vec::new(), Rng::new(seed));
        Some(Life { name, tree, class, store, index: Some(index), now, loose, rng })
    }

    fn index(&mut self) -> &mut dyn OrderedIndex {
        &mut **self.index.as_mut().unwrap()
    }

    fn change(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        let before = match value {
            Some(value) => self.now.insert(key.clone(), value),
            None => self.now.remove(&key),
        };
        self.loose.push((key, before));
    }

    /// A put, or a removal.
    fn update(&mut self, is_put: bool) -> Result<(), IndexError> {
        let any = self.rng.next_u64().to_be_bytes().to_vec();
        let known = self.now.range(any.clone()..).next().map(|(key, _)| key.clone());
        let key = if is_put && self.rng.chance(4, 5) { any } else { known.unwrap_or(any) };
        let value = is_put.then(|| self.rng.next_u64().to_be_bytes().to_vec());
        let index = &mut **self.index.as_mut().unwrap();
        let done = match &value {
            Some(value) => index.insert(&key, value),
            None => index.remove(&key),
        };
        match done {
            Ok(found) => {
                assert_eq!(found, self.now.contains_key(&key), "{}", self.name);
                self.change(key, value);
                match self.class {
                    Durability::EveryOperation => self.loose.clear(),
                    _ if self.loose.len() > 40 => self.sync()?,
                    _ => {}
                }
                Ok(())
            }
            Err(error) => {
                if !error.is_refusal() {
                    self.change(key, value);
                }
                Err(error)
            }
        }
    }

    fn sync(&mut self) -> Result<(), IndexError> {
        self.index().sync()?;
        self.loose.clear();
        Ok(())
    }

    /// Takes the power away and gives it back; the recovery may be cut too.
    fn remount(&mut self) {
        self.index = None;
        let mut tries = 0;
        loop {
            match (self.tree)(Box::new(self.store.store.handle()), self.class, true) {
                Ok(index) => break self.index = Some(index),
                Err(IndexError::Store(StoreError::Nand(NandError::PowerLost))) if tries < 4 => {
                    tries += 1;
                    let writes = self.rng.below(4);
                    self.store.live_for(if tries < 4 { Some(writes) } else { None });
                }
                Err(error) => panic!("{}: mount: {error}", self.name),
            }
        }
        // FlashDB writes as it is read.
        if self.store.end == End::PowerLost {
            self.store.live_for(None);
        }
        let name = self.name.clone();
        let found = contents(self.index()).unwrap_or_else(|e| panic!("{name}: {e}"));
        let last = self.now.clone();
        while self.now != found {
            let Some((key, before)) = self.loose.pop() else {
                let lost = last.iter().filter(|(key, value)| found.get(*key) != Some(value)).count();
                let more = found.iter().filter(|(key, value)| last.get(*key) != Some(value)).count();
                panic!("{}: {lost} records lost, {more} too many, of {}", self.name, last.len());
            };
            match before {
                Some(value) => self.now.insert(key, value),
                None => self.now.remove(&key),
            };
        }
        self.loose.clear();
    }

    fn assert_holds(&mut self) {
        let expected: Vec<_> = self.now.clone().into_iter().collect();
        let name = self.name.clone();
        let found = walk(self.index(), &ALL, Direction::Ascending, usize::MAX)
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(found == expected, "{name}: {} records, not {}", found.len(), expected.len());
        let mut down = walk(self.index(), &ALL, Direction::Descending, usize::MAX).unwrap();
        down.reverse();
        assert!(down == expected, "{name}: downwards");
        let report = self.index().check().unwrap();
        assert!(report.is_sound(), "{name}: {:?}", report.violations);
        assert_eq!(report.records, expected.len() as u64, "{name}");
        for (key, value) in expected.iter().step_by(7) {
            let mut got = vec![0; value.len()];
            assert!(self.index().get(key, &mut got).unwrap() && got == *value, "{name}");
        }
    }

    fn fill(&mut self) {
        loop {
            match self.update(true) {
                Ok(()) => assert!(self.now.len() < 60_000, "{}: never full", self.name),
                Err(IndexError::Full) => return,
                Err(error) => panic!("{}: {error}", self.name),
            }
        }
    }

    fn must(&mut self, what: &str, done: Result<(), IndexError>) {
        done.unwrap_or_else(|error| panic!("{}: {what} of {}: {error}", self.name, self.now.len()));
    }
}

fn is_power_lost(error: &IndexError) -> bool {
    *error == IndexError::Store(StoreError::Nand(NandError::PowerLost))
}

/// Runs a body for every tree on stores of these sizes; how many lives there were.
fn lives(sizes: impl Iterator<Item = u32> + Clone, end: End, mut body: impl FnMut(Life)) -> usize {
    let mut count = 0;
    for tree in &TREES {
        for pages in sizes.clone() {
            for seed in 0..2 {
                let Some(life) = Life::new(*tree, pages, seed + 2 * u64::from(pages), end) else { continue };
                body(life);
                count += 1;
            }
        }
    }
    count
}

#[test]
fn a_power_off_on_a_full_store_loses_nothing() {
    let lived = lives([40, 93, 170].into_iter(), End::PowerLost, |mut life| {
        life.fill();
        let synced = life.sync();
        life.must("sync", synced);
        life.remount();
        life.assert_holds();
        for _ in 0..40 {
            let removed = life.update(false);
            life.must("remove", removed);
        }
        life.assert_holds();
        life.remount();
        life.fill();
        life.assert_holds();
        while !life.now.is_empty() {
            let removed = life.update(false);
            life.must("remove", removed);
        }
        life.assert_holds();
    });
    assert!(lived > 60, "{lived}");
}

#[test]
fn a_full_store_is_worked_on_with_cuts_everywhere() {
    let mut all_refused = 0;
    let lived = lives([70, 130].into_iter(), End::PowerLost, |mut life| {
        life.fill();
        let mut refused = 0;
        for _ in 0..300 {
            let is_cut = life.rng.chance(1, 12);
            if is_cut {
                let writes = life.rng.below(30);
                life.store.live_for(Some(writes));
            }
            let is_put = life.rng.chance(3, 4);
            let done = match life.rng.below(30) {
                0 => life.sync(),
                1 if !is_cut => {
                    life.remount();
                    Ok(())
                }
                _ => life.update(is_put),
            };
            match done {
                Ok(()) => {}
                Err(IndexError::Full) if is_put => refused += 1,
                Err(error) if is_power_lost(&error) => {
                    life.store.live_for(None);
                    if life.rng.chance(1, 2) {
                        let writes = life.rng.below(6);
                        life.store.live_for(Some(writes));
                    }
                    life.remount();
                    life.store.live_for(None);
                }
                Err(error) => life.must("an update", Err(error)),
            }
        }
        life.store.live_for(None);
        all_refused += refused;
        life.remount();
        life.assert_holds();
    });
    assert!(lived > 50 && all_refused > 500, "{lived} {all_refused}");
}

#[test]
fn a_store_that_takes_no_more_writes_is_read_for_ever() {
    for end in [End::WornOut, End::Full] {
        let lived = lives([60, 110, 200].into_iter(), end, |mut life| {
            let writes = life.rng.below(600);
            life.store.live_for(Some(writes));
            let (mut refused, mut after) = (0, 0);
            for step in 0..2_500 {
                let done = match (step % 23, life.rng.chance(3, 4)) {
                    (0, _) => life.sync(),
                    (_, is_put) => life.update(is_put),
                };
                match done {
                    Ok(()) => {}
                    Err(error) if error.is_refusal() => refused += 1,
                    Err(error) => life.must("an update", Err(error)),
                }
                if life.store.is_dead() {
                    after += 1;
                    if after % 10 == 1 {
                        life.assert_holds();
                    }
                    if after == 40 {
                        break;
                    }
                }
            }
            if !life.store.is_dead() {
                return;
            }
            assert!(refused > 0, "{}", life.name);
            let _ = life.index().sync();
            life.remount();
            life.assert_holds();
            let done = life.update(true);
            assert!(done.is_ok() || done.is_err_and(|error| error.is_refusal()), "{}", life.name);
            life.assert_holds();
            // With writes again everything goes on.
            life.remount();
            life.store.live_for(None);
            life.remount();
            for _ in 0..30 {
                let is_put = life.rng.chance(1, 2);
                let done = life.update(is_put);
                assert!(done == Ok(()) || done == Err(IndexError::Full) && is_put, "{}: {done:?}", life.name);
            }
            life.assert_holds();
        });
        assert!(lived > 60, "{lived}");
    }
}

//! The changes of an index since its last sync, and the states that a power cut may leave.

use super::model::{Mix, Model, Op};
use crate::check::IndexError;
use crate::ordered::OrderedIndex;
use crate::rng::Rng;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// Key and its new value; `None` if the key was removed.
type Update = (Vec<u8>, Option<Vec<u8>>);

/// The contents of an index at the last sync, and every update since.
#[derive(Clone, Debug)]
pub struct History {
    synced: Model,
    updates: Vec<Update>,
    acknowledged: usize,
    now: Model,
}

fn change(model: &mut Model, (key, value): &Update) -> Option<Vec<u8>> {
    match value {
        Some(value) => model.insert(key.clone(), value.clone()),
        None => model.remove(key),
    }
}

impl History {
    /// Returns a history that begins with a sync.
    pub fn new(state: Model) -> History {
        History { synced: state.clone(), updates: Vec::new(), acknowledged: 0, now: state }
    }

    /// Contents with all updates, including one in flight.
    pub fn now(&self) -> &Model {
        &self.now
    }

    /// Contents at the last sync.
    pub fn synced(&self) -> &Model {
        &self.synced
    }

    /// Number of updates since the last sync that were acknowledged.
    pub fn acknowledged(&self) -> usize {
        self.acknowledged
    }

    /// Key of the update in flight: the one that failed with unknown effect.
    pub fn in_flight(&self) -> Option<&[u8]> {
        self.updates[self.acknowledged..].last().map(|(key, _)| &key[..])
    }

    /// Notes a sync: all updates so far are permanent.
    pub fn sync(&mut self) {
        self.synced = self.now.clone();
        self.updates.clear();
        self.acknowledged = 0;
    }

    /// Does one operation with an index, and checks the result of an update. A refused update does not count;
    /// one that failed otherwise is in flight. Reads and remounts are left to the test.
    pub fn apply(&mut self, index: &mut dyn OrderedIndex, op: &Op) -> Result<(), IndexError> {
        let (update, done) = match op {
            Op::Insert(key, value) => ((key.clone(), Some(value.clone())), index.insert(key, value)),
            Op::Remove(key) => ((key.clone(), None), index.remove(key)),
            Op::Sync => {
                index.sync()?;
                self.sync();
                return Ok(());
            }
            Op::Get(_) | Op::Range(..) | Op::Remount => return Ok(()),
        };
        if done.as_ref().is_err_and(IndexError::is_refusal) {
            return done.map(drop);
        }
        let is_there = self.now.contains_key(&update.0);
        self.push(update);
        done.map(|existed| {
            assert_eq!(existed, is_there, "{op:?}");
            self.acknowledged = self.updates.len();
        })
    }

    /// Notes an operation that was done.
    pub fn note(&mut self, op: &Op) {
        match op {
            Op::Insert(key, value) => self.push((key.clone(), Some(value.clone()))),
            Op::Remove(key) => self.push((key.clone(), None)),
            Op::Sync => self.sync(),
            Op::Get(_) | Op::Range(..) | Op::Remount => {}
        }
        self.acknowledged = self.updates.len();
    }

    fn push(&mut self, update: Update) {
        change(&mut self.now, &update);
        self.updates.push(update);
    }

    /// Does random operations until one fails. Returns its error.
    pub fn work(&mut self, index: &mut dyn OrderedIndex, rng: &mut Rng, mix: Mix) -> IndexError {
        let record = index.record();
        loop {
            if let Err(error) = self.apply(index, &mix.draw(rng, record)) {
                return error;
            }
        }
    }

    /// Returns true if the index had these contents after `from` or more updates since the last sync,
    /// including one in flight.
    pub fn had(&self, found: &Model, from: usize) -> bool {
        let mut state = self.synced.clone();
        let differs = |state: &Model, key: &Vec<u8>| state.get(key) != found.get(key);
        let mut differing = self.synced.keys().chain(found.keys()).collect::<BTreeSet<_>>();
        differing.retain(|key| differs(&self.synced, key));
        if from == 0 && differing.is_empty() {
            return true;
        }
        for (done, update) in (1..).zip(&self.updates) {
            change(&mut state, update);
            if differs(&state, &update.0) {
                differing.insert(&update.0);
            } else {
                differing.remove(&update.0);
            }
            if done >= from && differing.is_empty() {
                return true;
            }
        }
        false
    }

    /// Asserts that each key has its value at the last sync, or a value of an update since.
    pub fn assert_each_key(&self, found: &Model) {
        let updates: BTreeSet<_> = self.updates.iter().map(|(key, value)| (key, value.as_ref())).collect();
        let keys = self.synced.keys().chain(self.now.keys()).chain(self.updates.iter().map(|(key, _)| key));
        for key in keys.chain(found.keys()) {
            let value = found.get(key);
            assert!(value == self.synced.get(key) || updates.contains(&(key, value)), "{key:?}: {value:?}");
        }
    }
}

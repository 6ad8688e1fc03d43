//! The changes of an index since its last sync, and what of them a power cut may leave.

use super::model::{Mix, Model, Op};
use crate::check::IndexError;
use crate::ordered::OrderedIndex;
use crate::rng::Rng;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// A key, and the value that it was given; none where it was removed.
type Update = (Vec<u8>, Option<Vec<u8>>);

/// The contents at the last sync, and every update since.
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
    /// A history that begins with a sync.
    pub fn new(state: Model) -> History {
        History { synced: state.clone(), updates: Vec::new(), acknowledged: 0, now: state }
    }

    /// The contents with all updates, those in flight among them.
    pub fn now(&self) -> &Model {
        &self.now
    }

    /// The contents at the last sync.
    pub fn synced(&self) -> &Model {
        &self.synced
    }

    /// How many updates since the last sync were acknowledged.
    pub fn acknowledged(&self) -> usize {
        self.acknowledged
    }

    /// The key of the update in flight.
    pub fn in_flight(&self) -> Option<&[u8]> {
        self.updates[self.acknowledged..].last().map(|(key, _)| &key[..])
    }

    /// Everything so far is there for good.
    pub fn sync(&mut self) {
        self.synced = self.now.clone();
        self.updates.clear();
        self.acknowledged = 0;
    }

    /// Does one operation with an index. A refused update did not take place; one that failed otherwise is
    /// in flight. What an update answers must be right; reads and remounts are left to the test.
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

    /// An operation was done.
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

    /// Works until an operation fails.
    pub fn work(&mut self, index: &mut dyn OrderedIndex, rng: &mut Rng, mix: Mix) -> IndexError {
        let record = index.record();
        loop {
            if let Err(error) = self.apply(index, &mix.draw(rng, record)) {
                return error;
            }
        }
    }

    /// Whether the index had these contents after so many updates or more since the last sync, those in
    /// flight among them.
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

    /// Asserts that each key is as at the last sync, or as an update since left it.
    pub fn assert_each_key(&self, found: &Model) {
        let updates: BTreeSet<_> = self.updates.iter().map(|(key, value)| (key, value.as_ref())).collect();
        let keys = self.synced.keys().chain(self.now.keys()).chain(self.updates.iter().map(|(key, _)| key));
        for key in keys.chain(found.keys()) {
            let value = found.get(key);
            assert!(value == self.synced.get(key) || updates.contains(&(key, value)), "{key:?}: {value:?}");
        }
    }
}

//! The contents that an index must have: a map, and after a cut one of the states since the last durable one.

use super::kinds::{Chip, Kind};
use nandex::IndexError;
use nandex::ordered::{Direction, Durability, OrderedIndex};
use nandex::rng::Rng;
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

pub(crate) type Key = [u8; 4];
pub(crate) type Value = [u8; 28];
pub(crate) type Map = BTreeMap<Key, Value>;

/// One change.
pub(crate) type Change = (Key, Option<Value>);

/// A map that knows which of its states a cut may bring back.
#[derive(Clone, Default)]
pub(crate) struct Model {
    pub(crate) now: Map,
    durable: Map,
    since: Vec<Change>,
}

fn apply(map: &mut Map, (key, value): &Change) {
    match value {
        Some(value) => map.insert(*key, *value),
        None => map.remove(key),
    };
}

impl Model {
    /// A change was acknowledged.
    pub(crate) fn done(&mut self, change: Change, durability: Durability) {
        apply(&mut self.now, &change);
        self.since.push(change);
        if durability == Durability::EveryOperation {
            self.synced();
        }
    }

    /// All so far is durable.
    pub(crate) fn synced(&mut self) {
        for change in self.since.drain(..) {
            apply(&mut self.durable, &change);
        }
    }

    /// Takes what an index holds after a cut for the truth, if it may be; `under_way` is the change that was
    /// cut.
    pub(crate) fn accept(&mut self, found: &Map, under_way: Option<Change>) -> bool {
        let mut state = self.durable.clone();
        let mut accepted = state == *found;
        for change in self.since.drain(..).chain(under_way) {
            if accepted {
                break;
            }
            apply(&mut state, &change);
            accepted = state == *found;
        }
        (self.now, self.durable) = (found.clone(), found.clone());
        accepted
    }

    /// A key that is there.
    pub(crate) fn any_key(&self, rng: &mut Rng) -> Option<Key> {
        let start = (rng.next_u64() as u32).to_be_bytes();
        self.now.range(start..).next().or(self.now.iter().next()).map(|(key, _)| *key)
    }
}

/// All records of an index, by a scan in one direction.
pub(crate) fn contents(index: &mut dyn OrderedIndex, direction: Direction) -> Result<Map, IndexError> {
    let mut all = Map::new();
    index.range(Bound::Unbounded, Bound::Unbounded, direction, &mut |k, v| {
        all.insert(k.try_into().unwrap(), v.try_into().unwrap());
        ControlFlow::Continue(())
    })?;
    Ok(all)
}

/// Mounts what is on the chip and reads all of it.
pub(crate) fn mount_and_read(kind: &Kind, chip: &Chip, when: &str) -> (Box<dyn OrderedIndex>, Map) {
    let name = kind.name;
    let mut index = kind.mount(chip).unwrap_or_else(|e| panic!("{name}: {when}: mount: {e}"));
    let report = index.check().unwrap_or_else(|e| panic!("{name}: {when}: check: {e}"));
    assert!(report.is_sound(), "{name}: {when}: {:?}", report.violations);
    let found = contents(&mut *index, Direction::Ascending).unwrap_or_else(|e| panic!("{name}: {when}: {e}"));
    assert_eq!(report.records, found.len() as u64, "{name}: {when}");
    (index, found)
}

//! The newest of several updates of each key, found in as little RAM as given.
//!
//! The records of a journal come in the order of writing, and only the last one of each key counts. With RAM
//! for all of them they are sorted once. With less RAM the journal is read in several *passes*. Each pass
//! keeps the smallest keys that no earlier pass kept. For example, for the updates `d1 b1 a1 c1 b2` and four
//! slots:
//!
//! ```text
//! pass 1   d1 b1 a1 c1 | full: sorted, and the larger half goes: a1 b1 | b2    keeps  a1 b2, up to b
//! pass 2   d1       c1                                                         keeps  c1 d1, all there is
//! ```
//!
//! A pass fills at least half of its slots with new keys, so there are at most as many passes as keys per
//! half of the slots.

use super::page::{change_of, put_record};
use alloc::vec;
use alloc::vec::Vec;
use nandex::ordered::RecordFormat;
use nandex::ordered::change::Change;
use nandex::sort;

/// Least number of slots.
const SLOTS_MIN: usize = 16;

/// The newest updates of some keys, each with the number of its record.
pub(in crate::ordered) struct Newest {
    record: RecordFormat,
    /// The records in the slots. `places` has their numbers.
    bytes: Vec<u8>,
    places: Vec<u32>,
    /// All slots. The first `used` of them are in use; after a pass these are sorted by key.
    order: Vec<u32>,
    used: usize,
    /// The largest key kept by the passes before this one.
    before: Option<Vec<u8>>,
    /// The largest key that this pass keeps. `None` if it keeps all keys.
    upto: Option<Vec<u8>>,
}

impl Newest {
    /// Makes slots for as many records as fit into the RAM, but no more than expected.
    pub(in crate::ordered) fn new(record: RecordFormat, ram_bytes: usize, expected: usize) -> Newest {
        let slots = (ram_bytes / Newest::slot_bytes(record)).min(expected).max(SLOTS_MIN);
        Newest {
            record,
            bytes: vec![0; slots * (1 + record.entry_bytes())],
            places: vec![0; slots],
            order: (0..slots as u32).collect(),
            used: 0,
            before: None,
            upto: None,
        }
    }

    const fn slot_bytes(record: RecordFormat) -> usize {
        1 + record.entry_bytes() + 2 * size_of::<u32>()
    }

    pub(in crate::ordered) fn restart(&mut self) {
        (self.used, self.before, self.upto) = (0, None, None);
    }

    /// Whether no further pass is needed, because this and all earlier passes together kept all keys.
    pub(in crate::ordered) fn is_last(&self) -> bool {
        self.upto.is_none()
    }

    /// Whether a single pass suffices, because this first one kept all keys.
    pub(in crate::ordered) fn is_only(&self) -> bool {
        self.upto.is_none() && self.before.is_none()
    }

    /// Begins the next pass. The pass before it must not have kept all keys.
    pub(in crate::ordered) fn next_pass(&mut self) {
        debug_assert!(!self.is_last(), "all keys were kept");
        self.before = self.upto.take();
        self.used = 0;
    }

    /// Shows the pass an update; `place` is the number of its record. Of two updates of a key, the one with
    /// the higher number is kept.
    pub(in crate::ordered) fn offer(&mut self, place: u32, change: Change<'_>) {
        if self.before.as_ref().is_some_and(|before| change.key <= &before[..]) {
            return;
        }
        if self.used == self.order.len() {
            self.keep(self.order.len() / 2);
        }
        if self.upto.as_ref().is_some_and(|upto| change.key > &upto[..]) {
            return;
        }
        let slot = self.order[self.used] as usize;
        let width = 1 + self.record.entry_bytes();
        put_record(self.record, &mut self.bytes[slot * width..][..width], change);
        self.places[slot] = place;
        self.used += 1;
    }

    /// Ends a pass and sorts its updates by key.
    pub(in crate::ordered) fn finish(&mut self) {
        self.keep(self.order.len());
    }

    /// Drops all but the newest update of each key, and all but the `most` smallest keys.
    fn keep(&mut self, most: usize) {
        let Newest { record, bytes, places, order, used, .. } = self;
        let width = 1 + record.entry_bytes();
        let key = |slot: u32| &bytes[slot as usize * width + 1..][..usize::from(record.key_bytes)];
        let place = |slot: u32| places[slot as usize];
        sort::unstable_by(&mut order[..*used], |&a, &b| key(a).cmp(key(b)).then(place(b).cmp(&place(a))));
        let mut kept = 0;
        for at in 0..*used {
            if kept == 0 || key(order[kept - 1]) != key(order[at]) {
                // What is dropped stays in the list, as a free slot.
                order.swap(kept, at);
                kept += 1;
            }
        }
        if kept > most {
            kept = most;
            self.upto = Some(key(order[kept - 1]).to_vec());
        }
        self.used = kept;
    }

    /// Keeps only the removals of a pass that has ended.
    pub(in crate::ordered) fn keep_removals(&mut self) {
        let mut kept = 0;
        for at in 0..self.used {
            if self.get(at).1.value.is_none() {
                self.order.swap(kept, at);
                kept += 1;
            }
        }
        self.used = kept;
    }

    pub(in crate::ordered) fn len(&self) -> usize {
        self.used
    }

    /// The `i`th update in the order of keys, and the number of its record.
    pub(in crate::ordered) fn get(&self, i: usize) -> (u32, Change<'_>) {
        debug_assert!(i < self.used, "update {i} of {}", self.used);
        let slot = self.order[i] as usize;
        let width = 1 + self.record.entry_bytes();
        (self.places[slot], change_of(self.record, &self.bytes[slot * width..][..width]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use nandex::rng::Rng;

    const RECORD: RecordFormat = RecordFormat::new(2, 1);

    type Update = ([u8; 2], Option<u8>);

    /// The updates kept by all passes, in order, and the number of passes.
    fn passes(updates: &[Update], slots: usize) -> (Vec<(u32, Update)>, usize) {
        let mut newest = Newest::new(RECORD, slots * Newest::slot_bytes(RECORD), updates.len());
        let (mut found, mut passes) = (Vec::new(), 0);
        loop {
            passes += 1;
            for (place, (key, value)) in updates.iter().enumerate() {
                let value = value.as_ref().map(core::slice::from_ref);
                newest.offer(place as u32, Change { key, value });
            }
            newest.finish();
            for i in 0..newest.len() {
                let (place, change) = newest.get(i);
                let key = [change.key[0], change.key[1]];
                found.push((place, (key, change.value.map(|value| value[0]))));
            }
            if newest.is_last() {
                assert_eq!(newest.is_only(), passes == 1);
                return (found, passes);
            }
            newest.next_pass();
        }
    }

    fn expected(updates: &[Update]) -> Vec<(u32, Update)> {
        let numbered = updates.iter().enumerate();
        let last: BTreeMap<[u8; 2], u32> = numbered.map(|(at, (key, _))| (*key, at as u32)).collect();
        last.into_values().map(|at| (at, updates[at as usize])).collect()
    }

    #[test]
    fn all_passes_together_keep_the_newest_of_each_key() {
        let mut rng = Rng::new(3);
        for round in 0..200u64 {
            let (count, keys) = (rng.below(400) as usize, 1 + rng.below(300));
            let mut updates: Vec<Update> = (0..count)
                .map(|_| {
                    let key = (rng.below(keys) as u16).to_be_bytes();
                    (key, (rng.below(3) > 0).then(|| rng.below(256) as u8))
                })
                .collect();
            match round % 4 {
                0 => updates.sort_by_key(|(key, _)| *key),
                1 => updates.sort_by_key(|(key, _)| core::cmp::Reverse(*key)),
                _ => {}
            }
            let wanted = expected(&updates);
            for slots in [16, 17, 40, 1_000] {
                let (found, passes) = passes(&updates, slots);
                assert_eq!(found, wanted, "round {round}, {slots} slots");
                let most = wanted.len().div_ceil(slots / 2).max(1);
                assert!(passes <= most, "round {round}: {passes} passes with {slots} slots");
            }
        }
    }

    #[test]
    fn a_sweep_can_begin_anew() {
        let updates: Vec<Update> = (0..40u8).rev().map(|key| ([0, key], Some(key))).collect();
        let mut newest = Newest::new(RECORD, 16 * Newest::slot_bytes(RECORD), updates.len());
        let offer_all = |newest: &mut Newest| {
            for (place, (key, value)) in updates.iter().enumerate() {
                newest.offer(place as u32, Change { key, value: value.as_ref().map(core::slice::from_ref) });
            }
            newest.finish();
        };
        offer_all(&mut newest);
        assert!(!newest.is_last() && newest.get(0).1.key == [0, 0]);
        newest.next_pass();
        offer_all(&mut newest);
        assert_ne!(newest.get(0).1.key, [0, 0]);
        newest.restart();
        offer_all(&mut newest);
        assert_eq!(newest.get(0).1.key, [0, 0]);
    }
}

//! The head: the newest records, in RAM, in key order.

use crate::ordered::buffered::Order;
use crate::ordered::messages::ground::Shape;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Ordering;
use nandex::ordered::Direction;

/// The kind of a slot without a record.
const NO_RECORD: u8 = 0;

/// The head: records in slots, and their order by key.
pub(super) struct Head {
    shape: Shape,
    bytes: Vec<u8>,
    order: Order,
    free: Vec<u32>,
    capacity: u32,
    /// End of the slots used since the head was last empty.
    used_end: u32,
}

impl Head {
    pub(super) fn new(shape: Shape, capacity: u32) -> Head {
        Head {
            shape,
            bytes: vec![0; capacity as usize * shape.bytes()],
            order: Order::new(capacity as usize),
            free: (0..capacity).rev().collect(),
            capacity,
            used_end: 0,
        }
    }

    pub(super) const fn record_bytes(shape: Shape) -> usize {
        shape.bytes() + Order::slot_bytes() + size_of::<u32>()
    }

    pub(super) fn len(&self) -> u32 {
        self.capacity - self.free.len() as u32
    }

    pub(super) fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    fn record(&self, slot: u32) -> &[u8] {
        debug_assert!(slot < self.capacity, "slot {slot} of a head of {}", self.capacity);
        let width = self.shape.bytes();
        &self.bytes[slot as usize * width..][..width]
    }

    fn key(&self, slot: u32) -> &[u8] {
        &self.record(slot)[1..=self.shape.key]
    }

    fn slot(&self, key: &[u8]) -> Option<u32> {
        self.order.find(|other| self.key(other).cmp(key))
    }

    pub(super) fn find(&self, key: &[u8]) -> Option<&[u8]> {
        self.slot(key).map(|slot| self.record(slot))
    }

    /// Adds a record, or replaces the older one of its key. There must be room.
    pub(super) fn put(&mut self, kind: u8, key: &[u8], value: &[u8]) {
        debug_assert!(
            key.len() == self.shape.key && value.len() <= self.shape.value,
            "a record of another size"
        );
        let slot = match self.slot(key) {
            Some(slot) => slot,
            None => {
                let Some(slot) = self.free.pop() else { unreachable!("a full head was to be merged") };
                let (bytes, shape) = (&self.bytes, self.shape);
                let width = shape.bytes();
                self.order.insert(slot, |other| bytes[other as usize * width + 1..][..shape.key].cmp(key));
                slot
            }
        };
        self.used_end = self.used_end.max(slot + 1);
        let (width, shape) = (self.shape.bytes(), self.shape);
        let record = &mut self.bytes[slot as usize * width..][..width];
        debug_assert!(kind != NO_RECORD, "a record without a kind");
        record.fill(0);
        record[0] = kind;
        record[1..=shape.key].copy_from_slice(key);
        record[1 + shape.key..][..value.len()].copy_from_slice(value);
        debug_assert!(
            self.find(key).is_some_and(|record| record[0] == kind),
            "a record is put and not found"
        );
    }

    pub(super) fn remove(&mut self, key: &[u8]) {
        if let Some(slot) = self.slot(key) {
            let (bytes, shape) = (&self.bytes, self.shape);
            let width = shape.bytes();
            self.order.remove(slot, |other| bytes[other as usize * width + 1..][..shape.key].cmp(key));
            self.bytes[slot as usize * width] = NO_RECORD;
            self.free.push(slot);
        }
    }

    pub(super) fn clear(&mut self) {
        self.order.clear();
        self.free.clear();
        self.free.extend((0..self.capacity).rev());
        let width = self.shape.bytes();
        (0..self.used_end as usize).for_each(|slot| self.bytes[slot * width] = NO_RECORD);
        self.used_end = 0;
        debug_assert_eq!(self.len(), 0, "a cleared head has records");
    }

    /// All records in the order of their slots, which needs no search.
    pub(super) fn records(&self) -> impl Iterator<Item = &[u8]> {
        let slots = (0..self.used_end).map(|slot| self.record(slot));
        slots.filter(|record| record[0] != NO_RECORD)
    }

    pub(super) fn ascending(&self) -> impl Iterator<Item = &[u8]> {
        let walk = self.order.walk(|_| Ordering::Greater, |a, b| self.key(a).cmp(self.key(b)));
        walk.map(|slot| self.record(slot))
    }

    /// The first record at or after a key in this direction. If `is_strict`, strictly after it.
    pub(super) fn from(&self, key: &[u8], is_strict: bool, direction: Direction) -> Option<&[u8]> {
        let place = |slot: u32, equal| match self.key(slot).cmp(key) {
            Ordering::Equal => equal,
            order => order,
        };
        let slot = match direction {
            Direction::Ascending if is_strict => self.order.next(|slot| place(slot, Ordering::Less)),
            Direction::Ascending => self.order.next(|slot| place(slot, Ordering::Greater)),
            Direction::Descending if is_strict => self.order.previous(|slot| place(slot, Ordering::Greater)),
            Direction::Descending => self.order.previous(|slot| place(slot, Ordering::Less)),
        };
        slot.map(|slot| self.record(slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ordered::messages::ground::{PUT, REMOVE};
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(crate::inputs::fixed(200))]

        #[test]
        fn a_head_is_a_sorted_map(ops in proptest::collection::vec((0..60u8, 0..12u8), 1..300)) {
            let shape = Shape { key: 1, value: 1 };
            let (mut head, mut model) = (Head::new(shape, 40), BTreeMap::new());
            for (key, what) in ops {
                match what {
                    0 => (head.clear(), model.clear()).0,
                    1..4 => {
                        head.remove(&[key]);
                        model.remove(&key);
                    }
                    _ if head.is_full() && !model.contains_key(&key) => {}
                    kind => {
                        let kind = if kind > 5 { PUT } else { REMOVE };
                        head.put(kind, &[key], &[what]);
                        model.insert(key, [kind, key, what]);
                    }
                }
                prop_assert!(head.ascending().eq(model.values().map(|record| &record[..])));
                let mut all: Vec<&[u8]> = head.records().collect();
                all.sort_unstable_by_key(|record| record[1]);
                prop_assert!(all.into_iter().eq(model.values().map(|record| &record[..])));
                prop_assert_eq!(head.len() as usize, model.len());
            }
        }
    }
}

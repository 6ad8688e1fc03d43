//! Table from pages to frames, or from any numbers to slots: an open-addressing hash table of fixed size and
//! fixed hashing.
//!
//! It uses linear probing; a removal shifts the following entries back, so that there are no tombstones. At
//! most half of the places are taken. Nothing iterates over the table, so its order never shows.

use alloc::vec;
use alloc::vec::Vec;

const EMPTY: (u32, u32) = (0, u32::MAX);

/// Table from numbers to slots, for example from logical pages to frames.
#[derive(Clone, Debug)]
pub struct SlotTable {
    /// Pairs of a number and its slot.
    places: Vec<(u32, u32)>,
    shift: u32,
}

impl SlotTable {
    /// Makes a table for this many slots.
    pub fn new(slots: usize) -> SlotTable {
        let places = SlotTable::places(slots);
        SlotTable { places: vec![EMPTY; places], shift: 64 - places.trailing_zeros() }
    }

    fn places(slots: usize) -> usize {
        (2 * slots).next_power_of_two().max(2)
    }

    /// Bytes of a table for `slots` slots.
    pub(super) fn bytes_for(slots: usize) -> usize {
        SlotTable::places(slots) * size_of::<(u32, u32)>()
    }

    /// Place at which the search for a number starts (Fibonacci hashing).
    fn home(&self, key: u32) -> usize {
        (u64::from(key).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }

    fn next(&self, place: usize) -> usize {
        (place + 1) & (self.places.len() - 1)
    }

    /// Place of a key, or the empty place at which it would be inserted.
    fn find(&self, key: u32) -> usize {
        let mut place = self.home(key);
        while self.places[place] != EMPTY && self.places[place].0 != key {
            place = self.next(place);
        }
        place
    }

    /// Returns the slot that the table holds for a number.
    pub fn get(&self, key: u32) -> Option<u32> {
        let (_, slot) = self.places[self.find(key)];
        (slot != EMPTY.1).then_some(slot)
    }

    /// Enters a number with its slot. The number must not be in the table.
    pub fn insert(&mut self, key: u32, slot: u32) {
        let place = self.find(key);
        assert!(self.places[place] == EMPTY, "{key} has a slot already");
        self.places[place] = (key, slot);
        debug_assert!(slot != EMPTY.1 && self.get(key) == Some(slot), "{key} is not found");
    }

    /// Removes a number, which must be in the table.
    pub fn remove(&mut self, key: u32) {
        let mut hole = self.find(key);
        assert!(self.places[hole] != EMPTY, "{key} has no slot");
        let mut place = hole;
        loop {
            place = self.next(place);
            let (other, slot) = self.places[place];
            if (other, slot) == EMPTY {
                break;
            }
            // An entry may fill the hole unless its home lies, cyclically, behind the hole and not behind its
            // place.
            let mask = self.places.len() - 1;
            let from_home = place.wrapping_sub(self.home(other)) & mask;
            if from_home >= (place.wrapping_sub(hole) & mask) {
                self.places[hole] = (other, slot);
                hole = place;
            }
        }
        self.places[hole] = EMPTY;
        debug_assert!(self.get(key).is_none(), "{key} is still there");
    }

    /// Bytes of RAM held.
    pub fn ram_bytes(&self) -> usize {
        self.places.len() * size_of::<(u32, u32)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use alloc::collections::BTreeMap;

    #[test]
    fn it_is_a_map() {
        let mut rng = Rng::new(4);
        for frames in [1usize, 2, 3, 7, 64] {
            let mut table = SlotTable::new(frames);
            let mut model: BTreeMap<u32, u32> = BTreeMap::new();
            for step in 0..20_000u32 {
                let lpn = rng.below(3 * frames as u64) as u32 * 0x0100_0001;
                if model.remove(&lpn).is_some() {
                    table.remove(lpn);
                } else if model.len() < frames {
                    model.insert(lpn, step);
                    table.insert(lpn, step);
                }
                for other in (0..3 * frames as u32).map(|i| i * 0x0100_0001) {
                    assert_eq!(table.get(other), model.get(&other).copied());
                }
            }
        }
    }
}

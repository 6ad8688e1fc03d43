//! Which frame holds which page: an open-addressing hash table of fixed size and fixed hashing.
//!
//! Linear probing; a removal shifts what follows back, so that there are no tombstones. At most half of the places are
//! taken. Nothing iterates over it, so its order never shows.

use crate::units::Lpn;
use alloc::vec;
use alloc::vec::Vec;

const EMPTY: (u32, u32) = (0, u32::MAX);

/// Frames by logical page.
#[derive(Clone, Debug)]
pub(super) struct FrameTable {
    /// Page and frame.
    places: Vec<(u32, u32)>,
    shift: u32,
}

impl FrameTable {
    /// A table for this many frames.
    pub(super) fn new(frames: usize) -> FrameTable {
        let places = (2 * frames).next_power_of_two().max(2);
        FrameTable { places: vec![EMPTY; places], shift: 64 - places.trailing_zeros() }
    }

    /// Where the search for a page starts (Fibonacci hashing).
    fn home(&self, lpn: u32) -> usize {
        (u64::from(lpn).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }

    fn next(&self, place: usize) -> usize {
        (place + 1) & (self.places.len() - 1)
    }

    /// The place of a page, or the empty one where it belongs.
    fn find(&self, lpn: u32) -> usize {
        let mut place = self.home(lpn);
        while self.places[place] != EMPTY && self.places[place].0 != lpn {
            place = self.next(place);
        }
        place
    }

    /// The frame of a page.
    pub(super) fn get(&self, lpn: Lpn) -> Option<u32> {
        let (_, frame) = self.places[self.find(lpn.0)];
        (frame != EMPTY.1).then_some(frame)
    }

    pub(super) fn insert(&mut self, lpn: Lpn, frame: u32) {
        let place = self.find(lpn.0);
        assert!(self.places[place] == EMPTY, "{lpn} has a frame already");
        self.places[place] = (lpn.0, frame);
    }

    pub(super) fn remove(&mut self, lpn: Lpn) {
        let mut hole = self.find(lpn.0);
        assert!(self.places[hole] != EMPTY, "{lpn} has no frame");
        let mut place = hole;
        loop {
            place = self.next(place);
            let (other, frame) = self.places[place];
            if (other, frame) == EMPTY {
                break;
            }
            // An entry may fill the hole unless its home lies after the hole, cyclically, and up to its place.
            let mask = self.places.len() - 1;
            let from_home = place.wrapping_sub(self.home(other)) & mask;
            if from_home >= (place.wrapping_sub(hole) & mask) {
                self.places[hole] = (other, frame);
                hole = place;
            }
        }
        self.places[hole] = EMPTY;
    }

    pub(super) fn ram_bytes(&self) -> usize {
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
            let mut table = FrameTable::new(frames);
            let mut model: BTreeMap<u32, u32> = BTreeMap::new();
            for step in 0..20_000u32 {
                let lpn = rng.below(3 * frames as u64) as u32 * 0x0100_0001;
                if model.remove(&lpn).is_some() {
                    table.remove(Lpn(lpn));
                } else if model.len() < frames {
                    model.insert(lpn, step);
                    table.insert(Lpn(lpn), step);
                }
                for other in (0..3 * frames as u32).map(|i| i * 0x0100_0001) {
                    assert_eq!(table.get(Lpn(other)), model.get(&other).copied());
                }
            }
        }
    }
}

//! Order of least recent use over frames by number, and the policy that evicts the least recently used page.

use super::{Access, Exit, Replacement};
use alloc::vec;
use alloc::vec::Vec;

const NONE: u32 = u32::MAX;

/// Doubly linked list of frames, the most recently used one first. All operations take constant time.
#[derive(Clone, Debug)]
pub struct LruList {
    links: Vec<(u32, u32)>,
    first: u32,
    last: u32,
}

impl LruList {
    /// Makes an empty list over frames `0..frames`.
    pub fn new(frames: usize) -> LruList {
        LruList { links: vec![(NONE, NONE); frames], first: NONE, last: NONE }
    }

    /// Puts a frame that is not in the list first.
    pub fn push(&mut self, frame: u32) {
        debug_assert!(self.first != frame && self.last != frame, "frame {frame} is in the list already");
        debug_assert!((self.first == NONE) == (self.last == NONE), "a list with one end");
        self.links[frame as usize] = (NONE, self.first);
        match self.first {
            NONE => self.last = frame,
            first => self.links[first as usize].0 = frame,
        }
        self.first = frame;
    }

    /// Removes a frame from the list.
    pub fn remove(&mut self, frame: u32) {
        let (before, after) = self.links[frame as usize];
        debug_assert!(before != NONE || self.first == frame, "frame {frame} is not in the list");
        debug_assert!(after != NONE || self.last == frame, "frame {frame} is not in the list");
        match before {
            NONE => self.first = after,
            before => self.links[before as usize].1 = after,
        }
        match after {
            NONE => self.last = before,
            after => self.links[after as usize].0 = before,
        }
    }

    /// Moves a frame of the list to the front.
    pub fn touch(&mut self, frame: u32) {
        if self.first != frame {
            self.remove(frame);
            self.push(frame);
        }
    }

    /// Least recently used frame.
    pub fn least(&self) -> Option<u32> {
        (self.last != NONE).then_some(self.last)
    }

    /// Bytes of RAM held outside of the struct.
    pub fn ram_bytes(&self) -> usize {
        self.links.len() * size_of::<(u32, u32)>()
    }
}

/// Policy that evicts the least recently used page, clean or dirty.
#[derive(Clone, Debug)]
pub struct Lru {
    order: LruList,
}

impl Lru {
    /// Makes the policy for this many frames.
    pub fn new(frames: usize) -> Lru {
        Lru { order: LruList::new(frames) }
    }
}

impl Replacement for Lru {
    fn name(&self) -> &'static str {
        "lru"
    }

    fn touch(&mut self, frame: u32, _: Access) {
        self.order.touch(frame);
    }

    fn admit(&mut self, frame: u32, _: Access) {
        self.order.push(frame);
    }

    fn cleaned(&mut self, _frame: u32) {}

    fn remove(&mut self, frame: u32, _: Exit) {
        self.order.remove(frame);
    }

    fn victim(&mut self) -> Option<u32> {
        self.order.least()
    }

    fn ram_bytes(&self) -> usize {
        size_of::<Lru>() + self.order.ram_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn the_list_keeps_the_order_of_use() {
        let mut list = LruList::new(8);
        let mut model: Vec<u32> = Vec::new();
        let mut rng = Rng::new(1);
        for _ in 0..10_000 {
            let frame = rng.below(8) as u32;
            match model.iter().position(|&f| f == frame) {
                None => {
                    list.push(frame);
                    model.push(frame);
                }
                Some(i) if rng.chance(1, 3) => {
                    list.remove(frame);
                    model.remove(i);
                }
                Some(i) => {
                    list.touch(frame);
                    model.remove(i);
                    model.push(frame);
                }
            }
            assert_eq!(list.least(), model.first().copied());
        }
    }
}

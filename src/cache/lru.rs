//! The order of least recent use, over frames by number.

use alloc::vec;
use alloc::vec::Vec;

const NONE: u32 = u32::MAX;

/// A doubly linked list of frames, the most recently used one first. All operations take constant time.
#[derive(Clone, Debug)]
pub struct LruList {
    links: Vec<(u32, u32)>,
    first: u32,
    last: u32,
}

impl LruList {
    /// An empty list over frames `0..frames`.
    pub fn new(frames: usize) -> LruList {
        LruList { links: vec![(NONE, NONE); frames], first: NONE, last: NONE }
    }

    /// Puts a frame that is not in the list first.
    pub fn push(&mut self, frame: u32) {
        self.links[frame as usize] = (NONE, self.first);
        match self.first {
            NONE => self.last = frame,
            first => self.links[first as usize].0 = frame,
        }
        self.first = frame;
    }

    /// Takes a frame out of the list.
    pub fn remove(&mut self, frame: u32) {
        let (before, after) = self.links[frame as usize];
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

    /// The least recently used frame.
    pub fn least(&self) -> Option<u32> {
        (self.last != NONE).then_some(self.last)
    }
}

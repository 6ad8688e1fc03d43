//! AD-LRU: a cold and a hot list, and in each the clean page that was not used for the longest time leaves
//! first.
//!
//! A page that comes is first of the cold list; a hit makes it first of the hot list. *Victim:* from the cold
//! list, if it holds more than a minimum (a tenth of the frames) or the hot one is empty; otherwise from the
//! hot list. In that list the least recently used clean page; if all are dirty, a second chance: the last
//! page is the victim if it had its chance, otherwise it has had it and moves to the front. A hit gives a new
//! chance. (P. Jin, Y. Ou, T. Haerder and Z. Li, "AD-LRU: an efficient buffer replacement algorithm for
//! flash-based databases", Data & Knowledge Engineering 72, 2012; checked against a public realisation.)
//!
//! A queue for the clean and one for the dirty pages of each list. A dirty page is passed over once per hit
//! at most, so an eviction takes constant time in the long run.

use super::use_queues::UseQueues;
use super::{Access, Exit, Replacement};
use alloc::vec;
use alloc::vec::Vec;

/// Number of the cold list. Each list is a pair of queues: `list` has its clean pages and `list + DIRTY` its
/// dirty ones.
const COLD: u32 = 0;
const HOT: u32 = 2;
const DIRTY: u32 = 1;

/// The AD-LRU policy: a cold and a hot list, clean pages first in both.
#[derive(Clone, Debug)]
pub struct AdLru {
    queues: UseQueues,
    had_chance: Vec<bool>,
    cold_frames_min: usize,
}

fn cold_frames_min(frames: usize) -> usize {
    frames / 10
}

impl AdLru {
    /// Makes the policy for `frames` frames.
    pub fn new(frames: usize) -> AdLru {
        AdLru {
            queues: UseQueues::new(frames, 4),
            had_chance: vec![false; frames],
            cold_frames_min: cold_frames_min(frames),
        }
    }

    fn len(&self, list: u32) -> usize {
        self.queues.len(list) + self.queues.len(list + DIRTY)
    }
}

impl Replacement for AdLru {
    fn name(&self) -> &'static str {
        "ad-lru"
    }

    fn touch(&mut self, frame: u32, access: Access) {
        self.had_chance[frame as usize] = false;
        self.queues.touch(HOT + u32::from(access.dirty), frame);
    }

    fn admit(&mut self, frame: u32, access: Access) {
        self.had_chance[frame as usize] = false;
        self.queues.push(COLD + u32::from(access.dirty), frame);
    }

    fn cleaned(&mut self, frame: u32) {
        if let Some(queue) = self.queues.queue_of(frame) {
            self.queues.shift(queue & !DIRTY, frame);
        }
    }

    fn remove(&mut self, frame: u32, _: Exit) {
        self.queues.remove(frame);
    }

    fn victim(&mut self) -> Option<u32> {
        let from_cold = self.len(COLD) > self.cold_frames_min || self.len(HOT) == 0;
        let list = if from_cold { COLD } else { HOT };
        if let Some(frame) = self.queues.oldest(list) {
            return Some(frame);
        }
        loop {
            let frame = self.queues.oldest(list + DIRTY)?;
            if core::mem::replace(&mut self.had_chance[frame as usize], true) {
                return Some(frame);
            }
            self.queues.touch(list + DIRTY, frame);
        }
    }

    fn ram_bytes(&self) -> usize {
        size_of::<Self>() + self.queues.ram_bytes() + self.had_chance.len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Model, same_victims};
    use super::*;
    use alloc::boxed::Box;

    #[derive(Clone, Copy)]
    struct Page {
        frame: u32,
        dirty: bool,
        had_chance: bool,
    }

    /// Both lists begin with the page that leaves next.
    struct Two {
        cold: Vec<Page>,
        hot: Vec<Page>,
        frames: usize,
    }

    impl Model for Two {
        fn touch(&mut self, frame: u32, access: Access) {
            self.remove(frame, Exit::Evicted);
            self.hot.push(Page { frame, dirty: access.dirty, had_chance: false });
        }
        fn admit(&mut self, frame: u32, access: Access) {
            self.cold.push(Page { frame, dirty: access.dirty, had_chance: false });
        }
        fn cleaned(&mut self, frame: u32) {
            let pages = self.cold.iter_mut().chain(&mut self.hot);
            pages.filter(|p| p.frame == frame).for_each(|p| p.dirty = false);
        }
        fn remove(&mut self, frame: u32, _: Exit) {
            self.cold.retain(|p| p.frame != frame);
            self.hot.retain(|p| p.frame != frame);
        }
        fn victim(&mut self) -> Option<u32> {
            let from_cold = self.cold.len() > self.frames / 10 || self.hot.is_empty();
            let list = if from_cold { &mut self.cold } else { &mut self.hot };
            if let Some(page) = list.iter().find(|p| !p.dirty) {
                return Some(page.frame);
            }
            while !list.first()?.had_chance {
                let page = list.remove(0);
                list.push(Page { had_chance: true, ..page });
            }
            Some(list[0].frame)
        }
    }

    #[test]
    fn victims_are_those_of_the_rule() {
        same_victims(
            |s| Box::new(AdLru::new(s.frames)),
            |s| Box::new(Two { cold: Vec::new(), hot: Vec::new(), frames: s.frames }),
        );
    }
}

//! CLOCK: first in, first out, with a second chance for what was used meanwhile.
//!
//! Each page has a reference bit: 0 when it comes, 1 after a hit. *Victim:* the hand goes round the pages in
//! the order in which they came; it clears a bit that is set and goes on, and stops at the first page
//! without. The new page takes a place just behind the hand. (F. J. Corbato, "A Paging Experiment with the
//! Multics System", 1968; the textbooks.)
//!
//! The ring is a list: its end is under the hand, and a page with a second chance goes to its front. A bit is
//! cleared once per hit at most, so an eviction takes constant time in the long run.

use super::lists::Lists;
use super::{Access, Exit, Replacement};
use alloc::vec;
use alloc::vec::Vec;

/// The CLOCK policy: first in, first out, with a second chance for pages used since.
#[derive(Clone, Debug)]
pub struct Clock {
    ring: Lists,
    referenced: Vec<bool>,
}

impl Clock {
    /// Makes the policy for `frames` frames.
    pub fn new(frames: usize) -> Clock {
        Clock { ring: Lists::new(frames, 1), referenced: vec![false; frames] }
    }
}

impl Replacement for Clock {
    fn name(&self) -> &'static str {
        "clock"
    }

    fn touch(&mut self, frame: u32, _: Access) {
        self.referenced[frame as usize] = true;
    }

    fn admit(&mut self, frame: u32, _: Access) {
        self.referenced[frame as usize] = false;
        self.ring.push_first(0, frame);
    }

    fn cleaned(&mut self, _: u32) {}

    fn remove(&mut self, frame: u32, _: Exit) {
        self.ring.remove(frame);
    }

    fn victim(&mut self) -> Option<u32> {
        while let Some(frame) = self.ring.last(0) {
            if !core::mem::replace(&mut self.referenced[frame as usize], false) {
                return Some(frame);
            }
            self.ring.move_first(0, frame);
        }
        None
    }

    fn ram_bytes(&self) -> usize {
        size_of::<Self>() + self.ring.ram_bytes() + self.referenced.len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Model, same_victims};
    use super::*;
    use alloc::boxed::Box;

    /// A ring of frames with their reference bits. `hand` is an index into it.
    #[derive(Default)]
    struct Ring {
        pages: Vec<(u32, bool)>,
        hand: usize,
    }

    impl Model for Ring {
        fn touch(&mut self, frame: u32, _: Access) {
            self.pages.iter_mut().filter(|p| p.0 == frame).for_each(|p| p.1 = true);
        }
        fn admit(&mut self, frame: u32, _: Access) {
            self.pages.insert(self.hand, (frame, false));
            self.hand += 1;
        }
        fn remove(&mut self, frame: u32, _: Exit) {
            let at = self.pages.iter().position(|p| p.0 == frame).unwrap();
            self.pages.remove(at);
            self.hand -= usize::from(at < self.hand);
        }
        fn victim(&mut self) -> Option<u32> {
            if self.pages.is_empty() {
                return None;
            }
            loop {
                self.hand %= self.pages.len();
                let (frame, referenced) = &mut self.pages[self.hand];
                if !*referenced {
                    return Some(*frame);
                }
                *referenced = false;
                self.hand += 1;
            }
        }
    }

    #[test]
    fn victims_are_those_of_the_rule() {
        same_victims(|s| Box::new(Clock::new(s.frames)), |_| Box::new(Ring::default()));
    }
}

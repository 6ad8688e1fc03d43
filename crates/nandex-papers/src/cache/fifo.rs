//! FIFO: the page that came first leaves first.
//!
//! *Victim:* the page admitted the longest time ago, clean or dirty. A hit changes nothing. The baseline of
//! the textbooks.

use super::lists::Lists;
use super::{Access, Exit, Replacement};

/// The FIFO policy: first in, first out.
#[derive(Clone, Debug)]
pub struct Fifo {
    order: Lists,
}

impl Fifo {
    /// Makes the policy for `frames` frames.
    pub fn new(frames: usize) -> Fifo {
        Fifo { order: Lists::new(frames, 1) }
    }
}

impl Replacement for Fifo {
    fn name(&self) -> &'static str {
        "fifo"
    }

    fn touch(&mut self, _: u32, _: Access) {}

    fn admit(&mut self, frame: u32, _: Access) {
        self.order.push_first(0, frame);
    }

    fn cleaned(&mut self, _: u32) {}

    fn remove(&mut self, frame: u32, _: Exit) {
        self.order.remove(frame);
    }

    fn victim(&mut self) -> Option<u32> {
        self.order.last(0)
    }

    fn ram_bytes(&self) -> usize {
        size_of::<Self>() + self.order.ram_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Model, same_victims};
    use super::*;
    use alloc::boxed::Box;
    use alloc::vec::Vec;

    impl Model for Vec<u32> {
        fn touch(&mut self, _: u32, _: Access) {}
        fn admit(&mut self, frame: u32, _: Access) {
            self.push(frame);
        }
        fn remove(&mut self, frame: u32, _: Exit) {
            self.retain(|&other| other != frame);
        }
        fn victim(&mut self) -> Option<u32> {
            self.first().copied()
        }
    }

    #[test]
    fn victims_are_those_of_the_rule() {
        same_victims(|s| Box::new(Fifo::new(s.frames)), |_| Box::new(Vec::new()));
    }
}

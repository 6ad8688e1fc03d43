//! LRU-WSR: LRU in which a dirty page is passed over once before it must be written.
//!
//! Each page has a cold flag: clear when it comes and after each hit. *Victim:* look at the least recently
//! used page. If it is clean, or dirty and cold, it is the victim. If it is dirty and not cold, it becomes
//! cold and most recently used, and the next one is looked at. (H. Jung, H. Shim, S. Park, S. Kang and J.
//! Cha, "LRU-WSR: integration of LRU and writes sequence reordering for flash memory", IEEE Transactions on
//! Consumer Electronics 54(3), 2008; checked against a public realisation.)
//!
//! A page is passed over once per hit at most, so an eviction takes constant time in the long run. With reads
//! only it is LRU.

use super::lists::Lists;
use super::{Access, Exit, Replacement};
use alloc::vec;
use alloc::vec::Vec;

#[derive(Clone, Copy, Debug, Default)]
struct Flags {
    dirty: bool,
    cold: bool,
}

/// The LRU-WSR policy: LRU with writes sequence reordering.
#[derive(Clone, Debug)]
pub struct LruWsr {
    order: Lists,
    flags: Vec<Flags>,
}

impl LruWsr {
    /// Makes the policy for `frames` frames.
    pub fn new(frames: usize) -> LruWsr {
        LruWsr { order: Lists::new(frames, 1), flags: vec![Flags::default(); frames] }
    }
}

impl Replacement for LruWsr {
    fn name(&self) -> &'static str {
        "lru-wsr"
    }

    fn touch(&mut self, frame: u32, access: Access) {
        self.flags[frame as usize] = Flags { dirty: access.dirty, cold: false };
        self.order.move_first(0, frame);
    }

    fn admit(&mut self, frame: u32, access: Access) {
        self.flags[frame as usize] = Flags { dirty: access.dirty, cold: false };
        self.order.push_first(0, frame);
    }

    fn cleaned(&mut self, frame: u32) {
        self.flags[frame as usize].dirty = false;
    }

    fn remove(&mut self, frame: u32, _: Exit) {
        self.order.remove(frame);
    }

    fn victim(&mut self) -> Option<u32> {
        while let Some(frame) = self.order.last(0) {
            let flags = &mut self.flags[frame as usize];
            if !flags.dirty || flags.cold {
                return Some(frame);
            }
            flags.cold = true;
            self.order.move_first(0, frame);
        }
        None
    }

    fn ram_bytes(&self) -> usize {
        size_of::<Self>() + self.order.ram_bytes() + self.flags.len() * size_of::<Flags>()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Model, same_victims};
    use super::*;
    use alloc::boxed::Box;

    /// Frame, dirty flag and cold flag. The least recently used page comes first.
    #[derive(Default)]
    struct Order(Vec<(u32, bool, bool)>);

    impl Model for Order {
        fn touch(&mut self, frame: u32, access: Access) {
            self.remove(frame, Exit::Evicted);
            self.admit(frame, access);
        }
        fn admit(&mut self, frame: u32, access: Access) {
            self.0.push((frame, access.dirty, false));
        }
        fn cleaned(&mut self, frame: u32) {
            self.0.iter_mut().filter(|p| p.0 == frame).for_each(|p| p.1 = false);
        }
        fn remove(&mut self, frame: u32, _: Exit) {
            self.0.retain(|p| p.0 != frame);
        }
        fn victim(&mut self) -> Option<u32> {
            for _ in 0..=self.0.len() {
                let &(frame, dirty, cold) = self.0.first()?;
                if !dirty || cold {
                    return Some(frame);
                }
                self.0.remove(0);
                self.0.push((frame, true, true));
            }
            unreachable!("after one round all are cold")
        }
    }

    #[test]
    fn victims_are_those_of_the_rule() {
        same_victims(|s| Box::new(LruWsr::new(s.frames)), |_| Box::<Order>::default());
    }
}

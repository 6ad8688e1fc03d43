//! CCF-LRU: cold clean pages leave first, then dirty ones that proved cold.
//!
//! Two lists: cold clean pages, and a mixed one of dirty and hot clean pages. A page that comes clean is cold
//! and enters the clean list; one that comes dirty enters the mixed list, not cold. A hit in either list
//! makes it first of the mixed one and not cold.
//!
//! *Victim:* the last of the clean list, if it has any. Otherwise look at the last of the mixed list: if it
//! is cold, it is the victim, clean or dirty; if it is clean and not cold, it becomes cold and moves to the
//! front of the clean list; if it is dirty and not cold, it becomes cold and moves to the front of the mixed
//! list. Then look again from the start. (Z. Li, P. Jin, X. Su, K. Cui and L. Yue, "CCF-LRU: a new buffer
//! replacement algorithm for flash memory", IEEE Transactions on Consumer Electronics 55(3), 2009; checked
//! against a public realisation. That one goes on through the mixed list after it has moved a clean page; we
//! take the clean page at once, which is our reading.)

use super::lists::Lists;
use super::{Access, Exit, Replacement};
use alloc::vec;
use alloc::vec::Vec;

const CLEAN: u32 = 0;
const MIXED: u32 = 1;

#[derive(Clone, Copy, Debug, Default)]
struct Flags {
    dirty: bool,
    cold: bool,
}

/// The CCF-LRU policy: cold clean pages leave first.
#[derive(Clone, Debug)]
pub struct CcfLru {
    lists: Lists,
    flags: Vec<Flags>,
}

impl CcfLru {
    /// Makes the policy for `frames` frames.
    pub fn new(frames: usize) -> CcfLru {
        CcfLru { lists: Lists::new(frames, 2), flags: vec![Flags::default(); frames] }
    }
}

impl Replacement for CcfLru {
    fn name(&self) -> &'static str {
        "ccf-lru"
    }

    fn touch(&mut self, frame: u32, access: Access) {
        self.flags[frame as usize] = Flags { dirty: access.dirty, cold: false };
        self.lists.move_first(MIXED, frame);
    }

    fn admit(&mut self, frame: u32, access: Access) {
        let dirty = access.dirty;
        self.flags[frame as usize] = Flags { dirty, cold: !dirty };
        self.lists.push_first(if dirty { MIXED } else { CLEAN }, frame);
    }

    fn cleaned(&mut self, frame: u32) {
        self.flags[frame as usize].dirty = false;
    }

    fn remove(&mut self, frame: u32, _: Exit) {
        self.lists.remove(frame);
    }

    fn victim(&mut self) -> Option<u32> {
        loop {
            if let Some(frame) = self.lists.last(CLEAN) {
                return Some(frame);
            }
            let frame = self.lists.last(MIXED)?;
            let flags = &mut self.flags[frame as usize];
            if core::mem::replace(&mut flags.cold, true) {
                return Some(frame);
            }
            self.lists.move_first(if flags.dirty { MIXED } else { CLEAN }, frame);
        }
    }

    fn ram_bytes(&self) -> usize {
        size_of::<Self>() + self.lists.ram_bytes() + self.flags.len() * size_of::<Flags>()
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
        cold: bool,
    }

    /// Both lists begin with the page that leaves next.
    #[derive(Default)]
    struct Two {
        clean: Vec<Page>,
        mixed: Vec<Page>,
    }

    impl Model for Two {
        fn touch(&mut self, frame: u32, access: Access) {
            self.remove(frame, Exit::Evicted);
            self.mixed.push(Page { frame, dirty: access.dirty, cold: false });
        }
        fn admit(&mut self, frame: u32, access: Access) {
            match access.dirty {
                false => self.clean.push(Page { frame, dirty: false, cold: true }),
                true => self.mixed.push(Page { frame, dirty: true, cold: false }),
            }
        }
        fn cleaned(&mut self, frame: u32) {
            self.mixed.iter_mut().filter(|p| p.frame == frame).for_each(|p| p.dirty = false);
        }
        fn remove(&mut self, frame: u32, _: Exit) {
            self.clean.retain(|p| p.frame != frame);
            self.mixed.retain(|p| p.frame != frame);
        }
        fn victim(&mut self) -> Option<u32> {
            if let Some(page) = self.clean.first() {
                return Some(page.frame);
            }
            let page = *self.mixed.first()?;
            if page.cold {
                return Some(page.frame);
            }
            self.mixed.remove(0);
            let to = if page.dirty { &mut self.mixed } else { &mut self.clean };
            to.push(Page { cold: true, ..page });
            self.victim()
        }
    }

    #[test]
    fn victims_are_those_of_the_rule() {
        same_victims(|s| Box::new(CcfLru::new(s.frames)), |_| Box::<Two>::default());
    }
}

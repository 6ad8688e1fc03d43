//! LSF, our reading: pages of long sequential runs leave first.
//!
//! Known from one sentence of the LS-LRU paper: "long sequential accessed pages first" tries to keep pages
//! that are used often, such as metadata, by letting sequentially accessed ones go.
//!
//! Ours: accesses to pages n, n + 1, n + 2 ... one after the other are a run, however they are answered. Once
//! a run is 16 pages long, the pages that came in with it, and those that still do, belong to it. Every other
//! page is in LRU order, and so is a page of a run once it is used again.
//!
//! *Victim:* a page of the longest run of those that have pages, of several the one that started first; in it
//! the page that is clean the longest, otherwise the one that came first. Without runs, the least recently
//! used page.
//!
//! Runs are sorted by length in a tree: logarithmic in their number, where the rest takes constant time.

use super::lists::Lists;
use super::{Access, Exit, Replacement};
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// The list of the pages in LRU order. The lists of the runs follow, two for each: clean and dirty.
const ORDER: u32 = 0;
/// Pages from which on a run counts as long.
const LONG: u32 = 16;

#[derive(Clone, Copy, Debug)]
struct Run {
    len: u32,
    started: u64,
}

/// The LSF policy: pages of long sequential runs leave first.
#[derive(Clone, Debug)]
pub struct Lsf {
    lists: Lists,
    dirty: Vec<bool>,
    runs: Vec<Run>,
    unused: Vec<u32>,
    /// Long runs that have pages: length, start, slot.
    sorted: BTreeSet<(u32, Reverse<u64>, u32)>,
    /// The page that would continue the present run.
    next_lpn: u32,
    len: u32,
    accesses: u64,
    /// Slot of the present run once it is long. Until then `members` has the frames that came in with it.
    slot: Option<u32>,
    members: Vec<u32>,
}

fn list_of(slot: u32, dirty: bool) -> u32 {
    1 + 2 * slot + u32::from(dirty)
}

impl Lsf {
    /// Makes the policy for `frames` frames.
    pub fn new(frames: usize) -> Lsf {
        Lsf {
            lists: Lists::new(frames, 2 * frames + 3),
            dirty: vec![false; frames],
            runs: vec![Run { len: 0, started: 0 }; frames + 1],
            unused: (0..=frames as u32).rev().collect(),
            sorted: BTreeSet::new(),
            next_lpn: 0,
            len: 0,
            accesses: 0,
            slot: None,
            members: Vec::new(),
        }
    }

    fn key(&self, slot: u32) -> (u32, Reverse<u64>, u32) {
        let Run { len, started } = self.runs[slot as usize];
        (len, Reverse(started), slot)
    }

    fn is_empty(&self, slot: u32) -> bool {
        self.lists.len(list_of(slot, false)) + self.lists.len(list_of(slot, true)) == 0
    }

    /// Continues the present run with a page, or starts another run.
    fn follow(&mut self, lpn: u32) {
        self.accesses += 1;
        if self.len == 0 || lpn != self.next_lpn {
            self.end();
        }
        self.len = self.len.saturating_add(1);
        self.next_lpn = lpn.wrapping_add(1);
        if let Some(slot) = self.slot {
            let was_sorted = self.sorted.remove(&self.key(slot));
            self.runs[slot as usize].len = self.len;
            if was_sorted {
                self.sorted.insert(self.key(slot));
            }
        } else if self.len == LONG {
            self.become_long();
        }
    }

    fn become_long(&mut self) {
        debug_assert!(self.slot.is_none() && self.len >= LONG, "a run is long already, or not yet");
        let Some(slot) = self.unused.pop() else { return };
        self.slot = Some(slot);
        self.runs[slot as usize] = Run { len: self.len, started: self.accesses };
        for frame in core::mem::take(&mut self.members) {
            self.lists.remove(frame);
            self.join(slot, frame);
        }
    }

    fn end(&mut self) {
        self.len = 0;
        self.members.clear();
        if let Some(slot) = self.slot.take().filter(|&slot| self.is_empty(slot)) {
            self.unused.push(slot);
        }
    }

    fn join(&mut self, slot: u32, frame: u32) {
        debug_assert!(self.lists.list_of(frame).is_none(), "frame {frame} is in a list already");
        self.lists.push_first(list_of(slot, self.dirty[frame as usize]), frame);
        self.sorted.insert(self.key(slot));
    }

    /// Removes a page from the LRU order or from its run.
    fn leave(&mut self, frame: u32) {
        self.members.retain(|&other| other != frame);
        let list = self.lists.remove(frame);
        if list == ORDER {
            return;
        }
        let slot = (list - 1) / 2;
        if self.is_empty(slot) {
            self.sorted.remove(&self.key(slot));
            if self.slot != Some(slot) {
                self.unused.push(slot);
            }
        }
    }
}

impl Replacement for Lsf {
    fn name(&self) -> &'static str {
        "lsf"
    }

    fn touch(&mut self, frame: u32, access: Access) {
        self.leave(frame);
        self.follow(access.lpn.0);
        self.dirty[frame as usize] = access.dirty;
        self.lists.push_first(ORDER, frame);
    }

    fn admit(&mut self, frame: u32, access: Access) {
        self.follow(access.lpn.0);
        self.dirty[frame as usize] = access.dirty;
        match self.slot {
            Some(slot) => self.join(slot, frame),
            None => {
                self.members.push(frame);
                self.lists.push_first(ORDER, frame);
            }
        }
    }

    fn cleaned(&mut self, frame: u32) {
        self.dirty[frame as usize] = false;
        if let Some(list) = self.lists.list_of(frame).filter(|&list| list != ORDER) {
            self.lists.move_first(list_of((list - 1) / 2, false), frame);
        }
    }

    fn remove(&mut self, frame: u32, _: Exit) {
        self.leave(frame);
    }

    fn victim(&mut self) -> Option<u32> {
        let Some(&(_, _, slot)) = self.sorted.last() else { return self.lists.last(ORDER) };
        self.lists.last(list_of(slot, false)).or_else(|| self.lists.last(list_of(slot, true)))
    }

    fn ram_bytes(&self) -> usize {
        size_of::<Self>()
            + self.lists.ram_bytes()
            + self.dirty.len()
            + self.runs.len() * (size_of::<Run>() + size_of::<u32>())
            + self.runs.len() * size_of::<(u32, Reverse<u64>, u32)>() * 3 / 2
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
        /// The run that the page came in with. `None` once the page was used again.
        run: Option<usize>,
        /// Time when the page entered or was cleaned.
        at: u64,
    }

    /// `pages` begins with the least recently used page. `lens` has the length of every run so far.
    #[derive(Default)]
    struct Runs {
        pages: Vec<Page>,
        lens: Vec<u32>,
        last: Option<u32>,
        now: u64,
    }

    impl Runs {
        fn access(&mut self, lpn: u32) -> usize {
            self.now += 1;
            if self.last.is_none_or(|last| last + 1 != lpn) {
                self.lens.push(0);
            }
            self.last = Some(lpn);
            *self.lens.last_mut().unwrap() += 1;
            self.lens.len() - 1
        }
    }

    impl Model for Runs {
        fn touch(&mut self, frame: u32, access: Access) {
            self.access(access.lpn.0);
            self.pages.retain(|p| p.frame != frame);
            self.pages.push(Page { frame, dirty: access.dirty, run: None, at: self.now });
        }
        fn admit(&mut self, frame: u32, access: Access) {
            let run = Some(self.access(access.lpn.0));
            self.pages.push(Page { frame, dirty: access.dirty, run, at: self.now });
        }
        fn cleaned(&mut self, frame: u32) {
            self.now += 1;
            let long = |run: usize| self.lens[run] >= 16;
            for page in self.pages.iter_mut().filter(|p| p.frame == frame) {
                page.dirty = false;
                if page.run.is_some_and(long) {
                    page.at = self.now;
                }
            }
        }
        fn remove(&mut self, frame: u32, _: Exit) {
            self.pages.retain(|p| p.frame != frame);
        }
        fn victim(&mut self) -> Option<u32> {
            let long = |p: &&Page| p.run.is_some_and(|run| self.lens[run] >= 16);
            let longest = self.pages.iter().filter(long).filter_map(|p| p.run);
            let Some(run) = longest.min_by_key(|&run| (Reverse(self.lens[run]), run)) else {
                return self.pages.first().map(|p| p.frame);
            };
            let of_run = self.pages.iter().filter(|p| p.run == Some(run));
            of_run.min_by_key(|p| (p.dirty, p.at)).map(|p| p.frame)
        }
    }

    #[test]
    fn victims_are_those_of_the_rule() {
        same_victims(|s| Box::new(Lsf::new(s.frames)), |_| Box::<Runs>::default());
    }
}

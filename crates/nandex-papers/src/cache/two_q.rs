//! 2Q: a page must be asked for again after it has left the entrance queue before it counts as hot.
//!
//! New pages enter the queue A1in, first in first out, where a hit changes nothing. One that leaves it is
//! remembered in A1out by its number; when it comes back from there, it enters Am, which is LRU. A1in has a
//! quarter of the frames, A1out remembers half as many pages as there are frames.
//!
//! *Victim:* the oldest of A1in if that holds more than its quarter, or Am is empty; otherwise the least
//! recently used of Am. (T. Johnson and D. Shasha, VLDB 1994, "full version" with their constants; known
//! well.)

use super::ghosts::Ghosts;
use super::lists::Lists;
use super::{Access, Exit, Replacement};
use alloc::vec;
use alloc::vec::Vec;
use nandex::units::Lpn;

const IN: u32 = 0;
const MAIN: u32 = 1;

/// The 2Q policy: a queue for new pages, one for hot pages, and one of ghosts.
#[derive(Clone, Debug)]
pub struct TwoQ {
    lists: Lists,
    lpns: Vec<Lpn>,
    out: Ghosts,
    in_frames: usize,
}

fn in_frames(frames: usize) -> usize {
    (frames / 4).max(1)
}

fn out_pages(frames: usize) -> usize {
    (frames / 2).max(1)
}

impl TwoQ {
    /// Makes the policy for `frames` frames.
    pub fn new(frames: usize) -> TwoQ {
        TwoQ {
            lists: Lists::new(frames, 2),
            lpns: vec![Lpn(0); frames],
            out: Ghosts::new(out_pages(frames)),
            in_frames: in_frames(frames),
        }
    }
}

impl Replacement for TwoQ {
    fn name(&self) -> &'static str {
        "2q"
    }

    fn touch(&mut self, frame: u32, _: Access) {
        if self.lists.list_of(frame) == Some(MAIN) {
            self.lists.move_first(MAIN, frame);
        }
    }

    fn admit(&mut self, frame: u32, access: Access) {
        self.lpns[frame as usize] = access.lpn;
        let list = if self.out.forget(access.lpn) { MAIN } else { IN };
        self.lists.push_first(list, frame);
        self.out.trim();
    }

    fn cleaned(&mut self, _: u32) {}

    fn remove(&mut self, frame: u32, exit: Exit) {
        let list = self.lists.remove(frame);
        if list == IN && exit == Exit::Evicted {
            self.out.remember(self.lpns[frame as usize]);
        }
    }

    fn victim(&mut self) -> Option<u32> {
        let from_in = self.lists.len(IN) > self.in_frames || self.lists.len(MAIN) == 0;
        self.lists.last(if from_in { IN } else { MAIN })
    }

    fn ram_bytes(&self) -> usize {
        size_of::<Self>() + self.lists.ram_bytes() + self.lpns.len() * size_of::<Lpn>() + self.out.ram_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::super::ghosts::GhostModel;
    use super::super::tests::{Model, same_victims};
    use super::*;
    use alloc::boxed::Box;

    /// Model of the queues: frames and pages. The next page to be evicted comes first.
    struct Queues {
        a1_in: Vec<(u32, Lpn)>,
        a1_out: GhostModel,
        am: Vec<(u32, Lpn)>,
        frames: usize,
    }

    impl Model for Queues {
        fn touch(&mut self, frame: u32, access: Access) {
            if self.am.contains(&(frame, access.lpn)) {
                self.am.retain(|p| p.0 != frame);
                self.am.push((frame, access.lpn));
            }
        }
        fn admit(&mut self, frame: u32, access: Access) {
            let queue = if self.a1_out.forget(access.lpn) { &mut self.am } else { &mut self.a1_in };
            queue.push((frame, access.lpn));
            self.a1_out.trim();
        }
        fn remove(&mut self, frame: u32, exit: Exit) {
            if let Some(&(_, lpn)) = self.a1_in.iter().find(|p| p.0 == frame)
                && exit == Exit::Evicted
            {
                self.a1_out.remember(lpn);
            }
            self.a1_in.retain(|p| p.0 != frame);
            self.am.retain(|p| p.0 != frame);
        }
        fn victim(&mut self) -> Option<u32> {
            let over = self.a1_in.len() > in_frames(self.frames) || self.am.is_empty();
            if over { &self.a1_in } else { &self.am }.first().map(|p| p.0)
        }
    }

    #[test]
    fn victims_are_those_of_the_rule() {
        same_victims(
            |s| Box::new(TwoQ::new(s.frames)),
            |s| {
                let a1_out = GhostModel::new(out_pages(s.frames));
                Box::new(Queues { a1_in: Vec::new(), a1_out, am: Vec::new(), frames: s.frames })
            },
        );
    }
}

//! S3-FIFO: three queues, first in first out, and no move on a hit.
//!
//! New pages enter a small queue of a tenth of the frames; pages used there twice more move to the main
//! queue; the others leave and are remembered by number (nine tenths as many as there are frames). A page
//! that is remembered enters the main queue at once. Each page counts its hits.
//!
//! *Victim:* while the small queue holds more than its tenth, or the main queue is empty: its oldest page,
//! unless that was hit twice or more; then it moves to the main queue, with no hits. Otherwise the oldest
//! page of the main queue, unless it was hit; then it goes round again, with min(hits, 3) - 1 hits. (J. Yang,
//! Y. Zhang, Z. Qiu, Y. Yue and R. Vinayak, "FIFO queues are all you need for cache eviction", SOSP 2023;
//! constants as in the authors' public simulator.) Dirty pages are treated as clean ones.
//!
//! A page goes round once per hit at most, so an eviction takes constant time in the long run.

use super::ghosts::Ghosts;
use super::lists::Lists;
use super::{Access, Exit, Replacement};
use alloc::vec;
use alloc::vec::Vec;
use nandex::units::Lpn;

const SMALL: u32 = 0;
const MAIN: u32 = 1;
const PROMOTION_HITS: u8 = 2;
const HITS_MAX: u8 = 3;

#[derive(Clone, Copy, Debug)]
struct Page {
    lpn: Lpn,
    hits: u8,
}

/// The S3-FIFO policy: a small and a main queue, and a queue of ghosts.
#[derive(Clone, Debug)]
pub struct S3Fifo {
    queues: Lists,
    pages: Vec<Page>,
    ghosts: Ghosts,
    small_frames: usize,
}

fn small_frames(frames: usize) -> usize {
    (frames / 10).max(1)
}

fn ghost_pages(frames: usize) -> usize {
    frames * 9 / 10
}

impl S3Fifo {
    /// Makes the policy for `frames` frames.
    pub fn new(frames: usize) -> S3Fifo {
        S3Fifo {
            queues: Lists::new(frames, 2),
            pages: vec![Page { lpn: Lpn(0), hits: 0 }; frames],
            ghosts: Ghosts::new(ghost_pages(frames)),
            small_frames: small_frames(frames),
        }
    }
}

impl Replacement for S3Fifo {
    fn name(&self) -> &'static str {
        "s3-fifo"
    }

    fn touch(&mut self, frame: u32, _: Access) {
        let hits = &mut self.pages[frame as usize].hits;
        *hits = hits.saturating_add(1);
    }

    fn admit(&mut self, frame: u32, access: Access) {
        self.pages[frame as usize] = Page { lpn: access.lpn, hits: 0 };
        let queue = if self.ghosts.forget(access.lpn) { MAIN } else { SMALL };
        self.queues.push_first(queue, frame);
        self.ghosts.trim();
    }

    fn cleaned(&mut self, _: u32) {}

    fn remove(&mut self, frame: u32, exit: Exit) {
        let queue = self.queues.remove(frame);
        debug_assert!(queue == SMALL || queue == MAIN, "frame {frame} is in queue {queue}");
        if queue == SMALL && exit == Exit::Evicted {
            self.ghosts.remember(self.pages[frame as usize].lpn);
        }
    }

    fn victim(&mut self) -> Option<u32> {
        loop {
            let from_small = self.queues.len(SMALL) > self.small_frames || self.queues.len(MAIN) == 0;
            let frame = self.queues.last(if from_small { SMALL } else { MAIN })?;
            let hits = &mut self.pages[frame as usize].hits;
            match from_small {
                true if *hits >= PROMOTION_HITS => *hits = 0,
                false if *hits > 0 => *hits = (*hits).min(HITS_MAX) - 1,
                _ => return Some(frame),
            }
            self.queues.move_first(MAIN, frame);
        }
    }

    fn ram_bytes(&self) -> usize {
        let pages = self.pages.len() * size_of::<Page>();
        size_of::<Self>() + self.queues.ram_bytes() + pages + self.ghosts.ram_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::super::ghosts::GhostModel;
    use super::super::tests::{Model, same_victims};
    use super::*;
    use alloc::boxed::Box;

    /// Model of the queues: frame, page and hits. The next page to be evicted comes first.
    struct Queues {
        small: Vec<(u32, Lpn, u32)>,
        main: Vec<(u32, Lpn, u32)>,
        ghosts: GhostModel,
        frames: usize,
    }

    impl Model for Queues {
        fn touch(&mut self, frame: u32, _: Access) {
            self.small.iter_mut().chain(&mut self.main).filter(|p| p.0 == frame).for_each(|p| p.2 += 1);
        }
        fn admit(&mut self, frame: u32, access: Access) {
            let known = self.ghosts.forget(access.lpn);
            if known { &mut self.main } else { &mut self.small }.push((frame, access.lpn, 0));
            self.ghosts.trim();
        }
        fn remove(&mut self, frame: u32, exit: Exit) {
            let left = self.small.iter().find(|p| p.0 == frame && exit == Exit::Evicted);
            left.into_iter().for_each(|p| self.ghosts.remember(p.1));
            self.small.retain(|p| p.0 != frame);
            self.main.retain(|p| p.0 != frame);
        }
        fn victim(&mut self) -> Option<u32> {
            while self.small.len() > small_frames(self.frames) || self.main.is_empty() {
                let &(frame, lpn, hits) = self.small.first()?;
                if hits < 2 {
                    return Some(frame);
                }
                self.small.remove(0);
                self.main.push((frame, lpn, 0));
            }
            while self.main[0].2 > 0 {
                let (frame, lpn, hits) = self.main.remove(0);
                self.main.push((frame, lpn, hits.min(3) - 1));
            }
            Some(self.main[0].0)
        }
    }

    #[test]
    fn victims_are_those_of_the_rule() {
        same_victims(
            |s| Box::new(S3Fifo::new(s.frames)),
            |s| {
                let ghosts = GhostModel::new(ghost_pages(s.frames));
                Box::new(Queues { small: Vec::new(), main: Vec::new(), ghosts, frames: s.frames })
            },
        );
    }
}

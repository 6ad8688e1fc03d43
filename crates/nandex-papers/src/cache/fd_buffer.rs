//! FD-Buffer, our reading: a pool of clean and a pool of dirty pages, whose sizes follow what a miss in each
//! costs.
//!
//! Known from the abstract: clean and dirty pages in separate pools, each with its own policy, the ratio of
//! their sizes chosen by the cost of a write to that of a read and by the history of accesses (S. T. On, S.
//! Gao, B. He, M. Wu, Q. Luo and J. Xu, "FD-Buffer: a cost-based adaptive buffer replacement algorithm for
//! flash memory devices", IEEE Transactions on Computers 63(9), 2014).
//!
//! Ours: both pools are LRU. Each has ghosts, the numbers of half as many pages as there are frames that left
//! it last. The clean pool starts with a target of frames * read cost / (read cost + write cost). *Victim:*
//! the least recently used clean page if there are more clean ones than the target, or no dirty one;
//! otherwise the least recently used dirty page. Every eighth of the frames in misses, ghosts asked for again
//! are weighed: those of the clean pool cost a read each, those of the dirty pool a write each. The target
//! moves by a sixty-fourth of the frames to the dearer side.

use super::ghosts::Ghosts;
use super::use_queues::UseQueues;
use super::{Access, Exit, PolicyConfig, Replacement};
use alloc::vec;
use alloc::vec::Vec;
use nandex::units::Lpn;

const CLEAN: u32 = 0;
const DIRTY: u32 = 1;

/// The FD-Buffer policy: a pool of clean and a pool of dirty pages.
#[derive(Clone, Debug)]
pub struct FdBuffer {
    queues: UseQueues,
    lpns: Vec<Lpn>,
    ghosts: [Ghosts; 2],
    ghost_hits: [u64; 2],
    costs: [u64; 2],
    misses: usize,
    clean_target: usize,
    dirty_victim: Option<u32>,
}

fn first_target(s: &PolicyConfig) -> usize {
    let all = u128::from(s.read_cost) + u128::from(s.write_cost);
    (s.frames as u128 * u128::from(s.read_cost) / all.max(1)) as usize
}

impl FdBuffer {
    /// Makes the policy with the costs in `settings`.
    pub fn new(settings: &PolicyConfig) -> FdBuffer {
        let ghosts = Ghosts::new(settings.frames / 2);
        FdBuffer {
            queues: UseQueues::new(settings.frames, 2),
            lpns: vec![Lpn(0); settings.frames],
            ghosts: [ghosts.clone(), ghosts],
            ghost_hits: [0; 2],
            costs: [settings.read_cost, settings.write_cost],
            misses: 0,
            clean_target: first_target(settings),
            dirty_victim: None,
        }
    }

    fn count_miss(&mut self) {
        let frames = self.lpns.len();
        self.misses += 1;
        if self.misses < (frames / 8).max(1) {
            return;
        }
        debug_assert!(self.clean_target <= frames, "more clean pages are aimed at than there are frames");
        self.misses = 0;
        let [clean, dirty] = core::mem::take(&mut self.ghost_hits);
        let [clean, dirty] = [clean.saturating_mul(self.costs[0]), dirty.saturating_mul(self.costs[1])];
        let step = (frames / 64).max(1);
        match clean.cmp(&dirty) {
            core::cmp::Ordering::Greater => self.clean_target = (self.clean_target + step).min(frames),
            core::cmp::Ordering::Less => self.clean_target = self.clean_target.saturating_sub(step),
            core::cmp::Ordering::Equal => {}
        }
    }
}

impl Replacement for FdBuffer {
    fn name(&self) -> &'static str {
        "fd-buffer"
    }

    fn touch(&mut self, frame: u32, access: Access) {
        self.queues.touch(u32::from(access.dirty), frame);
    }

    fn admit(&mut self, frame: u32, access: Access) {
        self.lpns[frame as usize] = access.lpn;
        self.queues.push(u32::from(access.dirty), frame);
        for (ghosts, hits) in self.ghosts.iter_mut().zip(&mut self.ghost_hits) {
            *hits += u64::from(ghosts.forget(access.lpn));
            ghosts.trim();
        }
        self.count_miss();
    }

    fn cleaned(&mut self, frame: u32) {
        self.queues.shift(CLEAN, frame);
    }

    fn remove(&mut self, frame: u32, exit: Exit) {
        let queue = self.queues.remove(frame);
        let was_dirty = queue == DIRTY || self.dirty_victim == Some(frame);
        self.dirty_victim = None;
        if exit == Exit::Evicted {
            self.ghosts[usize::from(was_dirty)].remember(self.lpns[frame as usize]);
        }
    }

    fn victim(&mut self) -> Option<u32> {
        let from_clean = self.queues.len(CLEAN) > self.clean_target || self.queues.len(DIRTY) == 0;
        let queue = if from_clean { CLEAN } else { DIRTY };
        let frame = self.queues.oldest(queue);
        // A flush of all dirty pages may clean it before it leaves.
        self.dirty_victim = frame.filter(|_| queue == DIRTY);
        frame
    }

    fn ram_bytes(&self) -> usize {
        let ghosts: usize = self.ghosts.iter().map(Ghosts::ram_bytes).sum();
        size_of::<Self>() + self.queues.ram_bytes() + self.lpns.len() * size_of::<Lpn>() + ghosts
    }
}

#[cfg(test)]
mod tests {
    use super::super::ghosts::GhostModel;
    use super::super::tests::{Model, same_victims};
    use super::*;
    use alloc::boxed::Box;

    /// Pages, the least recently used first.
    struct Pools {
        pages: Vec<(u32, Access)>,
        gone_clean: GhostModel,
        gone_dirty: GhostModel,
        worth: (u64, u64),
        misses: usize,
        target: i64,
        settings: PolicyConfig,
        chosen: Option<(u32, Access)>,
    }

    impl Model for Pools {
        fn touch(&mut self, frame: u32, access: Access) {
            self.pages.retain(|p| p.0 != frame);
            self.pages.push((frame, access));
        }
        fn admit(&mut self, frame: u32, access: Access) {
            self.pages.push((frame, access));
            if self.gone_clean.forget(access.lpn) {
                self.worth.0 += self.settings.read_cost;
            }
            if self.gone_dirty.forget(access.lpn) {
                self.worth.1 += self.settings.write_cost;
            }
            self.gone_clean.trim();
            self.gone_dirty.trim();
            self.misses += 1;
            let frames = self.settings.frames;
            if self.misses == (frames / 8).max(1) {
                let step = (frames / 64).max(1) as i64;
                let way = i64::from(self.worth.0 > self.worth.1) - i64::from(self.worth.0 < self.worth.1);
                self.target = (self.target + way * step).clamp(0, frames as i64);
                (self.misses, self.worth) = (0, (0, 0));
            }
        }
        fn cleaned(&mut self, frame: u32) {
            self.pages.iter_mut().filter(|p| p.0 == frame).for_each(|p| p.1.dirty = false);
        }
        fn remove(&mut self, frame: u32, exit: Exit) {
            let at = self.pages.iter().position(|p| p.0 == frame).unwrap();
            let (_, page) = self.pages.remove(at);
            let was_dirty = self.chosen.take().is_some_and(|c| c.0 == frame && c.1.dirty);
            if exit == Exit::Evicted {
                let gone = if page.dirty || was_dirty { &mut self.gone_dirty } else { &mut self.gone_clean };
                gone.remember(page.lpn);
            }
        }
        fn victim(&mut self) -> Option<u32> {
            let clean = self.pages.iter().filter(|p| !p.1.dirty).count();
            let from_clean = clean as i64 > self.target || clean == self.pages.len();
            self.chosen = self.pages.iter().find(|p| p.1.dirty != from_clean).copied();
            self.chosen.map(|p| p.0)
        }
    }

    #[test]
    fn victims_are_those_of_the_rule() {
        same_victims(
            |s| Box::new(FdBuffer::new(s)),
            |s| {
                let target = s.frames as u64 * s.read_cost / (s.read_cost + s.write_cost);
                Box::new(Pools {
                    pages: Vec::new(),
                    gone_clean: GhostModel::new(s.frames / 2),
                    gone_dirty: GhostModel::new(s.frames / 2),
                    worth: (0, 0),
                    misses: 0,
                    target: target as i64,
                    settings: *s,
                    chosen: None,
                })
            },
        );
    }
}

//! CFLRU: among the pages that were not used for long, clean ones leave first.
//!
//! The LRU order has a clean-first region: its last w pages. *Victim:* the least recently used clean page of
//! the region; if it has none, the least recently used page of all. With w = 0, or with reads only, it is
//! LRU. (S. Park, D. Jung, J. Kang, J. Kim and J. Lee, "CFLRU: a replacement algorithm for flash memory",
//! CASES 2006; the rule as in the LS-LRU paper's figure 1.) The region is half of the frames unless a share
//! is set.
//!
//! The dynamic variant moves w. The paper says only that the costs of reading and writing are compared from
//! time to time; how is our reading: after as many accesses as there are frames, the cost of the pages read
//! and written since is compared with that of the round before; if it has grown, w turns round. Then w moves
//! on by a sixteenth of the frames.
//!
//! Three queues: working region, and the clean and the dirty pages of the clean-first region. A hit moves one
//! page to the working region and one out of it, so everything but a flush takes constant time.

use super::use_queues::UseQueues;
use super::{Access, Exit, PolicyConfig, Replacement};
use alloc::vec;
use alloc::vec::Vec;

const WORKING: u32 = 0;
const CLEAN: u32 = 1;
const DIRTY: u32 = 2;

/// State of the dynamic variant: costs in this round and the round before.
#[derive(Clone, Debug)]
struct Tuning {
    read_cost: u64,
    write_cost: u64,
    accesses: usize,
    cost: u64,
    cost_before: u64,
    grows: bool,
}

impl Tuning {
    /// Counts an access. Returns the window, which changes at the end of a round.
    fn next_window(&mut self, window: usize, frames: usize) -> usize {
        self.accesses += 1;
        if self.accesses < frames {
            return window;
        }
        self.grows ^= self.cost > self.cost_before;
        self.cost_before = core::mem::take(&mut self.cost);
        self.accesses = 0;
        let step = (frames / 16).max(1);
        if self.grows { (window + step).min(frames) } else { window.saturating_sub(step) }
    }
}

/// The CFLRU policy: of the pages least recently used, clean ones leave first.
#[derive(Clone, Debug)]
pub struct Cflru {
    queues: UseQueues,
    dirty: Vec<bool>,
    window: usize,
    dirty_victim: Option<u32>,
    tuning: Option<Tuning>,
}

/// Percentage of the frames in the clean-first region, unless the settings name another.
const WINDOW_PERCENT: u32 = 50;

impl Cflru {
    /// Makes the policy with a clean-first region of fixed size.
    pub fn new(settings: &PolicyConfig) -> Cflru {
        Cflru {
            queues: UseQueues::new(settings.frames, 3),
            dirty: vec![false; settings.frames],
            window: settings.window_frames(WINDOW_PERCENT),
            dirty_victim: None,
            tuning: None,
        }
    }

    /// Makes the policy with a clean-first region whose size follows the costs.
    pub fn dynamic(settings: &PolicyConfig) -> Cflru {
        let &PolicyConfig { read_cost, write_cost, .. } = settings;
        let tuning = Tuning { read_cost, write_cost, accesses: 0, cost: 0, cost_before: 0, grows: true };
        Cflru { tuning: Some(tuning), ..Cflru::new(settings) }
    }

    fn region_of(&self, frame: u32) -> u32 {
        if self.dirty[frame as usize] { DIRTY } else { CLEAN }
    }

    /// Moves pages until the clean-first region holds the last `window` pages, or all pages if there are
    /// fewer.
    fn balance(&mut self) {
        debug_assert!(self.window <= self.dirty.len(), "a window of {} frames", self.window);
        let region = self.queues.len(CLEAN) + self.queues.len(DIRTY);
        for _ in region..self.window {
            let Some(frame) = self.queues.oldest(WORKING) else { return };
            self.queues.shift(self.region_of(frame), frame);
        }
        for _ in self.window..region {
            let newest = [self.queues.newest(CLEAN), self.queues.newest(DIRTY)];
            if let Some(frame) = newest.into_iter().flatten().max_by_key(|&f| self.queues.used(f)) {
                self.queues.shift(WORKING, frame);
            }
        }
    }

    fn count_access(&mut self) {
        let frames = self.dirty.len();
        if let Some(tuning) = &mut self.tuning {
            self.window = tuning.next_window(self.window, frames);
        }
        self.balance();
    }
}

impl Replacement for Cflru {
    fn name(&self) -> &'static str {
        if self.tuning.is_some() { "cflru-dynamic" } else { "cflru" }
    }

    fn touch(&mut self, frame: u32, access: Access) {
        self.dirty[frame as usize] = access.dirty;
        self.queues.touch(WORKING, frame);
        self.count_access();
    }

    fn admit(&mut self, frame: u32, access: Access) {
        self.dirty[frame as usize] = access.dirty;
        self.queues.push(WORKING, frame);
        if let Some(tuning) = self.tuning.as_mut().filter(|_| !access.write) {
            tuning.cost = tuning.cost.saturating_add(tuning.read_cost);
        }
        self.count_access();
    }

    fn cleaned(&mut self, frame: u32) {
        self.dirty[frame as usize] = false;
        if self.queues.queue_of(frame) == Some(DIRTY) {
            self.queues.shift(CLEAN, frame);
        }
    }

    fn remove(&mut self, frame: u32, exit: Exit) {
        self.queues.remove(frame);
        self.balance();
        let was_dirty = self.dirty[frame as usize] || self.dirty_victim == Some(frame);
        self.dirty_victim = None;
        if let Some(tuning) = self.tuning.as_mut().filter(|_| was_dirty && exit == Exit::Evicted) {
            tuning.cost = tuning.cost.saturating_add(tuning.write_cost);
        }
    }

    fn victim(&mut self) -> Option<u32> {
        let last = || self.queues.oldest(DIRTY).or_else(|| self.queues.oldest(WORKING));
        let frame = self.queues.oldest(CLEAN).or_else(last);
        // A flush of all dirty pages may clean it before it leaves.
        self.dirty_victim = frame.filter(|&f| self.dirty[f as usize]);
        frame
    }

    fn ram_bytes(&self) -> usize {
        size_of::<Self>() + self.queues.ram_bytes() + self.dirty.len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Model, same_victims};
    use super::*;
    use alloc::boxed::Box;

    /// Model of the order. `pages` has frames and whether they are dirty, the least recently used first.
    /// `costs` and the later fields are for the dynamic variant.
    struct Order {
        pages: Vec<(u32, bool)>,
        window: usize,
        frames: usize,
        costs: Option<(u64, u64)>,
        accesses: usize,
        spent: u64,
        spent_before: u64,
        grows: bool,
        chosen: Option<(u32, bool)>,
    }

    impl Order {
        fn new(s: &PolicyConfig, costs: Option<(u64, u64)>) -> Order {
            let window = s.frames * s.window_percent.unwrap_or(50) as usize / 100;
            Order {
                pages: Vec::new(),
                window,
                frames: s.frames,
                costs,
                accesses: 0,
                spent: 0,
                spent_before: 0,
                grows: true,
                chosen: None,
            }
        }

        fn count(&mut self) {
            self.accesses += 1;
            if self.costs.is_some() && self.accesses == self.frames {
                if self.spent > self.spent_before {
                    self.grows = !self.grows;
                }
                let step = (self.frames / 16).max(1) as i64;
                let moved = self.window as i64 + if self.grows { step } else { -step };
                self.window = moved.clamp(0, self.frames as i64) as usize;
                (self.accesses, self.spent_before, self.spent) = (0, self.spent, 0);
            }
        }
    }

    impl Model for Order {
        fn touch(&mut self, frame: u32, access: Access) {
            self.pages.retain(|p| p.0 != frame);
            self.pages.push((frame, access.dirty));
            self.count();
        }
        fn admit(&mut self, frame: u32, access: Access) {
            self.pages.push((frame, access.dirty));
            self.spent += self.costs.filter(|_| !access.write).map_or(0, |c| c.0);
            self.count();
        }
        fn cleaned(&mut self, frame: u32) {
            self.pages.iter_mut().filter(|p| p.0 == frame).for_each(|p| p.1 = false);
        }
        fn remove(&mut self, frame: u32, exit: Exit) {
            let dirty = self.pages.contains(&(frame, true)) || self.chosen == Some((frame, true));
            if dirty && exit == Exit::Evicted {
                self.spent += self.costs.map_or(0, |c| c.1);
            }
            self.chosen = None;
            self.pages.retain(|p| p.0 != frame);
        }
        fn victim(&mut self) -> Option<u32> {
            let region = self.pages.iter().take(self.window);
            self.chosen = region.into_iter().find(|p| !p.1).or(self.pages.first()).copied();
            self.chosen.map(|p| p.0)
        }
    }

    #[test]
    fn victims_are_those_of_the_rule() {
        same_victims(|s| Box::new(Cflru::new(s)), |s| Box::new(Order::new(s, None)));
    }

    #[test]
    fn victims_of_the_dynamic_one_are_those_of_the_rule() {
        same_victims(
            |s| Box::new(Cflru::dynamic(s)),
            |s| Box::new(Order::new(s, Some((s.read_cost, s.write_cost)))),
        );
    }

    #[test]
    fn the_figure_of_the_paper() {
        let mut policy = Cflru::new(&PolicyConfig { window_percent: Some(50), ..PolicyConfig::new(8) });
        // P8 to P1, the least recently used first; P8 and P6 are dirty among the last four.
        for (frame, dirty) in
            [(8, true), (7, false), (6, true), (5, false)].into_iter().chain((1..5).map(|f| (f, false)))
        {
            let access = Access { lpn: nandex::units::Lpn(frame), write: dirty, dirty };
            policy.admit(frame - 1, access);
        }
        let mut order = Vec::new();
        while let Some(frame) = policy.victim() {
            policy.remove(frame, Exit::Evicted);
            order.push(frame + 1);
        }
        assert_eq!(order[..2], [7, 5]);
    }
}

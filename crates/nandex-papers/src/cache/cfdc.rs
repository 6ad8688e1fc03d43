//! CFDC: clean first, then dirty pages by clusters of neighbours.
//!
//! The working region is LRU. What overflows it goes to the priority region: clean pages to a queue, dirty
//! ones to the cluster of their page number divided by the cluster size. A hit takes a page back to the
//! working region.
//!
//! A cluster of n pages has the priority `IPD / (n^2 * age)`: IPD is the sum of the distances between the
//! numbers of pages that entered one after the other (1 for a single page), the age is counted in dirty pages
//! that left the working region since the cluster was made or one of its pages was hit, at least 1. It is
//! computed whenever a page enters or leaves. So large clusters that were filled in order and not used for
//! long have the lowest.
//!
//! *Victim:* the oldest page of the clean queue; if there is none, the page that entered first the cluster of
//! lowest priority, which is then emptied before another is looked for; if the priority region is empty, the
//! oldest of the working region. (Y. Ou, T. Haerder and P. Jin, "CFDC: a flash-aware replacement policy for
//! database buffer management", DaMoN 2009; checked against a public realisation.) Each region has half of
//! the frames unless a share is set for the priority region; with none it is LRU. Ours: among equal clusters
//! the one with the lower number, and a page that a flush has cleaned joins the clean queue at the place of
//! its last use.
//!
//! Clusters are sorted by priority in a tree: logarithmic in their number, where the rest takes constant
//! time.

use super::blocks::Blocks;
use super::use_queues::UseQueues;
use super::{Access, Exit, PolicyConfig, Replacement};
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Ordering;
use nandex::units::Lpn;

const WORKING: u32 = 0;
const CLEAN: u32 = 1;
/// Percentage of the frames in the priority region, unless the settings name another.
const PRIORITY_PERCENT: u32 = 50;

/// The priority of a cluster as the fraction `above / below`. Equal fractions are ordered by `id`; `slot`
/// takes no part in the order.
#[derive(Clone, Copy, Debug)]
struct Priority {
    above: u64,
    below: u64,
    id: u32,
    slot: u32,
}

impl Ord for Priority {
    fn cmp(&self, other: &Priority) -> Ordering {
        let product = |a: u64, b: u64| u128::from(a) * u128::from(b);
        let fractions = product(self.above, other.below).cmp(&product(other.above, self.below));
        fractions.then(self.id.cmp(&other.id))
    }
}

impl PartialOrd for Priority {
    fn partial_cmp(&self, other: &Priority) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Priority {
    fn eq(&self, other: &Priority) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Priority {}

#[derive(Clone, Copy, Debug)]
struct Cluster {
    distances: u64,
    since: u64,
    /// The key under which the cluster is in `sorted`. `None` until its first page is in.
    priority: Option<Priority>,
}

/// The CFDC policy: clean pages first, then dirty ones by clusters.
#[derive(Clone, Debug)]
pub struct Cfdc {
    queues: UseQueues,
    pages: Vec<(Lpn, bool)>,
    /// Dirty pages of the priority region.
    members: Blocks,
    clusters: Vec<Cluster>,
    sorted: BTreeSet<Priority>,
    /// Slot of the cluster that is being emptied.
    emptying: Option<u32>,
    working_frames: usize,
    /// Dirty pages that have left the working region so far. The ages of clusters are counted in this.
    time: u64,
}

impl Cfdc {
    /// Makes the policy for the frames and the cluster size in `settings`.
    pub fn new(settings: &PolicyConfig) -> Cfdc {
        let frames = settings.frames;
        Cfdc {
            queues: UseQueues::new(frames, 2),
            pages: vec![(Lpn(0), false); frames],
            members: Blocks::new(frames, settings.cluster_pages),
            clusters: vec![Cluster { distances: 0, since: 0, priority: None }; frames],
            sorted: BTreeSet::new(),
            emptying: None,
            working_frames: frames - settings.window_frames(PRIORITY_PERCENT),
            time: 0,
        }
    }

    fn lpn(&self, frame: u32) -> Lpn {
        self.pages[frame as usize].0
    }

    fn distance(&self, a: Option<u32>, b: Option<u32>) -> u64 {
        match (a, b) {
            (Some(a), Some(b)) => u64::from(self.lpn(a).0.abs_diff(self.lpn(b).0)),
            _ => 0,
        }
    }

    /// Computes the priority of a cluster again and sorts the cluster by it.
    fn rank(&mut self, slot: u32, id: u32) {
        let cluster = &mut self.clusters[slot as usize];
        if let Some(old) = cluster.priority.take() {
            debug_assert!(self.sorted.contains(&old), "a cluster is not where its priority says");
            self.sorted.remove(&old);
        }
        let pages = self.members.len(slot) as u64;
        if pages == 0 {
            self.emptying = self.emptying.filter(|&other| other != slot);
            return;
        }
        let above = if pages == 1 { 1 } else { cluster.distances };
        let below = (pages * pages).saturating_mul((self.time - cluster.since).max(1));
        let priority = Priority { above, below, id, slot };
        cluster.priority = Some(priority);
        self.sorted.insert(priority);
    }

    fn enter_cluster(&mut self, frame: u32) {
        debug_assert!(self.pages[frame as usize].1, "a clean page enters a cluster");
        debug_assert!(self.queues.queue_of(frame).is_none(), "frame {frame} is in a queue and a cluster");
        self.time += 1;
        let lpn = self.lpn(frame);
        let slot = self.members.enter(frame, lpn);
        let (before, _) = self.members.neighbours(frame);
        let distance = self.distance(Some(frame), before);
        let cluster = &mut self.clusters[slot as usize];
        if before.is_none() {
            *cluster = Cluster { distances: 0, since: self.time, priority: None };
        }
        cluster.distances += distance;
        self.rank(slot, self.members.id_of(lpn));
    }

    fn leave_cluster(&mut self, frame: u32, was_hit: bool) {
        let (before, after) = self.members.neighbours(frame);
        let gone = self.distance(before, Some(frame)) + self.distance(Some(frame), after);
        let come = self.distance(before, after);
        let slot = self.members.leave(frame);
        let cluster = &mut self.clusters[slot as usize];
        debug_assert!(cluster.distances + come >= gone, "a cluster is shorter than its gaps");
        cluster.distances = cluster.distances + come - gone;
        if was_hit {
            cluster.since = self.time;
        }
        self.rank(slot, self.members.id_of(self.lpn(frame)));
    }

    /// Removes a page from its queue or cluster.
    fn leave(&mut self, frame: u32, was_hit: bool) {
        if self.queues.queue_of(frame).is_some() {
            self.queues.remove(frame);
        } else {
            self.leave_cluster(frame, was_hit);
        }
    }

    /// Puts a page first in the working region, and moves pages beyond the region's size out of it.
    fn work(&mut self, frame: u32, access: Access) {
        self.pages[frame as usize] = (access.lpn, access.dirty);
        self.queues.push(WORKING, frame);
        while self.queues.len(WORKING) > self.working_frames
            && let Some(frame) = self.queues.oldest(WORKING)
        {
            self.queues.remove(frame);
            if self.pages[frame as usize].1 {
                self.enter_cluster(frame);
            } else {
                self.queues.put(CLEAN, frame);
            }
        }
    }
}

impl Replacement for Cfdc {
    fn name(&self) -> &'static str {
        "cfdc"
    }

    fn touch(&mut self, frame: u32, access: Access) {
        self.leave(frame, true);
        self.work(frame, access);
    }

    fn admit(&mut self, frame: u32, access: Access) {
        self.work(frame, access);
    }

    fn cleaned(&mut self, frame: u32) {
        self.pages[frame as usize].1 = false;
        if self.queues.queue_of(frame).is_none() {
            self.leave_cluster(frame, false);
            self.queues.put(CLEAN, frame);
        }
    }

    fn remove(&mut self, frame: u32, _: Exit) {
        self.leave(frame, false);
    }

    fn victim(&mut self) -> Option<u32> {
        if let Some(frame) = self.queues.oldest(CLEAN) {
            return Some(frame);
        }
        self.emptying = self.emptying.or_else(|| self.sorted.first().map(|p| p.slot));
        match self.emptying {
            Some(slot) => self.members.first_to_come(slot),
            None => self.queues.oldest(WORKING),
        }
    }

    fn ram_bytes(&self) -> usize {
        size_of::<Self>()
            + self.queues.ram_bytes()
            + self.members.ram_bytes()
            + self.pages.len() * (size_of::<(Lpn, bool)>() + size_of::<Cluster>())
            // Clusters are never more than pages.
            + self.pages.len() * size_of::<Priority>() * 3 / 2
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Model, same_victims};
    use super::*;
    use alloc::boxed::Box;

    struct Heap {
        id: u32,
        /// Frames and pages in order of entry.
        pages: Vec<(u32, Lpn)>,
        since: u64,
        /// Priority as numerator and denominator.
        priority: (u64, u64),
    }

    impl Heap {
        fn rank(&mut self, time: u64) {
            let n = self.pages.len() as u64;
            let steps = self.pages.windows(2).map(|w| u64::from(w[0].1.0.abs_diff(w[1].1.0)));
            let distances = if n == 1 { 1 } else { steps.sum() };
            self.priority = (distances, n * n * (time - self.since).max(1));
        }
    }

    /// Each queue begins with the page that leaves next.
    struct Regions {
        working: Vec<(u32, Access)>,
        /// Model of the clean queue: time of last use, frame and page.
        clean: Vec<(u64, u32, Access)>,
        heaps: Vec<Heap>,
        emptying: Option<u32>,
        used: Vec<u64>,
        now: u64,
        time: u64,
        settings: PolicyConfig,
    }

    impl Regions {
        fn leave(&mut self, frame: u32, was_hit: bool) {
            self.working.retain(|p| p.0 != frame);
            self.clean.retain(|p| p.1 != frame);
            for heap in &mut self.heaps {
                if heap.pages.iter().any(|p| p.0 == frame) {
                    heap.pages.retain(|p| p.0 != frame);
                    if was_hit {
                        heap.since = self.time;
                    }
                    heap.rank(self.time);
                }
            }
            let emptied = self.heaps.iter().find(|h| h.pages.is_empty()).map(|h| h.id);
            if emptied.is_some() && self.emptying == emptied {
                self.emptying = None;
            }
            self.heaps.retain(|h| !h.pages.is_empty());
        }
        fn demote(&mut self, (frame, access): (u32, Access)) {
            if !access.dirty {
                self.clean.push((self.used[frame as usize], frame, access));
                return self.clean.sort_by_key(|p| p.0);
            }
            self.time += 1;
            let id = access.lpn.0 / self.settings.cluster_pages;
            if !self.heaps.iter().any(|h| h.id == id) {
                self.heaps.push(Heap { id, pages: Vec::new(), since: self.time, priority: (0, 1) });
            }
            let heap = self.heaps.iter_mut().find(|h| h.id == id).unwrap();
            heap.pages.push((frame, access.lpn));
            heap.rank(self.time);
        }
    }

    impl Model for Regions {
        fn touch(&mut self, frame: u32, access: Access) {
            self.leave(frame, true);
            self.admit(frame, access);
        }
        fn admit(&mut self, frame: u32, access: Access) {
            self.now += 1;
            self.used[frame as usize] = self.now;
            self.working.push((frame, access));
            let priority = self.settings.frames * self.settings.window_percent.unwrap_or(50) as usize / 100;
            while self.working.len() > self.settings.frames - priority {
                let page = self.working.remove(0);
                self.demote(page);
            }
        }
        fn cleaned(&mut self, frame: u32) {
            self.working.iter_mut().filter(|p| p.0 == frame).for_each(|p| p.1.dirty = false);
            let in_heap = self.heaps.iter().flat_map(|h| &h.pages).find(|p| p.0 == frame).copied();
            if let Some((frame, lpn)) = in_heap {
                self.leave(frame, false);
                self.demote((frame, Access { lpn, write: true, dirty: false }));
            }
        }
        fn remove(&mut self, frame: u32, _: Exit) {
            self.leave(frame, false);
        }
        fn victim(&mut self) -> Option<u32> {
            if let Some(page) = self.clean.first() {
                return Some(page.1);
            }
            if self.emptying.is_none() {
                let lower = |a: &&Heap, b: &&Heap| {
                    let ((a0, a1), (b0, b1)) = (a.priority, b.priority);
                    (a0 * b1).cmp(&(b0 * a1)).then(a.id.cmp(&b.id))
                };
                self.emptying = self.heaps.iter().min_by(lower).map(|h| h.id);
            }
            let heap = self.heaps.iter().find(|h| Some(h.id) == self.emptying);
            heap.map(|h| h.pages[0].0).or(self.working.first().map(|p| p.0))
        }
    }

    #[test]
    fn victims_are_those_of_the_rule() {
        same_victims(
            |s| Box::new(Cfdc::new(s)),
            |s| {
                Box::new(Regions {
                    working: Vec::new(),
                    clean: Vec::new(),
                    heaps: Vec::new(),
                    emptying: None,
                    used: vec![0; s.frames],
                    now: 0,
                    time: 0,
                    settings: *s,
                })
            },
        );
    }
}

//! DABC-NV, our reading: the cache is shared out between two media, and between reads and writes, by what
//! misses cost.
//!
//! Known from the abstract: for storage of SLC and MLC flash the cache space is divided by the measured costs
//! of both; each medium has its own history of reads and of writes; sizes adapt (J. Park, E. Lee and H. Bahn,
//! "DABC-NV: a buffer cache architecture for mobile systems with heterogeneous flash memories", IEEE
//! Transactions on Consumer Electronics 58(4), 2012). There dirty pages are in NVRAM and survive a power cut;
//! here they are in RAM like the others.
//!
//! Ours: four CLOCKs, of the clean and the dirty pages of the fast medium and of the other one (with one
//! medium only two are in use). Each has a quota of frames, equal shares at first, and ghosts, the numbers of
//! a quarter as many pages as there are frames that left it last.
//!
//! *Victim:* by the hand of the CLOCK that exceeds its quota most (of several the first in the order just
//! named): a page that was used has its bit cleared and goes round. Every eighth of the frames in misses the
//! CLOCKs are weighed: ghosts asked for again * cost of the miss (a read or a write, of that medium) / quota.
//! If they differ, a sixty-fourth of the frames moves from the quota of the lightest that has one to that of
//! the heaviest.

use super::ghosts::Ghosts;
use super::lists::Lists;
use super::{Access, Exit, PolicyConfig, Replacement};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Ordering;
use nandex::units::Lpn;

/// The number of a CLOCK is 0, plus `SLOW` if it is for the slower medium, plus `DIRTY` if it is for dirty
/// pages.
const SLOW: usize = 2;
const DIRTY: usize = 1;

#[derive(Clone, Copy, Debug)]
struct Page {
    lpn: Lpn,
    referenced: bool,
}

/// The DABC-NV policy: four CLOCKs with quotas.
#[derive(Clone, Debug)]
pub struct DabcNv {
    rings: Lists,
    pages: Vec<Page>,
    fast_pages: u32,
    ghosts: [Ghosts; 4],
    ghost_hits: [u64; 4],
    costs: [u64; 4],
    quotas: [usize; 4],
    misses: usize,
    /// The victim, and the CLOCK that it was chosen from.
    chosen: Option<(u32, usize)>,
}

fn costs(s: &PolicyConfig) -> [u64; 4] {
    let fast = s.fast_medium.map_or((0, 0), |fast| (fast.read_cost, fast.write_cost));
    [fast.0, fast.1, s.read_cost, s.write_cost]
}

/// Equal shares. The last CLOCK gets the frames left over.
fn first_quotas(s: &PolicyConfig) -> [usize; 4] {
    let (half, quarter) = (s.frames / 2, s.frames / 4);
    match s.fast_medium {
        Some(_) => [quarter, quarter, quarter, s.frames - 3 * quarter],
        None => [0, 0, half, s.frames - half],
    }
}

impl DabcNv {
    /// Makes the policy with the costs and the media in `settings`.
    pub fn new(settings: &PolicyConfig) -> DabcNv {
        let page = Page { lpn: Lpn(0), referenced: false };
        DabcNv {
            rings: Lists::new(settings.frames, 4),
            pages: vec![page; settings.frames],
            fast_pages: settings.fast_medium.map_or(0, |fast| fast.pages),
            ghosts: [(); 4].map(|()| Ghosts::new(settings.frames / 4)),
            ghost_hits: [0; 4],
            costs: costs(settings),
            quotas: first_quotas(settings),
            misses: 0,
            chosen: None,
        }
    }

    fn clock_of(&self, access: Access) -> usize {
        let medium = if access.lpn.0 < self.fast_pages { 0 } else { SLOW };
        medium + if access.dirty { DIRTY } else { 0 }
    }

    fn count_miss(&mut self) {
        self.misses += 1;
        if self.misses < (self.pages.len() / 8).max(1) {
            return;
        }
        self.misses = 0;
        let hits = core::mem::take(&mut self.ghost_hits);
        let weights = [0, 1, 2, 3].map(|clock| hits[clock].saturating_mul(self.costs[clock]));
        let lighter =
            |&a: &usize, &b: &usize| lighter((weights[a], self.quotas[a]), (weights[b], self.quotas[b]));
        let heaviest = (0..4).rev().max_by(lighter);
        let lightest = (0..4).filter(|&clock| self.quotas[clock] > 0).min_by(lighter);
        if let (Some(heavy), Some(light)) = (heaviest, lightest)
            && lighter(&light, &heavy) == Ordering::Less
        {
            let step = (self.pages.len() / 64).max(1).min(self.quotas[light]);
            self.quotas[light] -= step;
            self.quotas[heavy] += step;
        }
        debug_assert_eq!(self.quotas.iter().sum::<usize>(), self.pages.len(), "a quota for each frame");
    }
}

/// Compares two weights per frame of their quotas. A quota counts as one frame at least.
fn lighter(a: (u64, usize), b: (u64, usize)) -> Ordering {
    let product = |weight: u64, quota: usize| u128::from(weight) * quota.max(1) as u128;
    product(a.0, b.1).cmp(&product(b.0, a.1))
}

impl Replacement for DabcNv {
    fn name(&self) -> &'static str {
        "dabc-nv"
    }

    fn touch(&mut self, frame: u32, access: Access) {
        self.pages[frame as usize].referenced = true;
        let clock = self.clock_of(access) as u32;
        if self.rings.list_of(frame) != Some(clock) {
            self.rings.move_first(clock, frame);
        }
    }

    fn admit(&mut self, frame: u32, access: Access) {
        self.pages[frame as usize] = Page { lpn: access.lpn, referenced: false };
        self.rings.push_first(self.clock_of(access) as u32, frame);
        for (ghosts, hits) in self.ghosts.iter_mut().zip(&mut self.ghost_hits) {
            *hits += u64::from(ghosts.forget(access.lpn));
            ghosts.trim();
        }
        self.count_miss();
    }

    fn cleaned(&mut self, frame: u32) {
        if let Some(clock) = self.rings.list_of(frame) {
            self.rings.move_first(clock & !(DIRTY as u32), frame);
        }
    }

    fn remove(&mut self, frame: u32, exit: Exit) {
        let clock = self.rings.remove(frame) as usize;
        // A flush of all dirty pages may have cleaned it before it left.
        let chosen = self.chosen.take().filter(|&(victim, _)| victim == frame);
        if exit == Exit::Evicted {
            let clock = chosen.map_or(clock, |(_, clock)| clock);
            self.ghosts[clock].remember(self.pages[frame as usize].lpn);
        }
    }

    fn victim(&mut self) -> Option<u32> {
        let excess = |&clock: &usize| self.rings.len(clock as u32) as i64 - self.quotas[clock] as i64;
        let clock = (0..4).rev().filter(|&clock| self.rings.len(clock as u32) > 0).max_by_key(excess)?;
        loop {
            let frame = self.rings.last(clock as u32)?;
            if !core::mem::replace(&mut self.pages[frame as usize].referenced, false) {
                self.chosen = Some((frame, clock));
                return Some(frame);
            }
            self.rings.move_first(clock as u32, frame);
        }
    }

    fn ram_bytes(&self) -> usize {
        let ghosts: usize = self.ghosts.iter().map(Ghosts::ram_bytes).sum();
        size_of::<Self>() + self.rings.ram_bytes() + self.pages.len() * size_of::<Page>() + ghosts
    }
}

#[cfg(test)]
mod tests {
    use super::super::ghosts::GhostModel;
    use super::super::tests::{Model, same_victims};
    use super::*;
    use alloc::boxed::Box;

    #[derive(Default)]
    struct Ring {
        /// Frame, page and reference bit. The page under the hand comes first.
        pages: Vec<(u32, Lpn, bool)>,
        gone: Vec<Lpn>,
        hits: u64,
        cost: u64,
        quota: usize,
    }

    struct Four {
        rings: Vec<Ring>,
        misses: usize,
        settings: PolicyConfig,
        chosen: Option<(u32, usize)>,
    }

    impl Four {
        fn new(settings: &PolicyConfig) -> Four {
            let shares = if settings.fast_medium.is_some() { 4 } else { 2 };
            let ring = |i: usize| {
                let share = if i + shares < 4 { 0 } else { settings.frames / shares };
                let rest = if i == 3 { settings.frames % shares } else { 0 };
                Ring { cost: costs(settings)[i], quota: share + rest, ..Ring::default() }
            };
            Four { rings: (0..4).map(ring).collect(), misses: 0, settings: *settings, chosen: None }
        }
        fn ring(&mut self, access: Access) -> &mut Ring {
            let fast = self.settings.fast_medium.is_some_and(|m| access.lpn.0 < m.pages);
            &mut self.rings[2 * usize::from(!fast) + usize::from(access.dirty)]
        }
        fn weigh(&mut self) {
            let weight = |r: &Ring, other: &Ring| r.hits * r.cost * other.quota.max(1) as u64;
            let (mut light, mut heavy): (Option<usize>, usize) = (None, 0);
            for i in 0..4 {
                let r = &self.rings[i];
                if weight(r, &self.rings[heavy]) > weight(&self.rings[heavy], r) {
                    heavy = i;
                }
                let is_lighter = |l: usize| weight(r, &self.rings[l]) < weight(&self.rings[l], r);
                if r.quota > 0 && light.is_none_or(is_lighter) {
                    light = Some(i);
                }
            }
            let light = light.unwrap();
            if weight(&self.rings[light], &self.rings[heavy]) < weight(&self.rings[heavy], &self.rings[light])
            {
                let step = (self.settings.frames / 64).max(1).min(self.rings[light].quota);
                self.rings[light].quota -= step;
                self.rings[heavy].quota += step;
            }
            self.rings.iter_mut().for_each(|r| r.hits = 0);
        }
    }

    impl Model for Four {
        fn touch(&mut self, frame: u32, access: Access) {
            let here = self.ring(access).pages.iter_mut().find(|p| p.0 == frame);
            if let Some(page) = here {
                page.2 = true;
                return;
            }
            self.rings.iter_mut().for_each(|r| r.pages.retain(|p| p.0 != frame));
            self.ring(access).pages.push((frame, access.lpn, true));
        }
        fn admit(&mut self, frame: u32, access: Access) {
            self.ring(access).pages.push((frame, access.lpn, false));
            let keep = self.settings.frames / 4;
            for ring in &mut self.rings {
                let mut gone = GhostModel { capacity: keep, lpns: core::mem::take(&mut ring.gone) };
                ring.hits += u64::from(gone.forget(access.lpn));
                gone.trim();
                ring.gone = gone.lpns;
            }
            self.misses += 1;
            if self.misses == (self.settings.frames / 8).max(1) {
                self.misses = 0;
                self.weigh();
            }
        }
        fn cleaned(&mut self, frame: u32) {
            for i in [1, 3] {
                if let Some(at) = self.rings[i].pages.iter().position(|p| p.0 == frame) {
                    let page = self.rings[i].pages.remove(at);
                    self.rings[i - 1].pages.push(page);
                }
            }
        }
        fn remove(&mut self, frame: u32, exit: Exit) {
            let at = (0..4).find(|&i| self.rings[i].pages.iter().any(|p| p.0 == frame)).unwrap();
            let lpn = self.rings[at].pages.iter().find(|p| p.0 == frame).unwrap().1;
            self.rings[at].pages.retain(|p| p.0 != frame);
            let at = self.chosen.take().filter(|c| c.0 == frame).map_or(at, |c| c.1);
            if exit == Exit::Evicted {
                let lpns = core::mem::take(&mut self.rings[at].gone);
                let mut gone = GhostModel { capacity: self.settings.frames / 4, lpns };
                gone.remember(lpn);
                self.rings[at].gone = gone.lpns;
            }
        }
        fn victim(&mut self) -> Option<u32> {
            let excess = |r: &Ring| r.pages.len() as i64 - r.quota as i64;
            let used = |i: &usize| !self.rings[*i].pages.is_empty();
            let at = (0..4).filter(used).min_by_key(|&i| -excess(&self.rings[i]))?;
            let ring = &mut self.rings[at];
            while ring.pages[0].2 {
                let (frame, lpn, _) = ring.pages.remove(0);
                ring.pages.push((frame, lpn, false));
            }
            self.chosen = Some((ring.pages[0].0, at));
            Some(ring.pages[0].0)
        }
    }

    #[test]
    fn victims_are_those_of_the_rule() {
        same_victims(|s| Box::new(DabcNv::new(s)), |s| Box::new(Four::new(s)));
    }
}

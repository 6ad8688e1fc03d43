//! ACR, our reconstruction: a clean and a dirty list, new pages in the middle, and sizes that follow the
//! costs of misses.
//!
//! Known from the abstract: the buffer is split into a clean and a dirty list; a new page is put in the
//! middle of its list, not first, so that pages used once leave early; cost-based heuristics choose the list,
//! for any ratio of costs (X. Tang and X. Meng, "ACR: an adaptive cost-aware buffer replacement algorithm for
//! flash storage devices", MDM 2010).
//!
//! Ours, after ARC: each list has a hot part, at most half of it, and the rest behind that. A new page is
//! first of the rest, a page hit is first of the hot part of the list that its dirtiness names. What is too
//! much for the hot part goes back to the rest, at the place of its last use. Each list has ghosts, the
//! numbers of half as many pages as there are frames that left it last; a page that is among them comes in as
//! a hot one, and moves the target size of the clean list:
//! - a clean ghost: up by max(1, dirty ghosts / clean ghosts);
//! - a dirty ghost: down by max(1, clean ghosts / dirty ghosts) * (read cost + write cost) / read cost.
//!
//! *Victim:* the last page of the clean list if that is longer than the target, of the dirty list if it is
//! shorter; if it is as long, of the two last pages the one with the lower cost / age, where a clean page
//! costs a read and a dirty one a read and a write. If one list is empty, the last of the other.

use super::ghosts::Ghosts;
use super::use_queues::UseQueues;
use super::{Access, Exit, PolicyConfig, Replacement};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Ordering;
use nandex::units::Lpn;

/// Each of the two lists is a pair of queues: `list` is its hot part and `list + REST` the rest.
const CLEAN: u32 = 0;
const DIRTY: u32 = 2;
const REST: u32 = 1;

/// The ACR policy: adaptive and aware of costs.
#[derive(Clone, Debug)]
pub struct Acr {
    queues: UseQueues,
    lpns: Vec<Lpn>,
    /// The ghosts of the clean list, then of the dirty one.
    ghosts: [Ghosts; 2],
    clean_target: usize,
    read_cost: u64,
    write_cost: u64,
    dirty_victim: Option<u32>,
}

impl Acr {
    /// Makes the policy with the costs in `settings`.
    pub fn new(settings: &PolicyConfig) -> Acr {
        let ghosts = Ghosts::new(settings.frames / 2);
        Acr {
            queues: UseQueues::new(settings.frames, 4),
            lpns: vec![Lpn(0); settings.frames],
            ghosts: [ghosts.clone(), ghosts],
            clean_target: settings.frames / 2,
            read_cost: settings.read_cost.max(1),
            write_cost: settings.write_cost,
            dirty_victim: None,
        }
    }

    fn len(&self, list: u32) -> usize {
        self.queues.len(list) + self.queues.len(list + REST)
    }

    fn last(&self, list: u32) -> Option<u32> {
        self.queues.oldest(list + REST).or_else(|| self.queues.oldest(list))
    }

    fn balance(&mut self, list: u32) {
        while self.queues.len(list) > self.queues.len(list + REST)
            && let Some(frame) = self.queues.oldest(list)
        {
            self.queues.shift(list + REST, frame);
        }
        debug_assert!(self.queues.len(list) <= self.queues.len(list + REST), "list {list} is out of balance");
    }

    /// Moves the target size if the page is among the ghosts. Returns whether it is.
    fn is_ghost(&mut self, lpn: Lpn) -> bool {
        let lens = self.ghosts.each_ref().map(Ghosts::len);
        let [clean, dirty] = self.ghosts.each_mut().map(|ghosts| ghosts.forget(lpn));
        if clean {
            let step = (lens[1] / lens[0]).max(1);
            self.clean_target = (self.clean_target + step).min(self.lpns.len());
        }
        if dirty {
            let cost = self.read_cost.saturating_add(self.write_cost) / self.read_cost;
            let step = ((lens[0] / lens[1]).max(1) as u64).saturating_mul(cost);
            self.clean_target = (self.clean_target as u64).saturating_sub(step) as usize;
        }
        debug_assert!(
            self.clean_target <= self.lpns.len(),
            "more clean pages are aimed at than there are frames"
        );
        self.ghosts.iter_mut().for_each(Ghosts::trim);
        clean || dirty
    }

    /// Whether the clean frame is the better victim: whether its cost divided by its age is less.
    fn is_cheaper(&self, clean: u32, dirty: u32) -> bool {
        let age = |frame: u32| u128::from(self.queues.now() - self.queues.used(frame) + 1);
        let (read, both) =
            (u128::from(self.read_cost), u128::from(self.read_cost) + u128::from(self.write_cost));
        read * age(dirty) < both * age(clean)
    }
}

fn list_of(dirty: bool) -> u32 {
    if dirty { DIRTY } else { CLEAN }
}

impl Replacement for Acr {
    fn name(&self) -> &'static str {
        "acr"
    }

    fn touch(&mut self, frame: u32, access: Access) {
        self.queues.touch(list_of(access.dirty), frame);
        self.balance(CLEAN);
        self.balance(DIRTY);
    }

    fn admit(&mut self, frame: u32, access: Access) {
        self.lpns[frame as usize] = access.lpn;
        let list = list_of(access.dirty);
        let part = if self.is_ghost(access.lpn) { 0 } else { REST };
        self.queues.push(list + part, frame);
        self.balance(list);
    }

    fn cleaned(&mut self, frame: u32) {
        if let Some(queue) = self.queues.queue_of(frame) {
            self.queues.shift(CLEAN + queue % 2, frame);
        }
        self.balance(CLEAN);
        self.balance(DIRTY);
    }

    fn remove(&mut self, frame: u32, exit: Exit) {
        let list = self.queues.remove(frame) & DIRTY;
        self.balance(list);
        let was_dirty = list == DIRTY || self.dirty_victim == Some(frame);
        self.dirty_victim = None;
        if exit == Exit::Evicted {
            self.ghosts[usize::from(was_dirty)].remember(self.lpns[frame as usize]);
        }
    }

    fn victim(&mut self) -> Option<u32> {
        let (clean, dirty) = (self.last(CLEAN), self.last(DIRTY));
        let frame = match (clean, dirty, self.len(CLEAN).cmp(&self.clean_target)) {
            (Some(clean), Some(dirty), Ordering::Equal) if self.is_cheaper(clean, dirty) => Some(clean),
            (_, Some(dirty), Ordering::Equal | Ordering::Less) => Some(dirty),
            _ => clean.or(dirty),
        };
        // A flush of all dirty pages may clean it before it leaves.
        self.dirty_victim = frame.filter(|_| frame == dirty);
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

    #[derive(Clone, Copy)]
    struct Page {
        frame: u32,
        lpn: Lpn,
        dirty: bool,
        hot: bool,
        used: u64,
    }

    /// Pages, the least recently used first.
    struct Lists {
        pages: Vec<Page>,
        gone_clean: GhostModel,
        gone_dirty: GhostModel,
        target: i64,
        now: u64,
        settings: PolicyConfig,
        chosen: Option<Page>,
    }

    impl Lists {
        fn list(&self, dirty: bool) -> Vec<Page> {
            self.pages.iter().filter(|p| p.dirty == dirty).copied().collect()
        }
        fn last(&self, dirty: bool) -> Option<Page> {
            let list = self.list(dirty);
            list.iter().find(|p| !p.hot).or(list.first()).copied()
        }
        fn cool(&mut self) {
            for dirty in [false, true] {
                let list = self.list(dirty);
                let hot: Vec<u32> = list.iter().filter(|p| p.hot).map(|p| p.frame).collect();
                let over = hot.len() - hot.len().min(list.len() / 2);
                for page in self.pages.iter_mut().filter(|p| hot[..over].contains(&p.frame)) {
                    page.hot = false;
                }
            }
        }
        fn push(&mut self, frame: u32, access: Access, hot: bool) {
            self.now += 1;
            self.pages.push(Page { frame, lpn: access.lpn, dirty: access.dirty, hot, used: self.now });
            self.cool();
        }
    }

    impl Model for Lists {
        fn touch(&mut self, frame: u32, access: Access) {
            self.pages.retain(|p| p.frame != frame);
            self.push(frame, access, true);
        }
        fn admit(&mut self, frame: u32, access: Access) {
            let (clean, dirty) = (self.gone_clean.lpns.len() as i64, self.gone_dirty.lpns.len() as i64);
            let (read, write) = (self.settings.read_cost as i64, self.settings.write_cost as i64);
            let mut hot = false;
            if self.gone_clean.forget(access.lpn) {
                self.target += (dirty / clean).max(1);
                self.target = self.target.min(self.settings.frames as i64);
                hot = true;
            }
            if self.gone_dirty.forget(access.lpn) {
                self.target -= (clean / dirty).max(1) * ((read + write) / read);
                self.target = self.target.max(0);
                hot = true;
            }
            self.gone_clean.trim();
            self.gone_dirty.trim();
            self.push(frame, access, hot);
        }
        fn cleaned(&mut self, frame: u32) {
            self.pages.iter_mut().filter(|p| p.frame == frame).for_each(|p| p.dirty = false);
            self.cool();
        }
        fn remove(&mut self, frame: u32, exit: Exit) {
            let at = self.pages.iter().position(|p| p.frame == frame).unwrap();
            let page = self.pages.remove(at);
            let was_dirty = self.chosen.take().is_some_and(|c| c.frame == frame && c.dirty);
            if exit == Exit::Evicted {
                let gone = if page.dirty || was_dirty { &mut self.gone_dirty } else { &mut self.gone_clean };
                gone.remember(page.lpn);
            }
            self.cool();
        }
        fn victim(&mut self) -> Option<u32> {
            let (clean, dirty) = (self.last(false), self.last(true));
            let (Some(c), Some(d)) = (clean, dirty) else {
                self.chosen = clean.or(dirty);
                return self.chosen.map(|p| p.frame);
            };
            let longer = self.list(false).len() as i64 - self.target;
            let (read, write) = (self.settings.read_cost, self.settings.write_cost);
            let (age_c, age_d) = (self.now - c.used + 1, self.now - d.used + 1);
            let cheaper = read * age_d < (read + write) * age_c;
            self.chosen = Some(if longer > 0 || (longer == 0 && cheaper) { c } else { d });
            self.chosen.map(|p| p.frame)
        }
    }

    #[test]
    fn victims_are_those_of_the_rule() {
        same_victims(
            |s| Box::new(Acr::new(s)),
            |s| {
                Box::new(Lists {
                    pages: Vec::new(),
                    gone_clean: GhostModel::new(s.frames / 2),
                    gone_dirty: GhostModel::new(s.frames / 2),
                    target: (s.frames / 2) as i64,
                    now: 0,
                    settings: *s,
                    chosen: None,
                })
            },
        );
    }
}

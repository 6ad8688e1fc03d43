//! Runs a policy and a naive model of its rule with the same events, and compares every victim.

mod caches;

use super::{Access, Exit, PolicyConfig, Replacement};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use nandex::cache::policy::Lru;
use nandex::rng::Rng;
use nandex::units::Lpn;

/// A policy written in the plainest way. Its methods get the same arguments as those of [`Replacement`].
pub(super) trait Model {
    fn touch(&mut self, frame: u32, access: Access);
    fn admit(&mut self, frame: u32, access: Access);
    fn cleaned(&mut self, _frame: u32) {}
    fn remove(&mut self, frame: u32, exit: Exit);
    fn victim(&mut self) -> Option<u32>;
    fn companions(&self, _victim: u32) -> Vec<u32> {
        Vec::new()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Through,
    OneByOne,
    AllTogether,
}

type Make<T> = fn(&PolicyConfig) -> Box<T>;

struct Pair {
    policy: Box<dyn Replacement>,
    model: Box<dyn Model>,
    mode: Mode,
    /// Page and dirty flag of each frame in use.
    frames: Vec<Option<(u32, bool)>>,
    frame_of: BTreeMap<u32, u32>,
    unused: Vec<u32>,
    victims: u64,
}

impl Pair {
    fn access(&mut self, lpn: u32, write: bool) {
        let dirty = write && self.mode != Mode::Through;
        if let Some(&frame) = self.frame_of.get(&lpn) {
            let page = self.frames[frame as usize].as_mut().unwrap();
            page.1 |= dirty;
            let access = Access { lpn: Lpn(lpn), write, dirty: page.1 };
            self.policy.touch(frame, access);
            self.model.touch(frame, access);
        } else if write || self.policy.admits_reads() {
            self.make_room(1);
            let frame = self.unused.pop().unwrap();
            self.frames[frame as usize] = Some((lpn, dirty));
            self.frame_of.insert(lpn, frame);
            let access = Access { lpn: Lpn(lpn), write, dirty };
            self.policy.admit(frame, access);
            self.model.admit(frame, access);
        }
    }

    fn make_room(&mut self, frames: usize) {
        while self.unused.len() < frames {
            let victim = self.victim().expect("a full cache has a victim");
            let mut leaving = vec![victim];
            self.policy.companions(victim, &mut leaving);
            let mut expected = self.model.companions(victim);
            expected.push(victim);
            leaving.sort_unstable();
            expected.sort_unstable();
            assert_eq!(leaving, expected, "what leaves with frame {victim}");
            let is_dirty = |frame: &u32| self.frames[*frame as usize].unwrap().1;
            if self.mode == Mode::AllTogether && leaving.iter().any(is_dirty) {
                self.flush();
            }
            leaving.sort_by_key(|&frame| self.frames[frame as usize].unwrap().0);
            for frame in leaving {
                self.remove(frame, Exit::Evicted);
            }
        }
    }

    fn victim(&mut self) -> Option<u32> {
        let victim = self.policy.victim();
        assert_eq!(victim, self.model.victim(), "victim {} in mode {:?}", self.victims, self.mode);
        self.victims += 1;
        victim
    }

    fn flush(&mut self) {
        for (_, frame) in self.frame_of.clone() {
            let page = self.frames[frame as usize].as_mut().unwrap();
            if core::mem::replace(&mut page.1, false) {
                self.policy.cleaned(frame);
                self.model.cleaned(frame);
            }
        }
    }

    fn remove(&mut self, frame: u32, exit: Exit) {
        let (lpn, _) = self.frames[frame as usize].take().expect("the victim is in use");
        self.frame_of.remove(&lpn);
        self.unused.push(frame);
        self.policy.remove(frame, exit);
        self.model.remove(frame, exit);
    }

    fn trim(&mut self, lpn: u32) {
        if let Some(&frame) = self.frame_of.get(&lpn) {
            self.remove(frame, Exit::Trimmed);
        }
    }
}

/// Makes random accesses: hot and cold pages, runs of neighbours, and now and then a flush, a trim, a
/// victim that stays after all, or room for several pages at once.
fn run(pair: &mut Pair, rng: &mut Rng, steps: u32) {
    let pages = 4 * pair.frames.len() as u64 + 8;
    let mut next = 0;
    for _ in 0..steps {
        let lpn = match rng.below(8) {
            0..4 => rng.below(pages / 4),
            4..6 => rng.below(pages),
            _ => next % pages,
        } as u32;
        next = u64::from(lpn) + 1;
        match rng.below(100) {
            0 => pair.flush(),
            1 => pair.trim(lpn),
            2 => {
                let _ = pair.victim();
            }
            3 => pair.make_room(pair.frames.len().min(3)),
            4 => (lpn..lpn + 20).for_each(|lpn| pair.access(lpn, rng.chance(1, 8))),
            5 => (lpn / 4 * 4..lpn / 4 * 4 + 4).for_each(|lpn| pair.access(lpn, true)),
            other => pair.access(lpn, other < 50),
        }
    }
}

/// Checks that a policy and its model choose the same victims.
pub(super) fn same_victims(policy: Make<dyn Replacement>, model: Make<dyn Model>) {
    let windows = [None, Some(0), Some(30), Some(100)];
    for frames in [1, 2, 3, 5, 8, 13, 45] {
        for mode in [Mode::Through, Mode::OneByOne, Mode::AllTogether] {
            for (seed, window_percent) in windows.into_iter().enumerate() {
                let settings = PolicyConfig {
                    block_pages: 4,
                    cluster_pages: 8,
                    write_cost: 1 + 4 * seed as u64,
                    window_percent,
                    fast_medium: (seed % 2 == 1).then_some(super::FastMedium {
                        pages: frames as u32,
                        read_cost: 1,
                        write_cost: 3,
                    }),
                    ..PolicyConfig::new(frames)
                };
                let mut pair = Pair {
                    policy: policy(&settings),
                    model: model(&settings),
                    mode,
                    frames: vec![None; frames],
                    frame_of: BTreeMap::new(),
                    unused: (0..frames as u32).rev().collect(),
                    victims: 0,
                };
                assert_eq!(pair.victim(), None);
                run(&mut pair, &mut Rng::new(seed as u64), 4000);
                assert!(pair.victims > 100, "{} victims", pair.victims);
            }
        }
    }
}

/// Frames, the least recently used first.
struct Used(Vec<u32>);

impl Model for Used {
    fn touch(&mut self, frame: u32, access: Access) {
        self.0.retain(|&other| other != frame);
        self.admit(frame, access);
    }
    fn admit(&mut self, frame: u32, _: Access) {
        self.0.push(frame);
    }
    fn remove(&mut self, frame: u32, _: Exit) {
        self.0.retain(|&other| other != frame);
    }
    fn victim(&mut self) -> Option<u32> {
        self.0.first().copied()
    }
}

#[test]
fn victims_of_lru_are_those_of_the_rule() {
    same_victims(|s| Box::new(Lru::new(s.frames)), |_| Box::new(Used(Vec::new())));
}

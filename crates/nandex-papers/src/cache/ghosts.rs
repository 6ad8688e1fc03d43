//! Ghosts: the numbers of pages that left the cache recently. The one that left first is forgotten first.

use super::lists::Lists;
use alloc::vec;
use alloc::vec::Vec;
use nandex::cache::table::SlotTable;
use nandex::units::Lpn;

/// A queue of page numbers with a look-up. Both take constant time.
///
/// One page more than the capacity is kept until [`Ghosts::trim`] is called. A page is looked up when it is
/// admitted, and the page evicted for it must not push it out of the queue before that.
#[derive(Clone, Debug)]
pub(super) struct Ghosts {
    capacity: usize,
    order: Lists,
    lpns: Vec<u32>,
    table: SlotTable,
    unused: Vec<u32>,
}

impl Ghosts {
    pub(super) fn new(capacity: usize) -> Ghosts {
        Ghosts {
            capacity,
            order: Lists::new(capacity + 1, 1),
            lpns: vec![0; capacity + 1],
            table: SlotTable::new(capacity + 1),
            unused: (0..=capacity as u32).rev().collect(),
        }
    }

    /// Adds a page as the last that left the cache.
    pub(super) fn remember(&mut self, lpn: Lpn) {
        self.forget(lpn);
        if self.unused.is_empty() {
            self.forget_first();
        }
        let Some(slot) = self.unused.pop() else { return };
        self.lpns[slot as usize] = lpn.0;
        self.table.insert(lpn.0, slot);
        self.order.push_first(0, slot);
        debug_assert!(self.len() + self.unused.len() == self.capacity + 1, "a slot is lost");
    }

    /// Removes a page. Returns whether it was there.
    pub(super) fn forget(&mut self, lpn: Lpn) -> bool {
        let slot = self.table.get(lpn.0);
        if let Some(slot) = slot {
            self.table.remove(lpn.0);
            self.order.remove(slot);
            self.unused.push(slot);
        }
        slot.is_some()
    }

    fn forget_first(&mut self) {
        if let Some(slot) = self.order.last(0) {
            self.forget(Lpn(self.lpns[slot as usize]));
        }
    }

    /// Removes the oldest pages beyond the capacity.
    pub(super) fn trim(&mut self) {
        while self.len() > self.capacity {
            self.forget_first();
        }
        debug_assert!(self.len() <= self.capacity);
    }

    pub(super) fn len(&self) -> usize {
        self.order.len(0)
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.order.ram_bytes() + self.table.ram_bytes() + self.lpns.len() * 2 * size_of::<u32>()
    }
}

/// A naive list of ghosts for the models of the policies.
#[cfg(test)]
pub(super) struct GhostModel {
    pub(super) capacity: usize,
    pub(super) lpns: Vec<Lpn>,
}

#[cfg(test)]
impl GhostModel {
    pub(super) fn new(capacity: usize) -> GhostModel {
        GhostModel { capacity, lpns: Vec::new() }
    }

    pub(super) fn remember(&mut self, lpn: Lpn) {
        self.forget(lpn);
        self.lpns.push(lpn);
        if self.lpns.len() > self.capacity + 1 {
            self.lpns.remove(0);
        }
    }

    pub(super) fn forget(&mut self, lpn: Lpn) -> bool {
        let before = self.lpns.len();
        self.lpns.retain(|&other| other != lpn);
        self.lpns.len() < before
    }

    pub(super) fn trim(&mut self) {
        while self.lpns.len() > self.capacity {
            self.lpns.remove(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandex::rng::Rng;

    #[test]
    fn the_first_to_leave_is_forgotten_first() {
        for capacity in [0, 1, 2, 7] {
            let mut rng = Rng::new(3);
            let (mut ghosts, mut model) = (Ghosts::new(capacity), GhostModel::new(capacity));
            for _ in 0..5000 {
                let lpn = Lpn(rng.below(12) as u32);
                match rng.below(3) {
                    0 => assert_eq!(ghosts.forget(lpn), model.forget(lpn)),
                    1 => {
                        ghosts.remember(lpn);
                        model.remember(lpn);
                    }
                    _ => {
                        ghosts.trim();
                        model.trim();
                    }
                }
                let kept: Vec<Lpn> =
                    ghosts.order.iter(0).map(|slot| Lpn(ghosts.lpns[slot as usize])).collect();
                assert!(kept.iter().rev().eq(&model.lpns));
            }
        }
    }
}

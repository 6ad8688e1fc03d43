//! An order over the slots of a table: a treap whose links are in a separate table, 8 bytes per slot, never
//! moved.
//!
//! The order does not know the contents of the slots. Each operation takes a function that compares a slot
//! with the one sought (`Less`: before it). A slot's rank in the heap is a hash of its number. So the treap
//! has the shape of a random tree, the same in every run, and every operation takes O(log n) steps on
//! average.

use super::Chunked;
use core::cmp::Ordering;
use nandex::rng::split_mix;

const NONE: u32 = u32::MAX;

/// A place in the tree that names a slot.
#[derive(Clone, Copy)]
enum Link {
    Root,
    Left(u32),
    Right(u32),
}

#[derive(Clone, Debug)]
pub(in crate::ordered) struct Order {
    /// For each slot: the roots of the subtrees before it and after it.
    links: Chunked<(u32, u32)>,
    root: u32,
}

impl Default for Order {
    fn default() -> Order {
        Order::in_chunks(0, 0)
    }
}

impl Order {
    pub(in crate::ordered) fn new(slots: usize) -> Order {
        let mut links = Chunked::new(slots, 1);
        links.grow((NONE, NONE));
        Order { links, root: NONE }
    }

    /// An empty order over no slots. [`Order::grow`] adds a chunk of slots at a time.
    pub(in crate::ordered) fn in_chunks(chunk_slots: usize, chunks_max: usize) -> Order {
        Order { links: Chunked::new(chunk_slots, chunks_max), root: NONE }
    }

    pub(in crate::ordered) fn grow(&mut self) {
        self.links.grow((NONE, NONE));
    }

    /// Bytes of RAM of the links, besides [`Order::slot_bytes`] for each slot.
    pub(in crate::ordered) const fn directory_bytes(chunks_max: usize) -> usize {
        Chunked::<(u32, u32)>::directory_bytes(chunks_max)
    }

    pub(in crate::ordered) const fn slot_bytes() -> usize {
        size_of::<(u32, u32)>()
    }

    pub(in crate::ordered) fn clear(&mut self) {
        self.root = NONE;
    }

    fn at(&self, link: Link) -> u32 {
        match link {
            Link::Root => self.root,
            Link::Left(slot) => self.links[slot].0,
            Link::Right(slot) => self.links[slot].1,
        }
    }

    fn set(&mut self, link: Link, to: u32) {
        match link {
            Link::Root => self.root = to,
            Link::Left(slot) => self.links[slot].0 = to,
            Link::Right(slot) => self.links[slot].1 = to,
        }
    }

    /// Inserts a slot. `place` is called for other slots only.
    pub(in crate::ordered) fn insert(&mut self, slot: u32, place: impl Fn(u32) -> Ordering) {
        let mut link = Link::Root;
        let mut rest = self.root;
        while rest != NONE && rank(rest) > rank(slot) {
            link = if place(rest) == Ordering::Less { Link::Right(rest) } else { Link::Left(rest) };
            rest = self.at(link);
        }
        self.set(link, slot);
        let (mut before, mut after) = (Link::Left(slot), Link::Right(slot));
        while rest != NONE {
            if place(rest) == Ordering::Less {
                self.set(before, rest);
                before = Link::Right(rest);
                rest = self.at(before);
            } else {
                self.set(after, rest);
                after = Link::Left(rest);
                rest = self.at(after);
            }
        }
        self.set(before, NONE);
        self.set(after, NONE);
    }

    pub(in crate::ordered) fn remove(&mut self, slot: u32, place: impl Fn(u32) -> Ordering) {
        let mut link = Link::Root;
        loop {
            let at = self.at(link);
            assert!(at != NONE, "slot {slot} is not in the order");
            if at == slot {
                break;
            }
            link = if place(at) == Ordering::Less { Link::Right(at) } else { Link::Left(at) };
        }
        let (mut before, mut after) = self.links[slot];
        while before != NONE && after != NONE {
            if rank(before) > rank(after) {
                self.set(link, before);
                link = Link::Right(before);
                before = self.at(link);
            } else {
                self.set(link, after);
                link = Link::Left(after);
                after = self.at(link);
            }
        }
        self.set(link, if before == NONE { after } else { before });
    }

    /// The slot for which `place` answers `Equal`.
    pub(in crate::ordered) fn find(&self, place: impl Fn(u32) -> Ordering) -> Option<u32> {
        self.next(&place).filter(|&slot| place(slot) == Ordering::Equal)
    }

    /// The first slot for which `place` does not answer `Less`.
    pub(in crate::ordered) fn next(&self, place: impl Fn(u32) -> Ordering) -> Option<u32> {
        let (mut at, mut best) = (self.root, None);
        while at != NONE {
            if place(at) == Ordering::Less {
                at = self.links[at].1;
            } else {
                best = Some(at);
                at = self.links[at].0;
            }
        }
        best
    }

    /// The last slot for which `place` does not answer `Greater`.
    pub(in crate::ordered) fn previous(&self, place: impl Fn(u32) -> Ordering) -> Option<u32> {
        let (mut at, mut best) = (self.root, None);
        while at != NONE {
            if place(at) == Ordering::Greater {
                at = self.links[at].0;
            } else {
                best = Some(at);
                at = self.links[at].1;
            }
        }
        best
    }

    /// Walks in order, from the first slot for which `place` does not answer `Less`. `compare` orders two
    /// slots.
    pub(in crate::ordered) fn walk<'a, C: Fn(u32, u32) -> Ordering + Copy + 'a>(
        &'a self,
        place: impl Fn(u32) -> Ordering,
        compare: C,
    ) -> Walk<'a, C> {
        let mut walk = Walk { order: self, compare, path: [NONE; PATH_SLOTS], depth: 0 };
        walk.seek(place);
        walk
    }
}

/// Slots of a path that a walk remembers. Of a longer path only the lower end is remembered, and the upper
/// end is searched again.
const PATH_SLOTS: usize = 32;

/// A walk over the slots in order. A step looks at two links on average; a search looks at as many as the
/// tree is deep.
#[derive(Clone, Copy, Debug)]
pub(in crate::ordered) struct Walk<'a, C> {
    order: &'a Order,
    compare: C,
    /// The next slots on the path from the root, the last one first. The array is a ring; `depth` counts all
    /// slots put there.
    path: [u32; PATH_SLOTS],
    depth: usize,
}

impl<C: Fn(u32, u32) -> Ordering + Copy> Walk<'_, C> {
    fn seek(&mut self, place: impl Fn(u32) -> Ordering) {
        self.depth = 0;
        let mut at = self.order.root;
        while at != NONE {
            if place(at) == Ordering::Less {
                at = self.order.links[at].1;
            } else {
                self.push(at);
                at = self.order.links[at].0;
            }
        }
    }

    fn push(&mut self, slot: u32) {
        self.path[self.depth % PATH_SLOTS] = slot;
        self.depth += 1;
    }
}

impl<C: Fn(u32, u32) -> Ordering + Copy> Iterator for Walk<'_, C> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        self.depth = self.depth.checked_sub(1)?;
        let slot = core::mem::replace(&mut self.path[self.depth % PATH_SLOTS], NONE);
        debug_assert!(slot != NONE, "a walk goes on at a slot that it forgot");
        let mut at = self.order.links[slot].1;
        while at != NONE {
            self.push(at);
            at = self.order.links[at].0;
        }
        // Written over by slots further down, which have gone since.
        let is_forgotten = self.depth > 0 && self.path[(self.depth - 1) % PATH_SLOTS] == NONE;
        if is_forgotten {
            let compare = self.compare;
            self.seek(|at| compare(at, slot).then(Ordering::Less));
        }
        Some(slot)
    }
}

/// Priority of a slot in the heap. No two slots have the same.
fn rank(slot: u32) -> (u64, u32) {
    (split_mix(u64::from(slot)), slot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use alloc::vec;
    use alloc::vec::Vec;
    use core::cell::Cell;
    use nandex::rng::Rng;

    fn depth(order: &Order, at: u32) -> usize {
        if at == NONE {
            return 0;
        }
        let (before, after) = order.links[at];
        1 + depth(order, before).max(depth(order, after))
    }

    #[test]
    fn an_order_is_a_sorted_set() {
        let (mut keys, mut order) = (vec![0u64; 64], Order::new(64));
        let mut model: BTreeMap<u64, u32> = BTreeMap::new();
        let mut rng = Rng::new(9);
        for _ in 0..20_000 {
            let slot = rng.below(64) as u32;
            let key = keys[slot as usize];
            if model.get(&key) == Some(&slot) {
                model.remove(&key);
                order.remove(slot, |at| keys[at as usize].cmp(&key));
            } else {
                let key = rng.below(500);
                if model.contains_key(&key) {
                    continue;
                }
                keys[slot as usize] = key;
                model.insert(key, slot);
                order.insert(slot, |at| keys[at as usize].cmp(&key));
            }
            let sought = rng.below(500);
            let place = |at: u32| keys[at as usize].cmp(&sought);
            assert_eq!(order.find(place), model.get(&sought).copied());
            assert_eq!(order.next(place), model.range(sought..).next().map(|(_, slot)| *slot));
            assert_eq!(order.previous(place), model.range(..=sought).next_back().map(|(_, slot)| *slot));
        }
    }

    #[test]
    fn keys_in_ascending_order_do_not_make_it_deep() {
        let mut order = Order::new(100_000);
        for slot in 0..100_000 {
            order.insert(slot, |at| at.cmp(&slot));
        }
        assert!(depth(&order, order.root) < 60, "{}", depth(&order, order.root));
    }

    #[test]
    fn a_walk_visits_what_follows_in_order_with_few_looks() {
        let mut rng = Rng::new(3);
        for slots in [1u32, 2, 50, 20_000] {
            let (keys, mut order): (Vec<u64>, _) =
                ((0..slots).map(|_| rng.next_u64()).collect(), Order::new(slots as usize));
            (0..slots).for_each(|slot| order.insert(slot, |at| keys[at as usize].cmp(&keys[slot as usize])));
            let mut sorted: Vec<u32> = (0..slots).collect();
            sorted.sort_by_key(|slot| keys[*slot as usize]);
            let compare = |a: u32, b: u32| keys[a as usize].cmp(&keys[b as usize]);
            for _ in 0..20 {
                let from = rng.below(u64::from(slots)) as usize;
                let sought = keys[sorted[from] as usize] - rng.below(2);
                let walk = order.walk(|at| keys[at as usize].cmp(&sought), compare);
                assert!(walk.eq(sorted[from..].iter().copied()));
            }
            assert_eq!(order.walk(|_| Ordering::Less, compare).count(), 0);
            order.clear();
            assert_eq!(order.walk(|_| Ordering::Greater, compare).count(), 0);
        }
    }

    #[test]
    fn a_walk_along_a_path_longer_than_it_remembers_seeks_the_rest() {
        // A tree that is one path to the left, as no hash would have it.
        let slots = 10 * PATH_SLOTS as u32 + 7;
        let mut order = Order::new(slots as usize);
        for slot in 1..slots {
            order.links[slot].0 = slot - 1;
        }
        order.root = slots - 1;
        let compared = Cell::new(0u32);
        let compare = |a: u32, b: u32| {
            compared.set(compared.get() + 1);
            a.cmp(&b)
        };
        assert!(order.walk(|at| at.cmp(&5), compare).eq(5..slots));
        // Ten times along what is left of the path.
        assert!(compared.get() <= 11 * slots, "{}", compared.get());
    }
}

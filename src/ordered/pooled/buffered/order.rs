//! An order over slots of a table: a treap whose links lie in a table of their own, 8 bytes per slot, never
//! moved.
//!
//! What the slots hold and how they compare is the owner's affair: each operation takes a function that tells
//! where a slot stands against the one sought (`Less`: before it). A slot's rank in the heap is a hash of its
//! number, so the shape is that of a random tree, the same in every run, and every operation takes O(log n)
//! steps in the mean.

use super::Chunked;
use crate::rng::split_mix;
use core::cmp::Ordering;

const NONE: u32 = u32::MAX;

/// A place that names a slot.
#[derive(Clone, Copy)]
enum Link {
    Root,
    Left(u32),
    Right(u32),
}

/// Slots in order.
#[derive(Clone, Debug)]
pub(in crate::ordered) struct Order {
    /// The subtree before and the one after each slot.
    links: Chunked<(u32, u32)>,
    root: u32,
}

impl Default for Order {
    /// An order over no slots.
    fn default() -> Order {
        Order::in_chunks(0, 0)
    }
}

impl Order {
    /// An empty order over slots `0..slots`.
    pub(in crate::ordered) fn new(slots: usize) -> Order {
        let mut links = Chunked::new(slots, 1);
        links.grow((NONE, NONE));
        Order { links, root: NONE }
    }

    /// An empty order over no slots, which [`Order::grow`] adds a chunk at a time.
    pub(in crate::ordered) fn in_chunks(chunk_slots: usize, chunks_max: usize) -> Order {
        Order { links: Chunked::new(chunk_slots, chunks_max), root: NONE }
    }

    /// Adds a chunk of slots that are not in the order.
    pub(in crate::ordered) fn grow(&mut self) {
        self.links.grow((NONE, NONE));
    }

    /// Bytes of RAM that the links take besides [`Order::slot_bytes`] for each slot.
    pub(in crate::ordered) const fn directory_bytes(chunks_max: usize) -> usize {
        Chunked::<(u32, u32)>::directory_bytes(chunks_max)
    }

    pub(in crate::ordered) const fn slot_bytes() -> usize {
        size_of::<(u32, u32)>()
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

    /// Puts a slot in; `place` is asked for other slots only.
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

    /// Takes a slot out.
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

    /// The slot that is the one sought.
    pub(in crate::ordered) fn find(&self, place: impl Fn(u32) -> Ordering) -> Option<u32> {
        self.next(&place).filter(|&slot| place(slot) == Ordering::Equal)
    }

    /// The first slot that is not before the one sought.
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

    /// The last slot that is not after the one sought.
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
}

/// The rank of a slot in the heap; no two slots have the same.
fn rank(slot: u32) -> (u64, u32) {
    (split_mix(u64::from(slot)), slot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use alloc::collections::BTreeMap;
    use alloc::vec;

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
}

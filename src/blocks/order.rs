//! Order of the full blocks that some victim policies need besides the lists by valid count.
//!
//! FIFO and windowed greedy use the order in which blocks were closed: a doubly linked list through the
//! blocks. Choices draws full blocks evenly: an array of them, and the place of each in it. Either is kept
//! only while a policy asks for it, takes 8 bytes a block, and every change is O(1).
//!
//! Invariant T3: either holds exactly the full blocks, each once.

use crate::blocks::victim::VictimPolicy;
use crate::rng::Rng;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

const NONE: u32 = u32::MAX;

/// Number of draws for each choice wanted. If these find too few candidates, a greedy choice is made.
const DRAWS_PER_CHOICE: usize = 64;

/// Order of the full blocks, as a victim policy needs it.
#[derive(Clone, Debug, Default)]
pub(super) enum Order {
    /// No order.
    #[default]
    None,
    /// Order in which blocks were closed.
    Closing(Box<Closing>),
    /// Set of blocks to draw from.
    Drawing(Box<Drawing>),
}

impl Order {
    /// True if a policy needs this kind of order.
    pub(super) fn suits(&self, policy: VictimPolicy) -> bool {
        match policy {
            VictimPolicy::Fifo | VictimPolicy::Windowed { .. } => matches!(self, Order::Closing(_)),
            VictimPolicy::Choices { .. } => matches!(self, Order::Drawing(_)),
            VictimPolicy::Greedy | VictimPolicy::CostBenefit | VictimPolicy::Cat => {
                matches!(self, Order::None)
            }
        }
    }

    /// Makes the order that a policy needs. `full` are the full blocks, the one closed first in front, on a
    /// chip of `blocks` blocks.
    pub(super) fn new(
        policy: VictimPolicy,
        blocks: usize,
        full: impl Iterator<Item = u32>,
        seed: u64,
    ) -> Order {
        let mut order = match policy {
            VictimPolicy::Fifo | VictimPolicy::Windowed { .. } => {
                Order::Closing(Box::new(Closing::new(blocks)))
            }
            VictimPolicy::Choices { .. } => Order::Drawing(Box::new(Drawing::new(blocks, seed))),
            VictimPolicy::Greedy | VictimPolicy::CostBenefit | VictimPolicy::Cat => return Order::None,
        };
        full.for_each(|pbn| order.add(pbn));
        order
    }

    /// Adds a block that was closed.
    pub(super) fn add(&mut self, pbn: u32) {
        match self {
            _ if !cfg!(feature = "full") => {}
            Order::None => {}
            Order::Closing(closing) => closing.push(pbn),
            Order::Drawing(drawing) => drawing.add(pbn),
        }
    }

    /// Removes a block that is no longer full.
    pub(super) fn remove(&mut self, pbn: u32) {
        match self {
            _ if !cfg!(feature = "full") => {}
            Order::None => {}
            Order::Closing(closing) => closing.remove(pbn),
            Order::Drawing(drawing) => drawing.remove(pbn),
        }
    }

    /// Chooses the block with the fewest valid pages among those that a policy looks at. `None` if the policy
    /// does not use this order, or finds only blocks with `all` pages valid.
    pub(super) fn choose(
        &mut self,
        policy: VictimPolicy,
        all: u32,
        valid: impl Fn(u32) -> u32,
    ) -> Option<u32> {
        match (self, policy) {
            (Order::Closing(closing), VictimPolicy::Fifo) => closing.fewest_of_oldest(1, all, valid),
            (Order::Closing(closing), VictimPolicy::Windowed { blocks }) => {
                closing.fewest_of_oldest(blocks, all, valid)
            }
            (Order::Drawing(drawing), VictimPolicy::Choices { count }) => {
                drawing.fewest_of_drawn(count, all, valid)
            }
            _ => None,
        }
    }

    /// Rank of each block in the order of closing; empty if that order is not kept.
    pub(super) fn ranks(&self, blocks: usize) -> Vec<u32> {
        let Order::Closing(closing) = self else { return Vec::new() };
        if !cfg!(feature = "full") {
            return Vec::new();
        }
        let mut ranks = vec![0; blocks];
        (1..).zip(closing.iter()).for_each(|(rank, pbn)| ranks[pbn as usize] = rank);
        ranks
    }

    /// Bytes of RAM held, with those for the ranks while a checkpoint is written or read.
    pub(super) fn ram_bytes(&self) -> usize {
        match self {
            Order::None => 0,
            Order::Closing(closing) => closing.links.len() * CLOSING_BYTES,
            Order::Drawing(drawing) => drawing.places.len() * DRAWING_BYTES,
        }
    }

    /// Bytes of RAM of the order that a policy needs, for `blocks` blocks.
    pub(super) const fn ram_needed(policy: VictimPolicy, blocks: u32) -> usize {
        let each = match policy {
            VictimPolicy::Fifo | VictimPolicy::Windowed { .. } => CLOSING_BYTES,
            VictimPolicy::Choices { .. } => DRAWING_BYTES,
            VictimPolicy::Greedy | VictimPolicy::CostBenefit | VictimPolicy::Cat => 0,
        };
        blocks as usize * each
    }
}

/// Bytes of RAM for each block in the order of closing; [`DRAWING_BYTES`] for drawing.
const CLOSING_BYTES: usize = size_of::<Link>() + size_of::<(u32, u32)>();
const DRAWING_BYTES: usize = 2 * size_of::<u32>();

#[derive(Clone, Copy, Debug)]
struct Link {
    before: u32,
    after: u32,
}

/// Full blocks, in the order in which they were closed.
#[derive(Clone, Debug)]
pub(super) struct Closing {
    links: Vec<Link>,
    first: u32,
    last: u32,
}

impl Closing {
    fn new(blocks: usize) -> Closing {
        Closing { links: vec![Link { before: NONE, after: NONE }; blocks], first: NONE, last: NONE }
    }

    fn push(&mut self, pbn: u32) {
        debug_assert!(
            self.first != pbn && self.last != pbn,
            "T3: block {pbn} is in the order of closing twice"
        );
        self.links[pbn as usize] = Link { before: self.last, after: NONE };
        match self.links.get_mut(self.last as usize) {
            Some(last) => last.after = pbn,
            None => self.first = pbn,
        }
        self.last = pbn;
    }

    fn remove(&mut self, pbn: u32) {
        let Link { before, after } = self.links[pbn as usize];
        debug_assert!(
            before == NONE || self.links[before as usize].after == pbn,
            "T3: block {pbn} has no place"
        );
        debug_assert!(
            after == NONE || self.links[after as usize].before == pbn,
            "T3: block {pbn} has no place"
        );
        match self.links.get_mut(before as usize) {
            Some(link) => link.after = after,
            None => {
                assert!(self.first == pbn, "T3: block {pbn} is not in the order of closing");
                self.first = after;
            }
        }
        match self.links.get_mut(after as usize) {
            Some(link) => link.before = before,
            None => self.last = before,
        }
    }

    /// Moves the block closed first to the end.
    fn rotate(&mut self) {
        let first = self.first;
        debug_assert_ne!(first, NONE, "T3: no block was closed");
        self.remove(first);
        self.push(first);
    }

    /// Iterates over the blocks, the one closed first in front.
    fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let next = |pbn: u32| Some(pbn).filter(|&pbn| pbn != NONE);
        core::iter::successors(next(self.first), move |&pbn| next(self.links[pbn as usize].after))
    }

    /// Block with the fewest valid pages among the `window` closed first. Blocks at the front with all pages
    /// valid go to the end first. `None` only if there is no block; another block must have an invalid page.
    fn fewest_of_oldest(&mut self, window: u32, all: u32, valid: impl Fn(u32) -> u32) -> Option<u32> {
        while valid(self.iter().next()?) == all {
            self.rotate();
        }
        // `min_by_key` keeps the first of equals: the one closed first.
        self.iter().take(window.max(1) as usize).min_by_key(|&pbn| valid(pbn))
    }
}

/// Full blocks in any order, to choose one at random.
#[derive(Clone, Debug)]
pub(super) struct Drawing {
    full: Vec<u32>,
    /// Place of each block in `full`.
    places: Vec<u32>,
    rng: Rng,
}

impl Drawing {
    fn new(blocks: usize, seed: u64) -> Drawing {
        Drawing { full: Vec::with_capacity(blocks), places: vec![NONE; blocks], rng: Rng::new(seed) }
    }

    fn add(&mut self, pbn: u32) {
        debug_assert_eq!(self.places[pbn as usize], NONE, "T3: block {pbn} is to be drawn twice");
        self.places[pbn as usize] = self.full.len() as u32;
        self.full.push(pbn);
    }

    fn remove(&mut self, pbn: u32) {
        let place = core::mem::replace(&mut self.places[pbn as usize], NONE);
        let found = self.full.get(place as usize) == Some(&pbn);
        assert!(found, "T3: block {pbn} is not among those to draw from");
        self.full.swap_remove(place as usize);
        if let Some(&moved) = self.full.get(place as usize) {
            self.places[moved as usize] = place;
        }
    }

    /// Draws a full block, evenly at random.
    fn draw(&mut self) -> Option<u32> {
        let count = self.full.len() as u64;
        (count > 0).then(|| self.full[self.rng.below(count) as usize])
    }

    /// Block with the fewest valid pages among `count` drawn ones. Blocks with all pages valid do not count.
    /// `None` if the draws find no other.
    fn fewest_of_drawn(&mut self, count: u32, all: u32, valid: impl Fn(u32) -> u32) -> Option<u32> {
        let count = count.max(1) as usize;
        let drawn = (0..DRAWS_PER_CHOICE * count).filter_map(|_| self.draw());
        drawn.filter(|&pbn| valid(pbn) < all).take(count).min_by_key(|&pbn| valid(pbn))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "full")]
    #[test]
    fn blocks_are_kept_in_the_order_of_closing() {
        let mut order = Order::new(VictimPolicy::Fifo, 8, [5, 1, 7, 2].into_iter(), 0);
        order.remove(7);
        order.remove(5);
        order.add(5);
        let Order::Closing(closing) = &mut order else { panic!("{order:?}") };
        assert!(closing.iter().eq([1, 2, 5]));
        closing.rotate();
        assert!(closing.iter().eq([2, 5, 1]));
        [2, 1, 5].into_iter().for_each(|pbn| closing.remove(pbn));
        assert_eq!(closing.iter().count(), 0);
        closing.push(3);
        assert!(closing.iter().eq([3]));
    }

    #[cfg(feature = "full")]
    #[test]
    fn every_full_block_is_drawn_equally_often() {
        let mut order = Order::new(VictimPolicy::Choices { count: 2 }, 16, (0..12).chain([13, 15]), 4);
        [0, 13, 6, 15].into_iter().for_each(|pbn| order.remove(pbn));
        order.add(0);
        let Order::Drawing(drawing) = &mut order else { panic!("{order:?}") };
        let mut drawn = [0; 16];
        (0..11_000).for_each(|_| drawn[drawing.draw().unwrap() as usize] += 1);
        for (pbn, count) in drawn.into_iter().enumerate() {
            let is_full = pbn < 12 && pbn != 6;
            assert!(if is_full { (850..1150).contains(&count) } else { count == 0 }, "{pbn}: {count}");
        }
        (0..12).filter(|&pbn| pbn != 6).for_each(|pbn| drawing.remove(pbn));
        assert_eq!(drawing.draw(), None);
    }
}

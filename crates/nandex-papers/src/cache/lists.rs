//! Several doubly linked lists over the same nodes. Each node is in at most one list. All operations take
//! constant time.

use alloc::vec;
use alloc::vec::Vec;

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Link {
    before: u32,
    after: u32,
    list: u32,
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    first: u32,
    last: u32,
    len: u32,
}

/// Lists `0..lists` over nodes `0..nodes`.
#[derive(Clone, Debug)]
pub(super) struct Lists {
    links: Vec<Link>,
    ends: Vec<Ends>,
}

impl Lists {
    pub(super) fn new(nodes: usize, lists: usize) -> Lists {
        Lists {
            links: vec![Link { before: NONE, after: NONE, list: NONE }; nodes],
            ends: vec![Ends { first: NONE, last: NONE, len: 0 }; lists],
        }
    }

    fn insert(&mut self, list: u32, node: u32, (before, after): (u32, u32)) {
        assert!(self.links[node as usize].list == NONE, "node {node} is in a list already");
        self.links[node as usize] = Link { before, after, list };
        match before {
            NONE => self.ends[list as usize].first = node,
            before => self.links[before as usize].after = node,
        }
        match after {
            NONE => self.ends[list as usize].last = node,
            after => self.links[after as usize].before = node,
        }
        self.ends[list as usize].len += 1;
        debug_assert!(
            before == NONE || self.links[before as usize].list == list,
            "a neighbour of another list"
        );
        debug_assert!(
            after == NONE || self.links[after as usize].list == list,
            "a neighbour of another list"
        );
        debug_assert!(self.ends[list as usize].len as usize <= self.links.len(), "more nodes than there are");
    }

    pub(super) fn push_first(&mut self, list: u32, node: u32) {
        let after = self.ends[list as usize].first;
        self.insert(list, node, (NONE, after));
    }

    pub(super) fn push_last(&mut self, list: u32, node: u32) {
        let before = self.ends[list as usize].last;
        self.insert(list, node, (before, NONE));
    }

    /// Removes a node from its list. Returns the number of the list.
    pub(super) fn remove(&mut self, node: u32) -> u32 {
        let Link { before, after, list } = self.links[node as usize];
        assert!(list != NONE, "node {node} is in no list");
        match before {
            NONE => self.ends[list as usize].first = after,
            before => self.links[before as usize].after = after,
        }
        match after {
            NONE => self.ends[list as usize].last = before,
            after => self.links[after as usize].before = before,
        }
        self.ends[list as usize].len -= 1;
        self.links[node as usize].list = NONE;
        let ends = self.ends[list as usize];
        debug_assert!(
            (ends.len == 0) == (ends.first == NONE && ends.last == NONE),
            "list {list} and its ends"
        );
        list
    }

    /// Moves a node to the front of a list, which may be its own.
    pub(super) fn move_first(&mut self, list: u32, node: u32) {
        self.remove(node);
        self.push_first(list, node);
    }

    pub(super) fn list_of(&self, node: u32) -> Option<u32> {
        named(self.links[node as usize].list)
    }

    pub(super) fn first(&self, list: u32) -> Option<u32> {
        named(self.ends[list as usize].first)
    }

    pub(super) fn last(&self, list: u32) -> Option<u32> {
        named(self.ends[list as usize].last)
    }

    /// The next node towards the front of the list.
    pub(super) fn before(&self, node: u32) -> Option<u32> {
        named(self.links[node as usize].before)
    }

    /// The next node towards the end of the list.
    pub(super) fn after(&self, node: u32) -> Option<u32> {
        named(self.links[node as usize].after)
    }

    pub(super) fn len(&self, list: u32) -> usize {
        self.ends[list as usize].len as usize
    }

    pub(super) fn iter(&self, list: u32) -> impl Iterator<Item = u32> + '_ {
        core::iter::successors(self.first(list), |&node| self.after(node))
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.links.len() * size_of::<Link>() + self.ends.len() * size_of::<Ends>()
    }
}

fn named(number: u32) -> Option<u32> {
    (number != NONE).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandex::rng::Rng;

    #[test]
    fn they_are_sequences() {
        let mut rng = Rng::new(2);
        let mut lists = Lists::new(9, 3);
        let mut model: [Vec<u32>; 3] = Default::default();
        for _ in 0..20_000 {
            let (node, list) = (rng.below(9) as u32, rng.below(3) as u32);
            let at = (0..3u32).find(|&l| model[l as usize].contains(&node));
            assert_eq!(lists.list_of(node), at);
            if let Some(at) = at {
                assert_eq!(lists.remove(node), at);
                model[at as usize].retain(|&n| n != node);
            } else if rng.chance(1, 2) {
                lists.push_first(list, node);
                model[list as usize].insert(0, node);
            } else {
                lists.push_last(list, node);
                model[list as usize].push(node);
            }
            for list in 0..3 {
                let expected = &model[list as usize];
                assert_eq!(&lists.iter(list).collect::<Vec<_>>(), expected);
                assert_eq!(
                    (lists.first(list), lists.last(list)),
                    (expected.first().copied(), expected.last().copied())
                );
                assert_eq!(lists.len(list), expected.len());
                let back = core::iter::successors(lists.last(list), |&n| lists.before(n));
                assert!(back.eq(expected.iter().rev().copied()));
            }
        }
    }
}

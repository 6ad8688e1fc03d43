//! Queues of nodes in the order of their last use, between which a node may move and keep its place in that
//! order.
//!
//! A node that is newer or older than all of a queue goes to an end of a list, in constant time: that is
//! every use, and every page pushed out of one queue into the next. Others, such as a page that was flushed
//! and joins the clean ones, go to a sorted set beside the list (logarithmic in what is in it). The oldest
//! node is the older of the two ends.

use super::lists::Lists;
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;

const NONE: u32 = u32::MAX;

/// Queues `0..queues` over nodes `0..nodes`.
#[derive(Clone, Debug)]
pub(super) struct UseQueues {
    lists: Lists,
    /// For each queue: nodes that came out of order, as last use and node.
    late: Vec<BTreeSet<(u64, u32)>>,
    used: Vec<u64>,
    queue: Vec<u32>,
    now: u64,
}

impl UseQueues {
    pub(super) fn new(nodes: usize, queues: usize) -> UseQueues {
        UseQueues {
            lists: Lists::new(nodes, queues),
            late: vec![BTreeSet::new(); queues],
            used: vec![0; nodes],
            queue: vec![NONE; nodes],
            now: 0,
        }
    }

    /// Puts a node that is in no queue into `queue`, and counts it as used now.
    pub(super) fn push(&mut self, queue: u32, node: u32) {
        self.now += 1;
        self.used[node as usize] = self.now;
        self.put(queue, node);
    }

    /// Puts a node that is in no queue into `queue`, at the place of its last use.
    pub(super) fn put(&mut self, queue: u32, node: u32) {
        assert!(self.queue[node as usize] == NONE, "node {node} is in a queue already");
        self.queue[node as usize] = queue;
        let used = self.used[node as usize];
        debug_assert!(used <= self.now, "node {node} was used in the future");
        let is_before = |other: Option<u32>| other.is_none_or(|other| self.used[other as usize] < used);
        if is_before(self.lists.first(queue)) {
            self.lists.push_first(queue, node);
        } else if !is_before(self.lists.last(queue)) {
            self.lists.push_last(queue, node);
        } else {
            self.late[queue as usize].insert((used, node));
        }
    }

    /// Removes a node from its queue. Returns the number of the queue.
    pub(super) fn remove(&mut self, node: u32) -> u32 {
        let queue = core::mem::replace(&mut self.queue[node as usize], NONE);
        debug_assert_ne!(queue, NONE, "node {node} is in no queue");
        if self.lists.list_of(node).is_some() {
            self.lists.remove(node);
        } else {
            let late = &mut self.late[queue as usize];
            assert!(late.remove(&(self.used[node as usize], node)), "node {node} is in no queue");
        }
        queue
    }

    /// Moves a node to a queue, which may be its own, and counts it as used now.
    pub(super) fn touch(&mut self, queue: u32, node: u32) {
        self.remove(node);
        self.push(queue, node);
    }

    /// Moves a node to another queue, at the place of its last use.
    pub(super) fn shift(&mut self, queue: u32, node: u32) {
        self.remove(node);
        self.put(queue, node);
    }

    pub(super) fn queue_of(&self, node: u32) -> Option<u32> {
        let queue = self.queue[node as usize];
        (queue != NONE).then_some(queue)
    }

    /// Time of a node's last use, counted in uses of all nodes.
    pub(super) fn used(&self, node: u32) -> u64 {
        self.used[node as usize]
    }

    pub(super) fn now(&self) -> u64 {
        self.now
    }

    pub(super) fn oldest(&self, queue: u32) -> Option<u32> {
        let listed = self.lists.last(queue).map(|node| (self.used(node), node));
        let late = self.late[queue as usize].first().copied();
        listed.into_iter().chain(late).min().map(|(_, node)| node)
    }

    pub(super) fn newest(&self, queue: u32) -> Option<u32> {
        let listed = self.lists.first(queue).map(|node| (self.used(node), node));
        let late = self.late[queue as usize].last().copied();
        listed.into_iter().chain(late).max().map(|(_, node)| node)
    }

    pub(super) fn len(&self, queue: u32) -> usize {
        self.lists.len(queue) + self.late[queue as usize].len()
    }

    /// Bytes of RAM held. A set counts as its entries and half as much again for the tree around them.
    pub(super) fn ram_bytes(&self) -> usize {
        // A frame is in one queue, so there are never more late ones than frames.
        let late = self.used.len();
        self.lists.ram_bytes()
            + self.late.len() * size_of::<BTreeSet<(u64, u32)>>()
            + late * size_of::<(u64, u32)>() * 3 / 2
            + self.used.len() * (size_of::<u64>() + size_of::<u32>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandex::rng::Rng;

    #[test]
    fn a_node_that_moves_keeps_its_place() {
        let mut rng = Rng::new(6);
        let mut queues = UseQueues::new(12, 3);
        // Queue and node, least recently used first.
        let mut model: Vec<(u32, u32)> = Vec::new();
        for _ in 0..30_000 {
            let (node, queue) = (rng.below(12) as u32, rng.below(3) as u32);
            match model.iter().position(|&(_, n)| n == node) {
                None => {
                    queues.push(queue, node);
                    model.push((queue, node));
                }
                Some(i) if rng.chance(1, 3) => {
                    queues.shift(queue, node);
                    model[i].0 = queue;
                }
                Some(i) if rng.chance(1, 3) => {
                    assert_eq!(queues.remove(node), model.remove(i).0);
                }
                Some(i) => {
                    queues.touch(queue, node);
                    model.remove(i);
                    model.push((queue, node));
                }
            }
            for queue in 0..3 {
                let mut nodes = model.iter().filter(|&&(q, _)| q == queue).map(|&(_, n)| n);
                assert_eq!(queues.len(queue), nodes.clone().count());
                assert_eq!(queues.oldest(queue), nodes.next());
                assert_eq!(queues.newest(queue), nodes.next_back().or(queues.oldest(queue)));
            }
            let queue = model.iter().find(|&&(_, n)| n == node).map(|&(q, _)| q);
            assert_eq!(queues.queue_of(node), queue);
        }
    }
}

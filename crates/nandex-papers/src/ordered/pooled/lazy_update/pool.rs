//! The pool: requests by key, groups of requests by leaf, and the groups by rank of the commit policy.
//!
//! All are in tables of a fixed number of slots, made once. A request takes its key, its value, a word of
//! state and 8 bytes of order. A group takes the two bounds of its leaf, its size, its stamp and 8 bytes of
//! order; for *cost-based* also the known facts of its leaf. A group has no list of members: these are the
//! requests between its bounds. There is no directory of groups either: if a key's leaf has a group, the
//! request before or after the key belongs to it.

mod check;
mod groups;
mod regroup;
mod requests;

use super::policy::CommitPolicy;
use super::settings::PoolSetup;
use crate::ordered::buffered::{Below, Order};
use groups::Groups;
use nandex::ordered::RecordFormat;
use nandex::ordered::bplus::ground::LeafSpan;
use nandex::ordered::change::Change;
use requests::Requests;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PoolCounts {
    /// Requests whose group was in the pool.
    pub(super) hits: u64,
    /// Requests that opened a new group.
    pub(super) misses: u64,
    /// Pairs of an insertion and a removal of the same key that cancelled.
    pub(super) cancellations: u64,
    /// Requests moved to another group.
    #[cfg(test)]
    pub(super) moves: u64,
}

/// The requests of a pool and a new one, counted by what they may need in the tree.
#[derive(Clone, Copy, Debug)]
pub struct Demand {
    /// Requests that may add a record.
    pub(in crate::ordered) additions: u64,
    /// Requests that cannot add a record.
    pub(in crate::ordered) others: u64,
    /// Number of groups, including that of the new request.
    pub(in crate::ordered) groups: u64,
}

impl Demand {
    /// This demand with two more splits, which a tree may make although it need not.
    pub(super) fn with_spare(self) -> Demand {
        Demand { additions: self.additions + 2, groups: self.groups + 2, ..self }
    }

    /// Largest number of leaf splits if all these requests are committed; `capacity` is that of a leaf.
    /// Each split needs an addition. It ends the commit of a group, or it follows as many additions as a
    /// leaf holds and leaves at most two groups. Evening out two leaves needs a removal and may make one
    /// more group.
    pub(in crate::ordered) fn leaf_splits_max(self, capacity: usize) -> u64 {
        let Demand { additions, others, groups } = self;
        additions.min(groups + others + 2 * additions / capacity as u64)
    }
}

/// The waiting requests and their groups, two tables kept in step, with counters of updates.
#[derive(Debug)]
pub(in crate::ordered) struct Pool {
    pub(super) requests: Requests,
    pub(super) groups: Groups,
    pub(super) counts: PoolCounts,
}

/// Groups, beyond one for each request, that a regrouping may need before it has emptied the old ones.
const SPARE_GROUPS: usize = 2;

impl Pool {
    /// Makes an empty pool, with a group for each leaf or one for all requests.
    pub(super) fn new(record: RecordFormat, setup: PoolSetup, by_leaf: bool) -> Pool {
        let PoolSetup { requests, policy, pairs, .. } = setup;
        Pool {
            requests: Requests::new(record, pairs, requests),
            groups: Groups::new(policy, record.key_bytes, Pool::groups_max(requests, by_leaf)),
            counts: PoolCounts::default(),
        }
    }

    const fn groups_max(capacity: u32, by_leaf: bool) -> usize {
        SPARE_GROUPS + if by_leaf { capacity as usize } else { 1 }
    }

    pub(super) fn held_bytes(&self) -> usize {
        let slots = (self.requests.capacity(), self.groups.capacity());
        Pool::bytes(self.requests.record, self.groups.policy, slots)
    }

    /// Bytes of RAM of a pool, with a group for each leaf or one for all requests.
    pub(in crate::ordered) const fn ram_bytes(
        record: RecordFormat,
        setup: &PoolSetup,
        by_leaf: bool,
    ) -> usize {
        let groups = Pool::groups_max(setup.requests, by_leaf);
        Pool::bytes(record, setup.policy, (setup.requests as usize, groups))
    }

    const fn bytes(record: RecordFormat, policy: CommitPolicy, slots: (usize, usize)) -> usize {
        size_of::<Pool>()
            + 2 * Order::directory_bytes(1)
            + slots.0 * Requests::slot_bytes(record)
            + slots.1 * Groups::slot_bytes(policy, record.key_bytes)
    }

    /// The demand on the tree of all requests, and of one more that adds a record.
    pub(super) fn demand(&self) -> Demand {
        let (all, additions) = (self.requests.len() as u64, u64::from(self.requests.additions()));
        let groups = self.groups.len() as u64 + 1;
        Demand { additions: additions + 1, others: all - additions, groups }
    }

    /// Counts a read of the leaf of a key that has no request.
    pub(super) fn note_read(&mut self, key: &[u8]) {
        if let Some(group) = self.group_of_key(key) {
            self.groups.note_read(group);
        }
    }

    /// The group for the leaf of a key, if the pool has one. The key must have no request.
    pub(super) fn group_of_key(&self, key: &[u8]) -> Option<u32> {
        let near = [self.requests.previous(key), self.requests.next(key)];
        let groups = near.into_iter().flatten().map(|slot| self.requests.group_of(slot));
        groups.into_iter().find(|&group| self.groups.contains(group, key))
    }

    pub(super) fn first_of(&self, group: u32) -> Option<u32> {
        let (low, _) = self.groups.bounds(group);
        let first = low.map_or_else(|| self.requests.first(), |low| self.requests.next(low));
        first.filter(|&slot| self.requests.group_of(slot) == group)
    }

    /// The requests of a group as changes for the tree, in the order of keys.
    pub(super) fn changes(&self, group: u32) -> impl Iterator<Item = Change<'_>> + Clone {
        let requests = &self.requests;
        self.members(group).map(|slot| Change { key: requests.key(slot), value: requests.value(slot) })
    }

    pub(super) fn members(&self, group: u32) -> impl Iterator<Item = u32> + Clone {
        let walk = self.requests.walk(self.first_of(group));
        walk.take_while(move |&slot| self.requests.group_of(slot) == group)
    }

    /// Number of updates so far.
    pub(super) fn updates(&self) -> u64 {
        self.counts.hits + self.counts.misses
    }

    /// Adds a request to the group of its leaf. If the pool has no such group, a new one is made from
    /// `leaf`: the span of its keys and, if counted, its number of entries. The pool must not be full.
    pub(super) fn add(&mut self, change: Change<'_>, below: Below, leaf: Option<(&LeafSpan, Option<usize>)>) {
        debug_assert!(self.requests.find(change.key).is_none(), "P1: two requests for one key");
        let group = match (self.group_of_key(change.key), leaf) {
            (Some(group), _) => {
                self.counts.hits += 1;
                group
            }
            (None, Some((span, entries))) => {
                assert!(span.contains(change.key), "P2: the key lies outside its leaf");
                self.counts.misses += 1;
                self.groups.open((span.low.as_deref(), span.high.as_deref()), entries, self.updates())
            }
            (None, None) => unreachable!("P1: a request has a group"),
        };
        let slot = self.requests.insert(change, below, group);
        self.groups.join(group, self.requests.growth(slot), self.updates());
    }

    /// Replaces the request of a key by a newer one, or removes both if they cancel.
    pub(super) fn amend(&mut self, slot: u32, value: Option<&[u8]>) {
        let group = self.requests.group_of(slot);
        debug_assert!(self.groups.size(group) > 0, "P1: request {slot} is of an empty group");
        self.counts.hits += 1;
        self.groups.hit(group, self.updates());
        if self.requests.cancels(slot, value.is_some()) {
            self.counts.cancellations += 1;
            self.remove(slot);
        } else {
            let before = self.requests.growth(slot);
            self.requests.set_value(slot, value);
            let growth = self.requests.growth(slot) - before;
            if growth != 0 {
                self.groups.grow(group, growth);
            }
        }
    }

    pub(super) fn remove(&mut self, slot: u32) {
        self.groups.leave(self.requests.group_of(slot), self.requests.growth(slot));
        self.requests.remove(slot);
    }

    /// Removes the first `count` requests of a group, because they were committed.
    pub(super) fn remove_first(&mut self, group: u32, count: usize) {
        let size = self.groups.size(group);
        debug_assert!(count <= size as usize, "P1: {count} requests of {size}");
        let mut next = self.first_of(group);
        for _ in 0..count {
            let Some(slot) = next else { unreachable!("P1: a group has the requests it counts") };
            next = self.requests.after(slot);
            self.remove(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::settings::Pairs;
    use super::*;

    #[test]
    fn the_tables_take_what_is_said_and_never_grow() {
        assert_tables(CommitPolicy::Lru);
        assert_tables(CommitPolicy::CostBased);
    }

    fn assert_tables(policy: CommitPolicy) {
        let record = RecordFormat::new(4, 4);
        let setup = PoolSetup { requests: 50, policy, answers: Default::default(), pairs: Pairs::Known };
        let mut pool = Pool::new(record, setup, true);
        let span = LeafSpan { low: None, high: None };
        for round in 0..3u32 {
            while let Some(slot) = pool.requests.first() {
                pool.remove(slot);
            }
            for n in 0..50u32 {
                let key = (n * 7 + round).to_be_bytes();
                pool.add(Change { key: &key, value: Some(&[0; 4]) }, Below::Absent, Some((&span, Some(3))));
            }
        }
        let held = pool.requests.table_bytes() + pool.groups.table_bytes() + 2 * Order::directory_bytes(1);
        assert_eq!(size_of::<Pool>() + held, Pool::ram_bytes(record, &setup, true));
        assert_eq!((pool.requests.is_full(), pool.groups.len(), pool.counts.misses), (true, 1, 3));
    }
}

//! The pool: requests by key, groups of them by the leaf they are for, and the groups by rank of the commit
//! policy.
//!
//! Everything lies in tables of a fixed number of slots, made once: a request takes its key, its value, a
//! word of state and 8 bytes of order; a group takes the two bounds of its leaf, its size and its stamp and 8
//! bytes of order, and for *cost-based* what is known of its leaf. A group has no list of members: they are
//! the requests between its bounds. Nor is there a directory of groups: if a key's leaf has a group, the
//! request before or after the key is of it.

mod check;
mod regroup;

use super::policy::{CommitPolicy, Rank, leaves_written};
use super::settings::{Pairs, PoolSetup};
use crate::ordered::RecordFormat;
use crate::ordered::bplus::LeafSpan;
use crate::ordered::buffered::{Below, Order};
use crate::ordered::change::Change;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Ordering;

#[derive(Clone, Copy, Debug)]
struct Request {
    group: u32,
    /// Whether it puts a value; else it removes the key.
    is_put: bool,
    below: Below,
}

#[derive(Clone, Copy, Debug)]
struct Group {
    size: u32,
    has_low: bool,
    has_high: bool,
    /// Reads of its leaf while it waited, where the tree counts them.
    reads: u16,
    /// When it was hit last (*FIFO*: when it came).
    stamp: u64,
}

/// The leaf of a group as *cost-based* sees it.
#[derive(Clone, Copy, Debug)]
struct LeafFill {
    /// Whether its entries were counted.
    is_counted: bool,
    /// Entries that it will have after the commit; how many more than now, where they were not counted.
    entries: i32,
    /// Leaves that the commit writes, by which the group is ranked; one at least.
    leaves: u32,
}

/// The counters of a pool.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PoolCounts {
    /// Requests that found their group in the pool.
    pub(super) hits: u64,
    /// Requests that opened a group.
    pub(super) misses: u64,
    /// Insertions and removals of the same key that met and left together.
    pub(super) cancellations: u64,
    /// Requests that were moved to another group.
    #[cfg(test)]
    pub(super) moves: u64,
}

/// The number of requests in a pool, and of one more, by what they may ask of the tree.
#[derive(Clone, Copy, Debug)]
pub struct Demand {
    /// Requests that may add a record.
    pub(in crate::ordered) additions: u64,
    /// Requests that cannot.
    pub(in crate::ordered) others: u64,
    /// Groups, the new one included.
    pub(in crate::ordered) groups: u64,
}

impl Demand {
    /// This demand and two splits more, that a tree may make where it need not.
    pub(super) fn with_spare(self) -> Demand {
        Demand { additions: self.additions + 2, groups: self.groups + 2, ..self }
    }

    /// The most leaves, of this capacity, that split when all requests are committed and one more. Every
    /// split takes an addition. It ends the commit of a group, or comes after as many additions as a leaf
    /// holds and leaves two groups at most; and evening out two leaves, which takes a removal, may make one
    /// group more.
    pub(in crate::ordered) fn leaf_splits_max(self, capacity: usize) -> u64 {
        let Demand { additions, others, groups } = self;
        additions.min(groups + others + 2 * additions / capacity as u64)
    }
}

/// Requests that wait to be committed.
#[derive(Debug)]
pub(in crate::ordered) struct Pool {
    record: RecordFormat,
    policy: CommitPolicy,
    pairs: Pairs,
    entries: Vec<u8>,
    requests: Vec<Request>,
    by_key: Order,
    free_requests: Vec<u32>,
    bounds: Vec<u8>,
    groups: Vec<Group>,
    /// For each group, where the policy asks for it.
    fills: Vec<LeafFill>,
    /// The fewest and the most entries of a leaf.
    leaf_bounds: (u32, u32),
    by_rank: Order,
    /// The number of each group: of groups of the same rank the lowest is the first. A slot keeps its
    /// requests and may change its number.
    numbers: Vec<u32>,
    /// The slot that the next group takes; free ones name one another by their stamps.
    free_group: u32,
    groups_used: u32,
    /// Requests that may add a record to the tree.
    additions: u32,
    clock: u64,
    pub(super) counts: PoolCounts,
}

/// A regrouping makes two groups at most before it has emptied the old ones.
const SPARE_GROUPS: usize = 2;

impl Request {
    /// Whether it may add a record to the tree, now or when a newer one takes its place.
    fn may_add(&self) -> bool {
        self.below != Below::Present
    }
}

impl Pool {
    /// An empty pool, with groups by leaf or with one for all requests.
    pub(super) fn new(record: RecordFormat, setup: PoolSetup, by_leaf: bool) -> Pool {
        let PoolSetup { requests: capacity, policy, pairs, .. } = setup;
        let slots = capacity as usize;
        let groups = Pool::groups_max(capacity, by_leaf);
        let fill = LeafFill { is_counted: false, entries: 0, leaves: 1 };
        Pool {
            record,
            policy,
            pairs,
            entries: vec![0; slots * record.entry_bytes()],
            requests: vec![Request { group: 0, is_put: false, below: Below::Unknown }; slots],
            by_key: Order::new(slots),
            free_requests: (0..capacity).rev().collect(),
            bounds: vec![0; groups * 2 * usize::from(record.key_bytes)],
            groups: (1..=groups as u64)
                .map(|next| Group { size: 0, has_low: false, has_high: false, reads: 0, stamp: next })
                .collect(),
            fills: vec![fill; if policy == CommitPolicy::CostBased { groups } else { 0 }],
            leaf_bounds: (0, 1),
            by_rank: Order::new(groups),
            numbers: (0..groups as u32).collect(),
            free_group: 0,
            groups_used: 0,
            additions: 0,
            clock: 0,
            counts: PoolCounts::default(),
        }
    }

    const fn groups_max(capacity: u32, by_leaf: bool) -> usize {
        SPARE_GROUPS + if by_leaf { capacity as usize } else { 1 }
    }

    /// Bytes of RAM that this pool takes.
    pub(super) fn held_bytes(&self) -> usize {
        let setup = PoolSetup {
            requests: self.capacity() as u32,
            policy: self.policy,
            answers: Default::default(),
            pairs: self.pairs,
        };
        Pool::ram_bytes(self.record, &setup, self.groups.len() == self.capacity() + SPARE_GROUPS)
    }

    /// Bytes of RAM that a pool takes, with groups by leaf or with one for all requests.
    pub(in crate::ordered) const fn ram_bytes(
        record: RecordFormat,
        setup: &PoolSetup,
        by_leaf: bool,
    ) -> usize {
        let PoolSetup { requests: capacity, policy, .. } = *setup;
        let request = record.entry_bytes() + size_of::<Request>() + Order::slot_bytes() + size_of::<u32>();
        let fill = if matches!(policy, CommitPolicy::CostBased) { size_of::<LeafFill>() } else { 0 };
        let group = 2 * record.key_bytes as usize
            + size_of::<Group>()
            + fill
            + Order::slot_bytes()
            + size_of::<u32>();
        size_of::<Pool>()
            + 2 * Order::directory_bytes(1)
            + capacity as usize * request
            + Pool::groups_max(capacity, by_leaf) * group
    }

    pub(super) fn len(&self) -> usize {
        self.requests.len() - self.free_requests.len()
    }

    pub(super) fn capacity(&self) -> usize {
        self.requests.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.free_requests.is_empty()
    }

    /// The demand of all requests, and one more that adds a record, on the tree.
    pub(super) fn demand(&self) -> Demand {
        let additions = u64::from(self.additions);
        let groups = self.group_count() as u64 + 1;
        debug_assert!(additions <= self.len() as u64, "P5: {additions} additions of {}", self.len());
        Demand { additions: additions + 1, others: self.len() as u64 - additions, groups }
    }

    /// Notes that the leaf of a key without a request was read.
    pub(super) fn note_read(&mut self, key: &[u8]) {
        if let Some(group) = self.group_of_key(key) {
            let reads = &mut self.groups[group as usize].reads;
            *reads = reads.saturating_add(1);
        }
    }

    /// How often the leaf of a group was read meanwhile.
    pub(super) fn reads(&self, group: u32) -> u16 {
        self.groups[group as usize].reads
    }

    pub(super) fn group_count(&self) -> usize {
        self.groups_used as usize
    }

    pub(super) fn key(&self, slot: u32) -> &[u8] {
        &self.entries[slot as usize * self.record.entry_bytes()..][..usize::from(self.record.key_bytes)]
    }

    /// The value that a request puts; none when it removes the key.
    pub(super) fn value(&self, slot: u32) -> Option<&[u8]> {
        let (entry, key) = (self.record.entry_bytes(), usize::from(self.record.key_bytes));
        let value = &self.entries[slot as usize * entry..][key..entry];
        self.requests[slot as usize].is_put.then_some(value)
    }

    pub(super) fn below(&self, slot: u32) -> Below {
        debug_assert!((slot as usize) < self.requests.len(), "P1: no request {slot}");
        self.requests[slot as usize].below
    }

    /// The request for a key.
    pub(super) fn find(&self, key: &[u8]) -> Option<u32> {
        self.by_key.find(|slot| self.key(slot).cmp(key))
    }

    /// The first request whose key is not below `key`.
    pub(super) fn next(&self, key: &[u8]) -> Option<u32> {
        self.by_key.next(|slot| self.key(slot).cmp(key))
    }

    /// The last request whose key is not above `key`.
    pub(super) fn previous(&self, key: &[u8]) -> Option<u32> {
        self.by_key.previous(|slot| self.key(slot).cmp(key))
    }

    /// The request after one in key order.
    pub(super) fn after(&self, slot: u32) -> Option<u32> {
        let key = self.key(slot);
        self.by_key.next(|at| self.key(at).cmp(key).then(Ordering::Less))
    }

    /// The request before one in key order.
    pub(super) fn before(&self, slot: u32) -> Option<u32> {
        let key = self.key(slot);
        self.by_key.previous(|at| self.key(at).cmp(key).then(Ordering::Greater))
    }

    /// The first request of all.
    pub(super) fn first(&self) -> Option<u32> {
        self.by_key.next(|_| Ordering::Greater)
    }

    /// The last request of all.
    pub(super) fn last(&self) -> Option<u32> {
        self.by_key.previous(|_| Ordering::Less)
    }

    /// The group of the leaf of a key that has no request.
    pub(super) fn group_of_key(&self, key: &[u8]) -> Option<u32> {
        let near = [self.previous(key), self.next(key)];
        let groups = near.into_iter().flatten().map(|slot| self.group_of(slot));
        groups.into_iter().find(|&group| self.contains(group, key))
    }

    pub(super) fn group_of(&self, slot: u32) -> u32 {
        debug_assert!((self.requests[slot as usize].group as usize) < self.groups.len(), "P1: no such group");
        self.requests[slot as usize].group
    }

    pub(super) fn size(&self, group: u32) -> u32 {
        self.groups[group as usize].size
    }

    fn bound(&self, group: u32, is_high: bool) -> &[u8] {
        let key = usize::from(self.record.key_bytes);
        &self.bounds[(2 * group as usize + usize::from(is_high)) * key..][..key]
    }

    fn contains(&self, group: u32, key: &[u8]) -> bool {
        let Group { has_low, has_high, .. } = self.groups[group as usize];
        (!has_low || self.bound(group, false) <= key) && (!has_high || key < self.bound(group, true))
    }

    /// The first request of a group.
    pub(super) fn first_of(&self, group: u32) -> Option<u32> {
        let first = if self.groups[group as usize].has_low {
            self.next(self.bound(group, false))
        } else {
            self.first()
        };
        first.filter(|&slot| self.group_of(slot) == group)
    }

    /// The requests of a group as changes of the tree, in key order.
    pub(super) fn changes(&self, group: u32) -> impl Iterator<Item = Change<'_>> + Clone {
        self.members(group).map(|slot| Change { key: self.key(slot), value: self.value(slot) })
    }

    /// The requests of a group in key order.
    pub(super) fn members(&self, group: u32) -> impl Iterator<Item = u32> + Clone {
        let first = self.first_of(group);
        let key = first.map_or(&[][..], |slot| self.key(slot));
        let walk = self.by_key.walk(|at| self.key(at).cmp(key), |a, b| self.key(a).cmp(self.key(b)));
        walk.take_while(move |&slot| first.is_some() && self.group_of(slot) == group)
    }

    /// Updates that came so far.
    pub(super) fn updates(&self) -> u64 {
        self.clock
    }

    /// The newest update in a group, if the policy keeps account of it.
    pub(super) fn newest(&self, group: u32) -> Option<u64> {
        (self.policy != CommitPolicy::Fifo).then(|| self.groups[group as usize].stamp)
    }

    /// The rank of a group under the policy; the least is the victim.
    pub(super) fn rank(&self, group: u32) -> Rank {
        let Group { size, stamp, .. } = self.groups[group as usize];
        let leaves = self.fills.get(group as usize).map_or(1, |fill| fill.leaves);
        (self.policy.price(size, leaves), stamp)
    }

    /// The place of a group in the order of ranks.
    fn place(&self, group: u32) -> (Rank, u32) {
        (self.rank(group), self.numbers[group as usize])
    }

    /// The group of least rank.
    pub(super) fn first_group(&self) -> Option<u32> {
        self.by_rank.next(|_| Ordering::Greater)
    }

    /// The group of next higher rank.
    pub(super) fn next_group(&self, group: u32) -> Option<u32> {
        let place = self.place(group);
        self.by_rank.next(|at| self.place(at).cmp(&place).then(Ordering::Less))
    }

    /// Changes the size, the stamp or the fill of a group and its rank with them.
    fn rerank(&mut self, group: u32, change: impl FnOnce(&mut Pool)) {
        let mut by_rank = core::mem::take(&mut self.by_rank);
        if self.size(group) > 0 {
            let old = self.place(group);
            by_rank.remove(group, |at| self.place(at).cmp(&old));
        }
        change(self);
        if let Some(fill) = self.fills.get_mut(group as usize) {
            let entries = i64::from(if fill.is_counted { fill.entries } else { self.leaf_bounds.0 as i32 });
            let (least, most) = self.leaf_bounds;
            fill.leaves = leaves_written(entries, (least as usize, most as usize));
        }
        if self.size(group) > 0 {
            let new = self.place(group);
            by_rank.insert(group, |at| self.place(at).cmp(&new));
        } else {
            self.groups[group as usize].stamp = self.free_group.into();
            self.free_group = group;
            self.groups_used -= 1;
        }
        self.by_rank = by_rank;
    }

    /// Says how few and how many entries a leaf has, and what that makes of groups from now on.
    pub(super) fn set_leaf_bounds(&mut self, (least, most): (usize, usize)) {
        debug_assert!(least <= most, "P6: a leaf holds {least} to {most}");
        self.leaf_bounds = (least as u32, most as u32);
    }

    /// Whether the price of a group is certain; else it may be higher.
    pub(super) fn is_priced(&self, group: u32) -> bool {
        self.fills.get(group as usize).is_none_or(|fill| fill.is_counted)
    }

    /// Notes how many entries the leaf of a group has.
    pub(super) fn count_leaf(&mut self, group: u32, entries: usize) {
        self.rerank(group, |pool| {
            let fill = &mut pool.fills[group as usize];
            assert!(!fill.is_counted, "P6: the leaf was counted");
            fill.is_counted = true;
            fill.entries += entries as i32;
        });
    }

    /// The entries that the leaf of a group will have, where they are known.
    pub(super) fn entries_after(&self, group: u32) -> Option<i32> {
        self.fills.get(group as usize).filter(|fill| fill.is_counted).map(|fill| fill.entries)
    }

    /// The number of records that a request will add to its leaf. Where nobody looked whether the tree holds
    /// the key, a value put is taken for a new record and a removal for one less, as the paper does.
    pub(super) fn growth(&self, slot: u32) -> i32 {
        match (self.requests[slot as usize].is_put, self.below(slot)) {
            (true, Below::Absent | Below::Unknown) => 1,
            (false, Below::Present | Below::Unknown) => -1,
            _ => 0,
        }
    }

    /// Adds to what the leaf of a group will have; its rank must be made anew.
    fn grow(&mut self, group: u32, entries: i32) {
        if let Some(fill) = self.fills.get_mut(group as usize) {
            fill.entries += entries;
        }
    }

    /// Notes that a request came for a group that was there.
    fn hit(&mut self, group: u32) {
        self.counts.hits += 1;
        self.clock += 1;
        let now = self.clock;
        if self.policy != CommitPolicy::Fifo {
            self.rerank(group, |pool| pool.groups[group as usize].stamp = now);
        }
    }

    /// A new group for the leaf with these keys and, if they were counted, so many entries; it must get a
    /// request at once.
    fn open_group(
        &mut self,
        (low, high): (Option<&[u8]>, Option<&[u8]>),
        entries: Option<usize>,
        stamp: u64,
    ) -> Option<u32> {
        let group = self.free_group;
        self.free_group = self.groups.get(group as usize)?.stamp as u32;
        self.groups_used += 1;
        if let Some(fill) = self.fills.get_mut(group as usize) {
            let (is_counted, entries) = (entries.is_some(), entries.unwrap_or(0) as i32);
            *fill = LeafFill { is_counted, entries, leaves: 1 };
        }
        debug_assert_eq!(self.groups[group as usize].size, 0, "P1: group {group} is opened and has requests");
        self.groups[group as usize] =
            Group { size: 0, has_low: low.is_some(), has_high: high.is_some(), reads: 0, stamp };
        self.set_bounds(group, (low, high));
        Some(group)
    }

    fn set_bounds(&mut self, group: u32, (low, high): (Option<&[u8]>, Option<&[u8]>)) {
        let key = usize::from(self.record.key_bytes);
        for (i, bound) in [low, high].into_iter().enumerate() {
            if let Some(bound) = bound {
                self.bounds[(2 * group as usize + i) * key..][..key].copy_from_slice(bound);
            }
        }
    }

    /// Takes a request in, into the group of its leaf or, where the pool has none, into a new one for the
    /// leaf with the keys of `span` and, if they were counted, so many entries. The pool must not be full.
    pub(super) fn add(&mut self, change: Change<'_>, below: Below, leaf: Option<(&LeafSpan, Option<usize>)>) {
        debug_assert!(self.find(change.key).is_none(), "P1: two requests for one key");
        let group = self.group_of_key(change.key);
        let group = match (group, leaf) {
            (Some(group), _) => {
                self.hit(group);
                Some(group)
            }
            (None, Some((span, entries))) => {
                assert!(span.contains(change.key), "P2: the key lies outside its leaf");
                self.counts.misses += 1;
                self.clock += 1;
                self.open_group((span.low.as_deref(), span.high.as_deref()), entries, self.clock)
            }
            (None, None) => None,
        };
        let (Some(group), Some(slot)) = (group, self.free_requests.pop()) else {
            unreachable!("P1: a request has a slot and a group");
        };
        let (entry, key) = (self.record.entry_bytes(), usize::from(self.record.key_bytes));
        self.entries[slot as usize * entry..][..key].copy_from_slice(change.key);
        self.requests[slot as usize] = Request { group, is_put: false, below };
        self.additions += u32::from(self.requests[slot as usize].may_add());
        self.set_value(slot, change.value);
        let (entries, record) = (&self.entries, self.record);
        self.by_key.insert(slot, |at| key_in(entries, record, at).cmp(change.key));
        let growth = self.growth(slot);
        self.rerank(group, |pool| {
            pool.groups[group as usize].size += 1;
            pool.grow(group, growth);
        });
        debug_assert_eq!(self.find(change.key), Some(slot), "P1: a request is added and not found");
    }

    fn set_value(&mut self, slot: u32, value: Option<&[u8]>) {
        let (entry, key) = (self.record.entry_bytes(), usize::from(self.record.key_bytes));
        self.requests[slot as usize].is_put = value.is_some();
        if let Some(value) = value {
            self.entries[slot as usize * entry..][key..entry].copy_from_slice(value);
        }
    }

    /// Whether a request and a newer one that puts a value, or removes the key, leave together.
    fn cancels(&self, slot: u32, puts: bool) -> bool {
        if puts == self.requests[slot as usize].is_put {
            return false;
        }
        match (self.below(slot), self.pairs) {
            (Below::Absent, _) => !puts,
            (Below::Present, Pairs::Published) => puts,
            (Below::Unknown, Pairs::Published) => true,
            (_, Pairs::Known) => false,
        }
    }

    /// A new request for a key that has one: the newer takes its place, or both leave.
    pub(super) fn amend(&mut self, slot: u32, value: Option<&[u8]>) {
        debug_assert!(self.size(self.group_of(slot)) > 0, "P1: request {slot} is of an empty group");
        self.hit(self.group_of(slot));
        if self.cancels(slot, value.is_some()) {
            self.counts.cancellations += 1;
            self.remove(slot);
        } else {
            let (group, before) = (self.group_of(slot), self.growth(slot));
            self.set_value(slot, value);
            let growth = self.growth(slot) - before;
            if growth != 0 {
                self.rerank(group, |pool| pool.grow(group, growth));
            }
        }
    }

    /// Takes a request out.
    pub(super) fn remove(&mut self, slot: u32) {
        let (entries, record) = (&self.entries, self.record);
        let key = key_in(entries, record, slot);
        self.by_key.remove(slot, |at| key_in(entries, record, at).cmp(key));
        let (group, growth) = (self.group_of(slot), self.growth(slot));
        debug_assert!(self.size(group) > 0, "P1: a request leaves an empty group");
        self.rerank(group, |pool| {
            pool.groups[group as usize].size -= 1;
            pool.grow(group, -growth);
        });
        self.additions -= u32::from(self.requests[slot as usize].may_add());
        self.free_requests.push(slot);
        debug_assert!(self.additions as usize <= self.len(), "P5: more additions than requests");
    }

    /// Takes the first requests of a group out, as many as were committed.
    pub(super) fn remove_first(&mut self, group: u32, count: usize) {
        debug_assert!(count <= self.size(group) as usize, "P1: {count} requests of {}", self.size(group));
        let mut next = self.first_of(group);
        for _ in 0..count {
            let Some(slot) = next else { unreachable!("P1: a group has the requests it counts") };
            next = self.after(slot);
            self.remove(slot);
        }
    }
}

fn key_in(entries: &[u8], record: RecordFormat, slot: u32) -> &[u8] {
    &entries[slot as usize * record.entry_bytes()..][..usize::from(record.key_bytes)]
}

#[cfg(test)]
mod tests {
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
            while let Some(slot) = pool.first() {
                pool.remove(slot);
            }
            for n in 0..50u32 {
                let key = (n * 7 + round).to_be_bytes();
                pool.add(Change { key: &key, value: Some(&[0; 4]) }, Below::Absent, Some((&span, Some(3))));
            }
        }
        let held = pool.entries.capacity()
            + pool.requests.capacity() * size_of::<Request>()
            + pool.bounds.capacity()
            + pool.groups.capacity() * size_of::<Group>()
            + pool.fills.capacity() * size_of::<LeafFill>()
            + (pool.free_requests.capacity() + pool.numbers.capacity()) * size_of::<u32>()
            + (pool.requests.len() + pool.groups.len()) * Order::slot_bytes()
            + 2 * Order::directory_bytes(1);
        assert_eq!(size_of::<Pool>() + held, Pool::ram_bytes(record, &setup, true));
        assert_eq!((pool.is_full(), pool.group_count(), pool.counts.misses), (true, 1, 3));
    }
}

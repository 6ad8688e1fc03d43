//! The groups of a pool, by rank.

use crate::ordered::buffered::Order;
use crate::ordered::lazy_update::CommitPolicy;
use crate::ordered::lazy_update::policy::{Rank, leaves_written};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Ordering;
use nandex::check::{CheckReport, Invariant, message};
use nandex::ordered::bplus::ground::LeafSpan;

#[derive(Clone, Copy, Debug)]
struct Group {
    size: u32,
    has_low: bool,
    has_high: bool,
    /// Reads of the group's leaf while the group waited, if the tree wants them counted.
    reads: u16,
    /// Number of the update that hit the group last. With *FIFO*: of the update that opened it.
    stamp: u64,
}

/// The leaf of a group, as *cost-based* needs it.
#[derive(Clone, Copy, Debug)]
struct LeafFill {
    is_counted: bool,
    /// Entries that the leaf will have after the commit. If they were not counted: the change of their
    /// number.
    entries: i32,
    /// Leaves that the commit writes, at least 1. The group is ranked by this.
    leaves: u32,
}

/// The lower and the upper bound of a leaf's keys.
pub(super) type Bounds<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

/// The groups of a pool: bounds of their leaves, sizes, stamps, and their order of rank. The requests of a
/// group are not known here.
#[derive(Debug)]
pub(in super::super) struct Groups {
    pub(super) policy: CommitPolicy,
    key_bytes: u8,
    bounds: Vec<u8>,
    groups: Vec<Group>,
    /// The leaf of each group. Empty unless the policy is *cost-based*.
    fills: Vec<LeafFill>,
    /// The fewest and the most entries of a leaf.
    leaf_bounds: (u32, u32),
    by_rank: Order,
    /// A number for each group. Among groups of equal rank the lowest number is first. A slot keeps its
    /// requests when its number changes.
    numbers: Vec<u32>,
    /// The slot for the next group. Free slots are linked through their stamps.
    free: u32,
    used: u32,
}

impl Groups {
    pub(super) fn new(policy: CommitPolicy, key_bytes: u8, slots: usize) -> Groups {
        let fill = LeafFill { is_counted: false, entries: 0, leaves: 1 };
        Groups {
            policy,
            key_bytes,
            bounds: vec![0; slots * 2 * usize::from(key_bytes)],
            groups: (1..=slots as u64)
                .map(|next| Group { size: 0, has_low: false, has_high: false, reads: 0, stamp: next })
                .collect(),
            fills: vec![fill; if policy == CommitPolicy::CostBased { slots } else { 0 }],
            leaf_bounds: (0, 1),
            by_rank: Order::new(slots),
            numbers: (0..slots as u32).collect(),
            free: 0,
            used: 0,
        }
    }

    pub(super) const fn slot_bytes(policy: CommitPolicy, key_bytes: u8) -> usize {
        let fill = if matches!(policy, CommitPolicy::CostBased) { size_of::<LeafFill>() } else { 0 };
        2 * key_bytes as usize + size_of::<Group>() + fill + Order::slot_bytes() + size_of::<u32>()
    }

    #[cfg(test)]
    pub(super) fn table_bytes(&self) -> usize {
        self.bounds.capacity()
            + self.groups.capacity() * size_of::<Group>()
            + self.fills.capacity() * size_of::<LeafFill>()
            + self.numbers.capacity() * size_of::<u32>()
            + self.groups.len() * Order::slot_bytes()
    }

    pub(super) fn capacity(&self) -> usize {
        self.groups.len()
    }

    pub(in super::super) fn len(&self) -> usize {
        self.used as usize
    }

    /// Reads of the group's leaf while the group waited.
    pub(in super::super) fn reads(&self, group: u32) -> u16 {
        self.groups[group as usize].reads
    }

    pub(super) fn note_read(&mut self, group: u32) {
        let reads = &mut self.groups[group as usize].reads;
        *reads = reads.saturating_add(1);
    }

    pub(in super::super) fn size(&self, group: u32) -> u32 {
        self.groups[group as usize].size
    }

    /// Number of the update that hit the group last. With *FIFO*: of the update that opened it.
    pub(super) fn stamp(&self, group: u32) -> u64 {
        self.groups[group as usize].stamp
    }

    /// Number of the newest update in a group. `None` with *FIFO*, which does not know it.
    pub(in super::super) fn newest(&self, group: u32) -> Option<u64> {
        (self.policy != CommitPolicy::Fifo).then(|| self.stamp(group))
    }

    pub(super) fn bounds(&self, group: u32) -> Bounds<'_> {
        let (Group { has_low, has_high, .. }, key) = (self.groups[group as usize], self.key_bytes.into());
        let (low, high) = self.bounds[2 * group as usize * key..][..2 * key].split_at(key);
        (has_low.then_some(low), has_high.then_some(high))
    }

    pub(super) fn contains(&self, group: u32, key: &[u8]) -> bool {
        let (low, high) = self.bounds(group);
        low.is_none_or(|low| low <= key) && high.is_none_or(|high| key < high)
    }

    /// The bounds of a group, for the checker.
    pub(in super::super) fn span(&self, group: u32) -> LeafSpan {
        let (low, high) = self.bounds(group);
        LeafSpan { low: low.map(Into::into), high: high.map(Into::into) }
    }

    pub(in super::super) fn rank(&self, group: u32) -> Rank {
        let Group { size, stamp, .. } = self.groups[group as usize];
        let leaves = self.fills.get(group as usize).map_or(1, |fill| fill.leaves);
        (self.policy.price(size, leaves), stamp)
    }

    /// The position of a group in the order of ranks.
    pub(super) fn place(&self, group: u32) -> (Rank, u32) {
        (self.rank(group), self.numbers[group as usize])
    }

    pub(in super::super) fn first(&self) -> Option<u32> {
        self.by_rank.next(|_| Ordering::Greater)
    }

    pub(super) fn next(&self, group: u32) -> Option<u32> {
        let place = self.place(group);
        self.by_rank.next(|at| self.place(at).cmp(&place).then(Ordering::Less))
    }

    /// Removes a group from the order of ranks. Must come before its size, stamp, fill or number changes.
    fn unrank(&mut self, group: u32) {
        if self.size(group) > 0 {
            let mut by_rank = core::mem::take(&mut self.by_rank);
            let place = self.place(group);
            by_rank.remove(group, |at| self.place(at).cmp(&place));
            self.by_rank = by_rank;
        }
    }

    /// Adds a group to the order of ranks, or frees its slot if it has no requests.
    fn rerank(&mut self, group: u32) {
        if let Some(fill) = self.fills.get_mut(group as usize) {
            let (least, most) = self.leaf_bounds;
            let entries = i64::from(if fill.is_counted { fill.entries } else { least as i32 });
            fill.leaves = leaves_written(entries, (least as usize, most as usize));
        }
        if self.size(group) > 0 {
            let mut by_rank = core::mem::take(&mut self.by_rank);
            let place = self.place(group);
            by_rank.insert(group, |at| self.place(at).cmp(&place));
            self.by_rank = by_rank;
        } else {
            self.groups[group as usize].stamp = self.free.into();
            self.free = group;
            self.used -= 1;
        }
    }

    /// Sets the fewest and the most entries of a leaf.
    pub(in super::super) fn set_leaf_bounds(&mut self, (least, most): (usize, usize)) {
        debug_assert!(least <= most, "P6: a leaf holds {least} to {most}");
        self.leaf_bounds = (least as u32, most as u32);
    }

    /// Whether the price of a group is exact. If not, it is a lower bound.
    pub(in super::super) fn is_priced(&self, group: u32) -> bool {
        self.fills.get(group as usize).is_none_or(|fill| fill.is_counted)
    }

    /// Notes how many entries the leaf of a group has.
    pub(in super::super) fn count_leaf(&mut self, group: u32, entries: usize) {
        self.unrank(group);
        let fill = &mut self.fills[group as usize];
        assert!(!fill.is_counted, "P6: the leaf was counted");
        fill.is_counted = true;
        fill.entries += entries as i32;
        self.rerank(group);
    }

    /// Number of entries that the leaf of a group will have, if it is known.
    pub(in super::super) fn entries_after(&self, group: u32) -> Option<i32> {
        self.fills.get(group as usize).filter(|fill| fill.is_counted).map(|fill| fill.entries)
    }

    /// Opens a group for the leaf with these bounds; `entries` is given if they were counted. It must get a
    /// request at once.
    pub(super) fn open(&mut self, bounds: Bounds<'_>, entries: Option<usize>, stamp: u64) -> u32 {
        let group = self.next_free();
        self.free = self.stamp(group) as u32;
        self.used += 1;
        if let Some(fill) = self.fills.get_mut(group as usize) {
            let (is_counted, entries) = (entries.is_some(), entries.unwrap_or(0) as i32);
            *fill = LeafFill { is_counted, entries, leaves: 1 };
        }
        debug_assert_eq!(self.size(group), 0, "P1: group {group} is opened and has requests");
        self.groups[group as usize].stamp = stamp;
        self.set_bounds(group, bounds);
        group
    }

    fn next_free(&self) -> u32 {
        let is_free = (self.free as usize) < self.groups.len();
        assert!(is_free, "P1: groups are never more than requests, and two to spare");
        self.free
    }

    /// Changes the leaf of a group. Its count of reads is set to 0.
    fn set_bounds(&mut self, group: u32, (low, high): Bounds<'_>) {
        let key = usize::from(self.key_bytes);
        for (i, bound) in [low, high].into_iter().enumerate() {
            if let Some(bound) = bound {
                self.bounds[(2 * group as usize + i) * key..][..key].copy_from_slice(bound);
            }
        }
        let Group { size, stamp, .. } = self.groups[group as usize];
        let (has_low, has_high) = (low.is_some(), high.is_some());
        self.groups[group as usize] = Group { size, has_low, has_high, reads: 0, stamp };
    }

    /// Adds a request to a group. It adds `growth` entries to the leaf. The later stamp of the request and
    /// the group is kept; with *FIFO* the earlier one.
    pub(super) fn join(&mut self, group: u32, growth: i32, stamp: u64) {
        let is_fifo = self.policy == CommitPolicy::Fifo;
        self.change(group, growth, |group| {
            group.size += 1;
            group.stamp = if is_fifo { group.stamp.min(stamp) } else { group.stamp.max(stamp) };
        });
    }

    /// Removes a request, which would have added `growth` entries to the leaf.
    pub(super) fn leave(&mut self, group: u32, growth: i32) {
        debug_assert!(self.size(group) > 0, "P1: a request leaves an empty group");
        self.change(group, -growth, |group| group.size -= 1);
    }

    pub(super) fn hit(&mut self, group: u32, now: u64) {
        if self.policy != CommitPolicy::Fifo {
            self.change(group, 0, |group| group.stamp = now);
        }
    }

    /// Notes that the requests of a group now add `growth` more entries to its leaf.
    pub(super) fn grow(&mut self, group: u32, growth: i32) {
        self.change(group, growth, |_| {});
    }

    /// Changes a group and the future entries of its leaf, and ranks it anew.
    fn change(&mut self, group: u32, growth: i32, change: impl FnOnce(&mut Group)) {
        self.unrank(group);
        change(&mut self.groups[group as usize]);
        if let Some(fill) = self.fills.get_mut(group as usize) {
            fill.entries += growth;
        }
        self.rerank(group);
    }

    /// Changes the leaf of a group, with the same effect as moving its requests to the next free group: it
    /// gets that group's number. The old leaf had `before` entries; the new one has `after`, if they were
    /// counted.
    pub(super) fn follow(&mut self, group: u32, bounds: Bounds<'_>, (before, after): (usize, Option<usize>)) {
        let next = self.next_free();
        self.unrank(group);
        self.numbers.swap(group as usize, next as usize);
        self.set_bounds(group, bounds);
        if let Some(fill) = self.fills.get_mut(group as usize) {
            let growth = fill.entries - if fill.is_counted { before as i32 } else { 0 };
            let (is_counted, entries) = (after.is_some(), after.unwrap_or(0) as i32 + growth);
            *fill = LeafFill { is_counted, entries, leaves: 1 };
        }
        self.rerank(group);
    }

    /// Checks P4, and that each group in the order has as many requests as it counts.
    pub(super) fn check(&self, sizes: &[u32], report: &mut CheckReport) {
        let mut groups = 0;
        for group in core::iter::successors(self.first(), |&group| self.next(group)) {
            groups += 1;
            if sizes[group as usize] != self.size(group) || self.size(group) == 0 {
                let found = message!("{} requests, {} counted", sizes[group as usize], self.size(group));
                report.violation(Invariant::P1, u64::from(group), found);
            }
        }
        if groups != self.len() {
            let found = message!("{groups} groups in rank, {} in use", self.len());
            report.violation(Invariant::P4, 0, found);
        }
    }
}

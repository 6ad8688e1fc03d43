//! Requests find new groups where the tree moved keys between leaves.

use super::{Group, LeafFill, Pool};
use crate::ordered::bplus::Reshaped;
use crate::ordered::lazy_update::CommitPolicy;

/// The bounds of a leaf.
type Bounds<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

/// The bounds of both leaves that keys went to.
fn sides(reshaped: &Reshaped) -> [Bounds<'_>; 2] {
    let (low, high) = (reshaped.span.low.as_deref(), reshaped.span.high.as_deref());
    let boundary = reshaped.boundary();
    [(low, boundary.or(high)), (boundary, high)]
}

impl Pool {
    /// Puts the requests whose keys changed leaves into groups for the leaves they belong to now. A group
    /// that takes over requests of two has the stamp of the one that stays longer. `group` was committed, or
    /// its first requests were, and its leaf had so many entries before.
    ///
    /// A group far larger than a leaf goes in many portions, each of which splits the leaf. What is left
    /// belongs to one of the halves then, and the group takes its bounds; no request is touched.
    pub(in crate::ordered::pooled::lazy_update) fn regroup(
        &mut self,
        reshaped: &Reshaped,
        (group, entries_before): (u32, usize),
    ) {
        match self.side_left(reshaped, group) {
            Some(side) => self.follow(reshaped, side, (group, entries_before)),
            None => self.move_each(reshaped),
        }
    }

    /// The leaf to which all belong that a group has left, if that is one and the group had the leaf that was
    /// split.
    fn side_left(&self, reshaped: &Reshaped, group: u32) -> Option<usize> {
        if reshaped.before.len() != 1 || self.size(group) == 0 || self.span(group) != reshaped.span {
            return None;
        }
        let first = self.first_of(group)?;
        let last = reshaped.span.high.as_deref().map_or_else(|| self.last(), |high| self.previous(high))?;
        // A request at the upper bound is of the next group.
        let last = if self.group_of(last) == group { last } else { self.before(last)? };
        let side = |slot: u32| reshaped.boundary().is_some_and(|boundary| boundary <= self.key(slot));
        (self.group_of(last) == group && side(first) == side(last)).then(|| usize::from(side(first)))
    }

    /// Makes a group that of another leaf, as if all its requests were moved to the next free group: that
    /// one's number becomes its own.
    fn follow(&mut self, reshaped: &Reshaped, side: usize, (group, entries_before): (u32, usize)) {
        let next = self.free_group;
        assert!(
            (next as usize) < self.groups.len(),
            "P1: groups are never more than requests, and two to spare"
        );
        let (low, high) = sides(reshaped)[side];
        let entries = reshaped.after.get(side).map(|leaf| leaf.entries as i32);
        self.rerank(group, |pool| {
            pool.numbers.swap(group as usize, next as usize);
            let Group { size, stamp, .. } = pool.groups[group as usize];
            let (has_low, has_high) = (low.is_some(), high.is_some());
            pool.groups[group as usize] = Group { size, stamp, has_low, has_high, reads: 0 };
            pool.set_bounds(group, (low, high));
            if let Some(fill) = pool.fills.get_mut(group as usize) {
                let before = if fill.is_counted { entries_before as i32 } else { 0 };
                let growth = fill.entries - before;
                *fill = LeafFill {
                    is_counted: entries.is_some(),
                    entries: entries.unwrap_or(0) + growth,
                    leaves: 1,
                };
            }
        });
    }

    /// Moves request by request.
    fn move_each(&mut self, reshaped: &Reshaped) {
        let (low, boundary, bounds) = (&reshaped.span.low, reshaped.boundary(), sides(reshaped));
        let mut made: [Option<u32>; 2] = [None; 2];
        let mut next = low.as_deref().map_or_else(|| self.first(), |low| self.next(low));
        while let Some(slot) = next.filter(|&slot| reshaped.span.contains(self.key(slot))) {
            next = self.after(slot);
            let old = self.group_of(slot);
            let stamp = self.groups[old as usize].stamp;
            let side = usize::from(boundary.is_some_and(|boundary| boundary <= self.key(slot)));
            let group = match made[side] {
                Some(group) => group,
                None => {
                    let entries = reshaped.after.get(side).map(|leaf| leaf.entries);
                    let Some(group) = self.open_group(bounds[side], entries, stamp) else {
                        unreachable!("P1: groups are never more than requests, and two to spare");
                    };
                    group
                }
            };
            made[side] = Some(group);
            self.requests[slot as usize].group = group;
            #[cfg(test)]
            {
                self.counts.moves += 1;
            }
            let latest = self.policy != CommitPolicy::Fifo;
            let growth = self.growth(slot);
            self.rerank(group, |pool| {
                pool.grow(group, growth);
                let group = &mut pool.groups[group as usize];
                group.size += 1;
                group.stamp = if latest { group.stamp.max(stamp) } else { group.stamp.min(stamp) };
            });
            self.rerank(old, |pool| {
                pool.grow(old, -growth);
                pool.groups[old as usize].size -= 1;
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ordered::RecordFormat;
    use crate::ordered::bplus::{LeafSpan, NewLeaf};
    use crate::ordered::buffered::{Answers, Below};
    use crate::ordered::change::Change;
    use crate::ordered::lazy_update::policy::Rank;
    use crate::ordered::lazy_update::{Pairs, PoolSetup};
    use crate::units::Lpn;
    use alloc::boxed::Box;
    use alloc::vec;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn key(n: u16) -> Box<[u8]> {
        n.to_be_bytes().into()
    }

    /// The leaf of a key, one of each hundred.
    fn span(n: u16) -> LeafSpan {
        let low = n / 100 * 100;
        LeafSpan { low: (low > 0).then(|| key(low)), high: (low < 900).then(|| key(low + 100)) }
    }

    fn add(pool: &mut Pool, n: u16, is_counted: bool) {
        let value = [n as u8; 2];
        let value = Some(&value[..]).filter(|_| !n.is_multiple_of(3));
        let below = [Below::Absent, Below::Present, Below::Unknown][usize::from(n % 7 % 3)];
        if pool.find(&key(n)).is_none() && !pool.is_full() {
            let leaf = (&span(n), is_counted.then_some(20));
            pool.add(Change { key: &key(n), value }, below, Some(leaf));
        }
    }

    /// All that can be told from groups, in the order in which they leave.
    type Picture = Vec<((Rank, u32), LeafSpan, Option<i32>, u16, Vec<Vec<u8>>)>;

    fn picture(pool: &Pool) -> Picture {
        let groups = core::iter::successors(pool.first_group(), |&group| pool.next_group(group));
        let tell = |group: u32| {
            let keys = pool.members(group).map(|slot| pool.key(slot).to_vec()).collect();
            (pool.place(group), pool.span(group), pool.entries_after(group), pool.reads(group), keys)
        };
        groups.map(tell).collect()
    }

    proptest! {
        #![proptest_config(crate::inputs::fixed(400))]

        #[test]
        fn a_group_that_follows_is_as_one_moved_request_by_request(
            policy in proptest::sample::select(&CommitPolicy::ALL[..]),
            keys in proptest::collection::vec((0..1_000u16, any::<bool>()), 1..80),
            gone in 0..30usize,
            boundary in 1..99u16,
            more in proptest::collection::vec(0..1_000u16, 1..40),
        ) {
            let setup = PoolSetup { requests: 60, policy, answers: Answers::Exact, pairs: Pairs::Known };
            let mut pools = [(); 2].map(|()| Pool::new(RecordFormat::new(2, 2), setup, true));
            for pool in &mut pools {
                pool.set_leaf_bounds((10, 40));
                keys.iter().for_each(|(n, is_counted)| add(pool, *n, *is_counted));
            }
            // Of each leaf in turn some requests are committed, and it is split.
            for low in (0..1_000).step_by(100) {
                let slot = pools[0].next(&key(low)).filter(|&slot| pools[0].key(slot) < &key(low + 100)[..]);
                let Some(slot) = slot else { continue };
                let group = pools[0].group_of(slot);
                let LeafSpan { low, high } = pools[0].span(group);
                let first = low.as_deref().map_or(0, |low| u16::from_be_bytes([low[0], low[1]]));
                let middle = Some(key(first + boundary));
                let leaf = |low, entries| NewLeaf { lpn: Lpn(7), low, entries };
                let after = vec![leaf(low.clone(), 15), leaf(middle, 25)];
                let reshaped = Reshaped { span: LeafSpan { low, high }, before: vec![Lpn(7)], after };
                let left = pools[0].size(group) as usize;
                for (i, pool) in pools.iter_mut().enumerate() {
                    let slot = pool.next(reshaped.span.low.as_deref().unwrap_or(&[0; 2])).unwrap();
                    let group = pool.group_of(slot);
                    pool.note_read(&key(first + 1));
                    pool.remove_first(group, gone.min(left));
                    match i {
                        0 => pool.regroup(&reshaped, (group, 20)),
                        _ => pool.move_each(&reshaped),
                    }
                }
                prop_assert_eq!(picture(&pools[0]), picture(&pools[1]));
            }
            // New groups have the same numbers in both.
            for n in more {
                for pool in &mut pools {
                    if let Some(slot) = pool.first().filter(|_| n % 2 == 0) {
                        pool.remove(slot);
                    }
                    if pool.group_of_key(&key(n)).is_some() || pool.group_count() < 20 {
                        add(pool, n, true);
                    }
                }
                prop_assert_eq!(picture(&pools[0]), picture(&pools[1]));
            }
            prop_assert!(pools[0].counts.moves <= pools[1].counts.moves);
        }
    }
}

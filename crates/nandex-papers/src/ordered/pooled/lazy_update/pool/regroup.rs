//! Regrouping: requests whose keys the tree moved to another leaf join another group.

use super::Pool;
use super::groups::Bounds;
use nandex::ordered::bplus::ground::Reshaped;

/// The bounds of the two leaves that the keys are in now.
fn sides(reshaped: &Reshaped) -> [Bounds<'_>; 2] {
    let (low, high) = (reshaped.span.low.as_deref(), reshaped.span.high.as_deref());
    let boundary = reshaped.boundary();
    [(low, boundary.or(high)), (boundary, high)]
}

impl Pool {
    /// Regroups the requests whose keys moved to another leaf. A group that gets requests of two groups takes
    /// the stamp of the one that stays longer. `group` was just committed, wholly or in part; its leaf had
    /// `entries_before` entries before.
    ///
    /// A group far larger than a leaf is committed in many portions, each of which splits the leaf. The rest
    /// of the group then belongs to one of the halves and takes its bounds; no request is touched.
    pub(in crate::ordered::pooled::lazy_update) fn regroup(
        &mut self,
        reshaped: &Reshaped,
        (group, entries_before): (u32, usize),
    ) {
        match self.side_left(reshaped, group) {
            Some(side) => {
                let after = reshaped.after.get(side).map(|leaf| leaf.entries);
                self.groups.follow(group, sides(reshaped)[side], (entries_before, after));
            }
            None => self.move_each(reshaped),
        }
    }

    /// The leaf, 0 or 1, to which the rest of a group belongs. `None` if it belongs to both or the group's
    /// leaf was not the one that was split.
    fn side_left(&self, reshaped: &Reshaped, group: u32) -> Option<usize> {
        let Pool { requests, groups, .. } = self;
        if reshaped.before.len() != 1 || groups.size(group) == 0 || groups.span(group) != reshaped.span {
            return None;
        }
        let first = self.first_of(group)?;
        let high = reshaped.span.high.as_deref();
        let last = high.map_or_else(|| requests.last(), |high| requests.previous(high))?;
        // A request at the upper bound is of the next group.
        let last = if requests.group_of(last) == group { last } else { requests.before(last)? };
        let side = |slot: u32| reshaped.boundary().is_some_and(|boundary| boundary <= requests.key(slot));
        (requests.group_of(last) == group && side(first) == side(last)).then(|| usize::from(side(first)))
    }

    /// Moves the requests one by one.
    fn move_each(&mut self, reshaped: &Reshaped) {
        let Pool { requests, groups, .. } = self;
        let (low, boundary, bounds) = (&reshaped.span.low, reshaped.boundary(), sides(reshaped));
        let mut made: [Option<u32>; 2] = [None; 2];
        let mut next = low.as_deref().map_or_else(|| requests.first(), |low| requests.next(low));
        while let Some(slot) = next.filter(|&slot| reshaped.span.contains(requests.key(slot))) {
            next = requests.after(slot);
            let old = requests.group_of(slot);
            let stamp = groups.stamp(old);
            let side = usize::from(boundary.is_some_and(|boundary| boundary <= requests.key(slot)));
            let group = *made[side].get_or_insert_with(|| {
                let entries = reshaped.after.get(side).map(|leaf| leaf.entries);
                groups.open(bounds[side], entries, stamp)
            });
            requests.set_group(slot, group);
            #[cfg(test)]
            {
                self.counts.moves += 1;
            }
            let growth = requests.growth(slot);
            groups.join(group, growth, stamp);
            groups.leave(old, growth);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ordered::buffered::Below;
    use crate::ordered::lazy_update::policy::Rank;
    use crate::ordered::lazy_update::{CommitPolicy, Pairs, PoolSetup};
    use alloc::boxed::Box;
    use alloc::vec;
    use alloc::vec::Vec;
    use nandex::ordered::RecordFormat;
    use nandex::ordered::bplus::ground::{LeafSpan, NewLeaf};
    use nandex::ordered::buffered::Answers;
    use nandex::ordered::change::Change;
    use nandex::units::Lpn;
    use proptest::prelude::*;

    fn key(n: u16) -> Box<[u8]> {
        n.to_be_bytes().into()
    }

    /// The leaf of a key: one for each hundred keys.
    fn span(n: u16) -> LeafSpan {
        let low = n / 100 * 100;
        LeafSpan { low: (low > 0).then(|| key(low)), high: (low < 900).then(|| key(low + 100)) }
    }

    fn add(pool: &mut Pool, n: u16, is_counted: bool) {
        let value = [n as u8; 2];
        let value = Some(&value[..]).filter(|_| !n.is_multiple_of(3));
        let below = [Below::Absent, Below::Present, Below::Unknown][usize::from(n % 7 % 3)];
        if pool.requests.find(&key(n)).is_none() && !pool.requests.is_full() {
            let leaf = (&span(n), is_counted.then_some(20));
            pool.add(Change { key: &key(n), value }, below, Some(leaf));
        }
    }

    /// Description of all groups, in the order in which they leave.
    type Picture = Vec<((Rank, u32), LeafSpan, Option<i32>, u16, Vec<Vec<u8>>)>;

    fn picture(pool: &Pool) -> Picture {
        let Pool { requests, groups, .. } = pool;
        let tell = |group: u32| {
            let keys = pool.members(group).map(|slot| requests.key(slot).to_vec()).collect();
            let (place, span) = (groups.place(group), groups.span(group));
            (place, span, groups.entries_after(group), groups.reads(group), keys)
        };
        core::iter::successors(groups.first(), |&group| groups.next(group)).map(tell).collect()
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
                pool.groups.set_leaf_bounds((10, 40));
                keys.iter().for_each(|(n, is_counted)| add(pool, *n, *is_counted));
            }
            // Of each leaf in turn some requests are committed, and it is split.
            for low in (0..1_000).step_by(100) {
                let requests = &pools[0].requests;
                let slot = requests.next(&key(low)).filter(|&slot| requests.key(slot) < &key(low + 100)[..]);
                let Some(slot) = slot else { continue };
                let group = pools[0].requests.group_of(slot);
                let LeafSpan { low, high } = pools[0].groups.span(group);
                let first = low.as_deref().map_or(0, |low| u16::from_be_bytes([low[0], low[1]]));
                let middle = Some(key(first + boundary));
                let leaf = |low, entries| NewLeaf { lpn: Lpn(7), low, entries };
                let after = vec![leaf(low.clone(), 15), leaf(middle, 25)];
                let reshaped = Reshaped { span: LeafSpan { low, high }, before: vec![Lpn(7)], after };
                let left = pools[0].groups.size(group) as usize;
                for (i, pool) in pools.iter_mut().enumerate() {
                    let slot = pool.requests.next(reshaped.span.low.as_deref().unwrap_or(&[0; 2])).unwrap();
                    let group = pool.requests.group_of(slot);
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
                    if let Some(slot) = pool.requests.first().filter(|_| n % 2 == 0) {
                        pool.remove(slot);
                    }
                    if pool.group_of_key(&key(n)).is_some() || pool.groups.len() < 20 {
                        add(pool, n, true);
                    }
                }
                prop_assert_eq!(picture(&pools[0]), picture(&pools[1]));
            }
            prop_assert!(pools[0].counts.moves <= pools[1].counts.moves);
        }
    }
}

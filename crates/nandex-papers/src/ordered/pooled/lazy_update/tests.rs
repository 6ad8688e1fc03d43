//! The index against `BTreeMap`, the paper's example, the choice of groups against a plain model, RAM, full
//! stores, cuts.

use super::*;
use crate::ordered::tests::*;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;
use nandex::check::IndexError;
use nandex::ordered::bplus::BPlusConfig;
use nandex::rng::Rng;
use nandex::testing::Store;

/// Settings with at most `order` entries in a node.
fn config(order: usize, pool_requests: u32) -> LazyUpdateConfig {
    let mut config = LazyUpdateConfig::new(SMALL, pool_requests);
    config.tree = config.tree.with_order(order);
    config
}

fn small_index(order: usize, pool_requests: u32, policy: CommitPolicy) -> LazyUpdateTree<Store> {
    let config = LazyUpdateConfig { policy, ..config(order, pool_requests) };
    LazyUpdateTree::format(Store::new(128, 2_000), &config).unwrap()
}

fn any_config(rng: &mut Rng) -> LazyUpdateConfig {
    let pool = [1 + rng.below(5), 1 + rng.below(59), 1_000][rng.below(3) as usize] as u32;
    let policy = CommitPolicy::ALL[rng.below(4) as usize];
    let answers = if rng.chance(1, 2) { Answers::Exact } else { Answers::Pool };
    LazyUpdateConfig { policy, answers, ..config(3 + rng.below(6) as usize, pool) }
}

#[test]
fn the_index_is_a_sorted_map() {
    crate::inputs::cases(300, |seed| {
        let rng = &mut Rng::new(seed);
        let (config, frames) = (any_config(rng), rng.below(20) as usize);
        let index = LazyUpdateTree::format(Store::new(128, 2_000).with_cache(frames), &config).unwrap();
        let remount = |mut index: LazyUpdateTree<Store>| {
            index.close().unwrap();
            LazyUpdateTree::mount(index.into_store().with_cache(frames), &config).unwrap()
        };
        live(index, &any_ops(rng), config.answers, &remount, &mut |index, op| {
            assert!(*op != Op::Sync || index.pooled_requests() == 0);
            assert!(index.pooled_requests() <= config.pool_requests as usize);
        });
    });
}

fn host_writes(index: &LazyUpdateTree<Store>) -> u64 {
    index.tree().store().counters().page_writes[0]
}

/// The tree of the paper's Figure 1: leaf D is full and has key 5, leaf E has room and key 40, leaf H has
/// room and keys 90 and 95. With six leaves the parent of D is full too.
fn figure_1(policy: CommitPolicy, leaves: usize) -> LazyUpdateTree<Store> {
    let mut index = small_index(4, 4, policy);
    let first = [[2u16, 3, 5, 7], [20, 25, 40, 45], [50, 55, 60, 62], [65, 70, 75, 77], [88, 90, 95, 97]];
    let keys = [&first.concat()[..], &[110, 111, 112, 113]].concat();
    index.bulk_load(keys[..4 * leaves].iter().map(|n| (key(*n), [0; 2])), Fill::FULL).unwrap();
    for n in [45, 62, 77, 97] {
        index.tree.remove(&key(n)).unwrap();
    }
    let [d, e, h] = [5, 30, 90].map(|n| index.tree.leaf_span(&key(n)).unwrap());
    assert!(d.contains(&key(6)) && e.contains(&key(40)) && h.contains(&key(95)) && h.contains(&key(100)));
    assert!(d != e && e != h && index.stats().height == 3);
    assert_eq!([5, 30, 90].map(|n| index.tree.leaf_entries(&key(n)).unwrap()), [4, 3, 3]);
    index
}

enum Request {
    Put(u16),
    Del(u16),
}
use Request::{Del, Put};

fn submit(index: &mut dyn OrderedIndex, requests: &[Request]) {
    for request in requests {
        match *request {
            Put(n) => assert_eq!(index.insert(&key(n), &[1; 2]), Ok(false)),
            Del(n) => assert_eq!(index.remove(&key(n)), Ok(true)),
        }
    }
}

const FIRST_FOUR: [Request; 4] = [Put(6), Put(30), Del(5), Del(90)];
const NEXT_FOUR: [Request; 4] = [Del(40), Del(95), Put(99), Put(100)];

#[test]
fn figure_1_without_a_pool_writes_a_page_per_update_and_the_split() {
    // The paper counts 7: 4 for the split of D, 1 for each of the others. A split here writes two halves and
    // the parent, 3, or with a full parent two halves of it as well and the root, 5.
    for (leaves, expected) in [(5, 6), (6, 8)] {
        let mut index = figure_1(CommitPolicy::BiggestSize, leaves);
        let before = host_writes(&index);
        submit(&mut index.tree, &FIRST_FOUR);
        assert_eq!(host_writes(&index) - before, expected);
    }
}

#[test]
fn figure_1_in_groups_writes_three_pages() {
    for policy in CommitPolicy::ALL {
        let mut index = figure_1(policy, 5);
        let before = host_writes(&index);
        submit(&mut index, &FIRST_FOUR);
        assert_eq!(host_writes(&index), before, "everything waits in the pool");
        index.sync().unwrap();
        assert_eq!(host_writes(&index) - before, 3, "pages D, E and H");
    }
}

#[test]
fn eight_requests_write_five_pages_when_the_pool_goes_whole_and_three_by_biggest_size() {
    let mut index = figure_1(CommitPolicy::BiggestSize, 5);
    let before = host_writes(&index);
    for batch in [FIRST_FOUR, NEXT_FOUR] {
        submit(&mut index, &batch);
        index.sync().unwrap();
    }
    assert_eq!(host_writes(&index) - before, 5, "pages D, E, H, E and H");
    for policy in [CommitPolicy::BiggestSize, CommitPolicy::CostBased] {
        let mut index = figure_1(policy, 5);
        let before = host_writes(&index);
        submit(&mut index, &FIRST_FOUR);
        submit(&mut index, &NEXT_FOUR);
        assert_eq!(host_writes(&index) - before, 2, "D with 5 and 6, then E with 30 and 40");
        index.sync().unwrap();
        assert_eq!(host_writes(&index) - before, 3, "and H with four requests");
        assert_sound(
            &mut index,
            &contents_without_pool(&[2, 3, 6, 7, 20, 25, 30, 50, 55, 60, 65, 70, 75, 88, 99, 100]),
        );
    }
}

fn contents_without_pool(keys: &[u16]) -> Model {
    keys.iter().map(|n| (key(*n).to_vec(), vec![0; 2])).collect()
}

#[test]
fn opposite_requests_leave_together_and_what_the_tree_has_is_not_written_again() {
    let mut index = figure_1(CommitPolicy::BiggestSize, 5);
    let before = host_writes(&index);
    submit(&mut index, &[Put(6), Del(6)]);
    assert_eq!((index.pooled_requests(), index.remove(&key(6))), (0, Ok(false)));
    assert_eq!(index.remove(&key(5)), Ok(true));
    assert_eq!((index.remove(&key(5)), index.insert(&key(5), &[0; 2])), (Ok(false), Ok(false)));
    assert_eq!(index.pooled_requests(), 1);
    index.sync().unwrap();
    assert_eq!(host_writes(&index), before);
}

#[test]
fn the_paper_s_answers_read_no_leaf() {
    let config = LazyUpdateConfig { answers: Answers::Pool, ..config(4, 500) };
    let mut loaded = figure_1(CommitPolicy::BiggestSize, 5);
    loaded.sync().unwrap();
    let mut index = LazyUpdateTree::mount(loaded.into_store(), &config).unwrap();
    let reads = |index: &LazyUpdateTree<Store>| index.tree().store().counters().page_reads[0];
    let before = reads(&index);
    index.insert(&key(6), &[1; 2]).unwrap();
    assert_eq!(reads(&index) - before, 2, "the path above the leaf");
    index.remove(&key(5)).unwrap();
    index.insert(&key(4), &[1; 2]).unwrap();
    assert_eq!(reads(&index) - before, 2, "the group is there");
}

#[test]
fn opposite_requests_cancel_as_published() {
    for (pairs, waiting, cancellations) in [(Pairs::Published, 0, 2), (Pairs::Known, 2, 0)] {
        let config = LazyUpdateConfig { answers: Answers::Pool, pairs, ..config(4, 500) };
        let mut loaded = figure_1(CommitPolicy::BiggestSize, 5);
        loaded.sync().unwrap();
        let mut index = LazyUpdateTree::mount(loaded.into_store(), &config).unwrap();
        let mut value = [0; 2];
        assert!(index.get(&key(5), &mut value).unwrap() && !index.get(&key(6), &mut [0; 2]).unwrap());
        index.insert(&key(6), &[1; 2]).unwrap();
        index.remove(&key(6)).unwrap();
        index.remove(&key(5)).unwrap();
        index.insert(&key(5), &value).unwrap();
        assert_eq!((index.pooled_requests(), index.pool.counts.cancellations), (waiting, cancellations));
        index.sync().unwrap();
        assert!(index.get(&key(5), &mut value).unwrap() && !index.get(&key(6), &mut [0; 2]).unwrap());
        assert!(index.check().unwrap().is_sound());
    }
}

#[test]
fn published_pairs_are_right_where_keys_come_back_as_they_were() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let policy = CommitPolicy::ALL[seed as usize % 4];
        let answers = if seed % 3 == 0 { Answers::Exact } else { Answers::Pool };
        let config = LazyUpdateConfig {
            policy,
            answers,
            pairs: Pairs::Published,
            ..config(4 + seed as usize % 5, 20)
        };
        let mut index = LazyUpdateTree::format(Store::new(128, 2_000), &config).unwrap();
        let mut model = BTreeSet::new();
        for _ in 0..2_000 {
            let n = rng.below(120) as u16;
            if model.remove(&n) {
                index.remove(&key(n)).unwrap();
            } else {
                model.insert(n);
                index.insert(&key(n), &(n * 3).to_be_bytes()).unwrap();
            }
        }
        assert!(index.pool.counts.cancellations > 50, "seed {seed}: {:?}", index.pool.counts);
        let expected: Model = model.iter().map(|&n| (key(n).to_vec(), key(n * 3).to_vec())).collect();
        assert_sound(&mut index, &expected);
        assert_eq!(contents(&mut index).unwrap(), expected, "seed {seed}");
        index.sync().unwrap();
        assert_eq!(contents(&mut index).unwrap(), expected, "seed {seed}");
    }
}

/// A group in the plain model.
struct PlainGroup {
    keys: BTreeSet<u16>,
    came: u64,
    hit: u64,
}

/// The leaf whose group leaves next, found by looking at every group.
fn plain_victim(groups: &BTreeMap<u16, PlainGroup>, policy: CommitPolicy) -> u16 {
    let rank = |group: &PlainGroup| match policy {
        CommitPolicy::Fifo => (0, group.came),
        CommitPolicy::Lru => (0, group.hit),
        CommitPolicy::BiggestSize | CommitPolicy::CostBased => (usize::MAX - group.keys.len(), group.hit),
    };
    *groups.iter().min_by_key(|(_, group)| rank(group)).unwrap().0
}

#[test]
fn every_policy_chooses_as_a_look_at_every_group_would() {
    for policy in CommitPolicy::ALL {
        let mut index = small_index(8, 30, policy);
        index.bulk_load((0..480).map(|n| (key(n), [0; 2])), Fill::FULL).unwrap();
        let mut groups: BTreeMap<u16, PlainGroup> = BTreeMap::new();
        let mut rng = Rng::new(7);
        let mut commits = 0;
        for now in 0..6_000u64 {
            let n = (rng.below(480).min(rng.below(480))) as u16;
            let leaf = n / 8;
            let pooled: usize = groups.values().map(|group| group.keys.len()).sum();
            let is_new = groups.get(&leaf).is_none_or(|group| !group.keys.contains(&n));
            if is_new && pooled == 30 {
                groups.remove(&plain_victim(&groups, policy));
                commits += 1;
            }
            let group =
                groups.entry(leaf).or_insert(PlainGroup { keys: BTreeSet::new(), came: now, hit: now });
            group.keys.insert(n);
            group.hit = now;
            assert_eq!(index.insert(&key(n), &key(now as u16)), Ok(true));
            let mut found = BTreeSet::new();
            let mut next = index.pool.requests.first();
            while let Some(slot) = next {
                found.insert(u16::from_be_bytes(index.pool.requests.key(slot).try_into().unwrap()));
                next = index.pool.requests.after(slot);
            }
            assert!(found.iter().eq(groups.values().flat_map(|group| &group.keys)), "{policy:?} at {now}");
        }
        assert!(commits > 500 && index.counts.commits == commits);
    }
}

/// The victim by the paper's rule, found by pricing every group with a look at its leaf: the cheapest.
/// Among equals, the one hit least recently; of two halves of a divided group, the first in the table.
fn cheapest_of_all(index: &mut LazyUpdateTree<Store>) -> u32 {
    let mut groups: Vec<(u32, u64, u64, u64)> = Vec::new();
    let mut next = index.pool.requests.first();
    while let Some(slot) = next {
        next = index.pool.requests.after(slot);
        let group = index.pool.requests.group_of(slot);
        if groups.last().is_none_or(|(last, ..)| *last != group) {
            let (least, most) = index.tree.leaf_fill();
            let mut entries = index.tree.leaf_entries(index.pool.requests.key(slot)).unwrap() as isize;
            for slot in index.pool.members(group) {
                match (index.pool.requests.value(slot).is_some(), index.pool.requests.below(slot)) {
                    (true, Below::Absent | Below::Unknown) => entries += 1,
                    (false, Below::Present | Below::Unknown) => {
                        entries -= 1;
                    }
                    _ => {}
                }
            }
            let leaves = match entries.max(0) as usize {
                n if n > most => n.div_ceil(most),
                n if n < least => 2,
                _ => 1,
            };
            let (size, stamp) = (index.pool.groups.size(group), index.pool.groups.rank(group).1);
            groups.push((group, leaves as u64, u64::from(size), stamp));
        }
    }
    let dearer = |a: &&(u32, u64, u64, u64), b: &&(u32, u64, u64, u64)| {
        (a.1 * b.2, a.3, a.0).cmp(&(b.1 * a.2, b.3, b.0))
    };
    groups.iter().min_by(dearer).unwrap().0
}

#[test]
fn the_choice_by_cost_is_the_cheapest_of_all_groups() {
    for answers in [Answers::Exact, Answers::Pool] {
        let (mut chosen, mut groups_seen, mut splits_avoided, mut read) = (0, 0, 0, 0);
        for (order, seed) in [(4, 1), (5, 2), (9, 3), (30, 4)] {
            let config = LazyUpdateConfig { policy: CommitPolicy::CostBased, answers, ..config(order, 40) };
            let mut index = LazyUpdateTree::format(Store::new(256, 2_000), &config).unwrap();
            let mut rng = Rng::new(seed);
            for round in 0..4_000 {
                // The tree grows from one leaf and withers to one, twice.
                let puts = if round / 1_000 % 2 == 0 { 4 } else { 1 };
                let n = key(rng.below(500) as u16);
                if index.pool.requests.is_full() && index.pool.requests.find(&n).is_none() {
                    let victim = index.victim().unwrap().unwrap();
                    assert_eq!(victim, cheapest_of_all(&mut index), "order {order}, round {round}");
                    chosen += 1;
                    let Pool { requests, groups, .. } = &index.pool;
                    groups_seen += groups.len() as u64;
                    let largest = index.pool.members(victim).count() as u32;
                    let mut slots = core::iter::successors(requests.first(), |&slot| requests.after(slot));
                    splits_avoided += u32::from(slots.any(|s| groups.size(requests.group_of(s)) > largest));
                }
                if rng.chance(puts, 5) { index.insert(&n, &[0; 2]) } else { index.remove(&n) }.unwrap();
            }
            let model = contents(&mut index).unwrap();
            assert_sound(&mut index, &model);
            read += index.counts.leaves_read;
        }
        assert!(chosen > 1_000 && splits_avoided > 100, "{chosen} {splits_avoided}");
        if answers == Answers::Exact {
            assert_eq!(read, 0, "the leaf was read for the answer");
        } else {
            assert!((1..groups_seen / 3).contains(&read), "{read} of {groups_seen} groups were read");
        }
    }
}

#[test]
fn pool_and_cache_fit_into_one_budget() {
    for percent in [10, 50, 90] {
        let (record, policy) = (RecordFormat::new(8, 4), CommitPolicy::CostBased);
        let share = 73_308 * percent / 100;
        let requests = |count| LazyUpdateConfig::requests_in(record, policy, share, count);
        let config = LazyUpdateConfig::new(record, requests(PoolCount::Held));
        let config = LazyUpdateConfig { policy, tree: config.tree.with_order(85), ..config };
        let bytes = config.pool_bytes(PoolCount::Held);
        assert!(bytes <= share && share - bytes < 100, "{bytes} of {share}");
        let index = LazyUpdateTree::format(Store::new(2_048, 200), &config).unwrap();
        assert_eq!(index.ram_bytes() - index.tree().ram_bytes(), bytes);
        assert_eq!(requests(PoolCount::Record) as usize, share / 12, "as the paper counts");
    }
}

#[test]
fn a_group_of_any_size_is_committed() {
    for policy in CommitPolicy::ALL {
        let mut index = small_index(4, 600, policy);
        let mut model = Model::new();
        for n in 0..1_900 {
            put(&mut index, &mut model, &key(n), &key(n)).unwrap();
        }
        assert_sound(&mut index, &model);
        for n in 0..1_900 {
            assert_eq!(index.remove(&key(n)), Ok(true));
        }
        index.sync().unwrap();
        assert_sound(&mut index, &Model::new());
        assert_eq!(index.stats().height, 1);
    }
}

#[test]
fn a_full_store_loses_nothing_and_removals_make_room() {
    for policy in CommitPolicy::ALL {
        let config = LazyUpdateConfig { policy, ..config(4, 20) };
        let mut index = LazyUpdateTree::format(Store::new(128, 40), &config).unwrap();
        let mut model = Model::new();
        let mut refused = 0;
        for n in (0..400u16).map(|n| n * 17 % 400) {
            if let Err(error) = put(&mut index, &mut model, &key(n), &key(n)) {
                assert!(error.is_full(), "{error}");
                refused += 1;
            }
        }
        assert!(refused > 100 && model.len() > 60);
        assert_sound(&mut index, &model);
        while index.sync() == Err(IndexError::NO_BLOCK) {
            let (first, _) = model.pop_first().unwrap();
            assert_eq!(index.remove(&first), Ok(true));
            assert_sound(&mut index, &model);
        }
        assert!(model.len() > 40);
        assert_eq!((index.pooled_requests(), contents(&mut index)), (0, Ok(model)));
    }
}

#[test]
fn what_cannot_work_is_refused() {
    let format = |config| LazyUpdateTree::format(Store::new(128, 40), &config).err();
    assert!(matches!(format(config(4, 0)), Some(IndexError::Unsupported(_))));
    let durable =
        LazyUpdateConfig { tree: BPlusConfig::new(SMALL).with_order(4), ..LazyUpdateConfig::new(SMALL, 9) };
    assert!(matches!(format(durable), Some(IndexError::Unsupported(_))));
    let mut index = small_index(4, 9, CommitPolicy::Lru);
    assert!(matches!(index.insert(&[0; 3], &[0; 2]), Err(IndexError::WrongLength { .. })));
    assert!(matches!(index.get(&[0; 2], &mut [0; 3]), Err(IndexError::WrongLength { .. })));
}

#[test]
fn a_cut_at_any_write_is_noticed_and_leaves_each_key_as_at_the_last_sync_or_later() {
    let (mut refused, mut mixed) = (0, 0);
    for writes in 0..260 {
        let config = LazyUpdateConfig { policy: CommitPolicy::ALL[writes as usize % 4], ..config(4, 16) };
        let store = LazyUpdateTree::format(Store::new(128, 400), &config).unwrap().into_store();
        let mut index = LazyUpdateTree::mount(store.failing_after(writes), &config).unwrap();
        let history = work_until_the_cut(&mut index);
        let store = index.into_store().copy();
        match LazyUpdateTree::mount(store.copy(), &config) {
            Err(error) => {
                assert_eq!(error, IndexError::NotCleanlyClosed);
                refused += 1;
            }
            Ok(mut index) => {
                assert_eq!(contents(&mut index).unwrap(), *history.synced(), "after {writes} writes");
            }
        }
        let mut index = LazyUpdateTree::mount_after_cut(store, &config).unwrap();
        let found = contents(&mut index).unwrap();
        assert_sound(&mut index, &found);
        mixed += u32::from(found != *history.synced());
        history.assert_each_key(&found);
        index.insert(&key(5), &[0; 2]).unwrap();
        index.close().unwrap();
        assert!(LazyUpdateTree::mount(index.into_store(), &config).is_ok());
    }
    assert!(refused > 150 && mixed > 100, "{refused} {mixed}");
}

/// A forger who knows the checksum may mislead the index. It must neither panic nor run for ever.
#[test]
fn forged_pages_never_panic() {
    crate::inputs::cases(1_500, |seed| {
        let rng = &mut Rng::new(seed);
        let config = LazyUpdateConfig { policy: CommitPolicy::ALL[rng.below(4) as usize], ..config(4, 12) };
        let mut index = LazyUpdateTree::format(Store::new(64, 60), &config).unwrap();
        index.bulk_load((0..60).map(|n| (key(n), [0; 2])), Fill::FULL).unwrap();
        index.sync().unwrap();
        let store = index.into_store();
        forge(&store, any_forgeries(rng, (30, 40), 8));
        if let Ok(mut index) = LazyUpdateTree::mount(store, &config) {
            use_forged(&mut index, rng.next_u64());
        }
    });
}

#[test]
fn a_group_of_many_leaves_goes_in_portions_that_do_not_touch_the_rest() {
    for policy in CommitPolicy::ALL {
        let mut index = small_index(8, 2_000, policy);
        // In an empty tree all belong to one leaf.
        let model: Model =
            (0..2_000u16).map(|n| (key(n.wrapping_mul(7_919)).to_vec(), key(n).to_vec())).collect();
        model.iter().for_each(|(key, value)| assert_eq!(index.insert(key, value), Ok(false)));
        assert_eq!(index.stats().metrics.iter().find(|m| m.name == "pool_groups").unwrap().value, 1);
        index.sync().unwrap();
        assert!(index.counts.reshapings > 150, "{} portions", index.counts.reshapings);
        assert!(index.pool.counts.moves < 2_000, "{} requests were moved", index.pool.counts.moves);
        assert_sound(&mut index, &model);
        assert_eq!(contents(&mut index).unwrap(), model);
    }
}

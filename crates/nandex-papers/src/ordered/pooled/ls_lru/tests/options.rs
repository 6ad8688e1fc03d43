//! Inner nodes as units, and the other commit policies named in the paper.

use super::victims::figure_5;
use super::*;
use alloc::vec::Vec;
use nandex::cache::{CacheConfig, Lru, PageCache, WriteMode};
use nandex::ordered::RecordFormat;
use nandex::store::ram::RamCounters;

/// Number of combinations of inner nodes, commit policy, budget, splits and underfull leaves.
pub(super) const KINDS: u64 = 48;

/// The combination with number `kind`.
pub(super) fn varied(config: LsLruConfig, kind: u64) -> LsLruConfig {
    let inner = if kind.is_multiple_of(2) { Inner::Kept } else { Inner::Units };
    let commit = match kind / 2 % 3 {
        0 => CommitPolicy::WriteMinimized,
        1 => CommitPolicy::FirstAssociated,
        _ => CommitPolicy::ExactFit,
    };
    let ram = if (kind / 6).is_multiple_of(2) { UnitRam::Held } else { UnitRam::Record };
    let split = if (kind / 12).is_multiple_of(2) { LeafSplit::Multi } else { LeafSplit::TwoNodes };
    let underflow = if (kind / 24).is_multiple_of(2) { Underflow::Merge } else { Underflow::ExpelLeaves };
    let tree = BPlusConfig { underflow, ..config.tree };
    LsLruConfig { tree, inner, commit, ram, split, ..config }
}

const RECORD: RecordFormat = RecordFormat::new(4, 4);
const PAGE_BYTES: usize = 2_048;
const RECORDS: u32 = 40_000;

fn tree_config() -> BPlusConfig {
    let tree = BPlusConfig::new(RECORD).with_durability(Durability::None);
    BPlusConfig { leaf_capacity: Some(20), internal_capacity: Some(16), ..tree }
}

/// The records that give every tree the same leaves.
fn records() -> impl Iterator<Item = ([u8; 4], [u8; 4])> {
    (0..RECORDS).map(|n| ((4 * n).to_be_bytes(), [0; 4]))
}

/// Makes gets of a skewed choice of keys, changes of values, and now and then an insertion or a removal.
fn work(index: &mut dyn OrderedIndex) {
    let mut rng = Rng::new(11);
    for step in 1..=20_000u32 {
        // A new value each time: a leaf that does not differ is not written.
        let value = step.to_be_bytes();
        let n = rng.below(RECORDS.into()).min(rng.below(RECORDS.into())) as u32;
        let key = (4 * n).to_be_bytes();
        match rng.below(20) {
            0..=13 => drop(index.get(&key, &mut [0; 4]).unwrap()),
            14..=18 => drop(index.insert(&key, &value).unwrap()),
            _ if n.is_multiple_of(2) => drop(index.insert(&(4 * n + 1).to_be_bytes(), &value).unwrap()),
            _ => drop(index.remove(&key).unwrap()),
        }
    }
}

fn reads(counters: RamCounters) -> u64 {
    counters.page_reads.iter().sum()
}

fn writes(counters: RamCounters) -> u64 {
    counters.page_writes.iter().sum()
}

/// Pages read and written by the work, and the copies held at its end.
fn ls_lru_costs(inner: Inner, slabs: usize) -> ([u64; 2], usize) {
    let mut config = LsLruConfig::new(RECORD, 2_000 + slabs * buffer::slab_bytes(PAGE_BYTES));
    config.tree = tree_config();
    let config = LsLruConfig { window_percent: 0, inner, ..config };
    let mut index = LsLruTree::format(Store::new(PAGE_BYTES, 8_000), &config).unwrap();
    index.bulk_load(records(), Fill::percent(70).unwrap()).unwrap();
    index.sync().unwrap();
    let before = index.store().counters();
    work(&mut index);
    let (_, [frames, ..]) = index.buffer().slab_use();
    index.sync().unwrap();
    let after = index.store().counters();
    ([reads(after) - reads(before), writes(after) - writes(before)], frames)
}

fn lru_costs(frames: usize) -> [u64; 2] {
    let config = CacheConfig { frames, mode: WriteMode::BackAlone, dirty_frames_max: None };
    let store = Store::new(PAGE_BYTES, 8_000);
    let cache = PageCache::new(store, Lru::new(frames), config);
    let mut index = BPlusTree::format(cache, &tree_config()).unwrap();
    index.bulk_load(records(), Fill::percent(70).unwrap()).unwrap();
    index.sync().unwrap();
    let before = index.store().store().counters();
    work(&mut index);
    index.sync().unwrap();
    let after = index.store().store().counters();
    [reads(after) - reads(before), writes(after) - writes(before)]
}

#[test]
fn without_a_cold_region_inner_nodes_as_units_cost_what_lru_costs() {
    let mut farthest: f64 = 0.0;
    for slabs in [100, 300, 600] {
        let (units, frames) = ls_lru_costs(Inner::Units, slabs);
        let (kept, _) = ls_lru_costs(Inner::Kept, slabs);
        let lru = lru_costs(frames);
        let apart = |costs: [u64; 2]| [0, 1].map(|i| costs[i] as f64 / lru[i] as f64 - 1.0);
        let figures =
            std::format!("{slabs} slabs, {frames} copies: LRU {lru:?}, units {units:?}, kept {kept:?}");
        assert!(apart(units).iter().all(|share| share.abs() < 0.02), "{figures}");
        farthest = apart(kept).iter().fold(farthest, |most, share| most.max(share.abs()));
    }
    assert!(farthest > 0.05, "inner nodes that are kept cost something else: {farthest}");
}

/// Commits until nothing waits. Returns for each commit the leaves that it empties, by their number in
/// Figure 5, and its writes.
fn commits(policy: CommitPolicy) -> Vec<(Vec<u16>, u64)> {
    let mut index = figure_5(policy);
    let mut seen = Vec::new();
    // A change that is used again is not younger for it.
    index.insert(&key(111), &[2; 2]).unwrap();
    let model = contents(&mut index).unwrap();
    let clean: Vec<u32> = index
        .buffer()
        .units
        .all()
        .filter(|&unit| index.buffer().units.get(unit).state() == Some(State::SemiClean))
        .collect();
    clean.into_iter().for_each(|unit| index.buffer_mut().drop_frame(unit));
    while index.waiting_entries() > 0 {
        let dirty = |index: &mut LsLruTree<Store>| -> Vec<u16> {
            (1..=5).filter(|leaf| state_of(index, leaf * 100 + 11) == Some(State::Dirty)).collect()
        };
        let (before, writes) = (dirty(&mut index), host_writes(&index));
        assert_eq!(index.commit_write_minimized(), Ok(true));
        let after = dirty(&mut index);
        seen.push((
            before.into_iter().filter(|leaf| !after.contains(leaf)).collect(),
            host_writes(&index) - writes,
        ));
    }
    assert_sound(&mut index, &model);
    seen
}

#[test]
fn figure_5_under_the_policies_that_the_paper_compares_with() {
    // Five leaves with 9, 4, 5, 2 and 3 entries, that cost 3, 1, 3, 1 and 1 writes; six entries are wanted.
    let minimized = [(vec![2, 5], 2), (vec![1], 3), (vec![3, 4], 4)];
    assert_eq!(commits(CommitPolicy::WriteMinimized), minimized);
    let oldest = [(vec![1], 3), (vec![2], 1), (vec![3], 3), (vec![4], 1), (vec![5], 1)];
    assert_eq!(commits(CommitPolicy::FirstAssociated), oldest);
    // Nine is the best fit to six. Then nothing fits: five and two, four and three.
    let fitting = [(vec![1], 3), (vec![3, 4], 4), (vec![2, 5], 2)];
    assert_eq!(commits(CommitPolicy::ExactFit), fitting);
}

#[test]
fn a_budget_of_records_counts_seventeen_bytes_for_a_unit_of_one_change() {
    let waiting = |ram| {
        let mut config = LsLruConfig::new(RECORD, 60_000);
        config.tree = tree_config();
        let config = LsLruConfig { window_percent: 100, ram, ..config };
        assert_eq!(
            config.counted().unit + config.counted().group,
            if ram == UnitRam::Record { 17 } else { 92 }
        );
        let mut index = LsLruTree::format(Store::new(PAGE_BYTES, 8_000), &config).unwrap();
        index.bulk_load(records(), Fill::percent(70).unwrap()).unwrap();
        let (mut rng, mut most) = (Rng::new(3), 0);
        for i in 0..20_000 {
            let n = rng.below(RECORDS.into()) as u32;
            index.insert(&(4 * n).to_be_bytes(), &[1; 4]).unwrap();
            most = most.max(index.waiting_entries());
            if i % 97 == 0 && ram == UnitRam::Record {
                let (_, [frames, ..]) = index.buffer().slab_use();
                let units = index.buffer().units.all().count();
                let counted = frames * PAGE_BYTES + units * 8 + index.waiting_entries() as usize * 9;
                assert!(counted <= 60_000, "{counted}");
            }
        }
        let held = index.ram_bytes() - index.store().ram_bytes();
        assert!(held <= config.ram_bytes_max(index.store()).unwrap());
        let report = index.check().unwrap();
        assert!(report.is_sound(), "{:?}", report.violations);
        (most, buffer_ram(&index))
    };
    let (held, record) = (waiting(UnitRam::Held), waiting(UnitRam::Record));
    assert!(record.0 > 2 * held.0, "more changes wait: {held:?} {record:?}");
    assert!(held.1 <= 60_000 && record.1 > 60_000, "and what they take is told: {held:?} {record:?}");
}

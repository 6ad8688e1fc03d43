//! Splits into two nodes at a time, and leaves that stay until they are empty.

use super::*;

fn lazy(config: LsLruConfig) -> LsLruConfig {
    LsLruConfig { tree: BPlusConfig { underflow: Underflow::ExpelLeaves, ..config.tree }, ..config }
}

/// Nodes written and multi-split commits for thirty keys that come to a full leaf of ten.
fn thirty_to_a_full_leaf(split: LeafSplit) -> (u64, u64) {
    let mut index = small_index(LsLruConfig { split, ..config(10, 60) });
    index.bulk_load((0..20).map(|n| (key(1_000 * n), [0; 2])), Fill::FULL).unwrap();
    let before = host_writes(&index);
    for n in 100..130 {
        assert_eq!(host_writes(&index), before);
        index.insert(&key(n), &[1; 2]).unwrap();
    }
    assert_eq!(index.waiting_entries(), 0);
    let model = contents(&mut index).unwrap();
    assert_eq!(model.len(), 50);
    assert_sound(&mut index, &model);
    (host_writes(&index) - before, index.counts.multi_split_commits)
}

#[test]
fn two_nodes_at_a_time_write_three_pages_for_each_new_leaf() {
    assert_eq!(thirty_to_a_full_leaf(LeafSplit::Multi), (5, 1), "four leaves and the parent, once");
    assert_eq!(
        thirty_to_a_full_leaf(LeafSplit::TwoNodes),
        (9, 0),
        "three new leaves, two and the parent each"
    );
}

#[test]
fn the_statistical_table_prices_splits_of_two_nodes() {
    for (entries, multi, two) in [(10, 1, 1), (11, 3, 3), (20, 4, 3), (21, 4, 6), (30, 5, 6), (40, 6, 9)] {
        assert_eq!(super::super::victims::writes(entries - 8, 8, 10), multi, "{entries}");
        assert_eq!(super::super::victims::writes_by_two(entries - 8, 8, 10), two, "{entries}");
    }
}

/// An index of a hundred leaves of ten, with all but one record of each leaf removed again, and the number
/// of its nodes then.
fn thinned(config: LsLruConfig, pages: u32) -> (LsLruTree<Store>, u64) {
    let mut index = LsLruTree::format(Store::new(128, pages), &config).unwrap();
    index.bulk_load((0..1_000).map(|n| (key(n), [0; 2])), Fill::FULL).unwrap();
    for n in (0..1_000).filter(|n| n % 10 != 3) {
        assert_eq!(index.remove(&key(n)), Ok(true));
    }
    index.sync().unwrap();
    let nodes = index.check().unwrap().nodes;
    (index, nodes)
}

#[test]
fn lazy_coalescing_leaves_leaves_until_they_are_empty() {
    let (mut eager, nodes) = thinned(config(10, 30), 2_000);
    assert!(nodes < 30, "a hundred records in {nodes} nodes");
    let (mut index, nodes) = thinned(lazy(config(10, 30)), 2_000);
    assert!(nodes >= 110, "a hundred leaves and their parents, not {nodes}");
    assert!(host_writes(&index) < host_writes(&eager), "what is not mended is not written");
    let mut model = contents(&mut index).unwrap();
    assert_eq!(model, contents(&mut eager).unwrap());
    // From the middle, so that leaves are the first and the last of their parents.
    for n in (503..1_000).step_by(10).chain((3..503).step_by(10)) {
        assert_eq!(index.remove(&key(n)), Ok(true));
        model.remove(&key(n)[..]);
        index.sync().unwrap();
        assert_sound(&mut index, &model);
        // The keys of a leaf that is gone belong to its neighbour.
        index.insert(&key(n), &[7; 2]).unwrap();
        assert_eq!(index.remove(&key(n)), Ok(true));
    }
    assert_eq!((index.stats().height, index.check().unwrap().nodes), (1, 1));
}

#[test]
fn leaves_are_mended_where_the_store_is_nearly_full() {
    // A hundred leaves and a dozen nodes above them.
    let (_, nodes) = thinned(lazy(config(10, 30)), 118);
    assert!((30..110).contains(&nodes), "{nodes}: until an eighth of the pages is free, and no more");
}

#[test]
fn lazy_coalescing_is_part_of_the_format() {
    let store = small_index(config(10, 30)).into_store();
    assert!(LsLruTree::mount(store, &lazy(config(10, 30))).is_err());
    let mut index = small_index(lazy(config(10, 30)));
    index.close().unwrap();
    assert!(LsLruTree::mount(index.into_store(), &lazy(config(10, 30))).is_ok());
}

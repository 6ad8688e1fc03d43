//! The paper's own words as tests: the states of Figure 3, the regions, Lemma 1 and Table 3, and the example
//! of Section 3.2.2.

use super::super::units::{NONE, Place};
use super::*;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use nandex::testing::apply;

fn place_of(index: &mut LsLruTree<Store>, n: u16) -> Option<Place> {
    let lpn = index.tree.leaf_of(&key(n), Cause::Check).unwrap();
    let unit = index.buffer().units.find(lpn)?;
    Some(index.buffer().units.get(unit).place)
}

fn drop_clean_part(index: &mut LsLruTree<Store>, n: u16) {
    let lpn = index.tree.leaf_of(&key(n), Cause::Check).unwrap();
    let unit = index.buffer().units.find(lpn).unwrap();
    index.buffer_mut().drop_frame(unit);
}

fn loaded(config: LsLruConfig, records: u16) -> LsLruTree<Store> {
    let mut index = small_index(config);
    index.bulk_load((0..records).map(|n| (key(2 * n), [0; 2])), Fill::percent(70).unwrap()).unwrap();
    index.sync().unwrap();
    index
}

#[test]
fn figure_3_every_transition() {
    let mut index = loaded(config(10, 30), 100);
    let get = |index: &mut LsLruTree<Store>, n| index.get(&key(n), &mut [0; 2]).unwrap();
    assert_eq!(state_of(&mut index, 50), None);
    get(&mut index, 50);
    assert_eq!(state_of(&mut index, 50), Some(State::Clean), "a miss makes a clean unit");
    index.insert(&key(51), &[1; 2]).unwrap();
    assert_eq!(state_of(&mut index, 50), Some(State::SemiClean), "a change makes it semi-clean");
    drop_clean_part(&mut index, 50);
    assert_eq!(state_of(&mut index, 50), Some(State::Dirty), "the clean-part-only commit leaves the changes");
    get(&mut index, 51);
    assert_eq!(state_of(&mut index, 50), Some(State::Dirty), "which answer for their keys");
    get(&mut index, 50);
    assert_eq!(state_of(&mut index, 50), Some(State::SemiClean), "a miss brings the base node back");
    index.sync().unwrap();
    assert_eq!(state_of(&mut index, 50), Some(State::Clean), "the full merge commit makes it clean");
    drop_clean_part(&mut index, 50);
    assert_eq!(state_of(&mut index, 50), None, "a clean unit leaves");
    index.insert(&key(51), &[2; 2]).unwrap();
    drop_clean_part(&mut index, 50);
    assert_eq!(state_of(&mut index, 50), Some(State::Dirty));
    index.sync().unwrap();
    assert_eq!(state_of(&mut index, 50), None, "nothing is left of a dirty unit that is committed");
    let metric = |index: &LsLruTree<Store>, name| {
        index.stats().metrics.iter().find(|metric| metric.name == name).unwrap().value
    };
    assert_eq!(metric(&index, "clean_part_commits"), 2);
    assert_eq!(metric(&index, "clean_evictions"), 1);
    assert_eq!(metric(&index, "full_merges"), 2);
}

#[test]
fn insertions_and_removals_of_a_key_neutralise_each_other() {
    let mut index = loaded(config(10, 30), 100);
    index.insert(&key(51), &[1; 2]).unwrap();
    assert_eq!(index.remove(&key(51)), Ok(true));
    assert_eq!((state_of(&mut index, 50), index.waiting_entries()), (Some(State::Clean), 0));
    assert_eq!(index.remove(&key(51)), Ok(false), "what does not exist is no change");
    assert_eq!(index.remove(&key(50)), Ok(true));
    assert_eq!(index.insert(&key(50), &[0; 2]), Ok(false));
    let before = host_writes(&index);
    index.sync().unwrap();
    assert_eq!(host_writes(&index), before, "a leaf that does not differ is not written");
}

#[test]
fn the_cold_region_gives_up_clean_parts_before_dirty_ones() {
    let mut index = loaded(LsLruConfig { window_percent: 50, ..config(10, 140) }, 2_000);
    let mut rng = Rng::new(4);
    let mut seen = BTreeSet::new();
    for _ in 0..4_000 {
        let n = rng.below(4_000) as u16;
        if index.buffer().slabs_at_hand() > 0 {
            let commits = index.counts.write_minimized_commits;
            index.make_room().unwrap();
            assert_eq!(index.counts.write_minimized_commits, commits, "the clean list has a unit");
        }
        if rng.chance(1, 2) { index.insert(&key(n), &[1; 2]) } else { index.get(&key(n), &mut [0; 2]) }
            .unwrap();
        seen.insert((place_of(&mut index, n) == Some(Place::Hot), state_of(&mut index, n).is_some()));
        for unit in index.buffer().units.all() {
            let unit = index.buffer().units.get(unit);
            let fits = match unit.place {
                Place::Clean | Place::Inner => unit.frame != NONE,
                Place::Dirty => unit.frame == NONE,
                Place::Hot => true,
                Place::Free => false,
            };
            assert!(fits, "{unit:?}");
        }
    }
    assert_eq!(seen, [(true, true)].into(), "what was used is hot");
    let states = index.buffer().states();
    assert!(states.iter().all(|count| *count > 0), "{states:?}");
}

#[test]
fn without_a_cold_region_it_is_plain_lru() {
    let mut index = loaded(LsLruConfig { window_percent: 0, ..config(10, 30) }, 2_000);
    let mut rng = Rng::new(5);
    // Keys that the tree has, by recency.
    let mut order: Vec<u16> = Vec::new();
    for i in 0..1_200 {
        let n = 2 * rng.below(2_000) as u16;
        if rng.chance(1, 2) { index.insert(&key(n), &[1; 2]) } else { index.get(&key(n), &mut [0; 2]) }
            .unwrap();
        order.push(n);
        assert_eq!(index.buffer().units.dirty_len() + index.buffer().units.clean_len(), 0);
        if i % 40 != 0 {
            continue;
        }
        let mut seen = BTreeSet::new();
        let mut held: Vec<bool> = Vec::new();
        for &n in order.iter().rev() {
            if seen.insert(index.tree.leaf_of(&key(n), Cause::Check).unwrap()) {
                held.push(state_of(&mut index, n).is_some());
            }
        }
        assert!(held[0] && held.is_sorted_by(|a, b| a >= b), "the leaves used last are held: {held:?}");
    }
    assert_eq!(index.counts.write_minimized_commits, 0);
    assert!(index.counts.hot_evictions > 600);
}

type Bytes = [u8; 2];

/// Records as pairs of key and value, for a symmetric difference.
type Pairs = BTreeSet<(Bytes, Bytes)>;

fn toggle(pairs: &mut Pairs, pair: (Bytes, Bytes)) {
    if !pairs.remove(&pair) {
        pairs.insert(pair);
    }
}

/// The base nodes, read past the buffer.
fn base_nodes(index: &mut LsLruTree<Store>) -> Pairs {
    let mut base = Pairs::new();
    let unbounded = (Bound::Unbounded, Bound::Unbounded);
    index
        .tree
        .walk_leaves(unbounded, Direction::Ascending, &mut |_, leaf| {
            leaf.visit_records(Direction::Ascending, &mut |key, value| {
                base.insert((key.try_into().unwrap(), value.try_into().unwrap()));
                core::ops::ControlFlow::Continue(())
            })
        })
        .unwrap();
    base
}

/// The index units of the dirty parts by Definition 2: the insertion of a pair, the deletion of a pair, or
/// both for a modification. An insertion and a deletion of the same pair cancel.
fn index_units(index: &LsLruTree<Store>, base: &Pairs) -> Pairs {
    let mut units = Pairs::new();
    for unit in index.buffer().units.all() {
        for entry in index.cells.entries(index.buffer().units.part(unit)) {
            let key: Bytes = entry.change.key.try_into().unwrap();
            let old = base.range((key, [0; 2])..=(key, [255; 2])).next();
            assert_eq!(old.is_some(), entry.below == Below::Present);
            if let Some(old) = old {
                toggle(&mut units, *old);
            }
            if let Some(value) = entry.change.value {
                toggle(&mut units, (key, value.try_into().unwrap()));
            }
        }
    }
    units
}

type Edit = fn(&mut LsLruTree<Store>);

#[test]
fn table_3_row_by_row() {
    let rows: [(&str, Option<u16>, Edit); 5] = [
        ("N/A, no entry", None, |_| {}),
        ("N/A, a base entry", Some(0), |_| {}),
        ("Insert", Some(9), |index| drop(index.insert(&key(50), &key(9)))),
        ("Delete", None, |index| drop(index.remove(&key(50)))),
        ("Modify", Some(8), |index| drop(index.insert(&key(50), &key(8)))),
    ];
    for (i, (name, output, change)) in rows.into_iter().enumerate() {
        let mut index = loaded(config(10, 30), 100);
        if [0, 2].contains(&i) {
            index.remove(&key(50)).unwrap();
            index.sync().unwrap();
        }
        change(&mut index);
        let mut found = [0; 2];
        let is_found = index.get(&key(50), &mut found).unwrap();
        assert_eq!((is_found.then_some(found), name), (output.map(key), name));
        let base = base_nodes(&mut index);
        let xor: Pairs = base.symmetric_difference(&index_units(&index, &base)).copied().collect();
        assert_eq!(model_of(&xor), contents(&mut index).unwrap(), "{name}");
    }
}

fn model_of(pairs: &Pairs) -> Model {
    let model: Model = pairs.iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
    assert_eq!(model.len(), pairs.len(), "a key has one value");
    model
}

#[test]
fn lemma_1_the_logical_node_is_base_node_xor_dirty_part() {
    crate::inputs::cases(200, |seed| {
        let rng = &mut Rng::new(seed);
        let config = LsLruConfig { answers: Answers::Exact, ..any_config(rng) };
        let (mut index, mut model) = (small_index(config), Model::new());
        for (i, op) in any_ops(rng).iter().enumerate() {
            apply(&mut index, &mut model, op, Answers::Exact);
            if i % 7 == 0 {
                let base = base_nodes(&mut index);
                let units = index_units(&index, &base);
                assert_eq!(model_of(&base.symmetric_difference(&units).copied().collect()), model);
            }
        }
    });
}

#[test]
fn section_3_2_2_immediate_splits_write_18_nodes_and_a_multi_split_5() {
    // A full leaf of ten, and 30 keys that come five at a time. Another leaf beside it, so that there is a
    // parent.
    let start = |split_factor| {
        let mut index = small_index(LsLruConfig { split_factor, ..config(10, 60) });
        index.bulk_load((0..20).map(|n| (key(1_000 * n), [0; 2])), Fill::FULL).unwrap();
        index
    };
    // From above, so that each five meet the larger half.
    let key_of = |step: u16, i: u16| key(100 - step * 5 + i);
    let mut immediate = start(3);
    let before = host_writes(&immediate);
    for step in 0..6 {
        let keys: Vec<Bytes> = (0..5).map(|i| key_of(step, i)).collect();
        let changes = keys.iter().map(|key| Change { key, value: Some(&[1; 2]) });
        immediate.tree.apply_to_leaf(changes, 2).unwrap();
    }
    let model = contents(&mut immediate).unwrap();
    assert_eq!((host_writes(&immediate) - before, model.len()), (18, 50), "three nodes for every five keys");

    let mut lazy = start(3);
    let before = host_writes(&lazy);
    for step in 0..6 {
        for i in 0..5 {
            assert_eq!((host_writes(&lazy) - before, lazy.counts.multi_split_commits), (0, 0));
            lazy.insert(&key_of(step, i), &[1; 2]).unwrap();
        }
    }
    let written = host_writes(&lazy) - before;
    assert_eq!((lazy.counts.multi_split_commits, lazy.waiting_entries()), (1, 0));
    assert_eq!(written, 5, "four leaves and the parent");
    assert_eq!(contents(&mut lazy).unwrap(), model);
    assert_sound(&mut lazy, &model);
}

//! The MR-tree: half-leaves, the way a split takes, and the balance of heights.

use super::model::{Kind, Model, assert_same};
use crate::inputs::sized;
use crate::spatial::mr_tree::{self, Balance, MrRules, MrTree};
use alloc::vec::Vec;
use core::ops::ControlFlow;
use nandex::rng::Rng;
use nandex::spatial::tree::SpatialConfig;
use nandex::spatial::{Rect, SpatialIndex};
use nandex::testing::Store;

type Small = MrTree<Store, i32, 2>;

fn small(rules: MrRules, capacity: usize) -> Small {
    let config = SpatialConfig::new(rules).with_capacity(capacity);
    MrTree::format(Store::new(512, 900), &config).unwrap()
}

fn figure(tree: &Small, name: &str) -> u64 {
    tree.stats().metrics.iter().find(|metric| metric.name == name).unwrap().value
}

/// Level and number of entries of every node, the root first.
fn nodes(tree: &mut Small) -> Vec<(u8, usize)> {
    let mut found = Vec::new();
    tree.regions(&mut |region| {
        found.push((region.level, region.entries));
        ControlFlow::Continue(())
    })
    .unwrap();
    found
}

fn insert_points(tree: &mut Small, at: impl IntoIterator<Item = i32>) {
    for x in at {
        tree.insert(&Rect::point([x, x]).unwrap(), x as u64).unwrap();
        let report = tree.check().unwrap();
        assert!(report.is_sound(), "{:?}", report.violations);
    }
}

#[test]
fn a_full_leaf_becomes_a_half_leaf_and_that_an_internal_node() {
    let mut tree = small(mr_tree::config().rules, 4);
    insert_points(&mut tree, [0, 1, 2, 10]);
    assert_eq!(nodes(&mut tree), [(1, 4)]);
    // 10 and 11 become a leaf below the root, which keeps 0, 1 and 2.
    insert_points(&mut tree, [11]);
    assert_eq!((nodes(&mut tree), figure(&tree, "half_leaf_moves")), (Vec::from([(2, 4), (1, 2)]), 1));
    // The half-leaf is full: even what lies among its data goes below it.
    insert_points(&mut tree, [3, 12]);
    assert_eq!(nodes(&mut tree), [(2, 4), (1, 4)]);
    // The leaf is full too, and nothing above a half-leaf has room: its data become a leaf, and it an
    // internal node.
    insert_points(&mut tree, [13]);
    assert_eq!((figure(&tree, "conversions"), figure(&tree, "half_leaf_moves")), (1, 1));
    assert_eq!(nodes(&mut tree)[0], (2, 3));
    assert!(nodes(&mut tree)[1..].iter().all(|(level, _)| *level == 1));
    // With room in the root the next splits are handed to it; then it is full and a leaf becomes a half-leaf
    // again.
    insert_points(&mut tree, 14..20);
    assert!(figure(&tree, "propagations") > 0);
    insert_points(&mut tree, 20..40);
    assert!(figure(&tree, "half_leaf_moves") > 1 && tree.stats().height >= 3);
}

#[test]
fn data_below_a_half_leaf_compete_with_its_data() {
    let mut tree = small(mr_tree::config().rules, 5);
    insert_points(&mut tree, [0, 1, 100, 101, 102, 103]);
    let before = nodes(&mut tree);
    assert_eq!((before[0].0, before.len()), (2, 2));
    // Whichever group stayed, each takes what lies within its own box, while the half-leaf has room.
    tree.remove(&Rect::point([103, 103]).unwrap(), 103).unwrap();
    tree.remove(&Rect::point([1, 1]).unwrap(), 1).unwrap();
    let before = nodes(&mut tree);
    tree.insert(&Rect::point([0, 0]).unwrap(), 7).unwrap();
    tree.insert(&Rect::point([101, 101]).unwrap(), 8).unwrap();
    let after = nodes(&mut tree);
    assert_eq!((after[0].1, after[1].1), (before[0].1 + 1, before[1].1 + 1));
}

/// Grows a tree and shrinks it from one side, so that subtrees there get low. Every step is checked.
fn one_sided(rules: MrRules, capacity: usize, seed: u64) -> Small {
    let mut tree = small(rules, capacity);
    let mut model = Model::<i32, 2>::random(Kind::Rects, 300, seed);
    for (i, (rect, id)) in model.entries.iter().enumerate() {
        tree.insert(rect, *id).unwrap();
        let report = tree.check().unwrap();
        assert!(report.is_sound() && report.records == i as u64 + 1, "{:?}", report.violations);
    }
    model.entries.sort_by_key(|(rect, _)| -rect.low()[0]);
    let mut rng = Rng::new(seed);
    while model.entries.len() > 20 {
        let at = model.entries.len() - 1 - rng.below(8) as usize;
        let (rect, id) = model.entries.remove(at);
        assert_eq!(tree.remove(&rect, id), Ok(true));
        let report = tree.check().unwrap();
        assert!(report.is_sound(), "{:?}", report.violations);
        if model.entries.len().is_multiple_of(40) {
            assert_same(&mut tree, &model, seed);
        }
    }
    assert_same(&mut tree, &model, seed);
    tree
}

#[test]
fn heights_are_balanced_when_one_side_is_taken_away() {
    let mut sums = [[0; 6]; 4];
    for seed in 0..sized(3, 6) {
        for (i, balance) in [Balance::Reinsertion, Balance::Adoption].into_iter().enumerate() {
            for is_selective in [false, true] {
                let tree = one_sided(MrRules { balance, is_selective }, 4, seed);
                let sum = &mut sums[2 * i + usize::from(is_selective)];
                sum.iter_mut().zip(tree.counts().own).for_each(|(sum, n)| *sum += n);
                let reinserts = balance == Balance::Reinsertion || is_selective;
                assert!(reinserts || tree.counts().reinsertions == 0);
            }
        }
    }
    let [moves, conversions, propagations, gatherings, balances, _] = sums[0];
    let few = sized(25, 50);
    assert!(moves > few && conversions > few && propagations > few, "{sums:?}");
    assert!(gatherings > 0 && balances > 0 && sums[2][4] > 0, "{sums:?}");
    assert!(sums[0][5] == 0 && sums[1][5] > few && sums[3][5] > few, "{sums:?}");
}

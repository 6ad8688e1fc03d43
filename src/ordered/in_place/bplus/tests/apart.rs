//! Pages written one by one, as the analysis of the WPCB-tree's paper counts them.

use super::*;
use crate::ordered::bplus::StructureWrites;

fn apart(order: usize) -> BPlusConfig {
    BPlusConfig {
        structure_writes: StructureWrites::Apart,
        ..BPlusConfig::new(SMALL).with_order(order).with_durability(Durability::None)
    }
}

/// A tree whose mark is no longer clean, so that only pages of nodes are written from here on.
fn tree(config: BPlusConfig) -> BPlusTree<Store> {
    let mut tree = BPlusTree::format(Store::new(64, 4000), &config).unwrap();
    let key = key(0, SMALL);
    tree.insert(&key, &[0; 2]).unwrap();
    tree.remove(&key).unwrap();
    tree
}

/// The pages that an edit writes, one list for each group.
fn written(tree: &mut BPlusTree<Store>, edit: impl FnOnce(&mut BPlusTree<Store>)) -> Vec<Vec<u32>> {
    tree.store.0.note_changes();
    edit(tree);
    let group = |step: &Change| match step {
        Change::Write(group, _) => Some(group.iter().map(|(lpn, _)| lpn.0).collect()),
        _ => None,
    };
    tree.store.0.changes().iter().filter_map(group).collect()
}

/// Equations (3) and (4): n writes, and three for each split, merge or rotation.
#[test]
fn writes_apart_are_those_of_equations_3_and_4() {
    for (order, seed) in [(3, 1), (4, 2), (5, 3), (8, 4)] {
        let mut tree = tree(apart(order));
        let ram_bytes_max = apart(order).ram_bytes_max(&tree.store.0).unwrap();
        let mut keys: Vec<u16> = (1..=600).collect();
        Rng::new(seed).shuffle(&mut keys);
        let (n, before) = (keys.len() as u64, tree.store.0.page_writes());
        for &n in &keys {
            tree.insert(&key(n, SMALL), &value(n.into(), SMALL)).unwrap();
        }
        let splits = tree.counts().splits;
        assert_eq!(tree.store.0.page_writes() - before, n + 3 * splits, "order {order}");
        assert!(splits > 100 && tree.stats().height >= 4, "{splits}");
        tree = BPlusTree::mount(
            {
                tree.sync().unwrap();
                tree.into_store()
            },
            &apart(order),
        )
        .unwrap();
        let key_of = |n: u16| key(n, SMALL);
        let first = key_of(keys[0]);
        let value_of = value(keys[0].into(), SMALL);
        // The mark is cleared once more.
        tree.insert(&first, &value_of).unwrap();
        Rng::new(seed + 10).shuffle(&mut keys);
        let before = tree.store.0.page_writes();
        for &n in &keys {
            assert_eq!(tree.remove(&key(n, SMALL)), Ok(true));
            assert!(tree.ram_bytes() <= ram_bytes_max);
        }
        let (merges, rotations) = (tree.counts().merges, tree.counts().redistributions);
        assert_eq!(tree.store.0.page_writes() - before, n + 3 * (merges + rotations), "order {order}");
        assert!(merges > 100 && rotations > 20, "{merges} {rotations}");
        assert_eq!(tree.stats().height, 1);
    }
}

#[test]
fn a_leaf_is_written_first_and_then_each_change_from_the_leaf_up() {
    let mut tree = tree(apart(4));
    for n in [10, 20, 30, 40] {
        assert_eq!(written(&mut tree, |tree| drop(tree.insert(&key(n, SMALL), &[0; 2]))), [[1]]);
    }
    // The root is the leaf, then both halves and the root above them.
    let pages = written(&mut tree, |tree| drop(tree.insert(&key(50, SMALL), &[0; 2])));
    assert_eq!(pages, [[1], [2], [3], [1]]);
    // 10 20 30 | 40 50: a rotation writes the leaf, both leaves, and the root.
    let pages = written(&mut tree, |tree| drop(tree.remove(&key(40, SMALL))));
    assert_eq!((pages, tree.counts().redistributions), (vec![vec![3], vec![2], vec![3], vec![1]], 1));
    // 10 20 | 30 50: a merge.
    let pages = written(&mut tree, |tree| drop(tree.remove(&key(10, SMALL))));
    assert_eq!((pages, tree.counts().merges), (vec![vec![2], vec![2], vec![3], vec![1]], 1));
    assert_eq!(tree.stats().height, 1);
    let model = Model::from([20, 30, 50].map(|n| (key(n, SMALL), vec![0; 2])));
    assert_holds(&mut tree, &model);
}

#[test]
fn together_is_the_usual_way_and_the_only_one_that_is_atomic() {
    assert_eq!(BPlusConfig::new(SMALL).structure_writes, StructureWrites::Together);
    let apart_alone = BPlusConfig { structure_writes: StructureWrites::Apart, ..BPlusConfig::new(SMALL) };
    let refused = BPlusTree::format(Store::new(64, 400), &apart_alone).map(drop);
    assert!(matches!(refused, Err(IndexError::Unsupported(what)) if what.contains("one by one")));
    let tree = tree(apart(4));
    assert_eq!(
        (tree.durability(), tree.config().structure_writes),
        (Durability::None, StructureWrites::Apart)
    );
    // Cut off before it was synced it is not taken for whole.
    assert_eq!(BPlusTree::mount(tree.into_store(), &apart(4)).map(drop), Err(IndexError::NotCleanlyClosed));
    let together = BPlusConfig { structure_writes: StructureWrites::Together, ..apart(4) };
    let mut tree = super::apart::tree(together);
    for n in [10, 20, 30, 40] {
        tree.insert(&key(n, SMALL), &[0; 2]).unwrap();
    }
    assert_eq!(written(&mut tree, |tree| drop(tree.insert(&key(50, SMALL), &[0; 2]))), [[2, 3, 1]]);
}

#[test]
fn a_store_that_fills_up_between_two_writes_interrupts() {
    for room in 0..4 {
        let mut tree = tree(apart(4));
        for n in [10, 20, 30, 40] {
            tree.insert(&key(n, SMALL), &[0; 2]).unwrap();
        }
        tree.store.0.refuse_after(room, StoreError::Full);
        let refused = tree.insert(&key(50, SMALL), &[0; 2]);
        let expected = if room == 0 { IndexError::NO_BLOCK } else { IndexError::Interrupted };
        assert_eq!(refused, Err(expected), "room for {room} pages");
        assert_eq!(tree.ready().is_err(), room > 0);
    }
}

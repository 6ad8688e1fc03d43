//! The tree in the least RAM: the same contents, three pages a group, and whole after every cut.

use super::cuts::record_on;
use super::*;
use crate::ordered::bplus::TreeRam;

fn least(order: usize) -> BPlusConfig {
    BPlusConfig::new(SMALL).with_order(order).with_ram(TreeRam::Least)
}

fn tree(order: usize, pages: u32) -> BPlusTree<Store> {
    let tree = BPlusTree::format(Store::new(96, pages), &least(order)).unwrap();
    tree.store.0.note_changes();
    assert_eq!(tree.config().ram, TreeRam::Least);
    tree
}

/// Groups of three pages at most, and the RAM that was said.
fn assert_small(tree: &mut BPlusTree<Store>, order: usize) {
    let small = |step: &Change| !matches!(step, Change::Write(group, _) if group.len() > 3);
    assert!(tree.store.0.changes().iter().all(small));
    tree.store.0.note_changes();
    let needed = least(order).ram_bytes_least(&tree.store.0).unwrap().unwrap();
    assert!(tree.ram_bytes() <= needed, "{} bytes of {needed}", tree.ram_bytes());
}

#[test]
fn contents_are_those_of_a_map() {
    for order in [8, 9] {
        let (mut tree, mut model, mut rng) = (tree(order, 4_000), Model::new(), Rng::new(order as u64));
        tree.store.0.note_changes();
        let mut merges = 0;
        for i in 0..24_000u64 {
            let key = key(rng.below(12_000) as u16, SMALL);
            let inserts = if (i / 8_000) == 1 { 1 } else { 4 };
            if rng.below(5) < inserts {
                let value = value(i, SMALL);
                put(&mut tree, &mut model, &key, &value).unwrap();
            } else {
                take(&mut tree, &mut model, &key).unwrap();
            }
            assert_small(&mut tree, order);
            if i % 3_000 == 2_999 {
                assert_sound(&mut tree, &model);
                merges += tree.counts().merges;
                // Whoever mounts it takes it as it is.
                let mut ample = BPlusTree::mount_found(tree.into_store()).unwrap();
                assert_holds(&mut ample, &model);
                tree = BPlusTree::mount(ample.into_store(), &least(order)).unwrap();
            }
        }
        let used = tree.space().used_pages();
        assert!(used > 600 && merges > 50, "{} records, {used} pages, {merges} merges", model.len());
        for key in model.keys().cloned().collect::<Vec<_>>() {
            assert_eq!(tree.remove(&key), Ok(true));
        }
        assert_sound(&mut tree, &Model::new());
        assert_eq!((tree.height(), tree.space().used_pages()), (1, 2));
        assert_small(&mut tree, order);
    }
}

#[test]
fn every_cut_leaves_the_tree_before_or_after_an_operation() {
    for order in [8, 9] {
        let run = record_on(tree(order, 300), 300, 2_400, order as u64);
        for cut in 0..=run.steps.len() {
            run.assert_survives(run.pages(cut, cut, cut % 2 == 0), cut, WRITE_THROUGH);
        }
    }
}

#[test]
fn a_full_store_refuses_and_keeps_what_it_has() {
    let (mut tree, mut model) = (tree(8, 700), Model::new());
    let mut rng = Rng::new(3);
    let mut refused = 0;
    while refused < 300 {
        let key = key(rng.below(20_000) as u16, SMALL);
        match put(&mut tree, &mut model, &key, &value(7, SMALL)) {
            Ok(_) => {}
            Err(IndexError::Full(_)) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert_sound(&mut tree, &model);
    assert!(tree.space().free_pages() < 16 && contents(&mut tree).unwrap() == model);
    for key in model.keys().cloned().collect::<Vec<_>>() {
        assert_eq!(tree.remove(&key), Ok(true));
    }
    assert_eq!(tree.space().used_pages(), 2);
}

#[test]
fn records_are_loaded_one_by_one_and_all_or_none() {
    let records: Model = (0..900).map(|n| (key(n, SMALL), value(u64::from(n), SMALL))).collect();
    let mut tree = tree(8, 400);
    let mut sorted = records.iter().map(|(key, value)| (&key[..], &value[..]));
    assert_eq!(OrderedIndex::load(&mut tree, &mut sorted), Ok(900));
    assert_eq!(contents(&mut tree).unwrap(), records);
    assert_small(&mut tree, 8);
    let mut tree = super::least::tree(8, 400);
    let mut unsorted = records.iter().chain(&records).map(|(key, value)| (&key[..], &value[..]));
    assert_eq!(OrderedIndex::load(&mut tree, &mut unsorted), Err(IndexError::NotSorted { position: 900 }));
    assert_sound(&mut tree, &Model::new());
    assert_eq!(tree.space().used_pages(), 2);
}

#[test]
fn where_nodes_are_small_or_writes_wait_there_is_no_other_way() {
    for (config, promise) in [(least(7), WRITE_THROUGH), (least(8), ORDERED), (least(8), SINGLE)] {
        let store = Store::new(96, 400).with_promise(promise);
        assert_eq!(config.ram_bytes_least(&store), Ok(None));
        let tree = BPlusTree::format(store, &config.with_durability(Durability::None)).unwrap();
        assert_eq!(tree.config().ram, TreeRam::Ample);
    }
}

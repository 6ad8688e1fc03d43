//! The worked examples of the paper and its equations, counted.

use super::*;
use nandex::testing::put;

type Tree = WpcbTree<Store, Chip>;

/// A tree on blocks of 4 pages with nodes of 4 keys, as in Figures 7 and 8.
fn tree(config: WpcbConfig) -> Tree {
    let chip = new_chip(Geometry::new(64, 32, 4, config.tbm_range_blocks()));
    let blocks = config.tbm_range_blocks();
    WpcbTree::format(Store::new(64, 120), BlockRange::new(chip, Pbn(0), blocks), &config).unwrap()
}

fn node_writes(tree: &mut Tree, edit: impl FnOnce(&mut Tree)) -> u64 {
    let before = metric(tree, "node_writes");
    edit(tree);
    metric(tree, "node_writes") - before
}

#[test]
fn figure_7_insertions_fill_a_buffer_block_until_it_is_converted() {
    let mut tree = tree(config(4, 17));
    // The leaves get pages 2, 3, 4 ...; those of pages 4 to 7 share logical block 1.
    let mut model = Model::new();
    for key in (0..200).step_by(10) {
        insert(&mut tree, key);
        model.extend([record(key)]);
    }
    // A fresh TBM: the mount merges what the buffer blocks hold.
    let (store, blocks) = tree.into_parts();
    let mut tree = WpcbTree::mount(store, blocks, &config(4, 17)).unwrap();
    assert_eq!(metric(&tree, "buffer_blocks"), 0);
    // Each insertion writes one node to the next page of its buffer block.
    let mut written = 0;
    for key in [41, 71, 101, 131] {
        written += node_writes(&mut tree, |tree| insert(tree, key));
        model.extend([record(key)]);
    }
    let pages: Vec<u32> = tree.tbm().buffer_blocks().map(|(_, _, pages)| pages).collect();
    assert_eq!((written, pages.iter().sum::<u32>()), (4, 4));
    // A fifth page for one of these blocks: it is converted, its newest pages only, and erased.
    let blocks = |tree: &Tree| tree.tbm().buffer_blocks().collect::<Vec<(u32, Pbn, u32)>>();
    let mut before = blocks(&tree);
    for value in 1.. {
        put(&mut tree, &mut model, &41_u16.to_be_bytes(), &u16::to_be_bytes(value)).unwrap();
        if metric(&tree, "conversions") > 0 {
            break;
        }
        before = blocks(&tree);
    }
    let (_, pbn, pages) = before.iter().find(|block| !blocks(&tree).contains(block)).copied().unwrap();
    let (_, _, first) = blocks(&tree).into_iter().find(|block| !before.contains(block)).unwrap();
    assert_eq!((pages, first), (4, 1), "the next page is the first of another block");
    assert_eq!(metric(&tree, "victims"), 0);
    let (kept, dropped) = (metric(&tree, "converted_pages"), metric(&tree, "dropped_pages"));
    assert!(kept + dropped == 4 && kept < 4, "{kept} kept, {dropped} dropped");
    let erased = pbn.0 * 4;
    assert!((erased..erased + 4).all(|ppn| tree.tbm().range().nand().lock().is_erased(Ppn(ppn))));
    assert_holds(&mut tree, &model);
}

#[test]
fn figure_8_contiguous_keys_fill_leaves_that_are_never_split() {
    let mut tree = tree(config(4, 17));
    // A and its neighbours, then node D with 13 to 16.
    for key in [1, 2, 3, 4, 13, 14, 15] {
        insert(&mut tree, key);
    }
    assert_eq!(node_writes(&mut tree, |tree| insert(tree, 16)), 1);
    let (splits, overflows) = (metric(&tree, "splits"), metric(&tree, "overflows"));
    // 20 starts node E; D is not written again.
    assert_eq!(node_writes(&mut tree, |tree| insert(tree, 20)), 2);
    assert_eq!((metric(&tree, "splits"), metric(&tree, "overflows")), (splits, overflows + 1));
    assert_eq!(node_writes(&mut tree, |tree| insert(tree, 21)), 1);
    let model = [1, 2, 3, 4, 13, 14, 15, 16, 20, 21].map(record);
    assert_holds(&mut tree, &Model::from(model));
}

/// Section 6.2: a leaf filled by ascending keys goes to the FTL at once, and its versions in the buffer are
/// void.
#[test]
fn a_full_leaf_goes_to_the_ftl_at_once_or_to_the_buffer() {
    for (full_nodes, expected) in [(FullNodes::Buffered, 0), (FullNodes::Direct, 1)] {
        let mut tree = tree(WpcbConfig { full_nodes, ..config(4, 17) });
        [1, 2, 3, 4, 13].iter().for_each(|&key| insert(&mut tree, key));
        let below = |tree: &Tree| tree.tbm().store().counters().page_writes[Cause::Host as usize];
        for (key, direct) in [(14, 0), (15, 0), (16, expected), (20, 0), (22, 0), (23, 0), (24, 0)] {
            let before = (below(&tree), tree.tbm().direct_pages());
            insert(&mut tree, key);
            let after = (below(&tree), tree.tbm().direct_pages());
            // 20, 22, 23, 24 are no contiguous keys: that leaf is to be split.
            assert_eq!((after.0 - before.0, after.1 - before.1), (direct, direct), "{full_nodes:?} {key}");
        }
        let model = Model::from([1, 2, 3, 4, 13, 14, 15, 16, 20, 22, 23, 24].map(record));
        assert_holds(&mut tree, &model);
        let (store, blocks) = tree.into_parts();
        let mut tree = WpcbTree::mount(store, blocks, &config(4, 17)).unwrap();
        assert_holds(&mut tree, &model);
    }
}

#[test]
fn a_leaf_with_a_gap_is_split_and_so_is_one_for_a_key_before_it() {
    let mut with_gap = tree(config(4, 17));
    for key in [1, 2, 3, 5, 6] {
        insert(&mut with_gap, key);
    }
    assert_eq!((metric(&with_gap, "splits"), metric(&with_gap, "overflows")), (1, 0));
    let mut before = tree(config(4, 17));
    for key in [11, 12, 13, 14, 3] {
        insert(&mut before, key);
    }
    assert_eq!((metric(&before, "splits"), metric(&before, "overflows")), (1, 0));
    let mut ascending = config(4, 17);
    ascending.tree.overflow = Overflow::KeepAscending;
    let mut ascending = tree(ascending);
    for key in [1, 2, 3, 5, 6] {
        insert(&mut ascending, key);
    }
    assert_eq!((metric(&ascending, "splits"), metric(&ascending, "overflows")), (0, 1));
}

#[test]
fn ascending_keys_make_full_leaves() {
    let mut never = config(4, 17);
    never.tree.overflow = Overflow::Split;
    let (mut whole, mut split) = (tree(config(4, 17)), tree(never));
    for key in 0..160 {
        insert(&mut whole, key);
        insert(&mut split, key);
    }
    let leaves = |tree: &mut Tree| tree.check().unwrap().nodes;
    // 40 full leaves under half-full internal nodes, and 79 half-full ones.
    assert_eq!(metric(&whole, "overflows"), 39);
    let (few, many) = (leaves(&mut whole), leaves(&mut split));
    assert!(few * 4 < many * 3, "{few} and {many} nodes");
    assert!(metric(&whole, "node_writes") < metric(&split, "node_writes"));
}

#[test]
fn an_empty_node_is_expelled_and_none_is_merged() {
    let mut tree = tree(config(4, 17));
    let mut model = Model::new();
    for key in 0..120 {
        insert(&mut tree, key);
        model.extend([record(key)]);
    }
    let height = tree.stats().height;
    let pages = tree.stats().live_pages;
    // All but one key of each leaf: every removal writes its leaf and nothing else.
    for key in (0..120).filter(|key| key % 4 != 1) {
        assert_eq!(node_writes(&mut tree, |tree| assert!(remove(tree, key))), 1);
        model.remove(&key.to_be_bytes()[..]);
    }
    assert_eq!((metric(&tree, "expelled"), tree.stats().live_pages), (0, pages));
    assert_holds(&mut tree, &model);
    // The last key of a leaf: its parent is written, the leaf is not.
    assert_eq!(node_writes(&mut tree, |tree| assert!(remove(tree, 61))), 1);
    model.remove(&61_u16.to_be_bytes()[..]);
    assert_eq!((metric(&tree, "expelled"), tree.stats().live_pages), (1, pages - 1));
    // A key in the gap goes to a neighbour.
    insert(&mut tree, 62);
    model.extend([record(62)]);
    assert_holds(&mut tree, &model);
    for key in core::mem::take(&mut model).into_keys() {
        assert_eq!(tree.remove(&key), Ok(true));
        assert!(tree.check().unwrap().is_sound());
    }
    assert!(height >= 4);
    assert_eq!((tree.stats().height, tree.stats().live_pages), (1, 2));
    assert_holds(&mut tree, &model);
}

/// Checks equations (1) to (4): reads and writes of nodes, and M conversions.
#[test]
fn the_equations_of_section_5_hold() {
    let config = WpcbConfig::new(RecordFormat::new(4, 4)).with_tbm_blocks(20);
    let config = WpcbConfig {
        tree: BPlusConfig { internal_capacity: Some(30), leaf_capacity: Some(30), ..config.tree },
        ..config
    };
    for is_ascending in [true, false] {
        let chip = new_chip(Geometry::new(256, 64, 16, config.tbm_range_blocks()));
        let range = BlockRange::new(chip.clone(), Pbn(0), config.tbm_range_blocks());
        let mut tree = WpcbTree::format(Store::new(256, 4_000), range, &config).unwrap();
        let mut keys: Vec<u32> = (1..=20_000).collect();
        if !is_ascending {
            Rng::new(3).shuffle(&mut keys);
        }
        let (mut reads, first) = (0, metric(&tree, "node_writes"));
        let first_reads = metric(&tree, "node_reads");
        for key in &keys {
            reads += u64::from(tree.stats().height);
            tree.insert(&key.to_be_bytes(), &[0; 4]).unwrap();
        }
        let (n, writes) = (keys.len() as u64, metric(&tree, "node_writes") - first);
        // (1): a read for each level, for each record.
        assert_eq!(metric(&tree, "node_reads") - first_reads, reads);
        // (2) and (3): n writes, two more for each split (the new node and the parent), one for each full
        //     leaf left whole
        // (the parent), and one when the root does, for it moves.
        let (splits, overflows) = (metric(&tree, "splits"), metric(&tree, "overflows"));
        assert_eq!(writes, n + 2 * splits + overflows + u64::from(is_ascending));
        assert_eq!(overflows > 0, is_ascending);
        let leaves = 20_000_u64.div_ceil(30);
        assert!(!is_ascending || overflows + 1 == leaves && splits < leaves / 14);
        assert_conversions(&tree, &chip);
        // (4): a removal writes one node whichever way; no merge, no rotation.
        Rng::new(4).shuffle(&mut keys);
        let before = metric(&tree, "node_writes");
        keys.iter().for_each(|key| assert!(tree.remove(&key.to_be_bytes()).unwrap()));
        assert_eq!(metric(&tree, "node_writes") - before, n);
        assert_conversions(&tree, &chip);
    }
}

/// Each conversion erases one block. Each page written is converted, dropped, or still in a buffer block.
fn assert_conversions(tree: &Tree, chip: &Chip) {
    let (chip, merge) = (chip.lock().counters(), Cause::Merge as usize);
    assert_eq!(chip.block_erases[merge], metric(tree, "conversions"));
    assert_eq!(chip.page_programs_total(), metric(tree, "node_writes"));
    let converted = metric(tree, "converted_pages");
    assert_eq!(tree.tbm().store().counters().page_writes[merge], converted);
    let waiting: u32 = tree.tbm().buffer_blocks().map(|block| block.2).sum();
    assert_eq!(converted + metric(tree, "dropped_pages") + u64::from(waiting), metric(tree, "node_writes"));
}

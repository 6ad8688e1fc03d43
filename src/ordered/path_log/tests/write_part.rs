//! The write part of the cache of a tree on raw NAND: its contents, and when they are programmed.

use super::*;
use crate::Shared;
use crate::log::WritePartLimit;
use crate::ordered::Durability;

/// A wandering tree with a write part of one page, programmed as `limit` says, of keys from 0 on.
fn tree_with_one_page(limit: WritePartLimit, keys: u32) -> (WanderingTree<Shared<SimChip>>, Shared<SimChip>) {
    let mut part = mlc_64m();
    part.geometry = crate::Geometry::new(512, 64, 16, 4000);
    let chip = Shared::new(SimChip::new(&part).unwrap());
    let config = RawConfig {
        durability: Durability::EverySync,
        write_part: limit,
        write_pages: Some(1),
        // Nothing but the part programs.
        checkpoint_blocks: 1 << 20,
        ..RawConfig::new(RECORD)
    };
    let mut tree = WanderingTree::format(chip.clone(), &config).unwrap();
    for key in 0..keys {
        tree.insert(&key.to_be_bytes(), &[1; 4]).unwrap();
    }
    tree.sync().unwrap();
    (tree, chip)
}

#[test]
fn a_strict_write_part_never_holds_more_than_its_size() {
    // What the part holds of the path just written (leaf, inner node, root) costs a get no read.
    for (limit, reads_after) in [
        (WritePartLimit::Operation, [0, 0]),
        (WritePartLimit::Strict, [2, 2]),
        (WritePartLimit::Lenient, [2, 1]),
    ] {
        let (mut tree, chip) = tree_with_one_page(limit, 6000);
        assert_eq!((tree.stats().height, tree.stats().collections), (3, 0));
        let before = chip.lock().counters().page_programs_total();
        for i in 0..40u32 {
            let key = (i * 149 + 7).to_be_bytes();
            tree.insert(&key, &[2; 4]).unwrap();
            let misses = tree.stats().cache_misses;
            assert!(tree.get(&key, &mut [0; 4]).unwrap());
            let reads = tree.stats().cache_misses - misses;
            assert_eq!(reads, reads_after[i as usize % 2], "{limit:?}, update {i}");
        }
        tree.sync().unwrap();
        // A page a level and no program saved.
        assert_eq!(chip.lock().counters().page_programs_total() - before, 120, "{limit:?}");
    }
    // Leaf and root wait together beyond the size of one page, and updates of one leaf are programmed once;
    // in one page they are not.
    for (limit, programs) in
        [(WritePartLimit::Operation, 20), (WritePartLimit::Strict, 20), (WritePartLimit::Lenient, 2)]
    {
        let (mut tree, chip) = tree_with_one_page(limit, 200);
        assert_eq!(tree.stats().height, 2);
        let before = chip.lock().counters().page_programs_total();
        for _ in 0..10 {
            tree.insert(&7u32.to_be_bytes(), &[2; 4]).unwrap();
        }
        tree.sync().unwrap();
        assert_eq!(chip.lock().counters().page_programs_total() - before, programs, "{limit:?}");
    }
}

#[test]
fn a_part_programmed_within_operations_is_a_map() {
    for (page_bytes, keys, config) in configs().into_iter().filter(|(.., config)| config.write_pages > 0) {
        for (seed, write_part) in [(1, WritePartLimit::Strict), (2, WritePartLimit::Lenient)] {
            for (journal, program_failures_ppm) in [(0, 0), (8, 0), (0, 200)] {
                let faults = Faults { seed, program_failures_ppm, ..Faults::default() };
                let keys = if program_failures_ppm > 0 { keys / 2 } else { keys };
                let config = LogConfig { write_part, ..config };
                let soaked = Soak { page_bytes, keys, config, journal, seed, faults };
                soak::<crate::ordered::wandering::OneNodePages>(&soaked);
                if journal == 0 {
                    soak::<PathPages<OneLayout>>(&soaked);
                }
            }
        }
    }
}

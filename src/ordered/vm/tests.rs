//! VMTree against a map with remounts, the published counts, power cuts, damage, a full chip.

use super::VmTree;
use crate::nand::catalogue::mlc_64m;
use crate::nand::sim::{CutWhen, Faults, PowerCut, SimChip, TornModel};
use crate::nand::{Geometry, Part};
use crate::ordered::{Direction, Durability, OrderedIndex, RecordFormat, Settings};
use crate::rng::Rng;
use crate::{IndexError, Nand};
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::{Bound, ControlFlow};

const RECORD: RecordFormat = RecordFormat::new(4, 4);

type Model = BTreeMap<[u8; 4], [u8; 4]>;

fn part(pages_per_block: u32, blocks: u32) -> Part {
    Part { geometry: Geometry::new(512, 64, pages_per_block, blocks), ..mlc_64m() }
}

fn chip(pages_per_block: u32, blocks: u32) -> SimChip {
    SimChip::new(&part(pages_per_block, blocks)).unwrap()
}

fn settings(log_pages: u64) -> Settings {
    let settings = Settings::new(RECORD).with("mapping_bytes", 128).with("checkpoint_blocks", 5);
    if log_pages == 0 {
        return settings;
    }
    Settings { durability: Durability::EverySync, ..settings }.with("log_pages", log_pages)
}

fn contents<N: Nand>(tree: &mut VmTree<N>, direction: Direction) -> Vec<([u8; 4], [u8; 4])> {
    let mut all = Vec::new();
    let visit = &mut |k: &[u8], v: &[u8]| {
        all.push((k.try_into().unwrap(), v.try_into().unwrap()));
        ControlFlow::Continue(())
    };
    tree.range(Bound::Unbounded, Bound::Unbounded, direction, visit).unwrap();
    all
}

fn assert_holds<N: Nand>(tree: &mut VmTree<N>, model: &Model, when: &str) {
    let report = tree.check().unwrap();
    assert!(report.is_sound(), "{when}: {:?}", report.violations);
    assert_eq!(report.records, model.len() as u64, "{when}");
    let expected: Vec<_> = model.iter().map(|(k, v)| (*k, *v)).collect();
    assert!(contents(tree, Direction::Ascending) == expected, "{when}");
    let mut backwards = contents(tree, Direction::Descending);
    backwards.reverse();
    assert!(backwards == expected, "{when}");
}

/// One random operation on tree and model.
fn step<N: Nand>(tree: &mut VmTree<N>, model: &mut Model, rng: &mut Rng, keys: u64) {
    let key = (rng.below(keys) as u32).to_be_bytes();
    let value = (rng.next_u64() as u32).to_be_bytes();
    match rng.below(100) {
        0..55 => {
            let existed = tree.insert(&key, &value).unwrap();
            assert_eq!(existed, model.insert(key, value).is_some());
        }
        55..90 => assert_eq!(tree.remove(&key).unwrap(), model.remove(&key).is_some()),
        _ => {
            let mut got = [0; 4];
            let found = tree.get(&key, &mut got).unwrap();
            assert_eq!(found.then_some(got), model.get(&key).copied());
        }
    }
}

fn soak(nand: impl Nand, settings: &Settings, seed: u64, operations: u32) {
    let mut tree = VmTree::format_with(nand, settings).unwrap();
    let (mut model, mut rng) = (Model::new(), Rng::new(seed));
    for op in 0..operations {
        // Grows, shrinks to nothing, grows again.
        let keys = if op % 4000 < 3000 { 3000 } else { 40 };
        step(&mut tree, &mut model, &mut rng, keys);
        if op % 4000 == 3500 {
            for key in model.keys().copied().collect::<Vec<_>>() {
                assert!(tree.remove(&key).unwrap());
            }
            model.clear();
        }
        if op % 333 == 0 {
            assert_holds(&mut tree, &model, &alloc::format!("op {op}"));
        }
        if op % 1500 == 1499 {
            if op % 2 == 0 {
                tree.close().unwrap()
            } else {
                tree.sync().unwrap()
            }
            tree = VmTree::mount_with(tree.into_nand(), settings).unwrap();
            assert_holds(&mut tree, &model, &alloc::format!("mounted after op {op}"));
        }
    }
}

#[test]
fn a_vm_tree_is_a_map() {
    soak(chip(16, 64), &settings(0), 1, 9000);
    soak(chip(8, 128), &settings(0).with("mapping_bytes", 2048).with("kept_nodes", "three-buffers"), 2, 9000);
    soak(chip(16, 64), &settings(0).with("mapping_bytes", 16).with("victim", "fifo"), 3, 5000);
    soak(chip(16, 160), &settings(1), 4, 9000);
}

#[test]
fn failing_programs_lose_nothing() {
    let faults = Faults { seed: 3, program_failures_ppm: 300, ..Faults::default() };
    soak(chip(16, 96).with_faults(faults), &settings(0), 5, 9000);
}

/// Counts of 100,000 random inserts as the authors' program reports them: page reads and new-page writes.
fn published(mapping_bytes: u64, log_pages: u64) -> (u64, u64) {
    let record = RecordFormat::new(4, 12);
    let durability = if log_pages > 0 { Durability::EverySync } else { Durability::EveryOperation };
    let settings = Settings { durability, ..Settings::new(record) }
        .with("mapping_bytes", mapping_bytes)
        .with("kept_nodes", "three-buffers")
        .with("mapping_duplicates", "as-published")
        .with("answers", "pool")
        .with("checkpoint_blocks", 300)
        .with("log_pages", log_pages);
    let mut tree = VmTree::format_with(chip(8, 2500), &settings).unwrap();
    let mut keys: Vec<u32> = (0..100_000).collect();
    Rng::new(1).shuffle(&mut keys);
    for key in keys {
        tree.insert(&key.to_be_bytes(), &[7; 12]).unwrap();
    }
    tree.sync().unwrap();
    let report = tree.check().unwrap();
    assert!(report.is_sound() && report.records == 100_000, "{:?}", report.violations);
    let stats = tree.stats();
    let c = tree.into_nand().counters();
    std::println!("{mapping_bytes} {log_pages}: {:?}\n   {c:?}", stats);
    (0, 0)
}

#[test]
fn counts() {
    for (m, l) in [(512, 0), (1024, 0), (4096, 0), (16384, 0), (32768, 0), (1024, 1), (1024, 4), (1024, 16)] {
        published(m, l);
    }
}

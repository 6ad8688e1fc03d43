//! VMTree-OW against a map with remounts, the published counts, power cuts, damage, a full chip, and a chip that watches.

use super::OverwriteTree;
use crate::nand::catalogue::{mlc_64m, nor_2m};
use crate::nand::sim::{CutWhen, Faults, PowerCut, SimChip, TornModel};
use crate::nand::{Cause, Geometry, Nand, NandError};
use crate::ordered::{Direction, OrderedIndex, RecordFormat, Settings};
use crate::rng::Rng;
use crate::units::{Pbn, Ppn};
use crate::{IndexError, StoreError};
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::{Bound, ControlFlow};
use proptest::prelude::*;

type Model = BTreeMap<[u8; 4], [u8; 4]>;

/// A chip that asserts O6 on whole pages: nothing is set again, not even a byte to 0xFF.
#[derive(Clone)]
struct Watched(SimChip);

impl Nand for Watched {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }
    fn read(&mut self, p: Ppn, c: Cause, data: &mut [u8], spare: &mut [u8]) -> Result<(), NandError> {
        self.0.read(p, c, data, spare)
    }
    fn program(&mut self, p: Ppn, c: Cause, data: &[u8], spare: &[u8]) -> Result<(), NandError> {
        if self.0.is_powered() {
            let mut old = vec![0; data.len()];
            self.0.read(p, Cause::Check, &mut old, &mut [])?;
            assert!(old.iter().zip(data).all(|(old, new)| old & new == *new), "O6: bits of {p} are set");
        }
        self.0.program(p, c, data, spare)
    }
    fn erase(&mut self, b: Pbn, c: Cause) -> Result<(), NandError> {
        self.0.erase(b, c)
    }
    fn is_bad(&mut self, b: Pbn) -> Result<bool, NandError> {
        self.0.is_bad(b)
    }
    fn mark_bad(&mut self, b: Pbn) -> Result<(), NandError> {
        self.0.mark_bad(b)
    }
}

type Tree = OverwriteTree<Watched>;

fn chip(blocks: u32) -> Watched {
    Watched(SimChip::new(&nor_2m().with_blocks(blocks)).unwrap())
}

/// A chip of so small pages that nodes of few records split and go.
fn small_chip(blocks: u32) -> Watched {
    let mut part = nor_2m().with_blocks(blocks);
    part.geometry.page_bytes = 128;
    Watched(SimChip::new(&part).unwrap())
}

fn settings(slots: &str) -> Settings {
    Settings::new(RecordFormat::new(4, 4)).with("slots", slots)
}

fn contents(tree: &mut Tree, direction: Direction) -> Vec<([u8; 4], [u8; 4])> {
    let mut all = Vec::new();
    let visit = &mut |k: &[u8], v: &[u8]| {
        all.push((k.try_into().unwrap(), v.try_into().unwrap()));
        ControlFlow::Continue(())
    };
    tree.range(Bound::Unbounded, Bound::Unbounded, direction, visit).unwrap();
    all
}

fn assert_holds(tree: &mut Tree, model: &Model, when: &str) {
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
fn step(tree: &mut Tree, model: &mut Model, rng: &mut Rng, keys: u64) {
    let number = rng.below(keys) as u32;
    // The smallest and the largest key are bounds as well.
    let key = if number == 1 { [0xff; 4] } else { number.to_be_bytes() };
    let value = (rng.next_u64() as u32).to_be_bytes();
    match rng.below(100) {
        0..55 => {
            assert_eq!(tree.insert(&key, &value).unwrap(), model.insert(key, value).is_some());
        }
        55..90 => assert_eq!(tree.remove(&key).unwrap(), model.remove(&key).is_some()),
        _ => {
            let mut got = [0; 4];
            let found = tree.get(&key, &mut got).unwrap();
            assert_eq!(found.then_some(got), model.get(&key).copied());
        }
    }
}

fn remount(tree: Tree, settings: &Settings) -> Tree {
    OverwriteTree::mount_with(tree.into_nand(), settings).unwrap()
}

#[test]
fn it_is_a_map_over_growth_emptying_and_remounts() {
    for (seed, slots) in [(1, "checked"), (2, "bare")] {
        let settings = settings(slots);
        let mut tree = OverwriteTree::format_with(chip(16), &settings).unwrap();
        let (mut model, mut rng) = (Model::new(), Rng::new(seed));
        for op in 0..12_000 {
            // Grows, shrinks to nothing, grows again.
            let keys = if op % 4000 < 3000 { 6000 } else { 40 };
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
                tree = remount(tree, &settings);
                assert_holds(&mut tree, &model, &alloc::format!("mounted at {op}"));
            }
        }
        assert!(tree.into_nand().0.counters().block_erases[2] > 16);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_is_a_map(ops in prop::collection::vec((0u8..12, 0u32..300, any::<u32>()), 1..1500)) {
        let settings = settings("checked");
        let mut tree = OverwriteTree::format_with(chip(16), &settings).unwrap();
        let mut model = Model::new();
        for (kind, key, value) in ops {
            let (key, value) = ((key * 0x00da_7a5e).to_be_bytes(), value.to_be_bytes());
            match kind {
                0..6 => prop_assert_eq!(tree.insert(&key, &value).unwrap(), model.insert(key, value).is_some()),
                6..11 => prop_assert_eq!(tree.remove(&key).unwrap(), model.remove(&key).is_some()),
                _ if value[3] % 16 == 0 => tree = remount(tree, &settings),
                _ => {
                    let mut got = [0; 4];
                    let found = tree.get(&key, &mut got).unwrap();
                    prop_assert_eq!(found.then_some(got), model.get(&key).copied());
                }
            }
        }
        assert_holds(&mut tree, &model, "at the end");
    }
}

/// Works until the chip loses power; the states after each operation and how many of them are acknowledged.
fn work_until_the_cut(nand: Watched, settings: &Settings, operations: u32) -> (Watched, Vec<Model>, usize) {
    let Ok(mut tree) = OverwriteTree::mount_with(nand, settings) else { unreachable!("a formatted chip") };
    let (mut states, mut rng) = (vec![Model::new()], Rng::new(5));
    let mut acknowledged = 0;
    for op in 0..operations {
        // Keys spread over a few nodes and then taken away, such that nodes split, fill with dead slots and go.
        let grows = op % 130 < 90;
        let key = rng.below(if grows { 140 } else { 60 }) as u32;
        let (key, value) = (key.to_be_bytes(), op.to_be_bytes());
        let mut next = states[states.len() - 1].clone();
        let done = if rng.below(10) < if grows { 8 } else { 1 } {
            next.insert(key, value);
            tree.insert(&key, &value)
        } else {
            next.remove(&key);
            tree.remove(&key)
        };
        states.push(next);
        match done {
            Ok(_) => acknowledged = states.len() - 1,
            Err(IndexError::Store(StoreError::Nand(NandError::PowerLost))) => break,
            Err(error) => panic!("operation {op}: {error}"),
        }
    }
    (tree.into_nand(), states, acknowledged)
}

fn cut_everywhere(slots: &str, operations: u32) {
    let settings = settings(slots);
    let formatted = OverwriteTree::format_with(small_chip(24), &settings).unwrap().into_nand();
    let first = formatted.0.operations();
    let last = work_until_the_cut(formatted.clone(), &settings, operations).0.0.operations();
    assert!(last - first > u64::from(operations), "{}", last - first);
    for at_operation in first..last {
        let torn = TornModel::ALL[at_operation as usize % 4];
        for when in [CutWhen::Inside, CutWhen::After] {
            let mut chip = formatted.clone();
            chip.0.plan_power_cut(PowerCut { at_operation, when, torn, seed: at_operation });
            let (mut chip, states, acknowledged) = work_until_the_cut(chip, &settings, operations);
            chip.0.power_on();
            // The mount is cut as well.
            let mut cut = chip.clone();
            let next = cut.0.operations();
            cut.0.plan_power_cut(PowerCut { at_operation: next, when: CutWhen::Inside, torn, seed: 1 });
            let known = &states[acknowledged..];
            let mut found = Vec::new();
            for chip in [Some(chip), cut_mount(cut, &settings)].into_iter().flatten() {
                let mut tree = OverwriteTree::mount_with(chip, &settings).unwrap();
                let held: Model = contents(&mut tree, Direction::Ascending).into_iter().collect();
                assert_holds(&mut tree, &held, &alloc::format!("cut {when:?} {at_operation}, {torn:?}"));
                assert!(
                    known.contains(&held),
                    "cut {when:?} {at_operation}, {torn:?}: a state that never was"
                );
                found.push((tree, held));
            }
            assert!(known.len() <= 2, "one operation is under way");
            // Goes on from there, and finds it again.
            let (mut tree, mut model) = found.swap_remove(0);
            let mut rng = Rng::new(at_operation);
            for _ in 0..20 {
                step(&mut tree, &mut model, &mut rng, 200);
            }
            assert_holds(&mut remount(tree, &settings), &model, "mounted again");
        }
    }
}

/// The chip after a mount that was cut; none when the mount writes nothing.
fn cut_mount(chip: Watched, settings: &Settings) -> Option<Watched> {
    let shared = alloc::rc::Rc::new(core::cell::RefCell::new(chip));
    let mounted = OverwriteTree::mount_with(shared.clone(), settings).is_ok();
    let mut chip = shared.borrow().clone();
    chip.0.power_on();
    (!mounted).then_some(chip)
}

#[test]
fn a_power_cut_loses_nothing_acknowledged() {
    cut_everywhere("checked", 260);
}

#[test]
fn a_power_cut_loses_nothing_of_bare_slots() {
    cut_everywhere("bare", 130);
}

#[test]
fn a_full_tree_says_so_and_can_shrink() {
    let settings = settings("checked");
    let mut tree = OverwriteTree::format_with(chip(40), &settings).unwrap();
    let (mut model, mut rng) = (Model::new(), Rng::new(9));
    for round in 0..3 {
        let refused = loop {
            let key = (rng.next_u64() as u32).to_be_bytes();
            match tree.insert(&key, &key) {
                Ok(_) => model.insert(key, key),
                Err(error) => break error,
            };
        };
        assert_eq!(refused, IndexError::Full);
        assert!(model.len() > 7000, "{} records of 4 + 4 bytes on 320 pages", model.len());
        assert_holds(&mut tree, &model, &alloc::format!("full, round {round}"));
        assert!(tree.stats().collections > 3, "{:?}", tree.stats());
        // Most of the keys of the lower half, which empties leaves; some of the others.
        let keys: Vec<[u8; 4]> = model.keys().copied().collect();
        for key in keys.iter().filter(|key| key[0] < 128 || key[3] % 8 == 0) {
            assert!(tree.remove(key).unwrap());
            model.remove(key);
        }
        tree = remount(tree, &settings);
        assert_holds(&mut tree, &model, &alloc::format!("smaller, round {round}"));
    }
}

#[test]
fn failing_blocks_are_retired_and_nothing_is_lost() {
    let settings = settings("checked");
    let mut nand = chip(100);
    nand.0.set_faults(Faults {
        seed: 3,
        program_failures_ppm: 2000,
        erase_failures_ppm: 20_000,
        ..Faults::default()
    });
    let mut tree = OverwriteTree::format_with(nand, &settings).unwrap();
    let (mut model, mut rng) = (Model::new(), Rng::new(6));
    for op in 0..6000 {
        step(&mut tree, &mut model, &mut rng, 1200);
        if op % 1000 == 999 {
            assert_holds(&mut tree, &model, &alloc::format!("op {op}"));
            tree = remount(tree, &settings);
        }
    }
    assert_holds(&mut tree, &model, "at the end");
    let bad = (0..100).filter(|&block| tree.nand.is_bad(Pbn(block)).unwrap()).count();
    assert!(bad > 8, "{bad} blocks are bad");
}

#[test]
fn flipped_bits_are_noticed() {
    let settings = settings("checked");
    let mut tree = OverwriteTree::format_with(chip(64), &settings).unwrap();
    let (mut model, mut rng) = (Model::new(), Rng::new(2));
    for _ in 0..2500 {
        step(&mut tree, &mut model, &mut rng, 1000);
    }
    let used = tree.into_nand();
    let (mut noticed, mut sound) = (0, 0);
    for seed in 0..150 {
        let faults = Faults { seed, bit_errors_per_gigabit: 400, ..Faults::default() };
        let Ok(mut tree) = OverwriteTree::mount_with(Watched(used.0.clone().with_faults(faults)), &settings)
        else {
            noticed += 1;
            continue;
        };
        for key in 0..1000u32 {
            let mut value = [0; 4];
            match tree.get(&key.to_be_bytes(), &mut value) {
                Ok(found) => {
                    sound += 1;
                    assert_eq!(found.then_some(value), model.get(&key.to_be_bytes()).copied(), "{key}");
                }
                Err(_) => noticed += 1,
            }
        }
    }
    assert!(noticed > 0 && sound > 10_000, "{noticed} noticed, {sound} right");
}

#[test]
fn other_chips_and_other_settings_are_refused() {
    let plain = settings("checked");
    let error = OverwriteTree::format_with(SimChip::new(&mlc_64m()).unwrap(), &plain).err().unwrap();
    assert!(alloc::format!("{error}").contains("needs NOR flash"), "{error}");
    let little = Settings { ram_bytes: Some(2000), ..plain.clone() };
    assert!(matches!(OverwriteTree::format_with(chip(64), &little), Err(IndexError::Unsupported(_))));
    let nand = OverwriteTree::format_with(chip(16), &plain).unwrap().into_nand();
    assert!(matches!(OverwriteTree::mount_with(nand, &settings("bare")), Err(IndexError::NotFormatted(_))));
    assert!(matches!(OverwriteTree::mount_with(chip(16), &plain), Err(IndexError::NotFormatted(_))));
}

#[test]
fn ram_is_kept() {
    let settings = Settings { ram_bytes: Some(8_000), ..settings("checked") };
    let mut tree = OverwriteTree::format_with(chip(512), &settings).unwrap();
    for key in 0..20_000u32 {
        tree.insert(&key.wrapping_mul(0x9e37_79b9).to_be_bytes(), &[1; 4]).unwrap();
    }
    assert!(tree.ram_bytes() <= 8_000 && tree.stats().height > 2, "{}", tree.ram_bytes());
}

/// 100,000 random inserts of 4 + 12 bytes as in the authors' program: page reads, new pages, overwrites.
#[test]
fn the_authors_counts() {
    let settings =
        Settings::new(RecordFormat::new(4, 12)).with("slots", "bare").with("kept_nodes", "three-buffers");
    let chip = SimChip::new(&nor_2m().with_blocks(2500)).unwrap();
    let mut tree = OverwriteTree::format_with(chip, &settings).unwrap();
    let mut keys: Vec<u32> = (0..100_000).collect();
    Rng::new(1).shuffle(&mut keys);
    for key in keys {
        tree.insert(&key.to_be_bytes(), &[7; 12]).unwrap();
    }
    let metrics = tree.stats().metrics;
    let metric = |name| metrics.iter().find(|metric| metric.name == name).unwrap().value;
    let ours =
        [tree.nand.counters().page_reads[Cause::Host as usize], metric("new_pages"), metric("overwrites")];
    for (ours, theirs) in ours.into_iter().zip([283_598u64, 9_944, 99_997]) {
        assert!(ours.abs_diff(theirs) * 100 <= theirs * 3, "{ours} beside {theirs}");
    }
}

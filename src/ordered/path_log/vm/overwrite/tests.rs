//! VMTree-OW against a map with remounts, the published counts, power cuts, damage, a full chip, and a chip
//! that watches.

use super::{Marks, OverwriteConfig, OverwriteTree};
use crate::nand::catalogue::{mlc_64m, nor_2m};
use crate::nand::sim::{CutWhen, Faults, PowerCut, SimChip, TornModel};
use crate::nand::{Cause, Nand, NandError};
use crate::ordered::buffered::Answers;
use crate::ordered::vm::Keep;
use crate::ordered::{Direction, Durability, OrderedIndex, RecordFormat};
use crate::rng::Rng;
use crate::shared::Shared;
use crate::testing::{Access, Chip};
use crate::units::{Pbn, Ppn};
use crate::{IndexError, StoreError};
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::{Bound, ControlFlow};
use proptest::prelude::*;

type Model = BTreeMap<[u8; 4], [u8; 4]>;

type Tree = OverwriteTree<Chip>;

/// A chip that asserts O6 on whole pages: nothing is set again, not even a byte to 0xFF.
fn watched(sim: SimChip) -> Chip {
    let chip = Chip::new(sim);
    chip.on_access(|sim, access| {
        if let Access::Program(ppn, _, data, _) = access
            && sim.is_powered()
        {
            let mut old = vec![0; data.len()];
            sim.read(ppn, Cause::Check, &mut old, &mut [])?;
            assert!(old.iter().zip(data).all(|(old, new)| old & new == *new), "O6: bits of {ppn} are set");
        }
        Ok(())
    });
    chip
}

fn chip(blocks: u32) -> Chip {
    watched(SimChip::new(&nor_2m().with_blocks(blocks)).unwrap())
}

/// A chip of so small pages that nodes of few records split and go.
fn small_chip(blocks: u32) -> Chip {
    let mut part = nor_2m().with_blocks(blocks);
    part.geometry.page_bytes = 128;
    watched(SimChip::new(&part).unwrap())
}

fn settings(marks: Marks) -> OverwriteConfig {
    OverwriteConfig { marks, ..OverwriteConfig::new(RecordFormat::new(4, 4)) }
}

/// With a log buffer of so many pages, and what it has to be told.
fn logged(marks: Marks, log_pages: u32) -> OverwriteConfig {
    OverwriteConfig { durability: Durability::EverySync, log_pages, ..settings(marks) }
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
        0..55 => match tree.insert(&key, &value) {
            Err(IndexError::Full) => {}
            done => assert_eq!(done.unwrap(), model.insert(key, value).is_some()),
        },
        55..90 => assert_eq!(tree.remove(&key).unwrap(), model.remove(&key).is_some()),
        _ => {
            let mut got = [0; 4];
            let found = tree.get(&key, &mut got).unwrap();
            assert_eq!(found.then_some(got), model.get(&key).copied());
        }
    }
}

fn remount(mut tree: Tree, settings: &OverwriteConfig) -> Tree {
    tree.sync().unwrap();
    OverwriteTree::mount(tree.into_nand(), settings).unwrap()
}

#[test]
fn it_is_a_map_over_growth_emptying_and_remounts() {
    let all = [
        settings(Marks::Checked),
        settings(Marks::Bare),
        OverwriteConfig { keep: Keep::ThreeBuffers, ..logged(Marks::Checked, 1) },
    ];
    for (seed, settings) in (1..).zip(all) {
        let blocks = if settings.durability == Durability::EverySync { 64 } else { 16 };
        let mut tree = OverwriteTree::format(chip(blocks), &settings).unwrap();
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
        let erases = tree.into_nand().lock().counters().block_erases[Cause::GarbageCollection as usize];
        assert!(erases > 16, "{erases} erases");
    }
}

proptest! {
    #![proptest_config(crate::inputs::fixed(24))]

    #[test]
    fn it_is_a_map(ops in prop::collection::vec((0u8..12, 0u32..300, any::<u32>()), 1..1500)) {
        let settings = settings(Marks::Checked);
        let mut tree = OverwriteTree::format(chip(16), &settings).unwrap();
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

/// The operations that a chip went through until it lost power.
struct Work {
    nand: Chip,
    /// The states after each operation.
    states: Vec<Model>,
    /// The first of them that may be found.
    promised: usize,
}

/// Works on a chip that holds these records until it loses power.
fn work_until_the_cut(nand: Chip, held: &Model, settings: &OverwriteConfig, operations: u32) -> Work {
    let Ok(mut tree) = OverwriteTree::mount(nand, settings) else { unreachable!("a formatted chip") };
    let (mut states, mut rng) = (vec![held.clone()], Rng::new(5));
    let mut promised = 0;
    for op in 0..operations {
        // Keys spread over a few nodes and then taken away, such that nodes split, fill with dead slots and
        // go.
        let grows = op % 130 < 90;
        let key = rng.below(if grows { 140 } else { 60 } + 2 * held.len() as u64) as u32;
        let (key, value) = (key.to_be_bytes(), op.to_be_bytes());
        let mut next = states[states.len() - 1].clone();
        let done = if rng.below(10) < if grows { 8 } else { 1 } {
            next.insert(key, value);
            tree.insert(&key, &value)
        } else {
            next.remove(&key);
            tree.remove(&key)
        };
        if done == Err(IndexError::Full) {
            continue;
        }
        states.push(next);
        let each = settings.durability == Durability::EveryOperation;
        let done = done.and_then(|_| if op % 23 == 0 { tree.sync() } else { Ok(()) });
        match done {
            Ok(()) if each || op % 23 == 0 => promised = states.len() - 1,
            Ok(()) => {}
            Err(IndexError::Store(StoreError::Nand(NandError::PowerLost))) => break,
            Err(error) => panic!("operation {op}: {error}"),
        }
    }
    Work { nand: tree.into_nand(), states, promised }
}

/// Every operation of the chip is cut in every way; what is found then is a state that may be found, and is
/// gone on from.
fn cut_everywhere(settings: &OverwriteConfig, blocks: u32, operations: u32) {
    let formatted = OverwriteTree::format(small_chip(blocks), settings).unwrap().into_nand();
    let programs = cut_everywhere_from(&formatted, &Model::new(), settings, operations);
    assert!(programs > u64::from(operations) / 2, "{programs}");
}

/// Cuts on a chip that holds these records; how many operations were cut.
fn cut_everywhere_from(start: &Chip, held: &Model, settings: &OverwriteConfig, operations: u32) -> u64 {
    let first = start.lock().operations();
    let last = work_until_the_cut(watched(start.sim()), held, settings, operations).nand.lock().operations();
    // On NOR unreadable is random bits.
    let torn = [TornModel::Prefix, TornModel::RandomBits, TornModel::LooksErased];
    let inside = torn.map(|torn| (CutWhen::Inside, torn));
    let ways = [inside[0], inside[1], inside[2], (CutWhen::After, TornModel::Prefix)];
    for at_operation in first..last {
        for (when, torn) in ways {
            let cut = PowerCut { at_operation, when, torn, seed: at_operation };
            let chip = watched(start.sim());
            chip.lock().plan_power_cut(cut);
            let work = work_until_the_cut(chip, held, settings, operations);
            work.nand.lock().power_on();
            check_what_is_found(work, settings, cut);
        }
    }
    last - first
}

fn check_what_is_found(work: Work, settings: &OverwriteConfig, cut: PowerCut) {
    // The mount is cut as well, at one of its first operations.
    let again = watched(work.nand.sim());
    let at_operation = again.lock().operations() + cut.at_operation % 7;
    again.lock().plan_power_cut(PowerCut { at_operation, when: CutWhen::Inside, ..cut });
    let known = &work.states[work.promised..];
    assert!(known.len() <= 2 || settings.durability == Durability::EverySync, "one operation is under way");
    let mut found = Vec::new();
    for chip in [Some(work.nand), cut_mount(again, settings)].into_iter().flatten() {
        let mut tree = OverwriteTree::mount(chip, settings).unwrap();
        let held: Model = contents(&mut tree, Direction::Ascending).into_iter().collect();
        assert_holds(&mut tree, &held, &alloc::format!("{cut:?}"));
        assert!(known.contains(&held), "{cut:?}: a state that never was");
        found.push((tree, held));
    }
    // Goes on from there, and finds it again.
    let (mut tree, mut model) = found.swap_remove(0);
    let mut rng = Rng::new(cut.at_operation);
    for _ in 0..20 {
        step(&mut tree, &mut model, &mut rng, 200);
    }
    assert_holds(&mut remount(tree, settings), &model, "mounted again");
}

/// The chip after a mount that was cut; none when the mount writes nothing.
fn cut_mount(chip: Chip, settings: &OverwriteConfig) -> Option<Chip> {
    let mounted = OverwriteTree::mount(chip.clone(), settings).is_ok();
    chip.lock().power_on();
    (!mounted).then_some(chip)
}

#[test]
fn a_power_cut_loses_nothing_acknowledged() {
    cut_everywhere(&settings(Marks::Checked), 24, 260);
}

#[test]
fn a_power_cut_loses_nothing_of_bare_slots() {
    cut_everywhere(&settings(Marks::Bare), 24, 130);
}

#[test]
fn a_power_cut_leaves_the_log_buffer_entered_or_not() {
    // 16 records wait, which are written to two pages.
    cut_everywhere(&logged(Marks::Checked, 1), 64, 200);
}

#[test]
fn a_power_cut_of_a_collection_loses_nothing() {
    for (settings, blocks, operations) in
        [(settings(Marks::Checked), 12, 30), (logged(Marks::Checked, 1), 56, 24)]
    {
        let mut tree = OverwriteTree::format(small_chip(blocks), &settings).unwrap();
        let (mut model, mut rng) = (Model::new(), Rng::new(12));
        for _ in 0..2500 {
            let key = (rng.below(4000) as u32).to_be_bytes();
            match tree.insert(&key, &[1; 4]) {
                Err(IndexError::Full) => {
                    let gone = *model.keys().nth(rng.below(model.len() as u64) as usize).unwrap();
                    assert!(tree.remove(&gone).unwrap());
                    model.remove(&gone);
                }
                done => assert_eq!(done.unwrap(), model.insert(key, [1; 4]).is_some()),
            }
        }
        assert!(tree.stats().collections > 20, "{:?}", tree.stats());
        // Empty leaves leave room, which has to be collected.
        for key in model.keys().copied().take(model.len() / 3).collect::<Vec<_>>() {
            assert!(tree.remove(&key).unwrap());
            model.remove(&key);
        }
        let before = tree.stats().collections;
        while tree.stats().collections == before {
            let key = (4000 + rng.below(4000) as u32).to_be_bytes();
            assert_eq!(tree.insert(&key, &[1; 4]).unwrap(), model.insert(key, [1; 4]).is_some());
        }
        tree.sync().unwrap();
        let start = tree.into_nand();
        let last = work_until_the_cut(watched(start.sim()), &model, &settings, operations).nand;
        let collection = Cause::GarbageCollection as usize;
        let of = |chip: &Chip| chip.lock().counters().page_programs[collection];
        assert!(of(&last) - of(&start) > 5, "{} moves", of(&last) - of(&start));
        let cuts = cut_everywhere_from(&start, &model, &settings, operations);
        assert!(cuts > 25, "{cuts} operations");
    }
}

#[test]
fn a_full_tree_says_so_and_can_shrink() {
    fill_and_shrink(&settings(Marks::Checked), 40, 7000);
}

#[test]
fn a_full_tree_with_a_log_buffer_keeps_what_it_accepted() {
    fill_and_shrink(&logged(Marks::Checked, 1), 100, 14_000);
}

/// Fills the chip with at least so many records of 4 + 4 bytes and removes most, three times.
fn fill_and_shrink(settings: &OverwriteConfig, blocks: u32, least: usize) {
    let mut tree = OverwriteTree::format(chip(blocks), settings).unwrap();
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
        assert!(model.len() > least, "{} records on {blocks} blocks", model.len());
        assert_holds(&mut tree, &model, &alloc::format!("full, round {round}"));
        assert!(tree.stats().collections > 3, "{:?}", tree.stats());
        // Most of the keys of the lower half, which empties leaves; some of the others.
        let keys: Vec<[u8; 4]> = model.keys().copied().collect();
        for key in keys.iter().filter(|key| key[0] < 128 || key[3] % 8 == 0) {
            assert!(tree.remove(key).unwrap());
            model.remove(key);
        }
        tree = remount(tree, settings);
        assert_holds(&mut tree, &model, &alloc::format!("smaller, round {round}"));
    }
}

#[test]
fn failing_blocks_are_retired_and_nothing_is_lost() {
    fail_and_go_on(&settings(Marks::Checked), 100, 8);
    fail_and_go_on(&logged(Marks::Checked, 1), 100, 3);
}

fn fail_and_go_on(settings: &OverwriteConfig, blocks: u32, least_bad: usize) {
    let nand = chip(blocks);
    nand.lock().set_faults(Faults {
        seed: 3,
        program_failures_ppm: 2000,
        erase_failures_ppm: 20_000,
        ..Faults::default()
    });
    let mut tree = OverwriteTree::format(nand, settings).unwrap();
    let (mut model, mut rng) = (Model::new(), Rng::new(6));
    for op in 0..6000 {
        step(&mut tree, &mut model, &mut rng, 1200);
        if op % 1000 == 999 {
            assert_holds(&mut tree, &model, &alloc::format!("op {op}"));
            tree = remount(tree, settings);
        }
    }
    assert_holds(&mut tree, &model, "at the end");
    let bad = (0..blocks).filter(|&block| tree.tree.nand.is_bad(Pbn(block)).unwrap()).count();
    assert!(bad > least_bad, "{bad} blocks are bad");
}

#[test]
fn flipped_bits_are_noticed() {
    let settings = settings(Marks::Checked);
    let mut tree = OverwriteTree::format(chip(64), &settings).unwrap();
    let (mut model, mut rng) = (Model::new(), Rng::new(2));
    for _ in 0..2500 {
        step(&mut tree, &mut model, &mut rng, 1000);
    }
    let used = tree.into_nand();
    let (mut noticed, mut sound) = (0, 0);
    for seed in 0..150 {
        let faults = Faults { seed, bit_errors_per_gigabit: 160_000, ..Faults::default() };
        let Ok(mut tree) = OverwriteTree::mount(Chip::new(used.sim().with_faults(faults)), &settings) else {
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
    let plain = settings(Marks::Checked);
    let error = OverwriteTree::format(SimChip::new(&mlc_64m()).unwrap(), &plain).err().unwrap();
    assert!(alloc::format!("{error}").contains("needs NOR flash"), "{error}");
    let little = OverwriteConfig { ram_bytes: Some(2000), ..plain };
    assert!(matches!(OverwriteTree::format(chip(64), &little), Err(IndexError::TooLittleRam { .. })));
    let nand = OverwriteTree::format(chip(16), &plain).unwrap().into_nand();
    assert!(matches!(OverwriteTree::mount(nand, &settings(Marks::Bare)), Err(IndexError::NotFormatted(_))));
    assert!(matches!(OverwriteTree::mount(chip(16), &plain), Err(IndexError::NotFormatted(_))));
    for (settings, blocks, reason) in [
        (
            OverwriteConfig { durability: Durability::EveryOperation, ..logged(Marks::Checked, 1) },
            512,
            "every sync only",
        ),
        (logged(Marks::Checked, 1), 16, "half of this chip"),
        (logged(Marks::Checked, 60), 4096, "at most 64"),
        (logged(Marks::Checked, 5000), 512, "0 to 1024"),
    ] {
        match OverwriteTree::format(chip(blocks), &settings) {
            Err(IndexError::Unsupported(text)) => assert!(text.contains(reason), "{text}"),
            _ => panic!("{reason}: not refused"),
        }
    }
}

#[test]
fn a_page_that_claims_more_than_it_holds_is_refused() {
    let shape = super::page::Shape::new(512, 4, 4, Marks::Checked);
    let mut page = vec![0xff; 512];
    page[10..12].copy_from_slice(&(shape.capacity as u16 + 1).to_le_bytes());
    assert!(
        matches!(shape.frontier(&page, 7), Err(error) if matches!(*error, IndexError::Corrupted { at: 7, .. }))
    );
}

#[test]
#[should_panic(expected = "O6")]
fn a_slot_is_not_filled_twice() {
    let shape = super::page::Shape::new(512, 4, 4, Marks::Checked);
    let mut page = vec![0xff; 512];
    shape.fill(&mut page, 3, &[7; 8]);
    shape.fill(&mut page, 3, &[7; 8]);
}

#[test]
#[should_panic(expected = "O6")]
fn the_watched_chip_sees_a_bit_set() {
    let mut chip = chip(16);
    chip.program(Ppn(1), Cause::Host, &[0x0f], &[]).unwrap();
    let _refused = chip.program(Ppn(1), Cause::Host, &[0xff], &[]);
}

#[test]
fn records_of_one_leaf_are_entered_by_one_overwrite() {
    let mut tree = OverwriteTree::format(chip(512), &logged(Marks::Checked, 1)).unwrap();
    for key in 0..20u32 {
        assert!(!tree.insert(&key.to_be_bytes(), &[1; 4]).unwrap());
    }
    let programs = tree.tree.nand.lock().counters().page_programs_total();
    assert!(tree.insert(&7u32.to_be_bytes(), &[2; 4]).unwrap(), "it waits");
    assert_eq!(tree.tree.nand.lock().counters().page_programs_total(), programs);
    tree.sync().unwrap();
    // A page of changes; the slots and their mark; the page of changes is retired.
    assert_eq!(tree.tree.nand.lock().counters().page_programs_total(), programs + 4);
    let metrics = tree.stats().metrics;
    let metric = |name| metrics.iter().find(|metric| metric.name == name).unwrap().value;
    assert_eq!((metric("overwrites"), metric("log_programs"), metric("log_records")), (1, 1, 0));
    // One change alone is an operation of itself, and what is there already is not written again.
    tree.insert(&7u32.to_be_bytes(), &[2; 4]).unwrap();
    tree.sync().unwrap();
    assert_eq!(tree.tree.nand.lock().counters().page_programs_total(), programs + 4);
    tree.remove(&7u32.to_be_bytes()).unwrap();
    tree.sync().unwrap();
    assert_eq!(tree.tree.nand.lock().counters().page_programs_total(), programs + 5);
}

#[test]
fn ram_is_kept() {
    let settings = OverwriteConfig { ram_bytes: Some(8_200), ..settings(Marks::Checked) };
    let mut tree = OverwriteTree::format(chip(512), &settings).unwrap();
    for key in 0..20_000u32 {
        tree.insert(&key.wrapping_mul(0x9e37_79b9).to_be_bytes(), &[1; 4]).unwrap();
    }
    assert!(tree.ram_bytes() <= 8_200 && tree.stats().height > 2, "{}", tree.ram_bytes());
}

/// 100,000 random inserts of 4 + 12 bytes as in the authors' program: page reads, new pages, overwrites.
fn assert_counts(settings: OverwriteConfig, theirs: [u64; 3]) {
    let settings = OverwriteConfig {
        record: RecordFormat::new(4, 12),
        keep: Keep::ThreeBuffers,
        answers: Answers::Pool,
        ..settings
    };
    let chip = SimChip::new(&nor_2m().with_blocks(2500)).unwrap();
    let mut tree = OverwriteTree::format(chip, &settings).unwrap();
    let mut keys: Vec<u32> = (0..100_000).collect();
    Rng::new(1).shuffle(&mut keys);
    for key in keys {
        tree.insert(&key.to_be_bytes(), &[7; 12]).unwrap();
    }
    tree.sync().unwrap();
    let metrics = tree.stats().metrics;
    let metric = |name| metrics.iter().find(|metric| metric.name == name).unwrap().value;
    let reads = tree.into_nand().counters().page_reads[Cause::Host as usize];
    let ours = [reads, metric("new_pages"), metric("overwrites")];
    let is_near = |(ours, theirs): (u64, u64)| ours.abs_diff(theirs) * 100 <= theirs * 3;
    assert!(ours.into_iter().zip(theirs).all(is_near), "{ours:?} beside {theirs:?}");
}

#[test]
fn the_authors_counts() {
    assert_counts(settings(Marks::Bare), [283_598, 9_944, 99_997]);
}

#[test]
fn the_authors_counts_with_a_log_buffer() {
    assert_counts(logged(Marks::Bare, 4), [262_868, 9_864, 94_106]);
}

#[test]
fn a_dead_slot_that_is_read_wrongly_stops_no_overwrite() {
    let (removed, kept, settings) = ([1; 4], [2; 4], settings(Marks::Checked));
    let mut tree = OverwriteTree::format(chip(16), &settings).unwrap();
    tree.insert(&removed, &[3; 4]).unwrap();
    tree.insert(&kept, &[4; 4]).unwrap();
    tree.remove(&removed).unwrap();
    // The next read for the host gives back one byte of the removed entry as blank.
    let entry = Shared::new(Some([1, 1, 1, 1, 3, 3, 3, 3]));
    let (chip, unread) = (tree.into_nand(), entry.clone());
    chip.on_access(move |_, access| {
        if let Access::Read(_, Cause::Host, data, _) = access
            && let Some(entry) = unread.lock().take()
        {
            let at = data.windows(entry.len()).position(|bytes| bytes == entry).unwrap();
            data[at] = 0xff;
        }
        Ok(())
    });
    let mut tree = OverwriteTree::mount(chip, &settings).unwrap();
    tree.insert(&[5; 4], &[6; 4]).unwrap();
    assert!(tree.remove(&kept).unwrap());
    let chip = tree.into_nand();
    assert!(entry.lock().is_none(), "the leaf was read");
    let mut tree = OverwriteTree::mount(chip, &settings).unwrap();
    let mut value = [0; 4];
    assert_eq!((tree.get(&[5; 4], &mut value), value), (Ok(true), [6; 4]));
    assert!(!tree.get(&removed, &mut value).unwrap() && tree.check().unwrap().is_sound());
}

//! VMTree-OW against a map with remounts, the published counts, power cuts, damage, a full chip, and a chip
//! that watches.

use super::{Marks, OverwriteConfig, OverwriteTree};
use crate::nand::catalogue::{mlc_64m, nor_2m};
use crate::nand::sim::{CutWhen, Faults, PowerCut, SimChip, TornModel};
use crate::nand::{Cause, Nand, NandError};
use crate::ordered::buffered::Answers;
use crate::ordered::vm::Keep;
use crate::ordered::{Durability, OrderedIndex, RecordFormat};
use crate::rng::Rng;
use crate::shared::Shared;
use crate::testing::{
    Access, Chip, History, Mix, Model, Op, apply, assert_holds, contents, fill, get, key, live, put, take,
};
use crate::units::{Pbn, Ppn};
use crate::{IndexError, StoreError};
use alloc::vec;
use alloc::vec::Vec;

const RECORD: RecordFormat = RecordFormat::new(4, 4);

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

/// A chip of small pages, so that few records suffice to split and remove nodes.
fn small_chip(blocks: u32) -> Chip {
    let mut part = nor_2m().with_blocks(blocks);
    part.geometry.page_bytes = 128;
    watched(SimChip::new(&part).unwrap())
}

fn settings(marks: Marks) -> OverwriteConfig {
    OverwriteConfig { marks, ..OverwriteConfig::new(RECORD) }
}

/// Settings with a log buffer of `log_pages` pages.
fn logged(marks: Marks, log_pages: u32) -> OverwriteConfig {
    OverwriteConfig { durability: Durability::EverySync, log_pages, ..settings(marks) }
}

fn key_of(op: &mut Op) -> Option<&mut Vec<u8>> {
    match op {
        Op::Insert(key, _) | Op::Remove(key) | Op::Get(key) => Some(key),
        Op::Range(..) | Op::Sync | Op::Remount => None,
    }
}

/// One random operation on tree and model.
fn step(tree: &mut Tree, model: &mut Model, rng: &mut Rng, keys: u64) {
    let mut op = Mix { reads: [10, 0], ..Mix::updates(keys, [55, 35], 0) }.draw(rng, RECORD);
    // The smallest and the largest key are bounds as well.
    key_of(&mut op).into_iter().filter(|key| **key == [0, 0, 0, 1]).for_each(|key| key.fill(0xff));
    match &op {
        Op::Insert(key, value) => match put(tree, model, key, value) {
            Ok(_) | Err(IndexError::Full(_)) => {}
            Err(error) => panic!("{error}"),
        },
        op => apply(tree, model, op, Answers::Exact),
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
                for key in core::mem::take(&mut model).into_keys() {
                    assert!(tree.remove(&key).unwrap());
                }
            }
            if op % 333 == 0 {
                assert_holds(&mut tree, &model);
            }
            if op % 1500 == 1499 {
                tree = remount(tree, &settings);
                assert_holds(&mut tree, &model);
            }
        }
        let erases = tree.into_nand().lock().counters().block_erases[Cause::GarbageCollection as usize];
        assert!(erases > 16, "{erases} erases");
    }
}

#[test]
fn it_is_a_map() {
    crate::inputs::cases(24, |seed| {
        let (mut rng, settings) = (Rng::new(seed), settings(Marks::Checked));
        let mix = Mix { reads: [15, 0], remounts: 1, ..Mix::updates(300, [96, 80], 0) };
        let mut ops: Vec<Op> = (0..=rng.below(1_500)).map(|_| mix.draw(&mut rng, RECORD)).collect();
        for key in ops.iter_mut().filter_map(key_of) {
            let number = u32::from_be_bytes([key[0], key[1], key[2], key[3]]);
            key.copy_from_slice(&(number * 0x00da_7a5e).to_be_bytes());
        }
        let tree = OverwriteTree::format(chip(16), &settings).unwrap();
        live(tree, &ops, Answers::Exact, &|tree| remount(tree, &settings), &mut |_, _| {});
    });
}

/// Result of a run until the power was cut: the chip and its operations.
struct Work {
    nand: Chip,
    history: History,
}

/// Changes a tree that contains these records until the power is cut.
fn work_until_the_cut(nand: Chip, held: &Model, settings: &OverwriteConfig, operations: u32) -> Work {
    let Ok(mut tree) = OverwriteTree::mount(nand, settings) else { unreachable!("a formatted chip") };
    let (mut history, mut rng) = (History::new(held.clone()), Rng::new(5));
    for op in 0..operations {
        // Keys spread over a few nodes and then taken away, such that nodes split, fill with dead slots and
        // go.
        let grows = op % 130 < 90;
        let keys = if grows { 140 } else { 60 } + 2 * held.len() as u64;
        let mix = Mix::updates(keys, if grows { [8, 2] } else { [1, 9] }, 0);
        let mut done = history.apply(&mut tree, &mix.draw(&mut rng, RECORD));
        if done.as_ref().is_err_and(IndexError::is_full) {
            continue;
        }
        if op % 23 == 0 {
            done = done.and_then(|()| history.apply(&mut tree, &Op::Sync));
        }
        match done {
            Ok(()) => {}
            Err(IndexError::Store(StoreError::Nand(NandError::PowerLost))) => break,
            Err(error) => panic!("operation {op}: {error}"),
        }
    }
    Work { nand: tree.into_nand(), history }
}

/// Cuts every operation of the chip in every way. The state found must be an allowed one, and further work
/// must succeed.
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
    for at_operation in (first..last).step_by(crate::inputs::stride(4)) {
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
    let is_each = settings.durability == Durability::EveryOperation;
    let least = if is_each { work.history.acknowledged() } else { 0 };
    let mut found = Vec::new();
    for chip in [Some(work.nand), cut_mount(again, settings)].into_iter().flatten() {
        let mut tree = OverwriteTree::mount(chip, settings).unwrap();
        let held = contents(&mut tree).unwrap();
        assert_holds(&mut tree, &held);
        assert!(work.history.had(&held, least), "{cut:?}: a state that never was");
        found.push((tree, held));
    }
    // Goes on from there, and finds it again.
    let (mut tree, mut model) = found.swap_remove(0);
    let mut rng = Rng::new(cut.at_operation);
    for _ in 0..20 {
        step(&mut tree, &mut model, &mut rng, 200);
    }
    assert_holds(&mut remount(tree, settings), &model);
}

/// The chip after a mount that was cut; `None` if the mount writes nothing.
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
            match put(&mut tree, &mut model, &key, &[1; 4]) {
                Err(IndexError::Full(_)) => {
                    let gone = model.keys().nth(rng.below(model.len() as u64) as usize).unwrap().clone();
                    assert_eq!(take(&mut tree, &mut model, &gone), Ok(true));
                }
                done => drop(done.unwrap()),
            }
        }
        assert!(tree.stats().collections > 20, "{:?}", tree.stats());
        // Empty leaves leave room, which has to be collected.
        for key in model.keys().take(model.len() / 3).cloned().collect::<Vec<_>>() {
            assert_eq!(take(&mut tree, &mut model, &key), Ok(true));
        }
        let before = tree.stats().collections;
        while tree.stats().collections == before {
            let key = (4000 + rng.below(4000) as u32).to_be_bytes();
            put(&mut tree, &mut model, &key, &[1; 4]).unwrap();
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

/// Fills the chip with at least `least` records of 4 + 4 bytes and removes most, three times.
fn fill_and_shrink(settings: &OverwriteConfig, blocks: u32, least: usize) {
    let mut tree = OverwriteTree::format(chip(blocks), settings).unwrap();
    let (mut model, mut rng) = (Model::new(), Rng::new(9));
    for _ in 0..crate::inputs::sized(2, 3) {
        fill(&mut tree, &mut model, &mut || {
            let key = (rng.next_u64() as u32).to_be_bytes().to_vec();
            (key.clone(), key)
        });
        assert!(model.len() > least, "{} records on {blocks} blocks", model.len());
        assert_holds(&mut tree, &model);
        assert!(tree.stats().collections > 3, "{:?}", tree.stats());
        // Most of the keys of the lower half, which empties leaves; some of the others.
        for key in model.keys().filter(|key| key[0] < 128 || key[3] % 8 == 0).cloned().collect::<Vec<_>>() {
            assert_eq!(take(&mut tree, &mut model, &key), Ok(true));
        }
        tree = remount(tree, settings);
        assert_holds(&mut tree, &model);
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
            assert_holds(&mut tree, &model);
            tree = remount(tree, settings);
        }
    }
    assert_holds(&mut tree, &model);
    let bad = (0..blocks).filter(|&block| tree.tree.pages.nand.is_bad(Pbn(block)).unwrap()).count();
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
        for key in (0..1000).map(|n| key(n, RECORD)) {
            match get(&mut tree, &key) {
                Ok(found) => {
                    sound += 1;
                    assert_eq!(found.as_ref(), model.get(&key), "{key:?}");
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
    let programs = tree.tree.pages.nand.lock().counters().page_programs_total();
    assert!(tree.insert(&7u32.to_be_bytes(), &[2; 4]).unwrap(), "it waits");
    assert_eq!(tree.tree.pages.nand.lock().counters().page_programs_total(), programs);
    tree.sync().unwrap();
    // A page of changes; the slots and their mark; the page of changes is retired.
    assert_eq!(tree.tree.pages.nand.lock().counters().page_programs_total(), programs + 4);
    let metrics = tree.stats().metrics;
    let metric = |name| metrics.iter().find(|metric| metric.name == name).unwrap().value;
    assert_eq!((metric("overwrites"), metric("log_programs"), metric("log_records")), (1, 1, 0));
    // One change alone is an operation of itself, and what is there already is not written again.
    tree.insert(&7u32.to_be_bytes(), &[2; 4]).unwrap();
    tree.sync().unwrap();
    assert_eq!(tree.tree.pages.nand.lock().counters().page_programs_total(), programs + 4);
    tree.remove(&7u32.to_be_bytes()).unwrap();
    tree.sync().unwrap();
    assert_eq!(tree.tree.pages.nand.lock().counters().page_programs_total(), programs + 5);
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

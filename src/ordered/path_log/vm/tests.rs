//! VMTree against a map with remounts, the published counts, power cuts, damage, a full chip.

use super::{Duplicates, Keep, TableConfig, VmConfig, VmTree};
use crate::blocks::victim::VictimPolicy;
use crate::nand::catalogue::mlc_64m;
use crate::nand::sim::{CutWhen, Faults, PowerCut, SimChip, TornModel};
use crate::nand::{Cause, Geometry, Part};
use crate::ordered::buffered::Answers;
use crate::ordered::{Durability, OrderedIndex, RawConfig, RecordFormat};
use crate::rng::Rng;
use crate::testing::{History, Mix, Model, Op, apply, assert_holds, contents, fill, get, key, take};
use crate::{IndexError, Nand};
use alloc::vec::Vec;

const RECORD: RecordFormat = RecordFormat::new(4, 4);

fn part(pages_per_block: u32, blocks: u32) -> Part {
    Part { geometry: Geometry::new(512, 64, pages_per_block, blocks), ..mlc_64m() }
}

fn chip(pages_per_block: u32, blocks: u32) -> SimChip {
    SimChip::new(&part(pages_per_block, blocks)).unwrap()
}

fn config(log_pages: u32) -> VmConfig {
    let durability = if log_pages > 0 { Durability::EverySync } else { Durability::EveryOperation };
    let tree = RawConfig { durability, checkpoint_blocks: 5, ..RawConfig::new(RECORD) };
    with_table(128, VmConfig { tree, log_pages, ..VmConfig::new(RECORD) })
}

/// Configuration with a table of `bytes` bytes.
fn with_table(bytes: usize, mut config: VmConfig) -> VmConfig {
    config.tree.scheme.bytes = Some(bytes);
    config
}

/// One random operation on tree and model.
fn step(tree: &mut dyn OrderedIndex, model: &mut Model, rng: &mut Rng, keys: u64) {
    let mix = Mix { reads: [10, 0], ..Mix::updates(keys, [55, 35], 0) };
    apply(tree, model, &mix.draw(rng, RECORD), Answers::Exact);
}

fn soak(nand: impl Nand, config: &VmConfig, seed: u64, operations: u32) {
    let mut tree = VmTree::format(nand, config).unwrap();
    let (mut model, mut rng) = (Model::new(), Rng::new(seed));
    for op in 0..operations {
        // Grows, shrinks to nothing, grows again.
        let keys = if op % 4000 < 3000 { 3000 } else { 40 };
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
            if op % 2 == 0 {
                tree.close().unwrap();
            } else {
                tree.sync().unwrap();
            }
            tree = VmTree::mount(tree.into_nand(), config).unwrap();
            assert_holds(&mut tree, &model);
        }
    }
}

#[test]
fn a_vm_tree_is_a_map() {
    soak(chip(16, 64), &config(0), 1, 9000);
    let mut three_buffers = with_table(2048, config(0));
    three_buffers.tree.scheme.keep = Keep::ThreeBuffers;
    soak(chip(8, 128), &three_buffers, 2, 9000);
    let mut fifo = with_table(32, config(0));
    fifo.tree.victim = VictimPolicy::Fifo;
    soak(chip(16, 64), &fifo, 3, 5000);
    soak(chip(16, 160), &config(1), 4, 9000);
}

#[test]
fn failing_programs_lose_nothing() {
    let faults = Faults { seed: 3, program_failures_ppm: 300, ..Faults::default() };
    soak(chip(16, 96).with_faults(faults), &config(0), 5, 9000);
}

/// Works until the power fails.
fn work_until_the_cut(chip: SimChip, config: &VmConfig, syncs: bool) -> (SimChip, History) {
    let (mut history, mut rng) = (History::new(Model::new()), Rng::new(77));
    let mut tree = VmTree::mount(chip, config).unwrap();
    for op in 0..400 {
        let mix = Mix::updates(if op < 300 { 400 } else { 20 }, [6, 4], 0);
        let mut done = history.apply(&mut tree, &mix.draw(&mut rng, RECORD));
        if syncs && op % 60 == 59 {
            done = done.and_then(|()| history.apply(&mut tree, &Op::Sync));
        }
        if done.is_err() {
            break;
        }
    }
    (tree.into_nand(), history)
}

fn cuts(config: &VmConfig, chip: &SimChip, syncs: bool) {
    let formatted = VmTree::format(chip.clone(), config).unwrap().into_nand();
    let first = formatted.operations();
    let last = work_until_the_cut(formatted.clone(), config, syncs).0.operations();
    assert!(last - first > if syncs { 15 } else { 300 }, "{}", last - first);
    for at_operation in first..last {
        let torn = TornModel::ALL[at_operation as usize % 4];
        for when in [CutWhen::Inside, CutWhen::After] {
            let mut chip = formatted.clone();
            chip.plan_power_cut(PowerCut { at_operation, when, torn, seed: at_operation });
            let (mut chip, history) = work_until_the_cut(chip, config, syncs);
            chip.power_on();
            let mut tree = VmTree::mount(chip, config).unwrap();
            let found = contents(&mut tree).unwrap();
            assert_holds(&mut tree, &found);
            let least = if syncs { 0 } else { history.acknowledged() };
            assert!(
                history.had(&found, least),
                "cut {when:?} {at_operation}, {torn:?}: no state since a sync"
            );
            // Goes on from there, and finds it again.
            let mut model = found;
            let mut rng = Rng::new(at_operation);
            for _ in 0..20 {
                step(&mut tree, &mut model, &mut rng, 400);
            }
            tree.sync().unwrap();
            let mut tree = VmTree::mount(tree.into_nand(), config).unwrap();
            assert_holds(&mut tree, &model);
        }
    }
}

#[test]
fn a_power_cut_loses_nothing_acknowledged() {
    cuts(&with_table(32, config(0)), &chip(8, 40), false);
}

#[test]
fn a_power_cut_leaves_the_log_buffer_entered_or_not() {
    cuts(&config(1), &chip(16, 160), true);
}

#[test]
fn a_full_tree_says_so_and_can_shrink() {
    for mapping_bytes in [64, 128, 640] {
        let config = with_table(mapping_bytes, config(0));
        let mut tree = VmTree::format(chip(8, 40), &config).unwrap();
        let (mut model, mut rng) = (Model::new(), Rng::new(9));
        for round in 0..3 {
            fill(&mut tree, &mut model, &mut || {
                let key = (rng.next_u64() as u32).to_be_bytes().to_vec();
                (key.clone(), key)
            });
            assert!(model.len() > 1500, "{} records of 4 + 4 bytes on 320 pages", model.len());
            assert_holds(&mut tree, &model);
            for key in model.keys().filter(|key| key[3] % 4 > 0).cloned().collect::<Vec<_>>() {
                assert_eq!(take(&mut tree, &mut model, &key), Ok(true), "{mapping_bytes}, round {round}");
            }
            tree = VmTree::mount(tree.into_nand(), &config).unwrap();
            assert_holds(&mut tree, &model);
        }
    }
}

#[test]
fn flipped_bits_are_noticed() {
    let config = config(0);
    let mut tree = VmTree::format(chip(8, 64), &config).unwrap();
    let (mut model, mut rng) = (Model::new(), Rng::new(2));
    for _ in 0..1500 {
        step(&mut tree, &mut model, &mut rng, 1000);
    }
    tree.close().unwrap();
    let used = tree.into_nand();
    let (mut noticed, mut sound) = (0, 0);
    // Each read has its own errors: only a page that is wrong five times is given up.
    for seed in 0..120 {
        let faults = Faults { seed, bit_errors_per_gigabit: 60_000, ..Faults::default() };
        let Ok(mut tree) = VmTree::mount(used.clone().with_faults(faults), &config) else {
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
fn ram_is_kept_and_too_little_is_refused() {
    for ram_bytes in [9_000, 20_000, 100_000] {
        let mut config = config(0);
        config.tree.ram_bytes = Some(ram_bytes);
        let mut tree = VmTree::format(chip(16, 64), &config).unwrap();
        for key in 0..3000u32 {
            tree.insert(&key.wrapping_mul(0x9e37_79b9).to_be_bytes(), &[1; 4]).unwrap();
        }
        assert!(tree.ram_bytes() <= ram_bytes, "{} of {ram_bytes}", tree.ram_bytes());
    }
    let mut little = config(0);
    little.tree.ram_bytes = Some(2_000);
    assert!(matches!(VmTree::format(chip(16, 64), &little), Err(IndexError::TooLittleRam { .. })));
    let volatile = VmConfig { log_pages: 1, ..VmConfig::new(RECORD) };
    let error = VmTree::format(chip(16, 64), &volatile).err().unwrap();
    assert!(alloc::string::ToString::to_string(&error).contains("every sync only"), "{error}");
}

/// 100,000 random inserts as in the authors' program: page reads and writes of new pages.
fn counts(mapping_bytes: usize, duplicates: Duplicates) -> (u64, u64) {
    let mut config = VmConfig::new(RecordFormat::new(4, 12));
    config.tree.checkpoint_blocks = 300;
    config.tree.scheme = TableConfig { bytes: Some(mapping_bytes), keep: Keep::ThreeBuffers, duplicates };
    let mut tree = VmTree::format(chip(8, 2500), &config).unwrap();
    let mut keys: Vec<u32> = (0..100_000).collect();
    Rng::new(1).shuffle(&mut keys);
    for key in keys {
        tree.insert(&key.to_be_bytes(), &[7; 12]).unwrap();
    }
    let counters = tree.into_nand().counters();
    (counters.page_reads[Cause::Host as usize], counters.page_programs[Cause::Host as usize])
}

/// The other rows: `examples/vmtree_counts.rs`.
#[test]
fn the_authors_counts() {
    let rows = [(1024, 354_337u64, 203_955u64), (16_384, 250_342, 110_097)];
    for (mapping_bytes, reads, writes) in rows.into_iter().take(crate::inputs::sized(1, 2)) {
        let ours = counts(mapping_bytes, Duplicates::AsPublished);
        let near = |ours: u64, theirs: u64| ours.abs_diff(theirs) * 100 <= theirs * 3;
        assert!(near(ours.0, reads) && near(ours.1, writes), "{ours:?} beside {reads}, {writes}");
    }
    let (_, writes) = counts(1024, Duplicates::Never);
    assert!((120_000..140_000).contains(&writes), "{writes} without entries left behind");
}

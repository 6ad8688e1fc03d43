//! Mounts of chips with many blocks, which look only where the newest anchor says.

use super::*;
use crate::inputs::stride;
use crate::nand::Nand;
use crate::nand::sim::{CutWhen, Faults, PowerCut, TornModel};
use crate::ordered::plow::anchor::Anchor;
use crate::testing::History;
use crate::units::{Pbn, Ppn};

/// A chip of few pages with anchors.
const SMALL: (u32, u32, u32) = (512, 16, 520);

fn small() -> SimChip {
    chip(SMALL.0, SMALL.1, SMALL.2)
}

fn anchor(plow: &Plow<SimChip>) -> &Anchor {
    plow.core.stock.space.blocks.anchor.as_ref().unwrap()
}

/// Mounts, and returns the reads and the microseconds that it took.
fn mounted(nand: SimChip, set: &PlowConfig) -> (Plow<SimChip>, u64, u64) {
    let (before, at) = (nand.counters(), nand.time().0);
    let plow = Plow::mount(nand, set).unwrap();
    let nand = &plow.core.medium.nand;
    let reads = nand.counters().since(&before).page_reads_total();
    let time = (nand.time().0 - at) / 1000;
    (plow, reads, time)
}

fn churn(plow: &mut Plow<SimChip>, history: &mut Model, keys: u64, changes: u64, rng: &mut Rng) {
    for i in 0..changes {
        let (key, value) = (key(rng.below(keys) * 2_654_435_761 % (1 << 40), 8), i.to_be_bytes());
        plow.put(&key, &value).unwrap();
        history.insert(key, value.to_vec());
    }
}

#[test]
fn a_mount_reads_few_pages_whatever_the_number_of_blocks() {
    for (blocks, records) in [(1024, 10), (1024, 10_000), (1024, 100_000), (4096, 10), (4096, 100_000u64)] {
        let set = PlowConfig { ram_bytes: Some(64 << 10), ..settings(8, 8, Durability::EverySync) };
        let mut plow = Plow::format(chip(2048, 64, blocks), &set).unwrap();
        let loaded = (0..records).map(|i| (key(i, 8), i.to_be_bytes().to_vec()));
        let mut model: Model = loaded.collect();
        plow.load(&mut model.iter().map(|(key, value)| (&key[..], &value[..]))).unwrap();
        let rng = &mut Rng::new(records);
        for closes in [false, true, false] {
            for i in 0..(records / 20).min(600) {
                let key = key(rng.below(records), 8);
                plow.put(&key, &i.to_be_bytes()).unwrap();
                model.insert(key, i.to_be_bytes().to_vec());
            }
            if closes { plow.close() } else { plow.sync() }.unwrap();
            let (again, reads, time) = mounted(plow.into_nand(), &set);
            plow = again;
            assert!(anchor(&plow).in_force, "{blocks} blocks, {records} records");
            assert!(reads <= 260 && time <= 40_000, "{blocks} blocks, {records}: {reads} reads, {time} us");
        }
        assert_holds(&mut plow, &model);
    }
}

/// Changes until the next anchor is near.
fn near_an_anchor(set: &PlowConfig, left: usize) -> (Plow<SimChip>, Model) {
    let (mut plow, mut model) = (Plow::format(small(), set).unwrap(), Model::new());
    let rng = &mut Rng::new(5);
    while anchor(&plow).left().count() > left {
        churn(&mut plow, &mut model, 3000, 1, rng);
    }
    plow.sync().unwrap();
    (plow, model)
}

#[test]
fn a_cut_while_an_anchor_is_written_loses_nothing() {
    for (class, steps) in [(Durability::EveryOperation, 60), (Durability::EverySync, 250)] {
        let set = PlowConfig { memtable: Some(20), levels: Some(2), ..settings(8, 8, class) };
        let (plow, model) = near_an_anchor(&set, 9);
        let nand = plow.into_nand();
        let work = |nand: SimChip| {
            let mut history = History::new(model.clone());
            let mut plow = Plow::mount(nand, &set).unwrap();
            let (mut rng, before) = (Rng::new(7), anchor(&plow).left().count());
            for step in 0..steps {
                let op = if step % 50 == 49 {
                    Op::Sync
                } else {
                    Mix::updates(3000, [3, 1], 0).draw(&mut rng, set.record)
                };
                if history.apply(&mut plow, &op).is_err() {
                    break;
                }
            }
            let wrote =
                plow.core.stock.space.blocks.anchor.as_ref().is_some_and(|a| a.left().count() > before);
            (plow.into_nand(), history, wrote)
        };
        let (done, _, wrote) = work(nand.clone());
        assert!(wrote, "{class:?}: no anchor was written");
        let (mut fast, mut slow) = (0, 0);
        for at_operation in (nand.operations()..done.operations()).step_by(stride(3)) {
            let (when, torn) = (
                [CutWhen::Inside, CutWhen::After][at_operation as usize % 5 / 4],
                TornModel::ALL[at_operation as usize % 4],
            );
            let mut cut = nand.clone();
            cut.plan_power_cut(PowerCut { at_operation, when, torn, seed: at_operation });
            let (mut cut, history, _) = work(cut);
            cut.power_on();
            let mut plow =
                Plow::mount(cut, &set).unwrap_or_else(|error| panic!("{at_operation} {torn:?}: {error}"));
            if anchor(&plow).in_force {
                fast += 1;
            } else {
                slow += 1;
            }
            let found = everything(&mut plow);
            let least = if class == Durability::EveryOperation { history.acknowledged() } else { 0 };
            assert!(history.had(&found, least), "{at_operation} {torn:?}: {} records", found.len());
            // The next session takes blocks, and a mount after it finds all.
            let mut model = found;
            churn(&mut plow, &mut model, 3000, 40, &mut Rng::new(at_operation));
            plow.sync().unwrap();
            let mut plow = Plow::mount(plow.into_nand(), &set).unwrap();
            assert_eq!(everything(&mut plow), model, "{at_operation} {torn:?}, then 40 changes");
        }
        assert!(slow == 0 && fast > 10, "{class:?}: {slow} mounts looked everywhere, {fast} did not");
    }
}

#[test]
fn a_damaged_anchor_makes_a_mount_slow_at_most() {
    let set =
        PlowConfig { memtable: Some(20), levels: Some(2), ..settings(8, 8, Durability::EveryOperation) };
    let (mut plow, mut model) = near_an_anchor(&set, 20);
    let rng = &mut Rng::new(9);
    let mut older: Vec<SimChip> = Vec::new();
    for _ in 0..6 {
        older.push(plow.core.medium.nand.clone());
        churn(&mut plow, &mut model, 3000, 900, rng);
    }
    let (nand, places) = (plow.core.medium.nand.clone(), anchor(&plow).places);
    let blocks = (0..16).filter(|i| places >> i & 1 == 1).map(Pbn);
    let pages: Vec<Ppn> = blocks
        .clone()
        .flat_map(|block| (0..SMALL.1).map(move |page| Ppn(block.0 * SMALL.1 + page)))
        .collect();
    let check = |nand: SimChip, model: &Model, what: &str| {
        let mut plow = Plow::mount(nand, &set).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(everything(&mut plow), *model, "{what}");
        let mut model = model.clone();
        churn(&mut plow, &mut model, 3000, 60, &mut Rng::new(3));
        let mut plow = Plow::mount(plow.into_nand(), &set).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_holds(&mut plow, &model);
    };
    for &ppn in pages.iter().step_by(stride(3)) {
        let Some(page) = nand.stored_page(ppn) else { continue };
        for damage in 0..4 {
            let mut damaged = nand.clone();
            match damage {
                0 => damaged.make_unreadable(ppn),
                1 => damaged.damage_page(ppn, &vec![0; page.len()]),
                2 => damaged.damage_page(ppn, &vec![0xff; page.len()]),
                _ => {
                    let old =
                        older.iter().rev().find_map(|old| old.stored_page(ppn).filter(|old| *old != page));
                    let Some(old) = old else { continue };
                    damaged.damage_page(ppn, &old);
                }
            }
            check(damaged, &model, &alloc::format!("{ppn}, damage {damage}"));
        }
    }
    for lost in 1..4 {
        let mut damaged = nand.clone();
        for (i, block) in blocks.clone().enumerate() {
            for page in 0..SMALL.1 {
                if lost >> i & 1 == 1 && nand.stored_page(Ppn(block.0 * SMALL.1 + page)).is_some() {
                    damaged.make_unreadable(Ppn(block.0 * SMALL.1 + page));
                }
            }
        }
        check(damaged, &model, &alloc::format!("blocks {lost} lost"));
    }
}

#[test]
fn an_anchor_costs_little_and_wears_its_blocks_less_than_the_others() {
    let set = PlowConfig { ram_bytes: Some(64 << 10), ..settings(8, 8, Durability::EverySync) };
    let mut plow = Plow::format(small(), &set).unwrap();
    let (mut model, rng) = (Model::new(), &mut Rng::new(1));
    churn(&mut plow, &mut model, 3000, 30_000, rng);
    let places = anchor(&plow).places;
    let wear = plow.core.medium.nand.wear();
    let of_anchors: u32 = (0..16).filter(|i| places >> i & 1 == 1).map(|i| wear[i]).max().unwrap();
    let mean = wear.iter().sum::<u32>() / SMALL.2;
    assert!(of_anchors <= mean + 1, "{of_anchors} erases of a block of anchors, {mean} of the others");
    assert_holds(&mut plow, &model);
}

#[test]
fn blocks_of_anchors_that_fail_are_left_and_lose_nothing() {
    let set =
        PlowConfig { memtable: Some(20), levels: Some(2), ..settings(8, 8, Durability::EveryOperation) };
    let (plow, model) = near_an_anchor(&set, 9);
    let (nand, mut lost) = (plow.into_nand(), [0; 3]);
    for seed in 0..8 {
        let (mut nand, mut model, rng) = (nand.clone(), model.clone(), &mut Rng::new(seed));
        nand.set_faults(Faults {
            seed,
            program_failures_ppm: 300_000,
            erase_failures_ppm: 100_000,
            ..Faults::default()
        });
        let mut plow = Plow::mount(nand, &set).unwrap();
        churn(&mut plow, &mut model, 3000, 60, rng);
        let places = plow.core.stock.space.blocks.anchor.as_ref().map_or(0, |a| a.places.count_ones());
        lost[2 - places as usize] += 1;
        let mut nand = plow.into_nand();
        nand.set_faults(Faults::default());
        let mut plow = Plow::mount(nand, &set).unwrap();
        assert_eq!(everything(&mut plow), model, "seed {seed}");
        churn(&mut plow, &mut model, 3000, 30, rng);
        let mut plow = Plow::mount(plow.into_nand(), &set).unwrap();
        assert_eq!(everything(&mut plow), model, "seed {seed}, then 30 changes");
    }
    assert!(lost.iter().filter(|&&lives| lives > 0).count() >= 2, "{lost:?}");
}

#[test]
fn a_format_erases_all_blocks_where_there_is_one_for_anchors_alone() {
    let set = settings(8, 8, Durability::EverySync);
    let mut plow = Plow::format(small(), &set).unwrap();
    churn(&mut plow, &mut Model::new(), 3000, 8000, &mut Rng::new(1));
    plow.close().unwrap();
    let mut nand = plow.into_nand();
    (0..15).for_each(|block| nand.mark_bad(Pbn(block)).unwrap());
    let plow = Plow::format(nand, &set).unwrap();
    assert!(plow.core.stock.space.blocks.anchor.is_none());
    let mut plow = Plow::mount(plow.into_nand(), &set).unwrap();
    assert_eq!(everything(&mut plow), Model::new());
}

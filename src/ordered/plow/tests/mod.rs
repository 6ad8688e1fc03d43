//! plow against a map, at the edge of the chip, with failures, and what it costs.

mod bound;
mod carry;
mod cuts;
mod drain;
mod edge;
mod first;
mod lend;
mod life;
mod maps;
mod room;
mod sink;
mod trim;

use super::{Plow, PlowConfig, level};
use crate::IndexError;
use crate::inputs;
use crate::nand::catalogue::mlc_64m;
use crate::nand::sim::SimChip;
use crate::nand::{Geometry, Part};
use crate::ordered::buffered::Answers;
use crate::ordered::{Change, Durability, OrderedIndex, RecordFormat};
use crate::rng::Rng;
use crate::testing::{self, Mix, Model, Op, apply, assert_holds, contents, put, take};
use alloc::vec;
use alloc::vec::Vec;

fn chip(page_bytes: u32, pages_per_block: u32, blocks: u32) -> SimChip {
    let geometry = Geometry::new(page_bytes, 64, pages_per_block, blocks);
    SimChip::new(&Part { geometry, ..mlc_64m() }).unwrap()
}

fn settings(key: u8, value: u8, durability: Durability) -> PlowConfig {
    PlowConfig { durability, ..PlowConfig::new(RecordFormat::new(key, value)) }
}

/// Key number `i`: in the last bytes, as a number.
fn key(i: u64, bytes: u8) -> Vec<u8> {
    testing::key(i, RecordFormat::new(bytes, 0))
}

/// Values of one byte more than a multiple of four end with zeros, some sooner and some later.
fn shorten(value: &mut [u8]) {
    if value.len() % 4 == 1 {
        let kept = usize::from(value[0]) % (value.len() + 1);
        value[kept..].fill(0);
    }
}

fn everything(plow: &mut dyn OrderedIndex) -> Model {
    contents(plow).unwrap()
}

fn assert_range(plow: &mut dyn OrderedIndex, model: &mut Model, rng: &mut Rng, keys: u64) {
    let mut op = Mix { reads: [0, 1], ..Mix::updates(keys, [0, 0], 0) }.draw(rng, plow.record());
    if let Op::Range(_, _, stop) = &mut op {
        *stop = rng.below(200) as usize;
    }
    apply(plow, model, &op, Answers::Exact);
}

/// Random changes, look-ups, ranges and mounts, compared with a map.
fn live(mut plow: Plow<SimChip>, set: &PlowConfig, keys: u64, steps: u32, rng: &mut Rng) -> Plow<SimChip> {
    let mut model = everything(&mut plow);
    let mix = Mix { reads: [120, 16], remounts: 2, ..Mix::updates(keys, [440, 200], 8) };
    for step in 0..steps {
        let mut op = mix.draw(rng, set.record);
        if let Op::Insert(_, value) = &mut op {
            shorten(value);
        }
        apply(&mut plow, &mut model, &op, Answers::Exact);
        if op == Op::Remount {
            if rng.chance(1, 2) { plow.close() } else { plow.sync() }.unwrap();
            plow = Plow::mount(plow.into_nand(), set).unwrap();
            assert_holds(&mut plow, &model);
        }
        if let Some(ram) = set.ram_bytes {
            assert!(plow.ram_bytes() <= ram, "step {step}: {} of {ram} bytes", plow.ram_bytes());
        }
    }
    assert_holds(&mut plow, &model);
    plow
}

#[test]
fn it_is_a_map() {
    inputs::cases(60, |seed| {
        let rng = &mut Rng::new(seed);
        let (key, value) = [(4, 4), (8, 4), (2, 0), (16, 8), (12, 3), (1, 1)][rng.below(6) as usize];
        let class = if rng.chance(1, 2) { Durability::EveryOperation } else { Durability::EverySync };
        let (levels, memtable) = (Some(1 + rng.below(3) as usize), Some(4 + rng.below(56) as usize));
        let set = PlowConfig { levels, memtable, ..settings(key, value, class) };
        let plow = Plow::format(chip(512, 8, 64), &set).unwrap();
        let keys = if key == 1 { 256 } else { [300, 3000, 50_000][rng.below(3) as usize] };
        live(plow, &set, keys, 2500, rng);
    });
}

#[test]
fn levels_are_added_as_it_grows_and_left_out_where_it_is_only_read() {
    for class in [Durability::EverySync, Durability::EveryOperation] {
        let set = PlowConfig { ram_bytes: Some(5600), answers: Answers::Pool, ..settings(4, 4, class) };
        let mut plow = Plow::format(chip(512, 32, 128), &set).unwrap();
        let (mut model, mut rng, mut heights) = (Model::new(), Rng::new(1), vec![]);
        for round in 0..3 {
            for i in 0..20_000u32 {
                let key = key(rng.below(1 << 16) << 16, 4);
                plow.insert(&key, &i.to_be_bytes()).unwrap();
                model.insert(key, i.to_be_bytes().to_vec());
                if i % 3000 == round {
                    plow.sync().unwrap();
                    assert_eq!(everything(&mut plow), model);
                }
            }
            heights.push(plow.stats().height);
            // Nothing but look-ups, of keys that are there and of others.
            let mut value = [0; 4];
            for i in 0..120_000 {
                let key = key((rng.below(1 << 16) << 16) + i % 2, 4);
                let found = plow.get(&key, &mut value).unwrap();
                assert_eq!(found.then_some(&value[..]), model.get(&key).map(|value| &value[..]));
            }
            assert_holds(&mut plow, &model);
            let reads = plow.nand.counters().page_reads_total();
            (0..1000).for_each(|i| drop(plow.get(&key((i * 40_503 % 65_536) << 16, 4), &mut value)));
            let reads = plow.nand.counters().page_reads_total() - reads;
            assert!((800..1100).contains(&reads), "{reads} reads of 1000 look-ups");
            // A cut: what was drained and not committed lies above again.
            plow = Plow::mount(plow.into_nand(), &set).unwrap();
            if class == Durability::EveryOperation {
                assert_holds(&mut plow, &model);
            } else {
                model = everything(&mut plow);
            }
        }
        assert_eq!(heights, [3, 3, 3], "{class:?}");
    }
}

#[test]
fn a_level_is_left_out_where_most_blocks_wait_for_a_commit() {
    let set =
        PlowConfig { ram_bytes: Some(5600), answers: Answers::Pool, ..settings(4, 4, Durability::EverySync) };
    let (mut plow, mut rng) = (Plow::format(chip(512, 32, 128), &set).unwrap(), Rng::new(1));
    let is_short = |plow: &Plow<SimChip>| {
        plow.blocks.free() <= plow.reserve() + plow.kept_back() && plow.blocks.left() > 20
    };
    let mut puts = 0;
    while puts < 20_000 || !is_short(&plow) {
        plow.put(&key(rng.below(1 << 16) << 16, 4), &[7; 4]).unwrap();
        puts += 1;
        assert!(puts < 200_000, "blocks were never short before a commit");
    }
    assert_eq!(plow.stats().height, 3);
    let mut value = [0; 4];
    let mut look_up = |plow: &mut Plow<SimChip>| {
        plow.get(&key(rng.below(1 << 16) << 16, 4), &mut value).unwrap();
    };
    (0..120_000).for_each(|_| look_up(&mut plow));
    let reads = plow.nand.counters().page_reads_total();
    (0..1000).for_each(|_| look_up(&mut plow));
    let reads = plow.nand.counters().page_reads_total() - reads;
    assert!(reads < 1200, "{reads} reads of 1000 look-ups after {puts} puts");
}

#[test]
fn a_memtable_of_many_pages_is_sealed_page_by_page() {
    let set = PlowConfig { memtable: Some(400), ..settings(8, 8, Durability::EveryOperation) };
    let mut plow = Plow::format(chip(512, 16, 64), &set).unwrap();
    let mut rng = Rng::new(5);
    for round in 0..4 {
        plow = live(plow, &set, [500, 1 << 40][round % 2], 2500, &mut rng);
        assert!(!plow.commits.sealed.is_empty() && plow.commits.sealed.len() <= plow.sealed_max() + 2);
    }
}

#[test]
fn updates_of_few_keys_keep_the_sealed_pages_few() {
    let set = PlowConfig { memtable: Some(400), ..settings(8, 8, Durability::EverySync) };
    let mut plow = Plow::format(chip(512, 16, 64), &set).unwrap();
    for i in 0..40_000u64 {
        plow.insert(&key(i % 150, 8), &i.to_be_bytes()).unwrap();
        if i % 10 == 9 {
            plow.sync().unwrap();
            assert!(plow.commits.sealed.len() <= plow.sealed_max() + 2, "{}", plow.commits.sealed.len());
        }
    }
    let mut plow = Plow::mount(plow.into_nand(), &set).unwrap();
    let model = (39_850..40_000u64).map(|i| (key(i % 150, 8), i.to_be_bytes().to_vec())).collect();
    assert_holds(&mut plow, &model);
}

#[test]
fn sorted_records_are_loaded_at_a_program_a_page() {
    for (levels, count) in [(1, 0u64), (1, 3000), (3, 3000)] {
        let set = PlowConfig { levels: Some(levels), ..settings(8, 8, Durability::EverySync) };
        let mut plow = Plow::format(chip(512, 16, 64), &set).unwrap();
        let before = plow.nand.counters().page_programs.iter().sum::<u64>();
        let model: Model = (0..count).map(|i| (key(i * 900 + i % 7, 8), key(i, 8))).collect();
        let loaded = plow.load(&mut model.iter().map(|(k, v)| (&k[..], &v[..]))).unwrap();
        assert_eq!(loaded, count);
        let pages = plow.stats().live_pages;
        assert_eq!(
            plow.nand.counters().page_programs.iter().sum::<u64>() - before,
            pages + 1,
            "a page each, and a commit"
        );
        assert!(pages * 40 < count + 41, "{pages} pages");
        assert_holds(&mut plow, &model);
        plow = live(plow, &set, 3_000_000, 1500, &mut Rng::new(count));
        plow.close().unwrap();
    }
}

#[test]
fn records_that_do_not_ascend_are_not_loaded() {
    let set = settings(4, 4, Durability::EverySync);
    let mut plow = Plow::format(chip(512, 16, 64), &set).unwrap();
    let mut keys: Vec<Vec<u8>> = (0..500).map(|i| key(i * 3, 4)).collect();
    keys.push(key(7, 4));
    let failed = plow.load(&mut keys.iter().map(|key| (&key[..], &[1u8; 4][..])));
    assert_eq!(failed, Err(IndexError::NotSorted { position: 500 }));
    assert_holds(&mut plow, &Model::new());
    plow = live(plow, &set, 1000, 500, &mut Rng::new(1));
    drop(plow);
}

#[test]
fn pool_answers_read_nothing() {
    let set = PlowConfig { answers: Answers::Pool, levels: Some(2), ..settings(4, 4, Durability::EverySync) };
    let mut plow = Plow::format(chip(512, 16, 64), &set).unwrap();
    let (mut model, mut rng) = (Model::new(), Rng::new(1));
    for i in 0..6000u32 {
        let key = key(rng.below(4000), 4);
        if rng.chance(3, 4) {
            let known = plow.pooled(&key) == Some(true);
            assert_eq!(plow.insert(&key, &i.to_be_bytes()).unwrap(), known);
            model.insert(key, i.to_be_bytes().to_vec());
        } else {
            plow.remove(&key).unwrap();
            model.remove(&key);
        }
    }
    assert_holds(&mut plow, &model);
    let reads = plow.nand.counters().page_reads[crate::Cause::Host as usize];
    let before = reads;
    for i in 0..20 {
        plow.insert(&key(i, 4), &[0; 4]).unwrap();
    }
    assert_eq!(plow.nand.counters().page_reads[crate::Cause::Host as usize], before);
}

/// Keys that ascend, some of them changed and removed again: pages go to the last level at once.
#[test]
fn keys_that_ascend_go_to_the_last_level() {
    for (memtable, class) in [
        (40, Durability::EveryOperation),
        (300, Durability::EveryOperation),
        (40, Durability::EverySync),
        (300, Durability::EverySync),
    ] {
        let set = PlowConfig { levels: Some(3), memtable: Some(memtable), ..settings(8, 8, class) };
        let mut plow = Plow::format(chip(512, 16, 96), &set).unwrap();
        let (mut model, mut rng) = (Model::new(), Rng::new(memtable as u64));
        for i in 0..6000u64 {
            let old = key(rng.below(3 * i + 1), 8);
            if i > 3000 && rng.chance(1, 8) {
                plow.remove(&old).unwrap();
                model.remove(&old);
            }
            let key = key(3 * i, 8);
            plow.insert(&key, &i.to_be_bytes()).unwrap();
            model.insert(key, i.to_be_bytes().to_vec());
            if i % 100 == 99 {
                plow.sync().unwrap();
            }
            if i % 1500 == 1499 {
                assert_holds(&mut plow, &model);
                plow = Plow::mount(plow.into_nand(), &set).unwrap();
                assert_holds(&mut plow, &model);
            }
            if i == 2900 {
                let upper: usize = plow.levels[..2].iter().map(level::Level::pages).sum();
                assert!(upper < 4 && plow.counters.sunk > 0, "{upper} pages above the last level");
            }
        }
        drop(live(plow, &set, 20_000, 1500, &mut rng));
    }
}

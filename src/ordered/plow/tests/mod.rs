//! plow compared with a map: on a nearly full chip, with failures, and its costs.

mod cuts;
// What plow has from this tier on, and chips whose roots leave no room for a memtable before.
#[cfg(feature = "full")]
mod anchors;
#[cfg(feature = "full")]
mod append;
#[cfg(feature = "full")]
mod bound;
#[cfg(feature = "full")]
mod carry;
#[cfg(feature = "full")]
mod drain;
#[cfg(feature = "full")]
mod edge;
#[cfg(feature = "full")]
mod first;
#[cfg(feature = "full")]
mod grown;
#[cfg(feature = "full")]
mod lend;
#[cfg(feature = "full")]
mod life;
#[cfg(feature = "full")]
mod maps;
#[cfg(feature = "full")]
mod ram;
#[cfg(feature = "full")]
mod ranges;
#[cfg(feature = "full")]
mod room;
#[cfg(feature = "full")]
mod sink;
#[cfg(feature = "full")]
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

/// Bytes of a page on chips of every tier: without sealed pages a memtable has room beside a root alone.
const PAGE: u32 = if cfg!(feature = "full") { 512 } else { 4096 };

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
        let plow = Plow::format(chip(PAGE, 8, 64), &set).unwrap();
        let keys = if key == 1 { 256 } else { [300, 3000, 50_000][rng.below(3) as usize] };
        live(plow, &set, keys, 2500, rng);
    });
}

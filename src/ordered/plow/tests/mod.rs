//! plow against a map, at the edge of the chip, with failures, and what it costs.

mod cuts;
// What plow has from this tier on, and chips whose roots leave no room for a memtable before.
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
mod room;
#[cfg(feature = "full")]
mod sink;
#[cfg(feature = "full")]
mod trim;

use super::{Plow, PlowConfig, level};
use crate::inputs;
use crate::nand::catalogue::mlc_64m;
use crate::nand::sim::SimChip;
use crate::nand::{Geometry, Part};
use crate::ordered::buffered::Answers;
use crate::ordered::{Change, Direction, Durability, OrderedIndex, RecordFormat, within};
use crate::rng::Rng;
use crate::{IndexError, Nand};
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::ops::{Bound, ControlFlow};
use proptest::prelude::*;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

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
    let mut key = vec![0; bytes.into()];
    for (place, byte) in key.iter_mut().rev().zip(i.to_le_bytes()) {
        *place = byte;
    }
    key
}

/// Values of one byte more than a multiple of four end with zeros, some sooner and some later.
fn shorten(value: &mut [u8]) {
    if value.len() % 4 == 1 {
        let kept = usize::from(value[0]) % (value.len() + 1);
        value[kept..].fill(0);
    }
}

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

fn contents<N: Nand>(
    plow: &mut Plow<N>,
    bounds: (Bound<&[u8]>, Bound<&[u8]>),
    direction: Direction,
) -> Result<Pairs, IndexError> {
    let mut all = Vec::new();
    plow.range(bounds.0, bounds.1, direction, &mut |key, value| {
        all.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    })?;
    Ok(all)
}

fn everything<N: Nand>(plow: &mut Plow<N>) -> Model {
    contents(plow, (Bound::Unbounded, Bound::Unbounded), Direction::Ascending).unwrap().into_iter().collect()
}

fn assert_holds<N: Nand>(plow: &mut Plow<N>, model: &Model) {
    let report = plow.check().unwrap();
    assert!(report.is_sound(), "{:?}", report.violations);
    assert_eq!(report.records, model.len() as u64);
    for direction in [Direction::Ascending, Direction::Descending] {
        let mut found = contents(plow, (Bound::Unbounded, Bound::Unbounded), direction).unwrap();
        if direction == Direction::Descending {
            found.reverse();
        }
        assert!(found.iter().map(|(key, value)| (key, value)).eq(model), "{direction:?}");
    }
    let mut value = vec![0; plow.record.value_bytes.into()];
    for (key, expected) in model {
        assert!(plow.get(key, &mut value).unwrap() && value == *expected, "{key:?}");
    }
}

fn assert_range<N: Nand>(plow: &mut Plow<N>, model: &Model, rng: &mut Rng, keys: u64) {
    let bytes = plow.record.key_bytes;
    let bound = |rng: &mut Rng| {
        let key = key(rng.below(keys), bytes);
        match rng.below(4) {
            0 => Bound::Unbounded,
            1 => Bound::Excluded(key),
            _ => Bound::Included(key),
        }
    };
    let (low, high) = (bound(rng), bound(rng));
    let bounds = (low.as_ref().map(|k| &k[..]), high.as_ref().map(|k| &k[..]));
    let is_within = |key: &Vec<u8>| within(key, bounds) == Ordering::Equal;
    let mut expected: Vec<_> = model.iter().filter(|(key, _)| is_within(key)).collect();
    let direction = if rng.chance(1, 2) { Direction::Ascending } else { Direction::Descending };
    if direction == Direction::Descending {
        expected.reverse();
    }
    expected.truncate(rng.below(200) as usize + 1);
    let mut found = Vec::new();
    plow.range(bounds.0, bounds.1, direction, &mut |key, value| {
        found.push((key.to_vec(), value.to_vec()));
        if found.len() == expected.len() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .unwrap();
    found.truncate(expected.len());
    assert!(found.iter().map(|(k, v)| (k, v)).eq(expected.iter().copied()), "{bounds:?} {direction:?}");
}

/// Random changes, look-ups, ranges and mounts, compared with a map.
fn live(mut plow: Plow<SimChip>, set: &PlowConfig, keys: u64, steps: u32, rng: &mut Rng) -> Plow<SimChip> {
    let (key_bytes, value_bytes) = (set.record.key_bytes, set.record.value_bytes);
    let mut model = everything(&mut plow);
    for step in 0..steps {
        let key = key(rng.below(keys), key_bytes);
        let mut value = vec![0; value_bytes.into()];
        match rng.below(100) {
            0..55 => {
                rng.fill(&mut value);
                shorten(&mut value);
                assert_eq!(plow.insert(&key, &value).unwrap(), model.insert(key, value).is_some());
            }
            55..80 => assert_eq!(plow.remove(&key).unwrap(), model.remove(&key).is_some()),
            80..95 => {
                let found = plow.get(&key, &mut value).unwrap();
                assert_eq!(found.then_some(&value), model.get(&key), "step {step}");
            }
            95..97 => assert_range(&mut plow, &model, rng, keys),
            97 => plow.sync().unwrap(),
            _ if rng.chance(1, 8) => {
                if rng.chance(1, 2) { plow.close() } else { plow.sync() }.unwrap();
                plow = Plow::mount(plow.into_nand(), set).unwrap();
                assert_holds(&mut plow, &model);
            }
            _ => {}
        }
        if let Some(ram) = set.ram_bytes {
            assert!(plow.ram_bytes() <= ram, "step {step}: {} of {ram} bytes", plow.ram_bytes());
        }
    }
    assert_holds(&mut plow, &model);
    plow
}

proptest! {
    #![proptest_config(inputs::fixed(60))]

    #[test]
    fn it_is_a_map(
        seed: u64, levels in 1u8..4, memtable in 4u64..60, every: bool, form in 0usize..6, spread in 0u32..3,
    ) {
        let (key, value) = [(4, 4), (8, 4), (2, 0), (16, 8), (12, 3), (1, 1)][form];
        let class = if every { Durability::EveryOperation } else { Durability::EverySync };
        let set = PlowConfig { levels: Some(levels.into()), memtable: Some(memtable as usize), ..settings(key, value, class) };
        let plow = Plow::format(chip(PAGE, 8, 64), &set).unwrap();
        let keys = if key == 1 { 256 } else { [300, 3000, 50_000][spread as usize] };
        live(plow, &set, keys, 2500, &mut Rng::new(seed));
    }
}

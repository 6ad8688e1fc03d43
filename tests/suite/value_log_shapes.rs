//! A log of values beside an index of any shape: one that has few pages left, or a tree that is as high as
//! its pages let it be. What was acknowledged can be synced, and a removal never waits for room.

#![allow(clippy::unwrap_used)]

use crate::inputs::sized;
use nandex::nand::catalogue::mlc_with;
use nandex::nand::sim::SimChip;
use nandex::nand::{BlockRange, Geometry};
use nandex::ordered::value_log::{self, ValueLog};
use nandex::ordered::{RawConfig, RecordFormat};
use nandex::rng::Rng;
use nandex::{
    Durability, IndexError, MuStarTree, MuTree, Nand, OrderedIndex, Plow, PlowConfig, VmConfig, VmTree,
    WanderingTree,
};
use std::collections::BTreeMap;

const NAMES: [&str; 5] = ["mu", "mu-star", "wandering", "vmtree", "plow"];

fn format(
    name: &str,
    nand: Box<dyn Nand>,
    record: RecordFormat,
    class: Durability,
) -> Result<Box<dyn OrderedIndex>, IndexError> {
    fn raw<C: Copy + Default>(record: RecordFormat, durability: Durability) -> RawConfig<C> {
        RawConfig { durability, ram_bytes: Some(60_000), ..RawConfig::new(record) }
    }
    Ok(match name {
        "mu" => Box::new(MuTree::format(nand, &raw(record, class))?),
        "mu-star" => Box::new(MuStarTree::format(nand, &raw(record, class))?),
        "wandering" => Box::new(WanderingTree::format(nand, &raw(record, class))?),
        "vmtree" => {
            let mut config = VmConfig::new(record);
            config.tree.durability = class;
            Box::new(VmTree::format(nand, &config)?)
        }
        _ => Box::new(Plow::format(nand, &PlowConfig { durability: class, ..PlowConfig::new(record) })?),
    })
}

/// Puts values of any length until some are refused, removes some, and goes on so; whatever was acknowledged,
/// a sync is never refused.
fn fill(name: &str, seed: u64) -> Option<u32> {
    let mut rng = Rng::new(seed);
    let page_bytes = [256, 256, 512, 1024][rng.below(4) as usize];
    let pages_per_block = [2, 3, 8, 64][rng.below(4) as usize];
    let blocks = (24 + rng.below(1200 / u64::from(pages_per_block))) as u32;
    let key_bytes = 4 + rng.below(20) as u8;
    let class = [Durability::EveryOperation, Durability::EverySync, Durability::None][rng.below(3) as usize];
    let most = page_bytes as usize * (1 + rng.below(3) as usize);
    let mut part = mlc_with(page_bytes, pages_per_block, blocks);
    part.geometry = Geometry::new(page_bytes, 64, pages_per_block, blocks);
    let record = value_log::record(key_bytes, 4 + rng.below(30) as u8);
    let divided = BlockRange::divide(SimChip::new(&part).unwrap(), blocks * 2 / 3);
    let [log, keys] = divided.map(|range| Box::new(range) as Box<dyn Nand>);
    let index = format(name, keys, record, class).ok()?;
    let mut values = ValueLog::new(index, log, most).ok()?;
    let what = format!("{name} seed {seed}: {:?}, {record:?}, {class:?}", part.geometry);
    let (mut model, mut refused) = (BTreeMap::new(), 0);
    for step in 0..3_000u32 {
        let mut key = vec![0; key_bytes.into()];
        key[..2].copy_from_slice(&(rng.below(600) as u16).to_be_bytes());
        let at = rng.below(20);
        if at == 0 || refused % 8 == 7 {
            values.sync().unwrap_or_else(|error| panic!("{what}: sync at step {step}: {error}"));
        }
        if at < 4 {
            match values.remove(&key) {
                Ok(was_there) => assert_eq!(was_there, model.remove(&key).is_some(), "{what}"),
                Err(error) => panic!("{what}: remove at step {step}: {error}"),
            }
            continue;
        }
        let value = vec![step as u8; rng.below(most as u64 + 1) as usize];
        match values.put(&key, &value) {
            Ok(()) => drop(model.insert(key, value)),
            Err(IndexError::Full(_)) => refused += 1,
            Err(error) => panic!("{what}: put at step {step}: {error}"),
        }
        if refused > 40 {
            break;
        }
    }
    values.close().unwrap_or_else(|error| panic!("{what}: close: {error}"));
    for (key, value) in &model {
        assert_eq!(values.get(key).unwrap().as_ref(), Some(value), "{what}");
    }
    Some(refused)
}

#[test]
fn what_was_acknowledged_can_be_synced() {
    for name in NAMES {
        let (mut lives, mut refused) = (0, 0);
        for seed in 0..sized(15, 40) {
            if let Some(times) = fill(name, seed) {
                (lives, refused) = (lives + 1, refused + times);
            }
        }
        assert!(lives > sized(3, 10) && refused > 0, "{name}: {lives} lives, {refused} refused");
    }
}

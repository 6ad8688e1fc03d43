//! A log of values beside an index that is full: what is acknowledged is synced, and what is removed is gone.

#![allow(clippy::unwrap_used)]

use crate::inputs::{sized, stride};
use nandex::nand::catalogue::mlc_64m;
use nandex::nand::sim::SimChip;
use nandex::nand::{BlockRange, Geometry, Part};
use nandex::ordered::value_log::{ValueLog, record};
use nandex::rng::Rng;
use nandex::{Durability, IndexError, MuTree, Nand, OrderedIndex, Plow, PlowConfig, RawConfig};
use std::collections::BTreeMap;

type Half = Box<dyn Nand>;
/// On any index and any chip, so that the log is compiled for one.
type Values = ValueLog<Box<dyn OrderedIndex>, Half>;
const MAX_VALUE: usize = 1_500;

/// Blocks of the log of values, and of the index.
fn halves(log_blocks: u32) -> [Half; 2] {
    let part = Part { geometry: Geometry::new(1024, 64, 8, 40), ..mlc_64m() };
    BlockRange::divide(SimChip::new(&part).unwrap(), log_blocks).map(|half| Box::new(half) as Half)
}

fn plow([log, keys]: [Half; 2], durability: Durability) -> Values {
    let config = PlowConfig { durability, ..PlowConfig::new(record(6, 12)) };
    let index: Box<dyn OrderedIndex> = Box::new(Plow::format(keys, &config).unwrap());
    ValueLog::new(index, log, MAX_VALUE).unwrap()
}

fn mu([log, keys]: [Half; 2], write_pages: usize) -> Values {
    let durability = if write_pages > 0 { Durability::EverySync } else { Durability::EveryOperation };
    let config = RawConfig { write_pages: Some(write_pages), durability, ..RawConfig::new(record(6, 12)) };
    let index: Box<dyn OrderedIndex> = Box::new(MuTree::format(keys, &config).unwrap());
    ValueLog::new(index, log, MAX_VALUE).unwrap()
}

type Model = BTreeMap<[u8; 4], Vec<u8>>;

/// Puts a value; whether it was taken.
fn put(values: &mut Values, model: &mut Model, key: u32, bytes: usize) -> bool {
    let value = vec![key as u8; bytes];
    match values.put(&key.to_be_bytes(), &value) {
        Ok(()) => {
            model.insert(key.to_be_bytes(), value);
            true
        }
        Err(IndexError::Full(_)) => false,
        Err(error) => panic!("{key}: {error}"),
    }
}

fn assert_holds(values: &mut Values, model: &Model) {
    for (key, value) in model {
        assert!(values.get(key).unwrap().as_ref() == Some(value), "{key:?}");
    }
    assert_eq!(values.check().unwrap().records, model.len() as u64);
}

/// Six lives of a full chip, two in the gate; how many puts were refused once it was.
fn lives(name: &str, open: fn([Half; 2]) -> Values) -> u32 {
    let mut refused = 0;
    let step = stride(3) as u64;
    for (number, log_blocks) in [12, 24, 30].into_iter().enumerate() {
        for pattern in (number as u64 % step..6).step_by(step as usize) {
            let (mut values, mut model) = (open(halves(log_blocks)), Model::new());
            let mut rng = Rng::new(pattern);
            let what = format!("{name}, {log_blocks} blocks of values, pattern {pattern}");
            // Short values, or long ones, or both, until nothing is taken.
            let (mut vain, mut key) = (0, 0u32);
            while vain < 8 {
                let bytes = [5, 600, [4, 900][rng.below(2) as usize]][pattern as usize % 3];
                vain = if put(&mut values, &mut model, key.wrapping_mul(0x9e37_79b9), bytes) {
                    0
                } else {
                    vain + 1
                };
                key += 1;
            }
            values.sync().unwrap_or_else(|error| panic!("{what}: the first sync: {error}"));
            // Then others: long ones, updates, removals, with a sync after some.
            for step in 0..300u32 {
                let at = rng.below(u64::from(key) + 20) as u32;
                let name = at.wrapping_mul(0x9e37_79b9);
                match (rng.below(8), pattern < 3) {
                    (0, _) | (1, false) => {
                        let removed = values.remove(&name.to_be_bytes());
                        let removed = removed.unwrap_or_else(|error| panic!("{what}: a removal: {error}"));
                        assert_eq!(removed, model.remove(&name.to_be_bytes()).is_some(), "{what}");
                    }
                    (2, _) => refused += u32::from(!put(&mut values, &mut model, name, 3)),
                    (bytes, _) => {
                        let bytes = 40 + 200 * bytes as usize;
                        refused += u32::from(!put(&mut values, &mut model, name, bytes));
                    }
                }
                if step % [1, 3, 17][rng.below(3) as usize] == 0 {
                    values.sync().unwrap_or_else(|error| panic!("{what}: a sync at {step}: {error}"));
                }
            }
            values.close().unwrap_or_else(|error| panic!("{what}: close: {error}"));
            assert_holds(&mut values, &model);
        }
    }
    refused
}

#[test]
fn what_is_acknowledged_on_a_full_chip_is_synced() {
    let refused = [
        lives("plow, every sync", |halves| plow(halves, Durability::EverySync)),
        lives("plow, every operation", |halves| plow(halves, Durability::EveryOperation)),
        lives("mu, every sync", |halves| mu(halves, 3)),
        lives("mu, every operation", |halves| mu(halves, 0)),
    ];
    assert!(refused.iter().all(|&refused| refused > sized(60, 200)), "{refused:?} were refused");
}

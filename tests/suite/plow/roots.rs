//! Chips of so many blocks that a root may be longer than a page: they are full before, and what was
//! acknowledged until then is synced, closed and mounted.

use nandex::nand::catalogue::mlc_64m;
use nandex::nand::sim::SimChip;
use nandex::ordered::RecordFormat;
use nandex::rng::Rng;
use nandex::{Durability, Geometry, IndexError, Limit, OrderedIndex, Plow, PlowConfig};
use std::collections::BTreeSet;

const LIVES: u64 = 16;
const INSERTIONS: u64 = 4_000;

fn key(number: u64, bytes: u8) -> Vec<u8> {
    let mut key = number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes().to_vec();
    key.resize(bytes.into(), 3);
    key
}

/// Fills a chip, removes most records, closes and mounts; the limit that the last refusal named.
fn live(seed: u64) -> Option<Limit> {
    let mut rng = Rng::new(seed);
    let (page_bytes, record) = [
        (256, RecordFormat::new(4, 4)),
        (256, RecordFormat::new(8, 8)),
        (512, RecordFormat::new(8, 24)),
        (512, RecordFormat::new(16, 60)),
    ][rng.below(4) as usize];
    let blocks = 200 + rng.below(500) as u32;
    let mut part = mlc_64m();
    part.geometry = Geometry::new(page_bytes, 16, 2, blocks);
    let durability = [Durability::EverySync, Durability::EveryOperation][rng.below(2) as usize];
    let ram_bytes = Some((36 << 10) + rng.below(16 << 10) as usize);
    let config = PlowConfig { ram_bytes, durability, ..PlowConfig::new(record) };
    let name = format!("seed {seed}: {:?}, {config:?}", part.geometry);
    let mut index = Plow::format(super::any(SimChip::new(&part).unwrap()), &config).unwrap();
    let value = vec![7; record.value_bytes.into()];
    let (mut there, mut refused, mut met) = (BTreeSet::new(), 0, None);
    for number in 0..INSERTIONS {
        match index.insert(&key(number, record.key_bytes), &value) {
            Ok(_) => drop(there.insert(number)),
            Err(IndexError::Full(limit)) => (refused, met) = (refused + 1, Some(limit)),
            Err(error) => panic!("{name}: {error}"),
        }
        if number % 97 == 0 {
            index.sync().unwrap_or_else(|error| panic!("{name}, a sync at {number}: {error}"));
        }
        if refused > 20 {
            break;
        }
    }
    for number in (0..INSERTIONS).filter(|number| number % 3 > 0) {
        let removed = index.remove(&key(number, record.key_bytes));
        let removed = removed.unwrap_or_else(|error| panic!("{name}, removal {number}: {error}"));
        assert_eq!(removed, there.remove(&number), "{name}");
    }
    index.close().unwrap_or_else(|error| panic!("{name}, the close: {error}"));
    let mut index = Plow::mount(index.into_nand(), &config).unwrap();
    let mut found = value.clone();
    for number in 0..INSERTIONS {
        let is_there = index.get(&key(number, record.key_bytes), &mut found).unwrap();
        assert_eq!(is_there, there.contains(&number), "{name}: {number}");
    }
    assert!(index.check().unwrap().is_sound(), "{name}");
    met
}

#[test]
fn a_chip_whose_root_outgrows_a_page_is_full_before() {
    let met: Vec<_> = (0..LIVES).filter_map(live).collect();
    assert!(met.len() > LIVES as usize / 2, "{} of {LIVES} chips were full", met.len());
    assert!(met.iter().all(|&limit| limit == Limit::Root), "{met:?}");
}

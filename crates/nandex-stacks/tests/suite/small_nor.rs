//! The least erase units that an index can start and live with: small stores in the flash of a
//! microcontroller.

#![allow(clippy::unwrap_used)]

use nandex::{Nand, RecordFormat};
use nandex_embedded::ram::RamFlash;
use nandex_embedded::{NorChip, Shape};
use nandex_stacks::options::Settings;
use nandex_stacks::registry::{self, IndexEntry};

/// Keys that are given a new value again and again.
const KEYS: u64 = 20;
const ROUNDS: u64 = 60;

/// The least units of 4 KiB with pages of 448 + 64 and of 240 + 16 bytes, records of 8 + 8 (docs/porting.md).
const LEAST: [(&str, [usize; 2]); 9] = [
    ("furrow", [2, 2]),
    ("vmtree-ow", [4, 4]),
    ("sbits", [4, 4]),
    ("plow", [8, 8]),
    ("mu", [8, 8]),
    ("mu-star", [8, 8]),
    ("wandering", [8, 8]),
    ("vmtree", [10, 10]),
    ("bplus", [10, 10]),
];

/// Formats an index on so many units, updates its keys and mounts it. A word about what refused it.
fn lives(entry: &IndexEntry, units: usize, shape: Shape) -> Result<(), String> {
    let shape = shape.with_overwrites(entry.name == "vmtree-ow");
    let flash = RamFlash::<4, 4096>::new(units << 12);
    let flash = if shape.overwrites { flash.overwriting() } else { flash };
    NorChip::new(flash.clone(), shape).map_err(|error| error.to_string())?;
    let chip = || -> Box<dyn Nand> { Box::new(NorChip::new(flash.clone(), shape).unwrap()) };
    let settings = Settings::new(RecordFormat::new(8, 8));
    let mut tree = (entry.format)(chip(), &settings).map_err(|error| error.to_string())?;
    // Keys that only ascend fill a chip, and the oldest of them leave it.
    let key = |round: u64, key: u64| if entry.takes_any_key() { key } else { round * KEYS + key };
    for (round, number) in (0..ROUNDS).flat_map(|round| (0..KEYS).map(move |number| (round, number))) {
        match tree.put(&key(round, number).to_be_bytes(), &round.to_be_bytes()) {
            Err(error) if !entry.takes_any_key() && error.is_full() => break,
            put => put.map_err(|error| error.to_string())?,
        }
    }
    tree.close().map_err(|error| error.to_string())?;
    drop(tree);
    let mut tree = (entry.mount)(chip(), &settings).map_err(|error| error.to_string())?;
    for number in (0..KEYS).filter(|_| entry.takes_any_key()) {
        let mut value = [0; 8];
        assert!(tree.get(&number.to_be_bytes(), &mut value).unwrap(), "{}: {number}", entry.name);
        assert_eq!(value, (ROUNDS - 1).to_be_bytes());
    }
    Ok(())
}

#[test]
fn each_index_lives_on_the_fewest_erase_units_that_are_told_of_it() {
    for (name, least) in LEAST {
        let entry = registry::index(name).unwrap();
        for (shape, least) in [Shape::new(448, 64), Shape::new(240, 16)].into_iter().zip(least) {
            let lived = (least..least + 3).map(|units| lives(entry, units, shape));
            lived.for_each(|lived| assert_eq!(lived, Ok(()), "{name}, {shape:?}"));
            assert!(lives(entry, least - 1, shape).is_err(), "{name} lives on fewer: tell it");
        }
    }
}

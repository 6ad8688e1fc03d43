//! Wear: cold records beside one key that is written over and over. The most worn block is not far above the
//! mean.
#![allow(clippy::unwrap_used)]

use nandex::nand::catalogue::mlc_with;
use nandex::nand::sim::SimChip;
use nandex::rng::split_mix;
use nandex::{Durability, RecordFormat, Shared};
use nandex_stacks::options::Settings;
use nandex_stacks::registry::{INDEXES, IndexEntry};

/// Indexes with blocks of their own that are to wear alike, and whose blocks do.
const LEVEL: [&str; 5] = ["mu", "mu-star", "wandering", "vmtree", "plow"];
const COLD: u64 = 1_500;
const PAGE_BYTES: u32 = 512;
const PAGES_PER_BLOCK: u32 = 16;
const BLOCKS: u32 = 40;
/// Erases of a block in the mean at the end.
const ERASES: u32 = 60;

/// Erases of the most worn block, over the mean, and all erases. `None` if the chip is refused.
fn wear(entry: &IndexEntry, wear: &str, class: Durability) -> Option<(f64, u64)> {
    let part = entry.suited(mlc_with(PAGE_BYTES, PAGES_PER_BLOCK, BLOCKS));
    let chip = Shared::new(SimChip::new(&part).ok()?);
    let settings = Settings { durability: class, ..Settings::new(RecordFormat::new(8, 8)) };
    let settings = if entry.name == "plow" { settings } else { settings.with("wear", wear) };
    let mut index = (entry.format)(Box::new(chip.clone()), &settings).ok()?;
    for number in 0..COLD {
        index.insert(&split_mix(number).to_be_bytes(), &[0; 8]).unwrap();
    }
    let erases = || chip.lock().counters().block_erases_total();
    let mut number = 0u64;
    while erases() < u64::from(ERASES * BLOCKS) {
        index.insert(&split_mix(0).to_be_bytes(), &number.to_be_bytes()).unwrap();
        number += 1;
        if number.is_multiple_of(10) {
            index.sync().unwrap();
        }
    }
    let most = chip.lock().wear().iter().copied().max().unwrap();
    Some((f64::from(most) * f64::from(BLOCKS) / erases() as f64, number))
}

#[test]
fn blocks_of_cold_records_wear_as_well() {
    for name in LEVEL {
        let entry = INDEXES.iter().find(|entry| entry.name == name).unwrap();
        let classes = [Durability::EveryOperation, Durability::EverySync];
        let (ratio, levelled) = classes.into_iter().find_map(|class| wear(entry, "level", class)).unwrap();
        let (off, unlevelled) = classes.into_iter().find_map(|class| wear(entry, "off", class)).unwrap();
        println!(
            "{name}: {ratio:.2} ({off:.2} off), {levelled} updates for so many erases ({unlevelled} off)"
        );
        assert!(ratio <= 1.5, "{name}: the most worn block is erased {ratio:.2} times as often as the mean");
        assert!(levelled * 100 >= unlevelled * 95, "{name}: {levelled} updates, {unlevelled} without");
    }
}

//! Pages of which the data area is no power of two, as `NorChip` cuts them: every index, mounted again.

#![allow(clippy::unwrap_used)]

use nandex::nand::catalogue::nor_2m;
use nandex::nand::sim::SimChip;
use nandex::{Geometry, IndexError, Nand, RecordFormat, Shared};
use nandex_stacks::options::Settings;
use nandex_stacks::registry::{INDEXES, IndexEntry};

const RECORDS: u64 = 300;

/// Pages that serve NOR, and others like them that are a power of two.
const PAGES: [[(u32, u32); 2]; 2] = [[(448, 64), (512, 64)], [(240, 16), (256, 16)]];

/// Puts records until they are enough or nothing more fits, mounts and looks for all of them; returns their
/// number. The error is a refusal of the chip.
fn lives(entry: &IndexEntry, (page, spare): (u32, u32)) -> Result<u64, IndexError> {
    let mut part = nor_2m();
    part.geometry = Geometry::new(page, spare, 16, 96);
    let part = entry.suited(part);
    let settings = Settings::new(RecordFormat::new(8, 8));
    let sim = Shared::new(SimChip::new(&part).unwrap());
    let chip = || -> Box<dyn Nand> { Box::new(sim.clone()) };
    let mut tree = (entry.format)(chip(), &settings)?;
    let key = |number: u64| if entry.takes_any_key() { number * 211 % RECORDS } else { number };
    let mut records = 0;
    while records < RECORDS {
        match tree.put(&key(records).to_be_bytes(), &(records * 3).to_be_bytes()) {
            Err(error) if error.is_full() => break,
            put => put.unwrap(),
        }
        records += 1;
    }
    tree.close().unwrap();
    drop(tree);
    let mut tree = (entry.mount)(chip(), &settings).unwrap();
    for number in 0..records {
        let mut value = [0; 8];
        assert!(
            tree.get(&key(number).to_be_bytes(), &mut value).unwrap(),
            "{}, {page}: {number}",
            entry.name
        );
        assert_eq!(value, (number * 3).to_be_bytes());
    }
    assert!(tree.check().unwrap().is_sound(), "{}, {page}", entry.name);
    Ok(records)
}

#[test]
fn every_index_lives_on_pages_that_are_no_power_of_two() {
    for entry in INDEXES {
        for [odd, even] in PAGES {
            let (lived, otherwise) = (lives(entry, odd), lives(entry, even));
            assert_eq!(lived.is_ok(), otherwise.is_ok(), "{}, {odd:?}: {lived:?}, {otherwise:?}", entry.name);
            // The height of trees in pages of 240 bytes ends soon.
            let least = if odd.0 < 448 { 20 } else { RECORDS };
            assert!(lived.is_ok_and(|records| records >= least), "{}, {odd:?}", entry.name);
        }
    }
}

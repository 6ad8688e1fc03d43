//! Chips formatted with less RAM than a format requires today: an FTL beneath a tree needs more RAM during a
//! mount than later, which older releases did not count at format. Such a chip must mount with its old RAM
//! and take writes.
#![allow(clippy::unwrap_used)]

use nandex::log::tag::spare_bytes_needed;
use nandex::nand::catalogue::mlc_with;
use nandex::nand::sim::SimChip;
use nandex::ordered::{RawConfig, RecordFormat};
use nandex::store::store_nand::StoreNand;
use nandex::{Geometry, IndexError, MuTree, OrderedIndex, PageStore, Shared};
use nandex_stacks::options::Settings;
use nandex_stacks::registry::{INDEXES, STORES, StoreEntry};

const RECORD: RecordFormat = RecordFormat::new(8, 8);
const RECORDS: u64 = 60;
/// Most bytes that a stack takes beyond its parts.
const OWN_BYTES: usize = 64;

fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn put(tree: &mut dyn OrderedIndex, numbers: std::ops::Range<u64>) {
    numbers.for_each(|number| tree.put(&key(number), &number.to_le_bytes()).unwrap());
}

fn assert_holds(tree: &mut dyn OrderedIndex, records: u64, what: &str) {
    for number in 0..records {
        let mut value = [0; 8];
        assert!(tree.get(&key(number), &mut value).unwrap(), "{what}: {number} is gone");
        assert_eq!(value, number.to_le_bytes(), "{what}");
    }
    let report = tree.check().unwrap();
    assert!(report.is_sound() && report.records == records, "{what}: {report:?}");
}

/// Formats a tree on an FTL with so little RAM that the FTL's mount needs a byte more, and returns it with
/// that RAM; `None` if the tree needs more than the mount. Older releases did not check the RAM of a mount at
/// format.
fn formatted_before(ftl: &StoreEntry, geometry: Geometry, closes: bool) -> Option<(Vec<u8>, usize)> {
    let mut part = mlc_with(geometry.page_bytes, geometry.pages_per_block, geometry.blocks);
    part.geometry = geometry;
    let chip = Shared::new(SimChip::new(&part).ok()?);
    let store = (ftl.format)(Box::new(chip.clone()), &Settings::new(RECORD)).ok()?;
    let mount = store.mount_ram_bytes();
    let spare = (spare_bytes_needed(geometry.pages_per_block) + 1).next_multiple_of(64) - 1;
    let shown = Shared::new(StoreNand::new(store, geometry.pages_per_block, spare as u32).ok()?);
    let left = (mount - 1).checked_sub(shown.lock().ram_bytes() + OWN_BYTES)?;
    let config = RawConfig { ram_bytes: Some(left), ..RawConfig::new(RECORD) };
    let mut tree = MuTree::format(shown.clone(), &config).ok()?;
    put(&mut tree, 0..RECORDS);
    if closes {
        tree.close().unwrap();
        shown.lock().store_mut().checkpoint().unwrap();
    }
    let image = chip.lock().to_image();
    Some((image, mount - 1))
}

#[test]
fn a_chip_formatted_with_less_ram_mounts_and_is_written_to() {
    let mu = INDEXES.iter().find(|entry| entry.name == "mu").unwrap();
    let mut judged = Vec::new();
    for ftl in STORES {
        for (page_bytes, pages_per_block, blocks) in [(512, 32, 256), (2048, 64, 128), (512, 16, 2048)] {
            for closes in [false, true] {
                let geometry = Geometry::new(page_bytes, 64, pages_per_block, blocks);
                let Some((image, ram)) = formatted_before(ftl, geometry, closes) else { continue };
                let what = format!("{} on {geometry:?}, {ram} bytes, closed: {closes}", ftl.name);
                let settings =
                    Settings { ram_bytes: Some(ram), ..Settings::new(RECORD) }.with("beneath", ftl.name);
                let chip = Shared::new(SimChip::from_image(&image).unwrap());
                let blank = SimChip::new(chip.lock().part()).unwrap();
                let refused = (mu.format)(Box::new(blank), &settings).err();
                assert!(
                    matches!(refused, Some(IndexError::TooLittleRam { needed, .. }) if needed == ram + 1),
                    "{what}: a format says {refused:?}"
                );
                let mounted = || {
                    let tree = (mu.mount)(Box::new(chip.clone()), &settings);
                    tree.unwrap_or_else(|error| panic!("{what}: {error}"))
                };
                let mut tree = mounted();
                assert_holds(&mut *tree, RECORDS, &what);
                put(&mut *tree, RECORDS..RECORDS + 20);
                tree.close().unwrap();
                drop(tree);
                assert_holds(&mut *mounted(), RECORDS + 20, &what);
                judged.push(ftl.name);
            }
        }
    }
    assert!(judged.len() >= 4, "the mounts of {judged:?} alone take more than what a tree needs");
}

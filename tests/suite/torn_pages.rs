//! A chip of logical pages on a device that leaves half a page when the power is cut: what was acknowledged
//! is there after the mount.

#![allow(clippy::unwrap_used)]

use nandex::ftl::page_map::{FtlConfig, PageMapFtl};
use nandex::ordered::bplus::{BPlusConfig, BPlusTree};
use nandex::ordered::mu::MuTree;
use nandex::ordered::{OrderedIndex, RawConfig, RecordFormat};
use nandex::store::store_nand::StoreNand;
use nandex::testing::{Change, SINGLE, Store};
use nandex::{IndexError, Nand};

const PAGE: usize = 1024;
const PAGES: u32 = 24 * 16;
const SECTOR: usize = 512;

type Opening = fn(Box<dyn Nand>, bool) -> Result<Box<dyn OrderedIndex>, IndexError>;

fn mu(chip: Box<dyn Nand>, is_new: bool) -> Result<Box<dyn OrderedIndex>, IndexError> {
    let config = RawConfig::new(RecordFormat::new(8, 8));
    Ok(match is_new {
        true => Box::new(MuTree::format(chip, &config)?),
        false => Box::new(MuTree::mount(chip, &config)?),
    })
}

fn bplus(chip: Box<dyn Nand>, is_new: bool) -> Result<Box<dyn OrderedIndex>, IndexError> {
    let config = BPlusConfig::new(RecordFormat::new(8, 8));
    let ftl = FtlConfig::default();
    Ok(match is_new {
        true => Box::new(BPlusTree::format(PageMapFtl::format(chip, &ftl)?, &config)?),
        false => Box::new(BPlusTree::mount(PageMapFtl::mount(chip, &ftl)?, &config)?),
    })
}

fn chip(disk: Store, tears: bool) -> Box<dyn Nand> {
    let chip = StoreNand::new(disk, 16, 63).unwrap();
    Box::new(if tears { chip.tearing() } else { chip })
}

/// Cuts each write of 120 changes after its first sector; how many of the mounts were refused.
fn cut_everywhere(open: Opening, tears: bool) -> u32 {
    let disk = Store::new(PAGE, PAGES).with_promise(SINGLE);
    disk.note_changes();
    let mut index = open(chip(disk.handle(), tears), true).unwrap();
    let formatted = disk.change_count();
    // Changes of the disk at the time of each acknowledgement.
    let mut acknowledged = Vec::new();
    for change in 0..120u64 {
        index.insert(&(change * 37 % 101).to_be_bytes(), &change.to_be_bytes()).unwrap();
        acknowledged.push(disk.change_count());
    }
    drop(index);
    let changes = disk.changes();
    let state = Store::new(PAGE, PAGES).with_promise(SINGLE);
    let mut refused = 0;
    for (number, change) in changes.iter().enumerate() {
        // Zeros are written for a trim, as on a device that cannot forget.
        let (lpn, data) = match change {
            Change::Write(pages, _) => pages[0].clone(),
            Change::Trim(lpn) => (*lpn, vec![0; PAGE]),
            Change::Sync => continue,
        };
        if number >= formatted {
            let mut torn = state.page_of(lpn);
            torn[..SECTOR].copy_from_slice(&data[..SECTOR]);
            state.put(lpn, &torn);
            let done = acknowledged.iter().filter(|writes| **writes <= number).count() as u64;
            match open(chip(state.copy(), tears), false) {
                Ok(mut index) => {
                    let mut value = [0; 8];
                    for change in done.saturating_sub(101)..done {
                        let there = index.get(&(change * 37 % 101).to_be_bytes(), &mut value).unwrap();
                        assert!(
                            there && u64::from_be_bytes(value) >= change,
                            "write {number}, change {change}"
                        );
                    }
                    assert!(index.check().unwrap().is_sound(), "write {number}");
                }
                Err(error) => {
                    assert!(!tears, "write {number}: {error}");
                    refused += 1;
                }
            }
        }
        state.put(lpn, &data);
    }
    assert!(changes.len() - formatted > 120);
    refused
}

#[test]
fn torn_pages_lose_nothing_that_was_acknowledged() {
    for open in [mu as Opening, bplus] {
        assert_eq!(cut_everywhere(open, true), 0);
    }
}

/// A store that says it never tears a page, and does: the page counts as damaged, and nothing is passed over
/// in silence.
#[test]
fn a_torn_page_of_a_store_that_tears_none_is_damage() {
    assert!(cut_everywhere(mu, false) > 0);
}

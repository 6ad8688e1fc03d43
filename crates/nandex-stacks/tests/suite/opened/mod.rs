//! Entries of the lists, opened: with the options, the RAM and the stores that are asked for.

#![allow(clippy::unwrap_used)]

mod beneath;
mod returned;
mod settings;
mod tbm;
mod unclosed;

use nandex::nand::sim::SimChip;
use nandex::nand::{Part, catalogue};
use nandex::ordered::{Durability, RecordFormat};
use nandex::{Geometry, IndexError, Nand};
use nandex_stacks::fit::SMALLER_FTLS;
use nandex_stacks::forest::TreeShare;
use nandex_stacks::needed::ram_needed;
use nandex_stacks::options::Settings;
use nandex_stacks::registry::{INDEXES, STORES, index, store, wpcb_table_bytes};

/// A chip with pages and blocks of these sizes.
fn part(page_bytes: u32, pages_per_block: u32, blocks: u32) -> Part {
    let mut part = catalogue::mlc_64m();
    part.geometry = Geometry::new(page_bytes, 64, pages_per_block, blocks);
    part
}

#[test]
fn stores_are_what_their_entries_say() {
    let part = part(2048, 64, 64);
    for entry in STORES {
        let chip = Box::new(SimChip::new(&part).unwrap());
        let store = (entry.format)(chip, &Settings::new(RecordFormat::new(4, 4))).unwrap();
        assert_eq!(store.atomic_pages_max() > 1, entry.is_atomic, "{}", entry.name);
        assert!(store.durable_writes() && store.prefix_consistent(), "{}", entry.name);
        let mapping = store.stats().mapping_bytes as usize;
        assert!(mapping > 0 && mapping <= store.ram_bytes(), "{}: {mapping}", entry.name);
    }
}

#[test]
fn the_smallest_ram_opens_and_less_is_refused() {
    let mut part = catalogue::mlc_64m();
    part.geometry = Geometry::new(2048, 64, 64, 96);
    for durability in [Durability::EveryOperation, Durability::EverySync] {
        let settings = Settings { durability, ..Settings::new(RecordFormat::new(8, 8)) };
        for index in INDEXES {
            let part = index.suited(part.clone());
            let needed = match ram_needed(index, &part, &settings) {
                Ok(needed) => needed,
                Err(error) => panic!("{}: {error}", index.name),
            };
            let open = |ram| {
                let given = Settings { ram_bytes: Some(ram), ..settings.clone() };
                (index.format)(Box::new(SimChip::new(&part).unwrap()), &given).err()
            };
            assert!(open(needed).is_none(), "{} with {needed}", index.name);
            for ram in [0, needed / 2, needed - 64] {
                let named = match open(ram) {
                    Some(IndexError::TooLittleRam { needed, given, .. }) => (needed, given),
                    other => panic!("{} with {ram} of {needed}: {other:?}", index.name),
                };
                // A refusal may name less: what a pool and its journal share is known once there is more.
                assert!(named.0 <= needed && named.1 == ram, "{} needs {needed}: {named:?}", index.name);
            }
        }
    }
}

#[test]
fn an_ftl_is_chosen_only_where_there_is_a_choice() {
    let settings = Settings::new(RecordFormat::new(4, 4));
    let given = Settings { ram_bytes: Some(1 << 15), ..settings.clone() };
    let tried = |name: &str, settings: &Settings| index(name).unwrap().fitting(settings).count();
    assert_eq!((tried("bplus", &given), tried("mu", &given)), (4, 1));
    assert_eq!((tried("bplus", &settings), tried("bplus", &given.with("ftl", "fast"))), (1, 1));
    assert!(SMALLER_FTLS.iter().all(|name| store(name).is_ok()));
}

#[test]
fn trees_of_a_forest_share_the_ram_by_their_records() {
    let chip = || Box::new(SimChip::new(&part(2048, 64, 64)).unwrap());
    let settings = Settings { ram_bytes: Some(150_000), ..Settings::new(RecordFormat::new(8, 8)) };
    let shares = [(3, 1000), (4, 3000), (9, 1)].map(|(tree, records)| TreeShare { tree, records });
    let forest = index("lazy-update").unwrap().forest.unwrap();
    let trees = forest(chip(), &settings, &shares).unwrap();
    let pools: Vec<u64> = trees
        .iter()
        .map(|(_, tree)| tree.stats().metrics.iter().find(|m| m.name == "pool_requests_max").unwrap().value)
        .collect();
    assert!(pools[1] > 2 * pools[0] && pools[0] > 20 && pools[2] == 1, "{pools:?}");
    let ram: usize = trees.iter().map(|(_, tree)| tree.ram_bytes()).sum();
    // What mounts after a cut take of it is free now.
    assert!(ram <= 150_000 && ram > 90_000, "{ram}");
}

#[test]
fn options_of_another_ftl_are_refused() {
    // FAST takes one page atomically, so a tree on it promises nothing.
    let plain = Settings { durability: Durability::None, ..Settings::new(RecordFormat::new(8, 8)) };
    let open = |ftl: &str| {
        let settings = plain.clone().with("ftl", ftl).with("log_blocks", 4);
        let chip = Box::new(SimChip::new(&part(2048, 64, 64)).unwrap());
        (index("bplus").unwrap().format)(chip, &settings).map(drop)
    };
    open("fast").unwrap();
    let error = open("page-map").unwrap_err().to_string();
    assert!(error.contains("not for page-map"), "{error}");
}

#[test]
fn what_ftl_and_buffer_leave_of_the_ram_is_a_cache() {
    let chip = || -> Box<dyn Nand> { Box::new(SimChip::new(&part(2048, 64, 64)).unwrap()) };
    let settings = Settings::new(RecordFormat::new(8, 8));
    let wpcb = index("wpcb").unwrap();
    let tables = wpcb_table_bytes(chip(), &settings).unwrap();
    let ram = |bytes| Settings { ram_bytes: Some(bytes), ..settings.clone() };
    assert!((wpcb.format)(chip(), &ram(tables - 1)).is_err());
    let mut bare = (wpcb.format)(chip(), &ram(tables)).unwrap();
    let mut cached = (wpcb.format)(chip(), &ram(tables + 20 * 2200)).unwrap();
    for tree in [&mut bare, &mut cached] {
        for key in 0..3000u64 {
            tree.insert(&(key * 7919 % 3001).to_be_bytes(), &[0; 8]).unwrap();
        }
    }
    assert_eq!(bare.stats().cache_hits, 0);
    assert!(cached.stats().cache_hits > 3000 && cached.ram_bytes() > bare.ram_bytes() + 20 * 2048);
}

//! Power cuts in every mode: acknowledged transactions are there, and one in flight is whole or absent. Each
//! mode runs with the linked SQLite and with the system's.
#![allow(clippy::unwrap_used, clippy::print_stdout)]
#![cfg(feature = "bundled")]

use crate::client::each;
use crate::common::{Mode, page_map, record};
use crate::sizes::sized;
use nandex::ftl::mapping::Scheme;
use nandex::nand::sim::SimChip;
use nandex::{PageStore, Shared, StoreError};
use nandex_papers::ftl::fast::FastFtl;
use nandex_sqlite::{Commits, Journals, VolumeConfig};

const EXCLUSIVE: &str = "PRAGMA locking_mode=EXCLUSIVE";
/// A cache so small that a transaction of some rows is written before it is committed.
const SPILL: &str = "PRAGMA cache_size=10";

/// Cuts the power so often, or as many times more often as `NANDEX_CUTS` says, and wants all of it right. The
/// gate cuts a third as often.
fn prove(mode: &Mode, cuts: u64) {
    let times = std::env::var("NANDEX_CUTS").ok().map(|times| times.parse::<u64>().unwrap());
    let cuts = times.map_or(sized(cuts / 3, cuts), |times| cuts * times);
    each(|client| {
        let run = record(client, mode);
        let outcome = run.cut(cuts);
        let ((operations, erases), wrong) = (run.operations(), outcome.wrong.len());
        let (name, whole, sqlite) = (mode.name, outcome.whole, client.0);
        println!(
            "{name}, {sqlite}: {operations} operations, {erases} erases, {cuts} cuts, {whole} whole, {wrong} wrong"
        );
        assert!(wrong == 0, "{sqlite}, {wrong} of {cuts}:\n{}", outcome.wrong.join("\n"));
    });
}

/// A volume that does not offer batches to SQLite, as if SQLite was built without them.
fn stock() -> VolumeConfig {
    VolumeConfig { batch_atomic: false, ..VolumeConfig::default() }
}

fn unsafe_settings() -> VolumeConfig {
    VolumeConfig { commits: Commits::PageByPage, ..stock() }
}

/// An FTL that writes one page atomically and no more.
fn fast(chip: Shared<SimChip>, is_new: bool) -> Result<Box<dyn PageStore>, StoreError> {
    let settings = <nandex_papers::ftl::fast::Fast as Scheme>::Config::default();
    Ok(Box::new(match is_new {
        true => FastFtl::format(chip, &settings)?,
        false => FastFtl::mount(chip, &settings)?,
    }))
}

#[test]
fn batches() {
    prove(&Mode::new("batch"), 200);
}

#[test]
fn batches_in_an_exclusive_connection_from_the_first_transaction_on() {
    prove(&Mode { before: EXCLUSIVE, ..Mode::new("batch-exclusive") }, 150);
}

#[test]
fn batches_of_many_rows() {
    prove(&Mode { rows: 100, transactions: 40, ..Mode::new("batch-100") }, 150);
}

#[test]
fn batches_that_spill() {
    let mode = Mode { rows: 60, transactions: 60, before: SPILL, ..Mode::new("batch-spill") };
    prove(&mode, 150);
}

/// Pages of SQLite of two pages of the chip each: a half that did not change is left out.
#[test]
fn larger_pages_than_the_chip() {
    let wide = Mode { before: "PRAGMA page_size=4096", rows: 2, transactions: 400, ..Mode::new("wide") };
    prove(&wide, 100);
    prove(&Mode { store: page_map::<4>, name: "wide-large", ..wide }, 50);
}

#[test]
fn a_sqlite_without_batches() {
    prove(&Mode { volume: stock(), ..Mode::new("stock-delete") }, 100);
    prove(&Mode { volume: stock(), before: "PRAGMA journal_mode=MEMORY", ..Mode::new("stock-memory") }, 100);
    let off = "PRAGMA journal_mode=OFF; PRAGMA locking_mode=EXCLUSIVE";
    prove(&Mode { volume: stock(), before: off, ..Mode::new("stock-off") }, 100);
}

#[test]
fn other_journals() {
    prove(&Mode { volume: stock(), before: "PRAGMA journal_mode=TRUNCATE", ..Mode::new("truncate") }, 50);
    let persist = "PRAGMA journal_mode=PERSIST; PRAGMA locking_mode=EXCLUSIVE";
    prove(&Mode { volume: stock(), before: persist, ..Mode::new("persist") }, 50);
    let wal = "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=50";
    prove(&Mode { before: wal, ..Mode::new("wal") }, 100);
    prove(&Mode { before: wal, store: page_map::<4>, ..Mode::new("wal-large") }, 50);
    for (name, synchronous) in [("wal-normal", "NORMAL"), ("wal-off", "OFF")] {
        let before = wal.replace("FULL", synchronous) + "; PRAGMA cache_size=10";
        let mode = Mode { before: before.leak(), rows: 30, transactions: 100, ..Mode::new(name) };
        prove(&mode, 50);
        let volume = VolumeConfig { ram_bytes: 0, ..VolumeConfig::default() };
        prove(&Mode { store: page_map::<16>, volume, blocks: 20, ..mode }, 50);
    }
    prove(&Mode { before: "PRAGMA synchronous=OFF", ..Mode::new("synchronous-off") }, 50);
}

#[test]
fn a_stock_sqlite_that_spills() {
    let volume = VolumeConfig { ram_bytes: 0, ..stock() };
    let mode = Mode { volume, rows: 60, transactions: 60, before: SPILL, ..Mode::new("stock-spill") };
    prove(&mode, 100);
}

#[test]
fn commits_larger_than_a_group() {
    let mode = Mode { store: page_map::<4>, ..Mode::new("large") };
    prove(&mode, 150);
    // Nor do they fit the RAM.
    let volume = VolumeConfig { ram_bytes: 0, ..VolumeConfig::default() };
    let mode =
        Mode { rows: 60, transactions: 60, before: SPILL, volume, ..Mode { name: "large-spill", ..mode } };
    prove(&mode, 150);
}

#[test]
fn a_store_without_groups() {
    prove(&Mode { store: fast, transactions: 200, blocks: 24, ..Mode::new("no-groups") }, 100);
}

#[test]
fn databases_that_shrink() {
    let mode = Mode { vacuum_each: 10, rows: 5, transactions: 150, ..Mode::new("vacuum") };
    prove(&mode, 100);
    let auto =
        Mode { before: "PRAGMA auto_vacuum=FULL", rows: 5, transactions: 150, ..Mode::new("auto-vacuum") };
    prove(&auto, 50);
}

#[test]
fn a_transaction_over_two_databases() {
    prove(&Mode { second: true, transactions: 300, ..Mode::new("two") }, 100);
}

#[test]
fn journals_on_the_flash() {
    let volume = VolumeConfig { journals: Journals::Flash, ..stock() };
    prove(&Mode { volume, transactions: 200, ..Mode::new("flash-journal") }, 50);
    let volume = VolumeConfig { journals: Journals::Flash, ..unsafe_settings() };
    prove(&Mode { volume, transactions: 200, ..Mode::new("page-by-page-journal") }, 50);
}

/// The modes that keep the journal in RAM and write page by page break: the test can see it.
#[test]
fn unsafe_modes_break() {
    for (name, before) in
        [("unsafe-memory", "PRAGMA journal_mode=MEMORY"), ("unsafe-off", "PRAGMA journal_mode=OFF")]
    {
        each(|client| {
            let mode = Mode { volume: unsafe_settings(), before, ..Mode::new(name) };
            let outcome = record(client, &mode).cut(120);
            println!("{name}: {} of {} wrong", outcome.wrong.len(), outcome.cuts);
            assert!(
                outcome.wrong.len() >= 20,
                "{name}: only {} of {} wrong",
                outcome.wrong.len(),
                outcome.cuts
            );
        });
    }
}

//! Volumes of earlier releases: each image in `tests/corpus/1/sqlite` is mounted, and its database is read
//! whole, changed, and read again.
//!
//! An image is never recorded again. `NANDEX_RECORD=1 cargo test -p nandex-sqlite --test suite kept::` adds
//! missing ones.
#![allow(clippy::unwrap_used)]
#![cfg(feature = "bundled")]

use nandex::Shared;
use nandex::ftl::page_map::{FtlConfig, PageMapFtl};
use nandex::nand::catalogue;
use nandex::nand::sim::{CutWhen, PowerCut, SimChip, TornModel};
use nandex_sqlite::{Device, Vfs, Volume, VolumeConfig};
use rusqlite::{Connection, params};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// Transactions before the last, which changes all rows.
const SMALL: i64 = 60;
/// Number of transactions.
const ALL: i64 = SMALL + 1;

/// The images of chips: fewest and most transactions that each shows.
const CHIPS: [(&str, (i64, i64)); 3] =
    [("closed", (ALL, ALL)), ("cut", (SMALL, ALL)), ("cut-late", (ALL, ALL))];
/// The file of a device that is named in an URI.
const DEVICE: &str = "device";

type Rows = BTreeMap<i64, Vec<u8>>;

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/1/sqlite").join(format!("{name}.zst"))
}

/// Value of a row after a change. Transaction `n` inserts three rows and removes an earlier one; the last
/// transaction changes all rows.
fn value(id: i64, change: i64) -> Vec<u8> {
    (0..150 + id % 70).map(|place| ((id * 7 + change * 31) * (1 + place / 16)) as u8).collect()
}

fn transaction(rows: &mut Rows, n: i64) {
    if n == SMALL {
        rows.iter_mut().for_each(|(id, bytes)| *bytes = value(*id, n));
        return;
    }
    (3 * n..3 * n + 3).for_each(|id| drop(rows.insert(id, value(id, n))));
    rows.remove(&(2 * n));
}

fn rows_after(transactions: i64) -> Rows {
    let mut rows = Rows::new();
    (0..transactions).for_each(|n| transaction(&mut rows, n));
    rows
}

/// Does transaction `n`: turns the rows before it into those after it.
fn commit(database: &Connection, n: i64) -> rusqlite::Result<()> {
    let (before, after) = (rows_after(n), rows_after(n + 1));
    database.execute_batch("BEGIN IMMEDIATE")?;
    for (id, bytes) in after.iter().filter(|(id, bytes)| before.get(id) != Some(bytes)) {
        database.execute("INSERT OR REPLACE INTO t VALUES(?, ?)", params![id, bytes])?;
    }
    for id in before.keys().filter(|id| !after.contains_key(id)) {
        database.execute("DELETE FROM t WHERE id = ?", [id])?;
    }
    database.execute_batch("COMMIT")
}

fn rows_of(database: &Connection) -> Rows {
    let whole: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(whole, "ok");
    let mut statement = database.prepare("SELECT id, v FROM t").unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let rows: Rows = rows.map(Result::unwrap).collect();
    for (id, bytes) in &rows {
        let found: Vec<u8> = database.query_row("SELECT v FROM t WHERE id = ?", [id], |r| r.get(0)).unwrap();
        assert_eq!(found, *bytes);
    }
    rows
}

/// Groups of few pages, so that the last transaction is a list of pages that is applied after it was
/// written.
fn ftl() -> FtlConfig {
    FtlConfig { atomic_pages: 16, ..FtlConfig::default() }
}

fn on_chip(name: &str, chip: &Shared<SimChip>, is_new: bool) -> Vfs {
    let store = match is_new {
        true => PageMapFtl::format(chip.clone(), &ftl()).unwrap(),
        false => PageMapFtl::mount(chip.clone(), &ftl()).unwrap(),
    };
    Vfs::register(name, Volume::open(store, VolumeConfig::default()).unwrap()).unwrap()
}

/// Fills a new database until the power fails; returns the operations of the chip before the last one.
fn fill(database: &Connection, chip: Option<&Shared<SimChip>>) -> u64 {
    database.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, v BLOB)").unwrap();
    (0..SMALL).for_each(|n| commit(database, n).unwrap());
    let before = chip.map_or(0, |chip| chip.lock().operations());
    let last = commit(database, SMALL);
    assert_eq!(last.is_ok(), chip.is_none_or(|chip| chip.lock().is_powered()));
    before
}

fn recorded_chip(name: &str) -> SimChip {
    let part = catalogue::find("k9f1g08u0f").unwrap().clone().with_blocks(16);
    let chip = Shared::new(SimChip::new(&part).unwrap());
    let vfs = on_chip("kept-recorded", &chip, true);
    let before = fill(&vfs.open("a.db").unwrap(), Some(&chip));
    let after = chip.lock().operations();
    if name == "closed" {
        vfs.checkpoint().unwrap();
        drop(vfs);
        return chip.lock().clone();
    }
    drop(vfs);
    let chip = Shared::new(SimChip::new(&part).unwrap());
    let vfs = on_chip("kept-cut", &chip, true);
    // The list is written first; late in the transaction it is being applied.
    let at_operation = if name == "cut" { before + 1 } else { after - 3 };
    let torn = TornModel::Prefix;
    chip.lock().plan_power_cut(PowerCut { at_operation, when: CutWhen::Inside, torn, seed: 1 });
    fill(&vfs.open("a.db").unwrap(), Some(&chip));
    drop(vfs);
    let mut cut = chip.lock().clone();
    cut.power_on();
    cut
}

fn keep(name: &str, bytes: &[u8]) {
    fs::create_dir_all(path(name).parent().unwrap()).unwrap();
    fs::write(path(name), zstd::encode_all(bytes, 19).unwrap()).unwrap();
}

fn kept(name: &str) -> Vec<u8> {
    zstd::decode_all(&fs::read(path(name)).unwrap()[..]).unwrap()
}

/// Appends 40 rows.
fn add(database: &Connection, rows: &mut Rows) {
    for id in 1_000..1_040 {
        database.execute("INSERT INTO t VALUES(?, ?)", params![id, value(id, 0)]).unwrap();
        rows.insert(id, value(id, 0));
    }
}

#[test]
fn volumes_of_former_releases_mount_and_take_changes() {
    for (name, (least, most)) in CHIPS {
        if std::env::var_os("NANDEX_RECORD").is_some() && !path(name).exists() {
            keep(name, &recorded_chip(name).to_image());
        }
        let chip = Shared::new(SimChip::from_image(&kept(name)).unwrap());
        let vfs = on_chip(&format!("kept-{name}"), &chip, false);
        let database = vfs.open("a.db").unwrap();
        let mut rows = rows_of(&database);
        assert!((least..=most).any(|n| rows == rows_after(n)), "{name}: {} rows", rows.len());
        add(&database, &mut rows);
        drop(database);
        drop(vfs);
        let vfs = on_chip(&format!("kept-{name}-again"), &chip, false);
        assert_eq!(rows_of(&vfs.open("a.db").unwrap()), rows, "{name}");
    }
}

#[test]
fn a_device_of_a_former_release_mounts_and_takes_changes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("chip.img");
    let device = Device { bytes: 2 << 20, sync: false, ..Device::new(file.to_str().unwrap()) };
    let vfs = |name| Vfs::register(name, device.open(VolumeConfig::default()).unwrap()).unwrap();
    if std::env::var_os("NANDEX_RECORD").is_some() && !path(DEVICE).exists() {
        let vfs = vfs("kept-new-device");
        fill(&vfs.open("a.db").unwrap(), None);
        vfs.checkpoint().unwrap();
        drop(vfs);
        keep(DEVICE, &fs::read(&file).unwrap());
    }
    fs::write(&file, kept(DEVICE)).unwrap();
    let first = vfs("kept-device");
    let database = first.open("a.db").unwrap();
    let mut rows = rows_of(&database);
    assert_eq!(rows, rows_after(ALL));
    add(&database, &mut rows);
    drop(database);
    drop(first);
    assert_eq!(rows_of(&vfs("kept-device-again").open("a.db").unwrap()), rows);
}

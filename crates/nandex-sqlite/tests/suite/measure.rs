//! The cost of an insert of random rows in each mode: programs of pages, counted by the chip.
// The demonstration and the test of the figures each take part of it.
#![allow(dead_code)]

use nandex::ftl::page_map::{FtlConfig, PageMapFtl};
use nandex::nand::catalogue;
use nandex::nand::sim::SimChip;
use nandex::rng::Rng;
use nandex::{Nanos, Shared};
use nandex_sqlite::{ChipCounts, Commits, Device, Journals, Vfs, Volume, VolumeConfig, VolumeStats};
use rusqlite::{Connection, params};

/// A way to use SQLite.
#[derive(Clone, Copy)]
pub(crate) struct Way {
    pub(crate) name: &'static str,
    /// Whether a power cut leaves the database whole.
    pub(crate) is_safe: bool,
    before: &'static str,
    after: &'static str,
    commits: Commits,
    journals: Journals,
    batch_atomic: bool,
}

const FLASH: Way = Way {
    name: "",
    is_safe: true,
    before: "",
    after: "",
    commits: Commits::PageByPage,
    journals: Journals::Flash,
    batch_atomic: false,
};
const GROUPS: Way = Way { commits: Commits::Grouped, journals: Journals::Ram, ..FLASH };
const UNSAFE: Way = Way { is_safe: false, journals: Journals::Ram, ..FLASH };
const EXCLUSIVE: &str = "PRAGMA locking_mode=EXCLUSIVE";

pub(crate) const DELETE: Way = Way { name: "journal DELETE, on the flash", ..FLASH };
pub(crate) const WAL: Way = Way {
    name: "WAL + EXCLUSIVE, on the flash",
    before: "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL",
    ..FLASH
};
pub(crate) const MEMORY: Way =
    Way { name: "MEMORY, page by page", before: "PRAGMA journal_mode=MEMORY", ..UNSAFE };
pub(crate) const OFF: Way = Way {
    name: "OFF + EXCLUSIVE, page by page",
    before: "PRAGMA journal_mode=OFF",
    after: EXCLUSIVE,
    ..UNSAFE
};
pub(crate) const BATCH: Way = Way { name: "nandex, batches", batch_atomic: true, ..GROUPS };
pub(crate) const BATCH_EXCLUSIVE: Way =
    Way { name: "nandex, batches + EXCLUSIVE", before: EXCLUSIVE, batch_atomic: true, ..GROUPS };
pub(crate) const STOCK: Way = Way { name: "nandex, SQLite without batches", ..GROUPS };
pub(crate) const STOCK_EXCLUSIVE: Way =
    Way { name: "nandex, without batches + EXCLUSIVE", before: EXCLUSIVE, ..GROUPS };

/// The set-up of a measurement: on which chip, with which pages, how many rows in a commit.
#[derive(Clone, Copy)]
pub(crate) struct Cell {
    pub(crate) part: &'static str,
    pub(crate) page_size: u32,
    pub(crate) rows_per_commit: u32,
    pub(crate) rows: u32,
}

/// Costs per insert.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// Page programs per insert.
    pub(crate) programs: f64,
    /// Page reads per insert.
    pub(crate) reads: f64,
    /// Erases of all inserts.
    pub(crate) erases: u64,
    /// Milliseconds an insert, of the simulated chip; 0 for an image.
    pub(crate) milliseconds: f64,
    pub(crate) stats: VolumeStats,
}

fn settings(way: &Way) -> VolumeConfig {
    let (commits, journals, batch_atomic) = (way.commits, way.journals, way.batch_atomic);
    VolumeConfig { commits, journals, batch_atomic, ..VolumeConfig::default() }
}

/// Measures on a simulated chip.
pub(crate) fn on_chip(cell: &Cell, way: &Way) -> Cost {
    let part = catalogue::find(cell.part).expect("a part of the catalogue");
    let chip = Shared::new(SimChip::new(part).expect("a part that is valid"));
    let ftl = FtlConfig { atomic_pages: 256, ..FtlConfig::default() };
    let store = PageMapFtl::format(chip.clone(), &ftl).expect("a chip large enough");
    let volume = Volume::open(store, settings(way)).expect("an empty store");
    let seen = chip.clone();
    let volume = volume.watching(move || seen.lock().counters().into());
    let cost = run(volume, cell, way, || chip.lock().time());
    let mut again = PageMapFtl::mount(chip, &ftl).expect("the chip is whole");
    assert!(
        again.check().expect("the chip can be read").violations.is_empty(),
        "{}: the FTL is whole",
        way.name
    );
    cost
}

/// Measures on an image file; programs are counted at the chip in it.
pub(crate) fn on_image(path: &std::path::Path, cell: &Cell, way: &Way) -> Cost {
    let device = Device { sync: false, bytes: 128 << 20, ..Device::new(path.to_string_lossy()) };
    let volume = device.open(settings(way)).expect("an image can be made");
    run(volume, cell, way, || Nanos(0))
}

fn run(volume: Volume, cell: &Cell, way: &Way, time: impl Fn() -> Nanos) -> Cost {
    let name = format!("{}-{}-{}-{}", cell.part, cell.page_size, cell.rows_per_commit, way.name);
    let vfs = Vfs::register(&name, volume).expect("a name that is free");
    let database = vfs.open("rows.db").expect("a database can be made");
    database
        .execute_batch(&format!("PRAGMA page_size={}; PRAGMA synchronous=FULL", cell.page_size))
        .expect("a page size");
    database.execute_batch(way.before).expect("a mode");
    database.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, value BLOB)").expect("a table");
    database.execute_batch(way.after).expect("a mode");
    let counts = || vfs.stats().and_then(|stats| stats.chip).unwrap_or_default();
    let (before, began): (ChipCounts, Nanos) = (counts(), time());
    insert(&database, cell).expect("rows are inserted");
    let (after, ended) = (counts(), time());
    check(&database, cell);
    let each = |count: u64| count as f64 / f64::from(cell.rows);
    Cost {
        programs: each(after.page_programs - before.page_programs),
        reads: each(after.page_reads - before.page_reads),
        erases: after.block_erases - before.block_erases,
        milliseconds: each(ended.0 - began.0) / 1e6,
        stats: vfs.stats().unwrap_or_default(),
    }
}

fn insert(database: &Connection, cell: &Cell) -> rusqlite::Result<()> {
    let mut rng = Rng::new(1);
    let mut statement = database.prepare("INSERT INTO t VALUES(?, ?)")?;
    for row in 0..cell.rows {
        if row % cell.rows_per_commit == 0 && cell.rows_per_commit > 1 {
            database.execute_batch("BEGIN")?;
        }
        let mut value = [0; 100];
        rng.fill(&mut value);
        statement.execute(params![rng.next_u64().cast_signed(), value])?;
        if row % cell.rows_per_commit == cell.rows_per_commit - 1 && cell.rows_per_commit > 1 {
            database.execute_batch("COMMIT")?;
        }
    }
    Ok(())
}

fn check(database: &Connection, cell: &Cell) {
    let whole: String =
        database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("a verdict");
    assert_eq!(whole, "ok");
    let rows: u32 = database.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).expect("a count");
    assert_eq!(rows, cell.rows);
}

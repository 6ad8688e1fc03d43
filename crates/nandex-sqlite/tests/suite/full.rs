//! Full databases: a statement that frees room succeeds, whatever the settings.
#![allow(clippy::unwrap_used, clippy::print_stdout)]
#![cfg(feature = "bundled")]

use crate::sizes::sized;
use nandex::Shared;
use nandex::ftl::page_map::{FtlConfig, PageMapFtl};
use nandex::nand::catalogue;
use nandex::nand::sim::{CutWhen, PowerCut, SimChip, TornModel};
use nandex::rng::Rng;
use nandex_sqlite::{Vfs, Volume, VolumeConfig};
use rusqlite::{Connection, ErrorCode};
use std::collections::BTreeMap;

/// Statements that free room, each tried on the full database.
const STATEMENTS: [&str; 4] = [
    "DELETE FROM t",
    "DROP TABLE t",
    "DELETE FROM t WHERE a > (SELECT max(a) / 2 FROM t)",
    "DELETE FROM t WHERE a > 20; VACUUM",
];

/// Statements that change as many pages as they find rows, tried on all rows at once and on some at a time.
const SCATTERED: [&str; 4] = [
    "DELETE FROM t WHERE a % 2",
    "UPDATE t SET v = substr(v, 1, length(v) / 3) WHERE a",
    "UPDATE t SET v = zeroblob(length(v)) WHERE a",
    "UPDATE t SET v = NULL WHERE a",
];

/// Power cuts in each statement.
const CUTS: u64 = 2;

/// Bytes of rows changed at a time.
const PORTION: i64 = 40_000;

/// A way to use a database.
#[derive(Debug)]
struct SetUp {
    blocks: u32,
    ftl: FtlConfig,
    volume: VolumeConfig,
    before: String,
    row_bytes: u32,
    page_bytes: u32,
    is_indexed: bool,
}

fn pick<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.below(of.len() as u64) as usize]
}

impl SetUp {
    fn draw(rng: &mut Rng) -> SetUp {
        let ftl = FtlConfig { atomic_pages: pick(rng, &[256, 256, 64, 16]), ..FtlConfig::default() };
        let volume = VolumeConfig {
            batch_atomic: rng.below(2) == 0,
            ram_bytes: pick(rng, &[1 << 20, 4 << 20, 4 << 20]),
            ..VolumeConfig::default()
        };
        let journal = pick(rng, &["DELETE", "TRUNCATE", "PERSIST", "MEMORY"]);
        let page_bytes = pick(rng, &[1024, 2048, 2048, 4096]);
        let before = format!(
            "PRAGMA page_size={page_bytes}; PRAGMA locking_mode={}; PRAGMA journal_mode={journal}; PRAGMA secure_delete={}; \
             PRAGMA cache_size={}",
            pick(rng, &["NORMAL", "EXCLUSIVE"]),
            pick(rng, &[0, 1]),
            pick(rng, &[10, 100, -2000]),
        );
        SetUp {
            blocks: 20 + rng.below(60) as u32,
            ftl,
            volume,
            before,
            row_bytes: pick(rng, &[60, 300, 950, 5_000]),
            page_bytes,
            is_indexed: rng.below(4) == 0,
        }
    }
}

/// A database on a chip.
struct Full<'a> {
    set_up: &'a SetUp,
    chip: Shared<SimChip>,
    vfs: Vfs,
}

impl<'a> Full<'a> {
    fn open(&self) -> Connection {
        let database = self.vfs.open("d.db").unwrap();
        database.execute_batch(&self.set_up.before).unwrap();
        database
    }

    /// Another one, mounted on a copy of the chip.
    fn copy(&self, name: &str) -> Full<'a> {
        let chip = Shared::new(self.chip.lock().clone());
        let volume =
            Volume::open(PageMapFtl::mount(chip.clone(), &self.set_up.ftl).unwrap(), self.set_up.volume);
        Full { set_up: self.set_up, chip, vfs: Vfs::register(name, volume.unwrap()).unwrap() }
    }
}

/// A database that takes no more rows.
fn filled<'a>(set_up: &'a SetUp, name: &str) -> Full<'a> {
    let part = catalogue::find("k9f1g08u0f").unwrap().clone().with_blocks(set_up.blocks);
    let chip = Shared::new(SimChip::new(&part).unwrap());
    let volume = Volume::open(PageMapFtl::format(chip.clone(), &set_up.ftl).unwrap(), set_up.volume).unwrap();
    let full = Full { set_up, chip, vfs: Vfs::register(name, volume).unwrap() };
    let database = full.open();
    database.execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY, v)").unwrap();
    if set_up.is_indexed {
        database.execute_batch("CREATE INDEX i ON t(substr(v, 1, 8))").unwrap();
    }
    let mut rows = 1_000_000 / set_up.row_bytes;
    while rows > 0 {
        let series = format!("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n LIMIT {rows})");
        let sql = format!("INSERT INTO t {series} SELECT NULL, randomblob({}) FROM n", set_up.row_bytes);
        match database.execute_batch(&sql) {
            Ok(()) => {}
            Err(error) => {
                assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DiskFull), "{error}");
                rows /= 4;
            }
        }
    }
    full
}

fn state(database: &Connection) -> String {
    let whole: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    let sql = "SELECT count(*), total(a), total(length(v)) FROM t";
    let rows = database.query_row(sql, [], |row| {
        Ok(format!("{:?}", (row.get::<_, i64>(0)?, row.get::<_, f64>(1)?, row.get::<_, f64>(2)?)))
    });
    format!("{whole}, {}", rows.unwrap_or_else(|error| error.to_string()))
}

/// Runs a statement on all rows, or on `rows` of them at a time.
fn run(database: &Connection, sql: &str, rows: Option<i64>) -> rusqlite::Result<()> {
    let Some(rows) = rows else { return database.execute_batch(sql) };
    let last: i64 = database.query_row("SELECT ifnull(max(a), 0) FROM t", [], |row| row.get(0))?;
    (0..=last / rows).map(|portion| portion * rows).try_for_each(|first| {
        database.execute_batch(&format!("{sql} AND a BETWEEN {first} AND {}", first + rows - 1))
    })
}

/// The state after a statement that was tried.
struct Tried {
    before: String,
    /// State after the statement; `None` if it was refused.
    after: Option<String>,
    /// Operations of the chip for the statement.
    operations: u64,
}

/// Tries a statement on a copy of the full database.
fn attempt(full: &Full<'_>, name: &str, (sql, in_portions): (&str, bool)) -> Result<Tried, String> {
    let copy = full.copy(name);
    let database = copy.open();
    let before = state(&database);
    let begun = copy.chip.lock().operations();
    let rows = in_portions.then(|| PORTION / i64::from(full.set_up.row_bytes));
    let done = run(&database, sql, rows);
    if !database.is_autocommit() {
        database.execute_batch("ROLLBACK").unwrap();
    }
    let operations = copy.chip.lock().operations() - begun;
    let after = state(&database);
    if done.is_err() && !in_portions && !sql.contains(';') && after != before {
        return Err(format!("{sql}: refused, and {after} for {before}"));
    }
    if done.is_ok() && sql.starts_with("DELETE") {
        let more = format!("INSERT INTO t VALUES(NULL, randomblob({}))", full.set_up.row_bytes);
        database.execute_batch(&more).map_err(|error| format!("{sql}, and then: {error}"))?;
    }
    let last = state(&database);
    drop(database);
    let again = copy.copy(&format!("{name}-again"));
    drop(copy);
    match state(&again.open()) {
        found if found == last => Ok(Tried { before, after: done.is_ok().then_some(after), operations }),
        found => Err(format!("{sql}: {found} after a mount for {last}")),
    }
}

/// Cuts the power somewhere in a statement, and in the mount after it.
fn cut(full: &Full<'_>, name: &str, sql: &str, tried: &Tried, rng: &mut Rng) -> Result<(), String> {
    let copy = full.copy(name);
    let database = copy.open();
    let plan = |within: u64, rng: &mut Rng| {
        let mut chip = copy.chip.lock();
        let at_operation = chip.operations() + rng.below(within);
        let torn = pick(rng, &[TornModel::Unreadable, TornModel::RandomBits]);
        chip.plan_power_cut(PowerCut { at_operation, when: CutWhen::Inside, torn, seed: rng.next_u64() });
    };
    plan(tried.operations + 1, rng);
    let _ = database.execute_batch(sql);
    drop(database);
    copy.chip.lock().power_on();
    plan(2_000, rng);
    let set_up = full.set_up;
    let _ = PageMapFtl::mount(copy.chip.clone(), &set_up.ftl).map(|store| Volume::open(store, set_up.volume));
    copy.chip.lock().power_on();
    let found = state(&copy.copy(&format!("{name}-mounted")).open());
    match found == tried.before || tried.after.as_ref() == Some(&found) {
        true => Ok(()),
        false => Err(format!("{sql}: {found} after a cut, for {} or {:?}", tried.before, tried.after)),
    }
}

#[test]
fn a_full_database_can_delete() {
    let number = |name, usual| std::env::var(name).map_or(usual, |number| number.parse().unwrap());
    let (first, lives) = (number("NANDEX_SEED", 0), number("NANDEX_FULL", sized(1, 3)));
    let mut taken = BTreeMap::<_, (u32, u32)>::new();
    let mut wrong = Vec::new();
    for seed in first..first + lives {
        let mut rng = Rng::new(seed);
        let set_up = SetUp::draw(&mut rng);
        let full = filled(&set_up, &format!("full-{seed}"));
        let all = STATEMENTS.into_iter().chain(SCATTERED).map(|sql| (sql, false));
        for (i, of) in all.chain(SCATTERED.map(|sql| (sql, true))).enumerate() {
            let name = format!("full-{seed}-{i}");
            // Rows deleted here and there change an index all over; equal keys come to new pages of one.
            let is_wide = set_up.is_indexed && (of.1 || of.0.contains("a >"));
            // At once: where rows are few in a page, and come from pages near by.
            let is_roomy = matches!((set_up.row_bytes, set_up.page_bytes), (300, 2048..) | (950, 2048));
            let frees = of.0 != SCATTERED[2];
            let must =
                !is_wide && (STATEMENTS.contains(&of.0) || of.1 || is_roomy && frees && !set_up.is_indexed);
            let (of_statement, count) = taken.entry(of).or_default();
            *count += 1;
            let tried = attempt(&full, &name, of).and_then(|tried| {
                *of_statement += u32::from(tried.after.is_some());
                if !of.1 && !of.0.contains(';') {
                    (0..CUTS).try_for_each(|i| cut(&full, &format!("{name}-{i}"), of.0, &tried, &mut rng))?;
                }
                if tried.after.is_none() {
                    println!("refused: seed {seed}, {of:?}, {set_up:?}");
                }
                if tried.after.is_none() && must { Err(format!("{of:?} is refused")) } else { Ok(()) }
            });
            wrong.extend(tried.err().map(|why| format!("seed {seed}, {set_up:?}: {why}")));
        }
    }
    for ((sql, in_portions), (taken, of)) in taken {
        println!("{taken} of {of}: {sql}{}", if in_portions { ", in portions" } else { "" });
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

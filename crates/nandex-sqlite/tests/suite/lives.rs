//! Lives of databases: chips, FTLs, volumes, modes of SQLite and statements are drawn from a seed. The power
//! fails again and again. After every mount each row is compared with an ordinary database in memory that did
//! the same.
//!
//! `NANDEX_LIVES=COUNT` runs so many lives from `NANDEX_SEED` on, and prints counts.
#![allow(clippy::unwrap_used, clippy::print_stdout)]
#![cfg(feature = "bundled")]

use nandex::ftl::mapping::Scheme;
use nandex::ftl::page_map::{FtlConfig, PageMapFtl};
use nandex::nand::catalogue;
use nandex::nand::sim::{CutWhen, Faults, PowerCut, SimChip, TornModel};
use nandex::rng::Rng;
use nandex::{Geometry, PageStore, Shared, StoreError};
use nandex_papers::ftl::fast::FastFtl;
use nandex_sqlite::{Commits, Journals, Vfs, Volume, VolumeConfig};
use rusqlite::{Connection, ErrorCode};
use std::fmt::Write as _;

/// The bytes of pages that a database has in use at most, as a share of the store's.
const FILL: u64 = 4;

/// All rows of all tables, as text.
type Rows = Vec<String>;

/// The choices of a life.
#[derive(Debug)]
struct Choices {
    geometry: Geometry,
    /// Pages of a group; `None` for an FTL that writes single pages atomically.
    group: Option<u32>,
    volume: VolumeConfig,
    pragmas: String,
    faults: Faults,
}

fn one_of<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.below(of.len() as u64) as usize]
}

impl Choices {
    fn draw(rng: &mut Rng) -> Choices {
        let page = one_of(rng, &[512, 1024, 2048, 4096]);
        let pages = one_of(rng, &[16, 32, 64]);
        let geometry = Geometry::new(page, 64, pages, 24 + rng.below(40) as u32);
        let group = one_of(rng, &[None, Some(4), Some(16), Some(64), Some(256), Some(256)]);
        let volume = VolumeConfig {
            commits: Commits::Grouped,
            journals: one_of(rng, &[Journals::Ram, Journals::Ram, Journals::Flash]),
            batch_atomic: rng.chance(2, 3),
            ram_bytes: one_of(rng, &[0, 64 << 10, 4 << 20]),
            growth_pages: one_of(rng, &[1, 8, 32]),
        };
        let journal = one_of(rng, &["DELETE", "TRUNCATE", "PERSIST", "MEMORY", "WAL"]);
        let mut pragmas = String::new();
        if journal == "WAL" || rng.chance(1, 3) {
            pragmas += "PRAGMA locking_mode=EXCLUSIVE;";
        }
        let cache = one_of(rng, &["5", "20", "-2000"]);
        let secure = one_of(rng, &["0", "1"]);
        let spill = one_of(rng, &["1", "0"]);
        write!(
            pragmas,
            "PRAGMA journal_mode={journal}; PRAGMA synchronous=FULL; PRAGMA cache_size={cache}; \
             PRAGMA secure_delete={secure}; PRAGMA cache_spill={spill};"
        )
        .unwrap();
        let fails = rng.chance(1, 4);
        let faults = Faults {
            seed: rng.next_u64(),
            program_failures_ppm: if fails { 200 } else { 0 },
            erase_failures_ppm: if fails { 500 } else { 0 },
            weak_reads_ppm: if rng.chance(1, 3) { 2000 } else { 0 },
            ..Faults::default()
        };
        Choices { geometry, group, volume, pragmas, faults }
    }

    fn store(&self, chip: Shared<SimChip>, is_new: bool) -> Result<Box<dyn PageStore>, StoreError> {
        let spare = 200_000;
        let Some(atomic_pages) = self.group else {
            let settings = <nandex_papers::ftl::fast::Fast as Scheme>::Config::default();
            return Ok(match is_new {
                true => Box::new(FastFtl::format(chip, &settings)?),
                false => Box::new(FastFtl::mount(chip, &settings)?),
            });
        };
        let settings = FtlConfig { atomic_pages, bad_blocks_ppm: spare, ..FtlConfig::default() };
        Ok(match is_new {
            true => Box::new(PageMapFtl::format(chip, &settings)?),
            false => Box::new(PageMapFtl::mount(chip, &settings)?),
        })
    }
}

/// A database on flash, and its equal in memory.
struct Life {
    rng: Rng,
    choices: Choices,
    chip: Shared<SimChip>,
    model: Connection,
    name: String,
    /// Most bytes that the tables may hold.
    bytes_max: u64,
    is_over: bool,
    counts: Counts,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    lives: u64,
    unfit: u64,
    transactions: u64,
    mounts: u64,
    cuts: u64,
    whole: u64,
    full: u64,
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// The rows of each table in order, and the tables.
fn rows(database: &Connection) -> Result<Rows, String> {
    let read = |sql: &str| -> rusqlite::Result<Vec<String>> {
        let mut statement = database.prepare(sql)?;
        let rows = statement.query_map([], |row| row.get(0))?;
        rows.collect()
    };
    let tables = read("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").map_err(text)?;
    let mut all = Vec::new();
    for table in tables {
        all.push(format!("table {table}"));
        let sql = format!("SELECT id || ' ' || k || ' ' || hex(v) FROM {table} ORDER BY id");
        all.extend(read(&sql).map_err(text)?);
        // The way of an index, too.
        let by_key = format!("SELECT k || ' ' || id FROM {table} INDEXED BY {table}_k ORDER BY k, id");
        all.extend(read(&by_key).map_err(text)?);
    }
    Ok(all)
}

fn count_bytes(model: &Connection) -> u64 {
    let pages: i64 = model.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
    let free: i64 = model.query_row("PRAGMA freelist_count", [], |row| row.get(0)).unwrap();
    (pages - free).unsigned_abs() * 4096
}

impl Life {
    fn new(seed: u64) -> Option<Life> {
        let mut rng = Rng::new(seed);
        let choices = Choices::draw(&mut rng);
        let mut part = catalogue::find("k9f1g08u0f").unwrap().clone();
        part.geometry = choices.geometry;
        let chip = Shared::new(SimChip::new(&part).ok()?);
        let store = choices.store(chip.clone(), true).ok()?;
        let bytes_max = u64::from(store.page_count()) * store.page_bytes() as u64 / FILL;
        drop(Volume::open(store, choices.volume).ok()?);
        chip.lock().set_faults(choices.faults);
        let model = Connection::open_in_memory().unwrap();
        let counts = Counts { lives: 1, ..Counts::default() };
        Some(Life {
            rng,
            choices,
            chip,
            model,
            name: format!("life-{seed}"),
            bytes_max,
            is_over: false,
            counts,
        })
    }

    /// Mounts the chip and opens the database; no database where the power went.
    fn open(&mut self) -> Result<(Vfs, Connection), String> {
        self.counts.mounts += 1;
        let store = self.choices.store(self.chip.clone(), false).map_err(text)?;
        let volume = Volume::open(store, self.choices.volume).map_err(text)?;
        let vfs = Vfs::register(&self.name, volume).map_err(text)?;
        let database = vfs.open("main.db").map_err(text)?;
        database.execute_batch(&self.choices.pragmas).map_err(text)?;
        Ok((vfs, database))
    }

    /// A statement; tables are `a` to `c`.
    fn statement(&mut self) -> String {
        let rng = &mut self.rng;
        let table = one_of(rng, &["a", "b", "c"]);
        let range = |rng: &mut Rng| {
            let from = rng.below(2000);
            (from, from + rng.below(300))
        };
        let length = one_of(rng, &[3, 50, 400, 3000]);
        let (from, to) = range(rng);
        let value = rng.below(1 << 30);
        // Values that a compiler cannot fold and both databases make alike.
        let blob = format!(
            "CAST(substr(replace(printf('%0{length}d', id * 31 + {value}), '0', 'z'), 1, {length}) AS BLOB)"
        );
        let is_small = count_bytes(&self.model) < self.bytes_max;
        match rng.below(12) {
            0..5 if is_small => {
                let count = 1 + rng.below(if length > 400 { 6 } else { 60 });
                format!(
                    "CREATE TABLE IF NOT EXISTS {table}(id INTEGER PRIMARY KEY, k INT, v BLOB); \
                     CREATE INDEX IF NOT EXISTS {table}_k ON {table}(k); \
                     WITH RECURSIVE n(id) AS (SELECT {from} UNION ALL SELECT id + 7 FROM n LIMIT {count}) \
                     INSERT OR REPLACE INTO {table} SELECT id, (id * 37 + {value}) % 1009, {blob} FROM n"
                )
            }
            5 if is_small => self.of_table(table, |t| {
                format!("UPDATE {t} SET k = (k + {value}) % 997, v = {blob} WHERE id BETWEEN {from} AND {to}")
            }),
            6 => self.of_table(table, |t| {
                format!("UPDATE {t} SET k = k + 1 WHERE k BETWEEN {} AND {}", from / 2, to / 2)
            }),
            7 => self.of_table(table, |t| format!("DELETE FROM {t} WHERE k % 3 = {}", value % 3)),
            8 => self.of_table(table, |t| format!("DELETE FROM {t} WHERE id >= {from}")),
            9 if value.is_multiple_of(4) => format!("DROP TABLE IF EXISTS {table}"),
            _ => self.of_table(table, |t| format!("DELETE FROM {t} WHERE id BETWEEN {from} AND {to}")),
        }
    }

    /// A statement on a table, or a harmless one if the table does not exist.
    fn of_table(&self, table: &str, statement: impl FnOnce(&str) -> String) -> String {
        let sql = "SELECT count(*) FROM sqlite_schema WHERE name = ?";
        let there: i64 = self.model.query_row(sql, [table], |row| row.get(0)).unwrap();
        if there > 0 { statement(table) } else { String::from("SELECT 1") }
    }

    /// A transaction, done in memory as it is drawn.
    fn transaction(&mut self) -> Vec<String> {
        if self.rng.chance(1, 40) {
            self.model.execute_batch("VACUUM").unwrap();
            return vec![String::from("VACUUM")];
        }
        let mut all = vec![String::from("BEGIN IMMEDIATE")];
        self.model.execute_batch("BEGIN").unwrap();
        for _ in 0..1 + self.rng.below(5) {
            let statement = self.statement();
            self.model.execute_batch(&statement).unwrap();
            all.push(statement);
            if self.rng.chance(1, 8) {
                let taken_back = self.statement();
                let sql = format!("SAVEPOINT s; {taken_back}; ROLLBACK TO s; RELEASE s");
                self.model.execute_batch(&sql).unwrap();
                all.push(sql);
            }
        }
        let end = if self.rng.chance(1, 6) { "ROLLBACK" } else { "COMMIT" };
        self.model.execute_batch(end).unwrap();
        all.push(String::from(end));
        all
    }

    /// Runs transactions until the power fails or a drawn number is done. Then mounts and compares.
    fn run(&mut self) -> Result<(), String> {
        let mut before = Rows::new();
        let mut after = Rows::new();
        for _ in 0..3 + self.rng.below(5) {
            if self.rng.chance(3, 4) {
                self.plan_cut();
            }
            self.session(&mut before, &mut after)?;
            if self.is_over {
                break;
            }
            // Nobody has the chip open any more.
            self.counts.cuts += u64::from(self.is_off());
            self.chip.lock().power_on();
        }
        Ok(())
    }

    fn plan_cut(&mut self) {
        let mut chip = self.chip.lock();
        let within = one_of(&mut self.rng, &[20, 300, 3000]);
        let at_operation = chip.operations() + self.rng.below(within);
        let when =
            one_of(&mut self.rng, &[CutWhen::Before, CutWhen::Inside, CutWhen::Inside, CutWhen::After]);
        let torn = one_of(&mut self.rng, &TornModel::ALL);
        chip.plan_power_cut(PowerCut { at_operation, when, torn, seed: self.rng.next_u64() });
    }

    /// Runs from one mount to the next. The rows found must be one of the two possible states.
    fn session(&mut self, before: &mut Rows, after: &mut Rows) -> Result<(), String> {
        let opened = self.open().and_then(|(vfs, database)| {
            let found = rows(&database)?;
            Ok((vfs, database, found))
        });
        let (vfs, database, found) = match opened {
            Err(_) if self.is_off() => return Ok(()),
            opened => opened.map_err(|error| format!("a mount: {error}"))?,
        };
        if found != *after && found != *before {
            return Err(format!(
                "{} rows, and {} or {} were to be there",
                found.len(),
                before.len(),
                after.len()
            ));
        }
        // Which of the two it is: the database in memory is brought to it.
        if found != *after {
            self.model = copy(&database)?;
            after.clone_from(&found);
        } else if before != after {
            self.counts.whole += 1;
        }
        before.clone_from(after);
        for _ in 0..5 + self.rng.below(60) {
            let kept = before.clone();
            let statements = self.transaction();
            *after = rows(&self.model)?;
            self.counts.transactions += 1;
            for statement in &statements {
                match database.execute_batch(statement) {
                    Ok(()) => {}
                    Err(_) if self.is_off() => {
                        *before = kept;
                        return Ok(());
                    }
                    // The volume is full: what it refuses is another test's.
                    Err(error) if error.sqlite_error_code() == Some(ErrorCode::DiskFull) => {
                        self.counts.full += 1;
                        self.is_over = true;
                        return Ok(());
                    }
                    Err(error) => return Err(format!("{statement}: {error}")),
                }
            }
            before.clone_from(after);
        }
        let whole: String = match database.query_row("PRAGMA integrity_check", [], |row| row.get(0)) {
            // SQLite may tell of pages that it could not read; the next mount is compared.
            _ if self.is_off() => return Ok(()),
            checked => checked.map_err(text)?,
        };
        if whole != "ok" {
            return Err(format!("integrity_check: {whole}"));
        }
        if self.rng.chance(1, 2) && rows(&database).is_ok_and(|found| found != *after) {
            return Err(String::from("rows of a statement's own database differ"));
        }
        drop(database);
        drop(vfs);
        Ok(())
    }

    fn is_off(&self) -> bool {
        !self.chip.lock().is_powered()
    }
}

/// Copies a database into memory.
fn copy(database: &Connection) -> Result<Connection, String> {
    let mut model = Connection::open_in_memory().map_err(text)?;
    let mut sql = database
        .prepare("SELECT name, sql FROM sqlite_schema WHERE sql NOT NULL ORDER BY type = 'index', name")
        .map_err(text)?;
    let made: Vec<(String, String)> =
        sql.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).and_then(Iterator::collect).map_err(text)?;
    let all = model.transaction().map_err(text)?;
    for (name, sql) in made {
        all.execute_batch(&sql).map_err(text)?;
        if sql.starts_with("CREATE TABLE") {
            let mut select = database.prepare(&format!("SELECT id, k, v FROM {name}")).map_err(text)?;
            let mut rows = select.query([]).map_err(text)?;
            while let Some(row) = rows.next().map_err(text)? {
                let values: (i64, i64, Vec<u8>) =
                    (row.get(0).map_err(text)?, row.get(1).map_err(text)?, row.get(2).map_err(text)?);
                all.execute(&format!("INSERT INTO {name} VALUES(?, ?, ?)"), values).map_err(text)?;
            }
        }
    }
    all.commit().map_err(text)?;
    Ok(model)
}

/// Runs a life. Returns its counts and, after a failure, a message with the choices drawn.
fn live(seed: u64) -> (Counts, Option<String>) {
    let Some(mut life) = Life::new(seed) else { return (Counts { unfit: 1, ..Counts::default() }, None) };
    let found = life.run().err();
    (life.counts, found.map(|what| format!("seed {seed}: {what}\n{:?}", life.choices)))
}

fn add(sum: &mut Counts, one: Counts) {
    sum.lives += one.lives;
    sum.unfit += one.unfit;
    sum.transactions += one.transactions;
    sum.mounts += one.mounts;
    sum.cuts += one.cuts;
    sum.whole += one.whole;
    sum.full += one.full;
}

#[test]
fn every_row_is_there_after_every_mount() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let first = number("NANDEX_SEED").unwrap_or(1);
    let lives = number("NANDEX_LIVES").unwrap_or(12);
    let mut sum = Counts::default();
    let mut found = Vec::new();
    for seed in first..first + lives {
        let (counts, what) = live(seed);
        add(&mut sum, counts);
        found.extend(what);
    }
    println!("{sum:?}, {} findings", found.len());
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert!(sum.cuts > 10 && sum.transactions > 500, "{sum:?}");
}

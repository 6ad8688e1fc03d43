//! Draws the set-up and the steps of a life from its seed. No step depends on the outcome of another, so that
//! a list with fewer steps is a life too.

use crate::engine::Cut;
use nandex::Geometry;
use nandex::nand::sim::{CutWhen, TornModel};
use nandex::rng::Rng;
use nandex_sqlite::VolumeConfig;

/// Chip, FTL, volume and modes drawn for a life.
#[derive(Clone, Debug)]
pub(crate) struct SetUp {
    /// The name of the VFS.
    pub(crate) name: String,
    pub(crate) geometry: Geometry,
    /// Pages of a group; `None` for an FTL that writes single pages atomically.
    pub(crate) group: Option<u32>,
    pub(crate) volume: VolumeConfig,
    pub(crate) journal: &'static str,
    /// Statement that sets the locking mode, executed before a database is read: one in WAL mode cannot be
    /// opened otherwise.
    pub(crate) locking: String,
    /// Before there are tables.
    pub(crate) first: Vec<String>,
    /// Statements executed after every mount.
    pub(crate) always: Vec<String>,
    /// Thousandths of the volume taken by a file that no database uses.
    pub(crate) filled: u64,
}

impl SetUp {
    /// Whether a transaction over two databases is one, by SQLite's own rule.
    pub(crate) fn is_joint(&self) -> bool {
        matches!(self.journal, "DELETE" | "TRUNCATE" | "PERSIST")
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// A statement for both.
    Sql(String),
    /// Cuts the power after a number of operations, which may be in a mount.
    Cut(Cut),
    /// An orderly end, and a mount.
    Mount,
    /// All is compared, in the middle of a transaction, too.
    Look,
    /// Copies the main database into another file, compares the two and removes the copy.
    BackUp,
    /// A copy by `VACUUM INTO`, compared and removed.
    Into,
    /// The file that fills the volume is removed.
    Room,
}

fn one_of<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.below(of.len() as u64) as usize]
}

/// The life of a seed.
pub(crate) fn life(seed: u64) -> (SetUp, Vec<Step>) {
    let mut rng = Rng::new(seed);
    let set_up = set_up(&mut rng, seed);
    let mut draw = Draw { is_off: set_up.journal == "OFF", joint: set_up.is_joint(), only: None, rng };
    let steps = draw.steps();
    (set_up, steps)
}

fn set_up(rng: &mut Rng, seed: u64) -> SetUp {
    let page = one_of(rng, &[512, 1024, 2048, 2048, 4096]);
    let pages = one_of(rng, &[16, 32, 64]);
    // One to three MiB.
    let blocks = ((1 + rng.below(3)) << 20) / (page * pages);
    let geometry = Geometry::new(page as u32, 64, pages as u32, (blocks as u32).max(20));
    let volume = VolumeConfig {
        batch_atomic: rng.chance(1, 2),
        ram_bytes: one_of(rng, &[0, 64 << 10, 256 << 10, 4 << 20, 4 << 20]),
        growth_pages: one_of(rng, &[1, 8, 32]),
        ..VolumeConfig::default()
    };
    let journal = one_of(rng, &["DELETE", "TRUNCATE", "PERSIST", "MEMORY", "OFF", "WAL"]);
    let exclusive = journal == "WAL" || rng.chance(1, 3);
    let page_size = one_of(rng, &[512, 1024, 2048, 2048, 4096, 8192, 16_384, 32_768, 65_536]);
    let vacuum = one_of(rng, &[0, 0, 1, 2]);
    let cache = one_of(rng, &[10, 10, 40, -2000]);
    let mut first = Vec::new();
    let mut always = vec![String::from("PRAGMA recursive_triggers=0")];
    for database in ["main", "two"] {
        first.push(format!("PRAGMA {database}.page_size={page_size}"));
        first.push(format!("PRAGMA {database}.auto_vacuum={vacuum}"));
        always.push(format!("PRAGMA {database}.cache_size={cache}"));
        let level = if journal == "WAL" { 2 } else { one_of(rng, &[2, 2, 3, 1]) };
        always.push(format!("PRAGMA {database}.synchronous={level}"));
        always.push(format!("PRAGMA {database}.secure_delete={}", rng.below(2)));
    }
    let locking = format!("PRAGMA locking_mode={}", if exclusive { "EXCLUSIVE" } else { "NORMAL" });
    for database in ["main", "two"] {
        always.push(format!("PRAGMA {database}.journal_mode={journal}"));
    }
    SetUp {
        name: format!("model-{seed}"),
        geometry,
        group: one_of(rng, &[None, Some(16), Some(64), Some(256), Some(256)]),
        volume,
        journal,
        locking,
        first,
        always,
        // What the databases of a life hold themselves takes the rest up to 100 %.
        filled: one_of(rng, &[0, 200, 500, 700, 800, 900, 1000]),
    }
}

struct Draw {
    rng: Rng,
    /// Without any journal SQLite cannot take back a statement that fails.
    is_off: bool,
    joint: bool,
    /// The database that a transaction keeps to.
    only: Option<&'static str>,
}

impl Draw {
    fn steps(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        for database in ["main", "two"] {
            self.only = Some(database);
            for table in 0..2 {
                steps.push(Step::Sql(self.table(table)));
            }
            steps.push(Step::Sql(self.insertion()));
        }
        for _ in 0..12 + self.rng.below(12) {
            self.only = None;
            match self.rng.below(20) {
                0..8 if !self.is_off => self.transaction(&mut steps),
                8 | 9 => steps.push(Step::Cut(self.cut())),
                10 => steps.push(Step::Mount),
                11 => steps.push(Step::BackUp),
                12 => steps.push(Step::Into),
                13 => steps.push(Step::Sql(format!("VACUUM {}", self.database()))),
                14 if self.rng.chance(1, 3) => steps.push(Step::Room),
                _ => steps.push(Step::Sql(self.statement())),
            }
        }
        steps.push(Step::Mount);
        steps
    }

    fn transaction(&mut self, steps: &mut Vec<Step>) {
        let begin = one_of(&mut self.rng, &["BEGIN", "BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"]);
        steps.push(Step::Sql(String::from(begin)));
        // Where each database commits for itself a transaction changes one.
        self.only = if self.joint { None } else { Some(self.database()) };
        let mut depth = 0;
        for _ in 0..1 + self.rng.below(6) {
            match self.rng.below(8) {
                0 | 1 => {
                    steps.push(Step::Sql(format!("SAVEPOINT s{depth}")));
                    depth += 1;
                }
                2 if depth > 0 => {
                    let to = self.rng.below(depth);
                    steps.push(Step::Sql(format!("ROLLBACK TO s{to}")));
                    depth = to + 1;
                }
                3 if depth > 0 => {
                    depth = self.rng.below(depth);
                    steps.push(Step::Sql(format!("RELEASE s{depth}")));
                }
                4 if self.rng.chance(1, 3) => steps.push(Step::Look),
                _ => steps.push(Step::Sql(self.statement())),
            }
        }
        if self.rng.chance(1, 6) {
            steps.push(Step::Cut(self.cut()));
        }
        let end = if self.rng.chance(1, 6) { "ROLLBACK" } else { "COMMIT" };
        steps.push(Step::Sql(String::from(end)));
    }

    fn cut(&mut self) -> Cut {
        let within = one_of(&mut self.rng, &[5, 40, 300]);
        Cut {
            after: self.rng.below(within),
            when: one_of(&mut self.rng, &[CutWhen::Before, CutWhen::Inside, CutWhen::Inside, CutWhen::After]),
            torn: one_of(&mut self.rng, &TornModel::ALL),
            seed: self.rng.next_u64(),
        }
    }

    fn database(&mut self) -> &'static str {
        self.only.unwrap_or_else(|| one_of(&mut self.rng, &["main", "main", "two"]))
    }

    fn table(&mut self, table: u64) -> String {
        let name = format!("{}.t{table}", self.database());
        let unique = if self.is_off || self.rng.chance(2, 3) { "" } else { ", UNIQUE(k, id)" };
        let rowid = if self.rng.chance(1, 4) { " WITHOUT ROWID" } else { "" };
        format!(
            "CREATE TABLE IF NOT EXISTS {name}(id INTEGER PRIMARY KEY, k INT, v BLOB, j TEXT{unique}){rowid}"
        )
    }

    /// Rows `SELECT id, k, v, j`, the same in every SQLite.
    fn rows(&mut self) -> String {
        let rng = &mut self.rng;
        let length = one_of(rng, &[3, 50, 400, 900, 3000]);
        let count = 1 + rng.below(if length > 300 { 40 } else { 300 });
        let (from, by, value) = (rng.below(2000), 1 + rng.below(9), rng.below(1 << 30));
        let blob = blob(length, value);
        format!(
            "WITH RECURSIVE n(id) AS (SELECT {from} UNION ALL SELECT id + {by} FROM n LIMIT {count}) \
             SELECT id, (id * 37 + {value}) % 1009, {blob}, json_object('a', id % 7, 'b', json_array(id, {value})) \
             FROM n"
        )
    }

    fn insertion(&mut self) -> String {
        let (database, table, rows) = (self.database(), self.rng.below(3), self.rows());
        format!("INSERT OR REPLACE INTO {database}.t{table}(id, k, v, j) {rows}")
    }

    fn statement(&mut self) -> String {
        let (d, t) = (self.database(), self.rng.below(3));
        let (from, value) = (self.rng.below(2000), self.rng.below(1 << 20));
        let to = from + self.rng.below(600);
        match self.rng.below(14) {
            0..4 => self.insertion(),
            4 => {
                let blob = blob(one_of(&mut self.rng, &[3, 60, 900, 2000]), value);
                format!("UPDATE {d}.t{t} SET v = {blob} WHERE id BETWEEN {from} AND {to}")
            }
            5 => format!(
                "UPDATE {d}.t{t} SET k = (k + {value}) % 997, j = json_set(j, '$.a', k, '$.c', 'x{value}') \
                 WHERE k BETWEEN {from} / 2 AND {to} / 2"
            ),
            6 => format!("DELETE FROM {d}.t{t} WHERE k % 3 = {}", value % 3),
            7 => format!("DELETE FROM {d}.t{t} WHERE id BETWEEN {from} AND {to}"),
            8 if self.rng.chance(1, 2) => format!("DELETE FROM {d}.t{t}"),
            8 | 9 => self.full_text(d, from, value),
            10 => {
                let other = one_of(&mut self.rng, &["main", "two"]);
                let columns = "id, k, v, j";
                format!(
                    "INSERT OR IGNORE INTO {d}.t{t}({columns}) SELECT id + 1, k, v, j FROM {other}.t{} WHERE id \
                     BETWEEN {from} AND {to} ORDER BY id",
                    value % 3
                )
            }
            11 if !self.is_off => format!(
                // Some fail in the middle.
                "INSERT INTO {d}.t{t}(id, k, v, j) SELECT id + {}, k, v, j FROM {d}.t{t} WHERE id > {from} ORDER BY id",
                1 + value % 40
            ),
            _ => self.definition(d, t, value),
        }
    }

    fn full_text(&mut self, d: &str, from: u64, value: u64) -> String {
        let count = 1 + self.rng.below(60);
        match self.rng.below(7) {
            0 => format!("CREATE VIRTUAL TABLE IF NOT EXISTS {d}.f USING fts5(x)"),
            1 => format!("DELETE FROM {d}.f WHERE rowid % 4 = {}", value % 4),
            2 => format!("INSERT INTO {d}.f(f) VALUES('optimize')"),
            3 => format!("UPDATE {d}.f SET x = x || ' w{}' WHERE rowid > {from}", value % 50),
            _ => format!(
                "INSERT OR REPLACE INTO {d}.f(rowid, x) WITH RECURSIVE n(i) AS (SELECT {from} UNION ALL SELECT \
                 i + 1 FROM n LIMIT {count}) SELECT i, printf('w%d w%d u%d', i % 50, (i + {value}) % 50, i) FROM n"
            ),
        }
    }

    fn definition(&mut self, d: &str, t: u64, value: u64) -> String {
        match self.rng.below(12) {
            0 => self.table(t),
            1 => format!("CREATE INDEX IF NOT EXISTS {d}.t{t}_k ON t{t}(k, id)"),
            2 => format!("CREATE INDEX IF NOT EXISTS {d}.t{t}_j ON t{t}(json_extract(j, '$.a'))"),
            3 => format!("CREATE INDEX IF NOT EXISTS {d}.t{t}_v ON t{t}(v) WHERE k > {}", value % 1000),
            4 => format!("DROP INDEX IF EXISTS {d}.t{t}_{}", one_of(&mut self.rng, &["k", "j", "v"])),
            5 => format!("DROP TABLE IF EXISTS {d}.{}", one_of(&mut self.rng, &["t0", "t1", "t2", "f", "l"])),
            6 => format!("CREATE TABLE IF NOT EXISTS {d}.l(n INTEGER PRIMARY KEY AUTOINCREMENT, what)"),
            7 | 8 => {
                let what = one_of(&mut self.rng, &["INSERT", "UPDATE", "DELETE"]);
                let row = if what == "DELETE" { "old" } else { "new" };
                format!(
                    "CREATE TRIGGER IF NOT EXISTS {d}.t{t}_{what} AFTER {what} ON t{t} WHEN {row}.id % 5 = {} BEGIN \
                     INSERT INTO l(what) VALUES(printf('{what} {t} %d', {row}.id)); \
                     DELETE FROM l WHERE n < (SELECT max(n) FROM l) - 50; END",
                    value % 5
                )
            }
            9 if !self.is_off => format!("ALTER TABLE {d}.t{t} ADD COLUMN c{} DEFAULT {value}", value % 3),
            10 => format!("REINDEX {d}.t{t}"),
            _ => format!("PRAGMA {d}.user_version = {value}"),
        }
    }
}

/// An SQL expression for `length` bytes that depend on the row and on `value`.
fn blob(length: u64, value: u64) -> String {
    format!("CAST(substr(replace(printf('%0{length}d', id * 31 + {value}), '0', 'z'), 1, {length}) AS BLOB)")
}

//! Statements refused on nearly full volumes leave nothing behind: open connections, new ones and a mount
//! read the acknowledged rows. Runs with every SQLite available.
#![allow(clippy::unwrap_used, clippy::print_stdout)]
#![cfg(feature = "bundled")]

use crate::client::{Client, Flash, each};
use crate::sizes::sized;
use nandex::Shared;
use nandex::ftl::page_map::{FtlConfig, PageMapFtl};
use nandex::nand::catalogue;
use nandex::nand::sim::SimChip;
use nandex::rng::Rng;
use nandex_sqlite::{Volume, VolumeConfig};
use nandex_sqlite_model::{Database, Refusal};

const MODES: [&str; 6] = ["DELETE", "TRUNCATE", "PERSIST", "MEMORY", "OFF", "WAL"];

/// A way to use a database.
#[derive(Debug)]
struct SetUp {
    blocks: u32,
    ftl: FtlConfig,
    volume: VolumeConfig,
    before: String,
    /// Thousandths of the volume to fill before the statements.
    fill: u64,
    connections: usize,
}

impl SetUp {
    fn draw(rng: &mut Rng, journal: &'static str) -> SetUp {
        let pick = |rng: &mut Rng, of: &[u32]| of[rng.below(of.len() as u64) as usize];
        let atomic_pages = pick(rng, &[256, 64, 16]);
        let mut volume = VolumeConfig { batch_atomic: rng.below(2) == 0, ..VolumeConfig::default() };
        if rng.below(2) == 0 {
            volume.ram_bytes = pick(rng, &[0, 1 << 16, 1 << 18]) as usize;
        }
        let exclusive = journal == "WAL" || rng.below(3) == 0;
        let before = format!(
            "PRAGMA page_size={}; PRAGMA locking_mode={}; PRAGMA journal_mode={journal}; PRAGMA secure_delete={}; \
             PRAGMA cache_size={}; PRAGMA synchronous={}",
            pick(rng, &[1024, 2048, 2048, 4096, 8192]),
            if exclusive { "EXCLUSIVE" } else { "NORMAL" },
            pick(rng, &[0, 1]),
            [10, 40, -2000][rng.below(3) as usize],
            pick(rng, &[0, 1, 2]),
        );
        SetUp {
            blocks: 20 + rng.below(10) as u32,
            ftl: FtlConfig { atomic_pages, ..FtlConfig::default() },
            volume,
            before,
            fill: 200 + rng.below(801),
            connections: if exclusive { 1 } else { 1 + rng.below(2) as usize },
        }
    }
}

/// The rows of all tables: their tables, numbers, lengths and beginnings.
type Rows = Vec<String>;

fn rows(database: &Database) -> Result<Rows, Refusal> {
    let names = database.read("SELECT name FROM sqlite_schema WHERE type='table' ORDER BY 1")?;
    let of = |name: &String| {
        let row = format!("'{name} ' || a || ' ' || length(v) || ' ' || hex(substr(v, 1, 3))");
        database.read(&format!("SELECT {row} FROM {name} ORDER BY a"))
    };
    Ok(names.iter().map(of).collect::<Result<Vec<_>, _>>()?.concat())
}

/// Refuses a database that is not whole, or holds other rows than were acknowledged.
fn judge(database: &Database, expected: &Rows, when: &str) -> Result<(), String> {
    let said = |error: Refusal| format!("{when}: {error}");
    let whole = database.read("PRAGMA integrity_check").map_err(said)?;
    if whole != ["ok"] {
        return Err(format!("{when}: integrity_check: {}", whole[0]));
    }
    let found = rows(database).map_err(said)?;
    if found != *expected {
        return Err(format!("{when}: {} rows, and {} were acknowledged", found.len(), expected.len()));
    }
    Ok(())
}

/// A statement that inserts `rows` rows.
fn insertion(rows: u64) -> String {
    let series = format!("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n LIMIT {rows})");
    format!("INSERT INTO t {series} SELECT NULL, randomblob(950) FROM n")
}

/// A statement that changes much, or a transaction of some.
fn statement(rng: &mut Rng, journal: &str) -> String {
    let much = |rng: &mut Rng| match rng.below(8) {
        0 => String::from("DELETE FROM t WHERE a % 2"),
        1 => String::from("DELETE FROM t"),
        2 => String::from("DROP TABLE t"),
        3 => String::from("UPDATE t SET v = randomblob(length(v))"),
        4 => format!("UPDATE t SET v = randomblob({})", 100 + rng.below(1_500)),
        5 => insertion(50 + rng.below(2_000)),
        6 => String::from("CREATE INDEX IF NOT EXISTS i ON t(v)"),
        _ => format!("DELETE FROM t WHERE a > {}", rng.below(2_000)),
    };
    // Without any journal SQLite cannot take anything back.
    let kind = if journal == "OFF" { 4 } else { rng.below(5) };
    match kind {
        0 => String::from("VACUUM"),
        1 => format!(
            "BEGIN; {}; SAVEPOINT s; {}; ROLLBACK TO s; INSERT INTO u VALUES(NULL, randomblob(30)); {}; COMMIT",
            much(rng),
            much(rng),
            much(rng)
        ),
        2 => format!(
            "BEGIN; SAVEPOINT s; SAVEPOINT r; {}; RELEASE r; {}; RELEASE s; COMMIT",
            much(rng),
            much(rng)
        ),
        _ => much(rng),
    }
}

/// The counts of the lives of a mode.
#[derive(Debug, Default)]
struct Tally {
    statements: u64,
    refused: u64,
    /// Small changes after a refusal: how many, and how many of them succeeded.
    small: (u64, u64),
}

/// A database on a volume, and its acknowledged rows.
struct Life {
    name: String,
    set_up: SetUp,
    client: Client,
    chip: Shared<SimChip>,
    vfs: Option<Flash>,
    database: Option<Database>,
    others: Vec<Database>,
    expected: Rows,
}

impl Life {
    /// Makes a volume and fills it with a database.
    fn begin(client: Client, set_up: SetUp, name: String) -> Result<Life, String> {
        let part = catalogue::find("k9f1g08u0f").unwrap().clone().with_blocks(set_up.blocks);
        let chip = Shared::new(SimChip::new(&part).unwrap());
        let store = PageMapFtl::format(chip.clone(), &set_up.ftl).unwrap();
        let volume = Volume::open(store, set_up.volume).unwrap();
        let bytes = u64::from(volume.free_pages()) * 2048;
        let vfs = client.register(&name, volume);
        let others = Vec::new();
        let mut life = Life {
            name,
            set_up,
            client,
            chip,
            vfs: Some(vfs),
            database: None,
            others,
            expected: Rows::new(),
        };
        let database = life.open()?;
        let tables = "CREATE TABLE t(a INTEGER PRIMARY KEY, v); CREATE TABLE u(a INTEGER PRIMARY KEY, v)";
        database.run(tables).unwrap();
        let (mut left, mut at_most) = (bytes * life.set_up.fill / 1_000_000, 100);
        while left > 0 && at_most > 0 {
            let rows = at_most.min(left);
            match database.run(&insertion(rows)) {
                Ok(()) => left -= rows,
                Err(_) => at_most /= 4,
            }
        }
        life.expected = rows(&database).map_err(|error| format!("filled: {error}"))?;
        life.database = Some(database);
        life.others = (1..life.set_up.connections).map(|_| life.open()).collect::<Result<_, _>>()?;
        Ok(life)
    }

    fn open(&self) -> Result<Database, String> {
        let database = self.vfs.as_ref().unwrap().open("d.db").map_err(|error| format!("open: {error}"))?;
        database.run(&self.set_up.before).map_err(|error| format!("settings: {error}"))?;
        Ok(database)
    }

    fn database(&self) -> &Database {
        self.database.as_ref().unwrap()
    }

    /// Runs a statement and compares the rows that every connection reads. Returns whether the statement was
    /// refused.
    fn run(&mut self, sql: &str, tally: &mut Tally) -> Result<bool, String> {
        tally.statements += 1;
        let done = self.database().run(sql);
        let what = if done.is_err() { "refused" } else { "done" };
        match &done {
            Ok(()) => self.expected = rows(self.database()).map_err(|error| format!("done, and {error}"))?,
            Err(error) if error.is_full() => tally.refused += 1,
            Err(error) if error.to_string().contains("no such table") => {}
            Err(error) => return Err(error.to_string()),
        }
        if self.database().in_transaction() {
            self.database().run("ROLLBACK").map_err(|error| format!("ROLLBACK: {error}"))?;
        }
        judge(self.database(), &self.expected, &format!("{what}, the same connection"))?;
        for other in &self.others {
            judge(other, &self.expected, &format!("{what}, another connection"))?;
        }
        if !self.set_up.before.contains("EXCLUSIVE") {
            judge(&self.open()?, &self.expected, &format!("{what}, a new connection"))?;
        }
        Ok(done.is_err())
    }

    /// Makes a change that always has room; in WAL mode once the log has given it back.
    fn change_little(&mut self, tally: &mut Tally) -> Result<(), String> {
        let small = "UPDATE u SET v = 'x' WHERE a = 1; INSERT INTO u VALUES(NULL, 'y')";
        let mut taken = self.database().run(small);
        let is_logged = self.set_up.before.contains("WAL");
        if is_logged && taken.is_err() {
            let _ = self.database().run("PRAGMA wal_checkpoint(TRUNCATE)");
            taken = self.database().run(small);
        }
        tally.small.0 += 1;
        tally.small.1 += u64::from(taken.is_ok());
        self.expected = rows(self.database()).map_err(|error| format!("a small change: {error}"))?;
        match taken {
            // What an exclusive connection once wrote to a temporary file takes room until it is closed.
            Err(error) if !is_logged => Err(format!("a small change: {error}")),
            _ => Ok(()),
        }
    }

    /// Opens the database again, and mounts the volume if no other connection has it.
    fn mount(&mut self) -> Result<(), String> {
        self.database = None;
        if self.others.is_empty() {
            self.vfs = None;
            let store = PageMapFtl::mount(self.chip.clone(), &self.set_up.ftl).unwrap();
            let volume = Volume::open(store, self.set_up.volume).unwrap();
            self.vfs = Some(self.client.register(&self.name, volume));
        }
        self.database = Some(self.open()?);
        judge(self.database(), &self.expected, "after a mount")
    }
}

fn live(client: Client, seed: u64, journal: &'static str, tally: &mut Tally) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let set_up = SetUp::draw(&mut rng, journal);
    let told = format!("{journal}, seed {seed}: {set_up:?}");
    let mut life = Life::begin(client, set_up, format!("refusals-{journal}-{seed}"))?;
    for round in 0..4 {
        let sql = statement(&mut rng, journal);
        let tell = |what: String| format!("{told}, round {round}, {sql}: {what}");
        if life.run(&sql, tally).map_err(&tell)? {
            life.change_little(tally).map_err(&tell)?;
        }
        if rng.below(3) == 0 {
            life.mount().map_err(&tell)?;
        }
    }
    Ok(())
}

#[test]
fn a_refused_statement_leaves_nothing_behind() {
    let lives = std::env::var("NANDEX_REFUSALS").map_or(sized(2, 6), |lives| lives.parse().unwrap());
    each(|client| {
        let mut wrong = Vec::new();
        for journal in MODES {
            let mut tally = Tally::default();
            for seed in 0..lives {
                if let Err(what) = live(client, seed, journal, &mut tally) {
                    wrong.push(what);
                }
            }
            println!("{}, {journal}: {tally:?}", client.0);
        }
        assert!(wrong.is_empty(), "{} lives went wrong:\n{}", wrong.len(), wrong.join("\n"));
    });
}

//! A database workload whose chip operations are recorded, and power cuts at any of them.
#![allow(clippy::unwrap_used)]

use crate::client::Client;
use nandex::ftl::page_map::{FtlConfig, PageMapFtl};
use nandex::nand::catalogue;
use nandex::nand::sim::{CutWhen, PhysicalOp, PowerCut, SimChip, TornModel};
use nandex::rng::Rng;
use nandex::{PageStore, Shared, StoreError};
use nandex_sqlite::{Volume, VolumeConfig};
use nandex_sqlite_model::{Database, Refusal};
use std::collections::BTreeMap;

/// How a store is made of a chip, or found on it.
pub(crate) type MakeStore = fn(Shared<SimChip>, bool) -> Result<Box<dyn PageStore>, StoreError>;

/// One way to use SQLite.
#[derive(Clone)]
pub(crate) struct Mode {
    pub(crate) name: &'static str,
    pub(crate) blocks: u32,
    /// Statements executed before anything is written.
    pub(crate) before: &'static str,
    /// Run when the tables are there.
    pub(crate) after: &'static str,
    pub(crate) volume: VolumeConfig,
    pub(crate) store: MakeStore,
    pub(crate) transactions: u64,
    /// Rows of a transaction.
    pub(crate) rows: u64,
    /// Tables in two databases, written in one transaction.
    pub(crate) second: bool,
    /// Number of transactions from one `VACUUM` to the next.
    pub(crate) vacuum_each: u64,
}

impl Mode {
    pub(crate) fn new(name: &'static str) -> Mode {
        Mode {
            name,
            blocks: 16,
            before: "",
            after: "",
            volume: VolumeConfig::default(),
            store: page_map::<256>,
            transactions: 600,
            rows: 1,
            second: false,
            vacuum_each: 0,
        }
    }
}

/// The page-mapping FTL with groups of `PAGES` pages.
pub(crate) fn page_map<const PAGES: u32>(
    chip: Shared<SimChip>,
    is_new: bool,
) -> Result<Box<dyn PageStore>, StoreError> {
    let settings = FtlConfig { atomic_pages: PAGES, ..FtlConfig::default() };
    Ok(Box::new(match is_new {
        true => PageMapFtl::format(chip, &settings)?,
        false => PageMapFtl::mount(chip, &settings)?,
    }))
}

/// The contents of the database: rows by key, each with the seed of its value.
type Rows = BTreeMap<i64, u64>;

/// A value of 100 letters.
fn value(key: i64, seed: u64) -> String {
    let mut rng = Rng::new(key.cast_unsigned() ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let bytes: Vec<u8> = (0..100).map(|_| b'@' + rng.below(32) as u8).collect();
    String::from_utf8(bytes).unwrap()
}

/// Changes rows the way transaction `number` does: mostly new ones, some changed, some gone.
fn change(rows: &mut Rows, number: u64, count: u64) -> Vec<(i64, Option<u64>)> {
    let mut rng = Rng::new(number);
    let mut changes = Vec::new();
    for _ in 0..count {
        let any = rng.below(i64::MAX.cast_unsigned()).cast_signed();
        let old = rows.range(any..).next().map(|(&key, _)| key);
        let (key, seed) = match (rng.below(10), old) {
            (0, Some(key)) => (key, None),
            (1 | 2, Some(key)) => (key, Some(number)),
            _ => (any, Some(number)),
        };
        match seed {
            Some(seed) => rows.insert(key, seed),
            None => rows.remove(&key),
        };
        changes.push((key, seed));
    }
    changes
}

fn apply(database: &Database, table: &str, changes: &[(i64, Option<u64>)]) -> Result<(), Refusal> {
    for &(key, seed) in changes {
        database.run(&match seed {
            Some(seed) => format!("INSERT OR REPLACE INTO {table} VALUES({key}, '{}')", value(key, seed)),
            None => format!("DELETE FROM {table} WHERE id = {key}"),
        })?;
    }
    Ok(())
}

/// The remains of one run.
pub(crate) struct Run {
    client: Client,
    mode: Mode,
    /// The chip before the first operation of the recording.
    fresh: SimChip,
    recording: nandex::nand::sim::Recording,
    /// The rows after each number of transactions; the first state has no table.
    states: Vec<Option<Rows>>,
}

/// Runs the workload of a mode and records every operation of the chip, marked with the transactions
/// acknowledged.
pub(crate) fn record(client: Client, mode: &Mode) -> Run {
    let part = catalogue::find("k9f1g08u0f").unwrap().clone().with_blocks(mode.blocks);
    let chip = Shared::new(SimChip::new(&part).unwrap());
    let store = (mode.store)(chip.clone(), true).unwrap();
    let fresh = chip.lock().clone();
    chip.lock().start_recording();
    let vfs = client.register(mode.name, Volume::open(store, mode.volume).unwrap());
    let database = vfs.open("main.db").unwrap();
    database.run(mode.before).unwrap();
    let mut states = vec![None];
    database.run("CREATE TABLE t(id INTEGER PRIMARY KEY, value TEXT)").unwrap();
    states.push(Some(Rows::new()));
    chip.lock().mark(1);
    if mode.second {
        database.run("ATTACH 'second.db' AS two").unwrap();
        database.run("CREATE TABLE two.u(id INTEGER PRIMARY KEY, value TEXT)").unwrap();
    }
    database.run(mode.after).unwrap();
    let mut rows = Rows::new();
    for number in 0..mode.transactions {
        let changes = change(&mut rows, number, mode.rows);
        database.run("BEGIN IMMEDIATE").unwrap();
        apply(&database, "t", &changes).unwrap();
        if mode.second {
            apply(&database, "two.u", &changes).unwrap();
        }
        // Without any journal SQLite cannot take anything back.
        if number % 17 == 16 && !mode.before.contains("journal_mode=OFF") {
            // One that is taken back leaves nothing.
            database.run("SAVEPOINT a; DELETE FROM t; ROLLBACK TO a").unwrap();
        }
        states.push(Some(rows.clone()));
        database.run("COMMIT").unwrap();
        chip.lock().mark(states.len() as u64 - 1);
        if mode.vacuum_each > 0 && number % mode.vacuum_each == mode.vacuum_each - 1 {
            database.run("VACUUM").unwrap();
        }
    }
    drop(database);
    let recording = chip.lock().take_recording();
    Run { client, mode: mode.clone(), fresh, recording, states }
}

/// The outcome of a run's cuts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) cuts: u64,
    /// The commit in flight was there, whole.
    pub(crate) whole: u64,
    pub(crate) wrong: Vec<String>,
}

impl Run {
    /// Recorded operations of the chip, and how many of them were erases.
    pub(crate) fn operations(&self) -> (usize, usize) {
        let operations = &self.recording.operations;
        let erases = operations.iter().filter(|recorded| matches!(recorded.op, PhysicalOp::Erase { .. }));
        (operations.len(), erases.count())
    }

    /// Cuts the power at `cuts` operations, spread evenly, with each kind of cut in turn.
    pub(crate) fn cut(&self, cuts: u64) -> Outcome {
        let mut chip = self.fresh.clone();
        let operations = &self.recording.operations;
        let mut outcome = Outcome::default();
        let mut next = 0;
        for number in 0..cuts {
            let mut rng = Rng::new(number);
            let last = operations.len() as u64 - 1;
            let place = ((number * last + rng.below(last)) / cuts.max(1)).min(last) as usize;
            while next < place {
                chip.replay(&operations[next]).unwrap();
                next += 1;
            }
            let when =
                [CutWhen::Inside, CutWhen::Before, CutWhen::Inside, CutWhen::After][number as usize % 4];
            let mut cut = chip.clone();
            let struck = &operations[place];
            match when {
                CutWhen::Before => {}
                CutWhen::Inside => {
                    let torn = TornModel::ALL[(number / 4) as usize % 4];
                    cut.apply_torn(&struck.op, torn, number).unwrap();
                }
                CutWhen::After => cut.replay(struck).unwrap(),
            }
            outcome.cuts += 1;
            let acknowledged = struck.mark as usize;
            if number % 3 == 0 {
                cut = self.cut_again(cut, number);
            }
            match self.judge(cut, acknowledged, number % 8 == 0) {
                Ok(found) => outcome.whole += u64::from(found > acknowledged),
                Err(what) => outcome
                    .wrong
                    .push(format!("{}: cut {number} at {place}, {when:?}: {what}", self.mode.name)),
            }
        }
        outcome
    }

    /// Cuts the power again while the chip is mounted and opened after a cut.
    fn cut_again(&self, mut chip: SimChip, number: u64) -> SimChip {
        let at_operation = chip.operations() + number % 7;
        let torn = TornModel::ALL[(number / 3) as usize % 4];
        chip.plan_power_cut(PowerCut { at_operation, when: CutWhen::Inside, torn, seed: number });
        let chip = Shared::new(chip);
        // It fails, or did not come to the operation: the next mount has to cope with either.
        let _ = self.open_and_judge(&chip, 0, true);
        let mut left = chip.lock().clone();
        left.power_on();
        // One that has not struck never will.
        left.plan_power_cut(PowerCut { at_operation: 0, when: CutWhen::Inside, torn, seed: 0 });
        left
    }

    /// Mounts the chip after a cut and returns the number of the state it is in.
    fn judge(&self, chip: SimChip, acknowledged: usize, goes_on: bool) -> Result<usize, String> {
        self.open_and_judge(&Shared::new(chip), acknowledged, goes_on)
    }

    fn open_and_judge(
        &self,
        chip: &Shared<SimChip>,
        acknowledged: usize,
        goes_on: bool,
    ) -> Result<usize, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let store = (self.mode.store)(chip.clone(), false).map_err(|e| text(&e))?;
        let volume = Volume::open(store, self.mode.volume).map_err(|e| text(&e))?;
        let vfs = self.client.register(&format!("{}-cut", self.mode.name), volume);
        let database = vfs.open("main.db").map_err(|e| text(&e))?;
        let found = self.state_of(&database, acknowledged)?;
        if goes_on {
            let more = "CREATE TABLE IF NOT EXISTS more(x); INSERT INTO more VALUES(randomblob(5000)); PRAGMA wal_checkpoint";
            database.run(more).map_err(|e| format!("cannot go on: {e}"))?;
            require_whole(&database)?;
        }
        Ok(found)
    }

    fn state_of(&self, database: &Database, acknowledged: usize) -> Result<usize, String> {
        if self.mode.before.contains("WAL") {
            database.run("PRAGMA locking_mode=EXCLUSIVE").map_err(|e| e.to_string())?;
        }
        require_whole(database)?;
        let main = rows_of(database, "t")?;
        if self.mode.second {
            database.run("ATTACH 'second.db' AS two").map_err(|e| e.to_string())?;
            require_whole(database)?;
            let second = rows_of(database, "two.u")?;
            if main.as_ref().is_some_and(|rows| !rows.is_empty()) && main != second {
                return Err(String::from("the databases disagree"));
            }
        }
        let is = |(line, (key, seed)): (&String, (&i64, &u64))| {
            line.split_once(' ') == Some((&*key.to_string(), &*value(*key, *seed)))
        };
        let fits = |state: usize| match (self.states.get(state), &main) {
            (Some(None), None) => true,
            (Some(Some(rows)), Some(main)) => rows.len() == main.len() && main.iter().zip(rows).all(is),
            _ => false,
        };
        let found = [acknowledged, acknowledged + 1].into_iter().find(|&state| fits(state));
        found.ok_or_else(|| {
            let count = main.as_ref().map(Vec::len);
            format!(
                "neither the {acknowledged} transactions that were acknowledged nor one more: {count:?} rows"
            )
        })
    }
}

fn require_whole(database: &Database) -> Result<(), String> {
    match database.read("PRAGMA integrity_check") {
        Ok(verdict) if verdict == ["ok"] => Ok(()),
        Ok(verdict) => Err(format!("integrity_check: {verdict:?}")),
        Err(error) => Err(format!("integrity_check: {error}")),
    }
}

/// All rows of a table, one a line; `None` if the table does not exist.
fn rows_of(database: &Database, table: &str) -> Result<Option<Vec<String>>, String> {
    let schema = table.strip_suffix(".u").unwrap_or("main");
    let there = format!("SELECT name FROM {schema}.sqlite_schema WHERE name IN ('t', 'u')");
    let read = |sql: &str| database.read(sql).map_err(|error| error.to_string());
    if read(&there)?.is_empty() {
        return Ok(None);
    }
    read(&format!("SELECT id || ' ' || value FROM {table} ORDER BY id")).map(Some)
}

//! A life: its steps are done on the volume and in memory, and both are compared.

use crate::counts::Counts;
use crate::draw::{SetUp, Step};
use crate::engine::{Cut, Engine, No, Side};

/// The contents of the two databases, a line for each fact.
type State = [Vec<String>; 2];

const DATABASES: [&str; 2] = ["main", "two"];

/// The database that fills the volume.
const FILLER: &str = "filler.db";
const COPY: &str = "copy.db";

const NONE: &str = "no room for what takes none";

/// Why a step ended early.
enum Stop {
    /// The power was cut. The state is the one that a mount may find instead of the state before.
    Off(Option<State>),
    /// No room; in a transaction reads write pages that the cache has no room for.
    Full,
    Wrong(String),
}

impl From<No> for Stop {
    fn from(no: No) -> Stop {
        match no {
            No::Off => Stop::Off(None),
            No::Full => Stop::Full,
            No::Said(why) => Stop::Wrong(why),
        }
    }
}

pub(crate) struct Life<'a> {
    engine: Box<dyn Engine>,
    set_up: &'a SetUp,
    counts: Counts,
    has_two: bool,
}

impl<'a> Life<'a> {
    pub(crate) fn new(engine: Box<dyn Engine>, set_up: &'a SetUp) -> Life<'a> {
        let counts = Counts { lives: 1, ..Counts::default() };
        Life { engine, set_up, counts, has_two: false }
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    pub(crate) fn run(&mut self, steps: &[Step]) -> Result<(), String> {
        self.begin().map_err(|stop| match stop {
            Stop::Wrong(why) => format!("the beginning: {why}"),
            Stop::Off(_) => String::from("the beginning: the power is off"),
            Stop::Full => String::from("the beginning: no room"),
        })?;
        for (number, step) in steps.iter().enumerate() {
            let done = self.step(step).or_else(|stop| match stop {
                Stop::Full if self.engine.in_transaction(Side::Plain) => self.give_up(),
                stop => Err(stop),
            });
            let done = match done {
                Err(Stop::Off(after)) => self.recover(after),
                Err(Stop::Full) => Err(String::from(NONE)),
                Err(Stop::Wrong(why)) => Err(why),
                Ok(()) => Ok(()),
            };
            done.map_err(|why| format!("step {number}, {step:?}: {why}"))?;
        }
        Ok(())
    }

    /// Fills the volume, and makes both databases.
    fn begin(&mut self) -> Result<(), Stop> {
        self.engine.mount(FILLER)?;
        if self.set_up.filled > 0 {
            self.fill()?;
        }
        self.engine.run(Side::Plain, "ATTACH ':memory:' AS two")?;
        self.engine.run(Side::Plain, "PRAGMA recursive_triggers=0")?;
        self.open()
    }

    fn fill(&mut self) -> Result<(), Stop> {
        let rows = self.engine.bytes() * self.set_up.filled / 1000 / 4000;
        self.engine.run(Side::Flash, "PRAGMA page_size=4096")?;
        self.engine.run(Side::Flash, "CREATE TABLE filler(v)")?;
        let (mut left, mut most) = (rows, 64);
        while left > 0 && most > 0 {
            let count = left.min(most);
            let sql = format!(
                "INSERT INTO filler WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT {count}) \
                 SELECT randomblob(3900) FROM n"
            );
            match self.engine.run(Side::Flash, &sql) {
                Ok(()) => left -= count,
                // The last bit of room is left for the databases to begin.
                Err(No::Full) => most /= 4,
                Err(no) => return Err(no.into()),
            }
        }
        Ok(())
    }

    /// Mounts, opens both databases, and sets the pragmas of the connections.
    fn open(&mut self) -> Result<(), Stop> {
        self.counts.mounts += 1;
        self.engine.mount("main.db")?;
        let locking = self.set_up.locking.clone();
        self.engine.read(Side::Flash, &locking)?;
        let attach = format!("ATTACH '{}' AS two", self.engine.uri("two.db"));
        self.engine.run(Side::Flash, &attach)?;
        for sql in self.set_up.first.iter().chain(&self.set_up.always) {
            match self.engine.read(Side::Flash, sql) {
                Ok(_) => {}
                // There is no room for the first page of a log, or of a database.
                Err(No::Full) if sql.contains("journal_mode") || sql.contains("auto_vacuum") => {}
                Err(No::Full) => return Err(Stop::Wrong(format!("no room for {sql}"))),
                Err(no) => return Err(no.into()),
            }
        }
        self.has_two = true;
        Ok(())
    }

    /// Mounts after a cut, and decides which of two states the volume has.
    fn recover(&mut self, after: Option<State>) -> Result<(), String> {
        self.counts.cuts += 1;
        let plain_after = after.is_some() && self.engine.in_transaction(Side::Plain);
        for _ in 0..4 {
            let opened = self.open().and_then(|()| self.state(Side::Flash).map_err(Stop::from));
            let found = match opened {
                Ok(found) => found,
                Err(Stop::Off(_)) => continue,
                Err(Stop::Full) => return Err(format!("the mount after a cut: {NONE}")),
                Err(Stop::Wrong(why)) => return Err(format!("the mount after a cut: {why}")),
            };
            let is_after = plain_after && after.as_ref() == Some(&found);
            if self.engine.in_transaction(Side::Plain) {
                let end = if is_after { "COMMIT" } else { "ROLLBACK" };
                self.engine.run(Side::Plain, end).map_err(|no| format!("{no:?}"))?;
            }
            self.counts.whole += u64::from(is_after);
            match self.compare("after a cut") {
                Err(Stop::Off(_)) => continue,
                Err(Stop::Full) => return Err(String::from(NONE)),
                Err(Stop::Wrong(why)) => return Err(why),
                Ok(()) => return Ok(()),
            }
        }
        Err(String::from("the power fails again and again"))
    }

    fn step(&mut self, step: &Step) -> Result<(), Stop> {
        let in_transaction = self.engine.in_transaction(Side::Flash);
        match step {
            Step::Sql(sql) => self.sql(sql),
            Step::Cut(cut) => {
                let cut: Cut = *cut;
                self.engine.plan_cut(cut);
                Ok(())
            }
            Step::Mount if in_transaction => Ok(()),
            Step::Mount => {
                self.open()?;
                self.compare("after a mount")
            }
            Step::Look => self.compare("in the middle"),
            Step::BackUp | Step::Into | Step::Room if in_transaction => Ok(()),
            Step::BackUp => {
                let done = self.engine.back_up(COPY);
                self.copied(done)
            }
            Step::Into => {
                let sql = format!("VACUUM main INTO '{}'", self.engine.uri(COPY));
                let done = self.engine.run(Side::Flash, &sql);
                self.copied(done)
            }
            Step::Room => self.remove(FILLER),
        }
    }

    /// Compares a copy of the main database with it and removes the copy.
    fn copied(&mut self, done: Result<(), No>) -> Result<(), Stop> {
        match done {
            Ok(()) => {
                let attach = format!("ATTACH '{}' AS copy", self.engine.uri(COPY));
                self.engine.run(Side::Flash, &attach)?;
                let copied = self.facts(Side::Flash, "copy")?;
                let original = self.facts(Side::Plain, "main")?;
                self.engine.run(Side::Flash, "DETACH copy")?;
                differ(&copied, &original, "a copy").map_or(Ok(()), |why| Err(Stop::Wrong(why)))?;
                self.counts.copies += 1;
            }
            Err(No::Full) => {
                self.counts.refused += 1;
                self.compare("after a copy was refused")?;
            }
            // A cut left a copy.
            Err(No::Said(why)) if why.contains("already exists") => {}
            Err(no) => return Err(no.into()),
        }
        self.remove(COPY)
    }

    fn remove(&mut self, name: &str) -> Result<(), Stop> {
        match self.engine.read(Side::Flash, &format!("PRAGMA nandex_remove='{name}'")) {
            Err(No::Off) => Err(Stop::Off(None)),
            // It may be gone, and a full volume may keep it.
            _ => Ok(()),
        }
    }

    fn sql(&mut self, sql: &str) -> Result<(), Stop> {
        match self.engine.run(Side::Flash, sql) {
            Err(No::Off) => Err(Stop::Off(self.state_after(sql)?)),
            Err(No::Full) => self.refused(sql),
            done => {
                let wanted = self.engine.run(Side::Plain, sql);
                if done != wanted {
                    return Err(Stop::Wrong(format!("{done:?}, and {wanted:?} was right")));
                }
                match done.is_ok() {
                    true => self.counts.changes += 1,
                    false => self.counts.agreed_errors += 1,
                }
                let open = [Side::Flash, Side::Plain].map(|side| self.engine.in_transaction(side));
                match open {
                    [false, false] => self.compare("after it"),
                    [true, true] => Ok(()),
                    _ => Err(Stop::Wrong(format!("in a transaction: {open:?}"))),
                }
            }
        }
    }

    /// Finds the state to which a statement leads that the power cut interrupted. The plain database stays in
    /// a transaction until the outcome is known.
    fn state_after(&mut self, sql: &str) -> Result<Option<State>, Stop> {
        if self.engine.in_transaction(Side::Plain) {
            if !sql.starts_with("COMMIT") && !sql.starts_with("RELEASE") {
                return Ok(None);
            }
        } else {
            self.engine.run(Side::Plain, "BEGIN")?;
            // VACUUM is none for transactions, and changes nothing.
            let _ = self.engine.run(Side::Plain, sql);
        }
        Ok(Some(self.state(Side::Plain)?))
    }

    /// Handles a statement refused for want of room: checks that nothing of it is there, and ends its
    /// transaction.
    fn refused(&mut self, sql: &str) -> Result<(), Stop> {
        self.counts.refused += 1;
        // The RELEASE of an outermost savepoint commits; refused, it leaves a transaction with nothing in it.
        let is_empty = sql.starts_with("RELEASE");
        if self.engine.in_transaction(Side::Flash) && !is_empty {
            self.compare("in the transaction of what was refused")?;
            if self.counts.refused.is_multiple_of(2) {
                match self.engine.run(Side::Flash, "COMMIT") {
                    Err(No::Off) => return Err(Stop::Off(self.state_after("COMMIT")?)),
                    Err(No::Full) => {}
                    done => {
                        done?;
                        self.engine.run(Side::Plain, "COMMIT")?;
                    }
                }
            }
        }
        self.give_up()
    }

    /// True if a COMMIT was done although it was refused. This can happen if each database commits by itself.
    /// `BEGIN IMMEDIATE` begins both, and an empty database gets its first page at its commit, for which
    /// there may be no room once the other has committed.
    fn is_done_apart(&mut self) -> Result<bool, Stop> {
        let has_ended = !self.engine.in_transaction(Side::Flash) && self.engine.in_transaction(Side::Plain);
        if !has_ended || self.set_up.is_joint() {
            return Ok(false);
        }
        let mut is_empty = false;
        for database in DATABASES {
            let pages = self.engine.read(Side::Flash, &format!("PRAGMA {database}.page_count"))?;
            is_empty |= pages == ["0"];
        }
        Ok(is_empty && self.state(Side::Flash)? == self.state(Side::Plain)?)
    }

    /// Ends the transaction of both, if there is one.
    fn give_up(&mut self) -> Result<(), Stop> {
        if self.is_done_apart()? {
            self.engine.run(Side::Plain, "COMMIT")?;
        }
        for side in [Side::Flash, Side::Plain] {
            if self.engine.in_transaction(side) {
                self.engine.run(side, "ROLLBACK")?;
            }
        }
        self.compare("after a refusal")
    }

    fn compare(&mut self, when: &str) -> Result<(), Stop> {
        for database in DATABASES {
            let found = self.facts(Side::Flash, database)?;
            let wanted = self.facts(Side::Plain, database)?;
            if let Some(why) = differ(&found, &wanted, &format!("{when}: {database}")) {
                return Err(Stop::Wrong(why));
            }
            let whole = self.engine.read(Side::Flash, &format!("PRAGMA {database}.integrity_check"))?;
            if whole != ["ok"] {
                return Err(Stop::Wrong(format!("{when}: {database}: integrity_check: {}", whole[0])));
            }
        }
        Ok(())
    }

    fn state(&mut self, side: Side) -> Result<State, No> {
        Ok([self.facts(side, "main")?, self.facts(side, "two")?])
    }

    /// The schema of a database, and all rows of all tables in order.
    fn facts(&mut self, side: Side, database: &str) -> Result<Vec<String>, No> {
        // Tables of FTS5 are its own affair, and VACUUM INTO leaves out a sequence that is empty.
        let schema = format!(
            "{database}.sqlite_schema WHERE name NOT LIKE 'f\\_%' ESCAPE '\\' AND name <> 'sqlite_sequence'"
        );
        let sql =
            format!("SELECT type || ' ' || name || ' ' || tbl_name || ' ' || ifnull(sql, '') FROM {schema}");
        let mut facts = self.engine.read(side, &format!("{sql} ORDER BY type, name"))?;
        let columns = format!(
            "(SELECT group_concat('quote(\"' || c.name || '\")', '||'' ''||') \
             FROM pragma_table_info(m.name, '{database}') c)"
        );
        // In the order of the table itself: a sort would take room of the volume.
        let key = "CASE name WHEN 'f' THEN 'rowid' WHEN 'l' THEN 'n' ELSE 'id' END";
        let selects = format!(
            "SELECT 'SELECT ''' || name || ': ''||' || {columns} || ' FROM {database}.' || name || ' ORDER BY ' || {key} \
             FROM {} AND type = 'table' ORDER BY name",
            schema.replace("sqlite_schema", "sqlite_schema m")
        );
        for select in self.engine.read(side, &selects)? {
            facts.extend(self.engine.read(side, &select)?);
        }
        if facts.iter().any(|fact| fact.starts_with("table f f ")) {
            let found =
                format!("SELECT rowid || ' ' || x FROM {database}.f WHERE f MATCH 'w7' ORDER BY rowid");
            facts.extend(self.engine.read(side, &found)?);
        }
        facts.extend(self.engine.read(side, &format!("PRAGMA {database}.user_version"))?);
        Ok(facts)
    }
}

/// Message about the first difference between two lists of facts.
fn differ(found: &[String], wanted: &[String], what: &str) -> Option<String> {
    if found == wanted {
        return None;
    }
    let same = found.iter().zip(wanted).take_while(|(a, b)| a == b).count();
    let short = |facts: &[String]| {
        facts.get(same).map_or(String::from("the end"), |fact| fact.chars().take(80).collect())
    };
    let (a, b) = (short(found), short(wanted));
    let (found, wanted) = (found.len(), wanted.len());
    Some(format!("{what}: {found} facts, and {wanted} were right; number {same} is `{a}`, not `{b}`"))
}

//! Processes: a killed process loses nothing that it acknowledged, and only one process at a time has an
//! image. Each case runs with the linked SQLite and, through the extension, with that of python3.
#![allow(clippy::unwrap_used, clippy::print_stdout)]
#![cfg(feature = "bundled")]

use crate::extension_here::extension;
use nandex_sqlite_model::{Program, Sqlite, serve};
use std::path::Path;

/// Environment variable that makes another run of this test a server process.
const SERVE: &str = "NANDEX_SERVE";

#[test]
fn serves() {
    if std::env::var_os(SERVE).is_some() {
        serve(Sqlite::linked().unwrap()).unwrap();
    }
}

/// Runs a case with each SQLite.
fn each(case: impl Fn(&Program, &Path)) {
    let own = Program::own(&["--exact", "processes::serves", "--nocapture"], (SERVE, "1")).unwrap();
    case(&own, tempfile::tempdir().unwrap().path());
    match Program::python(&extension()) {
        Ok(python) => case(&python, tempfile::tempdir().unwrap().path()),
        Err(why) => println!("skipped: {why}"),
    }
}

fn uri(image: &Path) -> String {
    format!("file:a.db?vfs=nandex&device={}&sync=0&size=16M", image.display())
}

/// A value that follows from the number of its row, of 100 bytes and more.
const VALUE: &str = "substr(printf('%01000d', id * 7), 1, 100 + id % 900)";

/// Transactions sent to a process but not yet answered when it is killed.
const AHEAD: u64 = 40;

/// Number of rows in the table.
const KEPT: u64 = 300;

/// Inserts rows, `rows` in a transaction, and kills the process after `commits` commits. Returns the last
/// acknowledged row.
fn kill_after(program: &Program, image: &Path, pragmas: &str, rows: u64, commits: u64) -> u64 {
    let mut process = program.start().unwrap();
    process.ask(&format!("open {}", uri(image))).unwrap();
    let table = "CREATE TABLE IF NOT EXISTS t(id INTEGER PRIMARY KEY, v BLOB)";
    for sql in pragmas.split(';').chain([table]) {
        process.ask(&format!("run {sql}")).unwrap();
    }
    let last: u64 = process.ask("run SELECT ifnull(max(id), 0) FROM t").unwrap()[0].parse().unwrap();
    for number in 0..commits + AHEAD {
        let first = last + number * rows + 1;
        let series = format!("n(id) AS (SELECT {first} UNION ALL SELECT id + 1 FROM n LIMIT {rows})");
        process.send("run BEGIN");
        process.send(&format!("run INSERT INTO t WITH RECURSIVE {series} SELECT id, {VALUE} FROM n"));
        process.send(&format!("run DELETE FROM t WHERE id < {first} + {rows} - {KEPT}"));
        process.send("run COMMIT");
    }
    let mut answers = 0;
    while answers < 4 * commits {
        process.hear().unwrap();
        answers += 1;
    }
    process.kill();
    // What it told before it died was acknowledged as well.
    while process.hear().is_ok() {
        answers += 1;
    }
    last + answers / 4 * rows
}

/// The last row. Checks that only whole transactions are there.
fn last_of(program: &Program, image: &Path, rows: u64) -> u64 {
    let mut process = program.start().unwrap();
    process.ask(&format!("open {}&create=0", uri(image))).unwrap();
    // A write-ahead log without shared memory is for one connection.
    process.ask("run PRAGMA locking_mode=EXCLUSIVE").unwrap();
    assert_eq!(process.ask("run PRAGMA integrity_check").unwrap(), ["ok"]);
    let counts = format!("count(*) || ' ' || sum(v = {VALUE}) || ' ' || min(id) || ' ' || max(id)");
    let told = process.ask(&format!("run SELECT {counts} FROM t")).unwrap().remove(0);
    let numbers: Vec<u64> = told.split(' ').map(|number| number.parse().unwrap()).collect();
    let last = numbers[3];
    let kept = KEPT.min(last);
    assert_eq!(numbers, [kept, kept, last + 1 - kept, last], "number, whole ones, first, last");
    assert_eq!(last % rows, 0, "{last} is no whole transaction of {rows}");
    last
}

#[test]
fn one_that_is_killed_loses_nothing() {
    let ways = [
        ("PRAGMA journal_mode=MEMORY", 1, 40),
        ("PRAGMA journal_mode=DELETE", 1, 57),
        ("PRAGMA locking_mode=EXCLUSIVE", 1, 31),
        ("PRAGMA journal_mode=MEMORY", 50, 9),
        ("PRAGMA cache_size=10", 250, 5),
        ("PRAGMA synchronous=OFF", 1, 23),
        ("PRAGMA locking_mode=EXCLUSIVE;PRAGMA journal_mode=WAL", 1, 44),
        ("PRAGMA locking_mode=EXCLUSIVE;PRAGMA journal_mode=DELETE", 1, 5),
    ];
    each(|program, folder| {
        for (pragmas, rows, commits) in ways {
            // Rows are numbered on, so that a database of other transactions is another image.
            let image = folder.join(rows.to_string());
            let acknowledged = kill_after(program, &image, pragmas, rows, commits);
            let found = last_of(program, &image, rows);
            let version = program.version();
            println!("SQLite {version}, {pragmas}, {rows} rows: {acknowledged} acknowledged, {found} found");
            assert!(found >= acknowledged, "what was acknowledged is there");
            assert!(found <= acknowledged + rows, "more than the one transaction in flight");
        }
    });
}

#[test]
fn an_image_belongs_to_one() {
    each(|program, folder| {
        let uri = uri(&folder.join("chip.img"));
        let (mut first, mut second) = (program.start().unwrap(), program.start().unwrap());
        first.ask(&format!("open {uri}")).unwrap();
        first.ask("run CREATE TABLE t(a)").unwrap();
        second.ask(&format!("open {uri}")).unwrap();
        second.ask("run PRAGMA busy_timeout=0").unwrap();
        let refused = second.ask("run SELECT * FROM t").unwrap_err();
        assert_eq!(refused.to_string(), "database is locked");
        first.ask("close").unwrap();
        assert!(second.ask("run SELECT * FROM t").unwrap().is_empty());
    });
}

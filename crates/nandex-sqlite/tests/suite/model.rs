//! Lives of random SQL (`nandex-sqlite-model`): in the linked SQLite, in the system's shared library, and
//! through the extension in python3, whose process is killed.
//!
//! A failure is reported as the shortest list of steps. `nandex torture --sqlite` runs more lives.
#![allow(clippy::unwrap_used, clippy::print_stdout)]
#![cfg(feature = "bundled")]

use crate::extension_here::extension;
use crate::sizes::sized;
use nandex_sqlite_model::{Counts, Program, Sqlite, Way};

/// Seeds that failed once: a database in MEMORY mode beside one that gets its first page; a copy of a
/// database in WAL mode over another; the RELEASE of an outermost savepoint that finds no room.
const ONCE: [u64; 3] = [10_236, 20_423, 31_914];

/// Runs the lives of `lives` seeds and panics with the shortest failing steps of each.
fn live_all(lives: u64, way: &Way) -> Counts {
    let first = std::env::var("NANDEX_SEED").ok().map_or(1, |text| text.parse::<u64>().unwrap());
    let (mut sum, mut wrong) = (Counts::default(), Vec::new());
    for seed in first..first + lives {
        let (counts, finding) = way.live(seed);
        sum.add(counts);
        wrong
            .extend(finding.map(|finding| format!("seed {seed}: {}\n{}", finding.what, way.least(&finding))));
    }
    println!("{way}: {sum}, {} findings", wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    sum
}

fn require_hard(counts: Counts) {
    let many = counts.changes > 300 && counts.mounts > 30 && counts.cuts > 5;
    let hard = counts.refused > 10 && counts.agreed_errors > 0 && counts.copies > 2;
    assert!(many && hard, "{counts:?}");
}

#[test]
fn a_volume_holds_what_an_ordinary_database_holds() {
    require_hard(live_all(24, &Way::InProcess(Sqlite::linked().unwrap())));
}

#[test]
fn it_does_so_with_the_sqlite_of_the_system() {
    match Sqlite::shared(None) {
        Ok(sqlite) => require_hard(live_all(24, &Way::InProcess(sqlite))),
        Err(why) => println!("skipped: {why}"),
    }
}

#[test]
fn the_extension_holds_it_too() {
    match Program::python(&extension()) {
        Ok(python) => {
            let counts = live_all(6, &Way::Process(python));
            assert!(counts.changes > 50 && counts.mounts > 5, "{counts:?}");
        }
        Err(why) => println!("skipped: {why}"),
    }
}

#[test]
fn lives_that_once_went_wrong_go_well() {
    let way = Way::InProcess(Sqlite::linked().unwrap());
    for seed in ONCE {
        let found = way.live(seed).1.map(|finding| finding.what);
        assert_eq!(found, None, "seed {seed}");
    }
}

#[test]
fn a_volume_that_is_not_safe_is_found_out() {
    let way = Way::InProcess(Sqlite::linked().unwrap());
    let lives = sized(25, 60);
    let found = (1..=lives).filter(|&seed| way.finds_out(seed)).count();
    println!("{found} of {lives} lives are found out");
    assert!(found > sized(1, 3), "{found}");
}

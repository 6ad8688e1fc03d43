//! Random SQL on a volume and on an ordinary database in memory of the same SQLite: tables, indexes,
//! triggers, savepoints, FTS5, JSON, a second database, backups, VACUUM, every journal mode, pages of 512 to
//! 65,536 bytes, volumes 20 to 100 % full, refusals, power cuts. After each transaction, refusal and mount
//! all contents are compared. The same lives go through the SQLite that is linked in, and through the
//! extension in that of python3, whose process is killed.
//!
//! `NANDEX_MODEL=COUNT` lives so many of each, from `NANDEX_SEED` on; what goes wrong is told as the least
//! list of steps.
#![allow(clippy::unwrap_used, clippy::print_stdout)]
#![cfg(feature = "bundled")]

mod client;
mod draw;
mod engine;
mod life;
mod linked;

use draw::{SetUp, Step};
use engine::Engine;
use life::{Counts, Life};
use nandex_sqlite::Commits;

/// How a life gets its databases; `None` where the set-up fits no chip.
type Make<'a> = &'a dyn Fn(&SetUp) -> Option<Box<dyn Engine>>;

/// Lives that a list of steps is lived anew to make it shorter.
const TRIES: usize = 300;

/// The life of a list of steps: its counts, and what went wrong.
fn live(set_up: &SetUp, steps: &[Step], make: Make<'_>) -> (Counts, Option<String>) {
    let Some(engine) = make(set_up) else { return (Counts { unfit: 1, ..Counts::default() }, None) };
    let mut life = Life::new(engine, set_up);
    let found = life.run(steps).err();
    (life.counts(), found)
}

/// The least list of steps with which something goes wrong.
fn shrunk(set_up: &SetUp, mut steps: Vec<Step>, make: Make<'_>) -> Vec<Step> {
    let mut tries = 0;
    let mut part = steps.len().div_ceil(2);
    while part > 0 && tries < TRIES {
        let mut from = 0;
        while from < steps.len() && tries < TRIES {
            let mut fewer = steps.clone();
            fewer.drain(from..(from + part).min(fewer.len()));
            tries += 1;
            match live(set_up, &fewer, make).1 {
                Some(_) => steps = fewer,
                None => from += part,
            }
        }
        part /= 2;
    }
    steps
}

/// Lives the lives of some seeds; refuses what went wrong, with the least of each.
fn live_all(usual: u64, make: Make<'_>) -> Counts {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let (first, lives) = (number("NANDEX_SEED").unwrap_or(1), number("NANDEX_MODEL").unwrap_or(usual));
    let (mut sum, mut wrong) = (Counts::default(), Vec::new());
    for seed in first..first + lives {
        let (set_up, steps) = draw::life(seed);
        let (counts, found) = live(&set_up, &steps, make);
        sum.add(counts);
        if let Some(what) = found {
            let least = shrunk(&set_up, steps, make);
            let again = live(&set_up, &least, make).1;
            let lines: Vec<String> = least.iter().map(|step| format!("  {step:?}")).collect();
            let what = format!("seed {seed}: {what}\n{set_up:?}\nthe least: {again:?}\n{}", lines.join("\n"));
            println!("{what}");
            wrong.push(what);
        }
    }
    println!("{sum:?}, {} findings", wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    sum
}

#[test]
fn a_volume_holds_what_an_ordinary_database_holds() {
    let make = |set_up: &SetUp| Some(Box::new(linked::Linked::new(set_up)?) as Box<dyn Engine>);
    let counts = live_all(24, &make);
    let many = counts.changes > 300 && counts.mounts > 30 && counts.cuts > 5;
    let hard = counts.refused > 10 && counts.agreed_errors > 0 && counts.copies > 2;
    assert!(counts.lives < 24 || many && hard, "{counts:?}");
}

#[test]
fn the_extension_holds_it_too() {
    let python = match client::probe() {
        Ok(python) => python,
        Err(why) => return println!("skipped: {why}"),
    };
    let make = |set_up: &SetUp| Some(Box::new(client::Client::new(&python, set_up)) as Box<dyn Engine>);
    let counts = live_all(6, &make);
    assert!(counts.lives < 6 || counts.changes > 50 && counts.mounts > 5, "{counts:?}");
}

/// A database in MEMORY mode beside one that gets its first page, and the copy of one in WAL mode over another.
const ONCE: [u64; 2] = [10_236, 20_423];

#[test]
fn lives_that_once_went_wrong_go_well() {
    for seed in ONCE {
        let (set_up, steps) = draw::life(seed);
        let make = |set_up: &SetUp| Some(Box::new(linked::Linked::new(set_up)?) as Box<dyn Engine>);
        assert_eq!(live(&set_up, &steps, &make).1, None, "seed {seed}");
    }
}

#[test]
fn a_volume_that_is_not_safe_is_found_out() {
    let mut found = 0;
    for seed in 1..=60 {
        let (mut set_up, steps) = draw::life(seed);
        set_up.volume.commits = Commits::PageByPage;
        set_up.name += "-unsafe";
        let make = |set_up: &SetUp| Some(Box::new(linked::Linked::new(set_up)?) as Box<dyn Engine>);
        found += u64::from(live(&set_up, &steps, &make).1.is_some());
    }
    println!("{found} of 60 lives are found out");
    assert!(found > 3, "{found}");
}

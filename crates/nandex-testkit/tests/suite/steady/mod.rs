//! An operation of an open index asks the heap for nothing, but for those of `asks.csv`.
//!
//! Each subject is filled, closed and mounted, and works until it is in a steady state. Then the requests of
//! each kind of operation are counted, garbage collection, merges and checkpoints among them. A row of
//! `asks.csv` says how often a hundred operations may ask in a class of durability; an operation without a
//! row may not ask. `check` and `stats` are no such operations: they make a report. `first`, `last` and
//! `seek` are those of a cursor, which asks for the records of a walk.
//!
//! The gate counts what a product links in its strongest class; the nightly run counts everything, and finds
//! rows that are larger than they need be. `NANDEX_BLESS=1 NANDEX_NIGHTLY=1 cargo test -p nandex-testkit
//! --test suite steady::` makes those smaller. It makes no row larger, and adds none.

#![allow(clippy::unwrap_used)]

mod tally;
mod work;

use crate::sizes::sized;
use nandex::nand::sim::SimChip;
use nandex::nand::{Geometry, Nand, Part, catalogue};
use nandex::ordered::{Durability, RecordFormat};
use nandex::{IndexError, Shared, StoreError};
use nandex_stacks::needed::ram_needed;
use nandex_stacks::options::Settings;
use nandex_stacks::registry::{Holds, IndexEntry, STORES, StoreEntry, subjects};
use nandex_stacks::spatial::{SPATIAL, SpatialEntry};
use nandex_testkit::Apart;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use work::{Ordered, Pages, Rounds, Spatial, asked};

const RECORD: RecordFormat = RecordFormat::new(4, 12);
/// RAM beyond the least.
const RAM_MORE: usize = 8 << 10;
/// Rounds before those that are counted, and those.
const ROUNDS: (u64, u64) = (1_500, 1_000);
/// Subjects that firmware links; these are counted in the gate.
const PRODUCT: [&str; 11] = [
    "mu",
    "wandering",
    "vmtree",
    "vmtree-ow",
    "sbits",
    "plow",
    "furrow",
    "bplus",
    "bplus on dftl",
    "r-tree",
    "hilbert",
];
const CLASSES: [Durability; 3] = [Durability::EveryOperation, Durability::EverySync, Durability::None];
const ROWS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/suite/steady/asks.csv");
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/firmware.md");
const HEAD: &str = "subject,class,operation,requests of a hundred";

/// Subject, class and operation.
type Row = [String; 3];
/// Requests of a hundred operations.
type Asks = BTreeMap<Row, usize>;

fn part(blocks: u32) -> Part {
    let mut part = catalogue::mlc_64m();
    part.geometry = Geometry::new(2048, 64, 16, blocks);
    part
}

/// A chip that is made anew for each class, and its handles.
struct Bench {
    chip: Shared<SimChip>,
}

impl Bench {
    fn of(part: &Part) -> Bench {
        Bench { chip: Shared::new(SimChip::new(part).unwrap()) }
    }

    fn handle(&self) -> Box<dyn Nand> {
        Box::new(Apart::new(self.chip.clone()))
    }
}

/// An index with settings, filled and mounted; `None` if it does not have this class.
fn index(entry: &IndexEntry, mut settings: Settings) -> Option<Box<dyn Rounds>> {
    // Values have half of the chip for themselves.
    let part = entry.suited(part(if entry.holds == Holds::LongValues { 640 } else { 64 }));
    let least = match ram_needed(entry, &part, &settings) {
        Ok(least) => least,
        Err(IndexError::Unsupported(_)) => return None,
        Err(error) => panic!("{}: {error}", entry.name),
    };
    // Each record has a place in RAM there.
    let rows = if entry.name == "furrow" { 64 << 10 } else { 0 };
    settings.ram_bytes = Some(least + RAM_MORE + rows);
    let bench = Bench::of(&part);
    let mut index = (entry.format)(bench.handle(), &settings).unwrap();
    if entry.takes_any_key() {
        Ordered::fill(&mut *index).unwrap();
    }
    index.close().unwrap();
    drop(index);
    let index = (entry.mount)(bench.handle(), &settings).unwrap();
    Some(Box::new(Ordered::new(index, entry.takes_any_key())))
}

fn spatial(entry: &SpatialEntry, settings: &Settings) -> Option<Box<dyn Rounds>> {
    let bench = Bench::of(&part(64));
    let mut index = match entry.format(bench.handle(), settings) {
        Ok(index) => index,
        Err(IndexError::Unsupported(_)) => return None,
        Err(error) => panic!("{}: {error}", entry.name),
    };
    Spatial::fill(&mut *index).unwrap();
    index.close().unwrap();
    drop(index);
    Some(Box::new(Spatial::new(entry.mount(bench.handle(), settings).unwrap())))
}

fn store(entry: &StoreEntry, settings: &Settings) -> Option<Box<dyn Rounds>> {
    let bench = Bench::of(&part(64));
    let mut store = match (entry.format)(bench.handle(), settings) {
        Ok(store) => store,
        Err(StoreError::Unsupported(_)) => return None,
        Err(error) => panic!("{}: {error}", entry.name),
    };
    Pages::fill(&mut *store).unwrap();
    store.checkpoint().unwrap();
    drop(store);
    Some(Box::new(Pages::new((entry.mount)(bench.handle(), settings).unwrap())))
}

type Open<'a> = Box<dyn Fn(Settings) -> Option<Box<dyn Rounds>> + 'a>;

/// All subjects by name.
fn all() -> Vec<(String, Open<'static>)> {
    let mut all: Vec<(String, Open<'static>)> = Vec::new();
    for entry in subjects() {
        all.push((entry.name.to_string(), Box::new(|settings| index(entry, settings))));
        if entry.name == "bplus" {
            let on_dftl = |settings: Settings| index(entry, settings.with("ftl", "dftl"));
            all.push(("bplus on dftl".to_string(), Box::new(on_dftl)));
        }
    }
    for entry in SPATIAL {
        all.push((entry.name.to_string(), Box::new(|settings| spatial(entry, &settings))));
    }
    for entry in STORES {
        all.push((entry.name.to_string(), Box::new(|settings| store(entry, &settings))));
    }
    all
}

/// Counts a subject in the strongest classes that it has.
fn count(name: &str, open: &Open<'_>, classes: usize, asks: &mut Asks) {
    let has = |durability| Some((durability, open(Settings { durability, ..Settings::new(RECORD) })?));
    let mut counted = 0;
    for (class, mut subject) in CLASSES.into_iter().filter_map(has).take(classes) {
        counted += 1;
        for (operation, requests) in asked(&mut *subject, ROUNDS).in_hundred() {
            asks.insert([name, class.name(), operation].map(String::from), requests);
        }
    }
    assert!(counted > 0, "{name} has no class");
}

fn listed() -> Asks {
    let text = fs::read_to_string(ROWS).unwrap();
    let row = |line: &str| {
        let mut fields = line.split(',');
        let mut field = || fields.next().unwrap_or_else(|| panic!("{line}: four fields"));
        ([field(), field(), field()].map(String::from), field().parse().unwrap())
    };
    text.lines().skip(1).map(row).collect()
}

fn lines<'a>(rows: impl Iterator<Item = (&'a Row, &'a usize)>) -> String {
    rows.fold(String::new(), |mut text, (row, most)| {
        writeln!(text, "{},{most}", row.join(",")).unwrap();
        text
    })
}

#[test]
fn an_operation_asks_for_no_more_than_is_listed() {
    let (listed, mut asks) = (listed(), Asks::new());
    for (name, open) in &all() {
        if sized(PRODUCT.contains(&&name[..]), true) {
            count(name, open, sized(1, CLASSES.len()), &mut asks);
        }
    }
    let most = |row: &Row| listed.get(row).copied().unwrap_or(0);
    let more = lines(asks.iter().filter(|(row, requests)| **requests > most(row)));
    assert!(more.is_empty(), "the heap is asked more often than is listed:\n{more}");
    if !sized(false, true) {
        return;
    }
    let least = |row: &Row| asks.get(row).copied().unwrap_or(0);
    if std::env::var_os("NANDEX_BLESS").is_some() {
        let kept: Asks = listed.keys().map(|row| (row.clone(), least(row))).filter(|row| row.1 > 0).collect();
        fs::write(ROWS, format!("{HEAD}\n{}", lines(kept.iter()))).unwrap();
        return;
    }
    let fewer = lines(listed.iter().filter(|(row, most)| least(row) < **most));
    assert!(fewer.is_empty(), "rows that may be smaller (NANDEX_BLESS=1):\n{fewer}");
}

/// The table of `docs/firmware.md`, of the strongest class, says what is listed.
#[test]
fn the_firmware_page_says_what_is_listed() {
    let page = fs::read_to_string(PAGE).unwrap();
    let table = page.split("<!-- asks -->").nth(1).unwrap().split("<!-- end -->").next().unwrap();
    let listed = listed();
    let most = |name: &str, operations: &[&str]| {
        let row = |operation: &&str| [name, CLASSES[0].name(), *operation].map(String::from);
        operations.iter().filter_map(|operation| listed.get(&row(operation)).copied()).max()
    };
    for line in table.trim().lines().skip(2) {
        let name = line.split('|').nth(1).unwrap().trim();
        let asked = [
            &["get", "get-none"][..],
            &["insert", "put", "update", "remove", "remove-none"],
            &["range", "range-back", "range-bounded"],
            &["sync"],
        ];
        let mut expected = format!("| {name} |");
        asked.iter().for_each(|operations| {
            write!(expected, " {} |", most(name, operations).unwrap_or(0)).unwrap();
        });
        let batch = most(name, &["apply"]).map_or("-".to_string(), |requests| requests.to_string());
        assert_eq!(line, format!("{expected} {batch} |"));
        assert!(PRODUCT.contains(&name), "{name}");
    }
}

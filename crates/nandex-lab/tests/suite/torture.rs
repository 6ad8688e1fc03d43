//! Lives of every index, FTL and spatial index on small chips, with fixed seeds; and the lives that once went
//! wrong.
//!
//! More of them, with other seeds: `nandex torture`. A life that went wrong there becomes a file in `lives/`.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use crate::inputs::sized;
use nandex_lab::crash::Target;
use nandex_lab::parallel::cores;
use nandex_lab::registry::{Hosting, INDEXES, STORES, WRAPPERS};
use nandex_lab::runner::Control;
use nandex_lab::spatial::SPATIAL;
use nandex_lab::torture::{Case, Counts, Fate, Order, Plan, Report, Victim, run};
use std::path::Path;

fn alone(target: Target) -> Victim {
    Victim { target, ftl: None }
}

fn indexes() -> Vec<Victim> {
    INDEXES.iter().map(|entry| alone(Target::Index(entry))).collect()
}

fn stores() -> Vec<Victim> {
    STORES.iter().map(|entry| alone(Target::Store(entry))).collect()
}

fn spatial() -> Vec<Victim> {
    SPATIAL.iter().map(|entry| alone(Target::Spatial(entry))).collect()
}

/// Lives them and finds nothing wrong; everybody lived.
fn assert_clean(victims: Vec<Victim>, lives: u64, fate: Fate) -> Counts {
    let plan = Plan { victims, order: Order::Lives(lives), fate, seed: 1, threads: cores() };
    let report: Report = run(&plan, &Control::default(), &|_| {});
    println!("{report:#?}");
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
    let mut all = Counts::default();
    for row in &report.rows {
        assert!(row.counts.lives > 0, "{} takes none of the chips", row.victim);
        all.add(&row.counts);
    }
    all
}

#[test]
fn nothing_is_lost_at_the_edge_of_full() {
    let lives = sized(1, 3);
    let victims = indexes().into_iter().chain(stores()).chain(spatial()).collect();
    let all = assert_clean(victims, lives, Fate::default());
    let enough = all.cuts > 600 * lives && all.mounts > 900 * lives && all.refused > 300 * lives;
    assert!(enough, "{all:?}");
}

#[test]
fn keys_and_values_of_any_length_are_kept() {
    let victims = WRAPPERS.iter().map(|entry| alone(Target::Index(entry))).collect();
    let all = assert_clean(victims, sized(1, 3), Fate::default());
    assert!(all.cuts > sized(30, 100), "{all:?}");
}

#[test]
fn a_dead_chip_is_complete() {
    let victims = indexes().into_iter().chain(stores()).chain(spatial()).collect();
    let all = assert_clean(victims, sized(1, 2), Fate { until_death: true, ..Fate::default() });
    assert!(all.deaths > sized(25, 50), "{all:?}");
}

/// In some life, every FTL has each kind of tree above it: one that journals, one that copies on write, one
/// that appends.
#[test]
fn nothing_is_lost_on_any_ftl() {
    let kinds = ["bplus", "la", "fd", "wpcb"];
    let indexes = INDEXES.iter().filter(|e| kinds.contains(&e.name) && e.hosting == Hosting::Store);
    let on_all = |target: Target| STORES.iter().map(move |ftl| Victim { target, ftl: Some(ftl) });
    let victims = indexes.flat_map(|entry| on_all(Target::Index(entry))).collect();
    assert_clean(victims, 1, Fate::default());
}

#[test]
fn lives_that_once_went_wrong_go_well() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lives");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut wrong = Vec::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|e| e == "life")) {
        let name = file.file_name().unwrap().to_string_lossy();
        let case = Case::read(&std::fs::read_to_string(file).unwrap(), &name).unwrap();
        wrong.extend(case.run().err().map(|why| format!("{name}: {why}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(!files.is_empty());
}

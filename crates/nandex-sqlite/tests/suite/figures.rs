//! The published costs of an insert must hold.
#![allow(clippy::unwrap_used, clippy::print_stdout)]
#![cfg(feature = "bundled")]

use crate::measure::{BATCH, BATCH_EXCLUSIVE, Cell, STOCK, STOCK_EXCLUSIVE, Way, on_chip};

/// Inserts 10,000 random rows of 100 bytes and checks that each takes at most `programs` programs.
fn costs_at_most(part: &'static str, page_size: u32, rows_per_commit: u32, programs: f64) {
    let cell = Cell { part, page_size, rows_per_commit, rows: 10_000 };
    for way in [&BATCH_EXCLUSIVE, &STOCK_EXCLUSIVE] as [&Way; 2] {
        let cost = on_chip(&cell, way);
        println!("{part} {page_size} {rows_per_commit} a commit, {}: {cost:?}", way.name);
        assert!(cost.programs <= programs, "{}: {} programs an insert", way.name, cost.programs);
    }
}

/// SQLite was built to ask for batches and does so for every commit. Batches cost the same as commits without
/// them.
#[test]
fn batches_are_asked_for() {
    let cell = Cell { part: "k9f1g08u0f", page_size: 2048, rows_per_commit: 1, rows: 1000 };
    let (batch, stock) = (on_chip(&cell, &BATCH), on_chip(&cell, &STOCK));
    assert_eq!((batch.stats.batches, stock.stats.batches), (1000, 0));
    assert_eq!(batch.stats.groups, stock.stats.groups);
    assert_eq!(batch.programs, stock.programs);
}

#[test]
fn small_pages_of_slc() {
    costs_at_most("k9f1g08u0f", 2048, 1, 2.2);
    costs_at_most("k9f1g08u0f", 2048, 100, 1.3);
}

#[test]
fn large_pages_of_slc() {
    costs_at_most("k9f1g08u0f", 4096, 1, 2.8);
    costs_at_most("k9f1g08u0f", 4096, 100, 1.6);
}

#[test]
fn pages_of_mlc() {
    costs_at_most("mlc-64m", 4096, 1, 1.7);
    costs_at_most("mlc-64m", 4096, 100, 0.9);
}

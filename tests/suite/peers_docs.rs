//! The pages on other stores show the rows of `results/peers.csv`, which `make peers` writes.
//! `NANDEX_BLESS=1 cargo test --test suite peers_docs::` writes the pages anew from rows that are there.
#![allow(clippy::unwrap_used)]

#[path = "../../peers/src/tables.rs"]
mod tables;

use std::fs;

fn kept() -> (String, String) {
    let read = |path| fs::read_to_string(path).unwrap();
    (read("results/peers.csv"), read("peers/Cargo.lock"))
}

#[test]
fn pages_show_the_rows_that_were_kept() {
    let (csv, lock) = kept();
    for name in tables::PAGES {
        let page = fs::read_to_string(name).unwrap();
        assert!(page.contains("<!-- peers: "), "{name} has no place for them");
        let wanted = tables::page(&page, &csv, &lock);
        if std::env::var_os("NANDEX_BLESS").is_some() {
            fs::write(name, wanted).unwrap();
        } else {
            assert!(page == wanted, "{name}: NANDEX_BLESS=1 cargo test --test suite peers_docs:: writes it");
        }
    }
}

#[test]
fn figures_and_refusals_of_a_row_are_shown() {
    let (csv, lock) = kept();
    let page = fs::read_to_string(tables::PAGES[0]).unwrap();
    let columns = csv.lines().next().unwrap().split(',').count();
    for (number, line) in csv.lines().skip(1).enumerate() {
        let cells: Vec<&str> = line.split(',').collect();
        assert_eq!(cells.len(), columns, "{line}");
        // The outcome, and a measure: another one in the next row.
        for (place, other) in [(5, "lost"), (7 + number % (columns - 7), "123456")] {
            let mut cells = cells.clone();
            cells[place] = other;
            let shown = tables::page(&page, &csv.replace(line, &cells.join(",")), &lock);
            assert_ne!(page, shown, "{}", cells.join(","));
        }
    }
}

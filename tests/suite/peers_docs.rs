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
fn each_figure_and_refusal_of_a_row_is_shown() {
    let (csv, lock) = kept();
    let page = fs::read_to_string(tables::PAGES[0]).unwrap();
    for line in csv.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        assert_eq!(cells.len(), csv.lines().next().unwrap().split(',').count(), "{line}");
        let other = line.replacen(&format!(",{}", cells[5]), ",lost", 1);
        assert_ne!(page, tables::page(&page, &csv.replace(line, &other), &lock), "{line}");
        for (place, figure) in cells.iter().enumerate().skip(7).filter(|(_, figure)| !figure.is_empty()) {
            let mut cells = cells.clone();
            cells[place] = "123456";
            assert_ne!(page, tables::page(&page, &csv.replace(line, &cells.join(",")), &lock), "{figure}");
        }
    }
}

//! Pages about hardware show what is compiled and measured: `docs/firmware.md` shows the sizes of
//! `firmware/sizes.csv`. `NANDEX_BLESS=1 cargo test --test suite firmware_docs::` writes them anew.
#![allow(clippy::unwrap_used)]

use std::fmt::Write;

const PAGE: &str = "docs/firmware.md";
const BEGIN: &str = "<!-- sizes -->\n";
const END: &str = "<!-- end -->\n";

fn grouped(digits: &str) -> String {
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn table(sizes: &str) -> String {
    let mut table =
        String::from("| index | code and constants | heap, peak | stack, peak |\n|---|---|---|---|\n");
    for line in sizes.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let [index, text, heap, stack] = [0, 1, 4, 5].map(|at| cells[at]);
        writeln!(table, "| {index} | {} | {} | {} |", grouped(text), grouped(heap), grouped(stack)).unwrap();
    }
    table
}

#[test]
fn the_page_shows_the_sizes_that_were_kept() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let wanted = table(&std::fs::read_to_string("firmware/sizes.csv").unwrap());
    let (head, rest) = page.split_once(BEGIN).unwrap();
    let (shown, tail) = rest.split_once(END).unwrap();
    if std::env::var_os("NANDEX_BLESS").is_some() {
        std::fs::write(PAGE, format!("{head}{BEGIN}{wanted}{END}{tail}")).unwrap();
    } else {
        assert_eq!(shown, wanted, "NANDEX_BLESS=1 cargo test --test suite firmware_docs:: writes it");
    }
}

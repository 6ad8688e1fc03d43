//! `docs/chips.md` lists the catalogue as it is, and `SOURCES.md` beside the catalogue where its numbers are
//! from. `NANDEX_BLESS=1 cargo test --test suite chip_docs::` writes both anew.
#![allow(clippy::unwrap_used)]

use nandex::nand::{Basis, Note, Part, catalogue};
use std::fmt::Write;

const HEAD: &str = "# The parts known by name

The catalogue has the parts that `--chip` knows by name. The letter beside a number says how far to trust it: **d** data
sheet (directly or as quoted by others; `25 d` is 25 us of one), **p** a paper, or arithmetic from it, **s** default or
calibration of a published simulator, **r** remembered: verify before relying on it, **a** our assumption. [Where each number is from](../src/nand/catalogue/SOURCES.md)
stands beside the catalogue; the test `chip_docs` writes both pages from it.

- **Times** are array times; a read or program adds the transfer of its bytes.
- **Another size**: `Part::with_blocks`, or a chip file with `like = \"NAME\"` and `blocks = N` (64 KiB at most): any number of
  blocks whose tables, 32 bytes a page, fit the free memory.
- **NOP** is the programs a page takes between two erases; *any* is NOR flash, whose pages are overwritten, each program clearing
  bits only: VMTree-OW needs that, and the indexes on an FTL run on it too.
- **Words**: a program of such a part takes the time of the bytes or words that change, of a W25Q at most 0.4 ms for 256 bytes
  ([model](model.md#words)). *Words of 8 B* are programmed once between two erases, into a programmed page too. Pages, spare areas
  and blocks of NOR are [our cut](porting.md#a-nor-part-and-crates-that-expect-bytes).
- **`2048+17 of 64`**: the part's ECC leaves 16 of 64 spare bytes to its user, besides the place of the bad-block mark. A tree on
  raw NAND needs more (45 with 64 pages a block; IPL 49, an FTL 16). Opened by name it is lent the end of the data area
  (`nandex::nand::LentSpare`), here 28 bytes of 2,048: nodes are 1.4 % smaller, and a page of RAM is held for it. On a parallel
  bus the controller corrects errors and, as in the papers, takes no spare bytes here. The Hamming code of Linux leaves 38 of
  64, BCH of 4 bits 34, of 8 bits 10: say so with `spare_bytes` in a chip file.

";

const SOURCES: &str = "# Where the numbers of the parts are from

Written by the test `chip_docs` from the notes of the catalogue, where there is more to say than the number; the table is
`docs/chips.md`. Notes that several parts have come first.

";

fn mark(part: &Part, field: &str) -> char {
    match part.note(field).unwrap().basis {
        Basis::Datasheet => 'd',
        Basis::Paper => 'p',
        Basis::Simulator => 's',
        Basis::Remembered => 'r',
        Basis::Assumed => 'a',
    }
}

fn us(ns: u64) -> String {
    format!("{}", ns as f64 / 1000.0)
}

fn row(part: &Part) -> String {
    let (geometry, timing, supply) = (&part.geometry, &part.timing, &part.supply);
    let order = if geometry.random_order { ", any order".to_string() } else { String::new() };
    let order =
        if geometry.channels > 1 { format!("{order}, {} channels", geometry.channels) } else { order };
    let programs = geometry.programs_per_page_max;
    let programs = match (geometry.overwrites(), geometry.append_bytes) {
        (true, _) => "any".to_string(),
        (false, 0) => programs.to_string(),
        (false, word) => format!("{programs}, words of {word} B"),
    };
    let program = match &part.words {
        None => us(timing.program_ns),
        Some(words) => format!(
            "{} and {} for each {} B more",
            us(words.first_ns),
            us(words.next_ns),
            geometry.append_bytes
        ),
    };
    let marked = |value: String, field| format!("{value} {}", mark(part, field));
    let spare = match part.raw_spare_bytes {
        None => geometry.spare_bytes.to_string(),
        Some(raw) => format!("{} of {raw}", geometry.spare_bytes),
    };
    let cells = [
        part.name.to_string(),
        marked(
            format!("{}+{spare} x {}{order}", geometry.page_bytes, geometry.pages_per_block),
            "organisation",
        ),
        marked(geometry.blocks.to_string(), "blocks"),
        marked(programs, "nop"),
        marked(us(timing.read_ns), "read"),
        marked(program, "program"),
        marked(us(timing.erase_ns), "erase"),
        marked(us(timing.transfer_ps_per_byte), "transfer"),
        us(part.page_read_ns()),
        us(part.page_program_ns()),
        marked(part.endurance_erases.to_string(), "endurance"),
        marked(format!("{} mV, {} mA", supply.voltage_mv, supply.read_ma), "supply"),
    ];
    format!("| {} |\n", cells.join(" | "))
}

fn page() -> String {
    let mut page = String::from(HEAD);
    page.push_str(
        "| part | page+spare bytes x pages per block | blocks | NOP | read us | program us | erase us | bus ns/B | \
         whole page read us | whole page program us | erases | supply |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for part in catalogue::parts() {
        page.push_str(&row(part));
    }
    page
}

fn sources() -> String {
    let mut page = format!("{SOURCES}{}", of_several());
    for part in catalogue::parts() {
        write!(page, "\n## {}\n\n{}", part.name, of_one(part)).unwrap();
    }
    page
}

/// Parts with the same note, from which on it is said once.
const SHARED: usize = 3;

/// Words of a note that tell nothing which the table has not.
const UNITS: [&str; 13] =
    ["blocks", "us", "ms", "ns", "mA", "V", "B", "at", "per", "byte", "erases", "partial", "programs"];

/// Whether a note says more than the number in the table.
fn says_more(note: &Note) -> bool {
    let words = note.text.split([' ', ',', ':', ';']).filter(|word| !word.is_empty());
    let number = |word: &str| word.contains(|letter: char| letter.is_ascii_digit());
    words.into_iter().any(|word| !number(word) && !UNITS.contains(&word))
}

/// The parts that have a note in these very words.
fn with_note(note: &Note) -> Vec<String> {
    let same = |other: &Note| (other.field, other.text) == (note.field, note.text);
    catalogue::parts().filter(|part| part.notes.iter().any(same)).map(|part| part.name.to_string()).collect()
}

/// The notes that several parts have, each with the parts.
fn of_several() -> String {
    let mut seen: Vec<(&str, &str)> = Vec::new();
    let mut lines = String::new();
    for note in catalogue::parts().flat_map(|part| part.notes).filter(|note| says_more(note)) {
        let parts = with_note(note);
        if parts.len() >= SHARED && !seen.contains(&(note.field, note.text)) {
            seen.push((note.field, note.text));
            writeln!(lines, "- {}: {} ({})", note.field, note.text, parts.join(", ")).unwrap();
        }
    }
    lines
}

/// The notes of a part that are not said above; those with the same words in one line.
fn of_one(part: &Part) -> String {
    let mut lines: Vec<(Vec<&str>, &str)> = Vec::new();
    for note in part.notes.iter().filter(|note| says_more(note) && with_note(note).len() < SHARED) {
        match lines.iter_mut().find(|(_, text)| *text == note.text) {
            Some((fields, _)) => fields.push(note.field),
            None => lines.push((vec![note.field], note.text)),
        }
    }
    lines.iter().map(|(fields, text)| format!("- {}: {text}\n", fields.join(", "))).collect()
}

#[test]
fn the_pages_of_parts_are_up_to_date() {
    for (name, wanted) in [("docs/chips.md", page()), ("src/nand/catalogue/SOURCES.md", sources())] {
        let path = format!("{}/{name}", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("NANDEX_BLESS").is_some() {
            std::fs::write(&path, &wanted).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            written == wanted,
            "{name} is out of date: run NANDEX_BLESS=1 cargo test --test suite chip_docs::"
        );
    }
}

//! The cost of an insert into SQLite on raw flash: a table of the programs an insert, safe ways and unsafe
//! ones.
//!
//! `cargo run --release -p nandex-sqlite --example demo-sqlite [ROWS]`

#![allow(clippy::print_stdout)]

#[path = "../tests/suite/measure.rs"]
mod measure;

use measure::{
    BATCH, BATCH_EXCLUSIVE, Cell, Cost, DELETE, MEMORY, OFF, STOCK, STOCK_EXCLUSIVE, WAL, Way, on_chip,
    on_image,
};

const WAYS: [&Way; 8] = [&DELETE, &WAL, &MEMORY, &OFF, &BATCH, &STOCK, &BATCH_EXCLUSIVE, &STOCK_EXCLUSIVE];

fn line(way: &Way, costs: &[Cost]) {
    let safe = if way.is_safe { "safe" } else { "UNSAFE" };
    print!("| {:36} | {safe:6} |", way.name);
    for cost in costs {
        print!(" {:6.2} | {:5} | {:6.2} |", cost.programs, cost.erases, cost.milliseconds);
    }
    println!();
}

fn table(title: &str, measure: impl Fn(u32, &Way) -> Cost, ways: &[&Way]) {
    println!("\n{title}\n");
    println!(
        "| SQLite                               |        |  1 row | erase |     ms | 100    | erase |     ms |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for way in ways {
        line(way, &[measure(1, way), measure(100, way)]);
    }
}

fn main() {
    let rows = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(10_000);
    println!(
        "{rows} random rows of 100 bytes, synchronous=FULL: programs an insert at 1 row and at 100 rows a commit,"
    );
    println!(
        "erases of all inserts, milliseconds of the simulated chip an insert (0: an image has no clock of its own)."
    );
    for (part, page_size) in [("k9f1g08u0f", 2048), ("k9f1g08u0f", 4096), ("mlc-64m", 4096)] {
        let cell = |rows_per_commit| Cell { part, page_size, rows_per_commit, rows };
        let title = format!("Simulated chip {part}, page_size {page_size}");
        table(&title, |count, way| on_chip(&cell(count), way), &WAYS);
    }
    let folder = std::env::temp_dir().join(format!("nandex-demo-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the image");
    let measure = |rows_per_commit, way: &Way| {
        let path = folder.join("chip.img");
        let cell = Cell { part: "image", page_size: 2048, rows_per_commit, rows };
        let cost = on_image(&path, &cell, way);
        std::fs::remove_file(&path).expect("the image goes");
        cost
    };
    table(
        "Image file of 128 MiB, pages of 2 KiB, page_size 2048",
        measure,
        &[&DELETE, &MEMORY, &BATCH, &BATCH_EXCLUSIVE],
    );
    std::fs::remove_dir_all(&folder).expect("the folder goes");
}

//! `docs/ram.md` says the smallest RAM of each index as it is. `NANDEX_BLESS=1 cargo test -p nandex-stacks
//! --test ram_docs` writes it anew.

use nandex::nand::catalogue;
use nandex::ordered::RecordFormat;
use nandex_stacks::needed::{Needed, all};
use nandex_stacks::options::Settings;
use nandex_stacks::registry::{INDEXES, Need};
use std::fmt::Write;

const HEAD: &str = "# The smallest RAM of each index

Written from the registry by the test `ram_docs`; edit `crates/nandex-stacks/src/needed.rs`, not this page.

For example, `nandex list indexes --chip w25n01gv` prints the same for any chip, and `nandex compare --ram` with less is refused. It is
what an index declares for records of 8 + 8 bytes, in its strongest durability class and without a cache; over an FTL, the FTL that takes least is named.
What it holds at each moment is measured with a counting allocator: `cargo run --release -p nandex-testkit --example smallest`.

";

/// SPI NAND of 128 MiB with 2 KiB pages, MLC of 64 MiB with 4 KiB pages, SLC of 128 MiB with 2 KiB pages.
const PARTS: [&str; 3] = ["w25n01gv", "mlc-64m", "k9f1g08u0f"];

fn page() -> String {
    let settings = Settings::new(RecordFormat::new(8, 8));
    let columns: Vec<_> = PARTS
        .iter()
        .map(|name| all(catalogue::find(name).unwrap_or_else(|| panic!("no part {name}")), &settings))
        .collect();
    let mut page = String::from(HEAD);
    let _ = writeln!(page, "| index | {} |", PARTS.map(|name| format!("`{name}`")).join(" | "));
    let _ = writeln!(page, "|---|{}", "---|".repeat(PARTS.len()));
    for (row, index) in INDEXES.iter().enumerate() {
        let _ = write!(page, "| `{}` |", index.name);
        for column in &columns {
            let shown = match &column[row].1 {
                Ok(Needed { bytes, ftl: None }) => kib(*bytes),
                Ok(Needed { bytes, ftl: Some(ftl) }) => format!("{}, {ftl}", kib(*bytes)),
                Err(_) if index.needs.contains(&Need::Overwriting) => "NOR only".to_string(),
                Err(error) => error.to_string(),
            };
            let _ = write!(page, " {shown} |");
        }
        page.push('\n');
    }
    page
}

fn kib(bytes: usize) -> String {
    format!("{:.1} KiB", bytes as f64 / 1024.0)
}

#[test]
fn the_page_says_what_each_index_needs() {
    let (page, file) = (page(), concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/ram.md"));
    if std::env::var_os("NANDEX_BLESS").is_some() {
        std::fs::write(file, &page).expect("docs/ram.md can be written");
    }
    let written = std::fs::read_to_string(file).expect("docs/ram.md can be read");
    let difference = written.lines().zip(page.lines()).find(|(then, now)| then != now);
    assert!(written == page, "docs/ram.md is not what the indexes need: {difference:?}");
}

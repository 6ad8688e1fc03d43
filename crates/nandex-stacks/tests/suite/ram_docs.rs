//! `docs/ram.md` states the true smallest RAM of each index, and README that of a few, with their code.
//! `NANDEX_BLESS=1 cargo test -p nandex-stacks --test suite ram_docs::` writes both again. The gate checks
//! the first part, the nightly run all of it.

use crate::sizes::sized;
use nandex::IndexError;
use nandex::nand::catalogue;
use nandex::ordered::RecordFormat;
use nandex_stacks::needed::{Needed, all};
use nandex_stacks::options::Settings;
use nandex_stacks::registry::{INDEXES, IndexEntry, Need};
use std::fmt::Write;
use std::sync::LazyLock;

const HEAD: &str = "# The smallest RAM of each index

Written from the registry by the test `ram_docs`; edit `crates/nandex-stacks/src/needed.rs`, not this page.

For example, `nandex list indexes --chip w25n01gv` prints the same for any chip, and `nandex compare --ram` with less is refused. It is
what an index declares for records of 8 + 8 bytes, in its strongest durability class and without a cache; over an FTL, the FTL that takes least is named.
It is a bound at every moment, formats, mounts after a cut and clean ones included: `cargo test -p nandex-testkit --test suite`, with a
counting allocator: `ram`, and `drawn` on chips, records and RAM of any size (the example `drawn` draws more). Beside it a batch (`apply`)
holds up to 96 bytes a change while it is made, in plow the values that it replaces, in a B+-tree the pages that it changes; a VMTree-OW
holds a batch in the mount after a cut, too. What each holds when:
`cargo run --release -p nandex-testkit --example smallest`. Page mapping, which none of these takes, declares apart what a mount takes
([RAM](ftl/page-map.md#costs)).

";

/// SPI NAND of 128 MiB with 2 KiB pages, MLC of 64 MiB with 4 KiB pages, SLC of 128 MiB with 2 KiB pages.
const PARTS: [&str; 3] = ["w25n01gv", "mlc-64m", "k9f1g08u0f"];

/// The indexes in README, each with its build in `firmware/sizes.csv`.
const SMALL: [(&str, &str); 6] = [
    ("sbits", "sbits"),
    ("plow", "plow"),
    ("mu", "mu"),
    ("wandering", "wandering"),
    ("vmtree", "vmtree"),
    ("bplus", "bplus-dftl"),
];

/// The needs of all indexes on a part.
type Column = Vec<(&'static IndexEntry, Result<Needed, IndexError>)>;

/// The needs of all indexes, on each of the parts that are asked for: found once.
fn columns() -> &'static [Column] {
    static COLUMNS: LazyLock<Vec<Column>> = LazyLock::new(needs);
    &COLUMNS
}

fn needs() -> Vec<Column> {
    let settings = Settings::new(RecordFormat::new(8, 8));
    let part = |name| catalogue::find(name).unwrap_or_else(|| panic!("no part {name}"));
    parts().iter().map(|name| all(part(name), &settings)).collect()
}

fn is_blessed() -> bool {
    std::env::var_os("NANDEX_BLESS").is_some()
}

/// The parts that are asked for.
fn parts() -> &'static [&'static str] {
    if is_blessed() { &PARTS } else { &PARTS[..sized(1, PARTS.len())] }
}

/// Text without the cells of the other parts: a table has them behind its first cell.
fn asked(text: &str) -> String {
    let cut = |line: &str| {
        let cells: Vec<&str> = line.split('|').collect();
        if !line.starts_with('|') {
            return String::from(line);
        }
        [&cells[..2 + parts().len()], &cells[2 + PARTS.len()..]].concat().join("|")
    };
    text.split('\n').map(cut).collect::<Vec<_>>().join("\n")
}

/// Marks in README before and after the generated lines.
const MARKS: [&str; 2] = ["<!-- small -->\n", "<!-- end -->"];

fn named() -> String {
    parts().iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" | ")
}

fn readme_table() -> String {
    let sizes = read("firmware/sizes.csv");
    let mut table = format!("| index | RAM on {} | code, Cortex-M4 |\n", named());
    let _ = writeln!(table, "|---|{}", "---|".repeat(parts().len() + 1));
    let columns = columns();
    for (name, build) in SMALL {
        let row = INDEXES.iter().position(|index| index.name == name).expect("an index of the registry");
        let shown = columns.iter().map(|column| match &column[row].1 {
            Ok(needed) => kib(needed.bytes),
            Err(error) => error.to_string(),
        });
        let text = sizes.lines().filter_map(|line| line.strip_prefix(build)?.strip_prefix(',')).next();
        let code: usize = text.and_then(|rest| rest.split(',').next()?.parse().ok()).expect("a size");
        let cells: Vec<String> = shown.collect();
        let _ = writeln!(table, "| `{name}` | {} | {} |", cells.join(" | "), kib(code));
    }
    table
}

fn root(file: &str) -> String {
    format!("{}/../../{file}", env!("CARGO_MANIFEST_DIR"))
}

fn read(file: &str) -> String {
    std::fs::read_to_string(root(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

#[test]
fn the_readme_says_how_small_they_are() {
    let (text, table) = (read("README.md"), readme_table());
    let start = text.find(MARKS[0]).expect("README.md has the mark of the table") + MARKS[0].len();
    let end = start + text[start..].find(MARKS[1]).expect("the table ends");
    if is_blessed() {
        std::fs::write(root("README.md"), [&text[..start], &table, &text[end..]].concat())
            .expect("it can be written");
    } else {
        assert_eq!(asked(&text[start..end]), table);
    }
}

fn page() -> String {
    let columns = columns();
    let mut page = String::from(HEAD);
    let _ = writeln!(page, "| index | {} |", named());
    let _ = writeln!(page, "|---|{}", "---|".repeat(parts().len()));
    for (row, index) in INDEXES.iter().enumerate() {
        let _ = write!(page, "| `{}` |", index.name);
        for column in columns {
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
    let page = page();
    if is_blessed() {
        std::fs::write(root("docs/ram.md"), &page).expect("docs/ram.md can be written");
    }
    let written = asked(&read("docs/ram.md"));
    let difference = written.lines().zip(page.lines()).find(|(then, now)| then != now);
    assert!(written == page, "docs/ram.md is not what the indexes need: {difference:?}");
}

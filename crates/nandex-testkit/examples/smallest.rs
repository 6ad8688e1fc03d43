//! The RAM that trees hold at their smallest budget, on three parts, at every moment: `cargo run --release -p
//! nandex-testkit --example smallest -- 20000` (insertions of 8 + 8 bytes).

use nandex::Geometry;
use nandex::nand::{Part, catalogue};
use nandex::ordered::{Durability, RecordFormat};
use nandex::rng::Rng;
use nandex::{IndexError, OrderedIndex};
use nandex_stacks::needed::ram_needed;
use nandex_stacks::options::Settings;
use nandex_stacks::registry;
use nandex_testkit::Heap;
use nandex_testkit::ram::Subject;
use std::io::Write;

#[global_allocator]
static HEAP: Heap = Heap;

/// Names of trees, each with the FTL below, if any.
const TREES: [(&str, Option<&str>); 5] = [
    ("mu", None),
    ("wandering", None),
    ("vmtree", None),
    ("bplus", Some("dftl")),
    ("bplus", Some("page-map")),
];

fn parts() -> [(&'static str, Part); 3] {
    let mut large = catalogue::mlc_64m();
    large.geometry = Geometry::new(4096, 128, 128, 2048);
    let w25n01gv = catalogue::find("w25n01gv").cloned().unwrap_or_else(catalogue::mlc_64m);
    [
        ("w25n01gv, 128 MiB, 2 KiB pages", w25n01gv),
        ("mlc-64m, 4 KiB pages", catalogue::mlc_64m()),
        ("1 GiB, 4 KiB pages", large),
    ]
}

fn insert(index: &mut dyn OrderedIndex, operations: u64) -> Result<(), IndexError> {
    let mut rng = Rng::new(1);
    for number in 0..operations {
        index.insert(&rng.below(operations).to_be_bytes(), &number.to_be_bytes())?;
    }
    Ok(())
}

fn row(name: &str, ftl: Option<&str>, part: &Part, operations: u64) -> Result<String, IndexError> {
    let entry = registry::index(name).map_err(|error| IndexError::Unsupported(error.to_string().into()))?;
    let mut settings =
        Settings { durability: Durability::EveryOperation, ..Settings::new(RecordFormat::new(8, 8)) };
    ftl.iter().for_each(|ftl| settings.options.set("ftl", ftl));
    let needed = ram_needed(entry, part, &settings)?;
    settings.ram_bytes = Some(needed);
    let work = |index: &mut dyn OrderedIndex| insert(index, operations);
    let subject =
        Subject { format: entry.format, mount: entry.mount, part, settings: &settings, work: &work };
    let peaks = subject.peaks()?;
    let moments = [needed, peaks.format, peaks.work, peaks.mount, peaks.mount_after_cut, peaks.most()];
    Ok(moments.map(|bytes| format!("{:10.1}", bytes as f64 / 1024.0)).concat())
}

fn main() {
    let operations = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(20_000);
    let mut out = std::io::stdout().lock();
    for (title, part) in parts() {
        let heads =
            ["needs", "format", "work", "mount", "after cut", "peak"].map(|head| format!("{head:>10}"));
        let _ = writeln!(out, "{:32}{}   (KiB)", title, heads.concat());
        for (name, ftl) in TREES {
            let shown = row(name, ftl, &part, operations).unwrap_or_else(|error| format!("  {error}"));
            let _ =
                writeln!(out, "{:32}{shown}", ftl.map_or(name.into(), |ftl| format!("{name} over {ftl}")));
        }
    }
}

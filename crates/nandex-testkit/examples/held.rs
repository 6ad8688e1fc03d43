//! Prints the heap bytes that each index holds, compared with its RAM budget: `cargo run --release -p
//! nandex-testkit --example held -- w25n01gv 128 20000` (chip, KiB of RAM, insertions).

use nandex::nand::catalogue;
use nandex::ordered::{Durability, RecordFormat};
use nandex::rng::Rng;
use nandex::{IndexError, OrderedIndex};
use nandex_stacks::options::Settings;
use nandex_stacks::registry::{INDEXES, IndexEntry};
use nandex_testkit::Heap;
use nandex_testkit::ram::{Peaks, Subject};
use std::io::Write;

#[global_allocator]
static HEAP: Heap = Heap;

fn insert(index: &mut dyn OrderedIndex, entry: &IndexEntry, operations: u64) -> Result<(), IndexError> {
    let mut rng = Rng::new(1);
    for number in 0..operations {
        let key = if entry.takes_any_key() { rng.below(operations) } else { number };
        index.insert(&key.to_be_bytes(), &number.to_be_bytes())?;
        if number % 100 == 99 {
            index.sync()?;
        }
    }
    Ok(())
}

fn row(peaks: &Peaks, given: usize) -> String {
    let Peaks { declared, format, work, mount_after_cut, mount } = *peaks;
    let kib = [declared, format, work, mount_after_cut, mount]
        .map(|bytes| format!("{:9.1}", bytes as f64 / 1024.0));
    format!("{}{:8.2}", kib.concat(), peaks.most() as f64 / given as f64)
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |at: usize, otherwise: u64| arguments.get(at).and_then(|text| text.parse().ok()).unwrap_or(otherwise);
    let name = arguments.first().map_or("w25n01gv", String::as_str);
    let (given, operations) = (number(1, 128) as usize * 1024, number(2, 20_000));
    let mut out = std::io::stdout().lock();
    let Some(part) = catalogue::find(name) else {
        let _ = writeln!(out, "there is no chip '{name}'; `nandex list chips` names them");
        return;
    };
    let _ = writeln!(out, "KiB           says  formats    works  cut, mount  mount  most / given");
    for entry in INDEXES {
        let part = entry.suited(part.clone());
        let settings = Settings {
            durability: Durability::EverySync,
            ram_bytes: Some(given),
            ..Settings::new(RecordFormat::new(8, 8))
        };
        let work = |index: &mut dyn OrderedIndex| insert(index, entry, operations);
        let subject = Subject {
            format: entry.format,
            mount: entry.mount,
            part: &part,
            settings: &settings,
            work: &work,
        };
        let shown = subject.peaks().map_or_else(|error| format!("  {error}"), |peaks| row(&peaks, given));
        let _ = writeln!(out, "{:9}{shown}", entry.name);
    }
}

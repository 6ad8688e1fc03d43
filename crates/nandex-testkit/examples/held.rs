//! What each index holds of the heap, beside what it was given: `cargo run --release -p nandex-testkit --example held -- w25n01gv 128KiB 20000`.

use nandex::nand::sim::{CutWhen, PowerCut, SimChip, TornModel};
use nandex::nand::{Part, catalogue};
use nandex::ordered::{Durability, RecordFormat, Settings};
use nandex::rng::Rng;
use nandex::{IndexError, OrderedIndex, Shared};
use nandex_stacks::registry::{INDEXES, IndexEntry};
use nandex_testkit::heap::{measure, uncounted};
use nandex_testkit::{Apart, Heap};
use std::io::Write;

#[global_allocator]
static HEAP: Heap = Heap;

struct Row {
    declared: usize,
    peaks: [usize; 4],
}

fn use_it(index: &mut dyn OrderedIndex, entry: &IndexEntry, operations: u64) -> Result<(), IndexError> {
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

fn row(entry: &IndexEntry, part: &Part, settings: &Settings, operations: u64) -> Result<Row, IndexError> {
    let part = entry.suited(part.clone());
    let chip = uncounted(|| Shared::new(SimChip::new(&part).expect("a chip of the catalogue")));
    let handle = || uncounted(|| Box::new(Apart::new(chip.clone())));
    let (index, made) = measure(|| (entry.format)(handle(), settings));
    let mut index = index?;
    let (done, used) = measure(|| use_it(&mut *index, entry, operations));
    done?;
    let used_peak = made.kept + used.peak;
    let declared = index.ram_bytes();
    uncounted(|| {
        let (when, torn) = (CutWhen::Inside, TornModel::Prefix);
        chip.lock().plan_power_cut(PowerCut { at_operation: 300, when, torn, seed: 1 });
    });
    let _ = use_it(&mut *index, entry, operations);
    uncounted(|| chip.lock().power_on());
    drop(index);
    let (index, after_cut) = measure(|| (entry.mount)(handle(), settings));
    index?.close()?;
    let (index, clean) = measure(|| (entry.mount)(handle(), settings));
    index?;
    Ok(Row { declared, peaks: [made.peak, used_peak, after_cut.peak, clean.peak] })
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let chip = arguments.next().unwrap_or_else(|| "w25n01gv".into());
    let ram: usize = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(128);
    let operations: u64 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(20_000);
    let part = catalogue::find(&chip).expect("a chip of the catalogue").clone();
    let mut out = std::io::stdout().lock();
    for durability in [Durability::EverySync] {
        for entry in INDEXES {
            let settings = Settings {
                durability,
                ram_bytes: Some(ram * 1024),
                ..Settings::new(RecordFormat::new(8, 8))
            };
            let shown = match row(entry, &part, &settings, operations) {
                Ok(row) => {
                    let kib = row.peaks.map(|bytes| format!("{:8.1}", bytes as f64 / 1024.0)).join("");
                    let worst = row.peaks.iter().max().copied().unwrap_or(0);
                    let times = worst as f64 / (ram * 1024) as f64;
                    format!("{:8.1}{kib}  {times:.2}", row.declared as f64 / 1024.0)
                }
                Err(error) => format!("  {error}"),
            };
            let _ = writeln!(out, "{:12}{shown}", entry.name);
        }
    }
}

//! Every option of everything that takes any, with numbers that nobody can mean: refused by name, before memory is taken.

#![allow(clippy::unwrap_used)]

use nandex::nand::sim::SimChip;
use nandex::ordered::{Durability, RecordFormat, Settings};
use nandex_lab::fuzz;
use nandex_lab::names::OptionInfo;
use nandex_lab::registry::{INDEXES, STORES};
use nandex_lab::spatial::SPATIAL;
use nandex_lab::tbm::TBM_STORES;
use nandex_lab::workload::WORKLOADS;
use peak_alloc::PeakAlloc;
use std::panic::{AssertUnwindSafe, catch_unwind};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Numbers beyond everything: the largest of 64 bits, one that has more, and one that wraps to 50 in 32 bits.
const ABSURD: [&str; 3] = ["18446744073709551615", "99999999999999999999999", "4294967346"];

/// A number that some options may have.
const LARGE: &str = "1000000000";

/// What any of these may take before it is refused, in MiB.
const PEAK_MIB_MAX: f32 = 1500.0;

/// Options that count only where another is set, and which: a scheme that does not look at them does not refuse them.
const LOOKED_AT_WITH: [(&str, &str, &str); 0] = [];

fn settings(durability: Durability) -> Settings {
    Settings { durability, ..Settings::new(RecordFormat::new(8, 8)) }
}

fn chip() -> Box<SimChip> {
    Box::new(SimChip::new(&fuzz::part(2048, 64, 64)).unwrap())
}

/// What is wrong with how `open` answers each option of a list.
fn faults(who: &str, options: &[OptionInfo], open: &dyn Fn(&Settings) -> Result<(), String>) -> Vec<String> {
    let mut faults = Vec::new();
    for option in options {
        for value in ABSURD.iter().chain([&LARGE]) {
            let with = LOOKED_AT_WITH.iter().find(|(name, ..)| *name == option.name);
            for durability in [Durability::EveryOperation, Durability::None] {
                let mut settings = settings(durability).with(option.name, value);
                if let Some((_, other, word)) = with {
                    settings = settings.with(other, word);
                }
                MEMORY.reset_peak_usage();
                let answer = catch_unwind(AssertUnwindSafe(|| open(&settings)));
                let peak = MEMORY.peak_usage_as_mb();
                let what = format!("{who}: {}={value} ({}): ", option.name, durability.name());
                match answer {
                    Err(_) => faults.push(what + "panics"),
                    Ok(_) if peak > PEAK_MIB_MAX => faults.push(what + &format!("takes {peak} MiB")),
                    Ok(Ok(())) if *value != LARGE => faults.push(what + "is taken"),
                    Ok(Err(why)) if !why.contains(option.name) => faults.push(what + &why),
                    _ => {}
                }
            }
        }
    }
    faults
}

#[test]
fn absurd_numbers_are_refused_by_name() {
    let mut all = Vec::new();
    for entry in INDEXES {
        let open = |settings: &Settings| {
            let chip = SimChip::new(&entry.suited(fuzz::part(2048, 64, 64))).unwrap();
            (entry.format)(Box::new(chip), settings).map(|_| ()).map_err(|e| e.to_string())
        };
        all.extend(faults(entry.name, entry.options, &open));
    }
    for entry in STORES.iter().chain(TBM_STORES) {
        let open =
            |settings: &Settings| (entry.format)(chip(), settings).map(|_| ()).map_err(|e| e.to_string());
        all.extend(faults(entry.name, entry.options, &open));
    }
    for entry in SPATIAL {
        let open = |settings: &Settings| {
            let made = entry.format::<f64, 2>(chip(), settings);
            made.map(|_| ()).map_err(|e| e.to_string())
        };
        all.extend(faults(entry.name, entry.options, &open));
    }
    for entry in WORKLOADS {
        let open =
            |settings: &Settings| entry.build(1, &settings.options).map(|_| ()).map_err(|e| e.to_string());
        all.extend(faults(entry.name, entry.options, &open));
    }
    assert!(all.is_empty(), "{} answers:\n{}", all.len(), all.join("\n"));
}

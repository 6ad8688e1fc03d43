//! Absurd numbers for every option of every subject are refused by name, before memory is taken.

#![allow(clippy::unwrap_used)]

use crate::inputs::stride;
use nandex::nand::sim::SimChip;
use nandex::ordered::{Durability, RecordFormat};
use nandex_lab::names::OptionInfo;
use nandex_lab::registry::{INDEXES, STORES};
use nandex_lab::spatial::SPATIAL;
use nandex_lab::tbm::TBM_STORES;
use nandex_lab::workload::WORKLOADS;
use nandex_stacks::options::Settings;
use nandex_testkit::{fuzz, heap};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Numbers beyond everything: the largest of 64 bits, and one that has more.
const ABSURD: [&str; 2] = ["18446744073709551615", "99999999999999999999999"];

/// A number that some options allow. The gate tries it on one option in four.
const LARGE: &str = "1000000000";

/// Most bytes of memory that a subject may take before it refuses an option.
const PEAK_MAX: usize = 1500 << 20;

/// Options that have an effect only if another option has this value: the option, the other, the value.
const LOOKED_AT_WITH: [(&str, &str, &str); 3] = [
    ("write_percent", "profile", "ratio"),
    ("percent_of", "profile", "ratio"),
    ("domain", "tree", "hilbert"),
];

/// Opens a subject with settings, or returns the reason of its refusal.
type Open<'a> = dyn Fn(&Settings) -> Result<(), String> + 'a;

fn settings(durability: Durability) -> Settings {
    Settings { durability, ..Settings::new(RecordFormat::new(8, 8)) }
}

fn chip() -> Box<SimChip> {
    Box::new(SimChip::new(&fuzz::part(2048, 64, 64)).unwrap())
}

/// Opens a subject with an option at this value. Returns the reasons of its refusals.
fn answer(
    open: &Open<'_>,
    option: &OptionInfo,
    value: &str,
    class: Durability,
) -> Result<Option<String>, String> {
    let mut settings = settings(class);
    for (_, other, word) in LOOKED_AT_WITH.iter().filter(|(name, ..)| *name == option.name) {
        settings = settings.with(other, word);
    }
    let settings = settings.with(option.name, value);
    let (answer, held) = heap::measure(|| catch_unwind(AssertUnwindSafe(|| open(&settings))));
    let answer = answer.map_err(|_| "panics".to_string())?;
    if held.peak > PEAK_MAX { Err(format!("takes {} bytes", held.peak)) } else { Ok(answer.err()) }
}

/// True if a refusal names the option, or the value.
fn is_named(reasons: &[String], option: &OptionInfo, value: &str) -> bool {
    reasons.iter().any(|reason| reason.contains(option.name) || reason.contains(&format!("'{value}'")))
}

/// Faults in the answers to each option of a list. An option that has an effect in some durability classes
/// only must be refused in one of them.
fn faults(who: &str, options: &[OptionInfo], open: &Open<'_>) -> Vec<String> {
    let mut faults = Vec::new();
    for (number, option) in options.iter().enumerate() {
        let is_asked = (who.len() + number).is_multiple_of(stride(4));
        for value in ABSURD.iter().chain(is_asked.then_some(&LARGE)) {
            let what = format!("{who}: {}={value}", option.name);
            let mut reasons = Vec::new();
            for class in [Durability::EveryOperation, Durability::None] {
                match answer(open, option, value, class) {
                    Ok(reason) => reasons.extend(reason),
                    Err(fault) => faults.push(format!("{what} {fault}")),
                }
                if *value == LARGE || is_named(&reasons, option, value) {
                    break;
                }
            }
            if *value != LARGE && !is_named(&reasons, option, value) {
                faults.push(format!("{what} is not refused by name: {reasons:?}"));
            }
        }
    }
    faults
}

#[test]
fn a_number_does_not_wrap() {
    let settings = settings(Durability::None).with("cache_window", "4294967346").with("cache_pages", 8);
    let bplus = INDEXES.iter().find(|entry| entry.name == "bplus").unwrap();
    let error = (bplus.format)(chip(), &settings).err().unwrap().to_string();
    assert_eq!(error, "option cache_window: '4294967346' is not between 0 and 100");
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

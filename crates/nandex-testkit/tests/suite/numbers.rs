//! Numbers that make no sense: every index and FTL with RAM and options from 0 to the largest number works or
//! refuses, and takes no more of the heap than it is given or the chip has use for.
#![allow(clippy::unwrap_used)]

use nandex::nand::sim::SimChip;
use nandex::nand::{Part, catalogue};
use nandex::ordered::{Durability, RecordFormat};
use nandex::{Geometry, IndexError};
use nandex_stacks::options::Settings;
use nandex_stacks::registry::{INDEXES, IndexEntry, STORES};
use nandex_testkit::heap;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Numbers to try: 0, 1, and the limits of number types.
const NUMBERS: [u64; 7] = [0, 1, 1 << 16, 1 << 31, 1 << 44, i64::MAX as u64, u64::MAX];

/// Most bytes of heap that an index of so small a chip may take without a larger budget: sixteen times the
/// chip.
const HEAP_MAX: usize = 32 << 20;

fn part(entry: &IndexEntry) -> Part {
    let mut part = catalogue::mlc_64m();
    part.geometry = Geometry::new(2048, 64, 16, 64);
    entry.suited(part)
}

/// Formats an index, and uses it a little if that succeeds.
fn used(entry: &IndexEntry, settings: &Settings) -> Result<(), IndexError> {
    let chip = SimChip::new(&part(entry)).unwrap();
    let mut index = (entry.format)(Box::new(chip), settings)?;
    for key in 0..50u64 {
        index.insert(&key.to_be_bytes(), &key.to_be_bytes())?;
    }
    index.sync()?;
    assert!(index.get(&7u64.to_be_bytes(), &mut [0; 8])?);
    index.close()
}

/// The fault of an index with these settings, if there is one.
fn fault(entry: &IndexEntry, settings: &Settings) -> Option<&'static str> {
    let given = settings.ram_bytes.filter(|ram| *ram <= 1 << 31).unwrap_or(0);
    let (used, held) = heap::measure(|| catch_unwind(AssertUnwindSafe(|| used(entry, settings))));
    match used {
        Err(_) => Some("a panic"),
        Ok(_) if held.peak > HEAP_MAX.max(given) => Some("too much of the heap"),
        Ok(_) => None,
    }
}

fn settings() -> Settings {
    Settings { durability: Durability::EverySync, ..Settings::new(RecordFormat::new(8, 8)) }
}

/// The FTLs that an index is tried on. The faults of an FTL show below any index, those of an index on any
/// FTL.
fn ftls(entry: &IndexEntry) -> Vec<Settings> {
    let knows = entry.options.iter().any(|option| option.name == "ftl");
    let tried = if entry.name == "bplus" { STORES } else { &STORES[..1] };
    match knows {
        true => tried.iter().map(|ftl| settings().with("ftl", ftl.name)).collect(),
        false => vec![settings()],
    }
}

#[test]
fn every_amount_of_ram_works_or_is_refused() {
    let mut faults = Vec::new();
    for entry in INDEXES {
        for settings in ftls(entry) {
            for ram in NUMBERS.map(|number| usize::try_from(number).unwrap_or(usize::MAX)) {
                let settings = Settings { ram_bytes: Some(ram), ..settings.clone() };
                if let Some(what) = fault(entry, &settings) {
                    let ftl = settings.options.text("ftl").unwrap_or("the chip");
                    faults.push(format!("{} on {ftl}, {ram} bytes: {what}", entry.name));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn much_ram_is_used_and_more_is_refused_by_name() {
    for entry in INDEXES {
        let with = |ram| used(entry, &Settings { ram_bytes: Some(ram), ..settings() });
        with(1 << 31).unwrap_or_else(|error| panic!("{}: {error}", entry.name));
        let refused = with(1 << 44).unwrap_err();
        assert!(refused.is_unsupported() && refused.to_string().contains("ram_bytes = "), "{refused}");
    }
}

#[test]
fn every_number_of_an_option_works_or_is_refused() {
    let mut faults = Vec::new();
    for entry in INDEXES {
        for option in entry.options {
            for number in NUMBERS {
                for ram in [None, Some(256 << 10)] {
                    let settings = Settings { ram_bytes: ram, ..settings() };
                    let mut settings = settings.with(option.name, number.to_string());
                    // An option of an FTL goes with that.
                    let knows =
                        |name: &str| STORES.iter().find(|ftl| ftl.options.iter().any(|o| o.name == name));
                    if let Some(ftl) =
                        knows(option.name).filter(|_| entry.options.iter().any(|o| o.name == "ftl"))
                    {
                        settings = settings.with("ftl", ftl.name);
                    }
                    if let Some(what) = fault(entry, &settings) {
                        faults.push(format!("{} {}={number}, RAM {ram:?}: {what}", entry.name, option.name));
                    }
                }
            }
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

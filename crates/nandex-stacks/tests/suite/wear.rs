//! Wear: cold data beside one key that is written over and over. The most worn block is not far above the
//! mean.
#![allow(clippy::unwrap_used)]

use nandex::nand::catalogue::mlc_with;
use nandex::nand::sim::SimChip;
use nandex::rng::split_mix;
use nandex::{Cause, Durability, Lpn, OrderedIndex, RecordFormat, Shared};
use nandex_stacks::options::Settings;
use nandex_stacks::registry::{STORES, Stack, StoreEntry, stacks};
use nandex_stacks::tbm::TBM_STORES;

const PAGE_BYTES: u32 = 512;
const PAGES_PER_BLOCK: u32 = 16;
const BLOCKS: u32 = 40;
/// Erases of a block in the mean at the end.
fn erases() -> u32 {
    std::env::var("E").map_or(60, |e| e.parse().unwrap())
}
fn cold_percent() -> u64 {
    std::env::var("C").map_or(40, |e| e.parse().unwrap())
}

#[derive(Clone, Copy)]
struct Wear {
    ratio: f64,
    changes: u64,
    erases: u64,
}

fn chip(suited: impl Fn(nandex::nand::Part) -> nandex::nand::Part) -> Option<Shared<SimChip>> {
    Some(Shared::new(SimChip::new(&suited(mlc_with(PAGE_BYTES, PAGES_PER_BLOCK, BLOCKS))).ok()?))
}

fn until_worn(
    chip: &Shared<SimChip>,
    most: u64,
    mut change: impl FnMut(u64) -> Result<(), String>,
) -> Result<Wear, String> {
    let made = || chip.lock().counters().block_erases_total();
    let mut number = 0u64;
    while made() < u64::from(erases() * BLOCKS) && number < most {
        change(number)?;
        number += 1;
    }
    if std::env::var("W").is_ok() {
        println!("{:?}", chip.lock().wear());
    }
    let most = chip.lock().wear().iter().copied().max().unwrap();
    Ok(Wear { ratio: f64::from(most) * f64::from(BLOCKS) / made() as f64, changes: number, erases: made() })
}

fn index_wear(stack: &Stack, own: &str, class: Durability) -> Result<Wear, String> {
    let entry = stack.index;
    let chip = chip(|part| entry.suited(part)).ok_or("no chip")?;
    let settings = Settings { durability: class, ..Settings::new(RecordFormat::new(8, 8)) };
    let mut settings = stack.settings(settings);
    for name in ["wear", "wear_gap"] {
        if own != "" && entry.known(&settings.options).iter().any(|option| option.name == name) {
            settings = settings.with(name, own);
        }
    }
    let mut index = (entry.format)(Box::new(chip.clone()), &settings).map_err(|e| format!("{e}"))?;
    let cold = index.free().map_or(1500, |room| room.records) * cold_percent() / 100;
    let key = |number: u64| if entry.takes_any_key() { split_mix(number) } else { number }.to_be_bytes();
    for number in 0..cold {
        index.insert(&key(number), &[0; 8]).map_err(|e| format!("filled {e}"))?;
    }
    until_worn(&chip, 4_000_000, |number| {
        let hot = if entry.takes_any_key() { 0 } else { cold + number };
        index.insert(&key(hot), &number.to_be_bytes()).map_err(|e| format!("{number}: {e}"))?;
        if number % 10 == 9 { index.sync().map_err(|e| format!("{e}")) } else { Ok(()) }
    })
}

fn store_wear(entry: &StoreEntry, own: &str) -> Result<Wear, String> {
    let chip = chip(|part| part).ok_or("no chip")?;
    let mut settings = Settings::new(RecordFormat::new(8, 8));
    for name in ["wear", "wear_gap"] {
        if own != "" && entry.options.iter().any(|option| option.name == name) {
            settings = settings.with(name, own);
        }
    }
    let mut store = (entry.format)(Box::new(chip.clone()), &settings).map_err(|e| format!("{e}"))?;
    let data = vec![7; store.page_bytes() as usize];
    let cold = store.page_count() * (cold_percent() as u32) / 100;
    for lpn in 0..cold {
        store.write(Lpn(lpn), Cause::Host, &data).map_err(|e| format!("filled {e}"))?;
    }
    until_worn(&chip, 4_000_000, |_| store.write(Lpn(0), Cause::Host, &data).map_err(|e| format!("{e}")))
}

#[test]
fn survey() {
    let classes = [Durability::EveryOperation, Durability::EverySync];
    let told = |name: &str, on: Result<Wear, String>, off: Result<Wear, String>| match (on, off) {
        (Ok(on), Ok(off)) => println!(
            "{name}: {:.2}, off {:.2}; {:+.1} % erases; {} changes {} erases",
            on.ratio,
            off.ratio,
            100.0 * ((on.erases as f64 / on.changes as f64) / (off.erases as f64 / off.changes as f64) - 1.0),
            on.changes,
            on.erases
        ),
        (on, off) => println!("{name}: {:?} {:?}", on.err(), off.err()),
    };
    let only = std::env::var("O").ok();
    for stack in stacks() {
        if only.as_ref().is_some_and(|only| !only.split(',').any(|one| one == stack.name())) {
            continue;
        }
        if stack.ftl.is_some_and(|ftl| ftl.name != "page-map" && stack.index.name != "bplus") {
            continue;
        }
        let run = |own: &str| {
            let first = index_wear(&stack, own, classes[0]);
            if first.is_err() {
                index_wear(&stack, own, classes[1]).map_err(|e| format!("{:?} {e}", first.err()))
            } else {
                first
            }
        };
        told(&stack.name(), run(""), run("off"));
    }
    for entry in STORES
        .iter()
        .chain(TBM_STORES)
        .filter(|entry| only.as_ref().is_none_or(|only| only.split(',').any(|one| one == entry.name)))
    {
        told(entry.name, store_wear(entry, ""), store_wear(entry, "off"));
    }
}

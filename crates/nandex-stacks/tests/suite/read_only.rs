//! Pages that are only read: reads disturb the pages of their block, until the ECC no longer corrects them.
//! Whoever calls `maintain`, or `scrub`, now and then loses nothing.

#![allow(clippy::unwrap_used)]

use nandex::nand::Part;
use nandex::nand::catalogue::mlc_64m;
use nandex::nand::sim::{Disturb, Faults, SimChip};
use nandex::ordered::RecordFormat;
use nandex::{Durability, Geometry, IndexError, OrderedIndex, Shared};
use nandex_stacks::needed::ram_needed;
use nandex_stacks::options::Settings;
use nandex_stacks::registry::{INDEXES, IndexEntry, STORES};

const RECORDS: u64 = 1_500;
/// Rounds of look-ups of every fiftieth record.
const ROUNDS: u32 = 200;
const STEP: usize = 50;
/// Page reads between two calls. A block is lost some 260 reads after one of its pages is weak.
const READS_BETWEEN: u64 = 32;

/// The service that is called now and then.
#[derive(Clone, Copy, Debug)]
enum Call {
    None,
    Maintain,
    Scrub,
}

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// Looks the same records up until the block that they lie in would be unreadable several times over.
/// Returns the round in which one was lost.
fn lost(entry: &IndexEntry, settings: &Settings, call: Call) -> Result<Option<u32>, IndexError> {
    let chip = Shared::new(SimChip::new(&part(entry)).unwrap());
    let mut index = (entry.format)(Box::new(chip.clone()), settings)?;
    for number in 0..RECORDS {
        let number = if entry.takes_any_key() { number * 7 % RECORDS } else { number };
        index.insert(&key(number), &number.to_le_bytes())?;
    }
    index.sync()?;
    let disturb = Disturb::default().with_reads_per_bit(130).with_ecc_strength(8);
    chip.lock().set_faults(Faults::default().with_disturb(disturb));
    let reads = || chip.lock().counters().page_reads_total();
    let (mut found, mut called_at) = ([0; 8], reads());
    for round in 0..ROUNDS {
        for number in (0..RECORDS).step_by(STEP) {
            match index.get(&key(number), &mut found) {
                Ok(is_there) => assert!(is_there && found == number.to_le_bytes(), "record {number}"),
                Err(_) => return Ok(Some(round)),
            }
            if reads() < called_at + READS_BETWEEN {
                continue;
            }
            match call {
                Call::None => {}
                Call::Maintain => drop(index.maintain(8)?),
                Call::Scrub => drop(index.scrub(8)?),
            }
            called_at = reads();
        }
    }
    chip.lock().set_faults(Faults::default());
    assert!(index.check()?.is_sound(), "{}", entry.name);
    Ok(None)
}

fn part(entry: &IndexEntry) -> Part {
    Part { geometry: Geometry::new(2048, 64, 32, 64), ..entry.suited(mlc_64m()) }
}

/// All stacks with their least RAM: each index, and a B+-tree on each FTL. Left out is what needs a part of
/// another kind.
fn stacks() -> impl Iterator<Item = (String, &'static IndexEntry, Settings)> {
    let settings =
        || Settings { durability: Durability::EverySync, ..Settings::new(RecordFormat::new(8, 8)) };
    let bplus = INDEXES.iter().find(|entry| entry.name == "bplus").unwrap();
    let all = INDEXES.iter().map(move |entry| (entry.name.to_string(), entry, settings()));
    let settings = move || Settings { durability: Durability::None, ..settings() };
    let on_ftls = STORES
        .iter()
        .map(move |ftl| (format!("bplus@{}", ftl.name), bplus, settings().with("ftl", ftl.name)));
    all.chain(on_ftls).filter_map(|(name, entry, settings)| {
        let ram_bytes = ram_needed(entry, &part(entry), &settings).ok()?;
        Some((name, entry, Settings { ram_bytes: Some(ram_bytes), ..settings }))
    })
}

#[test]
fn no_page_that_is_only_read_is_lost_if_a_service_is_called() {
    let (mut faults, mut kept) = (Vec::new(), 0);
    for (name, entry, settings) in stacks() {
        // What has all pages in RAM disturbs none.
        if !matches!(lost(entry, &settings, Call::None), Ok(Some(_))) {
            continue;
        }
        for call in [Call::Maintain, Call::Scrub] {
            match lost(entry, &settings, call) {
                Ok(None) => kept += 1,
                Ok(Some(round)) => faults.push(format!("{name}, {call:?}: lost in round {round}")),
                Err(error) => faults.push(format!("{name}, {call:?}: {error}")),
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(kept >= 16, "{kept} stacks kept all");
}

/// Programs of 600 operations, behind 300 of which nothing is asked, on a chip of which so many reads in a
/// million are weak.
fn programs(entry: &IndexEntry, settings: &Settings, weak_reads_ppm: u32) -> Result<u64, IndexError> {
    let chip = Shared::new(SimChip::new(&part(entry)).unwrap());
    let mut index = (entry.format)(Box::new(chip.clone()), settings)?;
    let mut before = 0;
    for number in 0..900 {
        if number == 300 {
            index.sync()?;
            before = chip.lock().counters().page_programs_total();
            chip.lock().set_faults(Faults { seed: 7, weak_reads_ppm, ..Faults::default() });
        }
        let number = if entry.takes_any_key() { number * 7 % 300 } else { number };
        index.insert(&key(number), &number.to_le_bytes())?;
        if number % 10 == 0 {
            index.sync()?;
        }
    }
    index.sync()?;
    Ok(chip.lock().counters().page_programs_total() - before)
}

/// Programs beyond twice those of a chip without weak reads: the credit that an owner begins with.
const CREDIT: u64 = 40;
/// Stacks that program more than twice as often, and how often at most. dIPL reads thirty pages for a
/// program, and reads earn moves; where FAST moves a page it fills a log block, which is merged later.
const DEAR: [(&str, u64); 2] = [("dipl", 5), ("bplus@fast", 3)];

#[test]
fn a_chip_of_which_every_read_is_weak_is_programmed_at_most_twice_as_often() {
    let mut faults = Vec::new();
    for (name, entry, settings) in stacks() {
        let (Ok(fresh), Ok(weak)) = (programs(entry, &settings, 0), programs(entry, &settings, 1_000_000))
        else {
            continue;
        };
        let times = DEAR.iter().find(|dear| dear.0 == name).map_or(2, |dear| dear.1);
        if weak > times * fresh + CREDIT {
            faults.push(format!("{name}: {weak} programs, {fresh} without weak reads"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

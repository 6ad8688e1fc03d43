//! Extreme chips and records: on the smallest and the largest pages and blocks, every index, spatial index
//! and FTL works or refuses by name, and returns its contents. No size overflows.
#![allow(clippy::unwrap_used)]

use crate::sizes::stride;
use nandex::nand::sim::SimChip;
use nandex::nand::{Part, catalogue};
use nandex::ordered::{Durability, RecordFormat};
use nandex::spatial::{Rect, Relation};
use nandex::{Cause, Geometry, IndexError, Lpn, OrderedIndex, PageStore, Shared, StoreError};
use nandex_stacks::options::Settings;
use nandex_stacks::registry::{INDEXES, IndexEntry, STORES, StoreEntry};
use nandex_stacks::spatial::{SPATIAL, SpatialEntry};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Bytes of a page, pages of a block, and blocks: extreme shapes and some between.
const SHAPES: [(u32, u32, u32); 6] =
    [(64, 2, 4), (64, 2, 9_000), (64, 4096, 8), (128, 1024, 64), (65_536, 2, 24), (32_768, 4080, 4)];

/// Bytes of a key and of a value.
const RECORDS: [(u8, u8); 4] = [(1, 0), (1, 255), (8, 8), (255, 255)];

/// RAM budgets in bytes.
const RAM: [Option<usize>; 2] = [None, Some(1 << 20)];

/// Most records inserted.
const PUTS: u64 = 40;

fn part((page_bytes, pages_per_block, blocks): (u32, u32, u32), spare_bytes: u32) -> Part {
    let mut part = catalogue::mlc_64m();
    part.geometry = Geometry::new(page_bytes, spare_bytes.min(page_bytes), pages_per_block, blocks);
    part
}

/// The use of a subject on a chip, with these settings.
type Use<'a> = &'a dyn Fn(Shared<SimChip>, &Settings) -> Result<(), String>;

/// The faults of a subject on all shapes with all records; a refusal at the format is none. The gate tries
/// each shape and each record, others together for each subject.
fn faults(
    (number, name): (usize, &str),
    suited: &dyn Fn(Part) -> Part,
    records: &[(u8, u8)],
    used: Use<'_>,
) -> Vec<String> {
    let (mut faults, step) = (Vec::new(), stride(3));
    for (at, shape) in SHAPES.into_iter().enumerate() {
        for (of, &(key, value)) in records.iter().enumerate() {
            for (with, ram_bytes) in RAM.into_iter().enumerate() {
                if !(number + at + of + with).is_multiple_of(step) {
                    continue;
                }
                let durability = if ram_bytes.is_some() { Durability::EverySync } else { Durability::None };
                let record = RecordFormat::new(key, value);
                let settings = Settings { durability, ram_bytes, ..Settings::new(record) };
                let part = suited(part(shape, 64));
                let Ok(chip) = SimChip::new(&part) else { continue };
                let done = catch_unwind(AssertUnwindSafe(|| used(Shared::new(chip), &settings)));
                let place = format!("{name} on {shape:?}, {key} + {value}, RAM {ram_bytes:?}");
                match done {
                    Ok(Ok(())) => {}
                    Ok(Err(why)) => faults.push(format!("{place}: {why}")),
                    Err(_) => faults.push(format!("{place}: a panic")),
                }
            }
        }
    }
    faults
}

fn key_of(number: u64, bytes: u8) -> Vec<u8> {
    let number = number.to_be_bytes();
    let width = usize::from(bytes).min(8);
    let mut key = number[8 - width..].to_vec();
    key.resize(bytes.into(), 0x5a);
    key
}

fn value_of(number: u64, bytes: u8) -> Vec<u8> {
    (0..bytes).map(|at| (number as u8).wrapping_add(at)).collect()
}

/// An answer, or the words for one that is wrong.
fn told<T>(what: &str, done: Result<T, IndexError>) -> Result<T, String> {
    done.map_err(|error| format!("{what}: {error}"))
}

fn use_index(entry: &IndexEntry, chip: Shared<SimChip>, settings: &Settings) -> Result<(), String> {
    let mut index = match (entry.format)(Box::new(chip.clone()), settings) {
        Ok(index) => index,
        Err(error) if error.is_unsupported() => return Ok(()),
        Err(error) => return Err(format!("format: {error}")),
    };
    let RecordFormat { key_bytes, value_bytes } = settings.record;
    let mut put = 0;
    for number in 0..PUTS.min(if key_bytes == 1 { 200 } else { PUTS }) {
        match index.insert(&key_of(number, key_bytes), &value_of(number, value_bytes)) {
            Ok(_) => put += 1,
            Err(IndexError::Full(_)) => break,
            Err(error) => return Err(format!("insert {number}: {error}")),
        }
    }
    let find = |index: &mut dyn OrderedIndex, when: &str| {
        let mut value = vec![0; value_bytes.into()];
        for number in 0..put {
            let found = told(when, index.get(&key_of(number, key_bytes), &mut value))?;
            if !found || value != value_of(number, value_bytes) {
                return Err(format!("{when}: number {number} of {put} is not there"));
            }
        }
        let report = told(when, index.check())?;
        match report.violations.first() {
            None => Ok(()),
            Some(broken) => Err(format!("{when}: {} {}", broken.invariant, broken.found)),
        }
    };
    find(&mut *index, "before")?;
    told("close", index.close())?;
    drop(index);
    let mut index = told("mount", (entry.mount)(Box::new(chip), settings))?;
    find(&mut *index, "after")
}

fn use_spatial(entry: &SpatialEntry, chip: Shared<SimChip>, settings: &Settings) -> Result<(), String> {
    let rect = |number: u64| Rect::new([number as i32; 2], [number as i32 + 3; 2]).unwrap();
    let mut index = match entry.format::<i32, 2>(Box::new(chip.clone()), settings) {
        Ok(index) => index,
        Err(error) if error.is_unsupported() => return Ok(()),
        Err(error) => return Err(format!("format: {error}")),
    };
    let mut put = 0;
    for number in 0..PUTS {
        match index.insert(&rect(number), number) {
            Ok(()) => put += 1,
            Err(IndexError::Full(_)) => break,
            Err(error) => return Err(format!("insert {number}: {error}")),
        }
    }
    told("close", index.close())?;
    drop(index);
    let mut index = told("mount", entry.mount::<i32, 2>(Box::new(chip), settings))?;
    let mut found = 0;
    let all = Rect::new([i32::MIN; 2], [i32::MAX; 2]).unwrap();
    let walk = index.window(&all, Relation::Within, &mut |_, _| {
        found += 1;
        ControlFlow::Continue(())
    });
    told("window", walk)?;
    if found == put { Ok(()) } else { Err(format!("{found} of {put} are there")) }
}

fn use_store(entry: &StoreEntry, chip: Shared<SimChip>, settings: &Settings) -> Result<(), String> {
    let said = |what: &str, error: StoreError| format!("{what}: {error}");
    let mut store = match (entry.format)(Box::new(chip.clone()), settings) {
        Ok(store) => store,
        Err(StoreError::Unsupported(_)) => return Ok(()),
        Err(error) => {
            return match IndexError::from(error) {
                error if error.is_unsupported() => Ok(()),
                error => Err(format!("format: {error}")),
            };
        }
    };
    let (bytes, pages) = (store.page_bytes(), store.page_count());
    let places: Vec<u32> = (0..40).map(|i| (i * (pages / 40).max(1)).min(pages - 1)).collect();
    for &lpn in &places {
        store.write(Lpn(lpn), Cause::Host, &vec![lpn as u8; bytes]).map_err(|e| said("write", e))?;
    }
    store.checkpoint().map_err(|e| said("close", e))?;
    drop(store);
    let mut store = (entry.mount)(Box::new(chip), settings).map_err(|e| said("mount", e))?;
    let mut page = vec![0; bytes];
    for &lpn in &places {
        store.read(Lpn(lpn), Cause::Host, &mut page).map_err(|e| said("read", e))?;
        if page != vec![lpn as u8; bytes] {
            return Err(format!("page {lpn} has other bytes"));
        }
    }
    Ok(())
}

fn require_none(faults: Vec<String>) {
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn every_index_works_or_refuses_at_the_ends_of_chips_and_records() {
    let of = |(number, entry): (usize, &'static IndexEntry)| {
        faults((number, entry.name), &|part| entry.suited(part), &RECORDS, &|chip, settings| {
            use_index(entry, chip, settings)
        })
    };
    require_none(INDEXES.iter().enumerate().flat_map(of).collect());
}

#[test]
fn every_spatial_index_works_or_refuses_at_the_ends_of_chips() {
    let of = |(number, entry): (usize, &'static SpatialEntry)| {
        faults((number, entry.name), &|part| part, &[(8, 8)], &|chip, settings| {
            use_spatial(entry, chip, settings)
        })
    };
    require_none(SPATIAL.iter().enumerate().flat_map(of).collect());
}

#[test]
fn every_ftl_works_or_refuses_at_the_ends_of_chips() {
    let of = |(number, entry): (usize, &'static StoreEntry)| {
        faults((number, entry.name), &|part| part, &[(8, 8)], &|chip, settings| {
            use_store(entry, chip, settings)
        })
    };
    require_none(STORES.iter().enumerate().flat_map(of).collect());
}

/// Block counts to try for small chips: every count up to the first number, then larger steps up to the
/// second.
const FEW_BLOCKS: u32 = 40;
const MOST_BLOCKS: u32 = 1_500;

/// Searches for a chip that the index accepts but that has no room for a record.
fn without_room(
    entry: &IndexEntry,
    settings: &Settings,
    page_bytes: u32,
    pages_per_block: u32,
) -> Vec<String> {
    let (mut wrong, mut taken, mut blocks) = (Vec::new(), 0, 1);
    while taken < 4 && blocks < MOST_BLOCKS {
        let shape = (page_bytes, pages_per_block, blocks);
        blocks += 1 + if blocks > FEW_BLOCKS { blocks / 4 } else { 0 };
        let Ok(chip) = SimChip::new(&entry.suited(part(shape, 64))) else { continue };
        let RecordFormat { key_bytes, value_bytes } = settings.record;
        let place = format!("{} on {}, {shape:?}", entry.name, entry.storage(&settings.options));
        match (entry.format)(Box::new(chip), settings) {
            Ok(mut index) => {
                taken += 1;
                let put = index.insert(&key_of(7, key_bytes), &value_of(7, value_bytes));
                let closed = put.and_then(|_| index.close());
                wrong.extend(closed.err().map(|error| format!("{place}, {:?}: {error}", settings.record)));
            }
            Err(error) if error.is_unsupported() => {}
            Err(error) => wrong.push(format!("{place}: format: {error}")),
        }
    }
    wrong
}

#[test]
fn the_smallest_chips_that_are_taken_have_room_for_a_record() {
    // In the gate one block size for each index, FTL, record and class, in turn.
    let (mut wrong, mut turn, step) = (Vec::new(), 0, stride(4));
    for entry in INDEXES {
        let ftls =
            STORES.iter().map(|ftl| ftl.name).filter(|_| entry.options.iter().any(|o| o.name == "ftl"));
        let ftls: Vec<Option<&str>> = std::iter::once(None).chain(ftls.map(Some)).collect();
        for (record, ftl) in
            [(8, 8), (255, 255)].map(|r| ftls.iter().map(move |f| (r, *f))).into_iter().flatten()
        {
            for durability in [Durability::EveryOperation, Durability::None] {
                let record = RecordFormat::new(record.0, record.1);
                let mut settings = Settings { durability, ..Settings::new(record) };
                if let Some(ftl) = ftl {
                    settings = settings.with("ftl", ftl);
                }
                turn += 1;
                for pages_per_block in [2, 3, 8, 32].into_iter().skip(turn % step).step_by(step) {
                    let page_bytes = if record.key_bytes == 8 { 512 } else { 4096 };
                    wrong.extend(without_room(entry, &settings, page_bytes, pages_per_block));
                }
            }
        }
    }
    require_none(wrong);
}

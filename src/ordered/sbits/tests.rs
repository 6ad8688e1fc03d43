//! SBITS against a list, power cuts at every operation, damage, a full chip, look-up costs.

use super::page::{HEADER_BYTES, Header};
use super::{Sbits, SbitsConfig, WhenFull};
use crate::nand::catalogue::mlc_64m;
use crate::nand::sim::{CutWhen, Faults, PowerCut, SimChip, TornModel};
use crate::nand::{Cause, Geometry, Part};
use crate::ordered::{Direction, Durability, OrderedIndex, RecordFormat};
use crate::rng::Rng;
use crate::testing::{Chip, walk};
use crate::units::Ppn;
use crate::{IndexError, Nand};
use alloc::vec::Vec;
use core::ops::Bound;

type Records = Vec<(u64, u32)>;

fn chip(pages_per_block: u32, blocks: u32) -> SimChip {
    let geometry = Geometry::new(512, 16, pages_per_block, blocks);
    SimChip::new(&Part { geometry, ..mlc_64m() }).unwrap()
}

fn settings(durability: Durability) -> SbitsConfig {
    SbitsConfig { durability, ..SbitsConfig::new(RecordFormat::new(8, 4)) }
}

fn contents(
    store: &mut dyn OrderedIndex,
    bounds: (Bound<u64>, Bound<u64>),
    direction: Direction,
) -> Result<Records, IndexError> {
    let bytes = |n: u64| n.to_be_bytes().to_vec();
    let all = walk(store, &(bounds.0.map(bytes), bounds.1.map(bytes)), direction, usize::MAX)?;
    let number = |k: Vec<u8>, v: Vec<u8>| {
        (u64::from_be_bytes(k.try_into().unwrap()), u32::from_le_bytes(v.try_into().unwrap()))
    };
    Ok(all.into_iter().map(|(k, v)| number(k, v)).collect())
}

fn everything(store: &mut dyn OrderedIndex) -> Records {
    contents(store, (Bound::Unbounded, Bound::Unbounded), Direction::Ascending).unwrap()
}

fn assert_holds(store: &mut dyn OrderedIndex, model: &Records) {
    let report = store.check().unwrap();
    assert!(report.is_sound(), "{:?}", report.violations);
    assert_eq!(report.records, model.len() as u64);
    assert!(everything(store) == *model);
    let mut backwards = contents(store, (Bound::Unbounded, Bound::Unbounded), Direction::Descending).unwrap();
    backwards.reverse();
    assert!(backwards == *model);
}

fn get(store: &mut dyn OrderedIndex, key: u64) -> Result<Option<u32>, IndexError> {
    let mut value = [0; 4];
    Ok(store.get(&key.to_be_bytes(), &mut value)?.then_some(u32::from_le_bytes(value)))
}

/// Appends `count` records with gaps that change their size now and then.
fn append(store: &mut dyn OrderedIndex, model: &mut Records, count: usize, rng: &mut Rng) {
    for i in 0..count {
        let gap = 1 + rng.below([1, 40, 100_000][i / 700 % 3]);
        let key = model.last().map_or(5, |last| last.0 + gap);
        store.insert(&key.to_be_bytes(), &(i as u32).to_le_bytes()).unwrap();
        model.push((key, i as u32));
    }
}

#[test]
fn records_are_found_where_they_were_put() {
    for (durability, points) in [(Durability::EverySync, 300), (Durability::EveryOperation, 4)] {
        let settings = SbitsConfig { spline_points: Some(points), ..settings(durability) };
        let mut store = Sbits::format(chip(8, 64), &settings).unwrap();
        let (mut model, mut rng) = (Records::new(), Rng::new(3));
        for round in 0..6 {
            append(&mut store, &mut model, 1500, &mut rng);
            assert_holds(&mut store, &model);
            for _ in 0..300 {
                let (key, value) = model[rng.below(model.len() as u64) as usize];
                assert_eq!(get(&mut store, key).unwrap(), Some(value));
                let near = key + rng.below(3);
                let expected = model.binary_search_by_key(&near, |r| r.0).ok().map(|i| model[i].1);
                assert_eq!(get(&mut store, near).unwrap(), expected);
            }
            for _ in 0..20 {
                let (a, b) = (rng.below(model[model.len() - 1].0 + 50), rng.below(100_000));
                let bounds = (Bound::Included(a), Bound::Excluded(a + b));
                let expected: Records = model.iter().copied().filter(|r| (a..a + b).contains(&r.0)).collect();
                assert!(contents(&mut store, bounds, Direction::Ascending).unwrap() == expected);
                let mut backwards = contents(&mut store, bounds, Direction::Descending).unwrap();
                backwards.reverse();
                assert!(backwards == expected);
            }
            if round % 2 == 0 {
                store.close().unwrap();
            } else {
                store.sync().unwrap();
            }
            store = Sbits::mount(store.into_nand(), &settings).unwrap();
            assert_holds(&mut store, &model);
        }
    }
}

#[test]
fn a_failed_program_leaves_the_page_before_it_readable() {
    let settings = settings(Durability::EverySync);
    let mut checked = 0;
    for seed in 0..200 {
        let mut store = Sbits::format(chip(8, 32), &settings).unwrap();
        let (mut model, mut rng) = (Records::new(), Rng::new(seed));
        append(&mut store, &mut model, 40, &mut rng);
        store.sync().unwrap();
        append(&mut store, &mut model, 5, &mut rng);
        let first = model.clone();
        store.sync().unwrap();
        append(&mut store, &mut model, 5, &mut rng);
        let faults = Faults { seed, program_failures_ppm: 500_000, ..Faults::default() };
        store.nand.set_faults(faults);
        let before = store.blocks.aside.map(|place| place.0);
        store.sync().unwrap();
        store.nand.set_faults(Faults::default());
        let Some((block, next)) = store.blocks.aside.filter(|place| Some(place.0) != before) else {
            continue;
        };
        checked += 1;
        let newest = store.blocks.geometry.page_at(block, next - 1);
        // The newest page does not survive the cut that follows.
        let bits: Vec<usize> = (0..64).collect();
        let mut store =
            Sbits::mount(Chip::new(store.into_nand()).with_wrong_bits(newest, &bits), &settings).unwrap();
        assert!(
            everything(&mut store) == first,
            "seed {seed}: {} of {}",
            everything(&mut store).len(),
            first.len()
        );
    }
    assert!(checked > 50, "{checked}");
}

#[test]
fn a_mount_erases_the_page_before_the_newest_one_last() {
    let settings = settings(Durability::EverySync);
    let mut store = Sbits::format(chip(8, 32), &settings).unwrap();
    let (mut model, mut rng) = (Records::new(), Rng::new(1));
    append(&mut store, &mut model, 45, &mut rng);
    store.close().unwrap();
    let (block, next) = store.blocks.aside.unwrap();
    let newest = store.blocks.geometry.page_at(block, next - 1);
    let mut store = Sbits::mount(store.into_nand(), &settings).unwrap();
    let closed = model.clone();
    append(&mut store, &mut model, 5, &mut rng);
    let (at_operation, when, torn) = (store.nand.operations(), CutWhen::Inside, TornModel::RandomBits);
    store.nand.plan_power_cut(PowerCut { at_operation, when, torn, seed: 1 });
    assert!(store.sync().is_err());
    let mut chip = store.into_nand();
    chip.power_on();
    let bits: Vec<usize> = (0..64).collect();
    let mut store = Sbits::mount(Chip::new(chip).with_wrong_bits(newest, &bits), &settings).unwrap();
    assert!(everything(&mut store) == closed);
}

#[test]
fn what_does_not_ascend_is_refused_by_name() {
    let mut store = Sbits::format(chip(8, 16), &settings(Durability::EverySync)).unwrap();
    store.insert(&7u64.to_be_bytes(), &[1; 4]).unwrap();
    for key in [7u64, 6, 0] {
        assert_eq!(store.insert(&key.to_be_bytes(), &[2; 4]), Err(IndexError::NotAscending));
    }
    let error = store.remove(&7u64.to_be_bytes()).unwrap_err();
    assert!(alloc::string::ToString::to_string(&error).contains("ascending"), "{error}");
    assert_eq!(get(&mut store, 7).unwrap(), Some(u32::from_le_bytes([1; 4])));
}

#[test]
fn a_look_up_reads_about_one_page_and_an_insertion_programs_a_share_of_one() {
    let mut store = Sbits::format(chip(64, 64), &settings(Durability::EverySync)).unwrap();
    for i in 0..100_000u64 {
        store.insert(&(1000 + i * 10 + i % 7).to_be_bytes(), &[0; 4]).unwrap();
    }
    let before = store.nand.counters();
    assert_eq!(
        before.page_programs[Cause::Host as usize],
        100_000 / 40 + 2,
        "40 records a page; two at the format"
    );
    assert_eq!(before.page_reads[Cause::Host as usize], 0);
    let mut rng = Rng::new(1);
    for _ in 0..2000 {
        let i = rng.below(100_000);
        assert_eq!(get(&mut store, 1000 + i * 10 + i % 7).unwrap(), Some(0));
    }
    let reads = store.nand.counters().page_reads[Cause::Host as usize];
    assert!((1900..2600).contains(&reads), "{reads} reads for 2,000 look-ups");
    store.close().unwrap();
    let settings = settings(Durability::EverySync);
    let chip = store.into_nand();
    let before = chip.counters().page_reads[Cause::Recovery as usize];
    let store = Sbits::mount(chip, &settings).unwrap();
    let reads = store.nand.counters().page_reads[Cause::Recovery as usize] - before;
    assert!(reads < 4 * 64 + 5 * 64, "{reads} reads to mount 2,500 pages in 40 blocks");
}

#[test]
fn a_full_store_refuses_or_drops_the_oldest() {
    let mut store = Sbits::format(chip(8, 12), &settings(Durability::EverySync)).unwrap();
    let mut last = 0u64;
    while store.insert(&last.to_be_bytes(), &[0; 4]).is_ok() {
        last += 1;
    }
    assert_eq!(store.insert(&last.to_be_bytes(), &[0; 4]), Err(IndexError::NO_BLOCK));
    assert!(last >= 8 * 8 * 40, "{last} records");
    assert_eq!(everything(&mut store).len() as u64, last);

    let dropping = SbitsConfig { when_full: WhenFull::DropOldest, ..settings(Durability::EverySync) };
    let mut store = Sbits::mount(store.into_nand(), &dropping).unwrap();
    // The mount found the last sync.
    let (mut model, mut rng) = (everything(&mut store), Rng::new(1));
    for round in 0..12 {
        append(&mut store, &mut model, 900, &mut rng);
        let held = everything(&mut store);
        assert!(held.len() > 6 * 8 * 40 && model.ends_with(&held), "round {round}: {}", held.len());
        model = held;
        let (key, value) = model[rng.below(model.len() as u64) as usize];
        assert_eq!(get(&mut store, key).unwrap(), Some(value));
        if round % 3 == 2 {
            store.close().unwrap();
            store = Sbits::mount(store.into_nand(), &dropping).unwrap();
        }
        assert_holds(&mut store, &model);
    }
}

#[test]
fn a_power_cut_loses_nothing_promised() {
    for durability in [Durability::EverySync, Durability::EveryOperation] {
        let settings = settings(durability);
        let formatted = Sbits::format(chip(4, 24), &settings).unwrap().into_nand();
        let work = |chip: SimChip| {
            let mut store = Sbits::mount(chip, &settings).unwrap();
            let (mut acknowledged, mut durable) = (0u64, 0);
            for key in 0..300u64 {
                if store.insert(&key.to_be_bytes(), &(key as u32).to_le_bytes()).is_err() {
                    break;
                }
                acknowledged = key + 1;
                if durability == Durability::EveryOperation || (key % 23 == 22 && store.sync().is_ok()) {
                    durable = acknowledged;
                }
            }
            (store.into_nand(), acknowledged, durable)
        };
        let last = work(formatted.clone()).0.operations();
        for at_operation in formatted.operations()..last {
            for (when, torn) in [CutWhen::Inside, CutWhen::After]
                .into_iter()
                .zip([0, 2])
                .flat_map(|(when, t)| [(when, TornModel::ALL[t]), (when, TornModel::ALL[t + 1])])
            {
                let mut chip = formatted.clone();
                chip.plan_power_cut(PowerCut { at_operation, when, torn, seed: at_operation });
                let (mut chip, acknowledged, durable) = work(chip);
                chip.power_on();
                let mut store = Sbits::mount(chip, &settings).unwrap();
                let mut model = everything(&mut store);
                let found = model.len() as u64;
                assert!(
                    (durable..=acknowledged + 1).contains(&found),
                    "{found} of {durable}, {acknowledged}"
                );
                assert!(model.iter().enumerate().all(|(i, r)| *r == (i as u64, i as u32)));
                assert_holds(&mut store, &model);
                append(&mut store, &mut model, 130, &mut Rng::new(1));
                store.sync().unwrap();
                let mut store = Sbits::mount(store.into_nand(), &settings).unwrap();
                assert_holds(&mut store, &model);
            }
        }
    }
}

#[test]
fn failing_programs_and_erases_lose_nothing() {
    let faults =
        Faults { seed: 5, program_failures_ppm: 4000, erase_failures_ppm: 4000, ..Faults::default() };
    for durability in [Durability::EverySync, Durability::EveryOperation] {
        let settings = settings(durability);
        let mut store = Sbits::format(chip(8, 96).with_faults(faults), &settings).unwrap();
        let (mut model, mut rng) = (Records::new(), Rng::new(3));
        for _ in 0..4 {
            append(&mut store, &mut model, 1200, &mut rng);
            assert_holds(&mut store, &model);
            store.close().unwrap();
            store = Sbits::mount(store.into_nand(), &settings).unwrap();
        }
        assert_holds(&mut store, &model);
        assert!(store.nand.counters().page_programs[Cause::Host as usize] > 100);
    }
}

/// No partly filled page is full: the record after it would be written beyond the page.
#[test]
fn a_partly_filled_page_that_is_full_is_damage() {
    let (mut nand, mut page) = (chip(8, 8), [0xff; 512]);
    let record = RecordFormat::new(8, 4);
    let (count, sequence) = (((512 - HEADER_BYTES) / record.entry_bytes()) as u16, 1);
    let header = Header { partial: true, closed: true, record, count, number: 0, oldest_block: 0, sequence };
    header.encode(&mut page, 8);
    nand.program(Ppn(0), Cause::Host, &page, &[]).unwrap();
    let mounted = Sbits::mount(nand, &settings(Durability::EverySync)).map(|_| ());
    assert!(matches!(mounted, Err(IndexError::Corrupted { .. })), "{mounted:?}");
}

#[test]
fn ram_is_kept_and_too_little_is_refused() {
    for ram_bytes in [3_000, 10_000] {
        let settings = SbitsConfig { ram_bytes: Some(ram_bytes), ..settings(Durability::EverySync) };
        let mut store = Sbits::format(chip(16, 64), &settings).unwrap();
        append(&mut store, &mut Records::new(), 9000, &mut Rng::new(8));
        assert!(store.ram_bytes() <= ram_bytes, "{} of {ram_bytes}", store.ram_bytes());
    }
    let little = SbitsConfig { ram_bytes: Some(1_500), ..settings(Durability::EverySync) };
    assert!(matches!(
        Sbits::format(chip(16, 64), &little),
        Err(IndexError::TooLittleRam { given: 1_500, .. })
    ));
}

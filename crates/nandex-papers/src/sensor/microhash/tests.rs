//! MicroHash against a list, power cuts at every operation, damage of every page, a ring that wraps, failing
//! blocks, costs.

use super::{Eviction, MicroHash, MicroHashConfig, TimeSearch};
use crate::sensor::{Reading, SensorLog};
use alloc::vec::Vec;
use core::ops::{ControlFlow, RangeInclusive};
use nandex::nand::catalogue::mlc_64m;
use nandex::nand::sim::{CutWhen, Faults, PowerCut, SimChip, TornModel};
use nandex::nand::{Cause, Geometry, Part};
use nandex::rng::Rng;
use nandex::testing::damaged::{Damage, damage, set_back};
use nandex::units::Ppn;
use nandex::{IndexError, Nand};
use proptest::prelude::*;
use std::format;

fn chip(page_bytes: u32, pages_per_block: u32, blocks: u32) -> SimChip {
    let geometry = Geometry::new(page_bytes, 16, pages_per_block, blocks);
    SimChip::new(&Part { geometry, ..mlc_64m() }).unwrap()
}

fn settings() -> MicroHashConfig {
    MicroHashConfig { values: (0, 999), buckets: 8, ..MicroHashConfig::default() }
}

type Found = Result<Vec<Reading>, IndexError>;

fn by_time<N: Nand>(log: &mut MicroHash<N>, times: RangeInclusive<u64>) -> Found {
    let mut found = Vec::new();
    log.by_time(times, &mut |reading| {
        found.push(reading);
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

/// The readings found, sorted by time, because a query by value promises no order.
fn by_value<N: Nand>(log: &mut MicroHash<N>, values: RangeInclusive<i32>) -> Found {
    let mut found = Vec::new();
    log.by_value(values, &mut |reading| {
        found.push(reading);
        ControlFlow::Continue(())
    })?;
    found.sort_unstable();
    Ok(found)
}

fn sorted(model: impl Iterator<Item = Reading>) -> Vec<Reading> {
    let mut expected: Vec<Reading> = model.collect();
    expected.sort_unstable();
    expected
}

/// Readings of a day. Times rise by a few steps or not at all; values wander, with a spell of one value and
/// some outliers.
struct Sensor {
    rng: Rng,
    time: u64,
    value: i32,
}

impl Sensor {
    fn new(seed: u64) -> Sensor {
        Sensor { rng: Rng::new(seed), time: 0, value: 500 }
    }

    fn next(&mut self) -> Reading {
        self.time += [1, 1, 1, 0, 7][self.rng.below(5) as usize];
        match self.rng.below(40) {
            0 => self.value = self.rng.below(1000) as i32,
            1 => {
                return Reading {
                    time: self.time,
                    value: [-5000, 70_000, i32::MIN][self.rng.below(3) as usize],
                };
            }
            2..20 => self.value = (self.value + self.rng.below(9) as i32 - 4).clamp(0, 999),
            _ => {}
        }
        Reading { time: self.time, value: self.value }
    }
}

fn append<N: Nand>(log: &mut MicroHash<N>, model: &mut Vec<Reading>, count: usize, sensor: &mut Sensor) {
    for _ in 0..count {
        let reading = sensor.next();
        log.append(reading).unwrap();
        model.push(reading);
    }
}

/// Checks that the log holds the end of the model, and that every way to query agrees. Readings that the
/// log has given up are removed from the model.
fn assert_holds<N: Nand>(log: &mut MicroHash<N>, model: &mut Vec<Reading>, rng: &mut Rng) {
    let report = log.check().unwrap();
    assert!(report.is_sound(), "{:?}", report.violations);
    let all = by_time(log, 0..=u64::MAX).unwrap();
    assert_eq!(report.records, all.len() as u64);
    assert!(model.ends_with(&all), "{} of {}", all.len(), model.len());
    assert_eq!(log.newest().unwrap(), all.last().copied());
    assert_eq!(log.oldest().unwrap(), all.first().copied());
    *model = all;
    assert!(by_value(log, i32::MIN..=i32::MAX).unwrap() == sorted(model.iter().copied()));
    for _ in 0..12 {
        let start = rng.below(model.last().map_or(1, |last| last.time + 3));
        let times = start..=start + rng.below(200);
        let expected: Vec<Reading> = model.iter().copied().filter(|r| times.contains(&r.time)).collect();
        assert!(by_time(log, times.clone()).unwrap() == expected, "{times:?}");
        let low = rng.below(1000) as i32;
        let values = low..=low + [0, 3, 100][rng.below(3) as usize];
        let expected = sorted(model.iter().copied().filter(|r| values.contains(&r.value)));
        assert!(by_value(log, values.clone()).unwrap() == expected, "{values:?}");
    }
}

#[test]
fn readings_are_found_by_time_and_by_value_in_every_setting() {
    for (time_search, eviction) in [
        (TimeSearch::Scale, Eviction::Fullest),
        (TimeSearch::LowerBound, Eviction::Oldest),
        (TimeSearch::Binary, Eviction::Fullest),
    ] {
        let settings = MicroHashConfig { time_search, eviction, ..settings() };
        let mut log = MicroHash::format(chip(512, 16, 64), &settings).unwrap();
        let (mut model, mut sensor, mut rng) = (Vec::new(), Sensor::new(3), Rng::new(4));
        assert_holds(&mut log, &mut model, &mut rng);
        for round in 0..5 {
            append(&mut log, &mut model, 2_500, &mut sensor);
            let before = model.len();
            assert_holds(&mut log, &mut model, &mut rng);
            assert_eq!(model.len(), before, "the chip is not full");
            if round % 2 == 0 {
                log.close().unwrap();
            } else {
                log.sync().unwrap();
            }
            log = MicroHash::mount(log.into_nand(), &settings).unwrap();
            assert_holds(&mut log, &mut model, &mut rng);
            assert_eq!(model.len(), before, "all of it was synced");
        }
        let repartitions = log.stats().metrics.iter().find(|m| m.name == "repartitions").unwrap().value;
        assert!(repartitions > 0 || log.ring.counters.data_pages < 70, "{repartitions} repartitions");
    }
}

#[test]
fn a_time_that_goes_back_is_refused_and_the_same_time_is_not() {
    let mut log = MicroHash::format(chip(512, 8, 16), &settings()).unwrap();
    for time in [5, 5, 9] {
        log.append(Reading { time, value: 1 }).unwrap();
    }
    assert_eq!(log.append(Reading { time: 8, value: 1 }), Err(IndexError::NotAscending));
    log.sync().unwrap();
    let mut log = MicroHash::mount(log.into_nand(), &settings()).unwrap();
    assert_eq!(log.append(Reading { time: 8, value: 1 }), Err(IndexError::NotAscending));
    assert_eq!(by_time(&mut log, 5..=5).unwrap().len(), 2);
}

proptest! {
    #![proptest_config(crate::inputs::fixed(24))]
    #[test]
    fn any_life_agrees_with_a_list(
        seed in any::<u64>(),
        steps in prop::collection::vec((0u8..4, 1usize..400), 1..16),
        blocks in 8u32..20,
        horizon in 1u32..40,
    ) {
        let settings = MicroHashConfig { horizon, entries: 100, ..settings() };
        let mut log = MicroHash::format(chip(512, 8, blocks), &settings).unwrap();
        let (mut model, mut sensor, mut rng) = (Vec::new(), Sensor::new(seed), Rng::new(seed));
        for (step, count) in steps {
            append(&mut log, &mut model, count, &mut sensor);
            match step {
                0 => {}
                1 => log.sync().unwrap(),
                _ => {
                    if step == 2 { log.sync().unwrap() } else { log.close().unwrap() }
                    let held = by_time(&mut log, 0..=u64::MAX).unwrap();
                    log = MicroHash::mount(log.into_nand(), &settings).unwrap();
                    prop_assert!(by_time(&mut log, 0..=u64::MAX).unwrap() == held, "a mount lost something");
                }
            }
            assert_holds(&mut log, &mut model, &mut rng);
        }
    }
}

#[test]
fn the_oldest_block_goes_first_when_the_ring_wraps_many_times() {
    let mut log = MicroHash::format(chip(512, 8, 12), &settings()).unwrap();
    let (mut model, mut sensor, mut rng) = (Vec::new(), Sensor::new(9), Rng::new(10));
    for round in 0..40 {
        append(&mut log, &mut model, 1_500, &mut sensor);
        assert_holds(&mut log, &mut model, &mut rng);
        assert!(round == 0 || model.len() > 700, "round {round}: {} readings", model.len());
        if round % 5 == 4 {
            log.sync().unwrap();
            log = MicroHash::mount(log.into_nand(), &settings()).unwrap();
            assert_holds(&mut log, &mut model, &mut rng);
        }
    }
    let wear = log.nand().wear().to_vec();
    assert!(log.ring.oldest > 300, "{} blocks given up", log.ring.oldest);
    let (least, most) = (wear.iter().min().unwrap(), wear.iter().max().unwrap());
    assert!(*least * 2 > *most, "blocks wear evenly: {wear:?}");
}

/// Runs a short life of a log. Returns the chip, the readings appended, and how many of them a sync has
/// promised.
fn small_life(chip: SimChip, settings: &MicroHashConfig) -> (SimChip, Vec<Reading>, usize) {
    let (mut model, mut durable) = (Vec::new(), 0);
    let mut log = MicroHash::mount(chip, settings).unwrap();
    let mut sensor = Sensor::new(21);
    for i in 0..520 {
        let reading = sensor.next();
        model.push(reading);
        if log.append(reading).is_err() {
            break;
        }
        if i % 29 == 28 {
            if log.sync().is_err() {
                break;
            }
            durable = model.len();
        }
    }
    (log.into_nand(), model, durable)
}

#[test]
fn a_power_cut_at_any_operation_loses_nothing_that_was_synced() {
    let settings = MicroHashConfig { buckets: 4, entries: 40, horizon: 5, ..settings() };
    // Seventeen readings a page, ten blocks of four: the ring wraps.
    let formatted = MicroHash::format(chip(256, 4, 10), &settings).unwrap().into_nand();
    let (end, whole, _) = small_life(formatted.clone(), &settings);
    let mut cuts = 0;
    for at_operation in formatted.operations()..end.operations() {
        for (when, torn) in TornModel::ALL
            .map(|torn| (CutWhen::Inside, torn))
            .into_iter()
            .chain([(CutWhen::Before, TornModel::Prefix), (CutWhen::After, TornModel::Prefix)])
        {
            let mut chip = formatted.clone();
            chip.plan_power_cut(PowerCut { at_operation, when, torn, seed: at_operation });
            let (mut chip, model, durable) = small_life(chip, &settings);
            chip.power_on();
            let mut log = MicroHash::mount(chip, &settings).unwrap();
            let all = by_time(&mut log, 0..=u64::MAX).unwrap();
            let appended = log.ring.stored as usize + log.filling.count;
            let at = format!(
                "{appended} of {durable} to {}, cut at {at_operation} {when:?} {torn:?}",
                model.len()
            );
            assert!((durable..=model.len()).contains(&appended), "{at}");
            assert!(whole[..appended].ends_with(&all), "{at}");
            let mut model = whole[..appended].to_vec();
            assert_holds(&mut log, &mut model, &mut Rng::new(1));
            let mut sensor = Sensor { time: 1 << 20, ..Sensor::new(2) };
            append(&mut log, &mut model, 60, &mut sensor);
            log.sync().unwrap();
            let mut log = MicroHash::mount(log.into_nand(), &settings).unwrap();
            assert_holds(&mut log, &mut model, &mut Rng::new(3));
            assert!(model.len() >= 17 && model.last().unwrap().time > 1 << 20, "{at}");
            cuts += 1;
        }
    }
    assert!(cuts > 500, "{cuts} cuts");
    let log = MicroHash::mount(end, &settings).unwrap();
    assert!(log.ring.oldest > 5, "{} blocks given up: the ring has wrapped", log.ring.oldest);
}

/// A chip whose ring has wrapped, with a partly filled page synced, and the readings on it. The log is
/// closed if `closed` is set.
fn filled(closed: bool) -> (SimChip, Vec<Reading>, MicroHashConfig) {
    let settings = MicroHashConfig { buckets: 4, entries: 60, ..settings() };
    let mut log = MicroHash::format(chip(256, 8, 10), &settings).unwrap();
    let (mut model, mut sensor) = (Vec::new(), Sensor::new(5));
    append(&mut log, &mut model, 1_200, &mut sensor);
    if closed {
        log.close().unwrap();
    } else {
        log.sync().unwrap();
    }
    let model = by_time(&mut log, 0..=u64::MAX).unwrap();
    (log.into_nand(), model, settings)
}

/// Queries a damaged chip. Each answer must be right, or an error that names a page. Returns the number of
/// right answers.
fn ask(chip: SimChip, settings: &MicroHashConfig, model: &[Reading], at: &str) -> usize {
    let named = |error: IndexError| {
        let text = format!("{error}");
        assert!(text.chars().any(|c| c.is_ascii_digit()), "{at}: {text} names no page");
        0
    };
    let mut log = match MicroHash::mount(chip, settings) {
        Ok(log) => log,
        Err(error) => return named(error),
    };
    let mut answered = 1;
    for low in [-6_000, 0, 250, 480, 500, 700] {
        let values = low..=low + 120;
        let expected = sorted(model.iter().copied().filter(|r| values.contains(&r.value)));
        answered += by_value(&mut log, values).map_or_else(named, |found| {
            assert!(found == expected, "{at}: values from {low}: {} of {}", found.len(), expected.len());
            1
        });
    }
    let (first, last) = (model[0].time, model[model.len() - 1].time);
    for part in 0..6 {
        let start = first + (last - first) * part / 6;
        let times = start..=start + (last - first) / 5;
        let expected: Vec<Reading> = model.iter().copied().filter(|r| times.contains(&r.time)).collect();
        answered += by_time(&mut log, times).map_or_else(named, |found| {
            assert!(found == expected, "{at}: times from {start}: {} of {}", found.len(), expected.len());
            1
        });
    }
    answered
}

#[test]
fn damage_of_any_page_of_a_closed_log_is_named_or_harmless() {
    let (chip, model, settings) = filled(true);
    let pages = (0..chip.geometry().pages()).map(Ppn);
    let (mut asked, mut answered) = (0, 0);
    for ppn in pages.filter(|&ppn| chip.stored_page(ppn).is_some()) {
        let other = Ppn((ppn.0 + 11) % chip.geometry().pages());
        let exchanges = [Damage::CopyOf(other), Damage::Exchanged(other)];
        for kind in Damage::OF_BYTES.into_iter().chain(exchanges) {
            let mut damaged = chip.clone();
            damage(&mut damaged, ppn, kind, 7);
            answered += ask(damaged, &settings, &model, &format!("{ppn} {kind:?}"));
            asked += 13;
        }
    }
    assert!(answered * 10 > asked * 7, "{answered} of {asked} answered");
}

/// After a sync without a close, damage to the last page cannot be told from a power cut in its program.
#[test]
fn damage_of_any_page_but_the_last_of_a_synced_log_is_named_or_harmless() {
    let (chip, model, settings) = filled(false);
    let log = MicroHash::mount(chip.clone(), &settings).unwrap();
    let (block, _) = log.ring.aside.unwrap();
    let geometry = chip.geometry();
    let last = (0..geometry.pages_per_block).map(|page| geometry.page_at(block, page));
    let last = last.rev().find(|&ppn| chip.stored_page(ppn).is_some()).unwrap();
    for ppn in (0..geometry.pages()).map(Ppn).filter(|&ppn| ppn != last && chip.stored_page(ppn).is_some()) {
        for kind in Damage::OF_BYTES {
            let mut damaged = chip.clone();
            damage(&mut damaged, ppn, kind, 8);
            ask(damaged, &settings, &model, &format!("{ppn} {kind:?}"));
        }
    }
    let mut damaged = chip;
    damage(&mut damaged, last, Damage::Flips, 8);
    let mut log = MicroHash::mount(damaged, &settings).unwrap();
    let all = by_time(&mut log, 0..=u64::MAX).unwrap();
    assert!(model.starts_with(&all) && all.len() < model.len() && all.len() + 20 > model.len());
}

/// Without its newest directory the log answers from the data pages, and indexes the readings that follow.
#[test]
fn a_lost_directory_costs_reads_and_no_reading() {
    let (chip, mut model, settings) = filled(true);
    let log = MicroHash::mount(chip.clone(), &settings).unwrap();
    let newest = log.ring.place_of(log.ring.last - log.ring.last % 8).unwrap();
    let mut damaged = chip;
    damaged.make_unreadable(newest);
    let mut log = MicroHash::mount(damaged, &settings).unwrap();
    assert_eq!((log.index.directory.indexed_from, log.index.pending.len()), (log.ring.last + 1, 0));
    let expected = sorted(model.iter().copied().filter(|r| (400..600).contains(&r.value)));
    assert!(by_value(&mut log, 400..=599).unwrap() == expected);
    let mut sensor = Sensor { time: 1 << 20, ..Sensor::new(6) };
    append(&mut log, &mut model, 2_000, &mut sensor);
    log.sync().unwrap();
    let mut log = MicroHash::mount(log.into_nand(), &settings).unwrap();
    assert_holds(&mut log, &mut model, &mut Rng::new(1));
    assert!(log.index.directory.indexed_from < log.ring.first_page(), "what was not indexed has gone");
}

#[test]
fn failing_programs_and_erases_and_factory_bad_blocks_lose_nothing() {
    let faults = Faults {
        seed: 5,
        program_failures_ppm: 4_000,
        erase_failures_ppm: 4_000,
        read_failures_ppm: 5_000,
        read_failures_in_row: 1,
        ..Faults::default()
    };
    let chip = chip(512, 8, 160).with_factory_bad_blocks(50_000, 3).with_faults(faults);
    let mut log = MicroHash::format(chip, &settings()).unwrap();
    let (mut model, mut sensor, mut rng) = (Vec::new(), Sensor::new(12), Rng::new(13));
    let mut retired = 0;
    for _ in 0..6 {
        for _ in 0..8 {
            append(&mut log, &mut model, 1_000, &mut sensor);
            log.sync().unwrap();
        }
        assert_holds(&mut log, &mut model, &mut rng);
        log.close().unwrap();
        retired += log.ring.counters.blocks_retired;
        log = MicroHash::mount(log.into_nand(), &settings()).unwrap();
        assert_holds(&mut log, &mut model, &mut rng);
    }
    assert!(retired > 5, "{retired} blocks retired");
}

#[test]
fn a_worn_out_chip_refuses_and_keeps_what_it_has() {
    let mut log = MicroHash::format(chip(512, 8, 8), &settings()).unwrap();
    let (mut model, mut sensor) = (Vec::new(), Sensor::new(2));
    append(&mut log, &mut model, 1_000, &mut sensor);
    let held = by_time(&mut log, 0..=u64::MAX).unwrap();
    log.ring.nand.set_faults(Faults { seed: 1, program_failures_ppm: 1_000_000, ..Faults::default() });
    let mut more = 0;
    let error = loop {
        match log.append(sensor.next()) {
            Ok(()) => more += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error, IndexError::WornOut);
    assert!(more < 39);
    assert_eq!(log.append(sensor.next()), Err(IndexError::WornOut));
    let all = by_time(&mut log, 0..=u64::MAX).unwrap();
    assert!(all.len() >= more && held.ends_with(&all[..all.len() - more]));
    assert!(log.check().unwrap().is_sound());
}

#[test]
fn ram_is_what_was_said_and_absurd_settings_are_refused() {
    let mut log = MicroHash::format(chip(512, 16, 64), &settings()).unwrap();
    let before = log.ram_bytes();
    append(&mut log, &mut Vec::new(), 20_000, &mut Sensor::new(8));
    assert_eq!(log.ram_bytes(), before, "nothing grows");
    assert!(before < 8_000, "{before} bytes");
    for wrong in [
        MicroHashConfig { buckets: 19, ..settings() },
        MicroHashConfig { values: (1, 3), ..settings() },
        MicroHashConfig { entries: 77, ..settings() },
    ] {
        let refused = MicroHash::format(chip(512, 16, 64), &wrong).map(|_| ());
        assert!(matches!(refused, Err(IndexError::Unsupported(_))), "{refused:?}");
    }
    let refused = MicroHash::mount(chip(512, 16, 64), &settings()).map(|_| ());
    assert!(matches!(refused, Err(IndexError::NotFormatted(_))), "{refused:?}");
}

/// Checks the costs named in `docs/indexes/microhash.md`.
#[test]
fn an_append_programs_a_share_of_a_page_and_a_query_reads_few() {
    let reads = |log: &MicroHash<SimChip>| log.nand().counters().page_reads[Cause::Host as usize];
    let settings = MicroHashConfig { values: (0, 999), ..MicroHashConfig::default() };
    let mut log = MicroHash::format(chip(512, 32, 128), &settings).unwrap();
    let mut rng = Rng::new(30);
    let mut value = 500i32;
    let mut model = Vec::new();
    for time in 0..80_000u64 {
        value = (value + rng.below(7) as i32 - 3).clamp(0, 999);
        let reading = Reading { time, value };
        log.append(reading).unwrap();
        model.push(reading);
    }
    let programs: u64 = log.nand().counters().page_programs.iter().sum();
    let per_thousand = programs * 1000 / 80_000;
    let before = reads(&log);
    for _ in 0..200 {
        let time = rng.below(80_000);
        assert_eq!(by_time(&mut log, time..=time).unwrap().len(), 1);
    }
    let a_time = (reads(&log) - before) * 10 / 200;
    let (mut hits, before) = (0, reads(&log));
    for value in (0..1000).step_by(10) {
        hits += by_value(&mut log, value..=value).unwrap().len() as u64;
    }
    let by_value_reads = reads(&log) - before;
    let expected = model.iter().filter(|reading| reading.value % 10 == 0).count() as u64;
    assert_eq!(hits, expected);
    let pages: u64 = log.ring.kept.iter().map(|segment| u64::from(segment.pages)).sum();
    let figures = format!(
        "{per_thousand} programs for 1,000 readings; {a_time} tenths of a read for a time; {by_value_reads} reads for 100 \
         values with {hits} readings of {pages} pages; {:?}",
        log.ring.counters
    );
    std::println!("{figures}");
    assert!(per_thousand < 60, "{figures}");
    assert!(a_time < 80, "{figures}");
    assert!(by_value_reads < 100 * pages / 4, "{figures}");
}

#[test]
fn every_search_of_a_time_reads_few_pages() {
    let settings = settings();
    let mut log = MicroHash::format(chip(512, 32, 128), &settings).unwrap();
    let mut time = 0;
    let mut rng = Rng::new(31);
    for i in 0..60_000u64 {
        // Even for a while, then in bursts.
        time += if i < 30_000 { 10 } else { [0, 1, 900][rng.below(3) as usize] };
        log.append(Reading { time, value: (i % 1000) as i32 }).unwrap();
    }
    for (time_search, most) in
        [(TimeSearch::Binary, 14), (TimeSearch::LowerBound, 20), (TimeSearch::Scale, 12)]
    {
        log.index.settings.time_search = time_search;
        let before = log.nand().counters().page_reads[Cause::Host as usize];
        for _ in 0..200 {
            let at = rng.below(time);
            by_time(&mut log, at..=at).unwrap();
        }
        let reads = log.nand().counters().page_reads[Cause::Host as usize] - before;
        std::println!("{time_search:?}: {reads} reads for 200 times");
        assert!(reads < most * 200, "{time_search:?}: {reads} reads for 200 times");
    }
}

/// Runs through many mounts, each ended by a power cut, on a chip whose programs and erases sometimes fail.
#[test]
fn cuts_one_after_the_other_on_a_failing_chip_lose_nothing_that_was_synced() {
    for seed in 0..12u64 {
        let settings = MicroHashConfig { buckets: 5, entries: 80, horizon: 9, ..settings() };
        let faults = Faults {
            seed,
            program_failures_ppm: 2_000,
            erase_failures_ppm: 2_000,
            read_failures_ppm: 5_000,
            read_failures_in_row: 1,
            ..Faults::default()
        };
        let mut chip =
            MicroHash::format(chip(256, 8, 48), &settings).unwrap().into_nand().with_faults(faults);
        let (mut model, mut sensor, mut rng) = (Vec::new(), Sensor::new(seed), Rng::new(seed));
        for life in 0..30 {
            let mut log = MicroHash::mount(chip, &settings).unwrap();
            let at_operation = log.ring.nand.operations() + rng.below(40);
            let torn = TornModel::ALL[rng.below(4) as usize];
            log.ring.nand.plan_power_cut(PowerCut {
                at_operation,
                when: CutWhen::Inside,
                torn,
                seed: rng.next_u64(),
            });
            let mut durable = model.len();
            loop {
                let reading = sensor.next();
                model.push(reading);
                if log.append(reading).is_err() {
                    break;
                }
                if rng.below(30) == 0 {
                    if log.sync().is_err() {
                        break;
                    }
                    durable = model.len();
                }
            }
            chip = log.into_nand();
            chip.power_on();
            let mut log = MicroHash::mount(chip, &settings).unwrap();
            let all = by_time(&mut log, 0..=u64::MAX).unwrap();
            let end = (durable..=model.len()).find(|&end| model[..end].ends_with(&all));
            let Some(end) = end else {
                panic!("seed {seed}, life {life}: {durable} to {}, {}", model.len(), all.len())
            };
            assert!(all.len() >= 150.min(end), "seed {seed}, life {life}: {} of {end} are left", all.len());
            model.truncate(end);
            assert_holds(&mut log, &mut model, &mut rng);
            chip = log.into_nand();
        }
    }
}

/// A page left in its place by an earlier lap of the ring is damage: it is no page of this lap.
#[test]
fn a_page_of_an_earlier_lap_is_damage() {
    let (earlier, _, settings) = filled(true);
    let mut log = MicroHash::mount(earlier.clone(), &settings).unwrap();
    let (mut model, mut sensor) = (Vec::new(), Sensor { time: 1 << 20, ..Sensor::new(7) });
    append(&mut log, &mut model, 900, &mut sensor);
    log.close().unwrap();
    let model = by_time(&mut log, 0..=u64::MAX).unwrap();
    let chip = log.into_nand();
    for ppn in (0..chip.geometry().pages()).map(Ppn) {
        let mut damaged = chip.clone();
        set_back(&mut damaged, &earlier, ppn);
        ask(damaged, &settings, &model, &format!("{ppn} set back"));
    }
}

//! Damaged logs of sensor readings: each answer is right, or an error. Every two pages exchanged, copies,
//! zeros, flips, pages of before; and logs whose checksums do not name their place are read all the same.

#![allow(clippy::unwrap_used)]

use nandex::nand::catalogue::mlc_64m;
use nandex::nand::sim::{CutWhen, PowerCut, SimChip, TornModel};
use nandex::nand::{Geometry, Part};
use nandex::units::Ppn;
use nandex::{IndexError, Nand};
use nandex_papers::sensor::microhash::{MicroHash, MicroHashConfig};
use nandex_papers::sensor::{Reading, SensorLog};
use std::ops::ControlFlow;

type Log = MicroHash<SimChip>;

/// A ring that has wrapped, closed amid a page, and the same some hundred readings before.
struct Chip {
    now: SimChip,
    before: SimChip,
    settings: MicroHashConfig,
    readings: Vec<Reading>,
}

fn append(log: &mut Log, from: u64, count: u64) {
    for i in from..from + count {
        let value = (i * 7919 % 1000) as i32;
        log.append(Reading { time: 3 * i, value }).unwrap();
    }
}

fn times(log: &mut Log, from: u64, to: u64) -> Result<Vec<Reading>, IndexError> {
    let mut found = Vec::new();
    log.by_time(from..=to, &mut |reading| {
        found.push(reading);
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

fn values(log: &mut Log, low: i32, high: i32) -> Result<Vec<Reading>, IndexError> {
    let mut found = Vec::new();
    log.by_value(low..=high, &mut |reading| {
        found.push(reading);
        ControlFlow::Continue(())
    })?;
    found.sort_unstable();
    Ok(found)
}

fn filled(geometry: Geometry, readings: u64) -> Chip {
    let settings =
        MicroHashConfig { values: (0, 999), buckets: 4, entries: 90, ..MicroHashConfig::default() };
    let part = Part { geometry, ..mlc_64m() };
    let mut log = Log::format(SimChip::new(&part).unwrap(), &settings).unwrap();
    append(&mut log, 0, readings / 2);
    log.close().unwrap();
    let before = log.into_nand();
    let mut log = Log::mount(before.clone(), &settings).unwrap();
    append(&mut log, readings / 2, readings / 2);
    log.close().unwrap();
    let readings = times(&mut log, 0, u64::MAX).unwrap();
    Chip { now: log.into_nand(), before, settings, readings }
}

fn chips() -> [Chip; 3] {
    [
        filled(Geometry::new(256, 16, 8, 10), 1_300),
        filled(Geometry::new(256, 16, 4, 24), 1_400),
        filled(Geometry::new(512, 16, 8, 9), 3_000),
    ]
}

/// Puts questions to a damaged chip; how many were answered, and every wrong answer.
fn ask(chip: &Chip, damaged: SimChip, what: &str, wrong: &mut Vec<String>) -> usize {
    let Ok(mut log) = Log::mount(damaged, &chip.settings) else { return 0 };
    let end = chip.readings.last().map_or(0, |last| last.time);
    let start = chip.readings.first().map_or(0, |first| first.time);
    let mut answered = 0;
    let fifths = (0..5).map(|part| start + (end - start) * part / 5);
    for (from, to) in fifths.map(|from| (from, from + (end - start) / 6)).chain([(0, u64::MAX)]) {
        let Ok(found) = times(&mut log, from, to) else { continue };
        let expected = chip.readings.iter().filter(|reading| (from..=to).contains(&reading.time));
        if !found.iter().eq(expected.clone()) {
            wrong.push(format!("{what}: {} of {} by time", found.len(), expected.count()));
        }
        answered += 1;
    }
    for (low, high) in [(0, 80), (400, 600), (i32::MIN, i32::MAX)] {
        let Ok(found) = values(&mut log, low, high) else { continue };
        let is_wanted = |reading: &&Reading| (low..=high).contains(&reading.value);
        let mut expected: Vec<Reading> = chip.readings.iter().filter(is_wanted).copied().collect();
        expected.sort_unstable();
        if found != expected {
            wrong.push(format!("{what}: {} of {} by value", found.len(), expected.len()));
        }
        answered += 1;
    }
    answered
}

fn used(chip: &SimChip) -> Vec<Ppn> {
    (0..chip.geometry().pages()).map(Ppn).filter(|&ppn| chip.stored_page(ppn).is_some()).collect()
}

#[test]
fn two_pages_exchanged_are_named_or_harmless() {
    let (mut wrong, mut pairs, mut answered) = (Vec::new(), 0, 0);
    for chip in &chips() {
        let pages = used(&chip.now);
        for (i, &one) in pages.iter().enumerate() {
            for &other in &pages[i + 1..] {
                let mut damaged = chip.now.clone();
                let bytes = [one, other].map(|ppn| damaged.stored_page(ppn).unwrap());
                damaged.damage_page(one, &bytes[1]);
                damaged.damage_page(other, &bytes[0]);
                answered += ask(chip, damaged, &format!("{one} and {other} of {}", pages.len()), &mut wrong);
                pairs += 1;
            }
        }
    }
    assert!(pairs > 5_000 && answered > pairs, "{answered} answers of {pairs} pairs");
    assert!(wrong.is_empty(), "{} wrong answers of {pairs} pairs:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_damaged_page_is_named_or_harmless() {
    let (mut wrong, mut asked, mut answered) = (Vec::new(), 0, 0);
    for chip in &chips() {
        let pages = used(&chip.now);
        for (i, &ppn) in pages.iter().enumerate() {
            let bytes = chip.now.stored_page(ppn).unwrap();
            let flipped: Vec<u8> =
                bytes.iter().enumerate().map(|(at, byte)| byte ^ u8::from(at == 77)).collect();
            let copied = chip.now.stored_page(pages[(i + 5) % pages.len()]).unwrap();
            let kinds = [
                ("flipped", flipped),
                ("zeros", vec![0; bytes.len()]),
                ("a copy", copied),
                ("an older one", chip.before.stored_page(ppn).unwrap_or_else(|| vec![0; bytes.len()])),
            ];
            for (kind, bytes) in kinds {
                let mut damaged = chip.now.clone();
                damaged.damage_page(ppn, &bytes);
                answered += ask(chip, damaged, &format!("{ppn} {kind}"), &mut wrong);
                asked += 1;
            }
            let mut damaged = chip.now.clone();
            damaged.make_unreadable(ppn);
            answered += ask(chip, damaged, &format!("{ppn} unreadable"), &mut wrong);
        }
    }
    assert!(answered > asked, "{answered} answers of {asked} chips");
    assert!(wrong.is_empty(), "{} wrong answers of {asked} chips:\n{}", wrong.len(), wrong.join("\n"));
}

fn crc32(bytes: impl Iterator<Item = u8>) -> u32 {
    !bytes.fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    })
}

/// The pages of a log as written before their checksums included their place.
fn as_before(chip: &SimChip) -> SimChip {
    let mut old = chip.clone();
    for ppn in used(chip) {
        let mut bytes = chip.stored_page(ppn).unwrap();
        let page = chip.geometry().page_bytes as usize;
        if bytes[0] == 0xc8 {
            bytes[3] = 0;
            let crc = crc32(bytes[..40].iter().chain(&bytes[44..page]).copied());
            bytes[40..44].copy_from_slice(&crc.to_le_bytes());
            old.damage_page(ppn, &bytes);
        }
    }
    old
}

#[test]
fn a_log_of_before_is_read_and_goes_on() {
    for chip in &chips() {
        let mut log = Log::mount(as_before(&chip.now), &chip.settings).unwrap();
        assert!(log.check().unwrap().is_sound());
        assert!(times(&mut log, 0, u64::MAX).unwrap() == chip.readings);
        let next = chip.readings.last().unwrap().time / 3 + 1;
        append(&mut log, next, 300);
        log.close().unwrap();
        let mut log = Log::mount(log.into_nand(), &chip.settings).unwrap();
        let all = times(&mut log, 0, u64::MAX).unwrap();
        let kept =
            chip.readings.iter().rposition(|reading| reading.time < all[0].time).map_or(0, |at| at + 1);
        assert!(all.len() - 300 == chip.readings.len() - kept && all.starts_with(&chip.readings[kept..]));
        assert!(log.check().unwrap().is_sound());
    }
}

/// Appends with a sync now and then, as far as the power goes: the chip, and readings synced.
fn life(chip: &Chip, cut: Option<PowerCut>) -> (SimChip, u64) {
    let mut nand = chip.now.clone();
    if let Some(cut) = cut {
        nand.plan_power_cut(cut);
    }
    let mut synced = chip.readings.last().unwrap().time / 3 + 1;
    let next = synced;
    let Ok(mut log) = Log::mount(nand.clone(), &chip.settings) else { return (nand, synced) };
    for i in next..next + 400 {
        if log.append(Reading { time: 3 * i, value: (i % 1000) as i32 }).is_err() {
            break;
        }
        if i % 23 == 0 {
            if log.sync().is_err() {
                break;
            }
            synced = i + 1;
        }
    }
    (log.into_nand(), synced)
}

#[test]
fn what_a_power_cut_leaves_is_taken_for_no_page_of_another_place() {
    for chip in &chips() {
        let (first, last) = (chip.now.operations(), life(chip, None).0.operations());
        let mut cuts = 0;
        for at_operation in (first..last).step_by(3) {
            for torn in TornModel::ALL {
                let cut = PowerCut { at_operation, when: CutWhen::Inside, torn, seed: at_operation };
                let (mut nand, synced) = life(chip, Some(cut));
                nand.power_on();
                let mut log = Log::mount(nand, &chip.settings).unwrap();
                let found = times(&mut log, 0, u64::MAX).unwrap();
                assert!(found.last().unwrap().time >= 3 * (synced - 1), "{at_operation} {torn:?}");
                assert!(log.check().unwrap().is_sound());
                cuts += 1;
            }
        }
        assert!(cuts > 30, "{cuts}");
    }
}

/// The newest directory with the index pages of two buckets exchanged and a right checksum. Every entry is
/// there, but a query by value looks for those of the two in the wrong place.
fn with_other_heads(chip: &SimChip) -> SimChip {
    let number =
        |page: &[u8]| page[8..13].iter().rev().fold(0u64, |number, &byte| number << 8 | u64::from(byte));
    let pages = used(chip).into_iter().map(|ppn| (ppn, chip.stored_page(ppn).unwrap()));
    let directories = pages.filter(|(_, page)| page[..2] == [0xc8, 1]);
    let (ppn, mut page) = directories.max_by_key(|(_, page)| number(page)).unwrap();
    let data = chip.geometry().page_bytes as usize;
    for i in 0..10 {
        page.swap(44 + 25 + 4 + i, 44 + 50 + 4 + i);
    }
    let crc = crc32(page[..40].iter().chain(&page[44..data]).copied());
    let crc = crc ^ ppn.0 ^ (chip.geometry().blocks << 8);
    page[40..44].copy_from_slice(&crc.to_le_bytes());
    let mut forged = chip.clone();
    forged.damage_page(ppn, &page);
    forged
}

#[test]
fn a_query_that_misses_what_the_walk_meets_is_no_sound_log() {
    // Logs in which a query for all values, which goes by the index pages of all buckets, finds everything.
    let mut hidden = 0;
    for readings in (1_000..1_400).step_by(20) {
        let chip = filled(Geometry::new(256, 16, 8, 10), readings);
        let mut log = Log::mount(chip.now.clone(), &chip.settings).unwrap();
        assert!(log.check().unwrap().is_sound());
        let Ok(mut log) = Log::mount(with_other_heads(&chip.now), &chip.settings) else { continue };
        // Buckets of 250 values.
        let of_bucket = |log: &mut Log, i| values(log, 250 * i, 250 * i + 249).unwrap().len();
        let found: usize = (0..4).map(|i| of_bucket(&mut log, i)).sum();
        let by_all = values(&mut log, i32::MIN, i32::MAX).unwrap().len();
        hidden += u32::from(by_all == chip.readings.len() && found < by_all);
        let report = log.check().unwrap();
        assert_eq!(report.is_sound(), found == chip.readings.len(), "{:?}", report.violations);
    }
    assert!(hidden > 0);
}

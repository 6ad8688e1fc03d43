//! Logs of sensor readings on dying chips: a refused append changes nothing, all readings can be read and are
//! sound, and a mount finds them, except unsynced ones.

#![allow(clippy::unwrap_used)]

use nandex::nand::Geometry;
use nandex::nand::catalogue::mlc_with;
use nandex::nand::sim::{Faults, SimChip};
use nandex::rng::Rng;
use nandex::{IndexError, Shared};
use nandex_papers::sensor::microhash::{MicroHash, MicroHashConfig};
use nandex_papers::sensor::{Reading, SensorLog};
use std::ops::ControlFlow;

type Chip = Shared<SimChip>;
type Log = MicroHash<Chip>;

fn all(log: &mut Log, what: &str) -> Vec<Reading> {
    let mut found = Vec::new();
    let shown = log.by_time(0..=u64::MAX, &mut |reading| {
        found.push(reading);
        ControlFlow::Continue(())
    });
    shown.unwrap_or_else(|error| panic!("{what}: a walk: {error}"));
    let report = log.check().unwrap_or_else(|error| panic!("{what}: check: {error}"));
    assert!(report.is_sound(), "{what}: {report:?}");
    found
}

/// The readings found are those that there were, less some of the oldest ones, and never less all of them.
fn require_newest(found: &[Reading], wanted: &[Reading], what: &str) {
    assert!(!found.is_empty() || wanted.is_empty(), "{what}: none found of {}", wanted.len());
    assert!(wanted.ends_with(found), "{what}: {} found, no end of {}", found.len(), wanted.len());
}

/// Reads that come back wrong, and programs and erases that fail ever more often.
fn faults(seed: u64, round: u32) -> Faults {
    let rate = if round < 3 { 0 } else { 500u32 << (round / 2).min(10) };
    Faults {
        program_failures_ppm: rate,
        erase_failures_ppm: rate,
        read_failures_ppm: 4_000,
        read_failures_in_row: 2,
        seed: seed << 8 | u64::from(round),
        ..Faults::default()
    }
}

fn mounted(chip: &Chip, settings: &MicroHashConfig, what: &str) -> Log {
    Log::mount(chip.clone(), settings).unwrap_or_else(|error| panic!("{what}: mount: {error}"))
}

/// Closes with nothing between them, after some of which it is mounted.
fn close_and_go_on(
    mut log: Log,
    (chip, settings): (&Chip, &MicroHashConfig),
    rng: &mut Rng,
    what: &str,
) -> Log {
    for _ in 0..rng.below(4) {
        if log.close().is_ok() && rng.chance(1, 2) {
            log = mounted(chip, settings, what);
        }
    }
    log
}

/// Appends until nothing is accepted any more. Returns the number of refused appends.
fn live(seed: u64) -> u32 {
    let mut rng = Rng::new(seed);
    let pages_per_block = [4, 8, 16, 32][rng.below(4) as usize];
    let blocks = 5 + rng.below(20) as u32;
    let mut part = mlc_with(512, pages_per_block, blocks);
    part.geometry = Geometry::new([128, 512][rng.below(2) as usize], 64, pages_per_block, blocks);
    let chip: Chip = Shared::new(SimChip::new(&part).unwrap());
    let buckets = 1 + rng.below(30) as usize;
    let settings = MicroHashConfig { values: (0, 999), buckets, ..MicroHashConfig::default() };
    let Ok(mut log) = Log::format(chip.clone(), &settings) else { return 0 };
    let (mut there, mut refused, mut time) = (Vec::new(), 0, 0);
    let full = u64::from(part.geometry.pages()) * u64::from(part.geometry.page_bytes) / 12;
    for round in 0..30u32 {
        let what = format!("seed {seed}, round {round}, {:?}", part.geometry);
        chip.lock().set_faults(faults(seed, round));
        let before = all(&mut log, &what);
        require_newest(&before, &there, &what);
        there = before;
        for _ in 0..rng.below(full / 4) {
            time += 1 + rng.below(3);
            let reading = Reading { time, value: rng.below(1_000) as i32 };
            match log.append(reading) {
                Ok(()) => there.push(reading),
                Err(IndexError::WornOut) => {
                    refused += 1;
                    let left = all(&mut log, &what);
                    require_newest(&left, &there, &what);
                    // What was given up is so on the chip, too.
                    let mut other = Log::mount(Shared::new(chip.lock().clone()), &settings)
                        .unwrap_or_else(|error| panic!("{what}: mount after a refusal: {error}"));
                    let found = all(&mut other, &what);
                    require_newest(&found, &left[..found.len().min(left.len())], &what);
                    if refused % 4 > 0 {
                        break;
                    }
                }
                Err(error) => panic!("{what}: append: {error}"),
            }
        }
        log = close_and_go_on(log, (&chip, &settings), &mut rng, &what);
        if rng.chance(1, 3) {
            time += 1;
            let reading = Reading { time, value: 7 };
            if log.append(reading).is_ok() {
                there.push(reading);
            }
            let synced = log.sync();
            let wanted = all(&mut log, &what);
            if synced.is_ok() {
                log = mounted(&chip, &settings, &what);
                assert!(all(&mut log, &what) == wanted, "{what}: a sync after a close");
            }
        }
        let left = all(&mut log, &what);
        let closed = log.close();
        let kept = all(&mut log, &what);
        require_newest(&kept, &left, &what);
        match closed {
            Ok(()) => {}
            Err(IndexError::WornOut) => {
                there = kept;
                continue;
            }
            Err(error) => panic!("{what}: close: {error}"),
        }
        drop(log);
        log = mounted(&chip, &settings, &what);
        let found = all(&mut log, &what);
        assert!(found == kept, "{what}: {} before the mount, {} after it", kept.len(), found.len());
        there = found;
    }
    refused
}

/// Lives of logs that gave up all blocks with readings, so that directories alone were left.
const LOST_ALL: [u64; 3] = [756, 1217, 3964];

#[test]
fn a_log_on_a_dying_chip_keeps_what_it_has() {
    let refused: u32 = (0..50).chain(LOST_ALL).map(live).sum();
    assert!(refused > 100, "{refused} were refused");
}

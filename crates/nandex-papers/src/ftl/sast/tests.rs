//! A test vector calculated by hand, the schemes to which extreme settings lead, and the tests of every
//! scheme.

use super::*;
use crate::ftl::bast::{BastConfig, BastFtl};
use crate::ftl::fast::{FastConfig, FastFtl};
use nandex::nand::sim::SimChip;
use nandex::nand::{Part, Timing};
use nandex::rng::Rng;
use nandex::store::PageStore;
use nandex::testing::schemes as suite;
use nandex::units::Lpn;

const TIMING: Timing =
    Timing { read_ns: 60_000, program_ns: 800_000, erase_ns: 1_500_000, transfer_ps_per_byte: 25_000 };

fn chip(random_order: bool) -> SimChip {
    let geometry = Geometry { random_order, ..Geometry::new(512, 16, 4, 64) };
    SimChip::new(&Part::new("test", geometry, TIMING)).unwrap()
}

fn write(ftl: &mut dyn PageStore, lpns: &[u32]) {
    for &lpn in lpns {
        ftl.write(Lpn(lpn), Cause::Host, &[lpn as u8; 512]).unwrap();
    }
}

/// Reads, programs and erases for merges and host.
fn physical(chip: &SimChip) -> [u64; 3] {
    let counters = chip.counters();
    let of = |row: nandex::nand::ByCause| row[Cause::Host as usize] + row[Cause::Merge as usize];
    [of(counters.page_reads), of(counters.page_programs), of(counters.block_erases)]
}

/// One row of the test vector. The chip has four pages to a block; a group has two logical blocks and two
/// log blocks, and all groups together have three log blocks. Pages 0 to 15 were written once, in place (16
/// programs).
/// The columns: the pages written. Then totals: switch, partial and full merges; reads, programs and erases
/// for merges and host; the log blocks by group. Derived in `results/ftls.md`.
type Row = (&'static [u32], [u64; 3], [u64; 3], &'static [(u32, &'static [u32])]);

const VECTOR: [Row; 11] = [
    (&[1, 5, 1, 4], [0, 0, 0], [0, 20, 0], &[(0, &[1, 5, 1, 4])]),
    (&[0, 1, 2, 3], [0, 0, 0], [0, 24, 0], &[(0, &[1, 5, 1, 4]), (0, &[0, 1, 2, 3])]),
    (&[8], [0, 0, 0], [0, 25, 0], &[(0, &[1, 5, 1, 4]), (0, &[0, 1, 2, 3]), (1, &[8])]),
    (&[6], [1, 0, 1], [4, 30, 3], &[(0, &[6]), (1, &[8])]),
    (&[13, 9, 10], [1, 0, 1], [4, 33, 3], &[(0, &[6]), (1, &[8, 13, 9, 10])]),
    (&[11, 15], [1, 0, 1], [4, 35, 3], &[(0, &[6]), (1, &[8, 13, 9, 10]), (1, &[11, 15])]),
    (&[7, 7, 4], [1, 0, 1], [4, 38, 3], &[(0, &[6, 7, 7, 4]), (1, &[8, 13, 9, 10]), (1, &[11, 15])]),
    (&[5], [1, 0, 3], [12, 47, 7], &[(0, &[6, 7, 7, 4]), (0, &[5])]),
    (&[12, 13], [1, 0, 3], [12, 49, 7], &[(0, &[6, 7, 7, 4]), (0, &[5]), (1, &[12, 13])]),
    (&[6, 16], [1, 0, 3], [12, 51, 7], &[(0, &[6, 7, 7, 4]), (0, &[5, 6]), (1, &[12, 13])]),
    (&[16], [1, 1, 3], [14, 54, 8], &[(0, &[6, 7, 7, 4]), (0, &[5, 6]), (2, &[16])]),
];

#[test]
fn the_rules_step_by_step() {
    let settings =
        SastConfig { group_blocks: 2, logs_per_group: 2, log_blocks: Some(3), ..SastConfig::default() };
    for random_order in [false, true] {
        let mut ftl = SastFtl::format(chip(random_order), &settings).unwrap();
        write(&mut ftl, &(0..16).collect::<Vec<u32>>());
        for (step, (writes, merges, operations, in_logs)) in VECTOR.iter().enumerate() {
            write(&mut ftl, writes);
            let c = ftl.counters();
            assert_eq!([c.switch_merges, c.partial_merges, c.full_merges], *merges, "step {step}");
            assert_eq!(physical(ftl.nand()), *operations, "step {step}");
            assert_eq!(ftl.scheme().logs().collect::<Vec<_>>(), *in_logs, "step {step}");
            assert!(ftl.check().unwrap().is_sound(), "step {step}");
        }
        let counters = SastCounters { full_groups: 1, victim_groups: 2, empty_logs: 1 };
        assert_eq!(ftl.scheme().counters, counters);
        let mut data = [0; 512];
        for lpn in 0..17 {
            ftl.read(Lpn(lpn), Cause::Check, &mut data).unwrap();
            assert_eq!(data, [lpn as u8; 512]);
        }
    }
}

/// A trace of runs from the start of a logical block, mixed with single pages.
fn trace(pages: u32, seed: u64) -> Vec<u32> {
    let mut rng = Rng::new(seed);
    let mut trace = Vec::new();
    while trace.len() < 5000 {
        if rng.chance(1, 2) {
            let first = rng.below(u64::from(pages / 4)) as u32 * 4;
            trace.extend(first..first + 1 + rng.below(4) as u32);
        } else {
            trace.push(rng.below(u64::from(pages)) as u32);
        }
    }
    trace
}

#[test]
fn with_one_block_and_one_log_it_is_bast() {
    for (seed, logs) in [(1, 1), (2, 3), (3, 8)] {
        let common = FlashConfig::default();
        let bast = BastConfig { common, log_blocks: Some(logs), ..BastConfig::default() };
        let sast = SastConfig {
            common,
            group_blocks: 1,
            logs_per_group: 1,
            log_blocks: Some(logs),
            whole_group: seed % 2 == 0,
        };
        let mut bast = BastFtl::format(chip(seed == 2), &bast).unwrap();
        let mut sast = SastFtl::format(chip(seed == 2), &sast).unwrap();
        for lpn in trace(bast.page_count(), seed) {
            if lpn % 50 == 49 {
                bast.trim(Lpn(lpn)).unwrap();
                sast.trim(Lpn(lpn)).unwrap();
                continue;
            }
            write(&mut bast, &[lpn]);
            write(&mut sast, &[lpn]);
            assert_eq!(bast.counters(), sast.counters(), "lpn {lpn}");
        }
        let c = sast.counters();
        assert!([c.switch_merges, c.partial_merges, c.full_merges].iter().all(|&n| n > 50), "{c:?}");
        assert_eq!(physical(bast.nand()), physical(sast.nand()));
    }
}

#[test]
fn with_one_group_it_is_fast_without_a_sequential_block() {
    let settings = SastConfig {
        group_blocks: u32::MAX,
        logs_per_group: u32::MAX,
        log_blocks: Some(5),
        whole_group: false,
        ..SastConfig::default()
    };
    let mut fast =
        FastFtl::format(chip(false), &FastConfig { log_blocks: Some(6), ..FastConfig::default() }).unwrap();
    let mut sast = SastFtl::format(chip(false), &settings).unwrap();
    let all: Vec<u32> = (0..fast.page_count().min(sast.page_count())).collect();
    write(&mut fast, &all);
    write(&mut sast, &all);
    // First pages go to FAST's sequential block.
    for lpn in trace(all.len() as u32, 4).into_iter().filter(|lpn| lpn % 4 != 0) {
        write(&mut fast, &[lpn]);
        write(&mut sast, &[lpn]);
        assert_eq!(fast.counters(), sast.counters(), "lpn {lpn}");
    }
    assert!(sast.counters().full_merges > 1000);
    assert_eq!(physical(fast.nand()), physical(sast.nand()));
}

fn settings(seed: u64) -> SastConfig {
    SastConfig {
        common: suite::common(seed),
        group_blocks: [1, 2, 4, u32::MAX][seed as usize % 4],
        logs_per_group: [2, 1, 3, u32::MAX, 2][seed as usize % 5],
        log_blocks: Some(1 + seed as u32 % 5),
        whole_group: !seed.is_multiple_of(3),
    }
}

#[cfg(feature = "full")]
#[test]
fn cold_blocks_wear_with_the_others() {
    suite::levels_wear::<Sast>(|common| SastConfig { common, ..Default::default() });
}

#[test]
fn it_is_an_array_of_pages() {
    let c = suite::is_an_array_of_pages::<Sast>(settings);
    let merges = [c.switch_merges, c.partial_merges, c.full_merges, suite::levelled(&c)];
    assert!(merges.iter().all(|&count| count > 20), "{merges:?}");
}

#[test]
fn a_cut_at_every_operation_loses_nothing() {
    suite::survives_every_cut::<Sast>(settings);
}

#[test]
fn cut_after_cut_does_not_fill_it() {
    suite::survives_cut_after_cut::<Sast>(settings);
}

#[test]
fn cuts_among_records_lose_nothing() {
    suite::survives_cuts_among_records::<Sast>(settings);
}

#[test]
fn failing_blocks_cost_room_but_no_data() {
    suite::survives_failing_blocks::<Sast>(settings);
}

#[test]
fn a_wrong_bit_anywhere_is_noticed() {
    suite::notices_wrong_bits::<Sast>(settings);
}

#[test]
fn damage_after_a_cut_is_noticed() {
    suite::notices_damage_after_a_cut::<Sast>(settings);
}

#[test]
fn damage_after_a_clean_end_is_noticed() {
    suite::notices_damage_after_a_clean_end::<Sast>(settings);
}

#[test]
fn spoilt_pages_are_told_and_passed_over() {
    suite::passes_over_spoilt_pages::<Sast>(settings);
}

#[test]
fn a_worn_out_chip_stays_readable() {
    suite::ends_read_only::<Sast>(settings);
}

#[test]
fn reads_that_fail_once_lose_nothing() {
    suite::reads_again::<Sast>(settings);
}

//! A test vector of the algorithm, calculated by hand, and the tests of every scheme.

use super::*;
use nandex::nand::sim::SimChip;
use nandex::nand::{Part, Timing};
use nandex::store::PageStore;
use nandex::testing::schemes as suite;
use nandex::units::Lpn;

const TIMING: Timing =
    Timing { read_ns: 60_000, program_ns: 800_000, erase_ns: 1_500_000, transfer_ps_per_byte: 25_000 };

fn ftl(random_order: bool) -> FastFtl<SimChip> {
    let geometry = Geometry { random_order, ..Geometry::new(512, 16, 4, 64) };
    let chip = SimChip::new(&Part::new("test", geometry, TIMING)).unwrap();
    let mut ftl =
        FastFtl::format(chip, &FastConfig { log_blocks: Some(3), ..FastConfig::default() }).unwrap();
    for lpn in 0..16 {
        ftl.write(Lpn(lpn), Cause::Host, &[lpn as u8; 512]).unwrap();
    }
    ftl
}

/// One row of the test vector. The chip has four pages to a block; four logical blocks are in use, one
/// sequential and two random log blocks; every page was written once.
/// The columns: the pages written. Then totals: switch, partial, full merges of SW and of RW, RW victims;
/// reads, programs and erases for merges and host; the owner of SW and its fill; the pages in RW blocks.
type Row = (&'static [u32], [u64; 5], [u64; 3], Option<(u32, u32)>, &'static [u32]);

const VECTOR: [Row; 12] = [
    (&[0, 1, 2, 3], [0, 0, 0, 0, 0], [0, 20, 0], Some((0, 4)), &[]),
    (&[4], [1, 0, 0, 0, 0], [0, 21, 1], Some((1, 1)), &[]),
    (&[5, 7], [1, 1, 0, 0, 0], [1, 24, 2], None, &[]),
    (&[9, 10, 13], [1, 1, 0, 0, 0], [1, 27, 2], None, &[9, 10, 13]),
    (&[14, 15, 11, 9], [1, 1, 0, 0, 0], [1, 31, 2], None, &[9, 10, 11, 13, 14, 15]),
    (&[6], [1, 1, 0, 0, 0], [1, 32, 2], None, &[6, 9, 10, 11, 13, 14, 15]),
    (&[8, 9, 8], [1, 2, 0, 0, 0], [3, 37, 3], Some((2, 1)), &[6, 13, 14, 15]),
    (&[12, 13, 13], [1, 3, 1, 0, 0], [9, 46, 6], None, &[6]),
    (&[7], [1, 3, 1, 0, 1], [9, 47, 7], None, &[6, 7]),
    (&[10, 14, 1], [1, 3, 1, 0, 1], [9, 50, 7], None, &[1, 6, 7, 10, 14]),
    (&[2], [1, 3, 1, 1, 2], [13, 55, 9], None, &[1, 2, 10, 14]),
    (&[3, 3, 3], [1, 3, 1, 1, 2], [13, 58, 9], None, &[1, 2, 3, 10, 14]),
];

#[test]
fn the_published_rules_step_by_step() {
    for random_order in [false, true] {
        let mut ftl = ftl(random_order);
        for (step, (writes, merges, physical, sw, random)) in VECTOR.iter().enumerate() {
            for &lpn in *writes {
                ftl.write(Lpn(lpn), Cause::Host, &[lpn as u8; 512]).unwrap();
            }
            let (c, f) = (ftl.counters(), ftl.scheme().counters);
            let found = [c.switch_merges, c.partial_merges, f.full_sw_merges, f.full_rw_merges, f.rw_victims];
            assert_eq!(found, *merges, "step {step}");
            let counters = ftl.nand().counters();
            let of = |row: nandex::nand::ByCause| row[Cause::Host as usize] + row[Cause::Merge as usize];
            let found = [of(counters.page_reads), of(counters.page_programs), of(counters.block_erases)];
            assert_eq!(found, *physical, "step {step}");
            assert_eq!(ftl.scheme().sequential().map(|(lbn, fill)| (lbn.0, fill)), *sw, "step {step}");
            assert_eq!(ftl.scheme().random_pages().collect::<Vec<u32>>(), *random, "step {step}");
            assert!(ftl.check().unwrap().is_sound(), "step {step}");
        }
        assert!(!ftl.scheme().random_pages().any(|lpn| lpn % 4 == 0), "A1");
        let mut data = [0; 512];
        for lpn in 0..16 {
            ftl.read(Lpn(lpn), Cause::Check, &mut data).unwrap();
            assert_eq!(data, [lpn as u8; 512]);
        }
    }
}

fn settings(seed: u64) -> FastConfig {
    FastConfig {
        log_blocks: Some(2 + seed as u32 % 4),
        eager_switch: seed.is_multiple_of(2),
        common: suite::common(seed),
    }
}

#[cfg(feature = "full")]
#[test]
fn cold_blocks_wear_with_the_others() {
    suite::levels_wear::<Fast>(|common| FastConfig { common, ..Default::default() });
}

#[test]
fn it_is_an_array_of_pages() {
    suite::is_an_array_of_pages::<Fast>(settings);
}

#[test]
fn a_cut_at_every_operation_loses_nothing() {
    suite::survives_every_cut::<Fast>(settings);
}

#[test]
fn cut_after_cut_does_not_fill_it() {
    suite::survives_cut_after_cut::<Fast>(settings);
}

#[test]
fn cuts_among_records_lose_nothing() {
    suite::survives_cuts_among_records::<Fast>(settings);
}

#[test]
fn failing_blocks_cost_room_but_no_data() {
    suite::survives_failing_blocks::<Fast>(settings);
}

#[test]
fn a_wrong_bit_anywhere_is_noticed() {
    suite::notices_wrong_bits::<Fast>(settings);
}

#[test]
fn the_room_of_the_log_is_held_from_the_first() {
    let mut ftl = ftl(false);
    let bytes = ftl.ram_bytes();
    for lpn in (0..16).rev().cycle().take(200) {
        ftl.write(Lpn(lpn), Cause::Host, &[1; 512]).unwrap();
        assert_eq!(ftl.ram_bytes(), bytes);
    }
    assert!(ftl.scheme().random_pages().count() > 0);
}

#[test]
fn damage_after_a_cut_is_noticed() {
    suite::notices_damage_after_a_cut::<Fast>(settings);
}

#[test]
fn damage_after_a_clean_end_is_noticed() {
    suite::notices_damage_after_a_clean_end::<Fast>(settings);
}

#[test]
fn spoilt_pages_are_told_and_passed_over() {
    suite::passes_over_spoilt_pages::<Fast>(settings);
}

#[test]
fn a_worn_out_chip_stays_readable() {
    suite::ends_read_only::<Fast>(settings);
}

#[test]
fn a_merge_that_fails_leaves_its_version() {
    suite::leaves_the_version_of_a_failed_merge::<Fast>(settings);
}

#[test]
fn reads_that_fail_once_lose_nothing() {
    suite::reads_again::<Fast>(settings);
}

//! A test vector of the algorithm, calculated by hand, and the tests of every scheme.

use super::*;
use alloc::vec;

use nandex::nand::sim::SimChip;
use nandex::nand::{Nand, Part, Timing};
use nandex::store::PageStore;
use nandex::testing::schemes as suite;
use nandex::units::Lpn;

const TIMING: Timing =
    Timing { read_ns: 60_000, program_ns: 800_000, erase_ns: 1_500_000, transfer_ps_per_byte: 25_000 };

fn ftl(random_order: bool, settings: BastConfig) -> BastFtl<SimChip> {
    let geometry = Geometry { random_order, ..Geometry::new(512, 16, 4, 64) };
    let chip = SimChip::new(&Part::new("test", geometry, TIMING)).unwrap();
    let mut ftl = BastFtl::format(chip, &settings).unwrap();
    for lpn in 0..16 {
        ftl.write(Lpn(lpn), Cause::Host, &[lpn as u8; 512]).unwrap();
    }
    ftl
}

fn write<N: Nand>(ftl: &mut BastFtl<N>, lpns: &[u32]) {
    for &lpn in lpns {
        ftl.write(Lpn(lpn), Cause::Host, &[lpn as u8; 512]).unwrap();
    }
}

fn logs<N: Nand>(ftl: &BastFtl<N>) -> Vec<(u32, Vec<u16>)> {
    ftl.scheme().logs().map(|(lbn, places)| (lbn.0, places.to_vec())).collect()
}

/// One row of the test vector. The chip has four pages to a block; four logical blocks are in use, two log
/// blocks, victim by LRU; every page was written once, in place (16 programs).
/// The columns: the pages written. Then totals: switch, partial and full merges; reads, programs and erases
/// for merges and host; each logical block that has a log block, with the places of the pages in it.
/// Derived in `results/ftls.md`.
type Row = (&'static [u32], [u64; 3], [u64; 3], &'static [(u32, &'static [u16])]);

const VECTOR: [Row; 11] = [
    (&[0, 1, 2, 3], [0, 0, 0], [0, 20, 0], &[(0, &[0, 1, 2, 3])]),
    (&[4, 5], [0, 0, 0], [0, 22, 0], &[(0, &[0, 1, 2, 3]), (1, &[0, 1])]),
    (&[0], [1, 0, 0], [0, 23, 1], &[(0, &[0]), (1, &[0, 1])]),
    (&[8], [1, 1, 0], [2, 26, 2], &[(0, &[0]), (2, &[0])]),
    (&[2, 2], [1, 1, 0], [2, 28, 2], &[(0, &[0, 2, 2]), (2, &[0])]),
    (&[13], [1, 2, 0], [5, 32, 3], &[(0, &[0, 2, 2]), (3, &[1])]),
    (&[1], [1, 2, 0], [5, 33, 3], &[(0, &[0, 2, 2, 1]), (3, &[1])]),
    (&[3], [1, 2, 1], [9, 38, 5], &[(0, &[3]), (3, &[1])]),
    (&[6], [1, 2, 2], [13, 43, 7], &[(0, &[3]), (1, &[2])]),
    (&[7, 4, 5], [1, 2, 2], [13, 46, 7], &[(0, &[3]), (1, &[2, 3, 0, 1])]),
    (&[7], [1, 2, 3], [17, 51, 9], &[(0, &[3]), (1, &[3])]),
];

#[test]
fn the_published_rules_step_by_step() {
    for random_order in [false, true] {
        let mut ftl = ftl(random_order, BastConfig { log_blocks: Some(2), ..BastConfig::default() });
        for (step, (writes, merges, physical, in_logs)) in VECTOR.iter().enumerate() {
            write(&mut ftl, writes);
            let c = ftl.counters();
            assert_eq!([c.switch_merges, c.partial_merges, c.full_merges], *merges, "step {step}");
            let counters = ftl.nand().counters();
            let of = |row: nandex::nand::ByCause| row[Cause::Host as usize] + row[Cause::Merge as usize];
            let found = [of(counters.page_reads), of(counters.page_programs), of(counters.block_erases)];
            assert_eq!(found, *physical, "step {step}");
            let expected: Vec<(u32, Vec<u16>)> = in_logs.iter().map(|&(l, p)| (l, p.to_vec())).collect();
            assert_eq!(logs(&ftl), expected, "step {step}");
            assert!(ftl.check().unwrap().is_sound(), "step {step}");
        }
        let mut data = [0; 512];
        for lpn in 0..16 {
            ftl.read(Lpn(lpn), Cause::Check, &mut data).unwrap();
            assert_eq!(data, [lpn as u8; 512]);
        }
    }
}

#[test]
fn the_victim_is_the_one_asked_for() {
    // Log blocks are taken for 0, 1 and 2 in turn; 0 is written again; 3 needs a fourth.
    let left = |victim, seed| {
        let settings = BastConfig { log_blocks: Some(3), victim, seed, ..BastConfig::default() };
        let mut ftl = ftl(false, settings);
        write(&mut ftl, &[1, 5, 9, 2, 13]);
        assert_eq!(ftl.scheme().counters.victims, 1);
        ftl.scheme().logs().map(|(lbn, _)| lbn.0).collect::<Vec<u32>>()
    };
    assert_eq!(left(LogVictim::LeastRecent, 0), [0, 2, 3]);
    assert_eq!(left(LogVictim::Oldest, 0), [1, 2, 3]);
    let mut gone: Vec<u32> = Vec::new();
    for seed in 0..20 {
        let left = left(LogVictim::Random, seed);
        gone.extend((0..3).filter(|lbn| !left.contains(lbn)));
    }
    assert!((0..3).all(|lbn| gone.contains(&lbn)), "{gone:?}");
}

#[test]
fn a_log_block_without_live_pages_is_erased() {
    let mut ftl = ftl(false, BastConfig { log_blocks: Some(1), ..BastConfig::default() });
    write(&mut ftl, &[1, 1]);
    ftl.trim(Lpn(1)).unwrap();
    write(&mut ftl, &[5]);
    assert_eq!(ftl.counters().moved_pages, 0);
    assert_eq!(ftl.scheme().counters.trimmed_logs, 1);
    // Nothing of a logical block is left: its merge takes no block.
    for lpn in 4..8 {
        ftl.trim(Lpn(lpn)).unwrap();
    }
    let free = ftl.flash().blocks().free_count();
    write(&mut ftl, &[9]);
    assert_eq!((ftl.counters().full_merges, ftl.flash().blocks().free_count()), (0, free));
}

#[test]
fn a_log_block_found_after_a_cut_takes_no_more_pages() {
    let settings = BastConfig { log_blocks: Some(2), ..BastConfig::default() };
    let mut first = ftl(false, settings);
    write(&mut first, &[0, 1, 4, 5, 6, 7]);
    let mut ftl = BastFtl::mount(first.into_nand(), &settings).unwrap();
    // Of logical block 1 all pages are in the log block, which is the data block by now.
    assert_eq!(logs(&ftl), [(0, vec![0, 1])]);
    write(&mut ftl, &[2]);
    let c = ftl.counters();
    assert_eq!([c.switch_merges, c.partial_merges, c.full_merges], [0, 0, 1]);
    assert_eq!(logs(&ftl), [(0, vec![2])]);
    // After a clean end it goes on.
    let mut ftl = BastFtl::mount(ftl.close().unwrap(), &settings).unwrap();
    write(&mut ftl, &[3]);
    assert_eq!(logs(&ftl), [(0, vec![2, 3])]);
}

fn settings(seed: u64) -> BastConfig {
    BastConfig {
        log_blocks: Some(1 + seed as u32 % 4),
        victim: LogVictim::ALL[seed as usize % 3],
        seed,
        common: suite::common(seed),
    }
}

#[cfg(feature = "full")]
#[test]
fn cold_blocks_wear_with_the_others() {
    suite::levels_wear::<Bast>(|common| BastConfig { common, ..Default::default() });
}

#[test]
fn it_is_an_array_of_pages() {
    let c = suite::is_an_array_of_pages::<Bast>(settings);
    let merges = [c.switch_merges, c.partial_merges, c.full_merges, suite::levelled(&c)];
    assert!(merges.iter().all(|&count| count > 50), "{merges:?}");
}

#[test]
fn a_cut_at_every_operation_loses_nothing() {
    suite::survives_every_cut::<Bast>(settings);
}

#[test]
fn cut_after_cut_does_not_fill_it() {
    suite::survives_cut_after_cut::<Bast>(settings);
}

#[test]
fn cuts_among_records_lose_nothing() {
    suite::survives_cuts_among_records::<Bast>(settings);
}

#[test]
fn failing_blocks_cost_room_but_no_data() {
    suite::survives_failing_blocks::<Bast>(settings);
}

#[test]
fn a_wrong_bit_anywhere_is_noticed() {
    suite::notices_wrong_bits::<Bast>(settings);
}

#[test]
fn damage_after_a_cut_is_noticed() {
    suite::notices_damage_after_a_cut::<Bast>(settings);
}

#[test]
fn damage_after_a_clean_end_is_noticed() {
    suite::notices_damage_after_a_clean_end::<Bast>(settings);
}

#[test]
fn spoilt_pages_are_told_and_passed_over() {
    suite::passes_over_spoilt_pages::<Bast>(settings);
}

#[test]
fn a_worn_out_chip_stays_readable() {
    suite::ends_read_only::<Bast>(settings);
}

#[test]
fn reads_that_fail_once_lose_nothing() {
    suite::reads_again::<Bast>(settings);
}

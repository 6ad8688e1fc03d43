//! Test vectors calculated by hand, and the tests of every scheme.

use super::*;
use nandex::nand::sim::SimChip;
use nandex::nand::{Part, Timing};
use nandex::store::PageStore;
use nandex::testing::schemes as suite;
use nandex::units::Lpn;

const TIMING: Timing =
    Timing { read_ns: 60_000, program_ns: 800_000, erase_ns: 1_500_000, transfer_ps_per_byte: 25_000 };

/// An FTL with four pages to a block and two logical blocks to a superblock.
fn ftl(extra_blocks: u32) -> SuperblockFtl<SimChip> {
    let chip = SimChip::new(&Part::new("test", Geometry::new(512, 16, 4, 64), TIMING)).unwrap();
    let settings = SuperblockConfig { group_blocks: 2, extra_blocks, ..SuperblockConfig::default() };
    SuperblockFtl::format(chip, &settings).unwrap()
}

fn write(ftl: &mut SuperblockFtl<SimChip>, lpns: &[u32]) {
    for &lpn in lpns {
        ftl.write(Lpn(lpn), Cause::Host, &[lpn as u8; 512]).unwrap();
    }
}

/// Switch merges, collections, blocks found empty, and hot copies.
fn collected(ftl: &SuperblockFtl<SimChip>) -> [u64; 4] {
    let (c, s) = (ftl.counters(), ftl.scheme().counters);
    [c.switch_merges, c.collections, s.empty_blocks, s.hot_copies]
}

/// Reads, programs and erases for collection and host.
fn physical(ftl: &SuperblockFtl<SimChip>) -> [u64; 3] {
    let counters = ftl.nand().counters();
    let of = |row: nandex::nand::ByCause| row[Cause::Host as usize] + row[Cause::GarbageCollection as usize];
    [of(counters.page_reads), of(counters.page_programs), of(counters.block_erases)]
}

fn live<const N: usize>(ftl: &SuperblockFtl<SimChip>, number: usize) -> [Vec<u32>; N] {
    let in_block = |pbn: &Pbn| {
        let page = |ppn| ftl.scheme().map.iter().position(|&at| Ppn(at) == ppn).unwrap() as u32;
        ftl.flash().blocks().valid_pages(*pbn).map(page).collect()
    };
    let blocks: Vec<Vec<u32>> = ftl.scheme().blocks(number).iter().map(in_block).collect();
    blocks.try_into().unwrap()
}

/// One row of the test vector. Two logical blocks and at most three blocks; every page was written once (8
/// programs). The columns: the pages written; then totals as `collected` and `physical` count them. Derived
/// in `results/ftls.md`.
type Row = (&'static [u32], [u64; 4], [u64; 3]);

const VECTOR: [Row; 7] = [
    (&[0, 1, 4, 5], [0, 0, 0, 0], [0, 12, 0]),
    (&[0], [0, 2, 0, 0], [4, 17, 2]),
    (&[1, 2], [0, 2, 0, 0], [4, 19, 2]),
    (&[3], [1, 2, 0, 0], [4, 20, 2]),
    (&[7], [1, 3, 0, 2], [6, 23, 3]),
    (&[6], [1, 3, 0, 2], [6, 24, 3]),
    (&[4], [1, 3, 1, 2], [6, 25, 4]),
];

#[test]
fn the_rules_step_by_step() {
    let mut ftl = ftl(1);
    write(&mut ftl, &[0, 1, 2, 3, 4, 5, 6, 7]);
    for (step, (writes, counts, operations)) in VECTOR.iter().enumerate() {
        write(&mut ftl, writes);
        assert_eq!(collected(&ftl), *counts, "step {step}");
        assert_eq!(physical(&ftl), *operations, "step {step}");
        assert!(ftl.check().unwrap().is_sound(), "step {step}");
    }
    assert_eq!(live(&ftl, 0), [vec![0, 1, 2, 3], vec![5, 7, 6], vec![4]]);
    let mut data = [0; 512];
    for lpn in 0..8 {
        ftl.read(Lpn(lpn), Cause::Check, &mut data).unwrap();
        assert_eq!(data, [lpn as u8; 512]);
    }
}

#[test]
fn without_a_free_block_the_superblock_written_first_gives_one_back() {
    let mut ftl = ftl(1000);
    write(&mut ftl, &(0..32).collect::<Vec<u32>>());
    // Superblocks 1 and 2 have a block more than they need, half of the pages in their first two are dead.
    write(&mut ftl, &[8, 9, 12, 13, 16, 17, 20, 21]);
    assert_eq!(live(&ftl, 1), [vec![10, 11], vec![14, 15], vec![8, 9, 12, 13]]);
    // Superblock 3 takes all that is free.
    while ftl.flash().blocks().free_count() > ftl.scheme().floor() {
        write(&mut ftl, &[24, 25, 26, 27]);
    }
    let (before, copies) = (physical(&ftl), ftl.counters().moved_pages);
    assert_eq!((copies, ftl.scheme().counters.reclaimed_blocks), (0, 0));
    write(&mut ftl, &[24]);
    // Superblock 0 needs all its blocks. Of superblock 1 two blocks are copied to a new one.
    assert_eq!(live(&ftl, 1), [vec![8, 9, 12, 13], vec![10, 11, 14, 15]]);
    assert_eq!(live(&ftl, 2), [vec![18, 19], vec![22, 23], vec![16, 17, 20, 21]]);
    assert_eq!(ftl.scheme().counters.reclaimed_blocks, 1);
    let after = physical(&ftl);
    assert_eq!([after[0] - before[0], after[1] - before[1], after[2] - before[2]], [4, 5, 2]);
    assert!(ftl.check().unwrap().is_sound());
}

#[test]
fn a_clean_mount_goes_on_where_it_was() {
    let mut first = ftl(2);
    write(&mut first, &[0, 1, 2, 3, 4, 5, 6, 7, 0, 1]);
    let settings = SuperblockConfig { group_blocks: 77, extra_blocks: 2, ..SuperblockConfig::default() };
    let mut ftl = SuperblockFtl::mount(first.close().unwrap(), &settings).unwrap();
    write(&mut ftl, &[2, 3]);
    let mut blocks = live::<3>(&ftl, 0);
    blocks.sort();
    assert_eq!(blocks, [vec![], vec![0, 1, 2, 3], vec![4, 5, 6, 7]]);
}

fn settings(seed: u64) -> SuperblockConfig {
    SuperblockConfig {
        common: suite::common(seed),
        group_blocks: [1, 2, 4, 3][seed as usize % 4],
        extra_blocks: [1, 2, 3, 1, 100][seed as usize % 5],
    }
}

#[cfg(feature = "full")]
#[test]
fn cold_blocks_wear_with_the_others() {
    suite::levels_wear::<Superblock>(|common| SuperblockConfig { common, ..Default::default() });
}

#[test]
fn it_is_an_array_of_pages() {
    let c = suite::is_an_array_of_pages::<Superblock>(settings);
    let counts = [c.switch_merges, c.collections, suite::levelled(&c)];
    assert!(counts.iter().all(|&count| count > 20), "{counts:?}");
}

#[test]
fn a_cut_at_every_operation_loses_nothing() {
    suite::survives_every_cut::<Superblock>(settings);
}

#[test]
fn cut_after_cut_does_not_fill_it() {
    suite::survives_cut_after_cut::<Superblock>(settings);
}

#[test]
fn cuts_among_records_lose_nothing() {
    suite::survives_cuts_among_records::<Superblock>(settings);
}

#[test]
fn failing_blocks_cost_room_but_no_data() {
    suite::survives_failing_blocks::<Superblock>(settings);
}

#[test]
fn a_wrong_bit_anywhere_is_noticed() {
    suite::notices_wrong_bits::<Superblock>(settings);
}

#[test]
fn damage_after_a_cut_is_noticed() {
    suite::notices_damage_after_a_cut::<Superblock>(settings);
}

#[test]
fn damage_after_a_clean_end_is_noticed() {
    suite::notices_damage_after_a_clean_end::<Superblock>(settings);
}

#[test]
fn spoilt_pages_are_told_and_passed_over() {
    suite::passes_over_spoilt_pages::<Superblock>(settings);
}

#[test]
fn a_worn_out_chip_stays_readable() {
    suite::ends_read_only::<Superblock>(settings);
}

#[test]
fn reads_that_fail_once_lose_nothing() {
    suite::reads_again::<Superblock>(settings);
}

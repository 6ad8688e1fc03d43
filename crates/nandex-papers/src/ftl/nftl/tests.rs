//! Test vectors calculated by hand, and the tests of every scheme.

use super::*;
use nandex::nand::sim::SimChip;
use nandex::nand::{Part, Timing};
use nandex::store::PageStore;
use nandex::testing::schemes as suite;
use nandex::units::Lpn;

const TIMING: Timing =
    Timing { read_ns: 60_000, program_ns: 800_000, erase_ns: 1_500_000, transfer_ps_per_byte: 25_000 };

/// An FTL with four pages to a block. Units 0 and 1 were written once (8 programs).
fn ftl(random_order: bool, chain_blocks_max: Option<u32>) -> NftlFtl<SimChip> {
    let geometry = Geometry { random_order, ..Geometry::new(512, 16, 4, 64) };
    let chip = SimChip::new(&Part::new("test", geometry, TIMING)).unwrap();
    let settings = NftlConfig { chain_blocks_max, ..NftlConfig::default() };
    let mut ftl = NftlFtl::format(chip, &settings).unwrap();
    write(&mut ftl, &[0, 1, 2, 3, 4, 5, 6, 7]);
    ftl
}

fn write(ftl: &mut NftlFtl<SimChip>, lpns: &[u32]) {
    for &lpn in lpns {
        ftl.write(Lpn(lpn), Cause::Host, &[lpn as u8; 512]).unwrap();
    }
}

/// The live pages of each block of a chain.
fn chain(ftl: &NftlFtl<SimChip>, unit: u32) -> Vec<Vec<u32>> {
    let g = ftl.flash().geometry();
    let live = |pbn| ftl.flash().blocks().valid_pages(pbn).map(|ppn| g.page_in_block(ppn)).collect();
    ftl.scheme().chain(Lbn(unit)).map(live).collect()
}

/// In-place folds and out-of-place folds; then reads, programs and erases for merges and host.
fn counts(ftl: &NftlFtl<SimChip>) -> [u64; 5] {
    let (c, physical) = (ftl.counters(), ftl.nand().counters());
    let of = |row: nandex::nand::ByCause| row[Cause::Host as usize] + row[Cause::Merge as usize];
    let operations = [of(physical.page_reads), of(physical.page_programs), of(physical.block_erases)];
    [c.partial_merges, c.full_merges, operations[0], operations[1], operations[2]]
}

fn assert_contents(ftl: &mut NftlFtl<SimChip>) {
    let mut data = [0; 512];
    for lpn in 0..8 {
        ftl.read(Lpn(lpn), Cause::Check, &mut data).unwrap();
        assert_eq!(data, [lpn as u8; 512]);
    }
    assert!(ftl.check().unwrap().is_sound());
}

#[test]
fn a_page_goes_to_the_first_block_with_its_place_free() {
    let mut ftl = ftl(true, Some(3));
    write(&mut ftl, &[1]);
    assert_eq!(chain(&ftl, 0), [vec![0, 2, 3], vec![1]]);
    // Below and above what is there.
    write(&mut ftl, &[3, 0]);
    assert_eq!(chain(&ftl, 0), [vec![2], vec![0, 1, 3]]);
    write(&mut ftl, &[1]);
    assert_eq!(chain(&ftl, 0), [vec![2], vec![0, 3], vec![1]]);
    write(&mut ftl, &[2]);
    assert_eq!(chain(&ftl, 0), [vec![], vec![0, 2, 3], vec![1]]);
    assert_eq!(counts(&ftl), [0, 0, 0, 13, 0]);
    // Three blocks are the most: three copies and the new page to a new block, three erases.
    write(&mut ftl, &[1]);
    assert_eq!(chain(&ftl, 0), [vec![0, 1, 2, 3]]);
    assert_eq!(counts(&ftl), [0, 1, 3, 17, 3]);
    let expected =
        NftlCounters { replacements: 2, folds_for_room: 0, folds_of_long_chains: 1, longest_chain: 3 };
    assert_eq!(ftl.scheme().counters, expected);
    assert_contents(&mut ftl);
}

#[test]
fn in_ascending_order_chains_grow_faster() {
    let mut ftl = ftl(false, Some(3));
    write(&mut ftl, &[1, 3, 0]);
    assert_eq!(chain(&ftl, 0), [vec![2], vec![1, 3], vec![0]]);
    write(&mut ftl, &[1, 3]);
    assert_eq!(chain(&ftl, 0), [vec![2], vec![], vec![0, 1, 3]]);
    write(&mut ftl, &[2]);
    assert_eq!(chain(&ftl, 0), [vec![0, 1, 2, 3]]);
    assert_eq!(counts(&ftl), [0, 1, 3, 17, 3]);
    assert_contents(&mut ftl);
}

#[test]
fn without_a_free_block_the_longest_chain_is_folded() {
    for random_order in [false, true] {
        let mut ftl = ftl(random_order, None);
        let spare = ftl.flash().blocks().free_count() - ftl.scheme().floor();
        // Each takes a replacement block.
        (0..spare).for_each(|_| write(&mut ftl, &[1]));
        assert_eq!(chain(&ftl, 0).len() as u32, 1 + spare);
        let spare = u64::from(spare);
        assert_eq!(counts(&ftl), [0, 0, 0, 8 + spare, 0]);
        write(&mut ftl, &[5]);
        let expected = match random_order {
            // Three copies into the last block, then the page to a replacement block of unit 1.
            true => [1, 0, 3, 8 + spare + 3 + 1, spare],
            // Page 0 is below page 1 of the last block: four copies to a new block.
            false => [0, 1, 4, 8 + spare + 4 + 1, spare + 1],
        };
        assert_eq!(counts(&ftl), expected);
        assert_eq!(chain(&ftl, 0), [vec![0, 1, 2, 3]]);
        assert_eq!(chain(&ftl, 1), [vec![0, 2, 3], vec![1]]);
        assert_eq!(ftl.scheme().counters.folds_for_room, 1);
        assert_contents(&mut ftl);
    }
}

#[test]
fn a_clean_mount_keeps_the_order_of_a_chain() {
    let mut ftl = ftl(true, None);
    write(&mut ftl, &[1, 1, 1, 0, 0, 2]);
    let before: Vec<Pbn> = ftl.scheme().chain(Lbn(0)).collect();
    let live = chain(&ftl, 0);
    let mut ftl = NftlFtl::mount(ftl.close().unwrap(), &NftlConfig::default()).unwrap();
    // A block without a live page is not kept.
    let kept = |pbn: &Pbn| before.iter().position(|b| b == pbn).unwrap();
    let order: Vec<usize> = ftl.scheme().chain(Lbn(0)).map(|pbn| kept(&pbn)).collect();
    assert!(order.is_sorted(), "{order:?}");
    assert_eq!(chain(&ftl, 0), live.into_iter().filter(|l| !l.is_empty()).collect::<Vec<_>>());
    write(&mut ftl, &[2]);
    assert_contents(&mut ftl);
}

fn settings(seed: u64) -> NftlConfig {
    NftlConfig { common: suite::common(seed), chain_blocks_max: [None, Some(2), Some(4)][seed as usize % 3] }
}

#[cfg(feature = "full")]
#[test]
fn cold_blocks_wear_with_the_others() {
    suite::levels_wear::<Nftl>(|common| NftlConfig { common, ..Default::default() });
}

#[test]
fn it_is_an_array_of_pages() {
    let c = suite::is_an_array_of_pages::<Nftl>(settings);
    let folds = [c.partial_merges, c.full_merges, suite::levelled(&c)];
    assert!(folds.iter().all(|&count| count > 20), "{folds:?}");
}

#[test]
fn a_cut_at_every_operation_loses_nothing() {
    suite::survives_every_cut::<Nftl>(settings);
}

#[test]
fn cut_after_cut_does_not_fill_it() {
    suite::survives_cut_after_cut::<Nftl>(settings);
}

#[test]
fn cuts_among_records_lose_nothing() {
    suite::survives_cuts_among_records::<Nftl>(settings);
}

#[test]
fn failing_blocks_cost_room_but_no_data() {
    suite::survives_failing_blocks::<Nftl>(settings);
}

#[test]
fn a_wrong_bit_anywhere_is_noticed() {
    suite::notices_wrong_bits::<Nftl>(settings);
}

#[test]
fn damage_after_a_cut_is_noticed() {
    suite::notices_damage_after_a_cut::<Nftl>(settings);
}

#[test]
fn damage_after_a_clean_end_is_noticed() {
    suite::notices_damage_after_a_clean_end::<Nftl>(settings);
}

#[test]
fn spoilt_pages_are_told_and_passed_over() {
    suite::passes_over_spoilt_pages::<Nftl>(settings);
}

#[test]
fn a_worn_out_chip_stays_readable() {
    suite::ends_read_only::<Nftl>(settings);
}

#[test]
fn reads_that_fail_once_lose_nothing() {
    suite::reads_again::<Nftl>(settings);
}

//! Special cases, the RAM budget, and the tests of every scheme.

use super::*;
use alloc::vec;
use nandex::nand::sim::SimChip;
use nandex::nand::{Part, Timing};
use nandex::rng::Rng;
use nandex::store::PageStore;
use nandex::testing::schemes as suite;

const TIMING: Timing =
    Timing { read_ns: 60_000, program_ns: 800_000, erase_ns: 1_500_000, transfer_ps_per_byte: 25_000 };

/// An FTL with 4 pages to a block, 32 entries to a page of the table, 3 blocks of UBA and CBA, and RAM for
/// the UMT alone.
fn ftl() -> LazyFtl<SimChip> {
    let chip = SimChip::new(&Part::new("test", Geometry::new(128, 16, 4, 100), TIMING)).unwrap();
    let ram_bytes = Some(5 * 4 * ENTRY_BYTES as u32);
    LazyFtl::format(chip, &LazyConfig { ram_bytes, ..LazyConfig::default() }).unwrap()
}

fn write(ftl: &mut LazyFtl<SimChip>, lpns: &[u32]) {
    for &lpn in lpns {
        ftl.write(Lpn(lpn), Cause::Host, &[lpn as u8; 128]).unwrap();
    }
}

fn table_io(ftl: &LazyFtl<SimChip>) -> [u64; 2] {
    let counters = ftl.nand().counters();
    [counters.page_reads, counters.page_programs].map(|row| row[Cause::Mapping as usize])
}

fn block_of(ftl: &mut LazyFtl<SimChip>, lpn: u32) -> Pbn {
    let (flash, lazy) = ftl.parts_mut();
    let ppn = lazy.locate(flash, lpn, Cause::Check).unwrap().unwrap();
    flash.geometry().block_of(ppn)
}

/// The test vector. Blocks are named A, B, C ... in the order in which they are filled. The columns: pages
/// written; reads and programs of the table so far; blocks converted so far.
const VECTOR: [(&[u32], [u64; 2], u64); 9] = [
    // A, and B with 0 and 1 again; C. None is converted while there are three.
    (&[0, 1, 2, 3, 32, 33, 0, 1, 40, 34, 35, 36], [0, 0], 0),
    // A costs one page, as does C; B two. Page 0 is new, and told of B's 0 and 1 as well.
    (&[64, 65, 66, 67], [0, 1], 1),
    // B costs only page 1 by now, which is told of C's too. E begins.
    (&[0], [0, 2], 2),
    (&[32, 0, 5], [0, 2], 2),
    // C costs nothing.
    (&[100, 101, 102, 103], [0, 2], 3),
    // D costs page 2, E pages 0 and 1, F page 3.
    (&[6, 7, 8, 9], [0, 3], 4),
    // F, the cheapest that is not younger than G.
    (&[10], [0, 4], 5),
    (&[11, 12, 13], [0, 4], 5),
    // G costs page 0, which is read, and told of E's 0 and 5 and of H's.
    (&[14], [1, 5], 6),
];

#[test]
fn blocks_are_converted_as_derived_by_hand() {
    let mut ftl = ftl();
    for (step, (lpns, expected, conversions)) in VECTOR.iter().enumerate() {
        write(&mut ftl, lpns);
        assert_eq!((table_io(&ftl), ftl.scheme().counters.conversions), (*expected, *conversions), "{step}");
        assert!(ftl.check().unwrap().is_sound(), "step {step}");
        assert!(ftl.scheme().area().count() <= 3);
    }
    let flags = |lpn: u32| ftl.scheme().flags(lpn);
    assert_eq!((flags(0), flags(32)), (Some((false, false)), Some((true, true))));
    assert_eq!((flags(14), flags(33), flags(64)), (Some((true, true)), None, None));
    let mut data = [0; 128];
    ftl.read(Lpn(0), Cause::Host, &mut data).unwrap();
    assert_eq!(table_io(&ftl), [1, 5], "the UMT knows 0");
    ftl.read(Lpn(33), Cause::Host, &mut data).unwrap();
    assert_eq!(table_io(&ftl), [2, 5], "the GMT knows 33");
}

/// Block B holds pages 33 and 1, the superseded page 32 that counts as valid, and the superseded page 0
/// that no longer does.
#[test]
fn a_superseded_page_is_dropped_when_its_block_is_collected() {
    let mut ftl = ftl();
    VECTOR.iter().for_each(|(lpns, ..)| write(&mut ftl, lpns));
    let b = block_of(&mut ftl, 33);
    assert_eq!(ftl.flash().blocks().valid_count(b), 3);
    let (flash, lazy) = ftl.parts_mut();
    assert!(lazy.evacuate(flash, b).unwrap());
    let counters = ftl.nand().counters();
    let levelling = [counters.page_reads, counters.page_programs, counters.block_erases];
    assert_eq!(levelling.map(|row| row[Cause::WearLevelling as usize]), [3, 2, 1]);
    assert_eq!(ftl.scheme().counters.dropped_pages, 1);
    let flags = |lpn: u32| ftl.scheme().flags(lpn);
    assert_eq!([flags(32), flags(33), flags(1)], [Some((true, false)); 3]);
    assert!(ftl.check().unwrap().is_sound());
}

/// The update of page 1 is newer than its cold copy, but the block of the copy is newer than the block of
/// the update.
#[test]
fn versions_decide_and_not_the_age_of_blocks() {
    let mut ftl = ftl();
    VECTOR.iter().for_each(|(lpns, ..)| write(&mut ftl, lpns));
    let b = block_of(&mut ftl, 1);
    let (flash, lazy) = ftl.parts_mut();
    assert!(lazy.evacuate(flash, b).unwrap());
    let cold = block_of(&mut ftl, 1);
    ftl.write(Lpn(1), Cause::Host, &[201; 128]).unwrap();
    let update = block_of(&mut ftl, 1);
    assert_eq!((update, cold == update), (block_of(&mut ftl, 14), false), "14 came before the cold block");
    let mut ftl = LazyFtl::mount(ftl.into_nand(), &LazyConfig::default()).unwrap();
    let mut data = [0; 128];
    for (lpn, byte) in [(1, 201), (0, 0), (32, 32), (33, 33), (2, 2)] {
        ftl.read(Lpn(lpn), Cause::Check, &mut data).unwrap();
        assert_eq!(data, [byte; 128], "lpn {lpn}");
    }
    assert!(ftl.check().unwrap().is_sound());
}

/// A base is written while an older copy counts as valid. Then the power is cut.
#[test]
fn what_a_base_calls_valid_may_be_superseded() {
    let mut ftl = ftl();
    VECTOR.iter().for_each(|(lpns, ..)| write(&mut ftl, lpns));
    ftl.write(Lpn(33), Cause::Host, &[77; 128]).unwrap();
    assert_eq!(ftl.scheme().flags(33), Some((true, true)));
    ftl.checkpoint().unwrap();
    ftl.write(Lpn(200), Cause::Host, &[9; 128]).unwrap();
    let mut ftl = LazyFtl::mount(ftl.into_nand(), &LazyConfig::default()).unwrap();
    let mut data = [0; 128];
    ftl.read(Lpn(33), Cause::Check, &mut data).unwrap();
    assert_eq!(data, [77; 128]);
    assert!(ftl.check().unwrap().is_sound());
}

#[test]
fn ram_stays_within_the_budget() {
    for (ram_bytes, area_blocks) in [(1200, None), (5000, Some(3)), (9000, None)] {
        let settings = LazyConfig { ram_bytes: Some(ram_bytes), area_blocks, ..LazyConfig::default() };
        let chip = SimChip::new(&Part::new("test", Geometry::new(128, 16, 8, 80), TIMING)).unwrap();
        let mut ftl = LazyFtl::format(chip, &settings).unwrap();
        let (mut rng, pages) = (Rng::new(u64::from(ram_bytes)), u64::from(ftl.page_count()));
        let (mut data, mut seen) = (vec![0; 128], [0; 2]);
        for step in 0..8_000 {
            let lpn = Lpn(rng.below(pages) as u32);
            match step % 8 {
                0 => ftl.trim(lpn).unwrap(),
                1 | 2 => ftl.read(lpn, Cause::Host, &mut data).unwrap(),
                3 => {
                    let group: Vec<(Lpn, &[u8])> = (0..8).map(|i| (Lpn(i * 9), &[9; 128][..])).collect();
                    ftl.write_atomic(&group, Cause::Host).unwrap();
                }
                _ => ftl.write(lpn, Cause::Host, &data).unwrap(),
            }
            let used = ftl.scheme().map_bytes();
            assert!(used <= ram_bytes as usize, "step {step}: {used} of {ram_bytes} bytes");
            if step % 1000 == 999 {
                let counters = ftl.scheme().counters;
                seen = [seen[0] + counters.table_victims, seen[1] + counters.dropped_pages];
                ftl = LazyFtl::mount(ftl.into_nand(), &settings).unwrap();
                ftl.write(lpn, Cause::Host, &data).unwrap();
            }
        }
        assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
    }
}

/// There are more trims than the UMT has room for. After a cut all of them are found again.
#[test]
fn tombstones_beyond_the_room_for_them_reach_the_table() {
    let mut ftl = ftl();
    let lpns: Vec<u32> = (0..200).collect();
    write(&mut ftl, &lpns);
    ftl.sync().unwrap();
    ftl = LazyFtl::mount(ftl.into_nand(), &LazyConfig::default()).unwrap();
    lpns[..180].iter().for_each(|&lpn| ftl.trim(Lpn(lpn)).unwrap());
    ftl.sync().unwrap();
    ftl = LazyFtl::mount(ftl.into_nand(), &LazyConfig::default()).unwrap();
    ftl = LazyFtl::mount(ftl.close().unwrap(), &LazyConfig::default()).unwrap();
    assert!(ftl.check().unwrap().is_sound());
    let mut data = [0; 128];
    for lpn in lpns {
        ftl.read(Lpn(lpn), Cause::Check, &mut data).unwrap();
        assert_eq!(data, [if lpn < 180 { 0 } else { lpn as u8 }; 128], "lpn {lpn}");
    }
}

fn settings(seed: u64) -> LazyConfig {
    LazyConfig {
        common: suite::common(seed),
        ram_bytes: [None, Some(1000), Some(4000)][seed as usize % 3],
        area_blocks: [None, Some(3), Some(5), Some(6)][seed as usize % 4],
    }
}

#[cfg(feature = "full")]
#[test]
fn cold_blocks_wear_with_the_others() {
    suite::levels_wear::<Lazy>(|common| LazyConfig { common, ..Default::default() });
}

#[test]
fn it_is_an_array_of_pages() {
    suite::is_an_array_of_pages::<Lazy>(settings);
}

#[test]
fn a_cut_at_every_operation_loses_nothing() {
    suite::survives_every_cut::<Lazy>(settings);
}

#[test]
fn cut_after_cut_does_not_fill_it() {
    suite::survives_cut_after_cut::<Lazy>(settings);
}

#[test]
fn cuts_among_records_lose_nothing() {
    suite::survives_cuts_among_records::<Lazy>(settings);
}

#[test]
fn failing_blocks_cost_room_but_no_data() {
    suite::survives_failing_blocks::<Lazy>(settings);
}

#[test]
fn a_wrong_bit_anywhere_is_noticed() {
    suite::notices_wrong_bits::<Lazy>(settings);
}

#[test]
fn damage_after_a_cut_is_noticed() {
    suite::notices_damage_after_a_cut::<Lazy>(settings);
}

#[test]
fn damage_after_a_clean_end_is_noticed() {
    suite::notices_damage_after_a_clean_end::<Lazy>(settings);
}

#[test]
fn spoilt_pages_are_told_and_passed_over() {
    suite::passes_over_spoilt_pages::<Lazy>(settings);
}

#[test]
fn a_worn_out_chip_stays_readable() {
    suite::ends_read_only::<Lazy>(settings);
}

#[test]
fn reads_that_fail_once_lose_nothing() {
    suite::reads_again::<Lazy>(settings);
}

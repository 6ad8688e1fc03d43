//! Runs, conversions, and the tests of every scheme.

use super::*;
use alloc::vec;
use nandex::ftl::cmt::ENTRY_BYTES;
use nandex::ftl::dftl::{DftlConfig, DftlFtl};
use nandex::nand::sim::SimChip;
use nandex::nand::{Part, Timing};
use nandex::rng::Rng;
use nandex::store::PageStore;
use nandex::testing::schemes as suite;

const TIMING: Timing =
    Timing { read_ns: 60_000, program_ns: 800_000, erase_ns: 1_500_000, transfer_ps_per_byte: 25_000 };

fn chip(geometry: Geometry) -> SimChip {
    SimChip::new(&Part::new("test", geometry, TIMING)).unwrap()
}

/// An FTL with 4 pages to a block, 32 entries to a translation page and 4 entries in the cache.
fn ftl() -> CftlFtl<SimChip> {
    let cache_bytes = Some(4 * ENTRY_BYTES as u32);
    let settings = CftlConfig { cache_bytes, ..CftlConfig::default() };
    CftlFtl::format(chip(Geometry::new(128, 16, 4, 100)), &settings).unwrap()
}

fn table_io(nand: &SimChip) -> [u64; 2] {
    let counters = nand.counters();
    [counters.page_reads, counters.page_programs].map(|row| row[Cause::Mapping as usize])
}

fn write(ftl: &mut CftlFtl<SimChip>, lpns: &[u32]) {
    for &lpn in lpns {
        ftl.write(Lpn(lpn), Cause::Host, &[lpn as u8; 128]).unwrap();
    }
}

fn read(ftl: &mut CftlFtl<SimChip>, lpns: &[u32]) {
    for &lpn in lpns {
        let mut data = [0; 128];
        ftl.read(Lpn(lpn), Cause::Host, &mut data).unwrap();
        assert_eq!(data, [lpn as u8; 128]);
    }
}

/// One row of the test vector: the pages written; the pages read after that; reads and programs of
/// translation pages so far; entries in the cache.
type Row = (&'static [u32], &'static [u32], [u64; 2], usize);

const VECTOR: [Row; 7] = [
    // One run, over two blocks that follow each other.
    (&[0, 1, 2, 3, 4, 5, 6, 7], &[], [0, 0], 1),
    // For 36 the run goes, to a new translation page.
    (&[32, 34, 36], &[], [0, 1], 3),
    // It comes back whole, and is protected.
    (&[], &[5, 0, 1, 2, 3, 4, 6, 7], [1, 1], 4),
    // 32 goes, to a new page that is told of 34 and 36 too; 34 goes. The run is divided in 0..3, 3 and 4..8.
    (&[3], &[], [1, 2], 4),
    // 36 and 4..8 go. The old place of 4 is read. 3 ended its block, and the next one is another's: no run.
    (&[4], &[3, 4], [2, 2], 3),
    // 5..8 comes back; 0..3 loses its protection.
    (&[], &[5, 6, 7], [3, 2], 4),
    // 0..3 goes, then 3: the page is read and told of 4 too. 5..8 is divided in 5 and 6..8.
    (&[5], &[], [4, 3], 3),
];

#[test]
fn runs_are_cached_as_derived_by_hand() {
    let mut ftl = ftl();
    for (step, (written, wanted, expected, entries)) in VECTOR.iter().enumerate() {
        write(&mut ftl, written);
        read(&mut ftl, wanted);
        assert_eq!(
            (table_io(ftl.nand()), ftl.scheme().cache().cmt.len()),
            (*expected, *entries),
            "step {step}"
        );
        assert!(ftl.check().unwrap().is_sound(), "step {step}");
    }
}

/// The logical block of pages 40 to 43 is gathered with four reads and four programs. Its pages then need
/// no translation page.
#[test]
fn pages_in_place_need_no_translation_page() {
    let mut ftl = ftl();
    write(&mut ftl, &[40, 0, 41, 1, 42, 2, 43, 3]);
    let before = table_io(ftl.nand());
    let (flash, cftl) = ftl.parts_mut();
    cftl.gather(flash, Lbn(10)).unwrap();
    let counters = ftl.nand().counters();
    let merged = [counters.page_reads, counters.page_programs].map(|row| row[Cause::Merge as usize]);
    assert_eq!(merged, [4, 4]);
    let gathered = table_io(ftl.nand());
    assert!(gathered[0] <= before[0] + 1, "one translation page says where they were");
    read(&mut ftl, &[40, 41, 42, 43]);
    assert_eq!((table_io(ftl.nand()), ftl.scheme().counters.in_place), (gathered, 4));
    // Written or trimmed, a page is mapped by itself again, without a copy.
    write(&mut ftl, &[41]);
    ftl.trim(Lpn(42)).unwrap();
    assert!(ftl.check().unwrap().is_sound());
    for clean in [true, false] {
        ftl.sync().unwrap();
        let chip = if clean { ftl.close().unwrap() } else { ftl.into_nand() };
        ftl = CftlFtl::mount(chip, &CftlConfig::default()).unwrap();
        assert_eq!(ftl.scheme().blocks_in_place(), 1);
        read(&mut ftl, &[40, 41, 43, 0, 1, 2, 3]);
        let mut data = [1; 128];
        ftl.read(Lpn(42), Cause::Host, &mut data).unwrap();
        assert_eq!(data, [0; 128]);
        write(&mut ftl, &[3]);
        assert!(ftl.check().unwrap().is_sound());
    }
    assert_eq!(ftl.scheme().blocks_in_place(), 1);
    // Its block is moved; it stays in place, all of it.
    write(&mut ftl, &[42]);
    let (flash, cftl) = ftl.parts_mut();
    let place = cftl.find(flash, 40, Cause::Check).unwrap().unwrap();
    let pbn = flash.geometry().block_of(place);
    assert!(cftl.evacuate(flash, pbn).unwrap());
    assert_eq!(ftl.flash().blocks().valid_count(ftl.scheme().in_place.get(Lbn(10)).unwrap()), 4);
    assert!(ftl.check().unwrap().is_sound());
}

/// Most of the store is written once and a few pages again and again. CFTL has as much RAM as DFTL.
#[test]
fn cold_data_is_found_with_fewer_translation_reads_than_by_dftl() {
    let geometry = Geometry::new(512, 16, 16, 128);
    let cache_bytes = Some(24 * ENTRY_BYTES as u32);
    let settings = CftlConfig { cache_bytes, ..CftlConfig::default() };
    let mut cftl = CftlFtl::format(chip(geometry), &settings).unwrap();
    let mut dftl =
        DftlFtl::format(chip(geometry), &DftlConfig { cache_bytes, ..DftlConfig::default() }).unwrap();
    assert_eq!(cftl.page_count(), dftl.page_count());
    let pages = cftl.page_count();
    fn age(store: &mut impl PageStore) {
        let (mut rng, pages) = (Rng::new(3), store.page_count());
        let mut cold: Vec<u32> = (0..pages).collect();
        rng.shuffle(&mut cold);
        for i in 0..4 * pages {
            let lpn = if i % 4 == 0 { cold[i as usize / 4] } else { rng.below(40) as u32 * 7 };
            store.write(Lpn(lpn), Cause::Host, &[lpn as u8; 512]).unwrap();
        }
        for _ in 0..8 * pages {
            let lpn = rng.below(40) as u32 * 7;
            store.write(Lpn(lpn), Cause::Host, &[lpn as u8; 512]).unwrap();
        }
        let mut data = [0; 512];
        for _ in 0..4000 {
            let lpn = rng.below(u64::from(pages)) as u32;
            store.read(Lpn(lpn), Cause::Host, &mut data).unwrap();
            assert_eq!(data, [lpn as u8; 512]);
        }
    }
    age(&mut cftl);
    age(&mut dftl);
    assert!(cftl.scheme().counters.conversions > 10, "{:?}", cftl.scheme().counters);
    let (few, many) = (table_io(cftl.nand())[0], table_io(dftl.nand())[0]);
    assert!(few < many, "{few} translation reads of {pages} pages, DFTL {many}");
    assert!(cftl.check().unwrap().is_sound());
}

#[test]
fn the_cache_stays_within_its_budget() {
    for entries in [4u32, 9, 40] {
        let budget = entries as usize * ENTRY_BYTES;
        let settings = CftlConfig { cache_bytes: Some(budget as u32), ..CftlConfig::default() };
        let mut ftl = CftlFtl::format(chip(Geometry::new(128, 16, 8, 60)), &settings).unwrap();
        let (mut rng, pages) = (Rng::new(u64::from(entries)), u64::from(ftl.page_count()));
        let mut data = vec![0; 128];
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
            let cftl = ftl.scheme();
            assert!(cftl.cache().cmt.len() <= entries as usize && cftl.cache().cmt.ram_bytes() <= budget);
            assert!(cftl.cache().untold.len() <= 64, "those of a group, and of a run that was divided");
            if step % 1000 == 999 {
                ftl = CftlFtl::mount(ftl.into_nand(), &settings).unwrap();
                ftl.write(lpn, Cause::Host, &data).unwrap();
                assert_eq!(ftl.scheme().cache().untold.len(), 0);
            }
        }
    }
}

/// After a cut no entry has been told to the table yet, so the base written at once must hold all of them.
#[test]
fn a_clean_end_right_after_a_cut_loses_no_entry() {
    let mut ftl = CftlFtl::format(chip(Geometry::new(128, 16, 4, 100)), &CftlConfig::default()).unwrap();
    for lpn in 0..100 {
        ftl.write(Lpn(lpn), Cause::Host, &[lpn as u8; 128]).unwrap();
    }
    for _ in 0..2 {
        ftl = CftlFtl::mount(ftl.into_nand(), &CftlConfig::default()).unwrap();
        ftl = CftlFtl::mount(ftl.close().unwrap(), &CftlConfig::default()).unwrap();
        let mut data = [0; 128];
        for lpn in 0..100 {
            ftl.read(Lpn(lpn), Cause::Check, &mut data).unwrap();
            assert_eq!(data, [lpn as u8; 128]);
        }
        assert!(ftl.check().unwrap().is_sound());
        ftl.write(Lpn(0), Cause::Host, &[0; 128]).unwrap();
    }
}

fn settings(seed: u64) -> CftlConfig {
    let entries = [4, 6, 16, 64, 200][seed as usize % 5];
    CftlConfig {
        common: suite::common(seed),
        cache_bytes: Some(entries * ENTRY_BYTES as u32),
        victim: suite::victim(seed / 2),
        hot: HotConfig { counters: 64, threshold: 1 + seed as u8 % 3, decay_writes: 40, hashes: 2 },
        convert_percent: [25, 50, 90][seed as usize % 3],
    }
}

#[test]
fn it_is_an_array_of_pages() {
    suite::is_an_array_of_pages::<Cftl>(settings);
}

#[test]
fn a_cut_at_every_operation_loses_nothing() {
    suite::survives_every_cut::<Cftl>(settings);
}

#[test]
fn cut_after_cut_does_not_fill_it() {
    suite::survives_cut_after_cut::<Cftl>(settings);
}

#[test]
fn cuts_among_records_lose_nothing() {
    suite::survives_cuts_among_records::<Cftl>(settings);
}

#[test]
fn failing_blocks_cost_room_but_no_data() {
    suite::survives_failing_blocks::<Cftl>(settings);
}

#[test]
fn a_wrong_bit_anywhere_is_noticed() {
    suite::notices_wrong_bits::<Cftl>(settings);
}

#[test]
fn damage_after_a_cut_is_noticed() {
    suite::notices_damage_after_a_cut::<Cftl>(settings);
}

#[test]
fn damage_after_a_clean_end_is_noticed() {
    suite::notices_damage_after_a_clean_end::<Cftl>(settings);
}

#[test]
fn spoilt_pages_are_told_and_passed_over() {
    suite::passes_over_spoilt_pages::<Cftl>(settings);
}

#[test]
fn a_worn_out_chip_stays_readable() {
    suite::ends_read_only::<Cftl>(settings);
}

#[test]
fn reads_that_fail_once_lose_nothing() {
    suite::reads_again::<Cftl>(settings);
}

//! Counts calculated by hand, the RAM budget, and the tests of every scheme.

use super::*;
use crate::ftl::mapping::record_interval;
use crate::ftl::page_map::{FtlConfig, PageMapFtl};
use crate::nand::sim::{CutWhen, PowerCut, SimChip, TornModel};
use crate::nand::{Part, Timing};
use crate::rng::Rng;
use crate::store::PageStore;
use crate::testing::schemes as suite;
use alloc::vec;

const TIMING: Timing =
    Timing { read_ns: 60_000, program_ns: 800_000, erase_ns: 1_500_000, transfer_ps_per_byte: 25_000 };

fn chip(geometry: Geometry) -> SimChip {
    SimChip::new(&Part::new("test", geometry, TIMING)).unwrap()
}

fn with_entries(entries: u32) -> DftlConfig {
    DftlConfig { cache_bytes: Some(entries * ENTRY_BYTES as u32), ..DftlConfig::default() }
}

/// Reads and programs of translation pages.
fn table_io(ftl: &DftlFtl<SimChip>) -> [u64; 2] {
    let counters = ftl.nand().counters();
    [counters.page_reads, counters.page_programs].map(|row| row[Cause::Mapping as usize])
}

enum Step {
    Read(u32),
    Write(u32),
    Trim(u32),
}

/// 32 entries to a translation page, 2 in the cache, 1 of them protected. After each step: reads and programs
/// of translation pages so far.
const VECTOR: [(Step, [u64; 2]); 13] = {
    use Step::{Read, Trim, Write};
    [
        (Write(0), [0, 0]),
        (Write(1), [0, 0]),
        // 0 goes; its page is new, and says 1 as well.
        (Write(40), [0, 1]),
        // A hit; 1 is protected.
        (Read(1), [0, 1]),
        // 40 goes, to a new page; page 0 is read.
        (Read(0), [1, 2]),
        // A hit; 0 is protected and 1 not any more.
        (Write(0), [1, 2]),
        // 1 goes, clean; page 0 is read.
        (Write(2), [2, 2]),
        // 2 goes: page 0 is read, and rewritten with 0 and 2; page 1 is read.
        (Write(41), [4, 3]),
        // 41 goes: page 1 is read and rewritten; page 2 does not exist.
        (Read(70), [5, 4]),
        // A hit.
        (Trim(0), [5, 4]),
        // 70 goes, clean; page 1 is read.
        (Read(41), [6, 4]),
        // 41 goes, clean; page 0 is read.
        (Trim(1), [7, 4]),
        // 1 goes: page 0 is read, and rewritten with 0 and 1; page 1 is read.
        (Write(42), [9, 5]),
    ]
};

#[test]
fn translation_pages_are_read_and_written_as_derived_by_hand() {
    let mut ftl = DftlFtl::format(chip(Geometry::new(128, 16, 4, 100)), &with_entries(2)).unwrap();
    let mut data = [0; 128];
    for (i, (step, expected)) in VECTOR.iter().enumerate() {
        match *step {
            Step::Read(lpn) => ftl.read(Lpn(lpn), Cause::Host, &mut data).unwrap(),
            Step::Write(lpn) => ftl.write(Lpn(lpn), Cause::Host, &[lpn as u8; 128]).unwrap(),
            Step::Trim(lpn) => ftl.trim(Lpn(lpn)).unwrap(),
        }
        assert_eq!(table_io(&ftl), *expected, "step {i}");
        assert!(ftl.check().unwrap().is_sound(), "step {i}");
    }
    assert_eq!((ftl.scheme().cache().counters.hits, ftl.scheme().cache().counters.misses), (3, 10));
    for (lpn, byte) in [(0, 0), (1, 0), (2, 2), (40, 40), (41, 41), (42, 42), (70, 0)] {
        ftl.read(Lpn(lpn), Cause::Check, &mut data).unwrap();
        assert_eq!(data, [byte; 128]);
    }
    assert_eq!(table_io(&ftl), [9, 5], "looking on costs nothing");
    assert_eq!((ftl.scheme().cache().counters.hits, ftl.scheme().cache().counters.misses), (3, 10));
}

/// A block of the logical pages 0, 1, 32 and 33 moves; the last two are cached. Their entries change in the
/// cache only; the translation page of the others is rewritten once.
#[test]
fn copying_is_lazy_and_updates_come_in_batches() {
    let mut ftl = DftlFtl::format(chip(Geometry::new(128, 16, 4, 100)), &with_entries(2)).unwrap();
    for lpn in [0, 1, 32, 33] {
        ftl.write(Lpn(lpn), Cause::Host, &[lpn as u8; 128]).unwrap();
    }
    assert_eq!(table_io(&ftl), [0, 1]);
    let (flash, dftl) = ftl.parts_mut();
    let ppn = dftl.locate(flash, 0, Cause::Check).unwrap().unwrap();
    let pbn = flash.geometry().block_of(ppn);
    assert!(dftl.evacuate(flash, pbn).unwrap());
    assert_eq!(table_io(&ftl), [1, 2]);
    assert_eq!(ftl.scheme().cache().counters.batch_updates, 1);
    let counters = ftl.nand().counters();
    let levelling = [counters.page_reads, counters.page_programs, counters.block_erases];
    assert_eq!(levelling.map(|row| row[Cause::WearLevelling as usize]), [4, 4, 1]);
    assert!(ftl.check().unwrap().is_sound());
}

#[test]
fn with_room_for_all_entries_it_is_page_mapping() {
    let geometry = Geometry::new(512, 16, 16, 128);
    let common = FlashConfig { over_provisioning_ppm: 500_000, ..FlashConfig::default() };
    let mut ftl = DftlFtl::format(chip(geometry), &DftlConfig { common, ..with_entries(128 * 16) }).unwrap();
    let page_map = FtlConfig { over_provisioning_ppm: 500_000, ..FtlConfig::default() };
    let mut ideal = PageMapFtl::format(chip(geometry), &page_map).unwrap();
    assert_eq!(ftl.page_count(), ideal.page_count());
    let mut rng = Rng::new(1);
    let pages = ftl.page_count();
    for i in 0..20_000 {
        let lpn = Lpn(if i < pages { i } else { rng.below(u64::from(pages)) as u32 });
        ftl.write(lpn, Cause::Host, &[i as u8; 512]).unwrap();
        ideal.write(lpn, Cause::Host, &[i as u8; 512]).unwrap();
    }
    assert_eq!(table_io(&ftl), [0, 0]);
    assert_eq!(ftl.scheme().cache().counters.misses, u64::from(pages));
    let (moved, fewest) = (ftl.counters().moved_pages, ideal.counters().moved_pages);
    assert!(fewest > 5_000, "{fewest} pages moved by page mapping");
    assert!((fewest * 2 / 3..fewest * 3 / 2).contains(&moved), "{moved} pages moved, page mapping {fewest}");
}

#[test]
fn the_cache_stays_within_its_budget() {
    for entries in [2, 7, 40] {
        let settings = with_entries(entries);
        let budget = entries as usize * ENTRY_BYTES;
        let mut ftl = DftlFtl::format(chip(Geometry::new(128, 16, 8, 60)), &settings).unwrap();
        let (mut rng, pages) = (Rng::new(u64::from(entries)), u64::from(ftl.page_count()));
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
            let dftl = ftl.scheme();
            assert!(dftl.cache().cmt.len() <= entries as usize && dftl.cache().cmt.ram_bytes() <= budget);
            assert!(dftl.cache().untold.len() <= 8, "those of a group at most");
            if step % 1000 == 999 {
                let counters = ftl.scheme().cache().counters;
                seen = [seen[0] + counters.table_victims, seen[1] + counters.batch_updates];
                // After a cut there may be more of them, until the next write.
                ftl = DftlFtl::mount(ftl.into_nand(), &settings).unwrap();
                ftl.write(lpn, Cause::Host, &data).unwrap();
                assert_eq!(ftl.scheme().cache().untold.len(), 0);
            }
        }
        assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
    }
}

/// After a cut all entries are untold; the base written at once must do without them.
#[test]
fn a_clean_end_right_after_a_cut_loses_no_entry() {
    let mut ftl = DftlFtl::format(chip(Geometry::new(128, 16, 4, 100)), &with_entries(2)).unwrap();
    for lpn in 0..100 {
        ftl.write(Lpn(lpn), Cause::Host, &[lpn as u8; 128]).unwrap();
    }
    for _ in 0..2 {
        ftl = DftlFtl::mount(ftl.into_nand(), &with_entries(2)).unwrap();
        ftl = DftlFtl::mount(ftl.close().unwrap(), &with_entries(2)).unwrap();
        let mut data = [0; 128];
        for lpn in 0..100 {
            ftl.read(Lpn(lpn), Cause::Check, &mut data).unwrap();
            assert_eq!(data, [lpn as u8; 128]);
        }
        assert!(ftl.check().unwrap().is_sound());
        ftl.write(Lpn(0), Cause::Host, &[0; 128]).unwrap();
    }
}

/// Cuts of a chip on which records are due before anything is erased. A mount looks at what was programmed
/// since, not at the chip.
#[test]
fn a_mount_after_a_cut_reads_what_lives_and_what_is_new() {
    let geometry = Geometry::new(128, 16, 8, 256);
    let mut ftl = DftlFtl::format(chip(geometry), &with_entries(30)).unwrap();
    let (mut rng, pages) = (Rng::new(5), u64::from(ftl.page_count()));
    let mut model: Vec<u8> = vec![0; pages as usize];
    let mut tag = 0;
    for round in 0..40 {
        let at_operation = ftl.nand().operations() + 1 + rng.below(700);
        let (when, torn) = (CutWhen::Inside, TornModel::ALL[round % TornModel::ALL.len()]);
        ftl.nand_mut().plan_power_cut(PowerCut { at_operation, when, torn, seed: round as u64 });
        let in_flight = loop {
            // A few pages are written again and again, the others now and then.
            let few = if rng.below(3) == 0 { pages } else { 40 };
            let lpn = rng.below(few) as u32;
            tag = tag % 250 + 1;
            match ftl.write(Lpn(lpn), Cause::Host, &[tag; 128]) {
                Ok(()) => model[lpn as usize] = tag,
                Err(_) => break lpn,
            }
        };
        let mut nand = ftl.into_nand();
        nand.power_on();
        let before = nand.counters().page_reads[Cause::Recovery as usize];
        ftl = DftlFtl::mount(nand, &with_entries(30)).unwrap();
        let reads = ftl.nand().counters().page_reads[Cause::Recovery as usize] - before;
        let live = u64::from(ftl.flash().blocks().live_pages());
        let (blocks, since) = (u64::from(geometry.blocks), u64::from(record_interval(geometry)) + 2 * 8);
        let bound = 2 * live + 4 * blocks + since + 2 * u64::from(geometry.pages_per_block) * 8;
        assert!(reads <= bound, "round {round}: {reads} reads, {live} live pages");
        assert!(ftl.scheme().cache().untold.len() <= 30 + 2 * 8, "{}", ftl.scheme().cache().untold.len());
        assert!(ftl.check().unwrap().is_sound(), "round {round}");
        for lpn in 0..pages as u32 {
            let mut data = [0; 128];
            ftl.read(Lpn(lpn), Cause::Check, &mut data).unwrap();
            let is_new = lpn == in_flight && data[0] == tag;
            assert!(is_new || data == [model[lpn as usize]; 128], "round {round}, page {lpn}");
            model[lpn as usize] = data[0];
        }
    }
}

fn settings(seed: u64) -> DftlConfig {
    let entries = [2, 3, 5, 16, 64, 200][seed as usize % 6];
    DftlConfig {
        common: suite::common(seed),
        cache_bytes: Some(entries * ENTRY_BYTES as u32),
        victim: suite::victim(seed / 2),
        validity: Validity::Bits,
    }
}

#[cfg(feature = "full")]
#[test]
fn cold_blocks_wear_with_the_others() {
    suite::levels_wear::<Dftl>(|common| DftlConfig { common, ..Default::default() });
}

#[test]
fn it_is_an_array_of_pages() {
    suite::is_an_array_of_pages::<Dftl>(settings);
}

#[test]
fn a_cut_at_every_operation_loses_nothing() {
    suite::survives_every_cut::<Dftl>(settings);
}

#[test]
fn cut_after_cut_does_not_fill_it() {
    suite::survives_cut_after_cut::<Dftl>(settings);
}

#[test]
fn cuts_among_records_lose_nothing() {
    suite::survives_cuts_among_records::<Dftl>(settings);
}

#[test]
fn failing_blocks_cost_room_but_no_data() {
    suite::survives_failing_blocks::<Dftl>(settings);
}

#[test]
fn a_wrong_bit_anywhere_is_noticed() {
    suite::notices_wrong_bits::<Dftl>(settings);
}

#[test]
fn damage_after_a_cut_is_noticed() {
    suite::notices_damage_after_a_cut::<Dftl>(settings);
}

#[test]
fn damage_after_a_clean_end_is_noticed() {
    suite::notices_damage_after_a_clean_end::<Dftl>(settings);
}

#[test]
fn spoilt_pages_are_told_and_passed_over() {
    suite::passes_over_spoilt_pages::<Dftl>(settings);
}

#[test]
fn a_worn_out_chip_stays_readable() {
    suite::ends_read_only::<Dftl>(settings);
}

#[test]
fn reads_that_fail_once_lose_nothing() {
    suite::reads_again::<Dftl>(settings);
}

#[cfg(feature = "full")]
mod counted;

//! The tests of every scheme, with small and fast filters so that both parts are used.

use super::*;
use nandex::nand::sim::SimChip;
use nandex::nand::{Part, Timing};
use nandex::rng::Rng;
use nandex::store::PageStore;
use nandex::testing::schemes as suite;

fn settings(seed: u64) -> HftlConfig {
    HftlConfig {
        common: suite::common(seed),
        log_blocks: Some(2 + seed as u32 % 3),
        hot_blocks: Some(2 + seed as u32 % 2),
        hot: HotConfig { counters: 256, hashes: 2, threshold: 2, decay_writes: 200 },
    }
}

#[cfg(feature = "full")]
#[test]
fn cold_blocks_wear_with_the_others() {
    suite::levels_wear::<Hftl>(|common| HftlConfig { common, ..Default::default() });
}

#[test]
fn it_is_an_array_of_pages() {
    suite::is_an_array_of_pages::<Hftl>(settings);
}

#[test]
fn a_cut_at_every_operation_loses_nothing() {
    suite::survives_every_cut::<Hftl>(settings);
}

#[test]
fn cut_after_cut_does_not_fill_it() {
    suite::survives_cut_after_cut::<Hftl>(settings);
}

#[test]
fn cuts_among_records_lose_nothing() {
    suite::survives_cuts_among_records::<Hftl>(settings);
}

#[test]
fn failing_blocks_cost_room_but_no_data() {
    suite::survives_failing_blocks::<Hftl>(settings);
}

#[test]
fn a_wrong_bit_anywhere_is_noticed() {
    suite::notices_wrong_bits::<Hftl>(settings);
}

#[test]
fn what_is_hot_spares_merges() {
    let timing =
        Timing { read_ns: 60_000, program_ns: 800_000, erase_ns: 1_500_000, transfer_ps_per_byte: 25_000 };
    let chip = |blocks| SimChip::new(&Part::new("test", Geometry::new(512, 16, 16, blocks), timing)).unwrap();
    let write = |store: &mut dyn PageStore| {
        let mut rng = Rng::new(7);
        let pages = u64::from(store.page_count());
        let data = [1; 512];
        (0..store.page_count()).for_each(|lpn| store.write(Lpn(lpn), Cause::Host, &data).unwrap());
        for _ in 0..20_000 {
            // Nine tenths go to twelve pages that are far apart.
            let lpn = if rng.chance(9, 10) { rng.below(12) * 37 + 1 } else { rng.below(pages) };
            store.write(Lpn(lpn as u32), Cause::Host, &data).unwrap();
        }
    };
    let mut hftl = HftlFtl::format(chip(128), &HftlConfig::default()).unwrap();
    write(&mut hftl);
    let mut fast = crate::ftl::fast::FastFtl::format(chip(128), &FastConfig::default()).unwrap();
    write(&mut fast);
    assert!(hftl.scheme().hot_page_count() >= 12 && hftl.scheme().evicted_pages > 0);
    let (hot, cold) = (hftl.counters().full_merges, fast.counters().full_merges);
    assert!(2 * hot < cold, "{hot} full merges against {cold}");
}

#[test]
fn damage_after_a_cut_is_noticed() {
    suite::notices_damage_after_a_cut::<Hftl>(settings);
}

#[test]
fn damage_after_a_clean_end_is_noticed() {
    suite::notices_damage_after_a_clean_end::<Hftl>(settings);
}

#[test]
fn spoilt_pages_are_told_and_passed_over() {
    suite::passes_over_spoilt_pages::<Hftl>(settings);
}

#[test]
fn a_worn_out_chip_stays_readable() {
    suite::ends_read_only::<Hftl>(settings);
}

#[test]
fn reads_that_fail_once_lose_nothing() {
    suite::reads_again::<Hftl>(settings);
}

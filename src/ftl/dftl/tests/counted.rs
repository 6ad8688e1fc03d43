//! Valid pages counted per block: the tests of every scheme, and a comparison with one bit per page.

use super::*;

fn counted(seed: u64) -> DftlConfig {
    DftlConfig { validity: Validity::Counts, ..settings(seed) }
}

/// A chip with room to spare, on which many blocks are collected; as many bytes of cache as `entries` take.
fn on_roomy_chip(entries: u32, validity: Validity) -> DftlFtl<SimChip> {
    let common = FlashConfig { over_provisioning_ppm: 400_000, ..FlashConfig::default() };
    let settings = DftlConfig { common, validity, ..with_entries(entries) };
    DftlFtl::format(chip(Geometry::new(512, 16, 16, 128)), &settings).unwrap()
}

/// The table has 12 pages, and each walk over it answers for up to 8 blocks. The host's work is the same.
#[test]
fn a_victim_is_asked_of_the_map_together_with_the_next_ones() {
    let work = |validity| {
        let mut ftl = on_roomy_chip(64, validity);
        let (mut rng, pages) = (Rng::new(3), ftl.page_count());
        for i in 0..20_000 {
            let lpn = if i < pages { i } else { rng.below(u64::from(pages)) as u32 };
            ftl.write(Lpn(lpn), Cause::Host, &[i as u8; 512]).unwrap();
        }
        assert!(ftl.check().unwrap().is_sound());
        assert_eq!(ftl.flash().state.is_counted(), validity == Validity::Counts);
        let victims = ftl.counters().collections - ftl.scheme().cache().counters.table_victims;
        (table_io(&ftl), victims, ftl.counters().moved_pages, ftl.page_count().div_ceil(128))
    };
    let (bits, counted) = (work(Validity::Bits), work(Validity::Counts));
    assert!(counted.1 > 500, "{counted:?}");
    assert!(counted.2 * 10 / 9 > bits.2 && counted.2 * 9 / 10 < bits.2, "{bits:?}, {counted:?}");
    let more = counted.0[0] as f64 / counted.1 as f64 - bits.0[0] as f64 / bits.1 as f64;
    assert!(
        (0.5..f64::from(counted.3) / 2.0).contains(&more),
        "{more} reads a victim: {bits:?}, {counted:?}"
    );
}

/// The map names the pages, so a mount need not read pages of data to find their owners.
#[test]
fn a_mount_reads_the_map_and_what_is_new() {
    let mut ftl = on_roomy_chip(30, Validity::Counts);
    let (mut rng, pages) = (Rng::new(5), u64::from(ftl.page_count()));
    for lpn in 0..pages as u32 {
        ftl.write(Lpn(lpn), Cause::Host, &[1; 512]).unwrap();
    }
    for round in 0..40 {
        let at_operation = ftl.nand().operations() + 1 + rng.below(700);
        let (when, torn) = (CutWhen::Inside, TornModel::ALL[round % TornModel::ALL.len()]);
        ftl.nand_mut().plan_power_cut(PowerCut { at_operation, when, torn, seed: round as u64 });
        while ftl.write(Lpn(rng.below(pages) as u32), Cause::Host, &[round as u8; 512]).is_ok() {}
        let mut nand = ftl.into_nand();
        nand.power_on();
        let before = nand.counters().page_reads[Cause::Recovery as usize];
        ftl = DftlFtl::mount(nand, &with_entries(30)).unwrap();
        let reads = ftl.nand().counters().page_reads[Cause::Recovery as usize] - before;
        let (table, since) = (pages.div_ceil(128), u64::from(record_interval(ftl.flash().geometry())) + 32);
        let bound = 3 * table + 4 * 128 + since + 3 * 16 * 8;
        assert!(reads <= bound, "round {round}: {reads} reads, {bound} at most");
        assert!(ftl.check().unwrap().is_sound(), "round {round}");
        assert!(ftl.scheme().cache().untold.len() <= 30 + 2 * 16, "{}", ftl.scheme().cache().untold.len());
    }
}

#[test]
fn what_was_formatted_stays_so() {
    for validity in [Validity::Bits, Validity::Counts] {
        let mut ftl = on_roomy_chip(16, validity);
        let others =
            [Validity::Counts, Validity::Bits].map(|validity| DftlConfig { validity, ..with_entries(16) });
        for other in others {
            ftl.write(Lpn(7), Cause::Host, &[7; 512]).unwrap();
            ftl = DftlFtl::mount(ftl.into_nand(), &other).unwrap();
            assert_eq!(ftl.flash().state.is_counted(), validity == Validity::Counts);
            ftl = DftlFtl::mount(ftl.close().unwrap(), &other).unwrap();
            let mut data = [0; 512];
            ftl.read(Lpn(7), Cause::Host, &mut data).unwrap();
            assert!(data == [7; 512] && ftl.check().unwrap().is_sound());
        }
    }
}

#[test]
fn cold_blocks_wear_with_the_others() {
    suite::levels_wear::<Dftl>(|common| DftlConfig {
        common,
        validity: Validity::Counts,
        ..Default::default()
    });
}

#[test]
fn it_is_an_array_of_pages() {
    suite::is_an_array_of_pages::<Dftl>(counted);
}

#[test]
fn a_cut_at_every_operation_loses_nothing() {
    suite::survives_every_cut::<Dftl>(counted);
}

#[test]
fn cut_after_cut_does_not_fill_it() {
    suite::survives_cut_after_cut::<Dftl>(counted);
}

#[test]
fn cuts_among_records_lose_nothing() {
    suite::survives_cuts_among_records::<Dftl>(counted);
}

#[test]
fn failing_blocks_cost_room_but_no_data() {
    suite::survives_failing_blocks::<Dftl>(counted);
}

#[test]
fn a_wrong_bit_anywhere_is_noticed() {
    suite::notices_wrong_bits::<Dftl>(counted);
}

#[test]
fn damage_after_a_cut_is_noticed() {
    suite::notices_damage_after_a_cut::<Dftl>(counted);
}

#[test]
fn damage_after_a_clean_end_is_noticed() {
    suite::notices_damage_after_a_clean_end::<Dftl>(counted);
}

#[test]
fn spoilt_pages_are_told_and_passed_over() {
    suite::passes_over_spoilt_pages::<Dftl>(counted);
}

#[test]
fn a_worn_out_chip_stays_readable() {
    suite::ends_read_only::<Dftl>(counted);
}

#[test]
fn reads_that_fail_once_lose_nothing() {
    suite::reads_again::<Dftl>(counted);
}

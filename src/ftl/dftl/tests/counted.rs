//! Valid pages counted by block: what every scheme must pass, and that it does as with a bit for each page.

use super::*;

fn counted(seed: u64) -> DftlSettings {
    DftlSettings { validity: Validity::Counts, ..settings(seed) }
}

#[test]
fn cold_blocks_wear_with_the_others() {
    suite::levels_wear::<Dftl>(|common| DftlSettings {
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

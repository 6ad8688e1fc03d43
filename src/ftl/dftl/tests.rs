//! Counts by hand, the budget, and what every scheme must pass.

use super::*;
use crate::ftl::flash::tests as suite;

fn settings(seed: u64) -> DftlSettings {
    let entries = [2, 3, 5, 16, 64, 200][seed as usize % 6];
    DftlSettings {
        common: suite::common(seed),
        cache_bytes: Some(entries * ENTRY_BYTES as u32),
        victim: VictimPolicy::ALL[seed as usize / 2 % 2],
    }
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
fn failing_blocks_cost_room_but_no_data() {
    suite::survives_failing_blocks::<Dftl>(settings);
}

#[test]
fn a_wrong_bit_anywhere_is_noticed() {
    suite::notices_wrong_bits::<Dftl>(settings);
}

//! Runs, conversions, and what every scheme must pass.

use super::*;
use crate::ftl::flash::tests as suite;

fn settings(seed: u64) -> CftlSettings {
    let entries = [4, 6, 16, 64, 200][seed as usize % 5];
    CftlSettings {
        common: suite::common(seed),
        cache_bytes: Some(entries * ENTRY_BYTES as u32),
        victim: VictimPolicy::ALL[seed as usize / 2 % 6],
        hot: HotSettings { counters: 64, threshold: 1 + seed as u8 % 3, decay_writes: 40, hashes: 2 },
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
fn failing_blocks_cost_room_but_no_data() {
    suite::survives_failing_blocks::<Cftl>(settings);
}

#[test]
fn a_wrong_bit_anywhere_is_noticed() {
    suite::notices_wrong_bits::<Cftl>(settings);
}

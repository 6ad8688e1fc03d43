//! The traps, the budget, and what every scheme must pass.

use super::*;
use crate::ftl::flash::tests as suite;

fn settings(seed: u64) -> LazySettings {
    LazySettings {
        common: suite::common(seed),
        ram_bytes: [None, Some(1000), Some(4000)][seed as usize % 3],
        area_blocks: [None, Some(3), Some(5), Some(6)][seed as usize % 4],
    }
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
fn failing_blocks_cost_room_but_no_data() {
    suite::survives_failing_blocks::<Lazy>(settings);
}

#[test]
fn a_wrong_bit_anywhere_is_noticed() {
    suite::notices_wrong_bits::<Lazy>(settings);
}

//! The index against `BTreeMap`, over many settings.

mod faults;
mod options;
mod paper;
mod structure;
mod victims;

use super::units::State;
use super::*;
use crate::ordered::bplus::{BPlusConfig, Underflow};
use crate::ordered::buffered::tests::*;
use crate::testing::Store;
use alloc::vec;
use proptest::prelude::*;

/// Nodes of at most `order` entries, and a buffer of so many slabs more than the fewest.
fn config(order: usize, slabs: usize) -> LsLruConfig {
    config_over(order, slabs, 128)
}

fn config_over(order: usize, slabs: usize, page_bytes: usize) -> LsLruConfig {
    let bytes = LsLruConfig::buffer_bytes_min(SMALL, page_bytes);
    let mut config = LsLruConfig::new(SMALL, bytes + slabs * buffer::slab_bytes(page_bytes));
    config.tree = config.tree.with_order(order);
    config
}

fn small_index(config: LsLruConfig) -> LsLruTree<Store> {
    LsLruTree::format(Store::new(128, 2_000), config).unwrap()
}

fn host_writes(index: &LsLruTree<Store>) -> u64 {
    index.store().counters().page_writes[0]
}

/// Bytes that the buffer takes, its cells included.
fn buffer_ram(index: &LsLruTree<Store>) -> usize {
    index.ram_bytes() - index.tree.ram_bytes() + index.buffer().ram_bytes() - index.store().ram_bytes()
}

fn state_of(index: &mut LsLruTree<Store>, n: u16) -> Option<State> {
    let lpn = index.tree.leaf_of(&key(n), Cause::Check).unwrap();
    let unit = index.buffer().units.find(lpn)?;
    index.buffer().units.get(unit).state()
}

fn any_config() -> impl Strategy<Value = LsLruConfig> {
    let window = proptest::sample::select(vec![0u8, 25, 50, 75, 100]);
    let slabs = prop_oneof![0..4usize, 4..40usize, Just(300usize)];
    let (every, least) = (prop_oneof![Just(0u64), 1..200u64], prop_oneof![Just(0u32), 1..40u32]);
    let inner = prop_oneof![Just(Inner::Kept), Just(Inner::Units)];
    let policies = [CommitPolicy::WriteMinimized, CommitPolicy::FirstAssociated, CommitPolicy::ExactFit];
    let ram = prop_oneof![Just(UnitRam::Held), Just(UnitRam::Record)];
    let split = prop_oneof![Just(LeafSplit::Multi), Just(LeafSplit::TwoNodes)];
    let underflow = prop_oneof![Just(Underflow::Merge), Just(Underflow::ExpelLeaves)];
    let policy = (inner, proptest::sample::select(policies.to_vec()), ram, split, underflow);
    (3..9usize, slabs, window, 2..5u32, (every, least), any::<bool>(), policy).prop_map(
        |(order, slabs, window_percent, split_factor, (full_merge_every, commit_entries), exact, policy)| {
            let answers = if exact { Answers::Exact } else { Answers::Pool };
            let mut config = config(order, slabs);
            let (inner, commit, ram, split, underflow) = policy;
            config.tree.underflow = underflow;
            let config = LsLruConfig { inner, commit, ram, split, answers, ..config };
            LsLruConfig { window_percent, split_factor, full_merge_every, commit_entries, ..config }
        },
    )
}

proptest! {
    #![proptest_config(crate::inputs::fixed(400))]

    #[test]
    fn the_index_is_a_sorted_map(config in any_config(), ops in any_ops()) {
        let mut index = small_index(config);
        let mut model = Model::new();
        let ram = buffer_ram(&index);
        let is_held = config.ram == UnitRam::Held;
        prop_assert!(!is_held || ram <= config.buffer_bytes);
        for (i, op) in ops.iter().enumerate() {
            run_op(&mut index, op, &mut model, config.answers);
            prop_assert!(!matches!(op, Op::Sync) || index.waiting_entries() == 0);
            if let Op::Remount = op {
                index.close().unwrap();
                index = LsLruTree::mount(index.into_store(), config).unwrap();
            }
            if i % 8 == 0 {
                assert_sound(&mut index, &model);
            }
            prop_assert!(!is_held || buffer_ram(&index) == ram);
        }
        assert_sound(&mut index, &model);
        prop_assert_eq!(contents(&mut index).unwrap(), model);
        // In the smallest buffers the path of an operation may leave no room for an entry.
        prop_assert!(index.counts.bypasses == 0 || config.buffer_bytes < self::config(3, 20).buffer_bytes);
    }
}

//! The index against `BTreeMap`, over many settings.

mod faults;
mod options;
mod paper;
mod structure;
mod victims;

use super::units::State;
use super::*;
use crate::ordered::tests::*;
use alloc::vec;
use nandex::ordered::bplus::{BPlusConfig, Underflow};
use nandex::rng::Rng;
use nandex::testing::Store;

/// Settings with at most `order` entries in a node, and a buffer of `slabs` slabs more than the fewest.
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
    LsLruTree::format(Store::new(128, 2_000), &config).unwrap()
}

fn host_writes(index: &LsLruTree<Store>) -> u64 {
    index.store().counters().page_writes[0]
}

fn buffer_ram(index: &LsLruTree<Store>) -> usize {
    index.ram_bytes() - index.tree.ram_bytes() + index.buffer().ram_bytes() - index.store().ram_bytes()
}

fn state_of(index: &mut LsLruTree<Store>, n: u16) -> Option<State> {
    let lpn = index.tree.leaf_of(&key(n), Cause::Check).unwrap();
    let unit = index.buffer().units.find(lpn)?;
    index.buffer().units.get(unit).state()
}

fn any_config(rng: &mut Rng) -> LsLruConfig {
    let slabs = [rng.below(4), 4 + rng.below(36), 300][rng.below(3) as usize] as usize;
    let mut config = config(3 + rng.below(6) as usize, slabs);
    config.tree.underflow = if rng.chance(1, 2) { Underflow::Merge } else { Underflow::ExpelLeaves };
    let policies = [CommitPolicy::WriteMinimized, CommitPolicy::FirstAssociated, CommitPolicy::ExactFit];
    LsLruConfig {
        inner: if rng.chance(1, 2) { Inner::Kept } else { Inner::Units },
        commit: policies[rng.below(3) as usize],
        ram: if rng.chance(1, 2) { UnitRam::Held } else { UnitRam::Record },
        split: if rng.chance(1, 2) { LeafSplit::Multi } else { LeafSplit::TwoNodes },
        answers: if rng.chance(1, 2) { Answers::Exact } else { Answers::Pool },
        window_percent: 25 * rng.below(5) as u8,
        split_factor: 2 + rng.below(3) as u32,
        full_merge_every: if rng.chance(1, 2) { 0 } else { 1 + rng.below(199) },
        commit_entries: if rng.chance(1, 2) { 0 } else { 1 + rng.below(39) as u32 },
        ..config
    }
}

#[test]
fn the_index_is_a_sorted_map() {
    crate::inputs::cases(400, |seed| {
        let rng = &mut Rng::new(seed);
        let config = any_config(rng);
        let index = small_index(config);
        let ram = buffer_ram(&index);
        let is_held = config.ram == UnitRam::Held;
        assert!(!is_held || ram <= config.buffer_bytes);
        let remount = |mut index: LsLruTree<Store>| {
            index.close().unwrap();
            LsLruTree::mount(index.into_store(), &config).unwrap()
        };
        let (index, _) = live(index, &any_ops(rng), config.answers, &remount, &mut |index, op| {
            assert!(*op != Op::Sync || index.waiting_entries() == 0);
            assert!(!is_held || buffer_ram(index) == ram);
        });
        // In the smallest buffers the path of an operation may leave no room for an entry.
        assert!(index.counts.bypasses == 0 || config.buffer_bytes < self::config(3, 20).buffer_bytes);
    });
}

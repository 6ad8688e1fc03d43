//! The B-epsilon-tree against `BTreeMap`, cut power, counts, damaged pages, full stores.

use super::*;
use crate::ordered::messages::ground::tests::*;
use crate::ordered::tests::SMALL;
use nandex::check::IndexError;
use nandex::ordered::OrderedIndex;
use nandex::ordered::buffered::Answers;
use nandex::rng::Rng;
use nandex::testing::Store;

/// Settings with small nodes, of 128 bytes times `node_pages`, so that trees are high.
fn config(node_pages: u32, fanout: u32) -> BEpsilonConfig {
    BEpsilonConfig { node_pages: Some(node_pages), fanout, ..BEpsilonConfig::new(SMALL) }
}

#[test]
fn the_index_is_a_sorted_map() {
    crate::inputs::cases(120, |seed| {
        let rng = &mut Rng::new(seed);
        let mut config = config(1 + rng.below(3) as u32, 4 + rng.below(6) as u32);
        config.common.answers = if rng.chance(1, 2) { Answers::Exact } else { Answers::Pool };
        is_a_sorted_map::<BEpsilon>(&config, rng, 900);
    });
}

#[test]
fn a_cut_leaves_a_prefix_that_has_the_last_sync() {
    cuts_leave_a_prefix::<BEpsilon>(&config(1, 4), (0..500).step_by(4));
    cuts_leave_a_prefix::<BEpsilon>(&config(3, 6), (1..300).step_by(9));
}

#[test]
fn with_a_journal_more_is_kept() {
    a_journal_keeps_every_operation::<BEpsilon>(&config(1, 4), (3..400).step_by(7));
}

#[test]
fn damage_is_noticed() {
    a_flipped_bit_is_an_error_or_changes_nothing::<BEpsilon>(&config(2, 4));
    forged_pages_never_panic::<BEpsilon>(&config(2, 4));
}

#[test]
fn a_full_store_loses_nothing_and_takes_records_again_once_some_are_gone() {
    a_full_store_loses_nothing::<BEpsilon>(&config(1, 6), 150, 40);
    a_full_store_loses_nothing::<BEpsilon>(&config(2, 8), 400, 100);
}

#[test]
fn sorted_records_are_loaded() {
    loads::<BEpsilon>(&config(1, 5));
    loads::<BEpsilon>(&config(3, 16));
}

const WORDS: RecordFormat = RecordFormat::new(4, 4);

fn grown(config: BEpsilonConfig, records: u32) -> BEpsilonTree<Store> {
    let mut index = BEpsilonTree::format(Store::new(512, 40_000), &config).unwrap();
    let mut rng = Rng::new(5);
    for _ in 0..records {
        index.insert(&(rng.next_u64() as u32).to_be_bytes(), &[7; 4]).unwrap();
    }
    index
}

#[test]
fn a_node_is_written_for_many_updates_and_a_search_reads_two_pages_of_a_level() {
    let mut config = BEpsilonConfig::new(WORDS);
    config.common.answers = Answers::Pool;
    let mut index = grown(config, 40_000);
    let (height, layout) = (u64::from(index.stats().height), index.scheme().layout);
    assert_eq!(height, 3);
    let before = accesses(&index);
    let mut rng = Rng::new(9);
    for _ in 0..10_000 {
        index.insert(&(rng.next_u64() as u32).to_be_bytes(), &[7; 4]).unwrap();
    }
    let after = accesses(&index);
    let writes = after.1 - before.1;
    // Each level below the root rewrites a node of at most 8 pages for each 16th of the messages of a full
    // one, and more with every flush that finds more than the mean.
    let messages = (layout.inner_records / layout.fanout) as u64;
    let model = 10_000 * (height - 1) * 8 / messages;
    assert!(writes < model && writes > model / 8, "{writes} writes, {model} at most");
    let mut rng = Rng::new(5);
    for _ in 0..2_000 {
        assert!(index.get(&(rng.next_u64() as u32).to_be_bytes(), &mut [0; 4]).unwrap());
    }
    let reads = accesses(&index).0 - after.0;
    assert!(reads <= 2_000 * 2 * (height - 1) && reads > 2_000 * (height - 1), "{reads}");
}

#[test]
fn a_flush_moves_a_sixteenth_at_least() {
    let index = grown(BEpsilonConfig::new(WORDS), 20_000);
    let (counts, layout) = (index.scheme().counts, index.scheme().layout);
    assert_eq!((layout.fanout, index.scheme().metrics()[0]), (16, ("node_pages", 8)));
    assert!(
        counts.flushes > 100
            && counts.flushed_messages >= counts.flushes * (layout.inner_records / 16) as u64
    );
}

#[test]
fn what_cannot_work_is_refused() {
    let refused = |config, pages| {
        let Err(IndexError::Unsupported(why)) = BEpsilonTree::format(Store::new(128, pages), &config) else {
            panic!("{config:?} was taken");
        };
        assert!(why.len() > 20, "{why}");
    };
    refused(config(8, 16), 20);
    refused(BEpsilonConfig::new(RecordFormat::new(100, 4)), 2_000);
    let mut durable = config(2, 4);
    durable.common.durability = nandex::ordered::Durability::EveryOperation;
    refused(durable, 2_000);
    let made = BEpsilonTree::format(Store::new(128, 200), &config(2, 4)).unwrap().into_store();
    for other in [config(1, 4), config(2, 5), BEpsilonConfig::new(WORDS)] {
        let mounted = BEpsilonTree::mount(made.copy(), &other).err();
        assert!(matches!(mounted, Some(IndexError::NotFormatted(_))), "{mounted:?}");
    }
}

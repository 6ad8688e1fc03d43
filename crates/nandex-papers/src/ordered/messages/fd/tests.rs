//! The FD-tree against `BTreeMap`, its cost model, cut power, damaged pages, full stores.

use super::*;
use crate::ordered::messages::ground::tests::*;
use crate::ordered::tests::SMALL;
use nandex::ordered::OrderedIndex;
use nandex::ordered::RecordFormat;
use nandex::ordered::buffered::Answers;
use nandex::rng::Rng;
use nandex::testing::Store;

/// Settings for pages of 128 bytes, which have 15 entries.
fn config(head_entries: u32, k: u32) -> FdConfig {
    FdConfig { head_entries, k, ..FdConfig::new(SMALL) }
}

#[test]
fn the_index_is_a_sorted_map() {
    crate::inputs::cases(120, |seed| {
        let rng = &mut Rng::new(seed);
        let mut config = config(1 + rng.below(39) as u32, 2 + rng.below(5) as u32);
        config.common.answers = if rng.chance(1, 2) { Answers::Exact } else { Answers::Pool };
        is_a_sorted_map::<Fd>(&config, rng, 900);
    });
}

#[test]
fn a_cut_leaves_a_prefix_that_has_the_last_sync() {
    cuts_leave_a_prefix::<Fd>(&config(20, 2), (0..500).step_by(4));
    cuts_leave_a_prefix::<Fd>(&config(7, 3), (1..300).step_by(9));
}

#[test]
fn with_a_journal_more_is_kept() {
    a_journal_keeps_every_operation::<Fd>(&config(12, 3), (3..400).step_by(7));
}

#[test]
fn damage_is_noticed() {
    a_flipped_bit_is_an_error_or_changes_nothing::<Fd>(&config(10, 2));
    forged_pages_never_panic::<Fd>(&config(10, 2));
}

#[test]
fn a_full_store_loses_nothing_and_takes_records_again_once_some_are_gone() {
    a_full_store_loses_nothing::<Fd>(&config(10, 3), 120, 100);
    a_full_store_loses_nothing::<Fd>(&config(60, 2), 400, 200);
}

#[test]
fn sorted_records_are_loaded() {
    loads::<Fd>(&config(10, 2));
    loads::<Fd>(&config(30, 9));
}

const WORDS: RecordFormat = RecordFormat::new(4, 4);

/// A tree of `records` records on pages of 512 bytes, which have 54 entries.
fn grown(config: FdConfig, records: u32) -> FdTree<Store> {
    let mut index = FdTree::format(Store::new(512, 20_000), &config).unwrap();
    let mut rng = Rng::new(5);
    for _ in 0..records {
        index.insert(&(rng.next_u64() as u32).to_be_bytes(), &[7; 4]).unwrap();
    }
    index
}

#[test]
fn a_search_reads_one_page_of_each_run_and_a_merge_costs_what_the_model_says() {
    for k in [4, 8, 16] {
        let mut config = FdConfig { head_entries: 500, k, ..FdConfig::new(WORDS) };
        config.common.answers = Answers::Pool;
        let records = 60_000;
        let mut index = grown(config, records);
        let (reads, writes) = accesses(&index);
        let levels = u64::from(index.stats().height) - 1;
        assert!(levels >= 2, "{levels}");
        // At most 2k / (f - k) pages read or written for a record in each level, of which it is behind all
        // but the last whole.
        let modelled = u64::from(records) * 2 * u64::from(k) * (model::levels(records.into(), 500, k) >> 8)
            / ((54 - u64::from(k)) << 8);
        let measured = reads + writes;
        assert!(
            measured < modelled * 5 / 4 && measured > modelled / 5,
            "k {k}: {measured} pages, {modelled} modelled"
        );
        let mut rng = Rng::new(5);
        let mut in_head = 0;
        for _ in 0..2_000 {
            let key = (rng.next_u64() as u32).to_be_bytes();
            in_head += u64::from(index.scheme().known(&key).is_some());
            assert!(index.get(&key, &mut [0; 4]).unwrap());
        }
        let searched = accesses(&index).0 - reads;
        assert!(searched <= (2_000 - in_head) * levels && searched > 1_500, "{searched} in {levels} levels");
        // A key that is nowhere is sought in every run.
        let before = accesses(&index).0;
        let absent =
            (0..1_000u32).filter(|n| !index.get(&n.to_be_bytes(), &mut [0; 4]).unwrap()).count() as u64;
        assert_eq!((absent, accesses(&index).0 - before), (1_000, 1_000 * levels));
    }
}

#[test]
fn a_larger_head_means_fewer_merges() {
    let writes = |head_entries| {
        let index = grown(FdConfig { head_entries, k: 8, ..FdConfig::new(WORDS) }, 20_000);
        index.scheme().counts.merge_page_writes
    };
    let (small, large) = (writes(100), writes(2_000));
    assert!(large * 2 < small, "{large} and {small}");
}

#[test]
fn what_cannot_work_is_refused() {
    let refused = |config, pages| {
        let Err(IndexError::Unsupported(why)) = FdTree::format(Store::new(128, pages), &config) else {
            panic!("{config:?} was taken");
        };
        assert!(why.len() > 20, "{why}");
    };
    refused(config(10, 2), 15);
    refused(config(10, 14), 2_000);
    refused(config(10, 1), 2_000);
    refused(FdConfig::new(RecordFormat::new(40, 4)), 2_000);
    let made = FdTree::format(Store::new(128, 200), &config(10, 3)).unwrap().into_store();
    for other in [config(10, 4), FdConfig::new(WORDS)] {
        let mounted = FdTree::mount(made.copy(), &other).err();
        assert!(matches!(mounted, Some(IndexError::NotFormatted(_))), "{mounted:?}");
    }
    let head = FdConfig { head_entries: FdConfig::head_entries_in(SMALL, 10_000), ..FdConfig::new(SMALL) };
    assert!(head.head_bytes() <= 10_000 && head.head_bytes() > 9_000);
}

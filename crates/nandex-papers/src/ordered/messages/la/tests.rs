//! The LA-tree against `BTreeMap`, ADAPT, cut power, counts, damaged pages, full stores.

use super::*;
use crate::ordered::messages::ground::tests::*;
use crate::ordered::tests::SMALL;
use nandex::ordered::OrderedIndex;
use nandex::ordered::RecordFormat;
use nandex::ordered::buffered::Answers;
use nandex::rng::Rng;
use nandex::testing::Store;

/// Settings for pages of 128 bytes, which have 22 records or 18 children.
fn config(subtree_levels: u32, buffer_pages: u32, fragment_records: u32) -> LaConfig {
    LaConfig { subtree_levels, buffer_pages, fragment_records, ..LaConfig::new(SMALL) }
}

#[test]
fn the_index_is_a_sorted_map() {
    crate::inputs::cases(120, |seed| {
        let rng = &mut Rng::new(seed);
        let mut config = config(1 + rng.below(3) as u32, 1 + rng.below(5) as u32, 1 + rng.below(199) as u32);
        config.common.answers = if rng.chance(1, 2) { Answers::Exact } else { Answers::Pool };
        is_a_sorted_map::<La>(&config, rng, 900);
    });
}

#[test]
fn a_cut_leaves_a_prefix_that_has_the_last_sync() {
    cuts_leave_a_prefix::<La>(&config(1, 2, 30), (0..500).step_by(4));
    cuts_leave_a_prefix::<La>(&config(2, 3, 60), (1..300).step_by(9));
}

#[test]
fn with_a_journal_more_is_kept() {
    a_journal_keeps_every_operation::<La>(&config(1, 2, 40), (3..400).step_by(7));
}

#[test]
fn damage_is_noticed() {
    let mut config = config(1, 3, 30);
    config.write_cost = 10_000;
    a_flipped_bit_is_an_error_or_changes_nothing::<La>(&config);
    forged_pages_never_panic::<La>(&config);
}

#[test]
fn a_full_store_loses_nothing_and_takes_records_again_once_some_are_gone() {
    a_full_store_loses_nothing::<La>(&config(1, 3, 30), 150, 60);
    a_full_store_loses_nothing::<La>(&config(2, 8, 60), 400, 100);
}

#[test]
fn sorted_records_are_loaded() {
    loads::<La>(&config(1, 4, 40));
    loads::<La>(&config(2, 4, 40));
}

const WORDS: RecordFormat = RecordFormat::new(4, 4);

fn grown(config: LaConfig, records: u32) -> LaTree<Store> {
    let mut index = LaTree::format(Store::new(512, 20_000), &config).unwrap();
    let mut rng = Rng::new(5);
    for _ in 0..records {
        index.insert(&(rng.next_u64() as u32).to_be_bytes(), &[7; 4]).unwrap();
    }
    index
}

#[test]
fn writes_alone_empty_full_buffers_and_look_ups_empty_what_they_scan() {
    let mut config = LaConfig::new(WORDS);
    config.common.answers = Answers::Pool;
    let mut index = grown(config, 40_000);
    assert_eq!(index.scheme().counts.adapted_empties, 0);
    assert!(index.scheme().counts.full_empties > 5 && index.scheme().buffers() > 4);
    // A page of the chain for each page of records, at each level of buffers, and a part of a leaf.
    let (_, writes) = accesses(&index);
    assert!(writes < 40_000 / 2, "{writes} writes for 40,000 insertions");
    let mut per_search = Vec::new();
    for _ in 0..4 {
        let before = accesses(&index).0;
        let mut rng = Rng::new(5);
        for _ in 0..3_000 {
            assert!(index.get(&(rng.next_u64() as u32).to_be_bytes(), &mut [0; 4]).unwrap());
        }
        per_search.push((accesses(&index).0 - before) / 3_000);
    }
    let height = u64::from(index.stats().height);
    assert!(index.scheme().counts.adapted_empties > 0);
    assert!(per_search[0] > per_search[3] && per_search[3] < height, "{per_search:?}");
}

#[test]
fn longer_buffers_save_writes() {
    let writes = |buffer_pages| {
        let mut config = LaConfig { buffer_pages, ..LaConfig::new(WORDS) };
        config.common.answers = Answers::Pool;
        accesses(&grown(config, 30_000)).1
    };
    let (short, long) = (writes(2), writes(32));
    assert!(long * 2 < short, "{long} and {short}");
}

#[test]
fn what_cannot_work_is_refused() {
    let refused = |config, pages| {
        let Err(IndexError::Unsupported(why)) = LaTree::format(Store::new(128, pages), &config) else {
            panic!("{config:?} was taken");
        };
        assert!(why.len() > 20, "{why}");
    };
    refused(config(1, 2, 30), 8);
    refused(LaConfig::new(RecordFormat::new(40, 4)), 2_000);
    let made = LaTree::format(Store::new(128, 200), &config(1, 2, 30)).unwrap().into_store();
    for other in [config(2, 2, 30), LaConfig::new(WORDS)] {
        let mounted = LaTree::mount(made.copy(), &other).err();
        assert!(matches!(mounted, Some(IndexError::NotFormatted(_))), "{mounted:?}");
    }
}

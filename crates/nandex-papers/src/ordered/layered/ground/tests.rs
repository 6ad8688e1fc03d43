//! The five layers against `BTreeMap`, cut power, costs in counts, RAM, damaged pages, full stores.

use super::super::{bftl, bof, flashdb, ibsf, rbftl, wobf};
use super::*;
use crate::inputs::{sized, stride};
use crate::ordered::journal::{Below, JournalConfig, Journaled};
use crate::ordered::tests::*;
use crate::unit_layer::Modes;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use nandex::ordered::buffered::Answers;
use nandex::rng::Rng;
use nandex::store::StoreError;
use nandex::testing::{Mix, Store};

/// Programs and reads cost the same here, so nodes often change their mode.
const EVEN: Tuning = Tuning { read_ns: 100, program_ns: 100, ..Tuning::SLC };

fn members(record: RecordFormat) -> [LayeredConfig; 9] {
    let bftl = bftl::config(record);
    let wobf = wobf::config(record);
    let flashdb = LayeredConfig { tuning: EVEN, ..flashdb::config(record) };
    [
        bftl,
        LayeredConfig { commit: CommitPolicy::FirstFitDecreasing, list_length: 2, ..bftl },
        wobf,
        LayeredConfig { commit: CommitPolicy::Sorted, ..wobf },
        ibsf::config(record),
        bof::config(record),
        rbftl::config(record),
        flashdb,
        LayeredConfig { tuning: Tuning { modes: Modes::Disk, ..EVEN }, ..flashdb },
    ]
}

/// Random settings for pages of 128 bytes, on which a sector has 5 units.
fn any_config(rng: &mut Rng) -> LayeredConfig {
    let units = [1 + rng.below(5), 1 + rng.below(59), 400][rng.below(3) as usize] as u32;
    let config = members(SMALL)[rng.below(9) as usize];
    let is_in_one = matches!(config.commit, CommitPolicy::SortedMerged | CommitPolicy::SelfTuning);
    let possible = if is_in_one { 4 } else { 8 };
    let order = rng.chance(1, 2).then(|| 3 + rng.below(6) as usize);
    let tree = order.map_or(config.tree, |order| config.tree.with_order(order.min(possible)));
    LayeredConfig { tree, reservation_units: units, ..config }
}

#[test]
fn the_index_is_a_sorted_map() {
    crate::inputs::cases(300, |seed| {
        let rng = &mut Rng::new(seed);
        let (config, frames) = (any_config(rng), rng.below(20) as usize);
        let store = Store::new(128, 1_200);
        let most = config.ram_bytes_max(&store).unwrap();
        let index = LayeredTree::format(store.with_cache(frames), &config).unwrap();
        let remount = |mut index: LayeredTree<Store>| {
            index.close().unwrap();
            LayeredTree::mount(index.into_store().with_cache(frames), &config).unwrap()
        };
        let (index, _) = live(index, &any_ops(rng), Answers::Exact, &remount, &mut |index, op| {
            assert!(*op != Op::Sync || index.layer().waiting_units() == 0);
            assert!(index.layer().waiting_units() <= config.reservation_units as usize);
        });
        let own = index.ram_bytes() - index.layer().store().ram_bytes();
        assert!(own <= most, "{own} of {most} bytes");
    });
}

#[test]
fn after_a_cut_every_key_is_as_synced_or_later() {
    for config in members(SMALL) {
        for writes in (4..400).step_by(3 * stride(11)) {
            let store = Store::new(128, 1_000);
            let mut index = LayeredTree::format(store.handle(), &config).unwrap();
            store.fail_after(writes);
            let history = work_until_the_cut(&mut index);
            let mut store = index.into_store().copy();
            match LayeredTree::mount(store.copy(), &config) {
                Ok(mut index) => assert_eq!(contents(&mut index).unwrap(), *history.synced()),
                Err(error) => assert_eq!(error, IndexError::NotCleanlyClosed),
            }
            for _ in 0..2 {
                let mut index = LayeredTree::mount_after_cut(store, &config).unwrap();
                let found = contents(&mut index).unwrap();
                history.assert_each_key(&found);
                assert_sound(&mut index, &found);
                index.insert(&key(500), &[1; 2]).unwrap();
                index.remove(&key(500)).unwrap();
                assert_sound(&mut index, &found);
                store = index.into_store();
            }
        }
    }
}

#[test]
fn a_commit_of_old_units_does_not_wait_for_the_journal() {
    type Index = Journaled<Store, LayeredTree<Below>>;
    let config = LayeredConfig { reservation_units: 60, ..rbftl::config(SMALL) };
    let journal = JournalConfig::new(Durability::EverySync);
    let mut index = Index::format(Store::new(128, 4_000), &(config, journal)).unwrap();
    let mut rng = Rng::new(7);
    for _ in 0..6_000 {
        index.insert(&key(rng.below(60_000) as u16), &key(1)).unwrap();
    }
    let metrics = index.stats().metrics;
    let of = |name| metrics.iter().find(|metric| metric.name == name).unwrap().value;
    // Every other change goes into another leaf: a commit takes the oldest unit, and its record is long
    // written.
    assert!(of("commits") > 3_000, "{metrics:?}");
    assert!(of("journal_forced_writes") < of("commits") / 4, "{metrics:?}");
}

#[test]
fn with_a_journal_a_cut_leaves_a_prefix_that_has_the_last_sync() {
    type Index = Journaled<Store, LayeredTree<Below>>;
    for config in members(SMALL) {
        for (durability, writes) in [Durability::EveryOperation, Durability::EverySync]
            .into_iter()
            .flat_map(|class| (3..250).step_by(7 * stride(2)).map(move |writes| (class, writes)))
        {
            let journal = JournalConfig::new(durability);
            let store = Store::new(128, 1_000);
            let config = LayeredConfig { reservation_units: 12, ..config };
            let index = Index::format(store, &(config, journal)).unwrap();
            let store = index.into_store().failing_after(writes);
            let mut index = Index::mount(store, &(config, journal)).unwrap();
            assert_eq!(index.durability(), durability);
            let mut history = History::new(Model::new());
            history.work(&mut index, &mut Rng::new(writes), Mix::updates(120, [24, 15], 1));
            let store = index.into_store().copy();
            let mut index = Index::mount(store, &(config, journal)).unwrap();
            let found = contents(&mut index).unwrap();
            let least = if durability == Durability::EveryOperation { history.acknowledged() } else { 0 };
            assert!(history.had(&found, least), "{:?} after {writes} writes", config.commit);
            assert_sound(&mut index, &found);
        }
    }
}

fn number(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

const WORDS: RecordFormat = RecordFormat::new(4, 4);

/// A tree of `records` records inserted in random order on pages of 2 KiB, and its keys.
fn grown(config: LayeredConfig, records: usize) -> (LayeredTree<Store>, Vec<[u8; 4]>) {
    let mut index = LayeredTree::format(Store::new(2048, 2_000), &config).unwrap();
    let (mut rng, mut keys) = (Rng::new(5), Vec::new());
    while keys.len() < records {
        let key = number(rng.next_u64() as u32);
        if !index.insert(&key, &[7; 4]).unwrap() {
            keys.push(key);
        }
    }
    (index, keys)
}

fn accesses(index: &LayeredTree<Store>) -> (u64, u64) {
    let counters = index.layer().store().counters();
    (counters.page_reads.iter().sum(), counters.page_writes.iter().sum())
}

#[test]
fn bftl_reads_up_to_c_sectors_for_each_node_and_packs_the_units_of_a_commit() {
    for list_length in [2, 4, 6].into_iter().step_by(stride(2)) {
        let config = LayeredConfig { list_length, ..bftl::config(WORDS) };
        let (mut index, keys) = grown(config, 20_000);
        index.sync().unwrap();
        let height = u64::from(index.stats().height);
        let before = accesses(&index).0;
        for key in &keys {
            assert!(index.get(key, &mut [0; 4]).unwrap());
        }
        let reads = accesses(&index).0 - before;
        let gets = keys.len() as u64;
        assert!(reads <= gets * height * u64::from(list_length), "{reads}");
        assert!(reads > gets * height * 3 / 2, "{reads} reads: lists are longer than one");
        let counts = index.layer().counts();
        // Up to 60 units of 20 bytes go to one sector of 101; those of a split, some 256, to three.
        assert!(counts.committed_units > 50 * counts.commit_pages, "{counts:?}");
        assert!(counts.commit_pages < 2 * counts.commits, "{counts:?}");
        assert!(counts.compactions > 0);
    }
}

#[test]
fn a_commit_of_sixty_records_is_one_page_and_a_longer_list_means_fewer_compactions() {
    let mut pages = Vec::new();
    for list_length in [3, 4, 8] {
        let config = LayeredConfig { list_length, ..bftl::config(WORDS) };
        let (mut index, _) = grown(config, sized(8_000, 20_000));
        index.sync().unwrap();
        let (before, was) = (accesses(&index).1, index.layer().counts());
        let mut rng = Rng::new(8);
        let mut changed = BTreeSet::new();
        while index.layer().counts().commits < was.commits + 1 {
            let key = rng.next_u64() as u32;
            changed.insert(key);
            index.insert(&number(key), &[1; 4]).unwrap();
        }
        let now = index.layer().counts();
        assert!(now.commit_pages - was.commit_pages <= 3);
        // One superblock, that the tree is not clean any more.
        let compacted = now.compaction_pages - was.compaction_pages;
        assert_eq!(accesses(&index).1 - before, 1 + now.commit_pages - was.commit_pages + compacted);
        pages.push(index.layer().counts().compaction_pages);
    }
    assert!(pages[0] > pages[1] && pages[1] > pages[2], "{pages:?}");
}

#[test]
fn ibsf_reads_one_page_per_level_and_commits_one_page() {
    for config in [ibsf::config(WORDS), bof::config(WORDS)] {
        let (mut index, keys) = grown(config, 20_000);
        let height = u64::from(index.stats().height);
        let before = accesses(&index).0;
        for key in &keys {
            assert!(index.get(key, &mut [0; 4]).unwrap());
        }
        assert_eq!(accesses(&index).0 - before, keys.len() as u64 * height);
        let counts = index.layer().counts();
        assert_eq!(counts.commit_pages, counts.commits);
        assert!(counts.committed_units > counts.commits);
    }
}

#[test]
fn elimination_puts_commits_off() {
    let writes = |config: LayeredConfig| {
        let (mut index, keys) = grown(config, 5_000);
        index.sync().unwrap();
        let before = accesses(&index).1;
        for round in 0..100u8 {
            for key in &keys[..50] {
                index.insert(key, &[round; 4]).unwrap();
            }
        }
        (accesses(&index).1 - before, index.layer().eliminated_units())
    };
    let ((ibsf, eliminated), (bof, none)) = (writes(ibsf::config(WORDS)), writes(bof::config(WORDS)));
    assert!(eliminated >= 4_900 && none == 0);
    // Every update of IBSF but the first fifty meets one that waits.
    assert!(ibsf <= 2 && bof > 1_000, "{ibsf} and {bof} writes");
}

#[test]
fn wobf_keeps_each_node_in_two_sectors_at_most() {
    let (mut index, keys) = grown(wobf::config(WORDS), 20_000);
    index.sync().unwrap();
    let height = u64::from(index.stats().height);
    let before = accesses(&index).0;
    for key in &keys {
        assert!(index.get(key, &mut [0; 4]).unwrap());
    }
    let reads = accesses(&index).0 - before;
    assert!(reads < keys.len() as u64 * height * 2 && reads > keys.len() as u64 * height, "{reads}");
    let nodes = index.check().unwrap().nodes;
    assert!((1..=nodes as u32 + 1).all(|node| index.layer().list_length(Lpn(node)) <= 2));
    assert_eq!(index.tree_config().leaf_capacity, Some(100), "a sector has 101 units, one is the reset");
}

#[test]
fn a_small_split_is_units_that_move_half_of_a_leaf() {
    // Leaves of 4: the fifth record moves two of them.
    let config = bftl::config(SMALL);
    let config = LayeredConfig { tree: config.tree.with_order(4), ..config };
    let mut index = LayeredTree::format(Store::new(128, 2_000), &config).unwrap();
    for n in 1..=4 {
        index.insert(&key(n), &[0; 2]).unwrap();
    }
    index.sync().unwrap();
    assert_eq!(index.layer().counts().committed_units, 5, "the root's reset and four insertions");
    index.insert(&key(5), &[0; 2]).unwrap();
    // The root becomes a parent: a reset and two children. Its halves: two resets, three entries and two.
    assert_eq!(index.layer().waiting_units(), 3 + 4 + 3);
    for n in 6..=7 {
        index.insert(&key(n), &[0; 2]).unwrap();
    }
    // The right half, 4 5 6 7, is full: 8 splits it. One leaves it, the new leaf has a reset and two, the
    // parent one.
    assert_eq!(index.layer().waiting_units(), 12);
    index.insert(&key(8), &[0; 2]).unwrap();
    assert_eq!(index.layer().waiting_units(), 12 + 1 + 3 + 1);
}

#[test]
fn a_flipped_bit_is_an_error_or_changes_nothing() {
    for config in members(SMALL) {
        let (mut index, mut rng) = (LayeredTree::format(Store::new(128, 600), &config).unwrap(), Rng::new(1));
        let model = put_some(&mut index, &mut rng);
        let store = index.into_store();
        let mount = |store| LayeredTree::mount(store, &config).and_then(|mut index| contents(&mut index));
        let (refused, right) = flip_bits((&store, 200), (&model, &mut rng), mount);
        assert!(refused > 80 && refused + right > 100, "{refused} and {right}: {:?}", config.commit);
    }
}

#[test]
fn a_full_store_loses_nothing_and_takes_records_again_once_some_are_gone() {
    for config in members(SMALL) {
        let config = LayeredConfig { reservation_units: 20, ..config };
        fill_and_drain(&mut LayeredTree::format(Store::new(128, 250), &config).unwrap(), false);
    }
}

#[test]
fn what_cannot_work_is_refused() {
    let refused = |config: LayeredConfig, pages| {
        let Err(IndexError::Unsupported(why)) = LayeredTree::format(Store::new(128, pages), &config) else {
            panic!("{config:?} was taken");
        };
        assert!(why.len() > 20, "{why}");
    };
    let bftl = bftl::config(SMALL);
    refused(bftl, 20);
    refused(LayeredConfig { reservation_units: 0, ..bftl }, 2_000);
    refused(LayeredConfig { tree: bftl.tree.with_order(17), ..bftl }, 2_000);
    refused(LayeredConfig { tree: wobf::config(SMALL).tree.with_order(5), ..wobf::config(SMALL) }, 2_000);
    refused(LayeredConfig { tree: BPlusConfig::new(SMALL), ..bftl }, 2_000);
    let mut store = Store::new(128, 2_000);
    LayeredTree::format(&mut store, &bftl).unwrap();
    for other in
        [LayeredConfig { list_length: 3, ..bftl }, ibsf::config(SMALL), bftl::config(RecordFormat::new(4, 2))]
    {
        let mounted = LayeredTree::mount(&mut store, &other).err();
        assert!(matches!(mounted, Some(IndexError::NotFormatted(_))), "{mounted:?}");
    }
    let error: IndexError = StoreError::Full.into();
    assert_eq!(error, IndexError::NO_BLOCK);
}

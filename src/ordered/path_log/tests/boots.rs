//! Boots: a mount trusts the valid bits of a closed tree and of no other, and reads few pages of blank
//! blocks.

use crate::blocks::Validity;
use crate::log::collect::settle_valid_bits;
use crate::nand::Nand;
use crate::nand::catalogue::mlc_64m;
use crate::nand::sim::SimChip;
use crate::ordered::mu::{MuTree, OneLayout, PathPages};
use crate::ordered::path_log::ground::{RawScheme, RawTree};
use crate::ordered::vm::{MappedPages, VmConfig, VmTree};
use crate::ordered::wandering::OneNodePages;
use crate::ordered::{OrderedIndex, RawConfig, RecordFormat};
use crate::rng::split_mix;
use crate::{Geometry, Shared};

const RECORD: RecordFormat = RecordFormat::new(4, 4);

fn chip(pages_per_block: u32, blocks: u32) -> SimChip {
    let mut part = mlc_64m();
    part.geometry = Geometry::new(512, 64, pages_per_block, blocks);
    SimChip::new(&part).unwrap()
}

fn put(tree: &mut impl OrderedIndex, number: u64) {
    let key = (split_mix(number % 3000) as u32).to_be_bytes();
    tree.insert(&key, &(number as u32).to_be_bytes()).unwrap();
}

/// Closes a tree if the flag is set, else cuts the power, and mounts it.
fn boot<S: RawScheme>(
    mut tree: RawTree<SimChip, S>,
    config: &RawConfig<S::Config>,
    closes: bool,
) -> RawTree<SimChip, S> {
    if closes {
        tree.close().unwrap();
    }
    let mut tree = RawTree::mount(tree.into_nand(), config).unwrap();
    let report = tree.check().unwrap();
    assert!(report.violations.is_empty(), "{report:?}");
    tree
}

/// True if a tree trusts its valid bits: then exactly the pages that it leads to are valid.
fn trusts<N: Nand, S: RawScheme>(tree: &RawTree<N, S>) -> bool {
    !tree.log().tape.has_bits_in_doubt()
}

fn trust_of<S: RawScheme>(config: &RawConfig<S::Config>) {
    let mut tree = RawTree::<_, S>::format(chip(16, 64), config).unwrap();
    for number in 0..4000 {
        put(&mut tree, number);
        if number % 400 < 399 {
            continue;
        }
        // From nothing but a few operations since the last close to whole blocks.
        for since in [0, 1, 5, 60] {
            tree = boot(tree, config, true);
            assert!(trusts(&tree), "{number}: nothing was written since the close");
            tree = boot(tree, config, false);
            assert!(trusts(&tree), "{number}: nothing was written since the mount");
            (0..since).for_each(|more| put(&mut tree, number + more));
            tree = boot(tree, config, false);
            assert_eq!(trusts(&tree), since == 0, "{number}: {since} operations were cut off");
            tree = boot(tree, config, true);
            assert_eq!(trusts(&tree), since == 0, "{number}: a close settles nothing");
            settle_valid_bits(&mut tree).unwrap();
            assert!(trusts(&tree), "{number}: the tree told which pages are valid");
        }
    }
}

#[test]
fn valid_bits_are_trusted_after_a_close_and_not_after_a_cut() {
    trust_of::<PathPages<OneLayout>>(&RawConfig::new(RECORD));
    trust_of::<OneNodePages>(&RawConfig::new(RECORD));
    trust_of::<MappedPages>(&RawConfig::new(RECORD));
    if Validity::Counts.is_built() {
        trust_of::<PathPages<OneLayout>>(&RawConfig {
            validity: Some(Validity::Counts),
            ..RawConfig::new(RECORD)
        });
    }
}

/// Requires that mounts between any two of some operations read at most two pages of each block, and the
/// pages since a checkpoint.
fn few_reads<T: OrderedIndex>(make: impl Fn(Shared<SimChip>, bool) -> T) {
    let (pages, blocks) = (16, 256);
    let shared = Shared::new(chip(pages, blocks));
    let mut tree = make(shared.clone(), true);
    let since = 17 * u64::from(pages);
    let checkpoint = 40;
    for number in 0..600 {
        put(&mut tree, number);
        if number % 8 > 0 && number < 540 {
            continue;
        }
        let left = Shared::new(shared.lock().clone());
        for what in ["a cut", "a mount"] {
            let before = left.lock().counters().page_reads_total();
            drop(make(left.clone(), false));
            let reads = left.lock().counters().page_reads_total() - before;
            assert!(reads <= 2 * u64::from(blocks) + since + checkpoint, "{number}: {reads} after {what}");
        }
        make(left.clone(), false).close().unwrap();
        let before = left.lock().counters().page_reads_total();
        drop(make(left.clone(), false));
        let reads = left.lock().counters().page_reads_total() - before;
        assert!(reads <= checkpoint, "{number}: {reads} after a close");
    }
}

#[test]
fn a_mount_reads_two_pages_of_a_blank_block() {
    few_reads(|chip, is_new| {
        let config = VmConfig::new(RECORD);
        if is_new { VmTree::format(chip, &config) } else { VmTree::mount(chip, &config) }.unwrap()
    });
    few_reads(|chip, is_new| {
        let config = RawConfig::new(RECORD);
        if is_new { MuTree::format(chip, &config) } else { MuTree::mount(chip, &config) }.unwrap()
    });
}

//! The tree by the paper's figures and equations, and against `BTreeMap` whatever happens to the chip.

mod figures;
mod survival;

use super::{FullNodes, WpcbConfig, WpcbTree};
use crate::ftl::fast::{FastConfig, FastFtl};
use crate::ftl::tbm::TbmConfig;
use alloc::vec::Vec;
use nandex::cache::Lru;
use nandex::check::IndexError;
use nandex::ftl::mapping::FlashConfig;
use nandex::ftl::page_map::{FtlConfig, PageMapFtl};
use nandex::nand::sim::{CutWhen, Faults, PowerCut, SimChip, TornModel};
use nandex::nand::{BlockRange, Cause, Geometry, Nand, NandError, Part, Timing};
use nandex::ordered::bplus::{BPlusConfig, Overflow};
use nandex::ordered::{Durability, OrderedIndex, RecordFormat};
use nandex::rng::Rng;
use nandex::store::PageStore;
use nandex::store::StoreError;
use nandex::testing::{Chip, Model, Store, assert_holds, contents, get};
use nandex::units::{Pbn, Ppn};

type Range = BlockRange<Chip>;

const RECORD: RecordFormat = RecordFormat::new(2, 2);
const PAPER_CHIP: Geometry = Geometry::new(2048, 64, 64, 1024);

fn new_chip(geometry: Geometry) -> Chip {
    let timing =
        Timing { read_ns: 60_000, program_ns: 800_000, erase_ns: 1_500_000, transfer_ps_per_byte: 25_000 };
    Chip::new(SimChip::new(&Part::new("test", geometry, timing)).unwrap())
}

/// Settings with nodes of at most `order` entries.
fn config(order: usize, tbm_blocks: u32) -> WpcbConfig {
    let config = WpcbConfig::new(RECORD).with_tbm_blocks(tbm_blocks);
    WpcbConfig {
        tree: BPlusConfig {
            leaf_capacity: Some(order),
            internal_capacity: Some(order.max(3)),
            ..config.tree
        },
        ..config
    }
}

trait Below: PageStore + Sized {
    fn new(range: Range) -> Self;
    fn again(range: Range) -> Result<Self, StoreError>;
}

impl Below for FastFtl<Range> {
    fn new(range: Range) -> Self {
        FastFtl::format(range, &FastConfig { log_blocks: Some(4), ..FastConfig::default() }).unwrap()
    }
    fn again(range: Range) -> Result<Self, StoreError> {
        FastFtl::mount(range, &FastConfig::default())
    }
}

impl Below for PageMapFtl<Range> {
    fn new(range: Range) -> Self {
        PageMapFtl::format(range, &FtlConfig::default()).unwrap()
    }
    fn again(range: Range) -> Result<Self, StoreError> {
        PageMapFtl::mount(range, &FtlConfig::default())
    }
}

#[derive(Clone)]
struct Bench {
    chip: Chip,
    config: WpcbConfig,
}

impl Bench {
    fn new(geometry: Geometry, config: WpcbConfig) -> Bench {
        Bench { chip: new_chip(geometry), config }
    }

    fn ranges(&self) -> [Range; 2] {
        let blocks = self.chip.geometry().blocks;
        let first = blocks - self.config.tbm_range_blocks();
        [
            BlockRange::new(self.chip.clone(), Pbn(0), first),
            BlockRange::new(self.chip.clone(), Pbn(first), blocks - first),
        ]
    }

    fn format<S: Below>(&self) -> WpcbTree<S, Chip> {
        let [low, high] = self.ranges();
        WpcbTree::format(S::new(low), high, &self.config).unwrap()
    }

    fn mount<S: Below>(&self) -> Result<WpcbTree<S, Chip>, IndexError> {
        let [low, high] = self.ranges();
        WpcbTree::mount(S::again(low)?, high, &self.config)
    }
}

fn record(key: u16) -> (Vec<u8>, Vec<u8>) {
    (key.to_be_bytes().to_vec(), (!key).to_be_bytes().to_vec())
}

fn insert(tree: &mut dyn OrderedIndex, key: u16) {
    tree.insert(&key.to_be_bytes(), &(!key).to_be_bytes()).unwrap();
}

fn remove(tree: &mut dyn OrderedIndex, key: u16) -> bool {
    tree.remove(&key.to_be_bytes()).unwrap()
}

fn metric(tree: &dyn OrderedIndex, name: &str) -> u64 {
    let stats = tree.stats();
    stats.metrics.iter().find(|metric| metric.name == name).unwrap_or_else(|| panic!("no {name}")).value
}

/// Makes one random operation on the tree and on the model, on the model even if the tree fails. There are
/// runs of ascending keys, and waves of insertions and removals.
fn step(
    tree: &mut dyn OrderedIndex,
    model: &mut Model,
    rng: &mut Rng,
    (round, keys): (usize, u64),
) -> Result<(), IndexError> {
    let number = |key: &Vec<u8>| u16::from_be_bytes([key[0], key[1]]);
    let key = match rng.below(4) {
        0 => model.last_key_value().map_or(0, |(key, _)| (number(key) + 1) % keys as u16),
        _ => rng.below(keys) as u16,
    };
    let (key, value) = (key.to_be_bytes(), (rng.next_u64() as u16).to_be_bytes());
    let grows = if (round / 60).is_multiple_of(2) { 13 } else { 4 };
    match rng.below(16) {
        15 => tree.sync(),
        14 => {
            assert_eq!(get(tree, &key)?.as_ref(), model.get(&key[..]));
            Ok(())
        }
        n if n < grows => {
            model.insert(key.to_vec(), value.to_vec());
            tree.insert(&key, &value).map(drop)
        }
        _ => {
            // A key that is there, as a rule.
            let key = model.range(key.to_vec()..).next().map_or(key.to_vec(), |(key, _)| key.clone());
            model.remove(&key);
            tree.remove(&key).map(drop)
        }
    }
}

fn is_a_sorted_map<S: Below>() {
    let benches = [
        Bench::new(Geometry::new(64, 32, 4, 110), config(4, 17)),
        Bench::new(
            Geometry::new(64, 32, 4, 110),
            WpcbConfig { full_nodes: FullNodes::Direct, ..config(3, 17) },
        ),
        // Pages of 128 bytes: two copies of the list of FAST's checkpoint blocks do not fit into two pages of
        // 64.
        Bench::new(Geometry::new(128, 27, 2, 170), config(3, 22)),
        Bench::new(Geometry::new(128, 32, 8, 70), config(6, 15)),
        Bench::new(Geometry::new(512, 64, 16, 60), WpcbConfig::new(RECORD).with_tbm_blocks(11)),
    ];
    let mut seen = [0; 4];
    for (seed, bench) in (1..).zip(benches) {
        let keys = if bench.config.tree.leaf_capacity.is_some() { 300 } else { 6_000 };
        let mut rng = Rng::new(seed);
        let (mut tree, mut model) = (bench.format::<S>(), Model::new());
        assert_eq!(tree.durability(), Durability::EveryOperation);
        for round in 0..3_000 {
            step(&mut tree, &mut model, &mut rng, (round, keys)).unwrap();
            if round % 250 == 249 {
                assert_holds(&mut tree, &model);
                for (sum, name) in seen.iter_mut().zip(["splits", "overflows", "expelled", "conversions"]) {
                    *sum += metric(&tree, name);
                }
                if rng.chance(1, 2) {
                    tree.close().unwrap();
                }
                drop(tree);
                tree = bench.mount().unwrap();
                assert_holds(&mut tree, &model);
            }
        }
    }
    assert!(seen.iter().all(|&count| count > 20), "{seen:?}");
}

#[test]
fn it_is_a_sorted_map_over_fast() {
    is_a_sorted_map::<FastFtl<Range>>();
}

#[test]
fn it_is_a_sorted_map_over_a_page_map() {
    is_a_sorted_map::<PageMapFtl<Range>>();
}

#[test]
fn sorted_records_are_loaded_page_by_page() {
    let bench = Bench::new(Geometry::new(64, 32, 4, 110), config(4, 17));
    let (mut tree, mut model) = (bench.format::<FastFtl<Range>>(), Model::new());
    model.extend((0..200).map(|n| record(n * 3)));
    let mut records = model.iter().map(|(key, value)| (&key[..], &value[..]));
    assert_eq!(tree.load(&mut records), Ok(200));
    drop(tree);
    let mut tree = bench.mount::<FastFtl<Range>>().unwrap();
    assert_holds(&mut tree, &model);
    let mut rng = Rng::new(5);
    (0..300).for_each(|round| step(&mut tree, &mut model, &mut rng, (round, 600)).unwrap());
    assert_holds(&mut tree, &model);
}

#[test]
fn buffer_blocks_suit_the_chip() {
    let of = |blocks| {
        let mut tree = BPlusConfig::new(RECORD);
        tree.overflow = Overflow::KeepContiguous;
        WpcbConfig::on_chip(tree, Geometry { blocks, ..PAPER_CHIP }).unwrap()
    };
    assert_eq!(of(PAPER_CHIP.blocks), WpcbConfig::new(RECORD));
    assert_eq!(WpcbConfig::new(RECORD).tbm, TbmConfig::default());
    assert_eq!([512, 40].map(|blocks| of(blocks).tbm_range_blocks()), [64 + 4, 7 + 2]);
}

#[test]
fn a_cache_spares_reads_and_holds_no_write_back() {
    let bench = Bench::new(Geometry::new(256, 32, 8, 96), config(12, 20));
    let [low, high] = bench.ranges();
    let (policy, frames) = (Lru::new(30), 30);
    let store = <PageMapFtl<Range> as Below>::new(low);
    let mut tree = WpcbTree::format_cached(store, high, &bench.config, (policy, frames)).unwrap();
    let (mut model, mut rng) = (Model::new(), Rng::new(3));
    (0..2000).for_each(|round| step(&mut tree, &mut model, &mut rng, (round, 300)).unwrap());
    let stats = tree.stats();
    assert!(stats.cache_hits > 3 * stats.cache_misses, "{stats:?}");
    assert_holds(&mut tree, &model);
    let most = bench.config.ram_bytes_max(tree.tbm().store(), tree.tbm().range().geometry()).unwrap();
    let cache = frames * (256 + 64);
    assert!(tree.ram_bytes() <= most + tree.tbm().store().ram_bytes() + cache, "{}", tree.ram_bytes());
    assert_eq!(tree.durability(), Durability::EveryOperation);
    drop(tree);
    assert_holds(&mut bench.mount::<PageMapFtl<Range>>().unwrap(), &model);
}

#[test]
fn what_cannot_work_is_refused_with_the_reason() {
    let too_few = Bench::new(Geometry::new(64, 32, 4, 110), config(4, 3));
    let [low, high] = too_few.ranges();
    let refused = WpcbTree::format(<FastFtl<Range> as Below>::new(low), high, &too_few.config);
    match refused.map(drop) {
        Err(IndexError::Unsupported(what)) => assert!(what.contains("takes 3 atomically"), "{what}"),
        other => panic!("{other:?}"),
    }
    let bench = Bench::new(Geometry::new(64, 32, 4, 110), config(4, 17));
    drop(bench.format::<FastFtl<Range>>());
    let other = Bench { config: config(5, 17), ..bench.clone() };
    assert!(matches!(other.mount::<FastFtl<Range>>(), Err(IndexError::NotFormatted(_))));
    let mut other = bench.clone();
    other.config.tree.overflow = Overflow::Split;
    assert!(matches!(other.mount::<FastFtl<Range>>(), Err(IndexError::NotFormatted(_))));
}

//! The B+-tree over the page-mapping FTL on the simulated chip, with the power cut before, inside and after
//! every physical operation of a run that splits, merges, collects garbage and writes checkpoints.
#![allow(clippy::unwrap_used)]

use nandex::Shared;
use nandex::ftl::page_map::{FtlSettings, PageMapFtl};
use nandex::nand::sim::{CutWhen, PowerCut, SimChip, TornModel};
use nandex::nand::{Geometry, Part, Timing};
use nandex::ordered::bplus::{BPlusConfig, BPlusTree, Fill};
use nandex::ordered::{Direction, Durability, OrderedIndex, RecordFormat};
use nandex::rng::Rng;
use nandex::{IndexError, NandError, StoreError};
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

type Model = BTreeMap<u16, u16>;
type Chip = Shared<SimChip>;
type Tree = BPlusTree<PageMapFtl<Chip>>;

const OPERATIONS: usize = 500;
const KEYS: u64 = 240;

fn new_chip() -> Chip {
    let timing =
        Timing { read_ns: 60_000, program_ns: 800_000, erase_ns: 1_500_000, transfer_ps_per_byte: 25_000 };
    Shared::new(SimChip::new(&Part::new("test", Geometry::new(64, 16, 4, 64), timing)).unwrap())
}

fn settings() -> FtlSettings {
    FtlSettings { atomic_pages: 16, checkpoint_blocks: Some(20), ..FtlSettings::default() }
}

/// A tree that takes most of the chip, so that garbage collection has live pages to move.
fn format(chip: &Chip) -> (Tree, Model) {
    let store = PageMapFtl::format(chip.clone(), settings()).unwrap();
    let mut tree = BPlusTree::format(store, BPlusConfig::new(RecordFormat::new(2, 2)).with_order(4)).unwrap();
    let model: Model = (0..KEYS as u16).step_by(2).map(|key| (key, !key)).collect();
    let records = model.iter().map(|(key, value)| (key.to_be_bytes(), value.to_be_bytes()));
    tree.bulk_load(records, Fill::percent(50).unwrap()).unwrap();
    (tree, model)
}

fn mount(chip: &Chip) -> Result<Tree, IndexError> {
    BPlusTree::mount(PageMapFtl::mount(chip.clone(), settings())?)
}

fn contents(tree: &mut Tree) -> Model {
    let (mut found, number) = (Model::new(), |bytes: &[u8]| u16::from_be_bytes([bytes[0], bytes[1]]));
    tree.range(Bound::Unbounded, Bound::Unbounded, Direction::Ascending, &mut |key, value| {
        found.insert(number(key), number(value));
        ControlFlow::Continue(())
    })
    .unwrap();
    let report = tree.check().unwrap();
    assert!(report.is_sound(), "{:?}", report.violations);
    found
}

/// One random operation, on the model too, whether or not it succeeds on the tree.
fn step(tree: &mut Tree, model: &mut Model, rng: &mut Rng, round: usize) -> Result<(), IndexError> {
    let (key, value) = (rng.below(KEYS) as u16, rng.next_u64() as u16);
    let grows = if (round / 40).is_multiple_of(2) { 9 } else { 3 };
    match rng.below(10) {
        9 => tree.sync(),
        n if n < grows => {
            model.insert(key, value);
            tree.insert(&key.to_be_bytes(), &value.to_be_bytes()).map(drop)
        }
        _ => {
            model.remove(&key);
            tree.remove(&key.to_be_bytes()).map(drop)
        }
    }
}

/// Runs until the power is cut, mounts again, and goes on for a while.
fn survive(cut: PowerCut) {
    let chip = new_chip();
    let (mut tree, mut model) = format(&chip);
    chip.lock().plan_power_cut(cut);
    let mut rng = Rng::new(1);
    for round in 0..OPERATIONS {
        let acknowledged = model.clone();
        let Err(error) = step(&mut tree, &mut model, &mut rng, round) else { continue };
        assert_eq!(error, IndexError::Store(StoreError::Nand(NandError::PowerLost)));
        chip.lock().power_on();
        tree = mount(&chip).unwrap_or_else(|error| panic!("{error} after {cut:?}"));
        let found = contents(&mut tree);
        assert!(found == acknowledged || found == model, "{cut:?}: neither before nor after the operation");
        model = found;
        for round in 0..20 {
            step(&mut tree, &mut model, &mut rng, round).unwrap();
        }
        assert_eq!(contents(&mut tree), model);
        return;
    }
    panic!("{cut:?} never struck");
}

#[test]
fn nothing_acknowledged_is_lost_at_any_cut() {
    let chip = new_chip();
    let (mut tree, mut model) = format(&chip);
    assert_eq!(tree.durability(), Durability::EveryOperation);
    let first = chip.lock().operations();
    let mut rng = Rng::new(1);
    for round in 0..OPERATIONS {
        step(&mut tree, &mut model, &mut rng, round).unwrap();
    }
    assert_eq!(contents(&mut tree), model);
    let metric = |name| tree.stats().metrics.iter().find(|metric| metric.name == name).unwrap().value;
    assert!(metric("splits") > 5 && metric("merges") > 5 && tree.store().counters().moved_pages > 50);
    for at_operation in first..chip.lock().operations() {
        let cut = |when, torn| survive(PowerCut { at_operation, when, torn, seed: at_operation });
        cut(CutWhen::Before, TornModel::Prefix);
        TornModel::ALL.into_iter().for_each(|torn| cut(CutWhen::Inside, torn));
        cut(CutWhen::After, TornModel::Prefix);
    }
}

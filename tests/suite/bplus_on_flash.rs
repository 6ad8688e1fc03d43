//! The B+-tree over the page-mapping FTL on the simulated chip, with the power cut before, inside and after
//! every physical operation of a run that splits, merges, collects garbage and writes checkpoints.
#![allow(clippy::unwrap_used)]

use nandex::Shared;
use nandex::ftl::page_map::{FtlSettings, PageMapFtl};
use nandex::nand::sim::{CutWhen, PowerCut, SimChip, TornModel};
use nandex::nand::{Geometry, Part, Timing};
use nandex::ordered::bplus::{BPlusConfig, BPlusTree, Fill};
use nandex::ordered::buffered::Answers;
use nandex::ordered::{Durability, OrderedIndex, RecordFormat};
use nandex::rng::Rng;
use nandex::testing::{History, Mix, Model, Op, apply, assert_holds, contents};
use nandex::{IndexError, NandError, StoreError};

type Chip = Shared<SimChip>;
type Tree = BPlusTree<PageMapFtl<Chip>>;

const RECORD: RecordFormat = RecordFormat::new(2, 2);
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
    let mut tree = BPlusTree::format(store, BPlusConfig::new(RECORD).with_order(4)).unwrap();
    let record = |key: u16| (key.to_be_bytes().to_vec(), (!key).to_be_bytes().to_vec());
    let model: Model = (0..KEYS as u16).step_by(2).map(record).collect();
    tree.bulk_load(&model, Fill::percent(50).unwrap()).unwrap();
    (tree, model)
}

fn mount(chip: &Chip) -> Result<Tree, IndexError> {
    BPlusTree::mount(PageMapFtl::mount(chip.clone(), settings())?)
}

/// The operation of a round: waves of insertion and removal.
fn draw(rng: &mut Rng, round: usize) -> Op {
    let updates = if (round / 40).is_multiple_of(2) { [9, 0] } else { [3, 6] };
    Mix::updates(KEYS, updates, 1).draw(rng, RECORD)
}

/// Runs until the power is cut, mounts again, and goes on for a while.
fn survive(cut: PowerCut) {
    let chip = new_chip();
    let (mut tree, model) = format(&chip);
    chip.lock().plan_power_cut(cut);
    let (mut history, mut rng) = (History::new(model), Rng::new(1));
    for round in 0..OPERATIONS {
        let Err(error) = history.apply(&mut tree, &draw(&mut rng, round)) else { continue };
        assert_eq!(error, IndexError::Store(StoreError::Nand(NandError::PowerLost)));
        chip.lock().power_on();
        tree = mount(&chip).unwrap_or_else(|error| panic!("{error} after {cut:?}"));
        let mut model = contents(&mut tree).unwrap();
        let is_known = history.had(&model, history.acknowledged());
        assert!(is_known, "{cut:?}: neither before nor after the operation");
        assert_holds(&mut tree, &model);
        for round in 0..20 {
            apply(&mut tree, &mut model, &draw(&mut rng, round), Answers::Exact);
        }
        assert_holds(&mut tree, &model);
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
        apply(&mut tree, &mut model, &draw(&mut rng, round), Answers::Exact);
    }
    let last = chip.lock().operations();
    assert_holds(&mut tree, &model);
    let metric = |name| tree.stats().metrics.iter().find(|metric| metric.name == name).unwrap().value;
    assert!(metric("splits") > 5 && metric("merges") > 5 && tree.store().counters().moved_pages > 50);
    for at_operation in first..last {
        let cut = |when, torn| survive(PowerCut { at_operation, when, torn, seed: at_operation });
        cut(CutWhen::Before, TornModel::Prefix);
        TornModel::ALL.into_iter().for_each(|torn| cut(CutWhen::Inside, torn));
        cut(CutWhen::After, TornModel::Prefix);
    }
}

//! Trees on raw NAND in builds without some features: a power cut loses no acknowledged change, and a missing
//! feature is refused.

use crate::Shared;
use crate::check::IndexError;
use crate::nand::catalogue::mlc_64m;
use crate::nand::sim::{CutWhen, Faults, PowerCut, SimChip, TornModel};
use crate::ordered::mu::MuTree;
use crate::ordered::vm::{VmConfig, VmTree};
use crate::ordered::wandering::WanderingTree;
use crate::ordered::{Durability, OrderedIndex, RawConfig, RecordFormat};
use crate::rng::Rng;
use crate::testing::{History, Mix, Model, Op, assert_sound, contents, get, key};

const RECORD: RecordFormat = RecordFormat::new(4, 4);

fn chip(blocks: u32) -> Shared<SimChip> {
    let mut part = mlc_64m();
    part.geometry = crate::Geometry::new(512, 64, 16, blocks);
    Shared::new(SimChip::new(&part).unwrap())
}

/// Updates a tree until the cut.
fn run_into_cut(chip: &Shared<SimChip>, at_operation: u64) -> History {
    let config = RawConfig::new(RECORD);
    let mut tree = MuTree::format(chip.clone(), &config).unwrap();
    let torn = TornModel::ALL[at_operation as usize % TornModel::ALL.len()];
    let now = chip.lock().operations();
    let cut = PowerCut { at_operation: now + at_operation, when: CutWhen::Inside, torn, seed: at_operation };
    chip.lock().plan_power_cut(cut);
    let (mut history, mut rng) = (History::new(Model::new()), Rng::new(at_operation));
    for op in 0.. {
        let done = history.apply(&mut tree, &Mix::updates(200, [3, 1], 0).draw(&mut rng, RECORD));
        let closed = done.and_then(|()| if op % 97 == 96 { tree.close() } else { Ok(()) });
        if closed.is_err() {
            return history;
        }
    }
    unreachable!("the cut ends the loop")
}

/// The records that look-ups find; a range finds the same.
fn found(tree: &mut dyn OrderedIndex) -> Model {
    let all = contents(tree).unwrap();
    for key in (0..200).map(|n| key(n, RECORD)) {
        assert_eq!(get(tree, &key).unwrap().as_ref(), all.get(&key), "{key:?}");
    }
    all
}

#[test]
fn a_cut_anywhere_costs_no_operation_that_returned() {
    for at_operation in (0..2_400).step_by(23) {
        let chip = chip(24);
        let history = run_into_cut(&chip, at_operation);
        chip.lock().power_on();
        let mut tree = MuTree::mount(chip, &RawConfig::new(RECORD)).unwrap();
        let found = found(&mut tree);
        assert!(history.had(&found, history.acknowledged()), "cut at operation {at_operation}");
        assert_sound(&mut tree, &found);
        for key in 0..300u32 {
            tree.insert(&(key % 200).to_be_bytes(), &key.to_le_bytes()).unwrap();
        }
        assert!(tree.check().unwrap().is_sound());
    }
}

#[test]
fn failing_blocks_leave_a_tree_that_a_mount_finds_whole() {
    for seed in 0..6 {
        let chip = chip(40);
        let mut tree = MuTree::format(chip.clone(), &RawConfig::new(RECORD)).unwrap();
        chip.lock().set_faults(Faults { program_failures_ppm: 2_000, seed, ..Faults::default() });
        let (mut history, mut rng) = (History::new(Model::new()), Rng::new(seed));
        let refused = (0..60_000).find_map(|_| {
            let op = Mix::updates(200, [1, 0], 0).draw(&mut rng, RECORD);
            history.apply(&mut tree, &op).err().map(|error| (error, op))
        });
        drop(tree);
        let Some((error, Op::Insert(key, value))) = refused else { panic!("{seed}: blocks enough for ever") };
        assert!(matches!(error, IndexError::WornOut | IndexError::Full(_)), "{error:?}");
        chip.lock().set_faults(Faults::default());
        let mut tree = MuTree::mount(chip, &RawConfig::new(RECORD)).unwrap();
        let (found, mut with) = (found(&mut tree), history.now().clone());
        with.insert(key, value);
        assert!(found == *history.now() || found == with, "{seed}");
    }
}

#[test]
fn what_is_left_out_is_refused() {
    let refused = |result: Result<(), IndexError>, is_there: bool, what: &str| match result {
        Ok(()) => assert!(is_there, "{what} was left out, and taken"),
        Err(error) => {
            assert!(!is_there, "{what}: {error:?}");
            let words = alloc::format!("{error:?}");
            assert!(!cfg!(feature = "messages") || words.contains(what), "{words} does not name {what}");
        }
    };
    let config = RawConfig::<()>::new(RECORD);
    let cached = RawConfig { read_pages: Some(4), ..config };
    let mu = |config: &RawConfig| MuTree::format(chip(64), config).map(|_| ());
    refused(mu(&cached), cfg!(feature = "embedded"), "embedded");
    let synced = RawConfig { write_pages: Some(4), durability: Durability::EverySync, ..config };
    refused(mu(&synced), cfg!(feature = "embedded"), "embedded");
    let journaled = RawConfig { journal: 8, ..config };
    let wandering = WanderingTree::format(chip(64), &journaled).map(|_| ());
    refused(wandering, cfg!(feature = "full"), "full");
    let vmtree = VmTree::format(chip(64), &VmConfig::new(RECORD)).map(|_| ());
    refused(vmtree, cfg!(feature = "moved-nodes"), "moved-nodes");
    assert!(mu(&RawConfig { ram_bytes: Some(1 << 20), ..config }).is_ok(), "RAM without use is no harm");
}

//! Trees on raw NAND whose log counts valid pages and keeps no bit for each page: operations, full chips,
//! failing blocks, mounts in either mode of what the other wrote, and cuts at every operation, two in a row.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use crate::inputs::{sized, stride};
use nandex::blocks::Validity;
use nandex::blocks::victim::VictimPolicy;
use nandex::log::LogConfig;
use nandex::nand::catalogue::mlc_64m;
use nandex::nand::sim::{CutWhen, Faults, PowerCut, SimChip, TornModel};
use nandex::ordered::mu::{MuStarTree, MuTree};
use nandex::ordered::wandering::WanderingTree;
use nandex::ordered::{OrderedIndex, RawConfig, RecordFormat};
use nandex::rng::Rng;
use nandex::testing::{History, Mix, Model, Op, assert_holds, contents, put, take};
use nandex::{Geometry, IndexError, Nand, NandError, Shared, StoreError};

const RECORD: RecordFormat = RecordFormat::new(4, 4);

/// A chip that outlasts the tree on it.
type Chip = Shared<SimChip>;

fn chip(page_bytes: u32, blocks: u32) -> Chip {
    faulty(page_bytes, blocks, Faults::default())
}

fn faulty(page_bytes: u32, blocks: u32, faults: Faults) -> Chip {
    let mut part = mlc_64m();
    part.geometry = Geometry::new(page_bytes, 64, 16, blocks);
    Shared::new(SimChip::new(&part).unwrap().with_faults(faults))
}

fn copy(chip: &Chip) -> Chip {
    Shared::new(chip.lock().clone())
}

/// On any chip, so that each tree is compiled for one.
fn any(chip: &Chip) -> Box<dyn Nand> {
    Box::new(chip.clone())
}

/// A tree that counts, or keeps bits, as it is formatted and mounted.
#[derive(Clone, Copy)]
enum Kind {
    Mu,
    MuStar,
    Wandering,
}

use Kind::{Mu, MuStar, Wandering};

impl Kind {
    fn format(self, chip: &Chip, config: &RawConfig) -> Result<Box<dyn OrderedIndex>, IndexError> {
        Ok(match self {
            Mu => Box::new(MuTree::format(any(chip), &with_default(config))?),
            MuStar => Box::new(MuStarTree::format(any(chip), &with_default(config))?),
            Wandering => Box::new(WanderingTree::format(any(chip), &with_default(config))?),
        })
    }

    fn mount(self, chip: &Chip, config: &RawConfig) -> Result<Box<dyn OrderedIndex>, IndexError> {
        Ok(match self {
            Mu => Box::new(MuTree::mount(any(chip), &with_default(config))?),
            MuStar => Box::new(MuStarTree::mount(any(chip), &with_default(config))?),
            Wandering => Box::new(WanderingTree::mount(any(chip), &with_default(config))?),
        })
    }
}

/// A configuration for a tree that takes some more.
fn with_default<C: Copy + Default>(config: &RawConfig) -> RawConfig<C> {
    RawConfig {
        validity: config.validity,
        ram_bytes: config.ram_bytes,
        victim: config.victim,
        journal: config.journal,
        read_pages: config.read_pages,
        checkpoint_blocks: config.checkpoint_blocks,
        ..RawConfig::new(config.record)
    }
}

fn config(validity: Validity) -> RawConfig {
    RawConfig { validity: Some(validity), ..RawConfig::new(RECORD) }
}

/// A configuration for a chip, in the least RAM with which valid pages are counted.
fn least(config: RawConfig, chip: &Chip) -> RawConfig {
    let Err(error) = Wandering.format(chip, &RawConfig { ram_bytes: Some(0), ..config }) else {
        panic!("no RAM is enough")
    };
    let IndexError::TooLittleRam { needed, .. } = error else { panic!("{error}") };
    let config = RawConfig { ram_bytes: Some(needed), ..config };
    let tree = Wandering.format(chip, &config).unwrap();
    assert!(tree.ram_bytes() <= needed, "{} of {needed}", tree.ram_bytes());
    config
}

/// One for a mount in this mode; bits have all the RAM.
fn mounted(config: RawConfig, validity: Validity) -> RawConfig {
    let ram_bytes = config.ram_bytes.filter(|_| validity == Validity::Counts);
    RawConfig { validity: Some(validity), ram_bytes, ..config }
}

/// One random change of a tree and its model; false where the chip is full.
fn step(tree: &mut dyn OrderedIndex, model: &mut Model, rng: &mut Rng, (keys, inserts): (u64, u64)) -> bool {
    let (key, value) = match Mix::updates(keys, [inserts, 100 - inserts], 0).draw(rng, RECORD) {
        Op::Insert(key, value) => (key, value),
        op => {
            let Op::Remove(key) = op else { unreachable!("{op:?}") };
            take(tree, model, &key).unwrap();
            return true;
        }
    };
    match put(tree, model, &key, &value) {
        Ok(_) => true,
        Err(IndexError::Full(_)) => false,
        Err(error) => panic!("{error}: {:?}", tree.stats()),
    }
}

/// Soaks a tree that is mounted now in one mode and now in the other, after a clean end or none.
fn soak(kind: Kind, chip: &Chip, config: RawConfig, (seed, keys): (u64, u64)) {
    let mut rng = Rng::new(seed);
    let mut validity = Validity::Counts;
    let setup = |validity| mounted(config, validity);
    let mut tree = kind.format(chip, &setup(validity)).unwrap();
    let (mut model, mut collections) = (Model::new(), 0);
    for round in 0..24 {
        let inserts = [75, 55, 35][rng.below(3) as usize];
        let mut refused = 0;
        for _ in 0..600 {
            refused += u32::from(!step(&mut *tree, &mut model, &mut rng, (keys, inserts)));
        }
        println!("seed {seed}, round {round}, {validity:?}, {refused} refused");
        assert_holds(&mut *tree, &model);
        collections += tree.stats().collections;
        if rng.chance(1, 2) {
            tree.close().unwrap();
        }
        let before = validity;
        validity = if rng.chance(2, 3) { Validity::Counts } else { Validity::Bits };
        drop(tree);
        tree = kind.mount(chip, &setup(validity)).unwrap();
        println!("mounted {validity:?} after {before:?}");
        assert_holds(&mut *tree, &model);
    }
    assert!(collections > 50, "seed {seed}: {collections} collections");
}

#[test]
fn a_counted_tree_is_a_map_whichever_way_it_is_mounted() {
    let step = stride(3);
    for seed in 0..6 {
        let victim = VictimPolicy::ALL[seed as usize];
        let config = RawConfig { victim, ..config(Validity::Counts) };
        let journaled = RawConfig { journal: 6, ..config };
        let cached = RawConfig { read_pages: Some(3), ..config };
        let one = least(config, &chip(512, 64));
        for tree in (0..5).skip(seed as usize % step).step_by(step) {
            let (seed, faults) = (seed, Faults::default());
            match tree {
                0 => soak(Mu, &faulty(512, 40, faults), config, (seed, 2500)),
                1 => soak(MuStar, &faulty(512, 40, faults), cached, (seed, 2000)),
                2 => soak(Wandering, &faulty(512, 64, faults), config, (seed, 2000)),
                3 => soak(Wandering, &faulty(512, 64, faults), one, (seed, 2000)),
                _ => soak(Wandering, &faulty(512, 64, faults), journaled, (seed, 2000)),
            }
        }
    }
}

#[test]
fn a_full_chip_that_is_counted_shrinks_again() {
    for seed in 0..sized(2, 4) {
        for mounts in [false, true] {
            let config = config(Validity::Counts);
            fill_and_empty(Mu, seed, mounts, config);
            fill_and_empty(MuStar, seed, mounts, config);
            fill_and_empty(Wandering, seed, mounts, config);
            fill_and_empty(Wandering, seed, mounts, least(config, &chip(512, 16)));
        }
    }
}

fn fill_and_empty(kind: Kind, seed: u64, mounts: bool, config: RawConfig) {
    let mut rng = Rng::new(seed);
    let chip = chip(512, 16);
    let mut tree = kind.format(&chip, &config).unwrap();
    let mut model = Model::new();
    while step(&mut *tree, &mut model, &mut rng, (1 << 20, 100)) {}
    assert_holds(&mut *tree, &model);
    if mounts {
        drop(tree);
        tree = kind.mount(&chip, &config).unwrap();
    }
    for _ in 0..300 {
        let some = model.keys().nth(rng.below(model.len() as u64) as usize).unwrap().clone();
        match put(&mut *tree, &mut model, &some, &7u32.to_be_bytes()) {
            Ok(existed) => assert!(existed),
            Err(error) => assert!(error.is_full(), "{error}"),
        }
    }
    assert_holds(&mut *tree, &model);
    let keys: Vec<Vec<u8>> = model.keys().cloned().collect();
    for (at, key) in keys.into_iter().enumerate() {
        assert_eq!(take(&mut *tree, &mut model, &key), Ok(true));
        if mounts && at % 500 == 499 {
            drop(tree);
            tree = kind.mount(&chip, &config).unwrap();
        }
    }
    assert_holds(&mut *tree, &model);
    assert!(tree.insert(&[0; 4], &[1; 4]).is_ok());
}

#[test]
fn failing_blocks_of_a_counted_tree_are_replaced() {
    for seed in 0..sized(2, 4) {
        let faults =
            Faults { seed, program_failures_ppm: 200, erase_failures_ppm: 1_500, ..Faults::default() };
        let config = config(Validity::Counts);
        soak(Mu, &faulty(512, 96, faults), config, (seed, 2500));
        soak(Wandering, &faulty(512, 96, faults), config, (seed, 1500));
        soak(Wandering, &faulty(512, 96, faults), least(config, &chip(512, 96)), (seed, 1500));
        soak(Wandering, &faulty(512, 96, faults), RawConfig { journal: 4, ..config }, (seed, 1500));
    }
}

const CUT_KEYS: u64 = 300;

/// Changes a tree until the power goes.
fn run_until_cut(
    tree: &mut dyn OrderedIndex,
    model: Model,
    rng: &mut Rng,
    steps: u32,
) -> (History, IndexError) {
    let mut history = History::new(model);
    for _ in 0..steps {
        let op = Mix::updates(CUT_KEYS, [60, 40], 0).draw(rng, RECORD);
        if let Err(error) = history.apply(tree, &op) {
            return (history, error);
        }
    }
    (history, IndexError::Interrupted)
}

const LOST: IndexError = IndexError::Store(StoreError::Nand(NandError::PowerLost));

/// Cuts the power once while a tree is changed, and again while it is mounted, then goes on.
fn survive(kind: Kind, (start, model): &(Chip, Model), cut: PowerCut, again: Option<u64>, config: RawConfig) {
    let mut rng = Rng::new(cut.at_operation);
    let what = format!("{cut:?}, again {again:?}");
    let setup = |validity| mounted(config, validity);
    let chip = copy(start);
    chip.lock().plan_power_cut(cut);
    let mut tree = kind.mount(&chip, &setup(Validity::Counts)).unwrap();
    let (mut history, error) = run_until_cut(&mut *tree, model.clone(), &mut Rng::new(77), 4_000);
    assert_eq!(error, LOST, "{what}");
    drop(tree);
    chip.lock().power_on();
    if let Some(after) = again {
        let at_operation = chip.lock().operations() + after;
        chip.lock().plan_power_cut(PowerCut { at_operation, ..cut });
        match kind.mount(&chip, &setup(Validity::Counts)) {
            Ok(mut tree) => {
                let found = contents(&mut *tree).unwrap();
                assert!(
                    history.had(&found, history.acknowledged()),
                    "{what}: no state since the last complete change"
                );
                let (later, error) = run_until_cut(&mut *tree, found, &mut rng, 4_000);
                assert_eq!(error, LOST, "{what}");
                history = later;
            }
            Err(error) => assert_eq!(error, LOST, "{what}"),
        }
        chip.lock().power_on();
    }
    let validity = if rng.chance(1, 4) { Validity::Bits } else { Validity::Counts };
    let mut tree = kind.mount(&chip, &setup(validity)).unwrap_or_else(|error| panic!("{what}: {error}"));
    let mut model = contents(&mut *tree).unwrap();
    let is_known = history.had(&model, history.acknowledged());
    assert!(is_known, "{what}: no state since the last complete change");
    assert_holds(&mut *tree, &model);
    for _ in 0..60 {
        step(&mut *tree, &mut model, &mut rng, (CUT_KEYS, 55));
    }
    assert_holds(&mut *tree, &model);
}

/// A small tree that has to collect soon, and what it holds.
fn started(kind: Kind, config: RawConfig) -> (Chip, Model) {
    let chip = chip(512, 14);
    let mut tree = kind.format(&chip, &config).unwrap();
    let (mut rng, mut model) = (Rng::new(5), Model::new());
    for _ in 0..700 {
        step(&mut *tree, &mut model, &mut rng, (CUT_KEYS, 55));
    }
    (chip, model)
}

fn cut_everywhere(kind: Kind, config: RawConfig, step: usize) {
    let step = step * stride(3);
    let start = started(kind, config);
    let chip = copy(&start.0);
    drop(kind.mount(&chip, &config).unwrap());
    let first = chip.lock().operations();
    let chip = copy(&start.0);
    let mut tree = kind.mount(&chip, &config).unwrap();
    run_until_cut(&mut *tree, start.1.clone(), &mut Rng::new(77), 120);
    assert!(tree.stats().collections > 3, "{:?}", tree.stats());
    let end = chip.lock().operations();
    for at_operation in (first..end).step_by(step) {
        let torn = TornModel::ALL[at_operation as usize % TornModel::ALL.len()];
        for when in [CutWhen::Inside, CutWhen::After] {
            let cut = PowerCut { at_operation, when, torn, seed: at_operation };
            survive(kind, &start, cut, None, config);
        }
    }
}

#[test]
fn a_counted_tree_survives_a_cut_at_every_operation() {
    let config = RawConfig { checkpoint_blocks: 4, ..config(Validity::Counts) };
    cut_everywhere(Mu, config, 1);
    cut_everywhere(MuStar, config, 3);
    cut_everywhere(Wandering, config, 2);
    cut_everywhere(Wandering, least(config, &chip(512, 14)), 1);
    cut_everywhere(Wandering, RawConfig { journal: 5, ..config }, 3);
}

#[test]
fn a_counted_tree_survives_a_second_cut_while_it_is_mounted() {
    let config = RawConfig { checkpoint_blocks: 4, ..config(Validity::Counts) };
    let start = started(Mu, config);
    let chip = copy(&start.0);
    drop(Mu.mount(&chip, &config).unwrap());
    let first = chip.lock().operations() + 100;
    let step = stride(3) as u64;
    for at_operation in (first..first + 300).step_by(23) {
        for after in (at_operation % step..40).step_by(step as usize) {
            let torn = TornModel::ALL[(at_operation + after) as usize % TornModel::ALL.len()];
            let when = if after % 2 == 0 { CutWhen::Inside } else { CutWhen::After };
            let cut = PowerCut { at_operation, when, torn, seed: after };
            survive(Mu, &start, cut, Some(after), config);
        }
    }
}

#[test]
fn bits_come_back_where_the_ram_suffices_for_them() {
    let mut tree = MuTree::format(any(&chip(512, 40)), &config(Validity::Counts)).unwrap();
    let (mut model, mut rng) = (Model::new(), Rng::new(8));
    for _ in 0..3_000 {
        step(&mut tree, &mut model, &mut rng, (1_500, 60));
    }
    tree.close().unwrap();
    let live = tree.stats().live_pages;
    let mut chip = tree.into_nand();
    for validity in [Validity::Bits, Validity::Counts, Validity::Counts, Validity::Bits] {
        let mut tree = MuTree::mount(chip, &config(validity)).unwrap();
        assert_eq!((tree.stats().live_pages, tree.log().config().validity), (live, validity));
        assert_holds(&mut tree, &model);
        tree.close().unwrap();
        chip = tree.into_nand();
    }
}

#[test]
fn what_cannot_be_counted_is_refused_by_name() {
    let refused = |config: RawConfig| MuTree::format(any(&chip(512, 16)), &config).map(drop);
    let config = config(Validity::Counts);
    let syncs = nandex::ordered::Durability::EverySync;
    let written = refused(RawConfig { write_pages: Some(2), durability: syncs, ..config });
    assert!(matches!(written, Err(IndexError::Unsupported(_))), "{written:?}");
    let log = LogConfig { validity: Validity::Counts, write_pages: 2, ..LogConfig::default() };
    assert!(
        <MuTree<Box<dyn Nand>> as std::ops::Deref>::Target::format_on_log(any(&chip(512, 16)), RECORD, log)
            .is_err()
    );
}

#[test]
fn counts_are_kept_where_the_ram_does_not_suffice_for_bits() {
    let mut part = mlc_64m();
    part.geometry = Geometry::new(2048, 64, 64, 1024);
    let format = |ram_bytes| {
        let config = RawConfig { ram_bytes: Some(ram_bytes), ..RawConfig::new(RecordFormat::new(8, 8)) };
        MuTree::format(any(&Shared::new(SimChip::new(&part).unwrap())), &config)
    };
    let Err(IndexError::TooLittleRam { needed, .. }) = format(0) else { panic!("no RAM is too little") };
    let tree = format(needed).unwrap();
    assert_eq!(tree.log().config().validity, Validity::Counts);
    assert!(tree.ram_bytes() <= needed, "{} of {needed}", tree.ram_bytes());
    assert!(format(needed - 1).is_err());
    let with_bits =
        (needed..).step_by(64).find(|&ram| format(ram).unwrap().log().config().validity == Validity::Bits);
    assert!(with_bits.unwrap() > needed + 5_000, "{with_bits:?} with bits, {needed} without");
}

#[test]
fn a_path_of_one_node_at_a_time_is_written_as_a_whole_one() {
    let run = |config: RawConfig| {
        let mut tree = WanderingTree::format(any(&chip(512, 200)), &config).unwrap();
        let mut rng = Rng::new(3);
        // Splits of the root, new least keys, and nodes that disappear.
        for number in (0..4_000u32).rev() {
            tree.insert(&(number * 3).to_be_bytes(), &number.to_be_bytes()).unwrap();
        }
        for _ in 0..8_000 {
            let key = (rng.below(12_000) as u32).to_be_bytes();
            if rng.chance(1, 3) {
                tree.insert(&key, &[9; 4]).unwrap();
            } else {
                tree.remove(&key).unwrap();
            }
        }
        for number in 0..11_900u32 {
            tree.remove(&number.to_be_bytes()).unwrap();
        }
        let counts = (tree.stats().height, tree.stats().live_pages, contents(&mut tree).unwrap());
        assert_holds(&mut tree, &counts.2);
        counts
    };
    let whole = run(config(Validity::Counts));
    assert_eq!(run(least(config(Validity::Counts), &chip(512, 200))), whole);
    assert_eq!(run(config(Validity::Bits)), whole);
}

#[test]
fn a_journal_left_on_the_chip_is_refused_where_one_node_is_in_ram() {
    let journaled = RawConfig { journal: 8, ..config(Validity::Counts) };
    let chip = chip(512, 64);
    let mut tree = Wandering.format(&chip, &journaled).unwrap();
    let mut model = Model::new();
    for key in 0..400u32 {
        put(&mut *tree, &mut model, &key.to_be_bytes(), &key.to_be_bytes()).unwrap();
    }
    put(&mut *tree, &mut model, &7u32.to_be_bytes(), &8u32.to_be_bytes()).unwrap();
    drop(tree);
    let one = least(config(Validity::Counts), &self::chip(512, 64));
    let refused = Wandering.mount(&chip, &one).map(drop);
    assert!(matches!(refused, Err(IndexError::Unsupported(_))), "{refused:?}");
    let mut tree = Wandering.mount(&chip, &journaled).unwrap();
    tree.close().unwrap();
    drop(tree);
    let mut tree = Wandering.mount(&chip, &one).unwrap();
    assert_holds(&mut *tree, &model);
}

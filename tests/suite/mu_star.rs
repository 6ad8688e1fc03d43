//! The mu*-Tree: every layout, changes of the layout under way, small nodes, full chips, and a cut at every
//! operation.

#![allow(clippy::unwrap_used)]

use crate::inputs::{sized, stride};
use nandex::log::LogConfig;
use nandex::nand::catalogue::mlc_64m;
use nandex::nand::sim::{CutWhen, PowerCut, SimChip, TornModel};
use nandex::ordered::buffered::Answers;
use nandex::ordered::mu::layout::{Layout, LeafShare};
use nandex::ordered::mu::star::LayoutPolicy;
use nandex::ordered::mu::{MenuConfig, MuStarTree, MuTree};
use nandex::ordered::{Durability, OrderedIndex, RawConfig, RecordFormat};
use nandex::rng::Rng;
use nandex::testing::{self, History, Mix, Model, Op, apply, assert_holds, contents, put, take};
use nandex::{Geometry, IndexError, Nand, NandError, Shared, StoreError};

/// A tree on any chip, so that it is compiled for one.
type Tree = MuStarTree<Box<dyn Nand>>;
type Ground = <Tree as std::ops::Deref>::Target;

fn format_on_log(chip: Box<dyn Nand>, record: RecordFormat, log: LogConfig) -> Result<Tree, IndexError> {
    Ground::format_on_log(chip, record, log).map(Tree::from)
}

fn mount_on_log(chip: Box<dyn Nand>, record: RecordFormat, log: LogConfig) -> Result<Tree, IndexError> {
    Ground::mount_on_log(chip, record, log).map(Tree::from)
}

fn chip(page_bytes: u32, blocks: u32) -> Box<dyn Nand> {
    Box::new(watched(page_bytes, blocks))
}

/// A chip that outlasts the tree on it.
fn watched(page_bytes: u32, blocks: u32) -> Shared<SimChip> {
    let mut part = mlc_64m();
    part.geometry = Geometry::new(page_bytes, 64, 16, blocks);
    Shared::new(SimChip::new(&part).unwrap())
}

fn metric<I: OrderedIndex>(tree: &I, name: &str) -> u64 {
    tree.stats().metrics.iter().find(|metric| metric.name == name).unwrap().value
}

/// One random operation on a tree and its model; keys out of `keys`.
fn step(tree: &mut dyn OrderedIndex, model: &mut Model, rng: &mut Rng, (keys, inserts): (u64, u64)) {
    let mix = Mix { reads: [10, 0], ..Mix::updates(keys, [inserts, 90 - inserts], 0) };
    let op = mix.draw(rng, tree.record());
    apply(tree, model, &op, Answers::Exact);
}

/// A key of this width, its number in the last bytes.
fn spread(number: u64, key_bytes: u8) -> Vec<u8> {
    testing::key(number, RecordFormat::new(key_bytes, 0))
}

/// A policy for round `round`: every layout, up and down, by one step and by several, and the controller.
fn policy(round: usize) -> LayoutPolicy {
    match [3, 0, 1, 2, 3, 2, 1, 0, 4][round % 9] {
        4 => LayoutPolicy::Adaptive,
        share => LayoutPolicy::Fixed(LeafShare::ALL[share]),
    }
}

#[test]
fn it_is_a_map_while_its_layout_changes() {
    let shapes =
        [(512, 4, 4), (1024, 8, 8), (1024, 4, 4), (2048, 16, 8), (2048, 8, 40), (2048, 30, 3), (2048, 2, 0)];
    // In the gate one cache for each shape, in turn.
    let (mut conversions, mut turn, every) = (0, 0, stride(3));
    for (page_bytes, key_bytes, value_bytes) in shapes {
        turn += 1;
        for (read_pages, write_pages) in
            [(0, 0), (3, 2), (2, 20)].into_iter().skip(turn % every).step_by(every)
        {
            let record = RecordFormat::new(key_bytes, value_bytes);
            let config = LogConfig { read_pages, write_pages, ..LogConfig::default() };
            let mut tree = format_on_log(chip(page_bytes, 160), record, config).unwrap();
            let (mut model, mut rng) = (Model::new(), Rng::new(u64::from(page_bytes) + write_pages as u64));
            for round in 0..27 {
                tree.set_layout(policy(round));
                let inserts = if round % 9 < 5 { 70 } else { 15 };
                for _ in 0..400 {
                    step(&mut tree, &mut model, &mut rng, (3000, inserts));
                }
                assert_holds(&mut tree, &model);
                conversions += metric(&tree, "conversions");
                if round % 2 == 0 {
                    if round % 4 == 0 {
                        tree.close().unwrap();
                    } else {
                        tree.sync().unwrap();
                    }
                    tree = mount_on_log(tree.into_nand(), record, config).unwrap();
                    assert_holds(&mut tree, &model);
                }
            }
        }
    }
    assert!(conversions > sized(330, 1000), "{conversions} conversions");
}

fn with_layout(record: RecordFormat, layout: LayoutPolicy) -> RawConfig<MenuConfig> {
    RawConfig { scheme: MenuConfig { layout, ..MenuConfig::default() }, ..RawConfig::new(record) }
}

#[test]
fn every_layout_is_a_map_over_remounts() {
    for layout in LeafShare::ALL.map(LayoutPolicy::Fixed).into_iter().chain([LayoutPolicy::Adaptive]) {
        for (page_bytes, key_bytes, value_bytes) in [(1024, 4, 4), (2048, 8, 8), (4096, 16, 16)] {
            let record = RecordFormat::new(key_bytes, value_bytes);
            let settings = with_layout(record, layout);
            let mut tree = Tree::format(chip(page_bytes, 128), &settings).unwrap();
            let (mut model, mut rng) = (Model::new(), Rng::new(9));
            for round in 0..8 {
                for _ in 0..1000 {
                    step(&mut tree, &mut model, &mut rng, (4000, if round < 6 { 75 } else { 10 }));
                }
                assert_holds(&mut tree, &model);
                let share = tree.leaf_share();
                tree = Tree::mount(tree.into_nand(), &settings).unwrap();
                assert_eq!(tree.leaf_share(), share);
                assert!(layout == LayoutPolicy::Adaptive || layout == LayoutPolicy::Fixed(share));
            }
        }
    }
}

/// One program per update without a split, whichever the layout.
#[test]
fn an_update_without_a_split_programs_one_page() {
    for share in LeafShare::ALL {
        let settings = with_layout(RecordFormat::new(4, 4), LayoutPolicy::Fixed(share));
        let mut tree = Tree::format(chip(512, 320), &settings).unwrap();
        let mut rng = Rng::new(3);
        for _ in 0..2500 {
            let key = (rng.below(1 << 20) as u32).to_be_bytes();
            let (free, nodes, height) =
                (tree.log().free_pages(), tree.check().unwrap().nodes, tree.stats().height);
            tree.insert(&key, &[1; 4]).unwrap();
            // A new root shares the page of a half.
            let halves = tree.check().unwrap().nodes - nodes - u64::from(tree.stats().height - height);
            // Collection has not begun: nothing else programs.
            assert_eq!(u64::from(free - tree.log().free_pages()), 1 + halves);
        }
        assert!(tree.stats().height >= 3 && tree.stats().collections == 0);
        let mut model = Model::new();
        for number in 0..300u32 {
            let key = number.to_be_bytes();
            put(&mut tree, &mut model, &key, &key).unwrap();
        }
        let before = tree.log().free_pages();
        for key in model.keys() {
            assert!(tree.insert(key, &[7; 4]).unwrap());
        }
        assert_eq!(before - tree.log().free_pages(), 300);
    }
}

/// With half a page for the leaf, the tree is the mu-Tree page by page.
#[test]
fn the_layout_of_one_half_is_the_mu_tree() {
    let record = RecordFormat::new(4, 4);
    let half = with_layout(record, LayoutPolicy::Fixed(LeafShare::HALF));
    let chips = [watched(512, 64), watched(512, 64)];
    let mut star = Tree::format(Box::new(chips[0].clone()), &half).unwrap();
    let mu = Box::new(chips[1].clone()) as Box<dyn Nand>;
    let mut mu = MuTree::format(mu, &RawConfig::new(record)).unwrap();
    let mut rng = Rng::new(11);
    for _ in 0..12_000 {
        let key = (rng.below(3000) as u32).to_be_bytes();
        if rng.below(10) < 8 {
            assert_eq!(star.insert(&key, &key).unwrap(), mu.insert(&key, &key).unwrap());
        } else {
            assert_eq!(star.remove(&key).unwrap(), mu.remove(&key).unwrap());
        }
    }
    let (star_stats, mu_stats) = (star.stats(), mu.stats());
    assert!(star_stats.height > 2 && star_stats.collections > 10);
    assert_eq!((star_stats.height, star_stats.live_pages), (mu_stats.height, mu_stats.live_pages));
    assert_eq!(metric(&star, "conversions"), 0);
    let [star, mu] = chips.map(|chip| chip.lock().counters());
    assert_eq!(star.page_programs_total(), mu.page_programs_total());
    assert_eq!(star.block_erases_total(), mu.block_erases_total());
}

#[test]
fn pages_of_all_layouts_live_side_by_side() {
    let record = RecordFormat::new(4, 4);
    let mut tree = format_on_log(chip(2048, 128), record, LogConfig::default()).unwrap();
    let mut model = Model::new();
    // Each quarter of the keys is written in another layout.
    for (quarter, share) in LeafShare::ALL.into_iter().enumerate() {
        tree.set_layout(LayoutPolicy::Fixed(share));
        for number in 0..2500u64 {
            let key = spread(quarter as u64 * 10_000 + number * 7919 % 10_000, 4);
            put(&mut tree, &mut model, &key, &[share.id(); 4]).unwrap();
        }
    }
    assert_holds(&mut tree, &model);
    let leaf_capacity = |share| Layout::of(2048, record).with_share(share).shape(1, 2).capacity;
    assert!(LeafShare::ALL.windows(2).all(|pair| leaf_capacity(pair[0]) < leaf_capacity(pair[1])));
    tree.close().unwrap();
    let mut tree = mount_on_log(tree.into_nand(), record, LogConfig::default()).unwrap();
    assert_eq!(tree.leaf_share(), LeafShare::ALL[3]);
    assert_holds(&mut tree, &model);
    // Emptied in another order of layouts.
    for (i, key) in model.clone().into_keys().enumerate() {
        if i % 1000 == 0 {
            tree.set_layout(policy(i / 1000));
        }
        assert!(tree.remove(&key).unwrap());
    }
    assert_holds(&mut tree, &Model::new());
    assert_eq!(tree.stats().height, 1);
}

/// A chip filled to the last page in one layout can be emptied in any other.
#[test]
fn a_full_chip_can_shrink_in_every_layout() {
    let step = stride(2);
    for (number, (filled, emptied)) in
        [(0, 3), (3, 0), (3, 1), (1, 2), (2, 2), (0, 1)].into_iter().enumerate()
    {
        for write_pages in [0, 3].into_iter().skip(number % step).step_by(step) {
            let config = LogConfig { write_pages, ..LogConfig::default() };
            let record = RecordFormat::new(4, 4);
            let mut tree = format_on_log(chip(512, 24), record, config).unwrap();
            tree.set_layout(LayoutPolicy::Fixed(LeafShare::ALL[filled]));
            let (mut model, mut rng) = (Model::new(), Rng::new(filled as u64));
            testing::fill(&mut tree, &mut model, &mut || {
                let key = spread(rng.below(1 << 30), 4);
                (key.clone(), key)
            });
            assert!(model.len() > 2000, "{} records in layout {filled}", model.len());
            assert_holds(&mut tree, &model);
            tree.sync().unwrap();
            tree = mount_on_log(tree.into_nand(), record, config).unwrap();
            tree.set_layout(LayoutPolicy::Fixed(LeafShare::ALL[emptied]));
            let mut keys: Vec<_> = model.clone().into_keys().collect();
            rng.shuffle(&mut keys);
            for (i, key) in keys.iter().enumerate() {
                let removed = take(&mut tree, &mut model, key);
                assert_eq!(removed, Ok(true), "{i} of {}: {filled} -> {emptied}, {write_pages}", keys.len());
                if i % 500 == 0 {
                    assert_holds(&mut tree, &model);
                }
            }
            assert_holds(&mut tree, &model);
        }
    }
}

/// The controller follows what the tree is used for, and every answer stays right on the way.
#[test]
fn the_controller_follows_the_work() {
    let record = RecordFormat::new(4, 4);
    let mut tree = Tree::format(chip(1024, 64), &RawConfig::new(record)).unwrap();
    let mut model = Model::new();
    assert_eq!(tree.leaf_share(), LeafShare::HALF);
    for number in 0..22_000u64 {
        let key = spread(number, 4);
        put(&mut tree, &mut model, &key, &key).unwrap();
    }
    assert!(tree.leaf_share() > LeafShare::HALF, "keys that ascend on a filling chip favour large leaves");
    assert!(metric(&tree, "layout_switches") >= 1 && metric(&tree, "conversion_pages") > 0);
    assert_holds(&mut tree, &model);
    let (mut rng, mut value) = (Rng::new(2), [0; 4]);
    for round in 0..8 * 1024u64 {
        let key = spread(rng.below(22_000), 4);
        assert!(tree.get(&key, &mut value).unwrap() && value[..] == key[..]);
        if round % 500 == 0 {
            tree.insert(&key, &key).unwrap();
        }
    }
    assert_holds(&mut tree, &model);
}

const CUT_OPERATIONS: usize = 75;
const CUT_RECORD: RecordFormat = RecordFormat::new(4, 12);

/// A history that converts, splits, collects and shrinks on a small chip.
fn run(tree: &mut Tree, syncs: bool, history: &mut History) -> Result<(), IndexError> {
    let mut rng = Rng::new(4);
    for operation in 0..CUT_OPERATIONS {
        if operation % 8 == 0 {
            tree.set_layout(policy(operation / 8));
        }
        let grows = operation < CUT_OPERATIONS * 2 / 3;
        let mix = Mix::updates(400, if grows { [8, 2] } else { [2, 8] }, 0);
        for _ in 0..if grows { 12 } else { 8 } {
            history.apply(tree, &mix.draw(&mut rng, CUT_RECORD))?;
        }
        if syncs && operation % 4 == 0 {
            history.apply(tree, &Op::Sync)?;
        }
    }
    Ok(())
}

fn survive(cut: PowerCut, config: LogConfig) {
    let chip = watched(512, 14);
    let nand = format_on_log(Box::new(chip.clone()), CUT_RECORD, config).unwrap().into_nand();
    chip.lock().plan_power_cut(cut);
    let mut history = History::new(Model::new());
    let mut tree = mount_on_log(nand, CUT_RECORD, config).unwrap();
    let error = run(&mut tree, config.write_pages > 0, &mut history).unwrap_err();
    assert_eq!(error, IndexError::Store(StoreError::Nand(NandError::PowerLost)));
    let nand = tree.into_nand();
    chip.lock().power_on();
    let mut tree = mount_on_log(nand, CUT_RECORD, config).unwrap_or_else(|e| panic!("{e} after {cut:?}"));
    let (mut model, mut rng) = (contents(&mut tree).unwrap(), Rng::new(cut.at_operation));
    let least = if config.write_pages > 0 { 0 } else { history.acknowledged() };
    assert!(history.had(&model, least), "{cut:?}: no state since the last durable one");
    assert_holds(&mut tree, &model);
    for round in 0..3 {
        tree.set_layout(policy(cut.at_operation as usize + round));
        for _ in 0..10 {
            step(&mut tree, &mut model, &mut rng, (400, 50));
        }
    }
    assert_holds(&mut tree, &model);
}

fn cut_everywhere(config: LogConfig, stride: usize) {
    let chip = watched(512, 14);
    let formatted = format_on_log(Box::new(chip.clone()), CUT_RECORD, config).unwrap().into_nand();
    let first = chip.lock().operations();
    let mut tree = mount_on_log(formatted, CUT_RECORD, config).unwrap();
    let durability = if config.write_pages == 0 { Durability::EveryOperation } else { Durability::EverySync };
    assert_eq!(tree.durability(), durability);
    let mut history = History::new(Model::new());
    run(&mut tree, config.write_pages > 0, &mut history).unwrap();
    assert!(metric(&tree, "conversion_pages") >= 5, "{:?}", tree.stats());
    assert!(tree.stats().collections > 5, "{:?}", tree.stats());
    let end = chip.lock().operations();
    for at_operation in (first..end).step_by(stride) {
        let torn = TornModel::ALL[at_operation as usize % TornModel::ALL.len()];
        for when in [CutWhen::Inside, CutWhen::After] {
            survive(PowerCut { at_operation, when, torn, seed: at_operation }, config);
        }
    }
}

#[test]
fn nothing_acknowledged_is_lost_at_any_cut() {
    cut_everywhere(LogConfig::default(), stride(7));
}

#[test]
fn nothing_synced_is_lost_at_any_cut() {
    let config = LogConfig { write_pages: 3, read_pages: 2, ..LogConfig::default() };
    cut_everywhere(config, stride(7));
}

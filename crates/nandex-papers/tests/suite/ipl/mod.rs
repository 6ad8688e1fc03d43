//! IPL and dIPL compared with a `BTreeMap`: remounts, small chips, failing blocks, wrong bits. Power cuts are
//! tested for all indexes alike (`nandex crash`, `crates/nandex-lab/tests/suite`).

#![allow(clippy::unwrap_used)]

mod harm;
mod mounts;
mod ram;

use crate::inputs::{sized, stride};
use nandex::IndexError;
use nandex::Shared;
use nandex::nand::sim::{Faults, SimChip};
use nandex::nand::{Geometry, Nand, Part, Timing};
use nandex::ordered::{Durability, OrderedIndex, RecordFormat};
use nandex::rng::Rng;
use nandex::store::ram::RamStore;
use nandex::store::store_nand::StoreNand;
use nandex::testing::{Model, assert_holds, contents, get, put, take};
use nandex_papers::ordered::ipl::{IplConfig, IplTree, LogArea, LogUnit};
use std::collections::BTreeMap;

const RECORD: RecordFormat = RecordFormat::new(4, 4);

const TIMING: Timing =
    Timing { read_ns: 60_000, program_ns: 800_000, erase_ns: 1_500_000, transfer_ps_per_byte: 25_000 };

const CLASSES: [Durability; 3] = [Durability::EveryOperation, Durability::EverySync, Durability::None];

fn chip(geometry: Geometry) -> SimChip {
    SimChip::new(&Part::new("test", geometry, TIMING)).unwrap()
}

/// Any chip, so that the tree is compiled for one.
fn any(chip: impl Nand + 'static) -> Box<dyn Nand> {
    Box::new(chip)
}

/// A chip, or pages of a store shown as one where no chip has pages of this size.
fn nand(geometry: Geometry, faults: Faults) -> Box<dyn Nand> {
    if geometry.page_bytes.is_power_of_two() {
        return Box::new(chip(geometry).with_faults(faults));
    }
    let store = RamStore::new(geometry.raw_page_bytes() + 1, geometry.pages());
    Box::new(StoreNand::new(store, geometry.pages_per_block, geometry.spare_bytes).unwrap())
}

/// Pages in any order, and partial programs.
fn slc(geometry: Geometry) -> Geometry {
    Geometry { programs_per_page_max: 4, random_order: true, ..geometry }
}

/// Partial programs, pages in ascending order.
fn partial(geometry: Geometry) -> Geometry {
    Geometry { programs_per_page_max: 4, ..geometry }
}

fn settings(area: LogArea, durability: Durability) -> IplConfig {
    IplConfig { durability, ..IplConfig::new(RECORD, area) }
}

fn insert(tree: &mut dyn OrderedIndex, model: &mut Model, key: u32, value: u32) -> Result<(), IndexError> {
    put(tree, model, &key.to_be_bytes(), &value.to_be_bytes()).map(drop)
}

fn remove(tree: &mut dyn OrderedIndex, model: &mut Model, key: u32) -> Result<(), IndexError> {
    take(tree, model, &key.to_be_bytes()).map(drop)
}

/// Random operations in waves of growth and shrinking, with checks, and mounts of a closed, a synced and a
/// dropped tree. What the trees of a test did in all, so that it can see that they did everything.
type Figures = BTreeMap<&'static str, u64>;

fn note(tree: &IplTree<Box<dyn Nand>>, figures: &mut Figures) {
    tree.stats().metrics.iter().for_each(|metric| *figures.entry(metric.name).or_default() += metric.value);
}

struct Soak<'a> {
    geometry: Geometry,
    settings: &'a IplConfig,
    operations: u32,
    keys: u64,
    seed: u64,
    faults: Faults,
}

fn soak(soak: Soak<'_>, figures: &mut Figures) {
    let Soak { geometry, settings, operations, keys, seed, faults } = soak;
    let what = format!("{geometry:?} {settings:?} seed {seed}");
    let mut tree =
        IplTree::format(nand(geometry, faults), settings).unwrap_or_else(|error| panic!("{what}: {error}"));
    let (mut model, mut rng) = (Model::new(), Rng::new(seed));
    for op in 0..operations {
        let key = rng.below(keys) as u32;
        let grows = if (op / 1500) % 2 == 0 { 60 } else { 25 };
        let done = match rng.below(100) {
            n if n < grows => insert(&mut tree, &mut model, key, op),
            90.. => {
                let key = key.to_be_bytes();
                assert_eq!(get(&mut tree, &key).unwrap().as_ref(), model.get(&key[..]), "{what}");
                Ok(())
            }
            89 => tree.sync(),
            _ => remove(&mut tree, &mut model, key),
        };
        done.unwrap_or_else(|error| panic!("{what}: op {op}: {error}"));
        if op % 250 == 0 {
            let report = tree.check().unwrap();
            assert!(report.is_sound(), "{what}: op {op}: {:?}", report.violations);
        }
        if let Some(ram) = settings.ram_bytes {
            assert!(tree.ram_bytes() <= ram, "{what}: {} bytes held", tree.ram_bytes());
        }
        if op % 700 == 699 {
            match rng.below(3) {
                0 => tree.close().unwrap(),
                1 => tree.sync().unwrap(),
                _ if settings.durability == Durability::EveryOperation => {}
                _ => tree.sync().unwrap(),
            }
            note(&tree, figures);
            tree = IplTree::mount(tree.into_nand(), settings)
                .unwrap_or_else(|error| panic!("{what}: op {op}: {error}"));
            assert_holds(&mut tree, &model);
        }
    }
    assert_holds(&mut tree, &model);
    note(&tree, figures);
}

fn geometries() -> Vec<Geometry> {
    let plain = [
        Geometry::new(256, 64, 16, 64),
        Geometry::new(512, 64, 16, 64),
        Geometry::new(512, 64, 8, 96),
        Geometry::new(1024, 64, 32, 24),
        Geometry::new(2048, 64, 16, 24),
        Geometry::new(448, 63, 16, 64),
        Geometry::new(1984, 63, 16, 24),
    ];
    let mut all = Vec::from(plain);
    all.extend([partial(plain[3]), slc(plain[4]), slc(plain[1])]);
    all
}

#[test]
fn it_is_a_map() {
    let mut figures = Figures::new();
    let step = stride(3);
    for (seed, geometry) in (1..).zip(geometries()) {
        for (turn, area) in [LogArea::Dynamic, LogArea::Fixed].into_iter().enumerate() {
            for (of, class) in CLASSES.into_iter().enumerate() {
                let settings = settings(area, class);
                let small = IplConfig { rewrite_units: (seed % 4) as u16, order: Some(8), ..settings };
                let ram = IplConfig { ram_bytes: Some(40_000), ..settings };
                let plans = [(settings, 4000, 1500), (small, 2500, 600), (ram, 2500, 1500)];
                // One of them in the gate, in turn.
                let turn = seed as usize + turn + of;
                for (settings, operations, keys) in plans.iter().skip(turn % step).step_by(step) {
                    let (operations, keys, faults) = (*operations, *keys, Faults::default());
                    soak(Soak { geometry, settings, operations, keys, seed, faults }, &mut figures);
                }
            }
        }
    }
    for name in ["block_merges", "block_splits", "ghosts", "rewrites", "log_units_read"] {
        assert!(figures[name] > sized(7, 20), "{name}: {figures:?}");
    }
}

#[test]
fn log_units_may_be_sectors_or_pages_in_either_form() {
    let mut figures = Figures::new();
    for geometry in [partial(Geometry::new(2048, 64, 16, 32)), slc(Geometry::new(1024, 64, 32, 32))] {
        for area in [LogArea::Dynamic, LogArea::Fixed] {
            for unit in [LogUnit::Sector, LogUnit::Page] {
                for class in CLASSES {
                    let settings = &IplConfig { log_unit: unit, order: Some(12), ..settings(area, class) };
                    let faults = Faults::default();
                    let one = Soak { geometry, settings, operations: 3000, keys: 1500, seed: 3, faults };
                    soak(one, &mut figures);
                }
            }
        }
    }
    assert!(figures["block_merges"] > 100, "{figures:?}");
}

#[test]
fn no_more_ram_is_held_than_was_given() {
    let mut accepted = 0;
    for ram in (4_000..200_000).step_by(7_777 * stride(6)) {
        for class in CLASSES {
            for area in [LogArea::Dynamic, LogArea::Fixed] {
                let settings = IplConfig { ram_bytes: Some(ram), ..settings(area, class) };
                let Ok(mut tree) = IplTree::format(any(chip(Geometry::new(2048, 64, 64, 64))), &settings)
                else {
                    continue;
                };
                accepted += 1;
                let (mut model, mut rng) = (Model::new(), Rng::new(ram as u64));
                for _ in 0..1500 {
                    let key = rng.below(4000) as u32;
                    insert(&mut tree, &mut model, key, key).unwrap();
                    assert!(tree.ram_bytes() <= ram, "{} of {ram} bytes", tree.ram_bytes());
                }
                assert_holds(&mut tree, &model);
                assert!(tree.durability() >= class);
            }
        }
    }
    assert!(accepted > sized(7, 60), "{accepted} budgets accepted only");
}

#[test]
fn two_runs_leave_the_same_chip() {
    let image = || {
        let chip = Shared::new(chip(Geometry::new(512, 64, 16, 48)));
        let mut tree = IplTree::format(any(chip.clone()), &settings(LogArea::Dynamic, CLASSES[0])).unwrap();
        let (mut model, mut rng) = (Model::new(), Rng::new(9));
        for op in 0..2000 {
            insert(&mut tree, &mut model, rng.below(1200) as u32, op).unwrap();
        }
        tree.close().unwrap();
        chip.lock().to_image()
    };
    assert!(image() == image());
}

/// The pages that an operation programs: a ghost costs no page of its own, an image does.
#[test]
fn a_split_programs_one_unit_where_nodes_are_ghosts() {
    // (form, programs of a plain insert, of a growing root, of a later split within the block)
    for (area, plain, grown, split) in [(LogArea::Dynamic, 1, 2, 1), (LogArea::Fixed, 1, 3, 2)] {
        let geometry = Geometry { random_order: true, ..Geometry::new(512, 64, 64, 32) };
        let settings = IplConfig {
            order: Some(8),
            rewrite_units: 0,
            log_pages: Some(32),
            ..settings(area, Durability::EveryOperation)
        };
        let chip = Shared::new(chip(geometry));
        let mut tree = IplTree::format(any(chip.clone()), &settings).unwrap();
        let figure = |tree: &IplTree<_>, name| {
            tree.stats().metrics.iter().find(|metric| metric.name == name).unwrap().value
        };
        let mut model = Model::new();
        // The first change also says that the chip is in use.
        insert(&mut tree, &mut model, 0, 0).unwrap();
        for key in 1..19 {
            let (nodes, height) = (figure(&tree, "nodes"), tree.stats().height);
            let before = chip.lock().counters().page_programs_total();
            insert(&mut tree, &mut model, key, key).unwrap();
            let programs = chip.lock().counters().page_programs_total() - before;
            let expected = match (tree.stats().height > height, figure(&tree, "nodes") > nodes) {
                (true, _) => grown,
                (false, true) => split,
                (false, false) => plain,
            };
            assert_eq!(programs, expected, "{area:?}: key {key}");
        }
        assert_eq!((figure(&tree, "nodes"), tree.stats().height), (5, 2));
        assert_holds(&mut tree, &model);
    }
}

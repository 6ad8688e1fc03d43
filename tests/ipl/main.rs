//! IPL and dIPL against a `BTreeMap`: remounts, small chips, failing blocks, wrong bits. Power cuts are in `cuts`.

#![allow(clippy::unwrap_used)]

mod cuts;
mod harm;

use nandex::nand::sim::{Faults, SimChip};
use nandex::nand::{Geometry, Nand, Part, Timing};
use nandex::ordered::ipl::IplTree;
use nandex::ordered::{Direction, Durability, OrderedIndex, RecordFormat, Settings};
use nandex::rng::Rng;
use nandex::IndexError;
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

type Model = BTreeMap<u32, u32>;

const TIMING: Timing =
    Timing { read_ns: 60_000, program_ns: 800_000, erase_ns: 1_500_000, transfer_ps_per_byte: 25_000 };

const CLASSES: [Durability; 3] = [Durability::EveryOperation, Durability::EverySync, Durability::None];

fn chip(geometry: Geometry) -> SimChip {
    SimChip::new(&Part::new("test", geometry, TIMING)).unwrap()
}

/// Pages in any order, and partial programs.
fn slc(geometry: Geometry) -> Geometry {
    Geometry { programs_per_page_max: 4, random_order: true, ..geometry }
}

/// Partial programs, pages in ascending order.
fn partial(geometry: Geometry) -> Geometry {
    Geometry { programs_per_page_max: 4, ..geometry }
}

fn settings(log_area: &str, durability: Durability) -> Settings {
    Settings { durability, ..Settings::new(RecordFormat::new(4, 4)).with("log_area", log_area) }
}

fn contents<N: Nand>(tree: &mut IplTree<N>, direction: Direction) -> Result<Vec<(u32, u32)>, IndexError> {
    let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
    let mut all = Vec::new();
    tree.range(Bound::Unbounded, Bound::Unbounded, direction, &mut |key, value| {
        all.push((number(key), number(value)));
        ControlFlow::Continue(())
    })?;
    Ok(all)
}

fn assert_holds<N: Nand>(tree: &mut IplTree<N>, model: &Model) {
    let report = tree.check().unwrap();
    assert!(report.is_sound(), "{:?}", report.violations);
    assert_eq!(report.records, model.len() as u64);
    let mut found = contents(tree, Direction::Ascending).unwrap();
    assert!(found.iter().copied().eq(model.iter().map(|(k, v)| (*k, *v))), "ascending contents differ");
    found.reverse();
    assert!(contents(tree, Direction::Descending).unwrap() == found, "descending contents differ");
}

fn insert<N: Nand>(tree: &mut IplTree<N>, model: &mut Model, key: u32, value: u32) -> Result<(), IndexError> {
    let existed = tree.insert(&key.to_be_bytes(), &value.to_be_bytes())?;
    assert_eq!(existed, model.insert(key, value).is_some(), "insert {key} {:?}", tree.stats());
    Ok(())
}

fn remove<N: Nand>(tree: &mut IplTree<N>, model: &mut Model, key: u32) -> Result<(), IndexError> {
    let existed = tree.remove(&key.to_be_bytes())?;
    assert_eq!(existed, model.remove(&key).is_some(), "remove {key}");
    Ok(())
}

/// Random operations in waves of growth and shrinking, with checks, and mounts of a closed, a synced and a dropped tree.
fn soak(geometry: Geometry, settings: &Settings, (operations, keys): (u32, u64), seed: u64, faults: Faults) {
    let what = format!("{geometry:?} {settings:?} seed {seed}");
    println!("{what}");
    let mut tree = IplTree::format_with(chip(geometry).with_faults(faults), settings)
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    let (mut model, mut rng) = (Model::new(), Rng::new(seed));
    for op in 0..operations {
        let key = rng.below(keys) as u32;
        if std::env::var("DBG").is_ok() {
            let found = contents(&mut tree, Direction::Ascending).unwrap();
            if !found.iter().copied().eq(model.iter().map(|(k, v)| (*k, *v))) {
                let missing: Vec<_> = model.iter().filter(|(k, v)| !found.contains(&(**k, **v))).collect();
                let extra: Vec<_> = found.iter().filter(|(k, v)| model.get(k) != Some(v)).collect();
                println!("op {op} missing {missing:?} extra {extra:?} {:?} \n", tree.stats());
                tree.dump();
                panic!("differs");
            }
            println!("op {op} {:?}", tree.stats().metrics);
        }
        let grows = if (op / 1500) % 2 == 0 { 60 } else { 25 };
        let done = match rng.below(100) {
            n if n < grows => insert(&mut tree, &mut model, key, op),
            90.. => {
                let mut value = [0; 4];
                let found = tree.get(&key.to_be_bytes(), &mut value).unwrap();
                assert_eq!(found.then_some(u32::from_be_bytes(value)), model.get(&key).copied(), "{what}");
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
            tree = IplTree::mount_with(tree.into_nand(), settings)
                .unwrap_or_else(|error| panic!("{what}: op {op}: {error}"));
            assert_holds(&mut tree, &model);
        }
    }
    assert_holds(&mut tree, &model);
    let figures = tree.stats().metrics;
    let figure = |name| figures.iter().find(|metric| metric.name == name).unwrap().value;
    let merges = if geometry.page_bytes < 1024 { 4 } else { 0 };
    assert!(figure("merges") >= merges || faults != Faults::default(), "{what}: {figures:?}");
}

fn geometries() -> Vec<Geometry> {
    let plain = [
        Geometry::new(256, 64, 16, 64),
        Geometry::new(512, 64, 16, 64),
        Geometry::new(512, 64, 8, 96),
        Geometry::new(1024, 64, 32, 24),
        Geometry::new(2048, 64, 16, 24),
    ];
    let mut all = Vec::from(plain);
    all.extend([partial(plain[3]), slc(plain[4]), slc(plain[1])]);
    all
}

#[test]
fn it_is_a_map() {
    for (seed, geometry) in (1..).zip(geometries()) {
        for area in ["dynamic", "fixed"] {
            for class in CLASSES {
                let settings = settings(area, class);
                soak(geometry, &settings, (4000, 1500), seed, Faults::default());
                let rewrites = settings.clone().with("rewrite_units", seed % 4).with("order", 8);
                soak(geometry, &rewrites, (2500, 600), seed, Faults::default());
                let ram = Settings { ram_bytes: Some(40_000), ..settings };
                soak(geometry, &ram, (2500, 1500), seed, Faults::default());
            }
        }
    }
}

#[test]
fn log_units_may_be_sectors_or_pages_in_either_form() {
    for geometry in [partial(Geometry::new(2048, 64, 16, 32)), slc(Geometry::new(1024, 64, 32, 32))] {
        for area in ["dynamic", "fixed"] {
            for unit in ["sector", "page"] {
                for class in CLASSES {
                    let settings = settings(area, class).with("log_unit", unit);
                    soak(geometry, &settings, (3000, 1500), 3, Faults::default());
                }
            }
        }
    }
}

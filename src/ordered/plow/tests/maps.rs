//! Chips with so many blocks that a root with all extents fills its page, so that maps list the extents.

use super::*;
use crate::inputs::sized;
use crate::nand::sim::{CutWhen, PowerCut, TornModel};
use crate::testing::damaged::{Damage, damage};

/// 250 blocks of 8 pages of 1 KiB: roots of up to 1,500 bytes.
const MANY: (u32, u32, u32) = (1024, 8, 250);

fn maps(plow: &Plow<SimChip>) -> u64 {
    plow.core.stock.space.map().unwrap().written
}

fn fill(plow: &mut Plow<SimChip>, model: &mut Model, rng: &mut Rng, keys: u64) {
    testing::fill(plow, model, &mut || (key(rng.below(keys), 8), rng.next_u64().to_be_bytes().repeat(4)));
}

#[test]
fn roots_of_many_blocks_are_short() {
    for (class, seed) in
        [(Durability::EveryOperation, 1), (Durability::EverySync, 2)].into_iter().take(sized(1, 2))
    {
        let set = settings(8, 32, class);
        let (page, pages, blocks) = MANY;
        let mut plow = Plow::format(chip(page, pages, blocks), &set).unwrap();
        let (mut model, mut rng) = (Model::new(), Rng::new(seed));
        for round in 0..sized(1, 2) {
            fill(&mut plow, &mut model, &mut rng, 1 << 40);
            let used: usize = plow.core.stock.levels.iter().map(|level| level.blocks(pages)).sum();
            assert!(used * 100 > blocks as usize * 93, "{class:?} round {round}: {used} blocks");
            assert!(
                plow.core.stock.root_bytes() <= plow.core.stock.root_max(),
                "{} bytes",
                plow.core.stock.root_bytes()
            );
            plow.sync().unwrap();
            plow = Plow::mount(plow.into_nand(), &set).unwrap();
            assert_holds(&mut plow, &model);
            for key in model.keys().step_by(3).cloned().collect::<Vec<_>>() {
                let removed = plow.remove(&key);
                assert!(removed.is_ok(), "{removed:?}");
                model.remove(&key);
            }
            if round == 0 {
                plow.close().unwrap();
                plow = Plow::mount(plow.into_nand(), &set).unwrap();
            }
            assert!(
                plow.core.stock.root_bytes() <= plow.core.stock.root_max(),
                "{} bytes",
                plow.core.stock.root_bytes()
            );
        }
        assert!(maps(&plow) < 200, "{} maps", maps(&plow));
        assert_holds(&mut plow, &model);
    }
}

#[test]
fn a_load_fills_a_chip_of_many_blocks() {
    let set = settings(8, 32, Durability::EverySync);
    let (page, pages, blocks) = MANY;
    let mut plow = Plow::format(chip(page, pages, blocks), &set).unwrap();
    let mut rng = Rng::new(4);
    let model: Model =
        (0..50_000).map(|i| (key(i * 77, 8), rng.next_u64().to_be_bytes().repeat(4))).collect();
    let loaded = plow.load(&mut model.iter().map(|(key, value)| (&key[..], &value[..])));
    assert_eq!(loaded.unwrap(), 50_000);
    assert!(
        maps(&plow) > 0
            && plow.core.stock.levels.iter().map(|level| level.blocks(pages)).sum::<usize>() > 180
    );
    let mut plow = Plow::mount(plow.into_nand(), &set).unwrap();
    assert!(plow.core.stock.root_bytes() * 8 <= page as usize * 3, "{} bytes", plow.core.stock.root_bytes());
    assert_holds(&mut plow, &model);
}

#[test]
fn they_live_through_changes_and_mounts() {
    for (levels, seed) in [(None, 1), (Some(2), 3)].into_iter().take(sized(1, 2)) {
        let set = PlowConfig {
            levels,
            memtable: Some(10),
            ram_bytes: Some(16_000),
            ..settings(8, 64, Durability::EveryOperation)
        };
        let (page, pages, blocks) = MANY;
        let plow = Plow::format(chip(page, pages, blocks), &set).unwrap();
        let plow = live(plow, &set, 24_000, sized(20_000, 30_000), &mut Rng::new(seed));
        assert!(plow.core.stock.space.map().unwrap().extents > 0, "{levels:?}: no map");
    }
}

/// A chip that is filled until a map is due, and an index on it with one more change before it.
fn about_to_write_a_map(set: &PlowConfig) -> (SimChip, Model) {
    let (page, pages, blocks) = MANY;
    let mut plow = Plow::format(chip(page, pages, blocks), set).unwrap();
    let (mut model, mut rng) = (Model::new(), Rng::new(5));
    let mut before = plow.core.medium.nand.clone();
    let mut held = Model::new();
    while maps(&plow) < 2 {
        if model.len() % 300 == 0 {
            plow.sync().unwrap();
            (before, held) = (plow.core.medium.nand.clone(), model.clone());
        }
        let (key, value) = (key(rng.below(1 << 30), 8), rng.next_u64().to_be_bytes().repeat(4));
        plow.insert(&key, &value).unwrap();
        model.insert(key, value);
    }
    (before, held)
}

#[test]
fn a_cut_around_a_map_loses_nothing() {
    for class in [Durability::EveryOperation, Durability::EverySync].into_iter().take(sized(1, 2)) {
        let set = PlowConfig { memtable: Some(12), ..settings(8, 32, class) };
        let (start, held) = about_to_write_a_map(&set);
        // What was put in, and how much of that must be there after a cut.
        let work = |chip: SimChip| {
            let mut plow = Plow::mount(chip, &set).unwrap();
            let (mut put, mut kept, mut rng) = (Vec::new(), 0, Rng::new(6));
            for step in 0..6000 {
                let (key, value) = (key(rng.below(1 << 30), 8), vec![step as u8; 32]);
                put.push((key.clone(), value.clone()));
                let is_kept = class == Durability::EveryOperation || step % 10 == 0;
                if plow.insert(&key, &value).is_err() || is_kept && plow.sync().is_err() {
                    break;
                }
                if is_kept {
                    kept = put.len();
                }
                if maps(&plow) > 0 {
                    break;
                }
            }
            (plow, put, kept)
        };
        let (whole, ..) = work(start.clone());
        assert!(maps(&whole) > 0);
        let last = whole.core.medium.nand.operations();
        // The map pages and the commit page are the last ones.
        for at_operation in last.saturating_sub(14)..last {
            for (i, when) in [CutWhen::Inside, CutWhen::After].into_iter().enumerate() {
                let torn = TornModel::ALL[(i + at_operation as usize) % 4];
                let mut chip = start.clone();
                chip.plan_power_cut(PowerCut { at_operation, when, torn, seed: at_operation });
                let (plow, put, kept) = work(chip);
                let mut chip = plow.into_nand();
                chip.power_on();
                let mut plow = Plow::mount(chip, &set)
                    .unwrap_or_else(|error| panic!("{at_operation} of {last} {when:?} {torn:?}: {error}"));
                let (found, mut expected) = (everything(&mut plow), held.clone());
                expected.extend(put[..kept].iter().cloned());
                let mut rest = put[kept..].iter();
                while found != expected {
                    let (key, value) =
                        rest.next().unwrap_or_else(|| panic!("{at_operation} of {last} {when:?} {torn:?}"));
                    expected.insert(key.clone(), value.clone());
                }
                // The next map comes soon, whatever the cut left.
                for i in 0..40u64 {
                    plow.insert(&key(i << 31, 8), &[7; 32]).unwrap();
                }
                let report = plow.check().unwrap();
                assert!(report.is_sound(), "{:?}", report.violations);
            }
        }
    }
}

#[test]
fn a_damaged_map_is_named() {
    let set = settings(8, 32, Durability::EverySync);
    let (chip, _) = about_to_write_a_map(&set);
    let plow = Plow::mount(chip.clone(), &set).unwrap();
    let pages = plow.core.stock.space.map().unwrap().pages.clone();
    assert!(!pages.is_empty());
    for (page, kind) in
        pages.iter().flat_map(|&page| [Damage::Zeros, Damage::Random, Damage::Ones].map(|kind| (page, kind)))
    {
        let mut chip = chip.clone();
        damage(&mut chip, page, kind, 7);
        let error = Plow::mount(chip, &set).map(|_| ()).unwrap_err();
        assert!(matches!(&error, IndexError::Corrupted { at, .. } if *at == u64::from(page.0)), "{error}");
    }
}

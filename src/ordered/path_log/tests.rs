//! The trees on raw NAND against a `BTreeMap`, with remounts, small chips and every form of their cache.

#[cfg(feature = "full")]
mod boots;
#[cfg(feature = "full")]
mod cuts_in_a_row;
mod left_out;
#[cfg(feature = "full")]
mod levelled;
#[cfg(feature = "full")]
mod room_after_cut;
// Pages wait in RAM from this tier on.
#[cfg(feature = "embedded")]
mod write_part;

use super::ground::{RawScheme, RawTree};
use crate::Nand;
use crate::blocks::victim::VictimPolicy;
use crate::inputs::sized;
use crate::log::{LogConfig, SamePage};
use crate::nand::catalogue::mlc_64m;
use crate::nand::sim::{Faults, SimChip};
use crate::ordered::buffered::Answers;
use crate::ordered::mu::star::Menu;
use crate::ordered::mu::{MuTree, OneLayout, PathPages};
use crate::ordered::wandering::WanderingTree;
use crate::ordered::{OrderedIndex, RawConfig, RecordFormat};
use crate::rng::Rng;
use crate::store::store_nand::StoreNand;
use crate::testing::{Mix, Model, Store, apply, assert_holds, assert_sound};
use alloc::vec;
use alloc::vec::Vec;

const RECORD: RecordFormat = RecordFormat::new(4, 4);

type Ground<T> = <T as core::ops::Deref>::Target;

struct Soak {
    page_bytes: u32,
    keys: u64,
    config: LogConfig,
    journal: usize,
    seed: u64,
    faults: Faults,
}

fn soak<S: RawScheme>(soak: &Soak) {
    let mut part = mlc_64m();
    part.geometry = crate::Geometry::new(soak.page_bytes, 64, 16, 96);
    let chip = SimChip::new(&part).unwrap().with_faults(soak.faults);
    soak_on::<S>(chip, soak);
}

fn soak_on<S: RawScheme>(nand: impl Nand, soak: &Soak) {
    // Victims and journals that the tier has.
    let (victim, journal) = match cfg!(feature = "full") {
        true => (VictimPolicy::ALL[(soak.seed as usize + soak.config.write_pages) % 6], soak.journal),
        false => (VictimPolicy::Greedy, 0),
    };
    let config = LogConfig { victim, ..soak.config };
    let mut tree = RawTree::<_, S>::format_on_log(nand, RECORD, config).unwrap();
    tree.set_journal(journal);
    let (mut model, mut rng) = (Model::new(), Rng::new(soak.seed));
    let mix = Mix { reads: [10, 0], ..Mix::updates(soak.keys, [50, 40], 0) };
    for op in 0..12_000 {
        apply(&mut tree, &mut model, &mix.draw(&mut rng, RECORD), Answers::Exact);
        if op % 500 == 0 {
            assert_sound(&mut tree, &model);
        }
        if op % 3000 == 2999 {
            if op % 2 == 0 {
                tree.close().unwrap();
            } else {
                tree.sync().unwrap();
            }
            tree = RawTree::mount_on_log(tree.into_nand(), RECORD, config).unwrap();
            tree.set_journal(journal);
        }
    }
    assert_holds(&mut tree, &model);
}

/// Pages, keys and caches that the tier has.
fn configs() -> Vec<(u32, u64, LogConfig)> {
    let config = |read_pages, write_pages| LogConfig { read_pages, write_pages, ..LogConfig::default() };
    let mut configs = vec![
        (512, 4000, config(0, 0)),
        (1024, 4000, config(2, 2)),
        (512, 2000, config(4, 1)),
        (512, 2000, config(3, 9)),
    ];
    if !cfg!(feature = "embedded") {
        configs.truncate(1);
    }
    configs
}

#[test]
fn a_mu_tree_is_a_map() {
    for (page_bytes, keys, config) in configs() {
        for seed in 0..3 {
            soak::<PathPages<OneLayout>>(&Soak {
                page_bytes,
                keys,
                config,
                journal: 0,
                seed,
                faults: Faults::default(),
            });
        }
    }
}

#[test]
fn a_mu_star_tree_is_a_map() {
    for (page_bytes, keys, config) in configs() {
        for seed in 0..3 {
            let faults = Faults::default();
            soak::<PathPages<Menu>>(&Soak { page_bytes, keys, config, journal: 0, seed, faults });
        }
    }
}

#[test]
fn a_wandering_tree_is_a_map() {
    for (page_bytes, keys, config) in configs() {
        for journal in [0, 8] {
            soak::<crate::ordered::wandering::OneNodePages>(&Soak {
                page_bytes,
                keys,
                config,
                journal,
                seed: 5,
                faults: Faults::default(),
            });
        }
    }
}

#[test]
fn pages_of_a_store_will_do_for_a_chip() {
    let nand = |page_bytes| {
        let nand = StoreNand::new(Store::new(page_bytes, 16 * 96), 16, 63).unwrap();
        assert_eq!(nand.geometry().page_bytes as usize, page_bytes - 64, "no power of two");
        nand
    };
    let faults = Faults::default();
    for (page_bytes, keys, config) in configs() {
        let soaked = Soak { page_bytes, keys, config, journal: 0, seed: 1, faults };
        soak_on::<PathPages<OneLayout>>(nand(page_bytes as usize), &soaked);
        soak_on::<PathPages<Menu>>(nand(page_bytes as usize), &soaked);
    }
    for (page_bytes, keys, config) in configs() {
        let soaked = Soak { page_bytes, keys, config, journal: 8, seed: 1, faults };
        soak_on::<crate::ordered::wandering::OneNodePages>(nand(page_bytes as usize), &soaked);
    }
}

#[test]
fn failing_blocks_are_replaced() {
    for seed in 0..sized(2, 6) {
        let faults =
            Faults { seed, program_failures_ppm: 200, erase_failures_ppm: 2_000, ..Faults::default() };
        for (page_bytes, keys, config) in configs() {
            let soaked = Soak { page_bytes, keys: keys / 2, config, journal: 0, seed, faults };
            soak::<PathPages<OneLayout>>(&soaked);
            soak::<PathPages<Menu>>(&soaked);
        }
        for (page_bytes, keys, config) in configs() {
            let soaked = Soak { page_bytes, keys: keys / 2, config, journal: 4, seed, faults };
            soak::<crate::ordered::wandering::OneNodePages>(&soaked);
        }
    }
}

/// Reads of one get for each of the keys, and the tree's height.
fn reads_of_gets<S: RawScheme>(same_page: SamePage) -> (Vec<u64>, u64) {
    let mut part = mlc_64m();
    part.geometry = crate::Geometry::new(512, 64, 16, 320);
    let config = RawConfig { same_page, ..RawConfig::new(RECORD) };
    let mut tree = RawTree::<_, S>::format(SimChip::new(&part).unwrap(), &config).unwrap();
    let mut rng = Rng::new(7);
    let keys: Vec<[u8; 4]> = (0..3000).map(|_| (rng.below(1 << 20) as u32).to_be_bytes()).collect();
    for key in &keys {
        tree.insert(key, key).unwrap();
    }
    let height = u64::from(tree.stats().height);
    let mut tree = RawTree::<_, S>::mount(tree.into_nand(), &config).unwrap();
    let mut reads = Vec::new();
    for key in &keys {
        let before = tree.stats().cache_misses;
        assert!(tree.get(key, &mut [0; 4]).unwrap());
        reads.push(tree.stats().cache_misses - before);
    }
    (reads, height)
}

#[test]
fn a_child_in_the_page_at_hand_is_free_or_a_read() {
    for reads_of in [reads_of_gets::<PathPages<OneLayout>>, reads_of_gets::<PathPages<Menu>>] {
        let (reads, height) = reads_of(SamePage::Read);
        assert!(height >= 3 && reads.iter().all(|&n| n == height), "{height}: {reads:?}");
        let (reads, height) = reads_of(SamePage::Free);
        assert!(reads.iter().all(|&n| n <= height) && reads.contains(&1), "{height}: {reads:?}");
    }
}

#[test]
fn updates_read_each_level_too_if_asked() {
    let mut part = mlc_64m();
    part.geometry = crate::Geometry::new(512, 64, 16, 320);
    let reads = |same_page: SamePage| {
        let config = RawConfig { same_page, ..RawConfig::new(RECORD) };
        let mut tree = MuTree::format(SimChip::new(&part).unwrap(), &config).unwrap();
        for key in 0..2000u32 {
            tree.insert(&key.to_be_bytes(), &[1; 4]).unwrap();
        }
        let (before, height) = (tree.stats().cache_misses, u64::from(tree.stats().height));
        for _ in 0..10 {
            tree.insert(&1999u32.to_be_bytes(), &[2; 4]).unwrap();
        }
        (tree.stats().cache_misses - before, height)
    };
    let (read, height) = reads(SamePage::Read);
    assert!(height >= 3);
    assert_eq!(read, 10 * height);
    // The path of the last update lies in one page.
    assert_eq!(reads(SamePage::Free).0, 10);
}

#[test]
fn one_kind_does_not_mount_as_another() {
    let chip = SimChip::new(&mlc_64m()).unwrap();
    let chip =
        <Ground<MuTree<SimChip>>>::format_on_log(chip, RECORD, LogConfig::default()).unwrap().into_nand();
    assert!(
        <Ground<WanderingTree<SimChip>>>::mount_on_log(chip.clone(), RECORD, LogConfig::default()).is_err()
    );
    assert!(
        <Ground<MuTree<SimChip>>>::mount_on_log(chip.clone(), RecordFormat::new(8, 4), LogConfig::default())
            .is_err()
    );
    assert!(<Ground<MuTree<SimChip>>>::mount_on_log(chip, RECORD, LogConfig::default()).is_ok());
}

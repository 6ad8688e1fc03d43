//! A dying chip refuses a batch half-way: nothing of it is done and everything reads, or all of it is there.

#![allow(clippy::unwrap_used)]

use nandex::nand::catalogue::nor_2m;
use nandex::nand::sim::{Faults, SimChip};
use nandex::ordered::vm::overwrite::{OverwriteConfig, OverwriteTree};
use nandex::ordered::{Change, Durability, RecordFormat};
use nandex::rng::Rng;
use nandex::{IndexError, OrderedIndex, Shared};
use std::collections::BTreeMap;

type Chip = Shared<SimChip>;
type Model = BTreeMap<[u8; 4], [u8; 8]>;

/// Keys drawn from.
const KEYS: u64 = 400;

fn chip() -> Chip {
    let mut part = nor_2m();
    part.geometry.blocks = 40;
    Shared::new(SimChip::new(&part).unwrap())
}

fn failing(chip: &Chip, rate: u32, seed: u64) {
    let faults = Faults { program_failures_ppm: rate, erase_failures_ppm: rate, seed, ..Faults::default() };
    chip.lock().set_faults(faults);
}

/// Whether the tree holds this and nothing else; every key answers.
fn compare(tree: &mut OverwriteTree<Chip>, model: &Model, when: &str) {
    let mut value = [0; 8];
    for key in 0..KEYS as u32 {
        let key = key.to_be_bytes();
        let found = tree.get(&key, &mut value).unwrap_or_else(|error| panic!("{when}: get: {error}"));
        assert_eq!(found.then_some(value), model.get(&key).copied(), "{when}: key {key:?}");
    }
}

fn apply(model: &mut Model, changes: &[([u8; 4], Option<[u8; 8]>)]) {
    for &(key, value) in changes {
        match value {
            Some(value) => drop(model.insert(key, value)),
            None => drop(model.remove(&key)),
        }
    }
}

/// Lives until the chip refuses twenty changes; how many batches were refused.
fn live(seed: u64, config: &OverwriteConfig) -> u32 {
    let (chip, mut rng, mut model) = (chip(), Rng::new(seed), Model::new());
    let mut tree = OverwriteTree::format(chip.clone(), config).unwrap();
    let (mut rate, mut refused) = (200, 0);
    for number in 0..4_000u64 {
        if number % 60 == 0 {
            rate = (rate + rate / 3 + 200).min(600_000);
            failing(&chip, rate, rng.next_u64());
        }
        let count = [1, 2, 5, 12][rng.below(4) as usize];
        let changes: Vec<([u8; 4], Option<[u8; 8]>)> = (0..count)
            .map(|_| {
                let key = (rng.below(KEYS) as u32).to_be_bytes();
                (key, rng.chance(4, 5).then(|| number.to_be_bytes()))
            })
            .collect();
        let batch: Vec<Change<'_>> = changes
            .iter()
            .map(|(key, value)| match value {
                Some(value) => Change::put(key, value),
                None => Change::remove(key),
            })
            .collect();
        match tree.apply(&batch) {
            Ok(()) => apply(&mut model, &changes),
            Err(IndexError::WornOut | IndexError::Full) => {
                refused += 1;
                compare(&mut tree, &model, &format!("seed {seed}, after refusal {refused}"));
            }
            Err(error) => panic!("seed {seed}, batch {number}: {error}"),
        }
        if refused == 20 {
            break;
        }
    }
    compare(&mut tree, &model, &format!("seed {seed}, at the end"));
    failing(&chip, 0, 1);
    let mut tree = OverwriteTree::mount(chip, config).unwrap();
    compare(&mut tree, &model, &format!("seed {seed}, after a mount"));
    assert!(tree.check().unwrap().is_sound(), "seed {seed}");
    refused
}

#[test]
fn what_a_dying_chip_refuses_half_way_is_not_done_and_all_is_read() {
    let plain = OverwriteConfig::new(RecordFormat::new(4, 8));
    let buffered = OverwriteConfig { durability: Durability::EverySync, log_pages: 1, ..plain };
    for config in [plain, buffered] {
        let refused: u32 = (0..20).map(|seed| live(seed, &config)).sum();
        assert!(refused > 100, "{refused} batches were refused");
    }
}

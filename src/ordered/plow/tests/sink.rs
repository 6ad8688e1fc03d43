//! Records that sink to the last level at once, and older versions of them in sealed pages.

use super::*;

/// Mostly ascending keys, with changes of recent ones and some far below. After each operation a copy of the
/// chip is mounted.
fn every_mount_finds_the_newest(memtable: usize, seed: u64) -> (u64, usize) {
    let set = PlowConfig {
        memtable: Some(memtable),
        levels: Some(2),
        ..settings(4, 49, Durability::EveryOperation)
    };
    let mut plow = Plow::format(chip(512, 8, 48), &set).unwrap();
    let (mut rng, mut model) = (Rng::new(seed), Model::new());
    let (mut next, mut most_sealed, mut sunk) = (1000, 0, 0);
    for i in 0..400u32 {
        let number = match rng.below(if seed.is_multiple_of(2) { 16 } else { 60 }) {
            0..3 => rng.below(1000),
            3..8 if next > 1000 => next - 1 - rng.below((next - 1000).min(12)),
            _ => next,
        };
        next += u64::from(number == next);
        let (key, mut value) = (key(number, 4), vec![7; 49]);
        value[..4].copy_from_slice(&i.to_le_bytes());
        if number + 1 < next && rng.chance(1, 8) {
            plow.remove(&key).unwrap();
            model.remove(&key);
        } else {
            plow.put(&key, &value).unwrap();
            model.insert(key, value);
        }
        most_sealed = most_sealed.max(plow.core.stock.commits.sealed.len());
        let mut again = Plow::mount(plow.core.medium.nand.clone(), &set).unwrap();
        assert!(everything(&mut again) == model, "seed {seed}, operation {i}, {number}");
        if rng.chance(1, 20) {
            sunk += u64::from(plow.core.counters.sunk);
            plow = again;
        }
    }
    (sunk + u64::from(plow.core.counters.sunk), most_sealed)
}

#[test]
fn no_older_version_in_a_sealed_page_comes_back() {
    let (mut sunk, mut sealed) = (0, 0);
    for seed in 0..inputs::sized(9, 24) {
        let found = every_mount_finds_the_newest([12, 20, 40][seed as usize % 3], seed);
        (sunk, sealed) = (sunk + found.0, sealed.max(found.1));
    }
    assert!(sunk > inputs::sized(40, 100) && sealed > 1, "{sunk} pages, {sealed} sealed ones");
}

//! Levels that are left out while records go on to change.

use super::super::drain::Drain;
use super::*;

/// A part with pages of 512 bytes, records of 4 + 4 bytes, and `gets` look-ups in 100 operations.
struct Case {
    keys: u64,
    ram: usize,
    gets: u64,
    /// Levels before and after.
    levels: [usize; 2],
}

#[test]
fn a_level_is_left_out_while_records_change() {
    let cases = [
        Case { keys: 65_536, ram: 9_000, gets: 95, levels: [3, 2] },
        Case { keys: 20_000, ram: 9_100, gets: 95, levels: [3, 1] },
        Case { keys: 3000, ram: 8_800, gets: 80, levels: [2, 1] },
    ];
    // The case of most keys takes longest.
    for Case { keys, ram, gets, levels } in cases.into_iter().skip(inputs::sized(1, 0)) {
        let set = settings(4, 4, Durability::EverySync);
        let set = PlowConfig { ram_bytes: Some(ram), answers: Answers::Pool, ..set };
        let (mut plow, mut rng) = (Plow::format(chip(512, 32, 256), &set).unwrap(), Rng::new(1));
        let put = |plow: &mut Plow<SimChip>, rng: &mut Rng| {
            let key = ((rng.below(keys) << 32) / keys) as u32;
            plow.put(&key.to_be_bytes(), &key.to_le_bytes()).unwrap();
        };
        (0..2 * keys).for_each(|_| put(&mut plow, &mut rng));
        assert_eq!(plow.core.stock.levels.len(), levels[0], "{keys} keys");
        // Steps of the last level since one above it was to go, and how many there were of a whole sweep.
        let (mut since, mut sweeps, mut value) = (None, 0, [0; 4]);
        for i in 0..100_000u64 {
            if rng.below(100) < gets {
                let key = ((rng.below(keys) << 32) / keys) as u32;
                if plow.get(&key.to_be_bytes(), &mut value).unwrap() {
                    assert_eq!(value, key.to_le_bytes());
                }
            } else {
                put(&mut plow, &mut rng);
            }
            if i % 100 == 0 {
                plow.sync().unwrap();
            }
            let last = plow.core.stock.levels.len() - 1;
            let steps = plow.core.counters.steps[last];
            since = since
                .filter(|&(of, _)| of == last && plow.core.stock.levels.drain != Drain::Off)
                .or(Some((last, steps)));
            let (_, from) = since.unwrap_or_default();
            sweeps = sweeps.max((steps - from) * 100 / plow.core.stock.levels[last].pages() as u64);
        }
        assert!((50..250).contains(&sweeps), "{keys} keys: it took {sweeps} % of a sweep");
        assert_eq!(plow.core.stock.levels.len(), levels[1], "{keys} keys");
    }
}

#[test]
fn changes_sweep_no_empty_level_after_look_ups() {
    // Where the two sweeps stand when the first level is empty follows from the load.
    for keys in [10_000u64, 10_700, 12_100] {
        let set = settings(4, 4, Durability::EverySync);
        let set = PlowConfig { ram_bytes: Some(24_000), answers: Answers::Pool, ..set };
        let (mut plow, mut rng) = (Plow::format(chip(512, 32, 128), &set).unwrap(), Rng::new(keys));
        let mut model = Model::new();
        let mut put = |plow: &mut Plow<SimChip>, by: u32| {
            let key = ((rng.below(keys) << 32) / keys) as u32;
            plow.put(&key.to_be_bytes(), &(key + by).to_le_bytes()).unwrap();
            model.insert(key.to_be_bytes().to_vec(), (key + by).to_le_bytes().to_vec());
        };
        (0..2 * keys).for_each(|_| put(&mut plow, 0));
        plow.sync().unwrap();
        let is_drained = |plow: &Plow<SimChip>| {
            let levels = &plow.core.stock.levels;
            levels.len() == 1 || levels[0].pages() == 0
        };
        assert!(!is_drained(&plow), "{keys} keys");
        let (mut looked, mut value) = (0, [0; 4]);
        while !is_drained(&plow) && looked < 100_000 {
            let key = (((looked % keys) << 32) / keys) as u32;
            plow.get(&key.to_be_bytes(), &mut value).unwrap();
            looked += 1;
        }
        assert!(is_drained(&plow), "{keys} keys");
        let steps = |plow: &Plow<SimChip>| plow.core.counters.steps.iter().sum::<u64>();
        let before = steps(&plow);
        (0..400).for_each(|_| put(&mut plow, 1));
        let made = steps(&plow) - before;
        assert!(made <= 8, "{keys} keys: {made} steps, though the memtable has room");
        plow.sync().unwrap();
        assert_holds(&mut Plow::mount(plow.into_nand(), &set).unwrap(), &model);
    }
}

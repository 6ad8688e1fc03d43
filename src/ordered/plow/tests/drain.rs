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

//! Lives on chips that fail: programs, erases and reads, blocks bad from the beginning, cuts in a row, stores
//! that are full. After each mount every key is looked up.

use super::{State, held};
use crate::check::IndexError;
use crate::nand::catalogue::mlc_with;
use crate::nand::sim::{CutWhen, Faults, PowerCut, SimChip, TornModel};
use crate::nand::{Geometry, NandError, Part};
use crate::ordered::furrow::{Furrow, FurrowConfig};
use crate::ordered::{Change, Durability, OrderedIndex, RecordFormat};
use crate::rng::Rng;
use crate::shared::Shared;
use crate::store::StoreError;
use alloc::vec::Vec;

/// Operations of a life.
const OPS: u64 = 400;
/// Refusals in a row after which nothing more is tried.
const DEAD: u32 = 20;

struct Life {
    chip: Shared<SimChip>,
    config: FurrowConfig,
    index: Option<Furrow<Shared<SimChip>>>,
    rng: Rng,
    /// States that a mount may find, the newest last.
    states: Vec<State>,
    keys: u64,
    refused: u32,
    fails: bool,
}

fn is_lost(error: &IndexError) -> bool {
    matches!(error, IndexError::Store(StoreError::Nand(NandError::PowerLost)))
}

/// A chip of some blocks, of the kind and with the failures that the seed says.
fn chip(rng: &mut Rng) -> (SimChip, bool) {
    let blocks = [2, 2, 3, 4, 6, 9, 12][rng.below(7) as usize];
    let plain = mlc_with(256, [4, 6, 9][rng.below(3) as usize], blocks);
    let geometry = match rng.below(3) {
        0 => plain.geometry,
        1 => plain.geometry.with_append_bytes(8),
        _ => plain.geometry.with_programs_per_page_max(Geometry::ANY_PROGRAMS),
    };
    let chip = SimChip::new(&Part { geometry, ..plain }).unwrap();
    let chip = if rng.chance(1, 4) && blocks > 4 { chip.with_factory_bad_blocks(200_000, 7) } else { chip };
    let rate = [0, 0, 1_000, 10_000, 40_000];
    let mut draw = || rate[rng.below(rate.len() as u64) as usize];
    let (program_failures_ppm, erase_failures_ppm, read_failures_ppm) = (draw(), draw(), draw());
    let weak_reads_ppm = draw();
    let faults = Faults {
        seed: rng.next_u64(),
        program_failures_ppm,
        erase_failures_ppm,
        read_failures_ppm,
        read_failures_in_row: 2,
        weak_reads_ppm,
        ..Faults::default()
    };
    (chip.with_faults(faults), program_failures_ppm + erase_failures_ppm > 0)
}

impl Life {
    /// A store on a chip of the seed, if the chip takes one.
    fn begin(seed: u64) -> Option<Life> {
        let mut rng = Rng::new(seed);
        let (chip, fails) = chip(&mut rng);
        let chip = Shared::new(chip);
        let class = [Durability::EveryOperation, Durability::EverySync][rng.below(2) as usize];
        let config = FurrowConfig { durability: class, ..FurrowConfig::new(RecordFormat::new(8, 8)) };
        let config = FurrowConfig { prefix_bytes: [None, Some(3), Some(8)][rng.below(3) as usize], ..config };
        let index = Furrow::format(chip.clone(), &config).ok()?;
        let most = index.records_max().unwrap();
        let keys = [6, most / 2 + 1, most + 3][rng.below(3) as usize];
        let states = alloc::vec![State::new()];
        Some(Life { chip, config, index: Some(index), rng, states, keys, refused: 0, fails })
    }

    fn now(&self) -> State {
        self.states.last().unwrap().clone()
    }

    /// Judges the end of an operation: done, refused, or nobody knows, and the store is mounted.
    fn ended(&mut self, done: Result<(), IndexError>, after: State, is_durable: bool) {
        let keeps_all = is_durable || self.config.durability == Durability::EveryOperation;
        match done {
            Ok(()) => {
                self.refused = 0;
                self.states.push(after);
                if keeps_all {
                    self.states.drain(..self.states.len() - 1);
                }
            }
            Err(error) if error.is_refusal() => {
                assert!(self.fails || error.is_full(), "{error} of a chip that never failed");
                self.refused += 1;
            }
            Err(error) => {
                assert!(is_lost(&error), "{error}");
                self.states.push(after);
                self.mount();
            }
        }
    }

    /// Switches the power on and mounts, with cuts in the changes after it.
    fn mount(&mut self) {
        drop(self.index.take());
        self.chip.lock().power_on();
        let mut index = Furrow::mount(self.chip.clone(), &self.config).unwrap();
        let found = held(&mut index);
        assert!(self.states.contains(&found), "{found:?} is none of {:?}", self.states);
        self.states = alloc::vec![found];
        self.index = Some(index);
        self.look();
    }

    /// Every key is there with its value, or is not.
    fn look(&mut self) {
        let state = self.now();
        let index = self.index.as_mut().unwrap();
        assert_eq!(held(index), state);
        for key in 0..self.keys {
            let mut value = [0; 8];
            let found = index.get(&key.to_be_bytes(), &mut value).unwrap();
            assert_eq!(found.then_some(u64::from_be_bytes(value)), state.get(&key).copied(), "{key}");
        }
        assert!(index.check().unwrap().is_sound());
    }

    fn plan_cut(&mut self) {
        let most = [3, 12, 60][self.rng.below(3) as usize];
        let after = self.rng.below(most);
        let at = self.chip.lock().operations() + after;
        let when = [CutWhen::Before, CutWhen::Inside, CutWhen::After][self.rng.below(3) as usize];
        let torn = TornModel::ALL[self.rng.below(4) as usize];
        let seed = self.rng.next_u64();
        self.chip.lock().plan_power_cut(PowerCut { seed, ..PowerCut::new(at, when, torn) });
    }

    fn put_or_remove(&mut self) {
        let mut after = self.now();
        let group = if self.rng.chance(1, 6) { 2 + self.rng.below(2) } else { 1 };
        let changes: Vec<(u64, Option<u64>)> = (0..group)
            .map(|_| {
                let value = self.rng.next_u64();
                (self.rng.below(self.keys), (!self.rng.chance(1, 4)).then_some(value))
            })
            .collect();
        for &(key, value) in &changes {
            match value {
                Some(value) => after.insert(key, value),
                None => after.remove(&key),
            };
        }
        let bytes: Vec<_> =
            changes.iter().map(|(key, value)| (key.to_be_bytes(), value.map(u64::to_be_bytes))).collect();
        let batch: Vec<_> = bytes
            .iter()
            .map(|(key, value)| Change { key, value: value.as_ref().map(|value| &value[..]) })
            .collect();
        let done = self.index.as_mut().unwrap().apply(&batch);
        self.ended(done, after, false);
    }

    fn step(&mut self) {
        let now = self.now();
        let index = self.index.as_mut().unwrap();
        match self.rng.below(60) {
            0 => self.mount(),
            1..4 => self.plan_cut(),
            4 | 5 => {
                let done = index.sync();
                self.ended(done, now, true);
            }
            6 => {
                let done = index.close();
                self.ended(done, now, true);
            }
            7 => {
                let done = index.scrub(7).map(drop);
                self.ended(done, now, false);
            }
            8 => {
                let done = index.maintain(1).map(drop);
                self.ended(done, now, false);
            }
            9 => self.look(),
            _ => self.put_or_remove(),
        }
    }

    fn live(mut self) {
        for _ in 0..OPS {
            self.step();
            if self.refused > DEAD {
                break;
            }
        }
        self.chip.lock().power_on();
        self.look();
        self.mount();
        self.chip.lock().set_faults(Faults::default());
        self.mount();
    }
}

#[test]
fn a_life_on_a_failing_chip_loses_nothing() {
    for seed in 0..300 {
        let life = Life::begin(seed);
        let lived = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| life.map(Life::live)));
        assert!(lived.is_ok(), "seed {seed}");
    }
}

//! A log of values beside an index that is older than it, and one of which pages are older ones: each value
//! is the one that the index was told of, or an error, and never put together of two.

#![allow(clippy::unwrap_used)]

use crate::inputs::sized;
use nandex::nand::Geometry;
use nandex::nand::catalogue::mlc_with;
use nandex::nand::sim::SimChip;
use nandex::ordered::value_log::{self, ValueLog};
use nandex::ordered::{Direction, RawConfig, RecordFormat};
use nandex::rng::Rng;
use nandex::units::Ppn;
use nandex::{Durability, IndexError, MuTree, Nand, OrderedIndex, Plow, PlowConfig, Shared};
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

/// On any index and any chip, so that the log is compiled for one.
type Values = ValueLog<Box<dyn OrderedIndex>, Box<dyn Nand>>;
/// The number of the value that each key has.
type Model = BTreeMap<Vec<u8>, u32>;

/// Chips, records and values that a seed draws.
struct Life {
    seed: u64,
    record: RecordFormat,
    geometry: Geometry,
    log_blocks: u32,
    value_bytes: usize,
    keys: u64,
    /// Whether the index has room for the mark of a value of one chunk.
    is_every_value_marked: bool,
}

/// An index and a log at some time, and what they hold.
struct Then {
    keys: Vec<u8>,
    log: Vec<u8>,
    model: Model,
}

impl Life {
    fn draw(seed: u64) -> Life {
        let mut rng = Rng::new(seed);
        let page_bytes = 256 << rng.below(4);
        let pages_per_block = [2, 4, 16][rng.below(3) as usize];
        let short = [8, 11, 12, 30][rng.below(4) as usize];
        let share = [1, 2, 4, 5, 7, 11][rng.below(6) as usize];
        Life {
            seed,
            record: value_log::record(2 + rng.below(12) as u8, short),
            geometry: Geometry::new(page_bytes, 64, pages_per_block, 64),
            log_blocks: 7 + rng.below(8) as u32,
            // Such that values begin anywhere in a page, or are some to a page of them.
            value_bytes: (page_bytes as usize * share / 4).saturating_sub(rng.below(60) as usize).max(40),
            keys: 2 + rng.below(5),
            is_every_value_marked: short >= 12,
        }
    }

    fn key(&self, number: u64) -> Vec<u8> {
        vec![number as u8; 1 + number as usize % 2]
    }

    /// A value that tells in each of its words which it is.
    fn value(&self, number: u32) -> Vec<u8> {
        number.to_be_bytes().into_iter().cycle().take(self.value_bytes).collect()
    }

    fn chip(&self, blocks: u32) -> SimChip {
        let Geometry { page_bytes, pages_per_block, .. } = self.geometry;
        let mut part = mlc_with(page_bytes, pages_per_block, blocks);
        part.geometry = Geometry { blocks, ..self.geometry };
        SimChip::new(&part).unwrap()
    }

    fn open(&self, [keys, log]: &[Shared<SimChip>; 2], is_new: bool) -> Result<Values, IndexError> {
        let [keys, log] = [keys, log].map(|chip| Box::new(chip.clone()) as Box<dyn Nand>);
        let record = self.record;
        let config = RawConfig { durability: Durability::EverySync, ..RawConfig::new(record) };
        let plow = PlowConfig::new(record);
        let index: Box<dyn OrderedIndex> = match (self.seed % 2, is_new) {
            (0, true) => Box::new(MuTree::format(keys, &config)?),
            (0, false) => Box::new(MuTree::mount(keys, &config)?),
            (_, true) => Box::new(Plow::format(keys, &plow)?),
            (_, false) => Box::new(Plow::mount(keys, &plow)?),
        };
        ValueLog::new(index, log, self.value_bytes)
    }

    fn put(&self, values: &mut Values, model: &mut Model, rng: &mut Rng, number: &mut u32) {
        *number += 1;
        let key = self.key(rng.below(self.keys));
        match values.put(&key, &self.value(*number)) {
            Ok(()) => drop(model.insert(key, *number)),
            Err(IndexError::Full(_)) => {}
            Err(error) => panic!("seed {}: put: {error}", self.seed),
        }
    }

    /// The number of a value that is whole.
    fn number_of(&self, value: &[u8]) -> Option<u32> {
        let number = u32::from_be_bytes(value.get(..4)?.try_into().unwrap());
        (self.value(number) == value).then_some(number)
    }

    /// The first fault among the keys' values where `model` was there: by look-ups, and by ranges.
    fn wrong(&self, values: &mut Values, model: &Model, met: &mut Met) -> Option<String> {
        let mut found = Vec::new();
        for key in model.keys() {
            match values.get(key) {
                Ok(Some(value)) => found.push((key.clone(), value)),
                Ok(None) => return Some(format!("{key:?} is gone")),
                Err(IndexError::Corrupted { .. }) => met.told += 1,
                Err(error) => return Some(format!("{key:?}: {error}")),
            }
        }
        for direction in [Direction::Ascending, Direction::Descending] {
            // Up to what is told.
            let _ = values.range(Bound::Unbounded, Bound::Unbounded, direction, &mut |key, value| {
                found.push((key.to_vec(), value.to_vec()));
                ControlFlow::Continue(())
            });
        }
        for (key, value) in found {
            let Some(number) = self.number_of(&value) else {
                return Some(format!("{key:?} has what was never there"));
            };
            if self.is_every_value_marked || self.chunks_min() > 1 {
                if model.get(&key) != Some(&number) {
                    return Some(format!("{key:?} has {number}, not {:?}", model.get(&key)));
                }
                met.held += 1;
            }
        }
        None
    }

    /// Chunks of a value at least.
    fn chunks_min(&self) -> usize {
        self.value_bytes.div_ceil(self.geometry.page_bytes as usize - 9 - 1)
    }
}

/// Values that were told to be lost, and those that were there.
#[derive(Default)]
struct Met {
    told: u32,
    held: u32,
}

/// A life, and what the chips were at times of it.
fn live(life: &Life) -> Option<Vec<Then>> {
    let mut rng = Rng::new(life.seed);
    let chips = [life.chip(64), life.chip(life.log_blocks)].map(Shared::new);
    let mut values = life.open(&chips, true).ok()?;
    let (mut model, mut number, mut times) = (Model::new(), 0, Vec::new());
    for _ in 0..12 {
        for _ in 0..1 + rng.below(40) {
            life.put(&mut values, &mut model, &mut rng, &mut number);
        }
        values.close().unwrap_or_else(|error| panic!("seed {}: close: {error}", life.seed));
        let [keys, log] = chips.each_ref().map(|chip| chip.lock().to_image());
        times.push(Then { keys, log, model: model.clone() });
    }
    Some(times)
}

fn chips(keys: &[u8], log: &[u8]) -> [Shared<SimChip>; 2] {
    [keys, log].map(|image| Shared::new(SimChip::from_image(image).unwrap()))
}

/// Lives drawn, fewer in the gate.
const SEEDS: u64 = 400;

#[test]
fn an_older_index_names_older_values_or_none() {
    let (mut met, mut wrong) = (Met::default(), Vec::new());
    for life in (0..sized(130, SEEDS)).map(Life::draw) {
        let Some(times) = live(&life) else { continue };
        let (newest, older) = times.split_last().unwrap();
        for then in older {
            let Ok(mut values) = life.open(&chips(&then.keys, &newest.log), false) else { continue };
            let mut found = life.wrong(&mut values, &then.model, &mut met);
            // Cleaning moves what is there: another key is changed until all blocks were filled.
            let value = vec![0; life.value_bytes];
            let pages = life.log_blocks * life.geometry.pages_per_block;
            let puts = pages as usize * life.geometry.page_bytes as usize / life.value_bytes;
            let _ = (0..puts).try_for_each(|_| values.put(&[0xff], &value));
            found = found.or_else(|| {
                values.remove(&[0xff]).ok()?;
                life.wrong(&mut values, &then.model, &mut met)
            });
            wrong.extend(found.map(|what| format!("seed {}: {what}", life.seed)));
        }
    }
    assert!(
        wrong.is_empty(),
        "{}
{} are wrong",
        wrong[..wrong.len().min(20)].join(
            "
"
        ),
        wrong.len()
    );
    let few = sized(300, 1_000);
    assert!(met.told > few && met.held > few, "{} told, {} held", met.told, met.held);
}

#[test]
fn an_older_page_of_the_log_is_told() {
    let (mut met, mut wrong) = (Met::default(), Vec::new());
    for life in (0..sized(130, SEEDS)).map(Life::draw) {
        let Some(times) = live(&life) else { continue };
        let (newest, older) = times.split_last().unwrap();
        let mut rng = Rng::new(life.seed);
        for then in older {
            let both = chips(&newest.keys, &newest.log);
            let before = SimChip::from_image(&then.log).unwrap();
            for page in (0..life.log_blocks * life.geometry.pages_per_block).map(Ppn) {
                let mut now = both[1].lock();
                if let Some(stored) = before.stored_page(page).filter(|_| !now.is_erased(page))
                    && rng.chance(1, 3)
                {
                    now.damage_page(page, &stored);
                }
            }
            let Ok(mut values) = life.open(&both, false) else { continue };
            let found = life.wrong(&mut values, &newest.model, &mut met);
            wrong.extend(found.map(|what| format!("seed {}: {what}", life.seed)));
        }
    }
    assert!(
        wrong.is_empty(),
        "{}
{} are wrong",
        wrong[..wrong.len().min(20)].join(
            "
"
        ),
        wrong.len()
    );
    let few = sized(300, 1_000);
    assert!(met.told > few && met.held > few, "{} told, {} held", met.told, met.held);
}

//! Full loads of every index on small chips: an index with the largest load can be emptied, and an emptied
//! one takes a load again.
#![allow(clippy::unwrap_used)]

use crate::sizes::sized;
use nandex::nand::catalogue::mlc_with;
use nandex::nand::sim::SimChip;
use nandex::ordered::Durability;
use nandex::rng::Rng;
use nandex::{Geometry, IndexError, OrderedIndex, RecordFormat};
use nandex_stacks::options::Settings;
use nandex_stacks::registry::{Hosting, INDEXES, IndexEntry, STORES};

const CLASSES: [Durability; 3] = [Durability::EveryOperation, Durability::EverySync, Durability::None];
/// Number of chips drawn for each index. The gate stops at the first that the index takes.
const SEEDS: u64 = 4;
/// An index of ascending keys takes no key again.
const APPENDED: &str = "sbits";

/// The chip and settings that are drawn from a seed.
struct Drawn {
    what: String,
    entry: &'static IndexEntry,
    geometry: Geometry,
    settings: Settings,
    rng: Rng,
}

impl Drawn {
    fn new(entry: &'static IndexEntry, seed: u64) -> Drawn {
        let mut rng = Rng::new(seed);
        let mut pick = |of: &[u32]| of[rng.below(of.len() as u64) as usize];
        let geometry = Geometry::new(pick(&[512, 512, 1024]), 64, pick(&[4, 8]), pick(&[20, 32, 48]));
        let record =
            RecordFormat { key_bytes: pick(&[4, 8, 16]) as u8, value_bytes: pick(&[4, 30, 70]) as u8 };
        let durability = CLASSES[pick(&[0, 1, 2]) as usize];
        let ram_bytes = [None, None, Some(40_000), Some(200_000)][pick(&[0, 1, 2, 3]) as usize];
        let mut settings = Settings { durability, ram_bytes, ..Settings::new(record) };
        if entry.hosting == Hosting::Store {
            settings = settings.with("ftl", STORES[rng.below(STORES.len() as u64) as usize].name);
        }
        let what = format!("{}, seed {seed}: {geometry:?}, {settings:?}", entry.name);
        Drawn { what, entry, geometry, settings, rng }
    }

    /// An index on a new chip; `None` if it refuses the chip.
    fn format(&self) -> Option<Box<dyn OrderedIndex>> {
        let Geometry { page_bytes, pages_per_block, blocks, .. } = self.geometry;
        let part = self.entry.suited(mlc_with(page_bytes, pages_per_block, blocks));
        let chip = SimChip::new(&part).ok()?;
        match (self.entry.format)(Box::new(chip), &self.settings) {
            Ok(index) => Some(index),
            Err(error) if error.is_unsupported() => None,
            Err(error) => panic!("{}: format: {error}", self.what),
        }
    }

    fn key(&self, number: u32) -> Vec<u8> {
        let mut key = vec![0; self.settings.record.key_bytes.into()];
        key[..4].copy_from_slice(&number.to_be_bytes());
        key
    }

    fn value(&self, number: u32) -> Vec<u8> {
        vec![number as u8 | 1; self.settings.record.value_bytes.into()]
    }

    fn load(&self, index: &mut dyn OrderedIndex, records: u32) -> Result<u64, IndexError> {
        let all: Vec<_> = (0..records).map(|number| (self.key(number), self.value(number))).collect();
        index.load(&mut all.iter().map(|(key, value)| (&key[..], &value[..])))
    }

    fn require(&self, index: &mut dyn OrderedIndex, records: u32) -> Result<(), String> {
        let report = index.check().map_err(|error| format!("check: {error}"))?;
        if !report.violations.is_empty() || report.records != u64::from(records) {
            return Err(format!("{records} records were loaded: {report:?}"));
        }
        let mut value = self.value(0);
        for number in 0..records {
            if index.get(&self.key(number), &mut value) != Ok(true) || value != self.value(number) {
                return Err(format!("record {number} of {records} is lost"));
            }
        }
        Ok(())
    }

    /// Inserts until refused, removes all records in random order and inserts again. Returns `None` if the
    /// chip is refused.
    fn run(&mut self) -> Option<Result<(), String>> {
        let RecordFormat { key_bytes, value_bytes } = self.settings.record;
        let bytes = u64::from(key_bytes) + u64::from(value_bytes);
        let mut records = (self.geometry.data_bytes() / bytes) as u32;
        let mut index = self.format()?;
        loop {
            match self.load(&mut *index, records) {
                Ok(_) => break,
                Err(IndexError::Full(_)) if records > 0 => {
                    (index, records) = (self.format()?, records * 9 / 10);
                }
                Err(error) => return Some(Err(format!("a load of {records}: {error}"))),
            }
        }
        Some(self.empty_and_load_again(&mut *index, records))
    }

    fn empty_and_load_again(&mut self, index: &mut dyn OrderedIndex, records: u32) -> Result<(), String> {
        self.require(index, records)?;
        let mut keys: Vec<u32> = (0..records).collect();
        self.rng.shuffle(&mut keys);
        for (done, &number) in keys.iter().enumerate() {
            let removed = index.remove(&self.key(number));
            if !matches!(removed, Ok(true)) {
                return Err(format!("removal {done} of {records}: {removed:?}"));
            }
        }
        self.require(index, 0)?;
        let fewer = records / 4 + 1;
        let loaded = self.load(index, fewer);
        if loaded != Ok(u64::from(fewer)) {
            return Err(format!("a load of {fewer} where {records} had been removed: {loaded:?}"));
        }
        self.require(index, fewer)
    }
}

#[test]
fn the_largest_load_can_be_removed_and_another_be_loaded() {
    let mut wrong = Vec::new();
    for entry in INDEXES.iter().filter(|entry| entry.name != APPENDED) {
        let mut taken = 0;
        for seed in 0..SEEDS {
            if taken == sized(1, SEEDS) {
                break;
            }
            let mut drawn = Drawn::new(entry, seed);
            let done = drawn.run();
            taken += u64::from(done.is_some());
            wrong.extend(done.and_then(Result::err).map(|why| format!("{}: {why}", drawn.what)));
        }
        assert!(taken > 0, "{}: no chip was taken", entry.name);
    }
    assert!(wrong.is_empty(), "{}\n{} are wrong", wrong.join("\n"), wrong.len());
}

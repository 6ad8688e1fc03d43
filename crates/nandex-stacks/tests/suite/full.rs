//! Full chips: every index takes changes of the keys it holds for as long as wished, takes records again
//! after others were removed, and always finds room to remove, with mounts in between.
#![allow(clippy::unwrap_used)]

use crate::sizes::{sized, stride};
use nandex::nand::sim::SimChip;
use nandex::nand::{Part, catalogue};
use nandex::ordered::{Change, Durability, RecordFormat};
use nandex::rng::Rng;
use nandex::{Geometry, IndexError, OrderedIndex, Shared};
use nandex_stacks::options::Settings;
use nandex_stacks::registry::{INDEXES, IndexEntry, Need, subject};
use std::collections::BTreeMap;
use std::panic::catch_unwind;

/// A chip by its bytes of a page, pages of a block and blocks, and a record on it.
type Shape = ([u32; 3], [u8; 2]);

const SHAPES: [Shape; 3] = [([512, 16, 48], [4, 8]), ([512, 16, 40], [8, 40]), ([2048, 8, 24], [16, 16])];
const SEED: u64 = 7;
/// Settings tried besides the default ones.
const VARIANTS: [(&str, &[(&str, &str)]); 6] = [
    ("wandering", &[("journal", "8")]),
    ("wandering", &[("write_pages", "8")]),
    ("vmtree", LOGGED),
    ("mu", &[("beneath", "page-map"), ("placement", "in_place")]),
    ("variable:mu", &[("lengths", "60..60")]),
    ("variable:bplus", &[("lengths", "60..60")]),
];
/// A log buffer, which takes changes at `Full`, but no new keys: leaves are not searched for free places. It
/// is listed as the indexes below are.
const LOGGED: &[(&str, &str)] = &[("log_pages", "1")];
/// The shape that all of these can have.
const VARIED: usize = 1;
/// Changes of a batch.
const BATCH: usize = 2;
/// Single changes tried at `Full`, as a first look.
const FIRST: usize = 50;

/// Indexes that do not hold the property yet, and why. The list only shrinks: if one holds it on some shape,
/// the test fails.
const TRAPPED: [(&str, &str); 2] = [
    (
        "vmtree-ow",
        "a leaf without a free slot is written anew, and an insertion leaves no dead pages to collect",
    ),
    (
        "plow",
        "a change waits beside the record until the last level is swept, and an insertion leaves one round",
    ),
];

/// An index on a full chip, and the records it must have.
struct Life<'a> {
    entry: &'a IndexEntry,
    settings: &'a Settings,
    chip: Shared<SimChip>,
    index: Option<Box<dyn OrderedIndex>>,
    records: BTreeMap<Vec<u8>, Vec<u8>>,
    rng: Rng,
}

fn told<T>(what: &str, done: Result<T, IndexError>) -> Result<T, String> {
    done.map_err(|error| format!("{what}: {error}"))
}

impl Life<'_> {
    fn index(&mut self) -> &mut dyn OrderedIndex {
        &mut **self.index.as_mut().unwrap()
    }

    fn bytes(&mut self, bytes: u8) -> Vec<u8> {
        (0..bytes).map(|_| self.rng.below(256) as u8).collect()
    }

    /// Gives a key a value. Returns false if there is no room.
    fn put(&mut self, key: &[u8]) -> Result<bool, String> {
        let value = self.bytes(self.settings.record.value_bytes);
        match self.index().insert(key, &value) {
            Ok(existed) => {
                let before = self.records.insert(key.to_vec(), value);
                if existed == before.is_some() { Ok(true) } else { Err(format!("existed: {existed}")) }
            }
            Err(IndexError::Full(_)) => Ok(false),
            Err(error) => Err(format!("insert: {error}")),
        }
    }

    fn remove(&mut self, key: &[u8]) -> Result<(), String> {
        let existed = told("a removal", self.index().remove(key))?;
        if existed && self.records.remove(key).is_some() { Ok(()) } else { Err("nothing was removed".into()) }
    }

    /// Inserts random keys until one is refused.
    fn fill(&mut self) -> Result<(), String> {
        while {
            let key = self.bytes(self.settings.record.key_bytes);
            self.put(&key)?
        } {}
        told("a sync", self.index().sync())
    }

    /// Random keys that are there.
    fn some(&mut self, number: usize) -> Vec<Vec<u8>> {
        let mut keys: Vec<_> = self.records.keys().cloned().collect();
        let number = number.min(keys.len());
        for at in 0..number {
            let other = at + self.rng.below((keys.len() - at) as u64) as usize;
            keys.swap(at, other);
        }
        keys.truncate(number);
        keys
    }

    /// Puts each key. The number that were taken must be all.
    fn put_all(&mut self, what: &str, keys: &[Vec<u8>]) -> Result<(), String> {
        let mut taken = 0;
        for key in keys {
            taken += usize::from(self.put(key)?);
        }
        let (of, records) = (keys.len(), self.records.len());
        if taken == of {
            Ok(())
        } else {
            Err(format!("{what}: {taken} of {of} are taken, {records} records"))
        }
    }

    /// Gives keys new values in batches, if the index takes such.
    fn put_batches(&mut self, keys: &[Vec<u8>]) -> Result<(), String> {
        if self.index().batch_max() < BATCH {
            return Ok(());
        }
        let bytes = self.settings.record.value_bytes;
        for keys in keys.chunks(BATCH) {
            let values: Vec<_> = keys.iter().map(|_| self.bytes(bytes)).collect();
            let batch: Vec<_> =
                keys.iter().zip(&values).map(|(key, value)| Change::put(key, value)).collect();
            told("a batch", self.index().apply(&batch))?;
            self.records.extend(keys.iter().cloned().zip(values));
        }
        Ok(())
    }

    /// Mounts the chip, after a close or without, and looks every key up.
    fn mount(&mut self, closes: bool) -> Result<(), String> {
        told("a sync", self.index().sync())?;
        if closes {
            told("a close", self.index().close())?;
        }
        self.index = None;
        let open =
            if closes { self.entry.mount } else { self.entry.mount_after_cut.unwrap_or(self.entry.mount) };
        self.index = Some(told("a mount", open(Box::new(self.chip.clone()), self.settings))?);
        self.read()
    }

    fn read(&mut self) -> Result<(), String> {
        let records = std::mem::take(&mut self.records);
        let mut value = vec![0; self.settings.record.value_bytes.into()];
        for (key, held) in &records {
            if !told("a look-up", self.index().get(key, &mut value))? || value != *held {
                return Err("a record is lost".into());
            }
        }
        self.records = records;
        let report = told("a check", self.index().check())?;
        report
            .violations
            .first()
            .map_or(Ok(()), |broken| Err(format!("{} {}", broken.invariant, broken.found)))
    }

    /// Removes a tenth of the records, and puts the same again.
    fn tenth(&mut self) -> Result<(), String> {
        let tenth = self.some(self.records.len() / 10);
        for key in &tenth {
            self.remove(key)?;
        }
        self.put_all("a tenth put back", &tenth)
    }

    fn run(&mut self) -> Result<(), String> {
        self.fill()?;
        let keys = self.some(FIRST);
        self.put_all("changes at Full", &keys)?;
        self.mount(true)?;
        for _ in 0..sized(1, 20) {
            let keys = self.some(self.records.len());
            self.put_all("changes for long", &keys)?;
        }
        let keys = self.some(20 * BATCH);
        self.put_batches(&keys)?;
        self.mount(true)?;
        for round in 0..sized(1, 6) {
            self.tenth()?;
            self.mount(round % 2 == 0)?;
        }
        let keys = self.some(self.records.len());
        keys.iter().try_for_each(|key| self.remove(key))?;
        self.mount(true)
    }
}

fn run(entry: &IndexEntry, shape: usize, options: &[(&str, &str)]) -> Result<(), String> {
    let ([page_bytes, pages_per_block, blocks], [key, value]) = SHAPES[shape];
    let geometry = Geometry::new(page_bytes, 32, pages_per_block, blocks);
    let part = entry.suited(Part { geometry, ..catalogue::mlc_64m() });
    let chip = Shared::new(SimChip::new(&part).unwrap());
    // Records may wait in RAM where an option asks for that.
    let durability = if options.is_empty() { Durability::EveryOperation } else { Durability::EverySync };
    let settings = Settings { durability, ..Settings::new(RecordFormat::new(key, value)) };
    let settings = options.iter().fold(settings, |settings, (name, value)| settings.with(name, value));
    let index = Some(told("a format", (entry.format)(Box::new(chip.clone()), &settings))?);
    let (records, rng) = (BTreeMap::new(), Rng::new(SEED));
    Life { entry, settings: &settings, chip, index, records, rng }.run()
}

#[test]
fn a_full_chip_takes_changes_and_what_was_removed() {
    // In the gate one shape for each index, in turn.
    let (mut faults, step) = (Vec::new(), stride(SHAPES.len()));
    // An index of ascending keys changes nothing.
    let changed = INDEXES.iter().filter(|entry| !entry.needs.contains(&Need::AscendingKeys));
    for (number, entry) in changed.enumerate() {
        let is_trapped = TRAPPED.iter().any(|(name, _)| *name == entry.name);
        for shape in (number % step..SHAPES.len()).step_by(step) {
            let done = catch_unwind(|| run(entry, shape, &[])).unwrap_or(Err("a panic".into()));
            let place = format!("{} {:?}", entry.name, SHAPES[shape]);
            println!("{place}: {done:?}");
            match done {
                Err(fault) if !is_trapped => faults.push(format!("{place}: {fault}")),
                Ok(()) if is_trapped => faults.push(format!("{place}: listed, and holds")),
                _ => {}
            }
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn full_trees_with_other_settings_take_them_too() {
    for (name, options) in VARIANTS {
        let done = run(subject(name).unwrap(), VARIED, options);
        let is_trapped = options == LOGGED;
        assert_eq!(done.is_err(), is_trapped, "{name} with {options:?}: {done:?}");
    }
}

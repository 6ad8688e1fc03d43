//! A check by look-ups: an index whose walk is right and whose look-ups, or walks from a key, are not.

#![allow(clippy::unwrap_used)]

use nandex::nand::catalogue::mlc_64m;
use nandex::nand::sim::SimChip;
use nandex::ordered::value_log::{self, ValueLog};
use nandex::ordered::variable::Variable;
use nandex::ordered::{Direction, IndexStats, check_with_look_ups};
use nandex::{
    CheckReport, Durability, IndexError, Nand, OrderedIndex, Plow, PlowConfig, RecordFormat, Visit,
};
use std::ops::Bound;
use std::sync::{Arc, Mutex};

/// A fault that leads look-ups astray: a key that one does not find, or finds with another value, or from
/// which a walk ends at once.
#[derive(Clone, Debug, Default)]
struct Wrong {
    lost: Option<Vec<u8>>,
    other: Option<Vec<u8>>,
    end: Option<Vec<u8>>,
    /// No key is found.
    deaf: bool,
}

struct Misled(Plow<Box<dyn Nand>>, Arc<Mutex<Wrong>>);

impl Misled {
    fn wrong(&self) -> Wrong {
        self.1.lock().unwrap().clone()
    }
}

impl OrderedIndex for Misled {
    fn record(&self) -> RecordFormat {
        self.0.record()
    }

    fn durability(&self) -> Durability {
        self.0.durability()
    }

    fn get(&mut self, key: &[u8], value: &mut [u8]) -> Result<bool, IndexError> {
        let (found, wrong) = (self.0.get(key, value)?, self.wrong());
        if wrong.other.as_deref() == Some(key) {
            value[0] ^= 1;
        }
        Ok(found && wrong.lost.as_deref() != Some(key) && !wrong.deaf)
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, IndexError> {
        self.0.insert(key, value)
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, IndexError> {
        self.0.remove(key)
    }

    fn range(
        &mut self,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), IndexError> {
        match low {
            Bound::Excluded(low) if self.wrong().end.as_deref().is_some_and(|end| low >= end) => Ok(()),
            _ => self.0.range(low, high, direction, visit),
        }
    }

    fn sync(&mut self) -> Result<(), IndexError> {
        self.0.sync()
    }

    fn check(&mut self) -> Result<CheckReport, IndexError> {
        self.0.check()
    }

    fn stats(&self) -> IndexStats {
        self.0.stats()
    }

    fn ram_bytes(&self) -> usize {
        self.0.ram_bytes()
    }
}

const RECORDS: u64 = 3_000;

/// Any chip, so that each index is compiled for one.
fn chip() -> Box<dyn Nand> {
    Box::new(SimChip::new(&mlc_64m()).unwrap())
}

fn plow(record: RecordFormat) -> (Misled, Arc<Mutex<Wrong>>) {
    let index = Plow::format(chip(), &PlowConfig::new(record)).unwrap();
    let wrong = Arc::<Mutex<Wrong>>::default();
    (Misled(index, wrong.clone()), wrong)
}

fn key(i: u64) -> [u8; 8] {
    (i * 5).to_be_bytes()
}

fn broken(report: &CheckReport) -> Vec<String> {
    report.violations.iter().map(|violation| violation.invariant.to_string()).collect()
}

#[test]
fn what_a_look_up_does_not_find_is_no_sound_index() {
    let (mut index, wrong) = plow(RecordFormat::new(8, 8));
    let mislead = |by: Wrong| *wrong.lock().unwrap() = by;
    assert!(check_with_look_ups(&mut index).unwrap().is_sound());
    (0..RECORDS).for_each(|i| index.put(&key(i), &i.to_le_bytes()).unwrap());
    let report = check_with_look_ups(&mut index).unwrap();
    assert!(report.is_sound() && report.records == RECORDS, "{report:?}");
    for i in [0, 1, 777, RECORDS - 1] {
        let key = Some(key(i).to_vec());
        mislead(Wrong { lost: key.clone(), ..Wrong::default() });
        assert!(index.check().unwrap().is_sound());
        assert_eq!(broken(&check_with_look_ups(&mut index).unwrap()), ["L1"], "{i} is lost");
        mislead(Wrong { other: key, ..Wrong::default() });
        assert_eq!(broken(&check_with_look_ups(&mut index).unwrap()), ["L1"], "{i} has another value");
    }
    mislead(Wrong { end: Some(key(1_000).to_vec()), ..Wrong::default() });
    assert_eq!(broken(&check_with_look_ups(&mut index).unwrap()), ["L2"]);
}

#[test]
fn what_a_look_up_of_any_length_does_not_find_is_no_sound_index() {
    let (index, wrong) = plow(RecordFormat::new(12, 20));
    let mut long = Variable::new(index, 18).unwrap();
    (0..300).for_each(|i| long.put(&key(i), &vec![i as u8; i as usize % 18]).unwrap());
    assert!(long.check().unwrap().is_sound());
    wrong.lock().unwrap().deaf = true;
    assert_eq!(broken(&long.check().unwrap()), ["L1"]);
}

#[test]
fn what_a_look_up_in_a_log_of_values_does_not_find_is_no_sound_index() {
    let (index, wrong) = plow(value_log::record(12, 20));
    let index: Box<dyn OrderedIndex> = Box::new(index);
    let mut long = ValueLog::new(index, chip(), 2_000).unwrap();
    (0..300).for_each(|i| long.put(&key(i), &vec![i as u8; i as usize * 5]).unwrap());
    long.sync().unwrap();
    assert!(long.check().unwrap().is_sound());
    wrong.lock().unwrap().deaf = true;
    assert_eq!(broken(&long.check().unwrap()), ["L1"]);
}

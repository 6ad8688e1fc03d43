//! Values in pieces over an index of which single records or pages are older ones: each value is one that was
//! there, or an error, and never put together of two.

#![allow(clippy::unwrap_used)]

use nandex::nand::catalogue::mlc_with;
use nandex::nand::sim::SimChip;
use nandex::nand::{Geometry, Part};
use nandex::ordered::bplus::{BPlusConfig, BPlusTree};
use nandex::ordered::plow::{Plow, PlowConfig};
use nandex::ordered::variable::Variable;
use nandex::ordered::{Change, Direction, RecordFormat, Visit};
use nandex::rng::Rng;
use nandex::testing::Store;
use nandex::units::Ppn;
use nandex::{CheckReport, Durability, IndexError, IndexStats, Nand, OrderedIndex, Shared};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, ControlFlow};

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;
/// Values of any length over any index, so that they are compiled for one.
type Index = Variable<Box<dyn OrderedIndex>>;
/// The values that each key ever had.
type History = BTreeMap<Vec<u8>, BTreeSet<Vec<u8>>>;

const MAX_KEY: u8 = 3;
const MAX_VALUE: usize = 90;
/// Bytes of the length before a value.
const HEAD: usize = 2;
const LIVES: u64 = 300;

fn over(index: impl OrderedIndex + 'static) -> Index {
    Variable::new(Box::new(index) as Box<dyn OrderedIndex>, MAX_VALUE).unwrap()
}

fn any(chip: impl Nand + 'static) -> Box<dyn Nand> {
    Box::new(chip)
}

/// Records in RAM.
struct Records {
    record: RecordFormat,
    pairs: Pairs,
}

impl OrderedIndex for Records {
    fn record(&self) -> RecordFormat {
        self.record
    }

    fn durability(&self) -> Durability {
        Durability::EveryOperation
    }

    fn get(&mut self, key: &[u8], value: &mut [u8]) -> Result<bool, IndexError> {
        Ok(self.pairs.get(key).map(|found| value.copy_from_slice(found)).is_some())
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, IndexError> {
        Ok(self.pairs.insert(key.to_vec(), value.to_vec()).is_some())
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, IndexError> {
        Ok(self.pairs.remove(key).is_some())
    }

    fn batch_max(&self) -> usize {
        1_000
    }

    fn apply(&mut self, batch: &[Change<'_>]) -> Result<(), IndexError> {
        for change in batch {
            match change.value() {
                Some(value) => drop(self.insert(change.key(), value)?),
                None => drop(self.remove(change.key())?),
            }
        }
        Ok(())
    }

    fn range(
        &mut self,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), IndexError> {
        let mut found: Vec<_> = self.pairs.range::<[u8], _>((low, high)).collect();
        if direction == Direction::Descending {
            found.reverse();
        }
        let _ = found.into_iter().try_for_each(|(key, value)| visit(key, value));
        Ok(())
    }

    fn sync(&mut self) -> Result<(), IndexError> {
        Ok(())
    }

    fn check(&mut self) -> Result<CheckReport, IndexError> {
        Ok(CheckReport::default())
    }

    fn stats(&self) -> IndexStats {
        IndexStats::default()
    }

    fn ram_bytes(&self) -> usize {
        0
    }
}

/// The sizes of a seed, and the changes that it makes.
struct Life {
    piece: u8,
    keys: u64,
    lengths: [usize; 2],
    rng: Rng,
}

impl Life {
    fn draw(seed: u64) -> Life {
        let mut rng = Rng::new(seed);
        let piece = [8, 13, 20, 33, 48][rng.below(5) as usize];
        // Of one length, of alike ones, of any.
        let least = rng.below(60) as usize;
        let lengths = [least, [least, least + 6, MAX_VALUE][rng.below(3) as usize]];
        Life { piece, keys: 2 + rng.below(6), lengths, rng }
    }

    const fn record(&self) -> RecordFormat {
        RecordFormat::variable(MAX_KEY, self.piece)
    }

    fn value(&mut self) -> Vec<u8> {
        let [least, most] = self.lengths;
        let bytes = least + self.rng.below((most - least) as u64 + 1) as usize;
        (0..bytes).map(|_| 1 + self.rng.below(255) as u8).collect()
    }

    /// Changes by each of the calls.
    fn change<I: OrderedIndex>(&mut self, index: &mut Variable<I>, history: &mut History) {
        let mut key = || {
            let number = self.rng.below(self.keys);
            vec![number as u8; 1 + number as usize % usize::from(MAX_KEY)]
        };
        let (key, other) = (key(), key());
        let (value, more) = (self.value(), self.value());
        history.entry(key.clone()).or_default().insert(value.clone());
        match self.rng.below(4) {
            0 => index.put(&key, &value).unwrap(),
            1 => drop(index.insert(&key, &value).unwrap()),
            2 => drop(index.remove(&key).unwrap()),
            _ => {
                history.entry(other.clone()).or_default().insert(more.clone());
                index.apply(&[Change::put(&key, &value), Change::put(&other, &more)]).unwrap();
            }
        }
    }

    /// Bytes that a value leaves in its last piece.
    fn spare(&self, value: &[u8]) -> usize {
        (HEAD + value.len()).next_multiple_of(self.piece.into()) - HEAD - value.len()
    }
}

/// Values that were told to be of two, those that were there, and those of two that were not told, by the
/// bytes that they leave in their last piece.
#[derive(Default)]
struct Met {
    told: u32,
    held: u32,
    missed: [u32; 5],
}

impl Met {
    fn note(&mut self, life: &Life, history: &History, key: &[u8], value: &[u8]) {
        if history.get(key).is_some_and(|values| values.contains(value)) {
            self.held += 1;
        } else {
            self.missed[life.spare(value).min(4)] += 1;
        }
    }

    /// Looks each key up, walks both ways and checks; whether each of the four told anything.
    fn look<I: OrderedIndex>(
        &mut self,
        life: &Life,
        history: &History,
        index: &mut Variable<I>,
    ) -> [bool; 4] {
        let mut is_told = false;
        for key in history.keys() {
            match index.get(key) {
                Ok(value) => value.iter().for_each(|value| self.note(life, history, key, value)),
                Err(IndexError::Corrupted { what, .. }) => {
                    is_told = true;
                    self.told += u32::from(what == "the pieces of a value are of two");
                }
                Err(error) => panic!("{error}"),
            }
        }
        let [up, down] = [Direction::Ascending, Direction::Descending].map(|direction| {
            // Up to what is told.
            let walked = index.range(Bound::Unbounded, Bound::Unbounded, direction, &mut |key, value| {
                self.note(life, history, key, value);
                ControlFlow::Continue(())
            });
            walked.is_err()
        });
        [is_told, up, down, !index.check().is_ok_and(|report| report.is_sound())]
    }

    /// Nothing of two where the whole mark finds room, and hardly anything where some bytes of it do.
    fn judge(&self, least: u32) {
        let Met { told, held, missed } = self;
        assert!(*told > least && *held > 1_000, "{told} told, {held} held");
        assert_eq!(missed[4], 0, "values that were never there");
        assert!(missed[2] + missed[3] < 3 && missed[1] < told / 100, "{missed:?}");
    }
}

#[test]
fn older_records_make_no_value_that_never_was() {
    let mut met = Met::default();
    for mut life in (0..LIVES).map(Life::draw) {
        let records = Records { record: life.record(), pairs: Pairs::new() };
        let mut index = Variable::new(records, MAX_VALUE).unwrap();
        let mut history = History::new();
        let mut times = Vec::new();
        for _ in 0..30 {
            life.change(&mut index, &mut history);
            times.push(index.index().pairs.clone());
        }
        for then in times {
            let now = index.index().pairs.clone();
            for (key, value) in then {
                if life.rng.chance(1, 4) {
                    index.index_mut().pairs.insert(key, value);
                }
            }
            let told = met.look(&life, &history, &mut index);
            assert!(!told[0] || told == [true; 4], "look-ups, walks, check: {told:?}");
            index.index_mut().pairs = now;
        }
    }
    met.judge(5_000);
}

#[test]
fn older_pages_of_a_tree_make_no_value_that_never_was() {
    let mut met = Met::default();
    for mut life in (0..LIVES).map(Life::draw) {
        let store = Store::new(256, 128);
        let config = BPlusConfig::new(life.record());
        let tree = BPlusTree::format(store.handle(), &config).unwrap();
        let mut index = over(tree);
        let mut history = History::new();
        let mut times = Vec::new();
        for _ in 0..30 {
            life.change(&mut index, &mut history);
            index.sync().unwrap();
            times.push(store.pages());
        }
        index.close().unwrap();
        let newest = store.pages();
        for then in times {
            let mut pages = newest.clone();
            for (now, before) in pages.iter_mut().zip(then) {
                if life.rng.chance(1, 4) {
                    *now = before;
                }
            }
            let Ok(tree) = BPlusTree::mount(Store::holding(&pages), &config) else { continue };
            met.look(&life, &history, &mut over(tree));
        }
    }
    met.judge(200);
}

/// Why plow may leave the marks out.
#[test]
fn plow_tells_its_older_pages() {
    let mut met = Met::default();
    for mut life in (0..LIVES / 3).map(Life::draw) {
        let geometry = Geometry::new(512, 64, 4, 64);
        let chip = Shared::new(SimChip::new(&Part { geometry, ..mlc_with(512, 4, 64) }).unwrap());
        let config = PlowConfig { memtable: Some(100), ..PlowConfig::new(life.record()) };
        let plow = Plow::format(any(chip.clone()), &config).unwrap();
        assert!(plow.tells_older());
        let mut index = over(plow);
        let mut history = History::new();
        let mut times = Vec::new();
        for _ in 0..12 {
            for _ in 0..60 {
                life.change(&mut index, &mut history);
            }
            index.close().unwrap();
            times.push(chip.lock().to_image());
        }
        let newest = times.pop().unwrap();
        for then in times {
            let mut now = SimChip::from_image(&newest).unwrap();
            let before = SimChip::from_image(&then).unwrap();
            for page in (0..64 * 4).map(Ppn) {
                if let Some(stored) = before.stored_page(page).filter(|_| !now.is_erased(page))
                    && life.rng.chance(1, 4)
                {
                    now.damage_page(page, &stored);
                }
            }
            let Ok(plow) = Plow::mount(any(now), &config) else { continue };
            met.look(&life, &history, &mut over(plow));
        }
    }
    println!("{} held", met.held);
    assert_eq!(met.missed, [0; 5]);
    assert!(met.held > 1_000, "{} held", met.held);
}

#[test]
fn values_without_a_mark_are_read() {
    for mut life in (0..LIVES).map(Life::draw) {
        let records = Records { record: life.record(), pairs: Pairs::new() };
        let mut index = Variable::new(records, MAX_VALUE).unwrap();
        let mut model = Pairs::new();
        for number in 0..life.keys as u8 {
            let value = life.value();
            index.put(&[number], &value).unwrap();
            // As builds without marks wrote them.
            let (_, last) = index.index_mut().pairs.iter_mut().next_back().unwrap();
            let spare = life.spare(&value);
            let used = last.len() - spare;
            last[used..].fill(0);
            model.insert(vec![number], value);
        }
        for (key, value) in &model {
            assert_eq!(index.get(key).unwrap().as_ref(), Some(value));
        }
        assert_eq!(index.check().unwrap().records, model.len() as u64);
    }
}

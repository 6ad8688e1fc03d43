//! Runs one store through one scenario, every answer compared with a model.

use crate::scenario::{Contestant, Scenario};
use crate::store::{Counts, Medium, Store, Trouble};
use nandex::rng::Rng;
use std::collections::BTreeMap;

const SEED: u64 = 48;
const GETS: usize = 1000;
const RANGES: usize = 20;
/// Records of a range.
const RANGE: usize = 100;

/// What a store did in a scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Name of the scenario.
    pub scenario: &'static str,
    /// Name of the store.
    pub store: &'static str,
    /// Whether it is Nandex.
    pub is_ours: bool,
    /// `ok`, or what happened in place of it.
    pub outcome: String,
    /// Updates measured.
    pub updates: u32,
    /// The measures, in the order of [`MEASURES`].
    pub figures: [Option<f64>; COUNT],
}

/// Number of measures.
const COUNT: usize = 10;

/// Measures with the digits behind the point that are kept.
pub const MEASURES: [(&str, usize); COUNT] = [
    ("update_us", 1),
    ("erases_per_1000", 2),
    ("worst_sector", 0),
    ("slowest_ms", 1),
    ("get_us", 1),
    ("range_100_us", 0),
    ("mount_ms", 2),
    ("first_ms", 2),
    ("ram_kib", 1),
    ("bytes_per_update", 1),
];

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

struct Run<'s> {
    scenario: &'s Scenario,
    medium: Medium,
    store: Box<dyn Store>,
    model: Model,
    keys: Vec<Vec<u8>>,
    rng: Rng,
    row: Row,
}

/// Runs a store. What it refuses is in the row; a wrong answer ends everything.
pub fn run(scenario: &Scenario, contestant: &Contestant) -> Row {
    let row = Row {
        scenario: scenario.name,
        store: contestant.name,
        is_ours: contestant.is_ours(),
        outcome: "ok".into(),
        updates: 0,
        figures: [None; COUNT],
    };
    let opened = scenario.chip.make().and_then(|medium| {
        let store = contestant.open(&medium, &scenario.load)?;
        Ok((medium, store))
    });
    let (medium, store) = match opened {
        Ok(opened) => opened,
        Err(trouble) => return Row { outcome: words(&trouble, "made"), ..row },
    };
    let mut rng = Rng::new(SEED);
    let keys = (0..scenario.load.keys).map(|_| bytes(&mut rng, scenario.load.key_bytes)).collect();
    let run = Run { scenario, medium, store, model: Model::new(), keys, rng, row };
    run.all(contestant.most_updates)
}

fn bytes(rng: &mut Rng, count: u8) -> Vec<u8> {
    let mut bytes = vec![0; usize::from(count)];
    rng.fill(&mut bytes);
    bytes
}

fn words(trouble: &Trouble, when: &str) -> String {
    match trouble {
        Trouble::NoRoom => format!("no room when {when}"),
        Trouble::NotRun(why) => format!("not run: {why}"),
        Trouble::Failed(why) => format!("refused when {when}: {}", why.replace([',', '\n', '|'], ";")),
    }
}

impl Run<'_> {
    fn all(mut self, most_updates: u32) -> Row {
        for number in 0..self.keys.len() {
            if let Err(trouble) = self.put(number) {
                let stored = format!("{number} of {} keys were stored", self.keys.len());
                return Row { outcome: words(&trouble, &stored), ..self.row };
            }
        }
        self.figure("ram_kib", self.store.ram_bytes().map(|bytes| bytes as f64 / 1024.0));
        let updates = self.scenario.updates.min(most_updates);
        if let Err(trouble) = self.updates(updates) {
            let done = format!("{} of {updates} updates were done", self.row.updates);
            return Row { outcome: words(&trouble, &done), ..self.row };
        }
        if let Err(trouble) = self.reads() {
            return Row { outcome: words(&trouble, "read"), ..self.row };
        }
        let row = self.row.clone();
        match self.mount_again() {
            Ok(row) => row,
            Err(trouble) => Row { outcome: words(&trouble, "mounted again"), ..row },
        }
    }

    fn figure(&mut self, name: &str, value: Option<f64>) {
        let place = MEASURES.iter().position(|(known, _)| *known == name);
        self.row.figures[place.expect("a measure of the list")] = value;
    }

    fn since(&self, before: Counts) -> Counts {
        let now = self.medium.counts();
        Counts {
            time_ns: now.time_ns - before.time_ns,
            programmed: now.programmed - before.programmed,
            erases: now.erases - before.erases,
        }
    }

    fn put(&mut self, number: usize) -> Result<(), Trouble> {
        let value = bytes(&mut self.rng, self.scenario.load.value_bytes);
        self.store.put(&self.keys[number], &value)?;
        self.model.insert(self.keys[number].clone(), value);
        Ok(())
    }

    fn any(&mut self) -> usize {
        self.rng.below(self.keys.len() as u64) as usize
    }

    fn updates(&mut self, updates: u32) -> Result<(), Trouble> {
        let (began, worn) = (self.medium.counts(), self.medium.wear());
        let mut slowest = 0;
        for done in 0..updates {
            let (before, number) = (self.medium.counts(), self.any());
            self.row.updates = done;
            self.put(number)?;
            slowest = slowest.max(self.since(before).time_ns);
        }
        self.row.updates = updates;
        let (all, each) = (self.since(began), f64::from(updates.max(1)));
        let most = self.medium.wear().iter().zip(&worn).map(|(now, then)| now - then).max();
        self.figure("update_us", Some(all.time_ns as f64 / 1e3 / each));
        self.figure("erases_per_1000", Some(all.erases as f64 * 1e3 / each));
        self.figure("worst_sector", most.map(f64::from));
        self.figure("slowest_ms", Some(slowest as f64 / 1e6));
        self.figure("bytes_per_update", Some(all.programmed as f64 / each));
        Ok(())
    }

    fn reads(&mut self) -> Result<(), Trouble> {
        let began = self.medium.counts();
        for _ in 0..GETS {
            let number = self.any();
            self.check(number)?;
        }
        let absent = bytes(&mut self.rng, self.scenario.load.key_bytes);
        self.figure("get_us", Some(self.since(began).time_ns as f64 / 1e3 / GETS as f64));
        let mut value = vec![0; usize::from(self.scenario.load.value_bytes)];
        assert!(!self.store.get(&absent, &mut value)?, "{}: a key that was never there", self.row.store);
        let began = self.medium.counts();
        for _ in 0..RANGES {
            let from = bytes(&mut self.rng, self.scenario.load.key_bytes);
            let Some(found) = self.store.range(&from, RANGE)? else { return Ok(()) };
            let expected = self.model.range(from..).take(RANGE);
            assert!(
                expected.eq(found.iter().map(|(key, value)| (key, value))),
                "{}: a range",
                self.row.store
            );
        }
        self.figure("range_100_us", Some(self.since(began).time_ns as f64 / 1e3 / RANGES as f64));
        Ok(())
    }

    fn check(&mut self, number: usize) -> Result<(), Trouble> {
        let mut value = vec![0; usize::from(self.scenario.load.value_bytes)];
        let is_there = self.store.get(&self.keys[number], &mut value)?;
        let right = is_there && self.model.get(&self.keys[number]) == Some(&value);
        assert!(right, "{} in {}: a wrong answer", self.row.store, self.row.scenario);
        Ok(())
    }

    /// Mounts as after a power cut, uses the store for the first time, and compares all that it holds.
    fn mount_again(mut self) -> Result<Row, Trouble> {
        let began = self.medium.counts();
        self.store = self.store.again()?;
        self.figure("mount_ms", Some(self.since(began).time_ns as f64 / 1e6));
        let began = self.medium.counts();
        let number = self.any();
        self.check(number)?;
        self.put(number)?;
        self.figure("first_ms", Some(self.since(began).time_ns as f64 / 1e6));
        for number in 0..self.keys.len() {
            self.check(number)?;
        }
        Ok(self.row)
    }
}

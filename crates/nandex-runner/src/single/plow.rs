//! Measures each kind of operation on a plow by itself.

use crate::LabError;
use crate::workload::Zipf;
use nandex::IndexError;
use nandex::nand::sim::SimChip;
use nandex::nand::{Nand, Part};
use nandex::ordered::plow::Plow;
use nandex::ordered::plow::PlowConfig;
use nandex::ordered::{Direction, OrderedIndex};
use nandex::rng::Rng;
use nandex::shared::Shared;
use std::ops::{Bound, ControlFlow};

/// Number of records in a scan.
const SCAN: u32 = 100;
/// Number of operations between two looks at the used RAM.
const LOOK: u64 = 500;

/// The costs of a number of operations.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    pub operations: u64,
    pub reads: u64,
    pub programs: u64,
    pub time_ns: u64,
}

impl Spent {
    fn each(&self, of: u64) -> f64 {
        of as f64 / self.operations.max(1) as f64
    }

    /// Page reads per operation.
    pub fn reads_each(&self) -> f64 {
        self.each(self.reads)
    }

    /// Page programs per operation.
    pub fn programs_each(&self) -> f64 {
        self.each(self.programs)
    }

    /// Flash time per operation, in µs.
    pub fn us_each(&self) -> f64 {
        self.each(self.time_ns) / 1000.0
    }

    fn add(&mut self, operations: u64, from: Spent, to: Spent) {
        self.operations += operations;
        self.reads += to.reads - from.reads;
        self.programs += to.programs - from.programs;
        self.time_ns += to.time_ns - from.time_ns;
    }
}

/// The costs of a phase by kind of operation; those of syncs count for the changes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Costs {
    pub puts: Spent,
    pub gets: Spent,
    pub scans: Spent,
}

/// The mix of a phase: how many of 100 operations are changes and scans; the others are look-ups.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    pub puts: u64,
    pub scans: u64,
}

/// The distribution of the keys and the order in which new records arrive.
#[derive(Clone, Debug)]
pub enum Keys {
    /// New keys arrive in random order, and all keys are accessed equally often.
    Uniform,
    /// New keys arrive in random order, and some keys are accessed far more often than others.
    Zipf(Zipf),
    /// New keys ascend.
    Ascending,
}

impl Keys {
    /// The key of record `i`; each record has another key.
    fn of(&self, i: u32) -> u32 {
        if let Keys::Ascending = self {
            return i;
        }
        // Each line can be undone, so no two records have the same.
        let mut key = i ^ 0x5bd1_e995;
        key = (key ^ (key >> 16)).wrapping_mul(0x85eb_ca6b);
        key = (key ^ (key >> 13)).wrapping_mul(0xc2b2_ae35);
        key ^ (key >> 16)
    }

    fn pick(&self, rng: &mut Rng, records: u32) -> u32 {
        match self {
            Keys::Zipf(zipf) => zipf.pick(rng, records.into()) as u32,
            _ => rng.below(records.into()) as u32,
        }
    }
}

/// A plow on its chip with the records that it must hold and the maxima seen so far.
pub struct Drive {
    chip: Shared<SimChip>,
    tree: Plow<Shared<SimChip>>,
    config: PlowConfig,
    keys: Keys,
    /// Number of changes between two syncs; `None` in the class "every operation".
    sync_every: Option<u64>,
    unsynced: u64,
    /// The expected value of each record.
    values: Vec<u32>,
    rng: Rng,
    pub slowest_ns: u64,
    pub ram_bytes: usize,
}

impl Drive {
    /// Makes an empty index.
    pub fn new(
        part: &Part,
        config: PlowConfig,
        keys: Keys,
        sync_every: Option<u64>,
    ) -> Result<Drive, LabError> {
        let chip = SimChip::new(part)
            .map_err(|error| LabError::Chip { file: part.name.to_string(), reason: error.to_string() })?;
        let chip = Shared::new(chip);
        let tree = Plow::format(chip.clone(), &config)?;
        Ok(Drive {
            chip,
            tree,
            config,
            keys,
            sync_every,
            unsynced: 0,
            values: Vec::new(),
            rng: Rng::new(1),
            slowest_ns: 0,
            ram_bytes: 0,
        })
    }

    fn spent(&self) -> Spent {
        let chip = self.chip.lock();
        let counters = chip.counters();
        Spent {
            operations: 0,
            reads: counters.page_reads_total(),
            programs: counters.page_programs_total(),
            time_ns: chip.time().0,
        }
    }

    /// Books one operation.
    fn book(&mut self, costs: &mut Spent, from: Spent) {
        let to = self.spent();
        self.slowest_ns = self.slowest_ns.max(to.time_ns - from.time_ns);
        costs.add(1, from, to);
        if costs.operations.is_multiple_of(LOOK) {
            self.ram_bytes = self.ram_bytes.max(self.tree.ram_bytes());
        }
    }

    fn put(&mut self, i: u32, costs: &mut Spent) -> Result<(), LabError> {
        let from = self.spent();
        let value = self.rng.next_u64() as u32;
        self.tree.insert(&self.keys.of(i).to_be_bytes(), &value.to_be_bytes())?;
        match self.values.get_mut(i as usize) {
            Some(held) => *held = value,
            None => self.values.push(value),
        }
        self.book(costs, from);
        self.unsynced += 1;
        if self.sync_every.is_some_and(|every| self.unsynced >= every) {
            self.unsynced = 0;
            let from = self.spent();
            self.tree.sync()?;
            let to = self.spent();
            self.slowest_ns = self.slowest_ns.max(to.time_ns - from.time_ns);
            costs.add(0, from, to);
        }
        Ok(())
    }

    fn get(&mut self, costs: &mut Spent) -> Result<(), LabError> {
        let i = self.keys.pick(&mut self.rng, self.values.len() as u32);
        let from = self.spent();
        let mut value = [0; 4];
        let found = self.tree.get(&self.keys.of(i).to_be_bytes(), &mut value)?;
        self.book(costs, from);
        if found && u32::from_be_bytes(value) == self.values[i as usize] {
            return Ok(());
        }
        Err(wrong("a look-up answers wrong", u64::from(i)))
    }

    fn scan(&mut self, costs: &mut Spent) -> Result<(), LabError> {
        let i = self.keys.pick(&mut self.rng, self.values.len() as u32);
        let low = self.keys.of(i).to_be_bytes();
        let (mut left, mut last) = (SCAN, None::<[u8; 4]>);
        let mut is_sorted = true;
        let from = self.spent();
        self.tree.range(Bound::Included(&low), Bound::Unbounded, Direction::Ascending, &mut |key, _| {
            let key: [u8; 4] = key.try_into().unwrap_or_default();
            is_sorted &= last.is_none_or(|last| last < key);
            last = Some(key);
            left -= 1;
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        self.book(costs, from);
        if is_sorted && left < SCAN { Ok(()) } else { Err(wrong("a scan is out of order", i.into())) }
    }

    /// Inserts `records` new records one by one.
    pub fn load(&mut self, records: u32) -> Result<Spent, LabError> {
        let mut costs = Spent::default();
        for _ in 0..records {
            self.put(self.values.len() as u32, &mut costs)?;
        }
        Ok(costs)
    }

    /// Does `operations` operations. Look-ups and scans address existing records. Changes do so too, except
    /// that ascending keys make every change a new record.
    pub fn run(&mut self, operations: u64, mix: Mix) -> Result<Costs, LabError> {
        let mut costs = Costs::default();
        for _ in 0..operations {
            let drawn = self.rng.below(100);
            if drawn < mix.puts {
                // Where keys ascend, what is put is new.
                let i = match self.keys {
                    Keys::Ascending => self.values.len() as u32,
                    _ => self.keys.pick(&mut self.rng, self.values.len() as u32),
                };
                self.put(i, &mut costs.puts)?;
            } else if drawn < mix.puts + mix.scans {
                self.scan(&mut costs.scans)?;
            } else {
                self.get(&mut costs.gets)?;
            }
        }
        Ok(costs)
    }

    /// Mounts the index and returns the page reads of the mount: after a close if `is_clean`, else after a
    /// sync and a power cut.
    pub fn mount(&mut self, is_clean: bool) -> Result<u64, LabError> {
        if is_clean {
            self.tree.close()?;
        } else {
            self.tree.sync()?;
        }
        let from = self.spent();
        let mounted = Plow::mount(self.chip.clone(), &self.config)?;
        self.tree = mounted;
        self.unsynced = 0;
        self.ram_bytes = self.ram_bytes.max(self.tree.ram_bytes());
        Ok(self.spent().reads - from.reads)
    }

    /// Bytes of the live pages divided by bytes of the records.
    pub fn space(&self) -> f64 {
        let page = f64::from(self.chip.lock().geometry().page_bytes);
        self.tree.stats().live_pages as f64 * page / (8 * self.values.len()) as f64
    }

    /// Blocks in use, as a share of all blocks.
    pub fn filled(&self) -> f64 {
        let blocks = self.chip.lock().geometry().blocks;
        let metrics = self.tree.stats().metrics;
        let free =
            metrics.iter().find(|metric| metric.name == "blocks_free").map_or(0, |metric| metric.value);
        1.0 - free as f64 / f64::from(blocks)
    }

    /// The mean number of erases of a block, and the most erases of one block divided by that mean.
    pub fn wear(&self) -> (f64, f64) {
        let chip = self.chip.lock();
        let wear = chip.wear();
        let mean = wear.iter().map(|&erases| f64::from(erases)).sum::<f64>() / wear.len() as f64;
        let most = wear.iter().max().map_or(0.0, |&most| f64::from(most));
        (mean, if mean > 0.0 { most / mean } else { 1.0 })
    }

    /// Walks the index; the error names the first violated invariant.
    pub fn check(&mut self) -> Result<(), LabError> {
        let report = self.tree.check()?;
        if report.is_sound() && report.records == self.values.len() as u64 {
            return Ok(());
        }
        Err(wrong("the index is not sound", report.records))
    }
}

fn wrong(what: &'static str, at: u64) -> LabError {
    IndexError::corrupted(what, at).into()
}

//! One spatial index on one chip, or disk, over one workload: what every operation cost, and whether every answer was right.
//!
//! As [`crate::runner`] does it for ordered indexes, with the same meter and the same results. Every answer is held against a look at
//! all entries (`model.rs`); the first wrong one ends the run, as does the first error of the index.
//!
//! The B+-tree can take part in workloads without windows, for the study that compares all of them: an entry is then a record
//! whose key follows from the entry's number.

use super::map::{MapQuery, TreeMap};
use super::model::{SpatialModel, in_order};
use super::registry::{self, Space, SpatialEntry};
use super::subject::{Subject, found_in, found_near, open_subject};
use super::workload::{SpatialOp, SpatialPhase, SpatialWorkload};
use crate::registry::{Ground, IndexEntry};
use crate::replay::DiskEntry;
use crate::results::Run;
use crate::runner::meter::{Done, Meter, Reading, by_name, ratio};
use crate::runner::{Control, RunOptions, TimedChip};
use nandex::IndexError;
use nandex::Shared;
use nandex::nand::sim::SimChip;
use nandex::nand::{Nand, Part};
use nandex::ordered::{Durability, RecordFormat, Settings};
use nandex::spatial::Rect;
use nandex::store::disk::DiskStore;
use std::time::Instant;

/// Why the run ends, in words.
type Failure = String;

/// Operations between two reports to the control.
const REPORT_INTERVAL: u64 = 256;

/// Who takes part.
#[derive(Clone, Copy, Debug)]
pub enum Contestant {
    /// A spatial index.
    Spatial(&'static SpatialEntry),
    /// The B+-tree, with a key for each entry.
    BPlus(&'static IndexEntry),
}

impl Contestant {
    /// The contestant's name in results.
    pub fn name(&self) -> &'static str {
        match self {
            Contestant::Spatial(entry) => entry.name,
            Contestant::BPlus(entry) => entry.name,
        }
    }
}

/// The medium below the index.
#[derive(Clone, Copy, Debug)]
pub enum Medium<'a> {
    /// A new chip.
    Chip(&'a Part),
    /// A hard disk with pages as the chip's, and as many.
    Disk(&'static DiskEntry, &'a Part),
}

/// One run to do.
#[derive(Clone, Debug)]
pub struct SpatialJob<'a, C, const D: usize> {
    /// The index.
    pub contestant: Contestant,
    /// The medium below the index.
    pub medium: Medium<'a>,
    /// The workload.
    pub workload: &'a SpatialWorkload<C, D>,
    /// RAM, durability, options of the index.
    pub settings: Settings,
    /// How to carry it out.
    pub options: RunOptions,
    /// Whether a map of the tree is wanted, as it is before the first query.
    pub wants_map: bool,
}

/// The results of a run.
#[derive(Clone, Debug, Default)]
pub struct SpatialRun {
    /// The figures.
    pub run: Run,
    /// The tree on a map.
    pub map: Option<TreeMap>,
}

/// Sizes of an entry in a leaf: its rectangle, and its number.
pub fn record_format<C: Space<D>, const D: usize>() -> RecordFormat {
    RecordFormat::new((2 * D * C::BYTES) as u8, 8)
}

/// Does one run. A failure is told in [`Run::error`], next to what was measured before it.
pub fn run<C: Space<D>, const D: usize>(job: &SpatialJob<'_, C, D>, control: &Control) -> SpatialRun {
    let run = Run {
        index: job.contestant.name().to_string(),
        storage: match job.medium {
            Medium::Chip(_) => registry::storage(&job.settings.options),
            Medium::Disk(disk, _) => disk.name.to_string(),
        },
        seed: job.workload.seed,
        ..Run::default()
    };
    let mut result = SpatialRun { run, map: None };
    let mut done = 0;
    let outcome = Session::open(job, control).and_then(|mut session| {
        let outcome = session.run_phases(&mut result);
        done = session.reported;
        session.finish(&mut result.run);
        outcome.and_then(|()| session.check(result.run.ram_bytes))
    });
    result.run.error = outcome.err();
    control.add_done(job.workload.operations() - done);
    result
}

/// The medium under a run.
enum Device {
    Chip(Shared<SimChip>),
    Disk(Shared<DiskStore>),
}

impl Device {
    fn reading(&self) -> Reading {
        match self {
            Device::Chip(chip) => Reading::of(&chip.lock()),
            Device::Disk(disk) => Reading::of_disk(&disk.lock()),
        }
    }

    /// Erases of each block; none on a disk.
    fn wear(&self) -> Vec<u32> {
        match self {
            Device::Chip(chip) => chip.lock().wear().to_vec(),
            Device::Disk(_) => Vec::new(),
        }
    }
}

struct Session<'a, C: Space<D>, const D: usize> {
    job: &'a SpatialJob<'a, C, D>,
    control: &'a Control,
    device: Device,
    /// Time spent simulating the chip.
    device_ns: Shared<u64>,
    format_wear: Vec<u32>,
    subject: Subject<C, D>,
    model: SpatialModel<'a, C, D>,
    meter: Meter,
    reported: u64,
}

impl<'a, C: Space<D>, const D: usize> Session<'a, C, D> {
    /// Formats the index on a new chip or disk.
    fn open(job: &'a SpatialJob<'a, C, D>, control: &'a Control) -> Result<Self, Failure> {
        let words = |error: &dyn std::fmt::Display| error.to_string();
        let device_ns = Shared::new(0);
        let (device, ground, part) = match job.medium {
            Medium::Chip(part) => {
                let chip = Shared::new(SimChip::new(part).map_err(|e| words(&e))?);
                let nand: Box<dyn Nand> = if job.options.cpu_time {
                    Box::new(TimedChip::new(chip.clone(), device_ns.clone()))
                } else {
                    Box::new(chip.clone())
                };
                (Device::Chip(chip), Ground::Chip(nand), part)
            }
            Medium::Disk(disk, part) => {
                let (page_bytes, pages) = (part.geometry.page_bytes as usize, part.geometry.pages());
                let disk = Shared::new(DiskStore::new(page_bytes, pages, disk.model()));
                (Device::Disk(disk.clone()), Ground::Disk(Box::new(disk)), part)
            }
        };
        let subject = open_subject(job, ground).map_err(|e| words(&e))?;
        let page_bytes = part.geometry.page_bytes.into();
        let entry_bytes = job.settings.record.entry_bytes() as u64;
        Ok(Session {
            meter: Meter::new(device.reading(), page_bytes, entry_bytes),
            format_wear: device.wear(),
            model: SpatialModel::new(&job.workload.entries),
            reported: 0,
            job,
            control,
            device,
            device_ns,
            subject,
        })
    }

    fn run_phases(&mut self, result: &mut SpatialRun) -> Result<(), Failure> {
        let phases = &self.job.workload.phases;
        for (place, phase) in phases.iter().enumerate() {
            self.meter.start_phase(phase.ops.len(), self.subject.stats());
            let mut outcome = if phase.is_bulk { self.load(phase) } else { self.run_ops(phase) };
            let delays = self.subject.durability() != Durability::EveryOperation;
            let RunOptions { sync_after_load, sync_at_end, .. } = self.job.options;
            let is_last = place + 1 == phases.len();
            let is_due = (sync_at_end && is_last) || (sync_after_load && !phase.measured);
            if is_due && outcome.is_ok() && delays {
                outcome = self.sync().map_err(|why| format!("the sync at the end: {why}"));
            }
            let stats = self.subject.stats();
            result.run.phases.push(self.meter.end_phase((&phase.name, phase.measured), &stats));
            result.run.ram_bytes = result.run.ram_bytes.max(self.subject.ram_bytes() as u64);
            outcome.map_err(|why| format!("phase {}, {why}", phase.name))?;
            if place == 0 && self.job.wants_map {
                result.map = Some(self.map().map_err(|error| format!("the map: {error}"))?);
            }
        }
        Ok(())
    }

    fn run_ops(&mut self, phase: &SpatialPhase<C, D>) -> Result<(), Failure> {
        let mut unsynced = 0;
        for (i, op) in phase.ops.iter().enumerate() {
            let number = i as u64 + 1;
            let at = |why: Failure| format!("operation {number} ({}): {why}", op.name());
            if self.control.is_cancelled() {
                return Err(format!("operation {number}: cancelled"));
            }
            self.apply(op).map_err(at)?;
            unsynced += u64::from(op.changes());
            if self.job.options.sync_every.is_some_and(|every| unsynced >= every.max(1)) {
                unsynced = 0;
                self.sync().map_err(|why| at(format!("the sync after it: {why}")))?;
            }
            if number.is_multiple_of(REPORT_INTERVAL) {
                self.control.add_done(REPORT_INTERVAL);
                self.reported += REPORT_INTERVAL;
            }
        }
        Ok(())
    }

    fn load(&mut self, phase: &SpatialPhase<C, D>) -> Result<(), Failure> {
        let mut entries = Vec::with_capacity(phase.ops.len());
        for op in &phase.ops {
            let SpatialOp::Insert(at) = *op else {
                return Err("a bulk load takes insertions only".to_string());
            };
            entries.push(*self.model.entry(at));
            self.model.set(at, true);
        }
        let count = entries.len() as u64;
        let done = Done { kind: "insert", operations: count, changes: true };
        let loaded = self.call(done, |subject| subject.load(&entries))?;
        self.control.add_done(count);
        self.reported += count;
        if loaded == count { Ok(()) } else { Err(format!("{loaded} of {count} entries were loaded")) }
    }

    /// Calls the index and books what that cost, whether it succeeds or not.
    fn call<T>(
        &mut self,
        done: Done,
        call: impl FnOnce(&mut Subject<C, D>) -> Result<T, IndexError>,
    ) -> Result<T, Failure> {
        let (in_device, start) = (*self.device_ns.lock(), Instant::now());
        let answer = call(&mut self.subject);
        let mut cpu_ns = 0;
        if self.job.options.cpu_time {
            let elapsed = start.elapsed().as_nanos() as u64;
            cpu_ns = elapsed.saturating_sub(*self.device_ns.lock() - in_device);
        }
        self.meter.book(done, self.device.reading(), cpu_ns);
        answer.map_err(|error| error.to_string())
    }

    fn apply(&mut self, op: &SpatialOp<C, D>) -> Result<(), Failure> {
        let done = Done { kind: op.name(), operations: 1, changes: op.changes() };
        let verify = self.job.options.verify;
        match *op {
            SpatialOp::Insert(at) => {
                let entry = self.model.entry(at);
                self.call(done, |subject| subject.insert(entry))?;
                self.model.set(at, true);
            }
            SpatialOp::Remove(at) => {
                let entry = self.model.entry(at);
                let was_there = self.call(done, |subject| subject.remove(entry))?;
                self.expect_presence(at, was_there)?;
                self.model.set(at, false);
            }
            SpatialOp::Search(at) => {
                let entry = self.model.entry(at);
                let is_found = self.call(done, |subject| subject.search(entry))?;
                self.expect_presence(at, is_found)?;
            }
            SpatialOp::Window(window, relation) => {
                let found = self.call(done, |subject| found_in(subject.spatial()?, &window, relation))?;
                if verify {
                    compare(&in_order(found), &self.model.window(&window, relation))?;
                }
            }
            SpatialOp::Nearest(point, count) => {
                let found = self.call(done, |subject| found_near(subject.spatial()?, &point, count))?;
                if verify {
                    compare(&found, &self.model.nearest(&point, count as usize))?;
                }
            }
            SpatialOp::Sync => self.sync()?,
        }
        Ok(())
    }

    fn expect_presence(&self, at: u32, said: bool) -> Result<(), Failure> {
        if said == self.model.contains(at) || !self.job.options.verify {
            return Ok(());
        }
        let word = |present| if present { "present" } else { "absent" };
        Err(format!(
            "wrong answer: entry {} is said to be {}, but is {}",
            self.model.entry(at).1,
            word(said),
            word(!said)
        ))
    }

    fn sync(&mut self) -> Result<(), Failure> {
        self.call(Done { kind: "sync", operations: 1, changes: false }, Subject::sync)
    }

    /// The nodes, and those that some of the queries to come read; nothing of it is counted.
    fn map(&mut self) -> Result<TreeMap, IndexError> {
        let mut map = TreeMap::of(self.job.contestant.name(), self.subject.spatial()?)?;
        for op in self.job.workload.phases.iter().flat_map(|phase| &phase.ops) {
            match *op {
                SpatialOp::Window(window, relation) if map.has_room(true) => {
                    let found = self.model.window(&window, relation).len();
                    map.add(MapQuery::window(&window, relation, found));
                }
                SpatialOp::Nearest(point, count) if map.has_room(false) => {
                    let found = self.model.nearest(&point, count as usize);
                    map.add(MapQuery::nearest(&point, &found));
                }
                _ => {}
            }
        }
        Ok(map)
    }

    /// Figures of the whole run.
    fn finish(&mut self, run: &mut Run) {
        let stats = self.subject.stats();
        let record_bytes = self.model.records() * self.job.settings.record.entry_bytes() as u64;
        let (Medium::Chip(part) | Medium::Disk(_, part)) = self.job.medium;
        run.durability = self.subject.durability().name().to_string();
        run.ram_bytes = run.ram_bytes.max(self.subject.ram_bytes() as u64);
        run.height = stats.height;
        run.records = self.model.records();
        run.live_pages = stats.live_pages;
        run.space_amplification = ratio(stats.live_pages * u64::from(part.geometry.page_bytes), record_bytes);
        run.metrics = by_name(&stats);
        let wear = self.device.wear();
        run.wear_erases = wear.iter().zip(&self.format_wear).map(|(now, then)| now - then).collect();
    }

    /// The index's own check, the number of its records, and the RAM it was given.
    fn check(&mut self, ram_bytes: u64) -> Result<(), Failure> {
        let given = self.job.settings.ram_bytes.map(|bytes| bytes as u64);
        if let Some(given) = given.filter(|&given| ram_bytes > given) {
            return Err(format!("held {ram_bytes} bytes of RAM, more than the {given} it was given"));
        }
        if !self.job.options.check {
            return Ok(());
        }
        let report = self.subject.check().map_err(|error| format!("the check at the end failed: {error}"))?;
        if let Some(first) = report.violations.first() {
            return Err(format!(
                "the check at the end found {} broken at {}: {}",
                first.invariant, first.at, first.found
            ));
        }
        let (found, expected) = (report.records, self.model.records());
        if found == expected {
            Ok(())
        } else {
            Err(format!("the check at the end found {found} entries, not {expected}"))
        }
    }
}

/// Refuses an answer that is not what the model says.
fn compare<C: Space<D>, const D: usize>(
    found: &[(Rect<C, D>, u64)],
    expected: &[(Rect<C, D>, u64)],
) -> Result<(), Failure> {
    let differing = found.iter().zip(expected).position(|(found, expected)| found != expected);
    match differing {
        Some(at) => Err(format!(
            "wrong answer: entry {} of it is {} at {:?}, not {} at {:?}",
            at + 1,
            found[at].1,
            found[at].0,
            expected[at].1,
            expected[at].0
        )),
        None if found.len() == expected.len() => Ok(()),
        None => Err(format!("wrong answer: {} entries instead of {}", found.len(), expected.len())),
    }
}

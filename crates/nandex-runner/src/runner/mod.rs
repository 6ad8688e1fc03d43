//! One index on one simulated chip over one workload: what every operation cost, and whether every answer was
//! right.
//!
//! The chip is shared by the index and the runner, which reads its counters after every call: the difference
//! is the cost of the operation, the garbage collections and evictions it had to wait for included.
//! Formatting is not counted.
//!
//! Every answer is compared with a [`Model`](crate::model::Model) unless told not to; the first wrong one
//! ends the run, as does the first error of the index. What was measured until then is kept, and
//! [`Run::error`] says where it stopped.
//!
//! Processor time is the thread's while it is in the index, less that spent in the simulated chip: what
//! index, FTL and cache compute. It is the only figure that differs from one run to the next.

mod chip;
mod failure;
mod fit;
mod medium;
pub(crate) mod meter;
mod pattern;
mod progress;
mod records;
mod remount;
pub(crate) mod session;
mod stopwatch;
pub(crate) mod subject;
#[cfg(test)]
mod tests;

pub(crate) use failure::Failure;
pub(crate) use medium::Device;
pub use medium::Medium;
pub(crate) use meter::{Done, by_cause};
pub(crate) use progress::Progress;

use crate::error::LabError;
use crate::keys::{KeyTable, Trees};
use crate::registry::IndexEntry;
use crate::results::Run;
use crate::workload::{OpKind, Workload};
use nandex::nand::Part;
use nandex_stacks::needed::ram_needed;
use nandex_stacks::options::Settings;
use records::Records;
use session::{Sizes, Task};
use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A workload made ready for trees with keys of one width; all runs share it.
#[derive(Clone, Debug)]
pub struct Prepared<'a> {
    workload: Cow<'a, Workload>,
    keys: KeyTable,
    /// The slot of every operation's key, by phase.
    slots: Vec<Vec<u32>>,
}

impl<'a> Prepared<'a> {
    /// Looks through the workload once and ranks its keys; several indexes run as one tree.
    pub fn new(workload: &'a Workload, key_bytes: u8) -> Result<Prepared<'a>, LabError> {
        Prepared::with_trees(workload, key_bytes, Trees::One)
    }

    /// A prepared workload, where it is told how several indexes run.
    pub fn with_trees(workload: &'a Workload, key_bytes: u8, trees: Trees) -> Result<Prepared<'a>, LabError> {
        Prepared::of(Cow::Borrowed(workload), key_bytes, trees)
    }

    /// A prepared workload that holds the workload itself.
    pub fn owned(workload: Workload, key_bytes: u8, trees: Trees) -> Result<Prepared<'static>, LabError> {
        Prepared::of(Cow::Owned(workload), key_bytes, trees)
    }

    fn of(workload: Cow<'_, Workload>, key_bytes: u8, trees: Trees) -> Result<Prepared<'_>, LabError> {
        let keys = KeyTable::new(&workload, key_bytes, trees)?;
        let slots = workload.phases.iter().map(|p| p.ops.iter().map(|op| keys.slot(op)).collect()).collect();
        Ok(Prepared { workload, slots, keys })
    }

    /// The workload.
    pub fn workload(&self) -> &Workload {
        &self.workload
    }

    /// The keys of the workload.
    pub fn keys(&self) -> &KeyTable {
        &self.keys
    }
}

/// How a run is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunOptions {
    /// Compare every answer with the model.
    pub verify: bool,
    /// Walk the index at the end and check its invariants (neither counted nor timed).
    pub check: bool,
    /// Measure processor time. Two looks at the clock for each page touched make a run somewhat slower.
    pub cpu_time: bool,
    /// Count what follows the last program or read of its block, see
    /// [`PatternCounts`](crate::results::PatternCounts).
    pub patterns: bool,
    /// Sync after so many insertions, removals and updates; never unasked when absent.
    pub sync_every: Option<u64>,
    /// Sync after every phase that is not measured, in the figures of that phase, so that nothing of a load
    /// waits any more when the measured operations begin.
    pub sync_after_load: bool,
    /// Sync after the last operation, counted, where the class does not make every operation durable: what
    /// still waits in a cache is then paid for like the rest.
    pub sync_at_end: bool,
    /// Find the index again at the end, as a cut leaves it and closed, and count what that costs apart; and
    /// ask for the smallest RAM with which it starts.
    pub mount: bool,
}

impl Default for RunOptions {
    fn default() -> RunOptions {
        RunOptions {
            verify: true,
            check: true,
            cpu_time: true,
            patterns: false,
            sync_every: None,
            sync_after_load: false,
            sync_at_end: false,
            mount: false,
        }
    }
}

/// One run to do.
#[derive(Clone, Debug)]
pub struct Job<'a> {
    /// The index.
    pub index: &'a IndexEntry,
    /// The chip.
    pub part: &'a Part,
    /// The workload.
    pub prepared: &'a Prepared<'a>,
    /// Record sizes, RAM, durability, options of the index.
    pub settings: Settings,
    /// How to carry it out.
    pub options: RunOptions,
}

/// Shared between the runs and whoever waits for them: cancels them, and tells how far they are.
#[derive(Debug, Default)]
pub struct Control {
    cancelled: AtomicBool,
    done: AtomicU64,
    planned: AtomicU64,
}

impl Control {
    /// Makes every run stop before its next operation. Safe to call from a signal's thread.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether the runs are to stop.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Operations done by all runs so far; those that a run will not do because it failed count as done.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Operations that all runs will do in all, as far as they are known by now.
    pub fn planned(&self) -> u64 {
        self.planned.load(Ordering::Relaxed)
    }

    /// Adds operations that will be done.
    pub fn plan(&self, operations: u64) {
        self.planned.fetch_add(operations, Ordering::Relaxed);
    }

    pub(crate) fn add_done(&self, operations: u64) {
        self.done.fetch_add(operations, Ordering::Relaxed);
    }
}

/// Does one run. A failure is told in [`Run::error`], next to what was measured before it.
pub fn run(job: &Job<'_>, control: &Control) -> Run {
    let settings = job.prepared.workload.values.settings(job.index, &job.settings);
    let valued = Job { settings, ..job.clone() };
    let fitted = fit::fitting(&valued);
    let job: &Job<'_> = &fitted;
    let (mut run, subject) = session::carry_out(job, control);
    if job.options.mount && run.error.is_none() && job.prepared.keys.trees() == Trees::One {
        [run.mount, run.mount_closed] = subject.map_or([None, None], |records| remount::costs(job, records));
        run.ram_needed_bytes = ram_needed(job.index, job.part, &job.settings).ok().map(|ram| ram as u64);
    }
    run
}

impl Task for Job<'_> {
    type Subject<'s>
        = Records<'s>
    where
        Self: 's;

    fn row(&self) -> Run {
        Run {
            index: self.index.name.to_string(),
            storage: self.index.storage(&self.settings.options),
            seed: self.prepared.workload.seed,
            ..Run::default()
        }
    }

    fn operations(&self) -> u64 {
        self.prepared.workload.operations()
    }

    fn options(&self) -> RunOptions {
        self.options
    }

    fn sizes(&self) -> Sizes {
        Sizes {
            page_bytes: self.part.geometry.page_bytes.into(),
            record_bytes: match records::lengths_of(self) {
                Ok(Some(lengths)) => u64::from(self.settings.record.key_bytes) + lengths.mean() as u64,
                _ => self.settings.record.entry_bytes() as u64,
            },
        }
    }

    fn open(&self) -> Result<(Device, Records<'_>), Failure> {
        refusal(self).map_or(Ok(()), Err)?;
        self.index.check_options(&self.settings.options).map_err(|e| Failure::Refused(e.to_string()))?;
        let (device, nand) = medium::new_chip(self.part, &self.options)?;
        let chip = device.chip();
        Ok((device, Records::open(self, nand, chip)?))
    }
}

/// Why an index cannot run this workload, if so: for its values, or because it takes ascending keys only.
fn refusal(job: &Job<'_>) -> Option<Failure> {
    if let Some(why) = job.prepared.workload.values.refused_by(job.index, &job.settings) {
        return Some(Failure::Refused(why));
    }
    if job.index.takes_any_key() {
        return None;
    }
    let prepared = job.prepared;
    let mut next = 0;
    for (phase, slots) in prepared.workload.phases.iter().zip(&prepared.slots).filter(|(p, _)| !p.is_sorted) {
        for (i, (op, &slot)) in
            phase.ops.iter().zip(slots).enumerate().filter(|(_, (op, _))| op.kind.changes())
        {
            if op.kind != OpKind::Insert || slot < next {
                return Some(Failure::Refused(format!(
                    "it takes insertions of ascending keys only, which phase {}, operation {} is not",
                    phase.name,
                    i + 1
                )));
            }
            next = slot + 1;
        }
    }
    None
}

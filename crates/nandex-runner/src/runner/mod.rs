//! Runs one index on one simulated chip over one workload: measures every operation and checks every answer.
//!
//! The index and the runner share the chip. The runner reads its counters after every call: the difference is
//! the cost of the operation, including the garbage collections and evictions in it. Formatting is not
//! counted.
//!
//! Every answer is compared with a [`Model`](crate::model::Model) unless that is switched off. The first
//! wrong answer ends the run, and so does the first error of the index. The measurements so far are kept, and
//! [`Run::error`] tells where the run stopped.
//!
//! Processor time is that of the thread inside the index, without the simulated chip: the work of index, FTL
//! and cache. It is the only figure that differs from run to run.

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
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A workload prepared for trees with keys of one width. All runs share it.
#[derive(Clone, Debug)]
pub struct Prepared<'a> {
    workload: Cow<'a, Workload>,
    keys: KeyTable,
    /// The slot of every operation's key, by phase.
    slots: Vec<Vec<u32>>,
}

impl<'a> Prepared<'a> {
    /// Prepares a workload and ranks its keys; several indexes run as one tree.
    pub fn new(workload: &'a Workload, key_bytes: u8) -> Result<Prepared<'a>, LabError> {
        Prepared::with_trees(workload, key_bytes, Trees::One)
    }

    /// Prepares a workload; `trees` says how several indexes run.
    pub fn with_trees(workload: &'a Workload, key_bytes: u8, trees: Trees) -> Result<Prepared<'a>, LabError> {
        Prepared::of(Cow::Borrowed(workload), key_bytes, trees)
    }

    /// Prepares a workload and takes ownership of it.
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

    /// Most records that are there at a time.
    pub fn records_max(&self) -> u64 {
        let (mut there, mut records, mut most) = (HashSet::new(), 0, 0);
        for (op, &slot) in self.workload.phases.iter().zip(&self.slots).flat_map(|(p, s)| p.ops.iter().zip(s))
        {
            match op.kind {
                OpKind::Insert => records += u64::from(there.insert(slot)),
                OpKind::Remove => records -= u64::from(there.remove(&slot)),
                _ => {}
            }
            most = most.max(records);
        }
        most
    }

    /// The keys of the workload.
    pub fn keys(&self) -> &KeyTable {
        &self.keys
    }
}

/// The settings of a run that do not concern the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunOptions {
    /// Whether every answer is compared with the model.
    pub verify: bool,
    /// Whether the index is walked at the end to check its invariants. The walk is neither counted nor
    /// timed.
    pub check: bool,
    /// Whether processor time is measured. It takes two looks at the clock for each page touched, so the
    /// run becomes somewhat slower.
    pub cpu_time: bool,
    /// Whether the patterns of programs and reads are counted, see
    /// [`PatternCounts`](crate::results::PatternCounts).
    pub patterns: bool,
    /// Number of insertions, removals and updates between two syncs; absent means no such syncs.
    pub sync_every: Option<u64>,
    /// Whether to sync after every phase that is not measured, such as a load. The sync counts in that
    /// phase, so no work of a load waits when the measured operations begin.
    pub sync_after_load: bool,
    /// Whether to sync after the last operation unless the class makes every operation durable. The sync is
    /// counted, so the writes that wait in a cache are paid for like the rest.
    pub sync_at_end: bool,
    /// Whether to mount the index at the end, after a power cut and after a close, to go on for a session
    /// after the cut, and to count the costs of each separately. The smallest RAM with which the index starts
    /// is then found too.
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

/// A run to do.
#[derive(Clone, Debug)]
pub struct Job<'a> {
    /// The index to run.
    pub index: &'a IndexEntry,
    /// The chip to run on.
    pub part: &'a Part,
    /// The workload to run.
    pub prepared: &'a Prepared<'a>,
    /// Record sizes, RAM, durability, and options of the index.
    pub settings: Settings,
    /// The settings that do not concern the index.
    pub options: RunOptions,
}

/// Shared state of the runs and their observer, who can cancel them and see their progress.
#[derive(Debug, Default)]
pub struct Control {
    cancelled: AtomicBool,
    done: AtomicU64,
    planned: AtomicU64,
}

impl Control {
    /// Makes every run stop before its next operation. It may be called from a signal handler's thread.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether the runs are to stop.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Number of operations that all runs have done so far. Operations that a failed run skips count as
    /// done.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Number of operations that all runs together will do, as far as known by now.
    pub fn planned(&self) -> u64 {
        self.planned.load(Ordering::Relaxed)
    }

    /// Adds operations that a run will do.
    pub fn plan(&self, operations: u64) {
        self.planned.fetch_add(operations, Ordering::Relaxed);
    }

    pub(crate) fn add_done(&self, operations: u64) {
        self.done.fetch_add(operations, Ordering::Relaxed);
    }
}

/// Does one run. A failure is stored in [`Run::error`], next to the figures until then.
pub fn run(job: &Job<'_>, control: &Control) -> Run {
    let settings = job.prepared.workload.values.settings(job.index, &job.settings);
    let valued = Job { settings, ..job.clone() };
    let fitted = fit::fitting(&valued);
    let job: &Job<'_> = &fitted;
    let (mut run, subject) = session::carry_out(job, control);
    if job.options.mount && run.error.is_none() && job.prepared.keys.trees() == Trees::One {
        if let Some(records) = subject {
            remount::measure(job, records, &mut run);
        }
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
        let records = Records::open(self, nand, chip)?;
        records.too_many().map_or(Ok((device, records)), Err)
    }
}

/// The reason why the index cannot run this workload, if any: its values, or keys that do not ascend.
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

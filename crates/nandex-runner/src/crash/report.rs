//! The findings of a crash test, with stable names.

use super::CrashPlan;
use super::history::Survivor;
use super::point::CutPoint;
use nandex::Cause;
use nandex::nand::sim::{PhysicalOp, Recorded};
use nandex::ordered::Durability;
use serde::Serialize;
use std::collections::BTreeMap;

/// The outcome of a crash test.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CrashReport {
    /// Set-up of the test.
    #[serde(flatten)]
    pub setup: CrashSetup,
    /// The workload as it went without any cut.
    #[serde(flatten)]
    pub work: CrashWork,
    /// Why the workload ended early, if it did: an error or a wrong answer without any cut.
    pub stopped: Option<String>,
    /// Whether the test was cancelled.
    pub cancelled: bool,
    /// The tally of the cuts' outcomes.
    #[serde(flatten)]
    pub tally: Tally,
    /// The first failure in the order of the physical operations.
    pub first_failure: Option<CrashFailure>,
    /// Wall-clock time in milliseconds.
    pub elapsed_ms: u64,
}

/// The set-up of a crash test.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CrashSetup {
    /// "index" or "store".
    pub kind: &'static str,
    /// The target's name.
    pub name: String,
    /// The chip.
    pub chip: String,
    /// Bytes of a key.
    pub key_bytes: u8,
    /// Bytes of a value.
    pub value_bytes: u8,
    /// RAM given to the target. Absent if it was not limited.
    pub ram_bytes: Option<u64>,
    /// Options set.
    pub options: BTreeMap<String, String>,
    /// Durability class declared by the target, which decides what may be lost.
    pub durability: &'static str,
    /// The seed of the workload and of everything random in the cuts.
    pub seed: u64,
}

impl CrashSetup {
    pub(super) fn of(plan: &CrashPlan, declared: Durability) -> CrashSetup {
        let settings = &plan.settings;
        let options = settings.options.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        CrashSetup {
            kind: plan.target.kind(),
            name: plan.target.name().to_string(),
            chip: plan.part.name.to_string(),
            key_bytes: settings.record.key_bytes,
            value_bytes: settings.record.value_bytes,
            ram_bytes: settings.ram_bytes.map(|bytes| bytes as u64),
            options: options.collect(),
            durability: declared.name(),
            seed: plan.seed,
        }
    }
}

/// The workload of a crash test as it went without any cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CrashWork {
    /// Operations of the workload.
    pub operations: u64,
    /// Number of operations refused because the chip was full.
    pub operations_refused: u64,
    /// Number of physical operations: programs, erases and bad-block marks.
    pub physical_operations: u64,
    /// Number of physical operations that failed, as requested.
    pub physical_failures: u64,
    /// Programs and erases for garbage collection.
    pub collection_operations: u64,
    /// Programs and erases for checkpoints.
    pub checkpoint_operations: u64,
}

impl CrashWork {
    pub(super) fn of(recording: &[Recorded], operations: u64, refused: u64) -> CrashWork {
        let count = |is: &dyn Fn(&Recorded) -> bool| recording.iter().filter(|op| is(op)).count() as u64;
        let caused = |cause: Cause| count(&|recorded| recorded.cause == Some(cause));
        CrashWork {
            operations,
            operations_refused: refused,
            physical_operations: recording.len() as u64,
            physical_failures: count(&|op| op.torn.is_some() && !matches!(op.op, PhysicalOp::MarkBad { .. })),
            collection_operations: caused(Cause::GarbageCollection) + caused(Cause::Merge),
            checkpoint_operations: caused(Cause::Checkpoint),
        }
    }
}

impl CrashReport {
    /// Whether nothing was lost and nothing failed.
    pub fn is_clean(&self) -> bool {
        self.stopped.is_none() && self.tally.failures() == 0
    }

    /// The report without wall time, which differs between runs.
    #[must_use]
    pub fn without_elapsed(&self) -> CrashReport {
        CrashReport { elapsed_ms: 0, ..self.clone() }
    }
}

/// Counts over all cuts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Cuts tried, second ones included.
    pub cuts_tried: u64,
    /// Second cuts tried.
    pub second_cuts_tried: u64,
    /// Cuts after which the state of the last acknowledged operation was found.
    pub recovered_exact: u64,
    /// Cuts after which the operation in flight had been done.
    pub recovered_in_flight: u64,
    /// Cuts after which an earlier state since the last sync was found.
    pub recovered_prefix: u64,
    /// Cuts after which the mount was refused, as the class *none* allows.
    pub refused: u64,
    /// Refused mounts whose data could be salvaged: opened as they were, each key had its value at the last
    /// sync or a later one.
    pub salvaged: u64,
    /// Cuts after which acknowledged operations were lost, whether the class allows it or not. If a refused
    /// subject cannot be opened at all, all its operations count as lost.
    pub cuts_with_a_loss: u64,
    /// Largest number of operations lost by one cut.
    pub operations_lost_most: u64,
    /// Recovered chips on which the test went on, with more operations and another mount.
    pub continued: u64,
    /// Cuts after which the contents were not allowed by the promise.
    pub lost: u64,
    /// Cuts after which the subject could not be mounted or read.
    pub unmountable: u64,
    /// Cuts after which an invariant was broken.
    pub unsound: u64,
    /// Cuts after which the continued test gave a wrong answer or an error.
    pub went_wrong: u64,
    /// Cuts after which the program panicked.
    pub panicked: u64,
}

impl Tally {
    /// Number of cuts that failed.
    pub fn failures(&self) -> u64 {
        self.lost + self.unmountable + self.unsound + self.went_wrong + self.panicked
    }

    pub(super) fn add(&mut self, other: &Tally) {
        self.cuts_tried += other.cuts_tried;
        self.second_cuts_tried += other.second_cuts_tried;
        self.recovered_exact += other.recovered_exact;
        self.recovered_in_flight += other.recovered_in_flight;
        self.recovered_prefix += other.recovered_prefix;
        self.refused += other.refused;
        self.salvaged += other.salvaged;
        self.cuts_with_a_loss += other.cuts_with_a_loss;
        self.operations_lost_most = self.operations_lost_most.max(other.operations_lost_most);
        self.continued += other.continued;
        self.lost += other.lost;
        self.unmountable += other.unmountable;
        self.unsound += other.unsound;
        self.went_wrong += other.went_wrong;
        self.panicked += other.panicked;
    }

    /// Counts a loss of acknowledged operations.
    pub(super) fn lost_operations(&mut self, operations: u64) {
        self.cuts_with_a_loss += u64::from(operations > 0);
        self.operations_lost_most = self.operations_lost_most.max(operations);
    }

    pub(super) fn survived(&mut self, survivor: Survivor) {
        match survivor {
            Survivor::Exact => self.recovered_exact += 1,
            Survivor::InFlight => self.recovered_in_flight += 1,
            Survivor::Prefix => self.recovered_prefix += 1,
        }
    }

    pub(super) fn failed(&mut self, failure: &Failure) {
        match failure {
            Failure::Lost(_) => self.lost += 1,
            Failure::Unmountable(_) => self.unmountable += 1,
            Failure::Unsound(_) => self.unsound += 1,
            Failure::WentWrong(_) => self.went_wrong += 1,
            Failure::Panicked(_) => self.panicked += 1,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    Lost(String),
    Unmountable(String),
    Unsound(String),
    WentWrong(String),
    Panicked(String),
}

impl Failure {
    fn parts(&self) -> (&'static str, &str) {
        match self {
            Failure::Lost(why) => ("lost", why),
            Failure::Unmountable(why) => ("unmountable", why),
            Failure::Unsound(why) => ("unsound", why),
            Failure::WentWrong(why) => ("went_wrong", why),
            Failure::Panicked(why) => ("panicked", why),
        }
    }
}

/// A failure, and how to reproduce it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CrashFailure {
    /// The place of the cut, as `--at` takes it.
    pub at: String,
    /// Operations of the workload acknowledged before the cut.
    pub acknowledged: u64,
    /// Kind of failure: "lost", "unmountable", "unsound", "went_wrong" or "panicked".
    pub kind: &'static str,
    /// The failure in words.
    pub what: String,
    /// Command line that repeats the failure.
    pub replay: String,
}

impl CrashFailure {
    pub(super) fn new(at: CutPoint, acknowledged: usize, failure: &Failure) -> CrashFailure {
        let (kind, what) = failure.parts();
        CrashFailure {
            at: at.to_string(),
            acknowledged: acknowledged as u64,
            kind,
            what: what.to_string(),
            replay: String::new(),
        }
    }
}

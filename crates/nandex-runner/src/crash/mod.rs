//! Crash tests: the power is cut at every physical operation of a workload, and the recovered contents are
//! compared with the promise.
//!
//! 1. The workload runs once on a small chip that records every program, erase and bad-block mark, labelled
//!    with the number of operations acknowledged before it ([`Rehearsal::record`]).
//! 2. A second chip walks along the recording. It is cloned before each physical operation. The clone sees
//!    that operation not at all, or torn in every way possible on the chip. (A cut after an operation is one
//!    before the next.)
//! 3. The clone is mounted, its invariants are checked, and its whole contents compared. A class that keeps
//!    every operation must return the acknowledged ones, with or without the one in flight. A class that
//!    keeps every sync must return some prefix of the history that is no shorter than the last sync. A class
//!    without a promise must refuse or be right. If it can be opened after a refusal, it must be whole, and
//!    each key must be as at the last sync or later.
//! 4. Some of the recovered chips go on working for a few dozen operations, and some of these are cut a
//!    second time, during the recovery or after it.
//!
//! Threads divide the work by stretches of the recording. The report does not depend on their number.

pub(crate) mod history;
pub(crate) mod ops;
mod point;
mod report;
pub(crate) mod subject;
pub(crate) mod trial;

pub use point::{Cut, CutPoint};
pub use report::{CrashFailure, CrashReport, CrashSetup, CrashWork, Tally};

use crate::error::LabError;
use crate::parallel;
use crate::registry::{Holds, IndexEntry, StoreEntry};
use crate::runner::Control;
use crate::spatial::SpatialEntry;
use history::{History, Moment};
use nandex::Shared;
use nandex::nand::sim::{Faults, Recording, SimChip};
use nandex::nand::{Part, catalogue};
use nandex::ordered::Durability;
use nandex::rng::Rng;
use nandex::{Geometry, IndexError};
use nandex_stacks::options::Settings;
use ops::{HostOp, Mix, Source};
use point::WAYS;
use std::time::Instant;
use subject::{Applied, Promise, SharedChip, Subject};
use trial::{Context, Outcome, Walk};

/// The subject of a test.
#[derive(Clone, Copy, Debug)]
pub enum Target {
    /// An index of the registry.
    Index(&'static IndexEntry),
    /// A spatial index of its registry, with rectangles of whole numbers in the plane.
    Spatial(&'static SpatialEntry),
    /// A store of the registry.
    Store(&'static StoreEntry),
}

impl Target {
    /// The target's name in the registry.
    pub fn name(&self) -> &'static str {
        match self {
            Target::Index(entry) => entry.name,
            Target::Spatial(entry) => entry.name,
            Target::Store(entry) => entry.name,
        }
    }

    /// The kind of contents of an index. `None` for a target that is no ordered index.
    pub(crate) fn holds(&self) -> Option<Holds> {
        match self {
            Target::Index(entry) => Some(entry.holds),
            Target::Spatial(_) | Target::Store(_) => None,
        }
    }

    /// Largest number of different keys or pages in a test by default. Long values take the room of several
    /// records, so fewer.
    pub fn usual_slots(&self) -> u32 {
        if self.holds().is_some_and(Holds::any_length) { 80 } else { 1200 }
    }

    /// Strongest durability class of the target.
    pub fn strongest_class(&self) -> Durability {
        match self {
            Target::Index(entry) => entry.strongest_class(),
            Target::Spatial(_) | Target::Store(_) => Durability::EveryOperation,
        }
    }

    /// A part like this one, on which the target can run.
    pub fn suited(&self, part: Part) -> Part {
        match self {
            Target::Index(entry) => entry.suited(part),
            Target::Spatial(_) | Target::Store(_) => part,
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Target::Index(_) => "index",
            Target::Spatial(_) => "spatial index",
            Target::Store(_) => "store",
        }
    }
}

/// The places at which the power is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cuts {
    /// Before and inside every physical operation, torn in every way.
    All,
    /// At this number of places, evenly spread.
    Sample(u64),
    /// One cut only, to repeat it.
    At(CutPoint),
}

/// Failures of the chip during the workload. They are repeated with the recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChipFailures {
    /// Share of programs that fail, in a million.
    pub program_failures_ppm: u32,
    /// Share of erases that fail, in a million.
    pub erase_failures_ppm: u32,
    /// Share of blocks that are bad from the factory, in a million.
    pub bad_blocks_ppm: u32,
}

/// The plan of a crash test.
#[derive(Clone, Debug)]
pub struct CrashPlan {
    /// The subject of the test.
    pub target: Target,
    /// The chip. A small one shows more in less time.
    pub part: Part,
    /// Record sizes, RAM, durability, options.
    pub settings: Settings,
    /// Operations of the workload.
    pub operations: u64,
    /// The seed of everything random.
    pub seed: u64,
    /// The places at which the power is cut.
    pub cuts: Cuts,
    /// Largest number of different keys, or of pages of a store.
    pub slots: u32,
    /// Failures of the chip besides power cuts.
    pub failures: ChipFailures,
}

/// Name of the default chip of crash tests.
pub const SMALL_CHIP: &str = "crash-small";

/// A chip so small that garbage collection and checkpoints happen many times in a short run.
pub fn small_chip() -> Part {
    let mut part = catalogue::mlc_64m();
    part.name = SMALL_CHIP.into();
    part.geometry = Geometry::new(512, 64, 16, 32);
    part
}

impl CrashPlan {
    /// A plan with all cuts of 2,000 operations on the small chip.
    pub fn new(target: Target, settings: Settings) -> CrashPlan {
        CrashPlan {
            target,
            part: target.suited(small_chip()),
            settings,
            operations: 2000,
            seed: 1,
            cuts: Cuts::All,
            slots: target.usual_slots(),
            failures: ChipFailures::default(),
        }
    }

    fn mount(&self, chip: &SharedChip) -> Result<Subject, IndexError> {
        Subject::mount(self.target, &self.settings, Box::new(chip.clone()))
    }

    /// Command line that repeats one cut of this test.
    pub fn replay_command(&self, at: &str) -> String {
        let settings = &self.settings;
        let flag = match self.target {
            Target::Index(_) => "index",
            Target::Spatial(_) => "spatial",
            Target::Store(_) => "ftl",
        };
        let mut command = format!(
            "nandex crash --{flag} {} --ops {} --seed {} --at {at}",
            self.target.name(),
            self.operations,
            self.seed
        );
        let mut add = |flag: &str, value: &dyn std::fmt::Display| {
            command.push_str(&format!(" --{flag} {value}"));
        };
        if self.part.name != SMALL_CHIP {
            add("chip", &self.part.name);
        }
        add("keys", &self.slots);
        add("record", &format_args!("{}/{}", settings.record.key_bytes, settings.record.value_bytes));
        if let Some(ram) = settings.ram_bytes {
            add("ram", &ram);
        }
        if settings.durability != Durability::EveryOperation {
            add("durability", &settings.durability.name().replace(' ', "-"));
        }
        let failures = self.failures;
        if failures != ChipFailures::default() {
            let (program, erase) = (failures.program_failures_ppm, failures.erase_failures_ppm);
            add("faults", &format_args!("{program},{erase},{}", failures.bad_blocks_ppm));
        }
        settings.options.iter().for_each(|(name, value)| add("set", &format_args!("{name}={value}")));
        command
    }
}

/// A workload that was run once and recorded, ready for cuts.
pub struct Rehearsal {
    plan: CrashPlan,
    start: SimChip,
    recording: Recording,
    history: History,
    stopped: Option<String>,
    refused: u64,
    mix: Mix,
    promise: Promise,
    durability: Durability,
}

/// Percentage of the keys whose records are loaded before the workload.
const LOADED_PERCENT: u64 = 60;

/// Number of physical operations that a thread takes at a time.
const STRETCH: usize = 48;

impl Rehearsal {
    /// Runs the workload and records it. An error means that the index refused it from the start; later
    /// failures are in the report.
    pub fn record(plan: CrashPlan) -> Result<Rehearsal, LabError> {
        let chip = SimChip::new(&plan.part).map_err(|error| LabError::Chip {
            file: plan.part.name.to_string(),
            reason: error.to_string(),
        })?;
        let chip = chip.with_factory_bad_blocks(plan.failures.bad_blocks_ppm, plan.seed);
        let chip: SharedChip = Shared::new(chip);
        let mut subject = Subject::format(plan.target, &plan.settings, Box::new(chip.clone()))?;
        let mix = subject.mix(plan.target, (plan.slots, plan.operations as u32 + 2));
        let (promise, durability) = (subject.promise(plan.target), subject.durability());
        let history = subject.load(mix, LOADED_PERCENT).map_err(|why| {
            LabError::bad_option("keys", &plan.slots.to_string(), format!("with this chip: {why}"))
        })?;
        let start = chip.lock().clone();
        chip.lock().start_recording();
        chip.lock().set_faults(Faults {
            seed: plan.seed,
            program_failures_ppm: plan.failures.program_failures_ppm,
            erase_failures_ppm: plan.failures.erase_failures_ppm,
            ..Faults::default()
        });
        let recording = Recording::default();
        let (stopped, refused) = (None, 0);
        let mut rehearsal =
            Rehearsal { plan, start, recording, history, stopped, refused, mix, promise, durability };
        rehearsal.stopped = rehearsal.run_workload(subject, &chip).err();
        rehearsal.recording = chip.lock().take_recording();
        Ok(rehearsal)
    }

    fn run_workload(&mut self, mut subject: Subject, chip: &SharedChip) -> Result<(), String> {
        let mut source = Source::new(self.plan.seed, self.mix);
        for number in 0..self.plan.operations {
            chip.lock().mark(number);
            let op = source.next(self.history.contents());
            let version = number as u32 + 1;
            let at = |why: String| format!("operation {number}, without any cut: {why}");
            match subject.apply(&op, version, self.history.contents()).map_err(at)? {
                Applied::Done => {
                    let trims = matches!(subject, Subject::Store(_));
                    self.history.note(&op, version, subject.value_bytes(), trims);
                }
                refusal => {
                    self.refused += u64::from(refusal != Applied::TooMany);
                    self.history.note_nothing(false);
                }
            }
            if matches!(op, HostOp::Remount { .. }) {
                chip.lock().mark(number + 1);
                drop(subject);
                subject = self.plan.mount(chip).map_err(|error| at(format!("mount: {error}")))?;
            }
        }
        chip.lock().mark(self.plan.operations);
        let found = subject.contents(self.mix.slots as usize)?;
        if found != self.history.contents() {
            return Err(format!(
                "at the end, without any cut: {}",
                history::Wrong::between(self.history.contents(), &found)
            ));
        }
        Ok(())
    }

    /// Number of physical operations recorded.
    pub fn physical_operations(&self) -> u64 {
        self.recording.operations.len() as u64
    }

    /// Number of first cuts to try.
    pub fn cuts(&self) -> u64 {
        self.cut_numbers().len() as u64
    }

    fn cut_numbers(&self) -> Vec<u64> {
        // The last one lies after everything.
        let all = self.physical_operations() * WAYS + 1;
        match self.plan.cuts {
            Cuts::All => (0..all).collect(),
            Cuts::Sample(wanted) if wanted >= all => (0..all).collect(),
            Cuts::Sample(wanted) => {
                let mut rng = Rng::new(self.plan.seed);
                let start = |part: u64| (u128::from(all) * u128::from(part) / u128::from(wanted)) as u64;
                (0..wanted).map(|part| start(part) + rng.below(start(part + 1) - start(part))).collect()
            }
            Cuts::At(point) => vec![point.first.number().min(all - 1)],
        }
    }

    /// Tries the cuts with `threads` threads.
    pub fn run(&self, threads: usize, control: &Control) -> CrashReport {
        let began = Instant::now();
        let numbers = self.cut_numbers();
        let operations = &self.recording.operations;
        let context = Context {
            plan: &self.plan,
            mix: self.mix,
            promise: self.promise,
            durability: self.durability,
            may_be_full: self.refused > 0,
        };
        let tick = || {
            control.add_done(1);
            !control.is_cancelled()
        };
        let stretches = self.stretches(&numbers);
        let outcomes = parallel::map(&stretches, threads, |stretch| {
            let (chip, moment) = (stretch.chip.clone(), stretch.moment.clone());
            let (history, recording) = (&self.history, &operations[..]);
            let mut walk = Walk { history, recording, chip, moment, at: stretch.at };
            match self.plan.cuts {
                _ if control.is_cancelled() => Outcome::default(),
                Cuts::At(point) => context.try_point(&mut walk, point),
                _ => context.try_cuts(&mut walk, stretch.numbers, &tick),
            }
        });
        let mut report = self.report();
        for outcome in outcomes {
            report.tally.add(&outcome.tally);
            report.first_failure = report.first_failure.or(outcome.first_failure);
        }
        if let Some(failure) = &mut report.first_failure {
            failure.replay = self.plan.replay_command(&failure.at);
        }
        report.cancelled = control.is_cancelled();
        report.elapsed_ms = began.elapsed().as_millis() as u64;
        report
    }

    /// The cuts in groups, each with the chip just before its first cut.
    fn stretches<'a>(&self, numbers: &'a [u64]) -> Vec<Stretch<'a>> {
        let recording = &self.recording.operations[..];
        let (chip, moment) = (self.start.clone(), self.history.start());
        let mut walk = Walk { history: &self.history, recording, chip, moment, at: 0 };
        let groups = numbers.chunks(STRETCH * WAYS as usize);
        let stretch = |numbers: &'a [u64]| {
            walk.advance(Cut::numbered(numbers[0]).operation as usize);
            Stretch { numbers, chip: walk.chip.clone(), moment: walk.moment.clone(), at: walk.at }
        };
        groups.map(stretch).collect()
    }

    fn report(&self) -> CrashReport {
        CrashReport {
            setup: CrashSetup::of(&self.plan, self.durability),
            work: CrashWork::of(&self.recording.operations, self.history.len() as u64, self.refused),
            stopped: self.stopped.clone(),
            ..CrashReport::default()
        }
    }
}

struct Stretch<'a> {
    numbers: &'a [u64],
    chip: SimChip,
    moment: Moment,
    at: usize,
}

/// Runs a whole crash test on all cores.
pub fn run(plan: CrashPlan, control: &Control) -> Result<CrashReport, LabError> {
    Ok(Rehearsal::record(plan)?.run(parallel::cores(), control))
}

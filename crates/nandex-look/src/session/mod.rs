//! A run that was recorded step by step: any state of the chip can be shown again, and the power cut there.
//!
//! A step is one operation of the host. Its *events* are the reads, programs and erases of the chip in their
//! order, so a place in a run is a step and how many of its events have happened ([`At`]). The chip at a
//! place comes from a copy kept every few steps (the simulated chip shares blocks between copies) and the
//! recorded changes since.

mod cut;
mod op;
mod setup;
mod watch;

pub use cut::{CutMode, Recovery};
pub use op::{Op, WORKLOADS};
pub use setup::{OPERATIONS_MAX, PAGES_MAX, SMALL_CHIP, Setup};
pub use watch::{Event, What};

use nandex::IndexError;
use nandex::nand::sim::{Recorded, SimChip};
use nandex::ordered::{Durability, Metric};
use nandex_stacks::registry::Open;
use op::{Contents, Source, Subject};
use serde::{Deserialize, Serialize};
use setup::{Entry, Plan};
use std::sync::Arc;
use watch::Watched;

/// Number of steps between two copies of the chip.
const KEY_STEPS: usize = 16;

/// Most bytes of recorded changes in a run.
const BYTES_MAX: usize = 256 << 20;

/// A place in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct At {
    /// The index of the step.
    pub step: usize,
    /// Number of the step's events that have happened.
    pub event: usize,
}

/// A step of a run.
#[derive(Clone, Debug)]
pub struct Step {
    /// The request in words.
    pub what: String,
    /// The kind of the step, in a word.
    pub kind: &'static str,
    /// The answer in words.
    pub outcome: String,
    /// Whether the step failed.
    pub failed: bool,
    /// The operations of the chip.
    pub events: Vec<Event>,
    /// The changes among the events, in a form that can be repeated.
    pub changes: Vec<Recorded>,
    /// The figures of the index after the step.
    pub metrics: Vec<Metric>,
    /// Number of levels of the index after the step.
    pub height: u32,
    /// RAM of the index after the step, in bytes.
    pub ram_bytes: usize,
    /// Simulated time of the step, in ns.
    pub flash_ns: u64,
    /// The expected contents of the index after the step.
    pub(crate) contents: Arc<Contents>,
}

impl Step {
    /// Number of events of a kind.
    pub fn count(&self, what: What) -> usize {
        self.events.iter().filter(|event| event.what == what).count()
    }

    /// A figure of the index after the step, by its name.
    pub fn metric(&self, name: &str) -> Option<u64> {
        self.metrics.iter().find(|metric| metric.name == name).map(|metric| metric.value)
    }

    /// Expected number of records after the step.
    pub fn records(&self) -> usize {
        self.contents.len()
    }
}

/// The index as it is after the last recorded step.
struct Live {
    subject: Subject,
    watched: Watched,
}

/// A recorded run.
pub struct Session {
    /// The set-up of the run.
    pub setup: Setup,
    plan: Plan,
    steps: Vec<Step>,
    /// Copies of the chip: before step 0, and after every few steps.
    keys: Vec<SimChip>,
    /// The open index; `None` after an operation failed in a way that the index did not survive.
    live: Option<Live>,
    source: Source,
    durability: Durability,
    /// The last step after which everything was durable.
    synced: usize,
    bytes: usize,
    /// Simulated time of the chip after the last step, in ns.
    time_ns: u64,
    /// Chip after a power cut, not yet mounted.
    waiting: Option<Watched>,
    /// The outcome of the mount after a power cut, if the run continues from one.
    pub recovery: Option<Recovery>,
}

impl Session {
    /// Formats the index and runs its workload.
    pub fn run(setup: Setup) -> Result<Session, String> {
        let mut session = Session::formatted(setup)?;
        session.go_on(session.setup.operations)?;
        Ok(session)
    }

    /// Formats the index without running the workload.
    pub fn formatted(setup: Setup) -> Result<Session, String> {
        let plan = setup.plan()?;
        let source = Source::new(&setup, &plan)?;
        let mut chip = SimChip::new(&plan.part).map_err(|e| e.to_string())?;
        let fresh = chip.clone();
        chip.start_recording();
        let watched = Watched::new(chip);
        let subject = Subject::open(&plan, &watched, Open::Format)
            .map_err(|error| format!("{} cannot be made on this chip: {error}", setup.index))?;
        let durability = subject.durability();
        let mut session = Session {
            setup,
            plan,
            steps: Vec::new(),
            keys: vec![fresh],
            live: Some(Live { subject, watched }),
            source,
            durability,
            synced: 0,
            bytes: 0,
            time_ns: 0,
            waiting: None,
            recovery: None,
        };
        session.note("format".into(), "format", Ok("an empty index".into()), Contents::new());
        Ok(session)
    }

    /// All steps of the run.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The durability class of the index.
    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// Whether the index is spatial.
    pub fn is_spatial(&self) -> bool {
        matches!(self.plan.entry, Entry::Spatial(_))
    }

    /// The simulated part.
    pub fn part(&self) -> &nandex::nand::Part {
        &self.plan.part
    }

    /// The sizes of the records.
    pub fn record(&self) -> nandex::ordered::RecordFormat {
        self.plan.settings.record
    }

    /// Runs up to `operations` more operations of the workload, and stops if one fails.
    pub fn go_on(&mut self, operations: usize) -> Result<(), String> {
        for _ in 0..operations {
            let contents = self.last_contents();
            let op = self.source.next(&contents);
            if !self.apply(op)? {
                break;
            }
        }
        Ok(())
    }

    /// Does one operation; returns whether it succeeded.
    pub fn apply(&mut self, op: Op) -> Result<bool, String> {
        if self.steps.len() > OPERATIONS_MAX + 16 {
            return Err(format!("the run has {OPERATIONS_MAX} steps, the most there are"));
        }
        if self.bytes > BYTES_MAX {
            return Err("the run holds as much as there is room for".into());
        }
        let mut contents = (*self.last_contents()).clone();
        let Some(live) = &mut self.live else {
            return Err("the index did not survive the last step; start anew".into());
        };
        let outcome = live.subject.apply(op, &contents);
        let is_done = outcome.is_ok();
        if is_done {
            op.apply(&mut contents);
        }
        let kind = match op {
            Op::Insert { .. } => "insert",
            Op::Remove { .. } => "remove",
            Op::Get { .. } => "get",
            Op::Range { .. } => "scan",
            Op::Sync => "sync",
        };
        let words = op.words(self.is_spatial());
        self.note(words, kind, outcome, contents);
        if is_done && (op == Op::Sync || self.durability == Durability::EveryOperation) {
            self.synced = self.steps.len() - 1;
        }
        Ok(is_done)
    }

    fn last_contents(&self) -> Arc<Contents> {
        self.steps.last().map(|step| step.contents.clone()).unwrap_or_default()
    }

    /// Adds a step with the events of the chip since the previous one.
    fn note(
        &mut self,
        what: String,
        kind: &'static str,
        outcome: Result<String, IndexError>,
        contents: Contents,
    ) {
        let before = self.last_contents();
        let Some(live) = &mut self.live else { return };
        let mut chip = live.watched.chip.lock();
        let changes = chip.take_recording().operations;
        chip.start_recording();
        let flash_ns = chip.time().0.saturating_sub(self.time_ns);
        self.time_ns = chip.time().0;
        if self.steps.len().is_multiple_of(KEY_STEPS) {
            self.keys.push(chip.clone());
        }
        drop(chip);
        let stats = live.subject.stats();
        let contents = if *before == contents { before } else { Arc::new(contents) };
        self.bytes += changes.len() * 64 + changes.iter().map(recorded_bytes).sum::<usize>();
        let mut metrics = stats.metrics;
        let mut add = |name: &'static str, value: u64| {
            if value > 0 {
                metrics.push(Metric { name, value });
            }
        };
        add("live_pages", stats.live_pages);
        add("cache_hits", stats.cache_hits);
        add("cache_misses", stats.cache_misses);
        add("collections", stats.collections);
        self.steps.push(Step {
            what,
            kind,
            failed: outcome.is_err(),
            outcome: outcome.unwrap_or_else(|error| error.to_string()),
            events: std::mem::take(&mut *live.watched.events.lock()),
            changes,
            metrics,
            height: stats.height,
            ram_bytes: live.subject.ram_bytes(),
            flash_ns,
            contents,
        });
    }

    /// Checks that a place belongs to this run.
    pub fn place(&self, at: At) -> Result<At, String> {
        match self.steps.get(at.step) {
            Some(step) if at.event <= step.events.len() => Ok(at),
            Some(step) => Err(format!("step {} has {} events", at.step, step.events.len())),
            None => Err(format!("there are {} steps", self.steps.len())),
        }
    }

    /// The chip at a place, with its bytes, wear and bad blocks. Its counters are those of a copy.
    pub fn chip_at(&self, at: At) -> Result<SimChip, String> {
        let at = self.place(at)?;
        // keys[0] is before step 0, keys[k] after step (k - 1) * KEY_STEPS.
        let key = if at.step == 0 { 0 } else { (at.step - 1) / KEY_STEPS + 1 };
        let first = if key == 0 { 0 } else { (key - 1) * KEY_STEPS + 1 };
        let mut chip = self.keys.get(key).ok_or("no copy of the chip is there")?.clone();
        chip.power_on();
        for step in &self.steps[first..at.step] {
            repeat(&mut chip, &step.changes)?;
        }
        let step = &self.steps[at.step];
        repeat(&mut chip, &step.changes[..changed_by(step, at.event)])?;
        Ok(chip)
    }

    /// The events up to a place.
    pub fn events_until(&self, at: At) -> impl Iterator<Item = &Event> {
        let whole = self.steps[..at.step].iter().flat_map(|step| &step.events);
        whole.chain(&self.steps[at.step].events[..at.event])
    }
}

fn recorded_bytes(recorded: &Recorded) -> usize {
    match &recorded.op {
        nandex::nand::sim::PhysicalOp::Program { data, spare, .. } => data.len() + spare.len(),
        _ => 0,
    }
}

/// Number of recorded changes among the first events of a step; refused events made no change.
fn changed_by(step: &Step, events: usize) -> usize {
    let changes = step.events[..events].iter().filter(|event| event.what.changes()).count();
    changes.min(step.changes.len())
}

fn repeat(chip: &mut SimChip, changes: &[Recorded]) -> Result<(), String> {
    changes.iter().try_for_each(|change| chip.replay(change).map_err(|e| format!("the recording: {e}")))
}

#[cfg(test)]
mod tests;

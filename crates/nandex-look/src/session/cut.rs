//! Cuts the power at one place of a run, and shows the state of the chip, the work of the mount, and the
//! records that came back or were lost.

use super::op::{Contents, Source, Subject};
use super::watch::{Event, Watched, What};
use super::{At, Live, Session, Step, changed_by, repeat};
use nandex::nand::sim::{PhysicalOp, Recorded, TornModel};
use nandex::nand::sim::{SimChip, Torn};
use nandex::ordered::Durability;
use nandex_stacks::registry::Open;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The way in which a power cut affects the next change of the chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CutMode {
    /// Nothing of the change happens.
    Before,
    /// Only the first bytes change.
    Prefix,
    /// Only some of the bits change.
    RandomBits,
    /// The page or block becomes unreadable.
    Unreadable,
    /// The page or block looks erased but is not.
    LooksErased,
    /// The change happens in full but is not acknowledged.
    After,
}

impl CutMode {
    /// All modes.
    pub const ALL: [CutMode; 6] = [
        CutMode::Before,
        CutMode::Prefix,
        CutMode::RandomBits,
        CutMode::Unreadable,
        CutMode::LooksErased,
        CutMode::After,
    ];

    fn torn(self) -> Option<TornModel> {
        match self {
            CutMode::Before | CutMode::After => None,
            CutMode::Prefix => Some(TornModel::Prefix),
            CutMode::RandomBits => Some(TornModel::RandomBits),
            CutMode::Unreadable => Some(TornModel::Unreadable),
            CutMode::LooksErased => Some(TornModel::LooksErased),
        }
    }

    /// The way in words.
    pub const fn words(self) -> &'static str {
        match self {
            CutMode::Before => "here, before it",
            CutMode::Prefix => "inside it: only its first bytes are there",
            CutMode::RandomBits => "inside it: some of its bits are there",
            CutMode::Unreadable => "inside it: what is left cannot be read",
            CutMode::LooksErased => "inside it: what is left looks erased",
            CutMode::After => "after it, before anybody was told",
        }
    }
}

/// A record that differs after the mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The key of the record.
    pub key: u64,
    /// The value acknowledged last; absent if the record was removed.
    pub was: Option<u64>,
    /// The value after the mount; absent if the record is missing.
    pub is: Option<u64>,
}

/// The outcome of a power cut and the mount after it.
#[derive(Clone, Debug, Serialize)]
pub struct Recovery {
    /// The change that the cut affected, in words.
    pub met: String,
    /// How the cut affected the operation.
    pub mode: CutMode,
    /// The promise of the index.
    pub promise: &'static str,
    /// The error of the mount, if it failed.
    pub refused: Option<String>,
    /// Whether the promise was kept; absent without a promise.
    pub kept: Option<bool>,
    /// The verdict in words.
    pub verdict: String,
    /// Number of page reads of the mount by cause.
    pub reads: BTreeMap<&'static str, usize>,
    /// Number of page programs of the mount by cause.
    pub programs: BTreeMap<&'static str, usize>,
    /// Number of block erases of the mount.
    pub erases: usize,
    /// Simulated time of the mount, in ns.
    pub flash_ns: u64,
    /// Numbers of records before the cut and after the mount.
    pub records: (usize, usize),
    /// The first hundred records that differ from the last acknowledged state.
    pub differences: Vec<Difference>,
    /// Number of records that differ.
    pub differing: usize,
    /// Whether all invariants hold; absent if they were not checked.
    pub sound: Option<bool>,
    /// The step in which the index was mounted.
    pub step: usize,
}

/// The next change after a place: the step it belongs to, and its index there.
fn next_change(session: &Session, at: At) -> Option<(usize, usize)> {
    let here = changed_by(&session.steps[at.step], at.event);
    if here < session.steps[at.step].changes.len() {
        return Some((at.step, here));
    }
    (at.step + 1..session.steps.len())
        .find(|&step| !session.steps[step].changes.is_empty())
        .map(|step| (step, 0))
}

fn in_words(recorded: &Recorded) -> String {
    let cause = recorded.cause.map_or("", |cause| cause.name()).replace('_', " ");
    match &recorded.op {
        PhysicalOp::Program { ppn, .. } => format!("the program of page {} ({cause})", ppn.0),
        PhysicalOp::Erase { pbn } => format!("the erase of block {} ({cause})", pbn.0),
        PhysicalOp::MarkBad { pbn } => format!("the bad-block mark of block {}", pbn.0),
    }
}

impl Session {
    /// The change that a cut at this place would affect, in words.
    pub fn next_change(&self, at: At) -> Result<String, String> {
        let at = self.place(at)?;
        let next = next_change(self, at).map(|(step, change)| in_words(&self.steps[step].changes[change]));
        Ok(next.unwrap_or_else(|| "nothing: no change of the chip follows".into()))
    }

    /// Cuts the power at a place and mounts the chip. Returns a run that continues from there.
    pub fn cut(&self, at: At, mode: CutMode) -> Result<Session, String> {
        let at = self.place(at)?;
        let step = &self.steps[at.step];
        // The step whose operation is cut, the changes of the chip that it made, and one that it was making.
        let (struck, made, met) = match (mode, next_change(self, at)) {
            (CutMode::Before, _) if at.event == step.events.len() => (at.step + 1, 0, None),
            (CutMode::Before, _) => (at.step, changed_by(step, at.event), None),
            (_, Some((struck, change))) => (struck, change, Some(&self.steps[struck].changes[change])),
            (_, None) => return Err("no change of the chip follows that the cut could strike".into()),
        };
        if struck == 0 {
            return Err("the cut would strike inside the format, which leaves no index".into());
        }
        let acknowledged = struck - 1;
        let mut chip =
            self.chip_at(At { step: acknowledged, event: self.steps[acknowledged].events.len() })?;
        let mut left = self.steps.get(struck).map_or(Vec::new(), |step| step.changes[..made].to_vec());
        left.extend(met.map(|met| match mode.torn() {
            Some(model) => Recorded { torn: Some(Torn { model, seed: self.setup.seed }), ..met.clone() },
            None => met.clone(),
        }));
        repeat(&mut chip, &left)?;
        let in_flight = self.steps.get(struck).filter(|_| !left.is_empty() || mode != CutMode::Before);
        let in_flight = in_flight.map(|step| step.contents.clone());
        let met = self.next_change(at)?;
        let outcome = format!("{met}: {}", mode.words());
        let mut cut = self.branch(acknowledged, outcome, (chip, left))?;
        cut.mount((met, mode), in_flight)?;
        Ok(cut)
    }

    /// The last step up to `acknowledged` after which everything was durable.
    fn synced_by(&self, acknowledged: usize) -> usize {
        let mut steps = self.steps[..=acknowledged].iter();
        steps.rposition(|step| matches!(step.kind, "sync" | "mount" | "format") && !step.failed).unwrap_or(0)
    }

    /// A run with the steps up to `acknowledged`, followed by the cut.
    fn branch(
        &self,
        acknowledged: usize,
        outcome: String,
        (chip, left): (SimChip, Vec<Recorded>),
    ) -> Result<Session, String> {
        let events = left.iter().map(|recorded| {
            let cause = recorded.cause.map_or("", |cause| cause.name());
            let (what, at) = match recorded.op {
                PhysicalOp::Program { ppn, .. } => (What::Program, ppn.0),
                PhysicalOp::Erase { pbn } => (What::Erase, pbn.0),
                PhysicalOp::MarkBad { pbn } => (What::Mark, pbn.0),
            };
            Event { what, at, cause, failed: recorded.torn.is_some() }
        });
        let last = &self.steps[acknowledged];
        let step = Step {
            what: "the power is cut".into(),
            kind: "cut",
            outcome,
            failed: true,
            events: events.collect(),
            changes: left,
            metrics: Vec::new(),
            height: last.height,
            ram_bytes: 0,
            flash_ns: 0,
            contents: last.contents.clone(),
        };
        let keys = acknowledged / super::KEY_STEPS + 2;
        let mut keys: Vec<SimChip> = self.keys.iter().take(keys).cloned().collect();
        let mut steps = self.steps[..=acknowledged].to_vec();
        if steps.len().is_multiple_of(super::KEY_STEPS) {
            keys.push(chip.clone());
        }
        steps.push(step);
        let mut chip = chip;
        chip.power_on();
        chip.start_recording();
        Ok(Session {
            setup: self.setup.clone(),
            plan: self.plan.clone(),
            steps,
            keys,
            live: None,
            source: Source::new(&self.setup, &self.plan)?,
            durability: self.durability,
            synced: self.synced_by(acknowledged),
            bytes: self.bytes,
            time_ns: 0,
            waiting: None,
            recovery: None,
        }
        .with_chip(chip))
    }

    fn with_chip(mut self, chip: SimChip) -> Session {
        self.source.skip(self.steps.len() as u64);
        self.waiting = Some(Watched::new(chip));
        self
    }

    /// Mounts the chip after the cut and judges the outcome.
    fn mount(
        &mut self,
        (met, mode): (String, CutMode),
        in_flight: Option<Arc<Contents>>,
    ) -> Result<(), String> {
        let Some(watched) = self.waiting.take() else { return Err("nothing is to be mounted".into()) };
        let time = watched.chip.lock().time().0;
        self.time_ns = time;
        let mut opened = Subject::open(&self.plan, &watched, Open::Mount);
        let refused = opened.as_ref().err().map(ToString::to_string);
        if opened.is_err() && self.durability == Durability::None {
            let again = Subject::open(&self.plan, &watched, Open::MountAfterCut);
            if again.is_ok() {
                opened = again;
            }
        }
        let flash_ns = watched.chip.lock().time().0.saturating_sub(time);
        let mut events = std::mem::take(&mut *watched.events.lock());
        let acknowledged = self.last_contents();
        let (found, sound) = match &mut opened {
            Ok(subject) => {
                let found = subject.contents().map_err(|error| format!("after the mount: {error}"))?;
                let report = subject.check();
                (found, Some(report.is_ok_and(|report| report.is_sound())))
            }
            Err(_) => (Contents::new(), None),
        };
        // Reads of this look are no part of the mount; what it made the index change on the chip is.
        let looked = std::mem::take(&mut *watched.events.lock());
        events.extend(looked.into_iter().filter(|event| event.what.changes()));
        *watched.events.lock() = events.clone();
        let is_open = opened.is_ok();
        let states = self.states();
        let (kept, verdict) = judge(self.durability, is_open, &found, (&states, in_flight.as_deref()));
        let differences = if is_open { differences(&acknowledged, &found) } else { Vec::new() };
        let by_cause = |what: What| {
            let mut counts = BTreeMap::new();
            for event in events.iter().filter(|event| event.what == what) {
                *counts.entry(event.cause).or_insert(0) += 1;
            }
            counts
        };
        self.recovery = Some(Recovery {
            met,
            mode,
            promise: self.durability.name(),
            refused: refused.clone(),
            kept,
            verdict,
            reads: by_cause(What::Read),
            programs: by_cause(What::Program),
            erases: events.iter().filter(|event| event.what == What::Erase).count(),
            flash_ns,
            records: (acknowledged.len(), found.len()),
            differing: differences.len(),
            differences: differences.into_iter().take(100).collect(),
            sound,
            step: self.steps.len(),
        });
        self.finish_mount(opened, watched, refused, found);
        if let Some(step) = self.steps.last_mut() {
            step.flash_ns = flash_ns;
        }
        Ok(())
    }

    /// The acknowledged states with their steps, one after the other. In the class *every sync* they start
    /// with the last sync; in *every operation* only the last state counts.
    fn states(&self) -> Vec<(usize, Arc<Contents>)> {
        let each = self.steps.iter().enumerate().filter(|(_, step)| step.kind != "cut");
        let mut states: Vec<_> = each.map(|(place, step)| (place, step.contents.clone())).collect();
        let last = states.last().map_or(0, |state| state.0);
        let floor = match self.durability {
            Durability::EveryOperation => last,
            Durability::EverySync => self.synced.min(last),
            Durability::None => 0,
        };
        states.retain(|state| state.0 >= floor);
        states
    }

    fn finish_mount(
        &mut self,
        opened: Result<Subject, nandex::IndexError>,
        watched: Watched,
        refused: Option<String>,
        found: Contents,
    ) {
        match opened {
            Ok(subject) => {
                self.live = Some(Live { subject, watched });
                let how = if refused.is_some() { "opened as the cut left it" } else { "mounted" };
                self.note("mount".into(), "mount", Ok(format!("{how}: {} records", found.len())), found);
                self.synced = self.steps.len() - 1;
            }
            Err(error) => {
                let mut chip = watched.chip.lock();
                let changes = chip.take_recording().operations;
                let last = self.last_contents();
                if self.steps.len().is_multiple_of(super::KEY_STEPS) {
                    self.keys.push(chip.clone());
                }
                self.steps.push(Step {
                    what: "mount".into(),
                    kind: "mount",
                    outcome: error.to_string(),
                    failed: true,
                    events: watched.events.lock().clone(),
                    changes,
                    metrics: Vec::new(),
                    height: 0,
                    ram_bytes: 0,
                    flash_ns: 0,
                    contents: last,
                });
            }
        }
    }
}

/// Whether the contents after the mount keep the promise, and the verdict in words. `states` are those that
/// the class allows, the last acknowledged one last. The state with the unfinished operation is allowed
/// too.
fn judge(
    class: Durability,
    is_open: bool,
    found: &Contents,
    (states, in_flight): (&[(usize, Arc<Contents>)], Option<&Contents>),
) -> (Option<bool>, String) {
    let promised = class != Durability::None;
    if !is_open {
        let text = "The mount refused: nothing is opened, and it says so.";
        return (promised.then_some(false), text.into());
    }
    let last = states.last().map_or(0, |state| state.0);
    let matching = states.iter().rev().find(|state| *state.1 == *found).map(|state| state.0);
    let text = match matching {
        Some(step) if step == last && in_flight.is_some_and(|state| state != found) => {
            "Nothing that was acknowledged is missing; the operation under way left no trace.".to_string()
        }
        Some(step) if step == last => "Nothing that was acknowledged is missing.".to_string(),
        _ if in_flight == Some(found) => {
            "Nothing is missing: even the operation under way is there, though nobody was told.".to_string()
        }
        Some(step) if promised => {
            format!("It is as after step {step}, no earlier than the last sync, as the class allows.")
        }
        Some(step) => format!("Nothing was promised; it is as after step {step} of {last}."),
        None if promised => return (Some(false), "It is none of the states that the class allows.".into()),
        None => "Nothing was promised; some keys have older values than others.".to_string(),
    };
    (promised.then_some(true), text)
}

fn differences(was: &Contents, is: &Contents) -> Vec<Difference> {
    let keys: std::collections::BTreeSet<u64> = was.keys().chain(is.keys()).copied().collect();
    let each = keys.into_iter().map(|key| Difference {
        key,
        was: was.get(&key).copied(),
        is: is.get(&key).copied(),
    });
    each.filter(|difference| difference.was != difference.is).collect()
}

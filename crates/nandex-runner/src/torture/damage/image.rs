//! Images: one scripted life of a subject, recorded from its format on, and the chip at chosen ends of that
//! life.

use super::history::{History, Moment};
use super::kinds::Version;
use super::subject::{SLOTS, plan};
use crate::LabError;
use crate::crash::CrashPlan;
use crate::crash::history::fingerprint;
use crate::crash::ops::{HostOp, Mix, Source};
use crate::crash::subject::{Applied, Promise, SharedChip, Subject};
use crate::crash::{Cut, Target};
use crate::model::written;
use crate::torture::Victim;
use nandex::Shared;
use nandex::nand::sim::{PhysicalOp, Recorded, SimChip};
use nandex::rng::{Rng, split_mix};
use nandex::{IndexError, PageStore, Ppn};
use nandex_stacks::wrappers::log_blocks;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// End of a life at which an image is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The victim was closed, and was never mounted since the format.
    Closed,
    /// The victim was mounted once, changed and closed again.
    Remounted,
    /// The power was cut.
    Cut(Cut),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Closed => write!(f, "closed"),
            End::Remounted => write!(f, "remounted"),
            End::Cut(cut) => write!(f, "cut:{cut}"),
        }
    }
}

impl FromStr for End {
    type Err = LabError;

    fn from_str(text: &str) -> Result<End, LabError> {
        match text.split_once(':') {
            Some(("cut", cut)) => Ok(End::Cut(cut.parse()?)),
            _ if text == "closed" => Ok(End::Closed),
            _ if text == "remounted" => Ok(End::Remounted),
            _ => {
                let reason = "is no image: closed, remounted, or cut:OPERATION:WAY";
                Err(LabError::bad_option("image", text, reason))
            }
        }
    }
}

/// Number of operations in each of the three stretches: until the first close, the second close, and the
/// end.
const STRETCHES: [u64; 3] = [160, 120, 260];

/// A recorded life with its history.
pub(super) struct Life {
    pub(super) plan: CrashPlan,
    pub(super) history: History,
    pub(super) mix: Mix,
    pub(super) promise: Promise,
    recording: Vec<Recorded>,
    /// Number of physical operations until the end of the format.
    formatted: usize,
    closes: [usize; 2],
    closed_after: [usize; 2],
    /// The reason why the life stopped without any damage.
    pub(super) stopped: Option<String>,
}

/// The chip at one end of a life.
pub(super) struct Image {
    pub(super) chip: SimChip,
    pub(super) moment: Moment,
    pub(super) versions: Vec<Version>,
    /// Number of operations acknowledged when a page was last programmed.
    pub(super) programmed_at: BTreeMap<Ppn, u64>,
    /// Number of blocks at the start of the chip that are a log of values.
    pub(super) log_blocks: u32,
}

impl Life {
    pub(super) fn new(victim: Victim, seed: u64) -> Result<Life, LabError> {
        let plan = plan(victim, seed)?;
        let chip: SharedChip = Shared::new(fresh(&plan));
        chip.lock().start_recording();
        let subject = Subject::format(plan.target, &plan.settings, Box::new(chip.clone()))?;
        let (mut mix, promise) = (subject.mix(plan.target, (SLOTS, SLOTS * 2)), subject.promise(plan.target));
        if matches!(subject, Subject::Index(_)) {
            // Kept cases name seeds of lives without groups.
            mix.group_max = 1;
        }
        let mut life = Life {
            history: History::new(mix.slots as usize),
            formatted: chip.lock().operations() as usize,
            recording: Vec::new(),
            closes: [0; 2],
            closed_after: [0; 2],
            stopped: None,
            plan,
            mix,
            promise,
        };
        life.stopped = life.live(subject, &chip, seed).err();
        life.recording = chip.lock().take_recording().operations;
        Ok(life)
    }

    fn live(&mut self, mut subject: Subject, chip: &SharedChip, seed: u64) -> Result<(), String> {
        let mut source = Source::new(split_mix(seed ^ 0x11fe), self.mix);
        self.load(&mut subject, chip)?;
        for (stretch, operations) in STRETCHES.into_iter().enumerate() {
            for _ in 0..operations {
                let op = match source.next(self.history.contents()) {
                    // Nothing is mounted before the first close.
                    HostOp::Remount { .. } if stretch == 0 => HostOp::Sync,
                    op => op,
                };
                self.step(&mut subject, chip, &op)?;
                if matches!(op, HostOp::Remount { .. }) {
                    drop(subject);
                    subject = self.mount(chip)?;
                }
            }
            if stretch < 2 {
                self.close(&mut subject, chip, stretch)?;
                drop(subject);
                subject = self.mount(chip)?;
            }
        }
        Ok(())
    }

    fn mount(&self, chip: &SharedChip) -> Result<Subject, String> {
        chip.lock().mark(self.history.len() as u64);
        let mounted = Subject::mount(self.plan.target, &self.plan.settings, Box::new(chip.clone()));
        mounted.map_err(|error| format!("mount without any damage: {error}"))
    }

    /// Fills half of the slots in random order.
    fn load(&mut self, subject: &mut Subject, chip: &SharedChip) -> Result<(), String> {
        if self.mix.appends {
            return Ok(());
        }
        let around = self.mix.slots.next_power_of_two();
        for number in 0..around {
            let slot = number.wrapping_mul(0x9e37_79b1) & (around - 1);
            if slot < self.mix.slots && split_mix(slot.into()).is_multiple_of(2) {
                self.step(subject, chip, &HostOp::Put(slot))?;
            }
        }
        Ok(())
    }

    fn step(&mut self, subject: &mut Subject, chip: &SharedChip, op: &HostOp) -> Result<(), String> {
        let number = self.history.len();
        chip.lock().mark(number as u64);
        let version = number as u32 + 1;
        let value_bytes = subject.value_bytes();
        if subject.apply(op, version, self.history.contents())? == Applied::Done {
            let trims = matches!(subject, Subject::Store(_));
            self.history.note(op, |slot| value(slot, version, value_bytes), trims);
        } else {
            self.history.note_nothing(false);
        }
        Ok(())
    }

    fn close(&mut self, subject: &mut Subject, chip: &SharedChip, number: usize) -> Result<(), String> {
        chip.lock().mark(self.history.len() as u64);
        close(subject).map_err(|error| format!("close without any damage: {error}"))?;
        self.history.note_nothing(true);
        self.closes[number] = chip.lock().operations() as usize;
        self.closed_after[number] = self.history.len();
        Ok(())
    }

    /// Draws a power cut after the format.
    pub(super) fn draw_cut(&self, rng: &mut Rng) -> End {
        let from = self.formatted as u64 * 5;
        let number = from + rng.below((self.recording.len() as u64 * 5).saturating_sub(from).max(1));
        End::Cut(Cut::numbered(number))
    }

    /// The chip at this end and the pages programmed until then.
    pub(super) fn image(&self, end: End, seed: u64) -> Image {
        let (until, clean, acknowledged) = match end {
            End::Closed => (self.closes[0], true, self.closed_after[0]),
            End::Remounted => (self.closes[1], true, self.closed_after[1]),
            End::Cut(cut) => {
                let until = (cut.operation as usize).min(self.recording.len());
                let mark = self.recording.get(until).map_or(self.history.len(), |op| op.mark as usize);
                (until, false, mark)
            }
        };
        let mut chip = fresh(&self.plan);
        let (mut versions, mut programmed_at) = (Vec::new(), BTreeMap::new());
        for recorded in &self.recording[..until] {
            let done = chip.replay(recorded);
            assert!(done.is_ok(), "a recorded operation is repeated on the same chip: {done:?}");
            if let PhysicalOp::Program { ppn, .. } = &recorded.op {
                programmed_at.insert(*ppn, recorded.mark);
            }
            if let (PhysicalOp::Program { ppn, .. }, None) = (&recorded.op, recorded.torn) {
                versions.extend(chip.stored_page(*ppn).map(|bytes| Version { ppn: *ppn, bytes }));
            }
        }
        if let End::Cut(Cut { torn: Some(torn), .. }) = end
            && let Some(recorded) = self.recording.get(until)
        {
            let done = chip.apply_torn(&recorded.op, torn, split_mix(seed ^ until as u64));
            assert!(done.is_ok(), "a recorded operation is possible on the same chip: {done:?}");
        }
        let moment = Moment { acknowledged, clean, promise: self.promise };
        let log_blocks = match self.plan.target {
            Target::Index(entry) => log_blocks(entry, self.plan.part.geometry, &self.plan.settings),
            _ => 0,
        };
        Image { chip, moment, versions, programmed_at, log_blocks }
    }
}

fn fresh(plan: &CrashPlan) -> SimChip {
    SimChip::new(&plan.part).unwrap_or_else(|error| panic!("the part of the test: {error}"))
}

/// The fingerprint of the value that an operation with this version writes to a slot.
pub(super) fn value(slot: u32, version: u32, value_bytes: usize) -> u64 {
    fingerprint(&written(slot, version, value_bytes))
}

pub(super) fn close(subject: &mut Subject) -> Result<(), IndexError> {
    match subject {
        Subject::Index(index) => index.close(),
        Subject::Spatial(index) => index.close(),
        Subject::Store(store) => store.checkpoint().map_err(IndexError::from),
    }
}

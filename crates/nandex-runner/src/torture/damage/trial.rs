//! One damage on one image: mounted, checked, read whole, used, read again, synced, mounted and read again.

use super::history::Standing;
use super::image::{Image, Life, value};
use super::kinds::Damage;
use super::read::{Seen, names_damage, read_all};
use crate::crash::history::fingerprint;
use crate::crash::ops::{HostOp, Mix, Source};
use crate::crash::subject::{SharedChip, Subject};
use crate::crash::trial::panic_text;
use crate::torture::last_panic;
use crate::torture::leash::Leash;
use nandex::IndexError;
use nandex::Shared;
use nandex::StoreError;
use nandex::nand::ReadOutcome;
use nandex::nand::sim::SimChip;
use nandex::rng::Rng;
use nandex::{Cause, Geometry, Nand, NandError, Pbn, Ppn};
use std::collections::BTreeSet;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The outcome of a damage, the best one first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every answer was right.
    Right,
    /// An error reported the damage; every other answer was right.
    Corrupted,
    /// The mount was refused with a report of the damage.
    Refused,
    /// The contents were older without an error: this many of the newest changes were lost.
    Older(u64),
    /// The contents were older without an error: this many of the newest changes were lost, which this many
    /// syncs had made durable.
    OlderBySyncs(u64, u64),
    /// Some slots held a former value or none, without an error.
    Stale(String),
    /// Another wrong answer was given.
    Wrong(String),
    /// An error occurred that does not report damage.
    Odd(String),
    /// The subject panicked or did not end.
    Panic(String),
}

impl Outcome {
    /// The outcome's name in reports.
    pub const fn name(&self) -> &'static str {
        match self {
            Outcome::Right => "right",
            Outcome::Corrupted => "corrupted",
            Outcome::Refused => "refused",
            Outcome::Older(_) | Outcome::OlderBySyncs(..) => "older",
            Outcome::Stale(_) => "stale",
            Outcome::Wrong(_) => "wrong",
            Outcome::Odd(_) => "odd",
            Outcome::Panic(_) => "panic",
        }
    }

    /// Whether any index may answer like this.
    pub const fn is_sound(&self) -> bool {
        matches!(self, Outcome::Right | Outcome::Corrupted | Outcome::Refused)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Right | Outcome::Corrupted | Outcome::Refused => write!(f, "{}", self.name()),
            Outcome::Older(lost) => write!(f, "older: {lost} newest changes are gone"),
            Outcome::OlderBySyncs(lost, syncs) => {
                write!(f, "older: {lost} newest changes of {syncs} syncs are gone")
            }
            Outcome::Stale(why) | Outcome::Wrong(why) | Outcome::Odd(why) | Outcome::Panic(why) => {
                write!(f, "{}: {why}", self.name())
            }
        }
    }
}

/// Most chip operations from a mount on. No sensible mount and use needs as many.
const ENOUGH: u64 = 400_000;

/// Number of operations on a damaged chip after it was read.
const OPERATIONS_AFTER: u32 = 24;
/// One of this many slots is then looked up by itself; ranges are read whole.
const STEP_AFTER: usize = 5;

/// Does the damages and returns their outcome; `None` if they change nothing.
pub(super) fn try_damages(life: &Life, image: &Image, damages: &[Damage], seed: u64) -> Option<Outcome> {
    let mut rng = Rng::new(seed);
    let mut chip = image.chip.clone();
    let mut struck = damages.is_empty();
    for damage in damages {
        struck |= damage.strike(&mut chip, &image.versions, &mut rng);
    }
    if !struck {
        return None;
    }
    let chip = Shared::new(chip);
    let trial = Trial { life, image, chip, seed };
    Some(guarded(|| trial.run()).unwrap_or_else(Outcome::Panic))
}

/// Does the work. If it panics, returns the message, with the place if [`crate::torture::catch_panics`] was
/// called.
pub(super) fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work))
        .map_err(|panic| format!("{}{}", panic_text(&*panic), last_panic().unwrap_or_default()))
}

/// The pages that a mount of an image and a read of everything access; empty if the mount is refused.
pub(super) fn pages_read(life: &Life, image: &Image) -> Vec<Ppn> {
    let read = Shared::new(BTreeSet::new());
    let noting = Noting { chip: image.chip.clone(), read: read.clone() };
    let plan = &life.plan;
    let done = guarded(|| {
        let subject = Subject::mount(plan.target, &plan.settings, Box::new(noting));
        subject.map(|mut subject| drop(read_all(&mut subject, life.mix.slots as usize, 1)))
    });
    let is_programmed = |ppn: &Ppn| image.chip.stored_page(*ppn).is_some();
    let read = read.lock();
    if done.is_ok() { read.iter().copied().filter(is_programmed).collect() } else { Vec::new() }
}

/// A chip that records which pages are read.
struct Noting {
    chip: SimChip,
    read: Shared<BTreeSet<Ppn>>,
}

impl Nand for Noting {
    fn geometry(&self) -> Geometry {
        self.chip.geometry()
    }

    fn read(
        &mut self,
        ppn: Ppn,
        cause: Cause,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ReadOutcome, NandError> {
        self.read.lock().insert(ppn);
        self.chip.read(ppn, cause, data, spare)
    }

    fn program(&mut self, ppn: Ppn, cause: Cause, data: &[u8], spare: &[u8]) -> Result<(), NandError> {
        self.chip.program(ppn, cause, data, spare)
    }

    fn erase(&mut self, pbn: Pbn, cause: Cause) -> Result<(), NandError> {
        self.chip.erase(pbn, cause)
    }

    fn is_bad(&mut self, pbn: Pbn) -> Result<bool, NandError> {
        self.chip.is_bad(pbn)
    }

    fn mark_bad(&mut self, pbn: Pbn) -> Result<(), NandError> {
        self.chip.mark_bad(pbn)
    }

    fn tears(&self) -> bool {
        self.chip.tears()
    }
}

struct Trial<'a> {
    life: &'a Life,
    image: &'a Image,
    chip: SharedChip,
    seed: u64,
}

type MayHold = Vec<Vec<u64>>;

impl Trial<'_> {
    fn run(&self) -> Outcome {
        let mut subject = match self.mount() {
            Ok(subject) => subject,
            Err(error) => return refused(&error, "mount"),
        };
        let checked = check(&mut subject);
        let seen = read_all(&mut subject, self.slots(), 1);
        let mut may_hold = match self.standing(&seen) {
            Ok(may_hold) => may_hold,
            Err(outcome) => return outcome,
        };
        let noticed = seen.first_error.clone().or(checked);
        let read = noticed.map_or(Outcome::Right, |error| told(&error, "read"));
        if !read.is_sound() {
            return read;
        }
        let used = match self.use_on(subject, &mut may_hold) {
            Ok(used) => used,
            Err(outcome) => return outcome,
        };
        if used == Outcome::Right { read } else { used }
    }

    fn slots(&self) -> usize {
        self.life.mix.slots as usize
    }

    fn mount(&self) -> Result<Subject, IndexError> {
        let plan = &self.life.plan;
        Subject::mount(plan.target, &plan.settings, Box::new(self.leash()))
    }

    fn leash(&self) -> Leash {
        Leash { chip: self.chip.clone(), left: Shared::new(ENOUGH) }
    }

    fn standing(&self, seen: &Seen) -> Result<MayHold, Outcome> {
        if let Some(what) = &seen.contradiction {
            return Err(Outcome::Wrong(what.clone()));
        }
        match self.life.history.judge(&self.image.moment, &seen.known) {
            Standing::Promised(may_hold) => Ok(may_hold),
            Standing::Older { lost, syncs: Some(syncs) } => Err(Outcome::OlderBySyncs(lost, syncs)),
            Standing::Older { lost, syncs: None } => Err(Outcome::Older(lost)),
            Standing::Stale(0, _) => Err(Outcome::Stale(String::from(
                "a mixture of states since the last sync, and no state of the whole",
            ))),
            Standing::Stale(count, first) => {
                Err(Outcome::Stale(format!("{count} slots, the first {first}, {} errors", seen.errors)))
            }
            Standing::Alien(count, first) => {
                Err(Outcome::Wrong(format!("{count} slots hold what never was there, the first {first}")))
            }
        }
    }

    /// Uses the subject: changes it, reads it, syncs it, mounts it again and reads it again.
    fn use_on(&self, mut subject: Subject, may_hold: &mut MayHold) -> Result<Outcome, Outcome> {
        let mix = Mix { always_close: false, ..self.life.mix };
        let mut source = Source::new(self.seed ^ 0x05e, mix);
        let mut worst = Outcome::Right;
        for number in 0..OPERATIONS_AFTER {
            let contents: Vec<u64> = may_hold.iter().map(|held| held[0]).collect();
            let op = match source.next(&contents) {
                HostOp::Remount { .. } => HostOp::Sync,
                op => op,
            };
            worst = worse(worst, use_once(&mut subject, &op, (1 << 30) + number, may_hold)?);
        }
        worst = worse(worst, read_after(&mut subject, may_hold, "after use")?);
        let ended = super::image::close(&mut subject);
        drop(subject);
        let closed = ended.is_ok();
        worst = worse(worst, ended.map_or_else(|error| told_in_use(&error, "close"), |()| Outcome::Right));
        match self.mount() {
            Err(error) if closed => Ok(worse(worst, refused(&error, "mount after use"))),
            Err(_) => Ok(worst),
            // What could not be closed may come back in any state of the use.
            Ok(_) if !closed => Ok(worst),
            Ok(mut subject) => {
                Ok(worse(worst, read_after(&mut subject, may_hold, "after use and a new mount")?))
            }
        }
    }
}

fn use_once(
    subject: &mut Subject,
    op: &HostOp,
    version: u32,
    may_hold: &mut MayHold,
) -> Result<Outcome, Outcome> {
    let value_bytes = subject.value_bytes();
    let done = subject.carry_out(op, version);
    let new = |slot: u32, puts: bool| match (puts, value_bytes) {
        (false, _) => 0,
        (_, 0) => fingerprint(&[]),
        _ => value(slot, version, value_bytes),
    };
    let changes = op.changes();
    match done {
        Ok(existed) => {
            for (slot, puts) in changes {
                let held = &mut may_hold[slot as usize];
                if existed.is_some_and(|existed| held.iter().all(|&held| (held != 0) != existed)) {
                    let what = format!("{op:?} after the damage says that it was there: {existed:?}");
                    return Err(Outcome::Wrong(what));
                }
                *held = vec![new(slot, puts)];
            }
            Ok(Outcome::Right)
        }
        Err(IndexError::Full(_) | IndexError::WornOut | IndexError::BatchTooLarge { .. }) => {
            Ok(Outcome::Right)
        }
        Err(error) => {
            changes.iter().for_each(|&(slot, puts)| may_hold[slot as usize].push(new(slot, puts)));
            let told = told_in_use(&error, "use");
            if told.is_sound() { Ok(told) } else { Err(told) }
        }
    }
}

fn read_after(subject: &mut Subject, may_hold: &MayHold, when: &str) -> Result<Outcome, Outcome> {
    let seen = read_all(subject, may_hold.len(), STEP_AFTER);
    if let Some(what) = seen.contradiction {
        return Err(Outcome::Wrong(format!("{when}: {what}")));
    }
    for (slot, found) in seen.known.iter().enumerate() {
        if let Some(found) = found.filter(|found| !may_hold[slot].contains(found)) {
            let what = if found == 0 { "is gone" } else { "holds what it should not" };
            return Err(Outcome::Wrong(format!("{when}: number {slot} {what}")));
        }
    }
    Ok(seen.first_error.map_or(Outcome::Right, |error| told_in_use(&error, when)))
}

fn check(subject: &mut Subject) -> Option<IndexError> {
    let checked = match subject {
        Subject::Index(index) => index.check(),
        Subject::Spatial(index) => index.check(),
        Subject::Store(_) => return None,
    };
    match checked {
        Ok(report) => {
            let broken = report.violations.first()?;
            Some(IndexError::broken(broken.invariant, "", broken.at))
        }
        Err(error) => Some(error),
    }
}

/// The first outcome, unless the second is worse.
fn worse(one: Outcome, other: Outcome) -> Outcome {
    if one.is_sound() && (one == Outcome::Right || !other.is_sound()) { other } else { one }
}

fn told(error: &IndexError, when: &str) -> Outcome {
    if names_damage(error) { Outcome::Corrupted } else { Outcome::Odd(format!("{when}: {error}")) }
}

/// The outcome of an error in an operation after the damage. Such an operation may also find no room, or be
/// refused after another one that failed half-way.
fn told_in_use(error: &IndexError, when: &str) -> Outcome {
    match error {
        IndexError::Full(_) | IndexError::WornOut | IndexError::Interrupted => Outcome::Corrupted,
        error => told(error, when),
    }
}

fn refused(error: &IndexError, when: &str) -> Outcome {
    let says_none = matches!(
        error,
        IndexError::NotFormatted(_)
            | IndexError::NotCleanlyClosed
            | IndexError::Store(StoreError::NotFormatted(_))
    );
    if says_none || names_damage(error) { Outcome::Refused } else { Outcome::Odd(format!("{when}: {error}")) }
}

//! The state of a running life: the chip, the victim on it, and the expected contents. Each step is followed
//! by a full comparison.

use super::counts::Counts;
use super::cursor::Position;
use super::expected::Expected;
use super::fault::{Fault, Kind};
use super::refusal::Refusals;
use super::rig::{NEVER, Rig};
use super::setup::{Looks, Setup};
use super::step::Step;
use crate::crash::ops::HostOp;
use crate::crash::subject::{Promise, Subject, spots};
use crate::crash::trial::panic_text;
use nandex::IndexError;
use nandex::ordered::Durability;
use std::panic::{AssertUnwindSafe, catch_unwind};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    Goes,
    /// Nothing can be opened or made on the chip any more, which is allowed.
    Ends,
}

pub(crate) struct Body<'a> {
    pub(super) rig: Rig<'a>,
    /// `None` while the power is off.
    pub(super) victim: Option<Subject>,
    promise: Promise,
    pub(super) class: Durability,
    /// Bytes of RAM of a store. The same at every mount, since the layer above divides the rest.
    ram_bytes: Option<usize>,
    pub(super) expected: Expected,
    pub(super) refusals: Refusals,
    pub(super) position: Position,
    /// Closed in an orderly way, and nothing was done since.
    is_closed: bool,
    /// True if there is nothing to mount: the contents were dropped, and a new format was not finished.
    pub(super) is_bare: bool,
    pub(crate) counts: Counts,
}

impl<'a> Body<'a> {
    pub(crate) fn born(setup: &'a Setup) -> Result<Body<'a>, Fault> {
        let rig = Rig::new(setup);
        let made = catch_unwind(AssertUnwindSafe(|| rig.format()));
        let victim = made.map_err(|panic| panicked(&*panic))?;
        let victim = victim.map_err(|error| Fault::new(Kind::Error, format!("format: {error}")))?;
        let target = setup.victim.target;
        Ok(Body {
            rig,
            expected: Expected::of(&victim, victim.mix(target, (setup.slots, setup.slots))),
            promise: victim.promise(target),
            class: victim.durability(),
            ram_bytes: victim.store_ram_bytes(),
            refusals: Refusals::default(),
            position: Position::default(),
            is_closed: false,
            is_bare: false,
            counts: Counts { lives: 1, ..Counts::default() },
            victim: Some(victim),
        })
    }

    pub(super) fn is_off(&self) -> bool {
        self.victim.is_none()
    }

    /// Carries a step out; a panic is a fault.
    pub(crate) fn step(&mut self, step: &Step) -> Result<Flow, Fault> {
        let flow = catch_unwind(AssertUnwindSafe(|| self.carry_out(step)));
        flow.unwrap_or_else(|panic| {
            // What panicked half-way must not be dropped with more of the same.
            std::mem::forget(self.victim.take());
            Err(panicked(&*panic))
        })
    }

    fn carry_out(&mut self, step: &Step) -> Result<Flow, Fault> {
        self.rig.rest();
        match step {
            Step::Cut(cut) => {
                self.rig.plan(*cut);
                if self.is_off() { self.mount() } else { Ok(Flow::Goes) }
            }
            Step::Fail(rates) => {
                self.rig.fail(rates);
                Ok(Flow::Goes)
            }
            Step::Off => {
                self.counts.offs += u64::from(!self.is_off());
                self.victim = None;
                self.rig.plan(NEVER);
                Ok(Flow::Goes)
            }
            Step::Look => self.when_on(|body| body.look()),
            Step::Op(op) => self.when_on(|body| body.operate(op)),
            Step::Aside(aside) => self.when_on(|body| body.aside(*aside)),
        }
    }

    fn when_on(&mut self, then: impl FnOnce(&mut Self) -> Result<(), Fault>) -> Result<Flow, Fault> {
        if self.is_off() {
            self.rig.plan(NEVER);
            if self.mount()? == Flow::Ends {
                return Ok(Flow::Ends);
            }
        }
        then(self)?;
        Ok(Flow::Goes)
    }

    /// The power was cut: books it, and whatever was open is gone.
    pub(super) fn cut_off(&mut self) {
        self.counts.cuts += 1;
        self.victim = None;
        self.is_closed = false;
    }

    fn mount(&mut self) -> Result<Flow, Fault> {
        self.rig.chip.lock().power_on();
        if self.is_bare {
            return self.make_anew();
        }
        self.counts.mounts += 1;
        match self.rig.mount() {
            _ if !self.rig.is_powered() => {
                self.cut_off();
                Ok(Flow::Goes)
            }
            Ok(victim) => self.examine(victim, self.promise),
            Err(IndexError::NotCleanlyClosed) if self.class == Durability::None && !self.is_closed => {
                self.salvage()
            }
            Err(error @ (IndexError::Full(_) | IndexError::WornOut)) => {
                Err(Fault::new(Kind::FullAtMount, format!("mount: {error}")))
            }
            Err(error) => Err(Fault::new(Kind::Unmountable, format!("mount: {error}"))),
        }
    }

    /// Mounts a victim that may refuse to be mounted. If it refuses, the life begins again on the used chip.
    fn salvage(&mut self) -> Result<Flow, Fault> {
        match self.rig.mount_after_cut() {
            _ if !self.rig.is_powered() => {
                self.cut_off();
                return Ok(Flow::Goes);
            }
            Ok(Some(victim)) => return self.examine(victim, Promise::EachSlot),
            Ok(None) => {}
            Err(error) => {
                let why = format!("mount after the cut: {error}");
                return Err(Fault::new(Kind::Unmountable, why));
            }
        }
        self.is_bare = true;
        self.make_anew()
    }

    /// Formats an empty victim on the used chip.
    fn make_anew(&mut self) -> Result<Flow, Fault> {
        match self.rig.format() {
            _ if !self.rig.is_powered() => {
                self.cut_off();
                Ok(Flow::Goes)
            }
            Ok(victim) => {
                self.begin(vec![0; self.expected.mix.slots as usize]);
                self.is_bare = false;
                self.ram_bytes = victim.store_ram_bytes();
                self.victim = Some(victim);
                Ok(Flow::Goes)
            }
            Err(_) if self.rig.has_failed => Ok(Flow::Ends),
            Err(error) => Err(Fault::new(Kind::Error, format!("format of a used chip: {error}"))),
        }
    }

    fn begin(&mut self, contents: Vec<u64>) {
        self.position = Position::default();
        self.expected.begin(contents);
        self.is_closed = false;
    }

    /// Checks a victim that was just opened and compares it with the allowed states.
    fn examine(&mut self, mut victim: Subject, promise: Promise) -> Result<Flow, Fault> {
        if victim.store_ram_bytes() != self.ram_bytes {
            let (was, is) = (self.ram_bytes, victim.store_ram_bytes());
            return Err(Fault::new(Kind::Unsound, format!("{is:?} bytes of RAM, {was:?} at first")));
        }
        let found = self.read(&mut victim);
        if !self.rig.is_powered() {
            self.cut_off();
            return Ok(Flow::Goes);
        }
        let found = found?;
        self.give_up(&found)?;
        self.expected.came_back(&found, promise)?;
        self.begin(found);
        self.victim = Some(victim);
        Ok(Flow::Goes)
    }

    /// Drops the expectation of readings that a log gave up: a log is a ring and overwrites its oldest
    /// readings.
    fn give_up(&mut self, found: &[u64]) -> Result<(), Fault> {
        if !self.expected.mix.gives_up {
            return Ok(());
        }
        let given_up = self.expected.give_up(found);
        let was_always_on = self.counts.cuts + self.counts.offs == 0 && !self.rig.has_failed;
        let bytes = self.rig.setup.part.geometry.data_bytes() as usize;
        let held = self.expected.held();
        if given_up > 0 && was_always_on && held * READING_BYTES < bytes / 32 {
            let what = format!("{given_up} readings were given up, though {held} are not many");
            return Err(Fault::new(Kind::Wrong, what));
        }
        Ok(())
    }

    /// Checks the invariants and reads all slots.
    fn read(&self, victim: &mut Subject) -> Result<Vec<u64>, Fault> {
        let unsound = |why: String| Fault::new(Kind::Unsound, why);
        let records = victim.check().map_err(unsound)?;
        let found = victim.contents(self.expected.mix.slots as usize);
        let found = found.map_err(|why| Fault::new(Kind::Error, why))?;
        let present = found.iter().filter(|&&value| value != 0).count() as u64;
        if records.is_some_and(|records| records != present) {
            return Err(unsound(format!("check counts {records:?} records, a range {present}")));
        }
        let spots = match self.rig.setup.looks {
            Looks::All => (0, 1),
            Looks::Spots => spots(self.expected.version as usize, found.len()),
        };
        let spots = victim.spot_check(&found, spots);
        spots.map_err(|why| Fault::new(Kind::Wrong, why))?;
        Ok(found)
    }

    fn look(&mut self) -> Result<(), Fault> {
        let Some(mut victim) = self.victim.take() else { return Ok(()) };
        let found = self.read(&mut victim);
        if !self.rig.is_powered() {
            self.cut_off();
            return Ok(());
        }
        let found = found?;
        self.victim = Some(victim);
        self.give_up(&found)?;
        self.expected.is_there(&found)
    }

    fn operate(&mut self, op: &HostOp) -> Result<(), Fault> {
        let takes_records = matches!(self.victim, Some(Subject::Index(_)));
        let Some(op) = self.expected.adapted(op, takes_records) else { return Ok(()) };
        let Some(victim) = &mut self.victim else { return Ok(()) };
        self.expected.version += 1;
        self.counts.operations += 1;
        let outcome = victim.carry_out(&op, self.expected.version);
        match outcome {
            Ok(answer) => {
                self.expected.done(&op, answer)?;
                self.refusals.end(&op);
                if !self.rig.is_powered() {
                    self.cut_off();
                } else if matches!(op, HostOp::Remount { .. }) {
                    self.victim = None;
                    self.is_closed = true;
                }
                Ok(())
            }
            Err(_) if !self.rig.is_powered() => {
                self.expected.cut_within(&op);
                self.cut_off();
                Ok(())
            }
            Err(IndexError::BatchTooLarge { .. }) => {
                self.expected.not_done();
                self.not_done(&op)
            }
            Err(error @ (IndexError::Full(_) | IndexError::WornOut)) => self.refused(&op, &error),
            Err(error) => Err(Fault::new(Kind::Error, format!("{}: {error}", verb(&op)))),
        }
    }
}

/// Size of a reading in a log, in bytes.
const READING_BYTES: usize = 12;

fn panicked(panic: &(dyn std::any::Any + Send)) -> Fault {
    let place = super::last_panic().unwrap_or_default();
    Fault::new(Kind::Panicked, format!("{}{place}", panic_text(panic)))
}

/// The operation in a word.
pub(super) fn verb(op: &HostOp) -> &'static str {
    match op {
        HostOp::Put(_) | HostOp::Blind(_) => "put",
        HostOp::Remove(_) => "remove",
        HostOp::Group(_) | HostOp::Mixed(_) => "group",
        HostOp::Load(_) => "load",
        HostOp::Sync => "sync",
        HostOp::Remount { .. } => "close",
    }
}

//! A life as it is lived: the chip, the victim on it, what it must hold, and each step with all that is
//! compared after it.

use super::counts::Counts;
use super::cursor::Position;
use super::fault::{Fault, Kind};
use super::leash::{CALL_MAX, Leash, Left};
use super::setup::{Looks, Setup};
use super::step::{Cut, Step};
use crate::crash::history::{History, Moment, Wrong};
use crate::crash::ops::{HostOp, Mix};
use crate::crash::subject::{Promise, SharedChip, Subject, check_answer, spots};
use crate::crash::trial::panic_text;
use nandex::Shared;
use nandex::nand::sim::{CutWhen, TornModel};
use nandex::ordered::Durability;
use nandex::{IndexError, Nand};
use std::panic::{AssertUnwindSafe, catch_unwind};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    Goes,
    /// Nothing can be opened or made on the chip any more, which is allowed.
    Ends,
}

pub(crate) struct Body<'a> {
    pub(super) setup: &'a Setup,
    pub(super) chip: SharedChip,
    pub(super) left: Left,
    /// The open victim; `None` while the power is off.
    pub(super) victim: Option<Subject>,
    pub(super) history: History,
    pub(super) moment: Moment,
    pub(super) mix: Mix,
    pub(super) promise: Promise,
    pub(super) class: Durability,
    pub(super) value_bytes: usize,
    pub(super) is_store: bool,
    /// The position of the cursor.
    pub(super) position: Position,
    pub(super) version: u32,
    /// Whether the victim was closed and not used since.
    pub(super) is_closed: bool,
    /// Whether no victim can be mounted: the contents were given up, and a new format was not finished.
    pub(super) is_bare: bool,
    /// Whether programs or erases may have failed since the beginning.
    pub(super) has_failed: bool,
    /// RAM of a store in bytes. It must be the same at every mount, because the layers above share the
    /// rest.
    pub(super) ram_bytes: Option<usize>,
    /// Most records held when a further one was refused.
    pub(super) held_when_full: usize,
    /// Number of writes refused since the last successful one. At the end of life removals may still
    /// succeed.
    pub(crate) writes_refused_in_row: u64,
    /// Number of changes refused since the last successful one.
    pub(crate) refused_in_row: u64,
    pub(crate) counts: Counts,
}

impl<'a> Body<'a> {
    pub(crate) fn born(setup: &'a Setup) -> Result<Body<'a>, Fault> {
        let chip = Shared::new(setup.chip());
        let left: Left = Shared::new(CALL_MAX);
        let nand = leashed(&chip, &left);
        let made =
            catch_unwind(AssertUnwindSafe(|| Subject::format(setup.victim.target, &setup.settings, nand)));
        let victim = made.map_err(|panic| panicked(&*panic))?;
        let victim = victim.map_err(|error| Fault::new(Kind::Error, format!("format: {error}")))?;
        let victim = setup.keys.before(victim);
        let mix = victim.mix(setup.victim.target, (setup.slots, setup.slots));
        let history = History::new(vec![0; mix.slots as usize]);
        Ok(Body {
            setup,
            chip,
            left,
            mix,
            moment: history.start(),
            history,
            promise: victim.promise(setup.victim.target),
            class: victim.durability(),
            value_bytes: victim.value_bytes(),
            is_store: matches!(victim, Subject::Store(_)),
            position: Position::default(),
            version: 0,
            is_closed: false,
            is_bare: false,
            has_failed: false,
            ram_bytes: victim.store_ram_bytes(),
            held_when_full: 0,
            writes_refused_in_row: 0,
            refused_in_row: 0,
            counts: Counts { lives: 1, ..Counts::default() },
            victim: Some(victim),
        })
    }

    pub(super) fn is_off(&self) -> bool {
        self.victim.is_none()
    }

    pub(crate) fn mix(&self) -> Mix {
        self.mix
    }

    pub(crate) fn class(&self) -> Durability {
        self.class
    }

    pub(crate) fn page_bytes(&self) -> u32 {
        self.setup.part.geometry.page_bytes
    }

    pub(crate) fn refused_in_row(&self) -> u64 {
        self.refused_in_row
    }

    /// The expected contents of each slot.
    pub(crate) fn contents(&self) -> &[u64] {
        self.history.contents()
    }

    /// Number of slots that should hold a value.
    pub(crate) fn held(&self) -> usize {
        self.history.held()
    }

    /// Carries out a step; a panic is reported as a fault.
    pub(crate) fn step(&mut self, step: &Step) -> Result<Flow, Fault> {
        let flow = catch_unwind(AssertUnwindSafe(|| self.carry_out(step)));
        flow.unwrap_or_else(|panic| {
            // What panicked half-way must not be dropped with more of the same.
            std::mem::forget(self.victim.take());
            Err(panicked(&*panic))
        })
    }

    fn carry_out(&mut self, step: &Step) -> Result<Flow, Fault> {
        *self.left.lock() = CALL_MAX;
        match step {
            Step::Cut(cut) => {
                self.plan(*cut);
                if self.is_off() { self.mount() } else { Ok(Flow::Goes) }
            }
            Step::Fail(rates) => {
                self.has_failed |= rates.programs > 0 || rates.erases > 0;
                self.chip.lock().set_faults(rates.faults());
                Ok(Flow::Goes)
            }
            Step::Off => {
                self.counts.offs += u64::from(!self.is_off());
                self.victim = None;
                self.plan(NEVER);
                Ok(Flow::Goes)
            }
            Step::Look => self.when_on(|body| body.look()),
            Step::Op(op) => self.when_on(|body| body.operate(op)),
            Step::Aside(aside) => self.when_on(|body| body.aside(*aside)),
        }
    }

    fn plan(&self, cut: Cut) {
        let operations = self.chip.lock().operations();
        self.chip.lock().plan_power_cut(cut.planned(operations));
    }

    fn when_on(&mut self, then: impl FnOnce(&mut Self) -> Result<(), Fault>) -> Result<Flow, Fault> {
        if self.is_off() {
            self.plan(NEVER);
            if self.mount()? == Flow::Ends {
                return Ok(Flow::Ends);
            }
        }
        then(self)?;
        Ok(Flow::Goes)
    }

    pub(super) fn is_powered(&self) -> bool {
        self.chip.lock().is_powered()
    }

    /// Books a power cut and drops the open victim.
    pub(super) fn cut_off(&mut self) {
        self.counts.cuts += 1;
        self.victim = None;
        self.is_closed = false;
    }

    fn mount(&mut self) -> Result<Flow, Fault> {
        self.chip.lock().power_on();
        if self.is_bare {
            return self.make_anew();
        }
        self.counts.mounts += 1;
        let (target, settings) = (self.setup.victim.target, &self.setup.settings);
        let mounted = Subject::mount(target, settings, leashed(&self.chip, &self.left));
        match mounted.map(|victim| self.setup.keys.before(victim)) {
            _ if !self.is_powered() => {
                self.cut_off();
                Ok(Flow::Goes)
            }
            Ok(victim) => self.examine(victim, self.promise),
            Err(IndexError::NotCleanlyClosed) if self.class == Durability::None && !self.is_closed => {
                self.salvage()
            }
            Err(error @ (IndexError::Full | IndexError::WornOut)) => {
                Err(Fault::new(Kind::FullAtMount, format!("mount: {error}")))
            }
            Err(error) => Err(Fault::new(Kind::Unmountable, format!("mount: {error}"))),
        }
    }

    /// Mounts a victim that may refuse to be mounted. If it refuses, the life begins anew on the used chip.
    fn salvage(&mut self) -> Result<Flow, Fault> {
        let (target, settings) = (self.setup.victim.target, &self.setup.settings);
        match Subject::mount_after_cut(target, settings, leashed(&self.chip, &self.left)) {
            _ if !self.is_powered() => {
                self.cut_off();
                return Ok(Flow::Goes);
            }
            Ok(Some(victim)) => return self.examine(self.setup.keys.before(victim), Promise::EachSlot),
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
        let (target, settings) = (self.setup.victim.target, &self.setup.settings);
        match Subject::format(target, settings, leashed(&self.chip, &self.left)) {
            _ if !self.is_powered() => {
                self.cut_off();
                Ok(Flow::Goes)
            }
            Ok(victim) => {
                self.begin(vec![0; self.mix.slots as usize]);
                self.is_bare = false;
                self.ram_bytes = victim.store_ram_bytes();
                self.victim = Some(self.setup.keys.before(victim));
                Ok(Flow::Goes)
            }
            Err(_) if self.has_failed => Ok(Flow::Ends),
            Err(error) => Err(Fault::new(Kind::Error, format!("format of a used chip: {error}"))),
        }
    }

    fn begin(&mut self, contents: Vec<u64>) {
        self.position = Position::default();
        self.history = History::new(contents);
        self.moment = self.history.start();
        self.is_closed = false;
    }

    /// Checks a victim that was just opened and compares it with the allowed states.
    fn examine(&mut self, mut victim: Subject, promise: Promise) -> Result<Flow, Fault> {
        if victim.store_ram_bytes() != self.ram_bytes {
            let (was, is) = (self.ram_bytes, victim.store_ram_bytes());
            return Err(Fault::new(Kind::Unsound, format!("{is:?} bytes of RAM, {was:?} at first")));
        }
        let found = self.read(&mut victim);
        if !self.is_powered() {
            self.cut_off();
            return Ok(Flow::Goes);
        }
        let found = found?;
        self.give_up(&found)?;
        let survivor = self.history.survivor(&self.moment, &found, promise);
        survivor.map_err(|wrong| Fault::new(Kind::Wrong, format!("after a mount: {wrong}")))?;
        self.begin(found);
        self.victim = Some(victim);
        Ok(Flow::Goes)
    }

    /// Drops the expectation of readings that a log gave up: a log is a ring and overwrites its oldest
    /// readings.
    fn give_up(&mut self, found: &[u64]) -> Result<(), Fault> {
        if !self.mix.gives_up {
            return Ok(());
        }
        let oldest = found.iter().position(|&value| value != 0).unwrap_or(0);
        let given_up = self.history.give_up(oldest, &mut self.moment);
        let was_always_on = self.counts.cuts + self.counts.offs == 0 && !self.has_failed;
        let bytes = self.setup.part.geometry.data_bytes() as usize;
        let held = self.history.held();
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
        let found = victim.contents(self.mix.slots as usize);
        let found = found.map_err(|why| Fault::new(Kind::Error, why))?;
        let present = found.iter().filter(|&&value| value != 0).count() as u64;
        if records.is_some_and(|records| records != present) {
            return Err(unsound(format!("check counts {records:?} records, a range {present}")));
        }
        let spots = match self.setup.looks {
            Looks::All => (0, 1),
            Looks::Spots => spots(self.version as usize, found.len()),
        };
        let spots = victim.spot_check(&found, spots);
        spots.map_err(|why| Fault::new(Kind::Wrong, why))?;
        Ok(found)
    }

    fn look(&mut self) -> Result<(), Fault> {
        let Some(mut victim) = self.victim.take() else { return Ok(()) };
        let found = self.read(&mut victim);
        if !self.is_powered() {
            self.cut_off();
            return Ok(());
        }
        let found = found?;
        self.victim = Some(victim);
        self.give_up(&found)?;
        if found != self.history.contents() {
            let wrong = Wrong::between(self.history.contents(), &found);
            return Err(Fault::new(Kind::Wrong, format!("without any cut: {wrong}")));
        }
        Ok(())
    }

    /// The operation in a form that the victim can take; `None` if there is none.
    fn adapted(&self, op: &HostOp) -> Option<HostOp> {
        let contents = self.history.contents();
        let holds = |slot: u32| contents.get(slot as usize).is_some_and(|&held| held != 0);
        let is_there = |slot: u32| (slot as usize) < contents.len();
        match op {
            HostOp::Put(slot) | HostOp::Blind(slot)
                if !is_there(*slot) || (!self.mix.overwrites && holds(*slot)) =>
            {
                None
            }
            HostOp::Put(slot) | HostOp::Blind(slot)
                if self.mix.appends && contents[*slot as usize..].iter().any(|&v| v != 0) =>
            {
                None
            }
            HostOp::Remove(slot) if !is_there(*slot) || self.mix.appends => None,
            HostOp::Group(slots) => {
                let fits = slots.len() <= self.mix.group_max && slots.iter().all(|slot| is_there(*slot));
                fits.then(|| op.clone())
            }
            HostOp::Mixed(changes) => {
                let fits =
                    changes.len() <= self.mix.group_max && changes.iter().all(|(slot, _)| is_there(*slot));
                (fits && self.takes_records()).then(|| op.clone())
            }
            HostOp::Load(slots) => {
                let fits = self.history.held() == 0 && (1..=contents.len()).contains(&(*slots as usize));
                (fits && !self.is_store).then(|| op.clone())
            }
            _ => Some(op.clone()),
        }
    }

    fn takes_records(&self) -> bool {
        matches!(self.victim, Some(Subject::Index(_)))
    }

    fn operate(&mut self, op: &HostOp) -> Result<(), Fault> {
        let Some(op) = self.adapted(op) else { return Ok(()) };
        let Some(victim) = &mut self.victim else { return Ok(()) };
        self.version += 1;
        self.counts.operations += 1;
        let outcome = victim.carry_out(&op, self.version);
        match outcome {
            Ok(answer) => {
                let wrong = check_answer(&op, answer, self.history.contents());
                wrong.map_err(|why| Fault::new(Kind::Wrong, why))?;
                self.note(&op);
                self.history.advance(&mut self.moment, self.history.len());
                self.refused_in_row = 0;
                if is_write(&op) {
                    self.writes_refused_in_row = 0;
                }
                if !self.is_powered() {
                    self.cut_off();
                } else if matches!(op, HostOp::Remount { .. }) {
                    self.victim = None;
                    self.is_closed = true;
                }
                Ok(())
            }
            Err(_) if !self.is_powered() => {
                self.note(&op);
                self.moment.in_flight = self.history.len() - self.moment.acknowledged;
                self.cut_off();
                Ok(())
            }
            Err(IndexError::BatchTooLarge { .. }) => {
                self.history.note_nothing(false);
                self.history.advance(&mut self.moment, self.history.len());
                self.not_done(&op)
            }
            Err(error @ (IndexError::Full | IndexError::WornOut)) => self.refused(&op, &error),
            Err(error) => Err(Fault::new(Kind::Error, format!("{}: {error}", verb(&op)))),
        }
    }

    pub(super) fn note(&mut self, op: &HostOp) {
        let mut note = |op: &HostOp| self.history.note(op, self.version, self.value_bytes, self.is_store);
        match op {
            // Records one by one, for an index that loads them so.
            HostOp::Load(slots) => (0..*slots).for_each(|slot| note(&HostOp::Put(slot))),
            op => note(op),
        }
    }
}

/// Size of a reading in a log, in bytes.
const READING_BYTES: usize = 12;

/// A power cut that never strikes.
const NEVER: Cut = Cut { after: u64::MAX, when: CutWhen::Before, torn: TornModel::Prefix, seed: 0 };

fn leashed(chip: &SharedChip, left: &Left) -> Box<dyn Nand> {
    Box::new(Leash { chip: chip.clone(), left: left.clone() })
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> Fault {
    let place = super::last_panic().unwrap_or_default();
    Fault::new(Kind::Panicked, format!("{}{place}", panic_text(panic)))
}

/// Whether the operation writes a value.
pub(super) fn is_write(op: &HostOp) -> bool {
    op.changes().iter().any(|(_, puts)| *puts)
}

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

//! The contents that a victim must have after each change, and the operations that it can do.

use super::fault::{Fault, Kind};
use crate::crash::history::{History, Moment, Wrong};
use crate::crash::ops::{HostOp, Mix};
use crate::crash::subject::{Promise, Subject, check_answer};

/// The contents that a victim must hold.
pub(super) struct Expected {
    pub(super) mix: Mix,
    history: History,
    moment: Moment,
    pub(super) version: u32,
    value_bytes: usize,
    pub(super) is_store: bool,
}

impl Expected {
    /// Nothing, of a victim that was just made.
    pub(super) fn of(victim: &Subject, mix: Mix) -> Expected {
        let history = History::new(vec![0; mix.slots as usize]);
        Expected {
            mix,
            moment: history.start(),
            history,
            version: 0,
            value_bytes: victim.value_bytes(),
            is_store: matches!(victim, Subject::Store(_)),
        }
    }

    pub(super) fn contents(&self) -> &[u64] {
        self.history.contents()
    }

    /// Expected number of slots with contents.
    pub(super) fn held(&self) -> usize {
        self.history.held()
    }

    pub(super) fn begin(&mut self, contents: Vec<u64>) {
        self.history = History::new(contents);
        self.moment = self.history.start();
    }

    /// The operation in a form that the victim can do; `None` if there is none. `takes_records` is false if
    /// the victim must not grow.
    pub(super) fn adapted(&self, op: &HostOp, takes_records: bool) -> Option<HostOp> {
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
                (fits && takes_records).then(|| op.clone())
            }
            HostOp::Load(slots) => {
                let fits = self.history.held() == 0 && (1..=contents.len()).contains(&(*slots as usize));
                (fits && !self.is_store).then(|| op.clone())
            }
            _ => Some(op.clone()),
        }
    }

    /// The operation was done, with this answer.
    pub(super) fn done(&mut self, op: &HostOp, answer: Option<bool>) -> Result<(), Fault> {
        let wrong = check_answer(op, answer, self.contents());
        wrong.map_err(|why| Fault::new(Kind::Wrong, why))?;
        self.note(op);
        self.history.advance(&mut self.moment, self.history.len());
        Ok(())
    }

    /// An operation was refused.
    pub(super) fn not_done(&mut self) {
        self.history.note_nothing(false);
        self.history.advance(&mut self.moment, self.history.len());
    }

    /// The power went off within the operation.
    pub(super) fn cut_within(&mut self, op: &HostOp) {
        self.note(op);
        self.moment.in_flight = self.history.len() - self.moment.acknowledged;
    }

    pub(super) fn note(&mut self, op: &HostOp) {
        let mut note = |op: &HostOp| self.history.note(op, self.version, self.value_bytes, self.is_store);
        match op {
            // Records one by one, for an index that loads them so.
            HostOp::Load(slots) => (0..*slots).for_each(|slot| note(&HostOp::Put(slot))),
            op => note(op),
        }
    }

    /// Slots below the first one found are expected no longer; returns how many held something.
    pub(super) fn give_up(&mut self, found: &[u64]) -> usize {
        let oldest = found.iter().position(|&value| value != 0).unwrap_or(0);
        self.history.give_up(oldest, &mut self.moment)
    }

    /// Compares the contents after a cut with the allowed states.
    pub(super) fn came_back(&self, found: &[u64], promise: Promise) -> Result<(), Fault> {
        let survivor = self.history.survivor(&self.moment, found, promise);
        survivor.map(drop).map_err(|wrong| Fault::new(Kind::Wrong, format!("after a mount: {wrong}")))
    }

    /// Compares the contents with the expected ones, if no cut happened.
    pub(super) fn is_there(&self, found: &[u64]) -> Result<(), Fault> {
        if found == self.contents() {
            return Ok(());
        }
        let wrong = Wrong::between(self.contents(), found);
        Err(Fault::new(Kind::Wrong, format!("without any cut: {wrong}")))
    }
}

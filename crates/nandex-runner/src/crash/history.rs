//! The contents that a workload was meant to leave: the state after any number of its operations, and which
//! of these states a power cut may leave.
//!
//! Contents are an array of slots. For an index a slot is a key, for a store a logical page. A slot holds the
//! fingerprint of a value, 0 where there is none (an absent key, a page of zeros).

use super::ops::HostOp;
use super::subject::Promise;
use crate::model::written;
use nandex::rng::split_mix;
use std::collections::BTreeSet;

/// A number that stands for a value. It is never 0, which means no value.
pub(crate) fn fingerprint(bytes: &[u8]) -> u64 {
    let mut hash = bytes.len() as u64;
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hash = split_mix(hash ^ u64::from_le_bytes(word));
    }
    hash.max(1)
}

#[derive(Clone, Copy, Debug)]
struct Effect {
    slot: u32,
    old: u64,
    new: u64,
    /// True if the slot is a trimmed page. Until the next sync its old contents may come back.
    trimmed: bool,
}

/// The acknowledged operations of a workload.
#[derive(Debug)]
pub(crate) struct History {
    base: Vec<u64>,
    effects: Vec<Effect>,
    /// For each operation: the end of its effects.
    ends: Vec<usize>,
    /// For each number of acknowledged operations: how many of them are followed by a sync.
    synced: Vec<usize>,
    last: Vec<u64>,
    /// Number of slots with contents now.
    held: usize,
}

/// The state at a cut, and the operations around it.
#[derive(Clone, Debug)]
pub(crate) struct Moment {
    pub(crate) acknowledged: usize,
    /// Number of operations after the acknowledged ones that may have been done: one, or all of a load.
    pub(crate) in_flight: usize,
    state: Vec<u64>,
}

/// The state that was found after a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Survivor {
    /// The state after the last acknowledged operation.
    Exact,
    /// The state after an operation in flight.
    InFlight,
    /// An earlier state, not before the last sync.
    Prefix,
}

impl History {
    pub(crate) fn new(base: Vec<u64>) -> History {
        let held = base.iter().filter(|&&value| value != 0).count();
        History { last: base.clone(), held, base, effects: Vec::new(), ends: Vec::new(), synced: vec![0] }
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn contents(&self) -> &[u64] {
        &self.last
    }

    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// Adds an acknowledged operation. `value_bytes` is the length of a value.
    pub(crate) fn note(&mut self, op: &HostOp, version: u32, value_bytes: usize, trims: bool) {
        let value = |slot: u32| fingerprint(&written(slot, version, value_bytes));
        for (slot, puts) in op.changes() {
            self.change(slot, if puts { value(slot) } else { 0 }, trims && !puts);
        }
        self.note_nothing(op.is_sync());
    }

    /// Adds an operation that changed nothing: a sync, or one that was refused.
    pub(crate) fn note_nothing(&mut self, sync: bool) {
        self.ends.push(self.effects.len());
        let floor = if sync { self.ends.len() } else { self.synced[self.ends.len() - 1] };
        self.synced.push(floor);
    }

    fn change(&mut self, slot: u32, new: u64, trimmed: bool) {
        let place = &mut self.last[slot as usize];
        self.held = self.held + usize::from(new != 0) - usize::from(*place != 0);
        self.effects.push(Effect { slot, old: *place, new, trimmed });
        *place = new;
    }

    /// Gives up the slots below `below`, as if nothing had ever been there. Returns how many held
    /// something.
    pub(crate) fn give_up(&mut self, below: usize, moment: &mut Moment) -> usize {
        let given_up = self.last[..below].iter().filter(|&&value| value != 0).count();
        for effect in self.effects.iter_mut().filter(|effect| (effect.slot as usize) < below) {
            (effect.old, effect.new) = (0, 0);
        }
        [&mut self.base, &mut self.last, &mut moment.state]
            .into_iter()
            .for_each(|state| state[..below].fill(0));
        self.held -= given_up;
        given_up
    }

    pub(crate) fn start(&self) -> Moment {
        Moment { acknowledged: 0, in_flight: 1, state: self.base.clone() }
    }

    pub(crate) fn advance(&self, moment: &mut Moment, acknowledged: usize) {
        for op in moment.acknowledged..acknowledged {
            self.redo(op, &mut moment.state);
        }
        moment.acknowledged = acknowledged;
    }

    fn effects_of(&self, op: usize) -> &[Effect] {
        let start = if op == 0 { 0 } else { self.ends[op - 1] };
        &self.effects[start..self.ends[op]]
    }

    fn redo(&self, op: usize, state: &mut [u64]) {
        self.effects_of(op).iter().for_each(|effect| state[effect.slot as usize] = effect.new);
    }

    fn undo(&self, op: usize, state: &mut [u64]) {
        self.effects_of(op).iter().rev().for_each(|effect| state[effect.slot as usize] = effect.old);
    }

    /// The allowed state that equals the contents found. If there is none, the error has the first slot that
    /// differs from the state after the last acknowledged operation.
    pub(crate) fn survivor(
        &self,
        moment: &Moment,
        found: &[u64],
        promise: Promise,
    ) -> Result<Survivor, Wrong> {
        let (acknowledged, floor) = (moment.acknowledged, self.synced[moment.acknowledged]);
        if promise == Promise::EachSlot {
            return self.each_slot(moment, found);
        }
        if self.matches(&moment.state, found, floor..acknowledged) {
            return Ok(Survivor::Exact);
        }
        let mut state = moment.state.clone();
        for op in acknowledged..self.len().min(acknowledged + moment.in_flight) {
            self.redo(op, &mut state);
            if self.matches(&state, found, floor..op + 1) {
                return Ok(Survivor::InFlight);
            }
        }
        state.copy_from_slice(&moment.state);
        if promise == Promise::Prefix {
            for op in (floor..acknowledged).rev() {
                self.undo(op, &mut state);
                if self.matches(&state, found, floor..op) {
                    return Ok(Survivor::Prefix);
                }
            }
        }
        Err(Wrong::between(&moment.state, found))
    }

    pub(crate) fn changes_before(&self, moment: &Moment) -> u64 {
        match moment.acknowledged {
            0 => 0,
            acknowledged => self.ends[acknowledged - 1] as u64,
        }
    }

    /// Number of acknowledged changes missing in these contents. For each slot these are the changes after
    /// the one whose value was found. The operation in flight may have been done.
    pub(crate) fn lost(&self, moment: &Moment, found: &[u64]) -> u64 {
        let mut wrong: BTreeSet<u32> = (0..found.len())
            .filter(|&slot| moment.state[slot] != found[slot])
            .map(|slot| slot as u32)
            .collect();
        if moment.acknowledged < self.len() {
            let in_flight = self.effects_of(moment.acknowledged).iter();
            in_flight.filter(|effect| effect.new == found[effect.slot as usize]).for_each(|effect| {
                wrong.remove(&effect.slot);
            });
        }
        let (mut lost, mut changes) = (0, self.effects[..self.changes_before(moment) as usize].iter().rev());
        while let (false, Some(effect)) = (wrong.is_empty(), changes.next()) {
            if !wrong.contains(&effect.slot) {
                continue;
            }
            lost += 1;
            if effect.old == found[effect.slot as usize] {
                wrong.remove(&effect.slot);
            }
        }
        lost
    }

    /// True if the contents found are this state. Pages trimmed in the operations `since` may have their old
    /// contents.
    fn matches(&self, state: &[u64], found: &[u64], since: std::ops::Range<usize>) -> bool {
        let mut wrong = (0..state.len()).filter(|&slot| state[slot] != found[slot]).peekable();
        if wrong.peek().is_none() {
            return true;
        }
        wrong.all(|slot| state[slot] == 0 && self.came_back(slot as u32, found[slot], since.clone()))
    }

    /// Whether the value found in this slot was only trimmed since.
    fn came_back(&self, slot: u32, found: u64, since: std::ops::Range<usize>) -> bool {
        let changes = since.rev().flat_map(|op| self.effects_of(op).iter().rev());
        let mut of_slot = changes.filter(|effect| effect.slot == slot).take_while(|effect| effect.trimmed);
        of_slot.any(|effect| effect.old == found)
    }

    /// Checks that every slot holds a value that it had at the last sync or since.
    fn each_slot(&self, moment: &Moment, found: &[u64]) -> Result<Survivor, Wrong> {
        let until = (moment.acknowledged + moment.in_flight).min(self.len());
        let since: Vec<Effect> =
            (self.synced[moment.acknowledged]..until).flat_map(|op| self.effects_of(op)).copied().collect();
        let allowed = |slot: usize| {
            moment.state[slot] == found[slot]
                || since
                    .iter()
                    .any(|e| e.slot as usize == slot && (e.old == found[slot] || e.new == found[slot]))
        };
        match (0..found.len()).find(|&slot| !allowed(slot)) {
            Some(slot) => Err(Wrong { slot, expected: moment.state[slot], found: found[slot] }),
            None if moment.state == found => Ok(Survivor::Exact),
            None => Ok(Survivor::Prefix),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    slot: usize,
    expected: u64,
    found: u64,
}

impl Wrong {
    /// The first difference.
    pub(crate) fn between(expected: &[u64], found: &[u64]) -> Wrong {
        let slot = (0..expected.len()).find(|&slot| expected[slot] != found[slot]).unwrap_or(0);
        Wrong { slot, expected: expected[slot], found: found[slot] }
    }
}

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = match (self.expected, self.found) {
            (0, _) => "is there and should not be",
            (_, 0) => "is gone",
            _ => "has another value",
        };
        write!(f, "no allowed state: compared with the last acknowledged one, number {} {what}", self.slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(ops: &[HostOp], trims: bool) -> History {
        let mut history = History::new(vec![0; 4]);
        for (i, op) in ops.iter().enumerate() {
            history.note(op, i as u32, 8, trims);
        }
        history
    }

    fn moment(history: &History, acknowledged: usize) -> Moment {
        let mut moment = history.start();
        history.advance(&mut moment, acknowledged);
        moment
    }

    #[test]
    fn a_cut_leaves_what_was_acknowledged_or_one_more() {
        let h = history(&[HostOp::Put(0), HostOp::Put(1), HostOp::Put(2)], false);
        let (now, at) = (moment(&h, 1), |n| moment(&h, n).state);
        assert_eq!(h.survivor(&now, &at(1), Promise::LastState), Ok(Survivor::Exact));
        assert_eq!(h.survivor(&now, &at(2), Promise::LastState), Ok(Survivor::InFlight));
        assert!(h.survivor(&now, &at(0), Promise::LastState).is_err());
        assert!(h.survivor(&now, &at(3), Promise::LastState).is_err());
    }

    #[test]
    fn a_prefix_does_not_end_before_the_last_sync() {
        let h = history(&[HostOp::Put(0), HostOp::Sync, HostOp::Put(1), HostOp::Put(2)], false);
        let (now, at) = (moment(&h, 4), |n| moment(&h, n).state);
        assert_eq!(h.survivor(&now, &at(2), Promise::Prefix), Ok(Survivor::Prefix));
        assert!(h.survivor(&now, &at(0), Promise::Prefix).is_err());
        let mut mixed = at(4);
        mixed[1] = 0;
        assert!(h.survivor(&now, &mixed, Promise::Prefix).is_err());
        assert_eq!(h.survivor(&now, &mixed, Promise::EachSlot), Ok(Survivor::Prefix));
        mixed[0] = 0;
        assert!(h.survivor(&now, &mixed, Promise::EachSlot).is_err());
    }

    #[test]
    fn what_is_lost_are_the_acknowledged_changes_that_do_not_show() {
        let puts = [0, 1, 0, 2, 0].map(HostOp::Put);
        let h = history(&puts, false);
        let (now, at) = (moment(&h, 4), |n| moment(&h, n).state);
        let lost = |found: &[u64]| h.lost(&now, found);
        assert_eq!([4, 3, 2, 1, 0].map(|n| lost(&at(n))), [0, 1, 2, 3, 4]);
        // The operation in flight is done.
        assert_eq!((lost(&at(5)), h.changes_before(&now)), (0, 4));
        // A mixture: slot 0 as at first, slot 1 never, slot 2 as it is.
        let mixed = [at(1)[0], 0, now.state[2], 0];
        assert_eq!(lost(&mixed), 2);
    }

    #[test]
    fn a_trimmed_page_may_come_back_until_the_next_sync() {
        let h = history(&[HostOp::Put(0), HostOp::Remove(0), HostOp::Sync, HostOp::Put(1)], true);
        let written = moment(&h, 1).state;
        assert_eq!(h.survivor(&moment(&h, 2), &written, Promise::LastState), Ok(Survivor::Exact));
        assert!(h.survivor(&moment(&h, 3), &written, Promise::LastState).is_err());
        let keys = history(&[HostOp::Put(0), HostOp::Remove(0), HostOp::Sync], false);
        assert!(keys.survivor(&moment(&keys, 2), &written, Promise::LastState).is_err());
    }
}

//! The history of a subject, and the state in it that fits the contents read, not counting unreadable slots.

use crate::crash::ops::HostOp;
use crate::crash::subject::Promise;

#[derive(Clone, Copy, Debug)]
struct Effect {
    slot: u32,
    old: u64,
    new: u64,
    /// True if the slot is a trimmed page. Until the next sync its old contents may come back.
    trimmed: bool,
}

/// Every operation since the format. A slot holds the fingerprint of its value, or 0 without a value.
#[derive(Debug)]
pub(super) struct History {
    slots: usize,
    effects: Vec<Effect>,
    /// For each operation, the number of effects until its end.
    ends: Vec<usize>,
    /// For each number of acknowledged operations, how many of them a sync follows.
    synced: Vec<usize>,
    last: Vec<u64>,
}

/// The operations that an image must contain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// Number of acknowledged operations.
    pub(super) acknowledged: usize,
    /// Whether the end was orderly; otherwise one more operation may have been in flight.
    pub(super) clean: bool,
    pub(super) promise: Promise,
}

/// The relation of the contents read to the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// The contents are as promised. Lists the values that each slot may hold in any matching state.
    Promised(Vec<Vec<u64>>),
    /// The contents are those before the promised states: `lost` acknowledged changes are gone. If only
    /// syncs are promised, `syncs` is the number of syncs that made some of these changes durable.
    Older { lost: u64, syncs: Option<u64> },
    /// The contents as a whole match no state, but each slot holds a former value. Gives the number of such
    /// slots and the first of them.
    Stale(usize, usize),
    /// Some slots have a value that they never had: their number, and the first of them.
    Alien(usize, usize),
}

impl History {
    pub(super) fn new(slots: usize) -> History {
        History { slots, effects: Vec::new(), ends: Vec::new(), synced: vec![0], last: vec![0; slots] }
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn contents(&self) -> &[u64] {
        &self.last
    }

    /// Records an acknowledged operation; `value` is the fingerprint of the value that it wrote to a slot.
    pub(super) fn note(&mut self, op: &HostOp, value: impl Fn(u32) -> u64, trims: bool) {
        for (slot, puts) in op.changes() {
            self.change(slot, if puts { value(slot) } else { 0 }, trims && !puts);
        }
        self.note_nothing(op.is_sync());
    }

    /// Records an operation that changed nothing, such as a sync or a refused operation.
    pub(super) fn note_nothing(&mut self, sync: bool) {
        self.ends.push(self.effects.len());
        let floor = if sync { self.ends.len() } else { self.synced[self.ends.len() - 1] };
        self.synced.push(floor);
    }

    fn change(&mut self, slot: u32, new: u64, trimmed: bool) {
        let place = &mut self.last[slot as usize];
        if *place == new {
            return;
        }
        self.effects.push(Effect { slot, old: *place, new, trimmed });
        *place = new;
    }

    fn effects_until(&self, operations: usize) -> usize {
        operations.checked_sub(1).map_or(0, |last| self.ends[last])
    }

    fn state(&self, operations: usize) -> Vec<u64> {
        let mut state = vec![0; self.slots];
        let effects = &self.effects[..self.effects_until(operations)];
        effects.iter().for_each(|effect| state[effect.slot as usize] = effect.new);
        state
    }

    /// Compares the slots with the history; `None` is a slot that could not be read.
    pub(super) fn judge(&self, moment: &Moment, known: &[Option<u64>]) -> Standing {
        let newest = if moment.clean { moment.acknowledged } else { moment.acknowledged + 1 };
        let newest = newest.min(self.len());
        let floor = match moment.promise {
            _ if moment.clean => moment.acknowledged,
            Promise::LastState => moment.acknowledged,
            Promise::Prefix | Promise::EachSlot => self.synced[moment.acknowledged],
        };
        let mut may_hold: Vec<Vec<u64>> = vec![Vec::new(); self.slots];
        let mut state = self.state(newest);
        for operations in (0..=newest).rev() {
            if operations < newest {
                let undone = self.effects_until(operations)..self.effects_until(operations + 1);
                self.effects[undone].iter().rev().for_each(|e| state[e.slot as usize] = e.old);
            }
            // A trim may be undone by a power cut until the next sync.
            let trims_since = if moment.clean { operations } else { self.synced[operations] };
            if !self.fits(&state, known, trims_since..operations) {
                continue;
            }
            if operations >= floor {
                for (slot, held) in may_hold.iter_mut().enumerate() {
                    held.push(known[slot].unwrap_or(state[slot]));
                }
            } else if may_hold[0].is_empty() {
                let lost = self.lost_since(operations, moment);
                return Standing::Older { lost, syncs: self.syncs_since(operations, moment) };
            }
        }
        if !may_hold[0].is_empty() {
            Standing::Promised(may_hold)
        } else {
            match self.of_each_slot(newest, floor, known) {
                Standing::Stale(0, _) if moment.promise == Promise::EachSlot => {
                    Standing::Promised(self.held_since(newest, floor, known))
                }
                standing => standing,
            }
        }
    }

    /// The values that each slot may hold if each is in a state of its own.
    fn held_since(&self, newest: usize, floor: usize, known: &[Option<u64>]) -> Vec<Vec<u64>> {
        let mut may_hold: Vec<Vec<u64>> = self.state(floor).into_iter().map(|held| vec![held]).collect();
        for effect in &self.effects[self.effects_until(floor)..self.effects_until(newest)] {
            may_hold[effect.slot as usize].push(effect.new);
        }
        for (held, known) in may_hold.iter_mut().zip(known) {
            known.iter().for_each(|&known| *held = vec![known]);
        }
        may_hold
    }

    /// Number of lost changes after the first `operations` operations. Trims that no sync followed do not
    /// count, since a cut may undo them.
    fn lost_since(&self, operations: usize, moment: &Moment) -> u64 {
        let synced = self.effects_until(self.synced[moment.acknowledged]);
        let gone = self.effects_until(operations)..self.effects_until(moment.acknowledged);
        let may_go = |at: usize| !moment.clean && at >= synced && self.effects[at].trimmed;
        gone.filter(|&at| !may_go(at)).count() as u64
    }

    /// Number of syncs after the first `operations` operations that had changes to make durable; `None` if
    /// more than syncs is promised.
    fn syncs_since(&self, operations: usize, moment: &Moment) -> Option<u64> {
        if moment.clean || moment.promise == Promise::LastState {
            return None;
        }
        let (mut at, mut syncs) = (self.synced[moment.acknowledged], 0);
        while at > operations {
            let before = self.synced[at - 1];
            syncs += u64::from(self.effects_until(before) < self.effects_until(at));
            at = before;
        }
        Some(syncs)
    }

    fn fits(&self, state: &[u64], known: &[Option<u64>], since: std::ops::Range<usize>) -> bool {
        let trimmed = self.effects_until(since.start)..self.effects_until(since.end);
        let came_back = |slot: usize, found: u64| {
            let changes = self.effects[trimmed.clone()].iter().rev();
            let mut of_slot = changes.filter(|e| e.slot as usize == slot).take_while(|e| e.trimmed);
            state[slot] == 0 && of_slot.any(|effect| effect.old == found)
        };
        known
            .iter()
            .enumerate()
            .all(|(slot, known)| known.is_none_or(|found| found == state[slot] || came_back(slot, found)))
    }

    fn of_each_slot(&self, newest: usize, floor: usize, known: &[Option<u64>]) -> Standing {
        let state = self.state(floor);
        let until = self.effects_until(newest);
        let since = &self.effects[self.effects_until(floor)..until];
        let trims = &self.effects[self.effects_until(self.synced[floor])..until];
        let (mut stale, mut alien) = (Vec::new(), Vec::new());
        for (slot, found) in known.iter().enumerate().filter_map(|(slot, known)| Some((slot, (*known)?))) {
            let changed = |effects: &[Effect]| {
                effects.iter().any(|e| e.slot as usize == slot && (e.old == found || e.new == found))
            };
            let undone = trims.iter().any(|e| e.trimmed && e.slot as usize == slot && e.old == found);
            if state[slot] == found || changed(since) || undone {
                continue;
            }
            if found == 0 || changed(&self.effects) { stale.push(slot) } else { alien.push(slot) }
        }
        match (alien.first(), stale.first()) {
            (Some(first), _) => Standing::Alien(alien.len(), *first),
            (None, first) => Standing::Stale(stale.len(), first.copied().unwrap_or(0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(ops: &[HostOp]) -> History {
        let mut history = History::new(3);
        for (number, op) in ops.iter().enumerate() {
            history.note(op, |_| number as u64 + 1, false);
        }
        history
    }

    fn judged(history: &History, acknowledged: usize, clean: bool, known: [Option<u64>; 3]) -> Standing {
        history.judge(&Moment { acknowledged, clean, promise: Promise::LastState }, &known)
    }

    #[test]
    fn what_changes_nothing_is_no_change_that_is_lost() {
        let h = history(&[HostOp::Put(0), HostOp::Put(1), HostOp::Remove(2), HostOp::Remove(2)]);
        assert_eq!(
            judged(&h, 4, true, [Some(1), Some(0), Some(0)]),
            Standing::Older { lost: 1, syncs: None }
        );
    }

    #[test]
    fn trims_that_no_sync_followed_are_not_lost_by_a_cut() {
        let mut h = history(&[HostOp::Put(0), HostOp::Put(1), HostOp::Put(2)]);
        h.note(&HostOp::Remove(0), |_| 4, true);
        let older = |lost| Standing::Older { lost, syncs: None };
        let found = [Some(1), Some(2), Some(0)];
        assert_eq!([judged(&h, 4, true, found), judged(&h, 4, false, found)], [older(2), older(1)]);
        h.note(&HostOp::Sync, |_| 5, true);
        assert_eq!(judged(&h, 5, false, found), older(2));
    }

    #[test]
    fn what_was_read_is_a_promised_state_an_older_one_or_none() {
        let h = history(&[HostOp::Put(0), HostOp::Put(1), HostOp::Put(0), HostOp::Remove(1)]);
        let (one, two, three) = (Some(1), Some(2), Some(3));
        assert!(matches!(judged(&h, 3, true, [three, two, Some(0)]), Standing::Promised(_)));
        assert!(matches!(judged(&h, 3, false, [three, Some(0), Some(0)]), Standing::Promised(_)));
        assert_eq!(judged(&h, 3, true, [three, Some(0), Some(0)]), Standing::Stale(1, 1));
        assert_eq!(judged(&h, 3, true, [one, two, Some(0)]), Standing::Older { lost: 1, syncs: None });
        assert_eq!(judged(&h, 3, true, [three, two, one]), Standing::Alien(1, 2));
        // What could not be read may be anything that fits.
        assert_eq!(
            judged(&h, 3, false, [three, None, Some(0)]),
            Standing::Promised(vec![vec![3, 3], vec![0, 2], vec![0, 0]])
        );
    }
}

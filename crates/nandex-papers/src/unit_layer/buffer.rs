//! The reservation buffer: units that wait in RAM, in a chain for each node, ordered by arrival.
//!
//! Units are in slots of equal size; the first free slot is used. A *set* is the chain of one node; the sets
//! are sorted by node. A buffer that *eliminates* keeps at most one unit for an entry of a node: the combined
//! effect of the waiting unit and a newer one, which may be nothing.

use super::Identity;
use super::unit::{Op, Unit};
use alloc::vec::Vec;

const NONE: u32 = u32::MAX;

/// The units that wait for one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitSet {
    /// The node that the units change.
    pub node: u32,
    first: u32,
    last: u32,
    /// Number of units in the set.
    pub units: u32,
    /// Arrival number of the set's first unit. Of two sets, the older has the smaller number.
    pub born: u64,
    /// Arrival number of the last unit for the node, even if it was merged with one that waited.
    pub newest: u64,
}

/// The reservation buffer: units that wait in RAM for a commit.
#[derive(Clone, Debug)]
pub struct ReservationBuffer {
    body_bytes: usize,
    identity: Identity,
    eliminates: bool,
    /// Whether more units wait than there is room for, because the store refuses to take them.
    pub(super) is_overfull: bool,
    /// Operation, mark and body of each slot.
    slots: Vec<u8>,
    /// For each slot: the next slot in its chain, or in the list of free slots.
    next: Vec<u32>,
    free: u32,
    sets: Vec<UnitSet>,
    units: usize,
    /// Units that have arrived so far.
    arrived: u64,
    /// Units saved because two units of one entry were merged into one or none.
    eliminated: u64,
}

impl ReservationBuffer {
    /// Makes a buffer with this many slots. More are added when an operation needs them.
    pub fn new(slots: usize, body_bytes: usize, identity: Identity, eliminates: bool) -> Self {
        let mut buffer = ReservationBuffer {
            body_bytes,
            identity,
            eliminates,
            is_overfull: false,
            slots: Vec::new(),
            next: Vec::new(),
            free: NONE,
            sets: Vec::with_capacity(slots),
            units: 0,
            arrived: 0,
            eliminated: 0,
        };
        buffer.add_slots(slots);
        buffer
    }

    /// Bytes of RAM for `slots` units of `sets` nodes.
    pub const fn ram_bytes_for(slots: usize, sets: usize, body_bytes: usize) -> usize {
        slots * (2 + body_bytes + size_of::<u32>()) + sets * size_of::<UnitSet>()
    }

    /// Bytes of RAM that the buffer holds now.
    pub fn ram_bytes(&self) -> usize {
        self.slots.capacity()
            + self.next.capacity() * size_of::<u32>()
            + self.sets.capacity() * size_of::<UnitSet>()
    }

    /// Number of units that wait.
    pub fn len(&self) -> usize {
        self.units
    }

    /// Whether no unit waits.
    pub fn is_empty(&self) -> bool {
        self.units == 0
    }

    /// Units that have arrived so far.
    pub fn arrived(&self) -> u64 {
        self.arrived
    }

    /// Units saved because they met another for the same entry.
    pub fn eliminated(&self) -> u64 {
        self.eliminated
    }

    /// The sets of units, sorted by node.
    pub fn sets(&self) -> &[UnitSet] {
        &self.sets
    }

    /// The set of a node, if any unit waits for it.
    pub fn set(&self, node: u32) -> Option<UnitSet> {
        self.place(node).ok().map(|at| self.sets[at])
    }

    /// The node of the unit that has waited longest.
    pub fn oldest(&self) -> Option<u32> {
        self.sets.iter().min_by_key(|set| set.born).map(|set| set.node)
    }

    /// The units of a node in an order in which they can be applied.
    ///
    /// This is the order of arrival if the buffer does not eliminate. If it does, each unit is about
    /// another entry, so the order is: the reset, then entries that leave, then entries that come.
    pub fn units_of(&self, node: u32) -> impl Iterator<Item = Unit<'_>> {
        let first = self.place(node).map_or(NONE, |at| self.sets[at].first);
        let passes = if self.eliminates { 0..3 } else { 3..4 };
        passes.flat_map(move |pass| {
            let units = self.chain(first).map(move |slot| Unit { node, ..self.unit(slot) });
            units.filter(move |unit| match unit.op {
                _ if pass == 3 => true,
                Op::Reset => pass == 0,
                Op::Delete => pass == 1,
                Op::Insert | Op::Update => pass == 2,
            })
        })
    }

    fn chain(&self, first: u32) -> impl Iterator<Item = u32> + '_ {
        let link = move |slot: u32| (slot != NONE).then_some(slot);
        core::iter::successors(link(first), move |&slot| link(self.next[slot as usize]))
    }

    fn place(&self, node: u32) -> Result<usize, usize> {
        self.sets.binary_search_by_key(&node, |set| set.node)
    }

    fn unit(&self, slot: u32) -> Unit<'_> {
        let bytes = &self.slots[slot as usize * (2 + self.body_bytes)..][..2 + self.body_bytes];
        let Some(op) = Op::from_byte(bytes[0]) else { unreachable!("a slot holds what was put into it") };
        Unit { node: 0, op, mark: bytes[1], body: &bytes[2..] }
    }

    /// Adds a unit, or merges it with the waiting unit of the same entry.
    pub fn push(&mut self, unit: Unit<'_>) {
        assert_eq!(unit.body.len(), self.body_bytes, "bodies have one size");
        self.arrived += 1;
        if unit.op == Op::Reset {
            self.remove(unit.node);
        }
        if self.eliminates && self.meet(&unit) {
            self.eliminated += 1;
            if let Ok(at) = self.place(unit.node) {
                self.sets[at].newest = self.arrived;
            }
            return;
        }
        let slot = self.take_slot();
        self.put(slot, unit);
        self.next[slot as usize] = NONE;
        match self.place(unit.node) {
            Ok(at) => {
                let set = &mut self.sets[at];
                self.next[set.last as usize] = slot;
                (set.last, set.units, set.newest) = (slot, set.units + 1, self.arrived);
            }
            Err(at) => {
                let (born, newest) = (self.arrived, self.arrived);
                let set = UnitSet { node: unit.node, first: slot, last: slot, units: 1, born, newest };
                self.sets.insert(at, set);
            }
        }
        self.units += 1;
        debug_assert!(
            self.sets.len() <= self.units && self.units <= self.next.len(),
            "N4: {} units in {} sets and {} slots",
            self.units,
            self.sets.len(),
            self.next.len()
        );
    }

    /// Merges a unit with the waiting one of the same entry, if there is one. Returns whether the new unit
    /// needs no slot of its own.
    fn meet(&mut self, unit: &Unit<'_>) -> bool {
        let Ok(at) = self.place(unit.node) else { return false };
        let entry = self.identity.of(unit.body);
        let same = |slot: &u32| {
            let waiting = self.unit(*slot);
            waiting.op != Op::Reset && self.identity.of(waiting.body) == entry
        };
        let Some(slot) = self.chain(self.sets[at].first).find(same) else { return false };
        match (self.unit(slot).op, unit.op) {
            (Op::Insert, Op::Delete) => self.take_out(at, slot),
            (Op::Insert, Op::Update) => self.put(slot, Unit { op: Op::Insert, ..*unit }),
            (Op::Delete, Op::Insert) => self.put(slot, Unit { op: Op::Update, ..*unit }),
            (Op::Update, Op::Update | Op::Delete) => self.put(slot, *unit),
            (before, after) => unreachable!("{after:?} after {before:?} of the same entry"),
        }
        true
    }

    fn put(&mut self, slot: u32, unit: Unit<'_>) {
        let bytes = &mut self.slots[slot as usize * (2 + self.body_bytes)..][..2 + self.body_bytes];
        (bytes[0], bytes[1]) = (unit.op as u8, unit.mark);
        bytes[2..].copy_from_slice(unit.body);
    }

    fn take_out(&mut self, at: usize, slot: u32) {
        let set = self.sets[at];
        let after = self.next[slot as usize];
        let before = self.chain(set.first).find(|&other| self.next[other as usize] == slot);
        match before {
            Some(before) => self.next[before as usize] = after,
            None => self.sets[at].first = after,
        }
        if set.last == slot {
            self.sets[at].last = before.unwrap_or(NONE);
        }
        self.sets[at].units -= 1;
        self.give_slot(slot);
        debug_assert_eq!(set.units == 1, self.sets[at].first == NONE, "N4: the chain of node {}", set.node);
        if set.units == 1 {
            self.sets.remove(at);
        }
    }

    /// Drops the units of a node. Returns how many there were.
    pub fn remove(&mut self, node: u32) -> usize {
        let Ok(at) = self.place(node) else { return 0 };
        let (set, before) = (self.sets.remove(at), self.units);
        let mut slot = set.first;
        while slot != NONE {
            let after = self.next[slot as usize];
            self.give_slot(slot);
            slot = after;
        }
        debug_assert_eq!(before - self.units, set.units as usize, "N4: the chain of node {node}");
        set.units as usize
    }

    /// Drops the last `units` units of a node. Only for a buffer that does not eliminate.
    pub(super) fn remove_last(&mut self, node: u32, units: usize) {
        let Ok(at) = self.place(node) else { return };
        let set = self.sets[at];
        debug_assert!(!self.eliminates, "N4: the last units of node {node} may have met others");
        debug_assert!(units <= set.units as usize, "N4: {units} of {} units of node {node}", set.units);
        let stay = (set.units as usize).saturating_sub(units);
        let Some(last) = stay.checked_sub(1).and_then(|last| self.chain(set.first).nth(last)) else {
            self.remove(node);
            return;
        };
        let mut slot = core::mem::replace(&mut self.next[last as usize], NONE);
        while slot != NONE {
            let after = self.next[slot as usize];
            self.give_slot(slot);
            slot = after;
        }
        (self.sets[at].last, self.sets[at].units) = (last, stay as u32);
    }

    /// Drops all units.
    pub fn clear(&mut self) {
        while let Some(set) = self.sets.last() {
            self.remove(set.node);
        }
        debug_assert_eq!(self.units, 0, "N4: units wait in no set");
    }

    fn give_slot(&mut self, slot: u32) {
        self.next[slot as usize] = self.free;
        self.free = slot;
        self.units -= 1;
    }

    fn take_slot(&mut self) -> u32 {
        if self.free == NONE {
            self.add_slots(SLOTS_MORE);
        }
        let slot = self.free;
        self.free = self.next[slot as usize];
        slot
    }

    fn add_slots(&mut self, slots: usize) {
        let first = self.next.len();
        self.next.reserve_exact(slots);
        self.slots.reserve_exact(slots * (2 + self.body_bytes));
        self.slots.resize((first + slots) * (2 + self.body_bytes), 0);
        self.next.resize(first + slots, NONE);
        for slot in (first..first + slots).rev() {
            self.next[slot] = self.free;
            self.free = slot as u32;
        }
    }

    /// A message about chains, sets and counts that do not agree, if any.
    pub(super) fn fault(&self) -> Option<&'static str> {
        if self.sets.windows(2).any(|pair| pair[0].node >= pair[1].node) {
            return Some("the sets are not sorted");
        }
        let counted: usize = self.sets.iter().map(|set| self.chain(set.first).count()).sum();
        if counted != self.units || counted != self.sets.iter().map(|set| set.units as usize).sum::<usize>() {
            return Some("units are counted wrongly");
        }
        let is_twice = |set: &UnitSet| {
            let identities = || {
                let units = self.chain(set.first).map(|slot| self.unit(slot));
                units.filter(|unit| unit.op != Op::Reset).map(|unit| self.identity.of(unit.body))
            };
            identities()
                .enumerate()
                .any(|(i, identity)| identities().skip(i + 1).any(|other| other == identity))
        };
        if self.eliminates && self.sets.iter().any(is_twice) {
            return Some("two units wait for one entry");
        }
        None
    }
}

/// Slots added at a time.
pub(super) const SLOTS_MORE: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use alloc::vec;
    use nandex::rng::Rng;

    fn unit(node: u32, op: Op, body: &[u8]) -> Unit<'_> {
        Unit { node, op, mark: 1, body }
    }

    #[test]
    fn units_leave_in_the_order_in_which_they_came() {
        let mut buffer = ReservationBuffer::new(2, 2, Identity::first(1), false);
        for (node, n) in [(5, 1), (3, 2), (5, 3), (9, 4), (3, 5)] {
            buffer.push(unit(node, Op::Insert, &[n, 0]));
        }
        let of = |buffer: &ReservationBuffer, node| -> Vec<u8> {
            buffer.units_of(node).map(|unit| unit.body[0]).collect()
        };
        assert_eq!((of(&buffer, 5), of(&buffer, 3), of(&buffer, 4)), (vec![1, 3], vec![2, 5], vec![]));
        assert_eq!((buffer.len(), buffer.oldest(), buffer.fault()), (5, Some(5), None));
        let newest = |node| buffer.set(node).map(|set| set.newest);
        assert_eq!((newest(3), newest(5), newest(9), buffer.arrived()), (Some(5), Some(3), Some(4), 5));
        assert_eq!((buffer.remove(5), buffer.oldest(), buffer.len()), (2, Some(3), 3));
        buffer.clear();
        assert_eq!((buffer.len(), buffer.oldest(), buffer.fault()), (0, None, None));
    }

    #[test]
    fn what_waits_for_an_entry_is_what_all_its_units_come_to() {
        // Nodes whose entries are known: a unit says rightly what the node held before.
        let mut buffer = ReservationBuffer::new(8, 2, Identity::first(1), true);
        let (mut base, mut now) = (BTreeMap::new(), BTreeMap::new());
        for n in 0..6u8 {
            base.insert(n, 100);
        }
        now.clone_from(&base);
        let mut rng = Rng::new(4);
        for step in 0..4_000 {
            let (key, value) = (rng.below(12) as u8, rng.below(50) as u8);
            let op = match (now.contains_key(&key), rng.chance(1, 2)) {
                (true, true) => Op::Delete,
                (true, false) => Op::Update,
                (false, _) => Op::Insert,
            };
            buffer.push(unit(7, op, &[key, value]));
            if op == Op::Delete {
                now.remove(&key)
            } else {
                now.insert(key, value)
            };
            assert_eq!(buffer.fault(), None);
            let mut applied = base.clone();
            for unit in buffer.units_of(7) {
                let (key, value) = (unit.body[0], unit.body[1]);
                assert_eq!(applied.contains_key(&key), unit.op != Op::Insert);
                if unit.op == Op::Delete {
                    applied.remove(&key)
                } else {
                    applied.insert(key, value)
                };
            }
            assert_eq!(applied, now, "step {step}");
            if step % 97 == 0 {
                buffer.remove(7);
                base.clone_from(&now);
            }
        }
        assert!(buffer.eliminated() > 1_000);
    }
}

//! The rules of a refusal: nothing is done, and with the chip full something can still be removed.

use super::body::{Body, verb};
use super::fault::{Fault, Kind};
use crate::crash::ops::HostOp;
use crate::crash::subject::Subject;
use nandex::ordered::Durability;
use nandex::{IndexError, Nand};

/// A full chip holds at least one in this many of the records that it held before when full. Half-empty nodes
/// and another order of the keys cost the rest.
const ROOM_LOST_MAX: usize = 6;

/// Indexes that never join nodes. After removals each leaf may hold a single record, and such leaves may
/// fill the chip.
const JOIN_NO_NODES: [&str; 7] = ["mu", "mu-star", "wandering", "vmtree", "vmtree-ow", "ipl", "dipl"];

/// Indexes with pages or records that wait in RAM below the class *every operation*. An operation that a
/// dying chip refuses half-way cannot be undone in RAM, so they ask for another mount.
const WAIT_IN_RAM: [&str; 5] = ["mu", "mu-star", "wandering", "ipl", "dipl"];

/// Refusals in a row, and how much there was at one before.
#[derive(Default)]
pub(super) struct Refusals {
    /// Changes refused since the last one that was done.
    pub(super) in_row: u64,
    /// Writes refused since the last successful one. At the end of life removals may still succeed.
    pub(super) writes_in_row: u64,
    /// The most records held when one more was refused.
    held_when_full: usize,
}

impl Refusals {
    fn count(&mut self, op: &HostOp) {
        self.in_row += 1;
        self.writes_in_row += u64::from(is_write(op));
    }

    /// An operation was done.
    pub(super) fn end(&mut self, op: &HostOp) {
        self.in_row = 0;
        if is_write(op) {
            self.writes_in_row = 0;
        }
    }

    /// A chip that was full is full again: not with far fewer records than before, and not with none.
    fn full_with(&mut self, held: usize, lost_max: usize) -> Result<(), Fault> {
        // Two leaves more may be there with nothing in them but bounds.
        if (held + 2) * lost_max < self.held_when_full || held == 0 {
            let before = self.held_when_full;
            let what = format!("full with {held} records, though {before} were held before");
            return Err(Fault::new(Kind::Refused, what));
        }
        self.held_when_full = self.held_when_full.max(held);
        Ok(())
    }
}

/// True if the operation adds or changes a record.
fn is_write(op: &HostOp) -> bool {
    op.changes().iter().any(|(_, puts)| *puts)
}

impl Body<'_> {
    /// Checks a refused operation: the refusal must be justified, and nothing of the operation done.
    pub(super) fn refused(&mut self, op: &HostOp, error: &IndexError) -> Result<(), Fault> {
        self.counts.refused += 1;
        if matches!(op, HostOp::Load(_)) {
            // Some of the records may be there.
            self.is_bare = true;
            self.victim = None;
            return Ok(());
        }
        if self.asks_for_a_mount() {
            // Whether it is done shows then, as after a power cut.
            self.expected.note(op);
            self.victim = None;
            return Ok(());
        }
        self.expected.not_done();
        self.refusals.count(op);
        let what = format!("{}: {error}", verb(op));
        if *error == IndexError::WornOut && !self.rig.has_failed {
            return Err(Fault::new(Kind::Refused, format!("{what}, though no operation ever failed")));
        }
        self.not_done(op)?;
        if self.rig.has_failed {
            return Ok(());
        }
        match op {
            HostOp::Remove(slot) if self.expected.contents()[*slot as usize] != 0 => self.insist(*slot),
            HostOp::Remove(_) => Ok(()),
            HostOp::Sync | HostOp::Remount { .. } => Err(Fault::new(Kind::Stuck, what)),
            _ if self.expected.is_store => Err(Fault::new(Kind::Refused, format!("of a store: {what}"))),
            // Several changes as one need the room for all of them, beside what they replace.
            HostOp::Group(_) | HostOp::Mixed(_) | HostOp::Load(_) => Ok(()),
            HostOp::Put(_) | HostOp::Blind(_) => self.has_held_more(),
        }
    }

    /// Whether the chip died within an operation so that the victim must be mounted again. Only victims
    /// with pages in RAM may ask for that.
    pub(super) fn asks_for_a_mount(&mut self) -> bool {
        let name = self.rig.setup.victim.target.name();
        let may_ask =
            self.rig.has_failed && self.class < Durability::EveryOperation && WAIT_IN_RAM.contains(&name);
        may_ask && self.victim.as_mut().is_some_and(Subject::is_interrupted)
    }

    /// Checks that a full chip holds at least one record, and not far fewer than it held before when full.
    fn has_held_more(&mut self) -> Result<(), Fault> {
        let record = &self.rig.setup.settings.record;
        let of_a_leaf = self.rig.chip.geometry().page_bytes as usize
            / (usize::from(record.key_bytes) + usize::from(record.value_bytes)).max(1);
        let name = self.rig.setup.victim.target.name();
        let joins = !JOIN_NO_NODES.contains(&name.rsplit(':').next().unwrap_or(name));
        let lost_max = if joins { ROOM_LOST_MAX } else { ROOM_LOST_MAX.max(of_a_leaf) };
        self.refusals.full_with(self.expected.held(), lost_max)
    }

    /// Checks that a refused change has changed nothing.
    pub(super) fn not_done(&mut self, op: &HostOp) -> Result<(), Fault> {
        let Some(victim) = &mut self.victim else { return Ok(()) };
        for (slot, _) in op.changes() {
            let found = victim.look_up(slot);
            if !self.rig.is_powered() {
                // An FTL that writes table pages in a read can be cut in one.
                self.cut_off();
                return Ok(());
            }
            let found = found.map_err(|why| Fault::new(Kind::Error, format!("after a refusal: {why}")))?;
            if found != self.expected.contents()[slot as usize] {
                let what = format!("{} {slot} was refused and done all the same", verb(op));
                return Err(Fault::new(Kind::Wrong, what));
            }
        }
        Ok(())
    }

    /// Checks a full chip that refused a removal: a sync or the removal of another key must find room.
    fn insist(&mut self, refused: u32) -> Result<(), Fault> {
        self.counts.removals_refused += 1;
        let contents = self.expected.contents();
        let others: Vec<u32> =
            (0..contents.len() as u32).filter(|&slot| contents[slot as usize] != 0).collect();
        let mut tries = vec![HostOp::Sync, HostOp::Remove(refused)];
        tries.extend(others.iter().map(|&slot| HostOp::Remove(slot)));
        for op in tries {
            let Some(victim) = &mut self.victim else { return Ok(()) };
            self.expected.version += 1;
            match victim.carry_out(&op, self.expected.version) {
                Ok(answer) => {
                    self.expected.done(&op, answer)?;
                    if !self.rig.is_powered() {
                        self.cut_off();
                        return Ok(());
                    }
                    if matches!(op, HostOp::Remove(_)) {
                        return Ok(());
                    }
                }
                Err(_) if !self.rig.is_powered() => {
                    self.expected.note(&op);
                    self.cut_off();
                    return Ok(());
                }
                Err(IndexError::Full(_)) => {}
                Err(error) => return Err(Fault::new(Kind::Error, format!("{}: {error}", verb(&op)))),
            }
        }
        let what = format!("the chip is full, and none of {} keys can be removed", others.len());
        Err(Fault::new(Kind::Stuck, what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chip_that_is_full_again_has_held_nearly_as_much() {
        let mut refusals = Refusals::default();
        assert!(refusals.full_with(0, 6).is_err());
        assert!(refusals.full_with(60, 6).is_ok() && refusals.full_with(8, 6).is_ok());
        let fault = refusals.full_with(7, 6).unwrap_err();
        assert_eq!(fault.what, "full with 7 records, though 60 were held before");
    }

    #[test]
    fn a_removal_ends_a_row_of_refusals_but_none_of_writes() {
        let mut refusals = Refusals::default();
        [HostOp::Put(1), HostOp::Remove(2)].iter().for_each(|op| refusals.count(op));
        assert_eq!((refusals.in_row, refusals.writes_in_row), (2, 1));
        refusals.end(&HostOp::Remove(2));
        assert_eq!((refusals.in_row, refusals.writes_in_row), (0, 1));
        refusals.end(&HostOp::Put(1));
        assert_eq!(refusals.writes_in_row, 0);
    }
}

//! An ordered index as the subject of a run: every answer is compared with the [`Model`].

use super::meter::Done;
use super::session::Desk;
use super::subject::{At, PhaseOf, SYNC, Subject};
use super::{Failure, Job};
use crate::forest::Forest;
use crate::keys::Trees;
use crate::model::Model;
use crate::registry::{Holds, Waiver};
use crate::workload::{Op, OpKind};
use nandex::nand::Nand;
use nandex::nand::sim::SimChip;
use nandex::ordered::{Direction, Durability, IndexStats, OrderedIndex};
use nandex::{CheckReport, IndexError, Shared};
use nandex_stacks::lengths::Lengths;
use nandex_stacks::options::wrappers::lengths;
use std::collections::BTreeSet;
use std::ops::{Bound, ControlFlow, Range};

pub(crate) struct Records<'a> {
    job: &'a Job<'a>,
    chip: Option<Shared<SimChip>>,
    index: Box<dyn OrderedIndex>,
    model: Model,
    buffers: Buffers,
    /// The lengths of values, if they differ.
    lengths: Option<Lengths>,
    verify: bool,
    /// Whether insertions and removals return whether the key existed.
    updates_answer: bool,
}

struct Buffers {
    key: Vec<u8>,
    bound: Vec<u8>,
    value: Vec<u8>,
    expected: Vec<u8>,
    /// Keys and values that a range visited, one record after the other.
    visited: Vec<u8>,
}

/// One operation of a kind that writes nothing, for booking.
fn one(kind: OpKind) -> Done {
    Done { kind: kind.name(), operations: 1, written: 0 }
}

impl Subject for Records<'_> {
    fn phases(&self) -> usize {
        self.job.prepared.workload.phases.len()
    }

    fn phase(&self, place: usize) -> PhaseOf<'_> {
        let phase = &self.job.prepared.workload.phases[place];
        PhaseOf {
            name: &phase.name,
            measured: phase.measured,
            is_bulk: phase.is_sorted,
            operations: phase.ops.len(),
        }
    }

    fn changes(&self, at: At) -> bool {
        self.op(at).kind.changes()
    }

    fn describe(&self, at: At) -> String {
        let op = self.op(at);
        let tree = if op.tree == 0 { String::new() } else { format!(" of index {}", op.tree) };
        match op.kind {
            OpKind::Sync => String::from("sync"),
            kind => format!("{}, key {}{tree}", kind.name(), op.key),
        }
    }

    fn apply(&mut self, desk: &mut Desk<'_>, at: At) -> Result<(), Failure> {
        let (op, slot) = (*self.op(at), self.job.prepared.slots[at.phase][at.op]);
        match op.kind {
            OpKind::Get => self.get(desk, slot),
            OpKind::Insert | OpKind::Update => self.write(desk, op.kind, slot),
            OpKind::Remove => self.remove(desk, slot),
            OpKind::Range => self.range(desk, &op, slot, Direction::Ascending),
            OpKind::RangeDown => self.range(desk, &op, slot, Direction::Descending),
            OpKind::Sync => self.sync(desk),
        }
    }

    fn load(&mut self, desk: &mut Desk<'_>, phase: usize) -> Result<u64, Failure> {
        let ops = &self.job.prepared.workload.phases[phase].ops;
        if self.model.records() > 0 || ops.iter().any(|op| op.kind != OpKind::Insert) {
            let what = "sorted records are for an empty index, and insertions only";
            return Err(Failure::Refused(what.to_string()));
        }
        let mut slots = self.job.prepared.slots[phase].clone();
        slots.sort_unstable();
        let (key_bytes, value_bytes) = (self.buffers.key.len(), self.buffers.value.len());
        let mut bytes = Vec::with_capacity(slots.len() * (key_bytes + value_bytes));
        let mut written = 0;
        for &slot in &slots {
            self.job.prepared.keys.encode(slot, &mut self.buffers.key);
            self.model.next_value(slot, &mut self.buffers.value);
            self.model.write(slot);
            written += self.record_bytes();
            bytes.extend_from_slice(&self.buffers.key);
            bytes.extend_from_slice(&self.buffers.value);
        }
        let done = Done { operations: slots.len() as u64, written, ..one(OpKind::Insert) };
        let records = bytes.chunks_exact(key_bytes + value_bytes);
        let index = &mut self.index;
        desk.call(done, || index.load(&mut records.map(|record| record.split_at(key_bytes))))
    }

    fn sync(&mut self, desk: &mut Desk<'_>) -> Result<(), Failure> {
        desk.call(SYNC, || self.index.sync())
    }

    fn phase_done(&mut self, _: usize) -> Result<(), Failure> {
        if self.job.index.holds == Holds::Readings && self.index.stats().collections > 0 {
            let what = "the ring is full, its oldest readings were given up: take fewer or a larger chip";
            return Err(Failure::Refused(what.to_string()));
        }
        Ok(())
    }

    fn stats(&self) -> IndexStats {
        self.index.stats()
    }

    fn durability(&self) -> Durability {
        self.index.durability()
    }

    fn ram_bytes(&self) -> usize {
        self.index.ram_bytes()
    }

    fn ram_given(&self) -> Option<usize> {
        let settings = &self.job.settings;
        settings.ram_bytes.filter(|_| !self.job.index.waives(Waiver::RamBound, &settings.options))
    }

    fn check(&mut self) -> Result<CheckReport, IndexError> {
        self.index.check()
    }

    fn records(&self) -> u64 {
        self.model.records()
    }

    fn noun(&self) -> &'static str {
        "records"
    }
}

impl<'a> Records<'a> {
    /// The reason why the index cannot take the first phase, if that only inserts: it says itself that it
    /// holds fewer records on this chip in this RAM.
    pub(super) fn too_many(&self) -> Option<Failure> {
        let most = self.index.records_max().filter(|_| self.job.index.holds == Holds::Records)?;
        let prepared = self.job.prepared;
        let (phase, slots) = (prepared.workload.phases.first()?, prepared.slots.first()?);
        if phase.ops.iter().any(|op| !matches!(op.kind, OpKind::Insert | OpKind::Sync)) {
            return None;
        }
        let inserted = phase.ops.iter().zip(slots).filter(|(op, _)| op.kind == OpKind::Insert);
        let records = inserted.map(|(_, slot)| slot).collect::<BTreeSet<_>>().len() as u64;
        let why = format!("it holds {most} records at most here, and phase {} inserts {records}", phase.name);
        (records > most).then_some(Failure::Refused(why))
    }

    pub(super) fn open(
        job: &'a Job<'a>,
        nand: Box<dyn Nand>,
        chip: Option<Shared<SimChip>>,
    ) -> Result<Records<'a>, IndexError> {
        let index = format(job, nand)?;
        let record = index.record();
        let (key, value) = (vec![0; record.key_bytes.into()], vec![0; record.value_bytes.into()]);
        let buffers =
            Buffers { bound: key.clone(), key, expected: value.clone(), value, visited: Vec::new() };
        Ok(Records {
            model: Model::of(job.prepared.keys.len(), job.prepared.workload.values),
            lengths: lengths_of(job)?,
            updates_answer: !job.index.waives(Waiver::UpdateAnswers, &job.settings.options),
            verify: job.options.verify,
            job,
            chip,
            index,
            buffers,
        })
    }

    /// Drops the index and returns the chip. An index without durability is closed first, since it promises
    /// nothing otherwise.
    pub(super) fn end(mut self) -> Result<Option<Shared<SimChip>>, IndexError> {
        if self.index.durability() == Durability::None {
            self.index.close()?;
        }
        Ok(self.chip)
    }

    /// Size in bytes of the record whose value is in the buffer.
    fn record_bytes(&self) -> u64 {
        let Buffers { key, value, .. } = &self.buffers;
        (key.len() + self.lengths.map_or(value.len(), |lengths| lengths.of(value))) as u64
    }

    fn op(&self, at: At) -> &'a Op {
        &self.job.prepared.workload.phases[at.phase].ops[at.op]
    }

    fn get(&mut self, desk: &mut Desk<'_>, slot: u32) -> Result<(), Failure> {
        self.job.prepared.keys.encode(slot, &mut self.buffers.key);
        let Records { index, buffers: b, .. } = self;
        let found = desk.call(one(OpKind::Get), || index.get(&b.key, &mut b.value))?;
        self.expect_presence(slot, found)?;
        if found && self.verify {
            self.model.value(slot, &mut self.buffers.expected);
            let (got, expected) = (&self.buffers.value, &self.buffers.expected);
            if got != expected {
                return Err(Failure::WrongAnswer(format!("the value is {got:02x?}, not {expected:02x?}")));
            }
        }
        Ok(())
    }

    fn write(&mut self, desk: &mut Desk<'_>, kind: OpKind, slot: u32) -> Result<(), Failure> {
        self.job.prepared.keys.encode(slot, &mut self.buffers.key);
        self.model.next_value(slot, &mut self.buffers.value);
        let done = Done { written: self.record_bytes(), ..one(kind) };
        let Records { index, buffers: b, .. } = self;
        let existed = desk.call(done, || index.insert(&b.key, &b.value))?;
        let expected = self.expect_existed(slot, existed);
        self.model.write(slot);
        expected
    }

    fn remove(&mut self, desk: &mut Desk<'_>, slot: u32) -> Result<(), Failure> {
        self.job.prepared.keys.encode(slot, &mut self.buffers.key);
        self.model.value(slot, &mut self.buffers.value);
        let done = Done { written: self.record_bytes(), ..one(OpKind::Remove) };
        let Records { index, buffers: b, .. } = self;
        let existed = desk.call(done, || index.remove(&b.key))?;
        let expected = self.expect_existed(slot, existed);
        self.model.remove(slot);
        expected
    }

    /// Compares the answer of an insertion or removal with the model, if the index returns one.
    fn expect_existed(&self, slot: u32, said: bool) -> Result<(), Failure> {
        if self.updates_answer { self.expect_presence(slot, said) } else { Ok(()) }
    }

    fn expect_presence(&self, slot: u32, said: bool) -> Result<(), Failure> {
        let present = self.model.contains(slot);
        if said == present || !self.verify {
            return Ok(());
        }
        let word = |present| if present { "present" } else { "absent" };
        Err(Failure::WrongAnswer(format!("the key is said to be {}, but is {}", word(said), word(present))))
    }

    /// Visits `op.count` records from the key on, within the tree of the key.
    fn range(
        &mut self,
        desk: &mut Desk<'_>,
        op: &Op,
        slot: u32,
        direction: Direction,
    ) -> Result<(), Failure> {
        let keys = &self.job.prepared.keys;
        let tree = keys.tree_of(slot);
        let span = match direction {
            Direction::Ascending => slot..tree.end,
            Direction::Descending => tree.start..slot + 1,
        };
        keys.encode(span.start, &mut self.buffers.key);
        keys.encode(span.end - 1, &mut self.buffers.bound);
        let count = op.count;
        let Records { index, buffers, .. } = self;
        let visits = desk.call(one(op.kind), || {
            let Buffers { key, bound, visited, .. } = buffers;
            visited.clear();
            let mut visits = 0;
            let visit = &mut |key: &[u8], value: &[u8]| {
                visited.extend_from_slice(key);
                visited.extend_from_slice(value);
                visits += 1;
                if visits < count { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            };
            index.range(Bound::Included(key), Bound::Included(bound), direction, visit)?;
            Ok(visits)
        })?;
        if self.verify { self.expect_visits(span, direction, (visits, count)) } else { Ok(()) }
    }

    fn expect_visits(
        &mut self,
        mut span: Range<u32>,
        direction: Direction,
        (visits, count): (u32, u32),
    ) -> Result<(), Failure> {
        let Buffers { key, expected, visited, .. } = &mut self.buffers;
        let entry_bytes = key.len() + expected.len();
        let mut records = visited.chunks_exact(entry_bytes);
        for number in 1..=count {
            let next = match direction {
                Direction::Ascending => self.model.first_in(span.clone()),
                Direction::Descending => self.model.last_in(span.clone()),
            };
            let (slot, got) = match (next, records.next()) {
                (None, None) => return Ok(()),
                (Some(slot), Some(got)) => (slot, got),
                (None, Some(_)) => {
                    return Err(Failure::WrongAnswer(format!("record {number} of the range is made up")));
                }
                (Some(_), None) => {
                    return Err(Failure::WrongAnswer(format!("the range ends after {visits} records")));
                }
            };
            self.job.prepared.keys.encode(slot, key);
            self.model.value(slot, expected);
            if got[..key.len()] != key[..] || got[key.len()..] != expected[..] {
                let what =
                    format!("record {number} of the range is {got:02x?}, not {key:02x?} {expected:02x?}");
                return Err(Failure::WrongAnswer(what));
            }
            match direction {
                Direction::Ascending => span.start = slot + 1,
                Direction::Descending => span.end = slot,
            }
        }
        if records.next().is_some() {
            return Err(Failure::WrongAnswer(format!("the range went on after {count} records")));
        }
        Ok(())
    }
}

/// The lengths of the values of a job; `None` if its index takes only one length.
pub(super) fn lengths_of(job: &Job<'_>) -> Result<Option<Lengths>, IndexError> {
    if job.index.holds.any_length() { Ok(lengths(&job.settings.options)?) } else { Ok(None) }
}

/// Makes the index, or a forest of it if each index of the workload is a tree of its own.
pub(super) fn format(job: &Job<'_>, nand: Box<dyn Nand>) -> Result<Box<dyn OrderedIndex>, IndexError> {
    let keys = &job.prepared.keys;
    match (keys.trees(), job.index.forest) {
        (Trees::One, _) => (job.index.format)(nand, &job.settings),
        (Trees::PerIndex, Some(forest)) => {
            Ok(Box::new(Forest::new(forest(nand, &job.settings, &keys.shares())?)?))
        }
        (Trees::PerIndex, None) => Err(IndexError::Unsupported(
            format!(
                "{} owns the whole chip, several cannot share one; run the workload as one tree",
                job.index.name
            )
            .into(),
        )),
    }
}

//! A run under way: calls the index, books the cost, compares the answer with the model.

use super::chip::TimedChip;
use super::meter::{Done, Meter, Reading, by_name, ratio};
use super::pattern::PatternChip;
use super::{Control, Job, RunOptions};
use crate::forest::Forest;
use crate::keys::Trees;
use crate::model::Model;
use crate::results::{PatternCounts, Run};
use crate::workload::{Op, OpKind};
use nandex::IndexError;
use nandex::Shared;
use nandex::nand::Nand;
use nandex::nand::sim::SimChip;
use nandex::ordered::{Direction, Durability, OrderedIndex};
use std::ops::{Bound, ControlFlow, Range};
use std::time::Instant;

/// Why the run ends, in words.
pub(super) type Failure = String;

/// Operations between two reports to the control.
const REPORT_INTERVAL: u64 = 256;

pub(super) struct Session<'a> {
    job: &'a Job<'a>,
    control: &'a Control,
    chip: Shared<SimChip>,
    /// Time spent simulating the chip.
    chip_ns: Shared<u64>,
    /// How the chip is read and programmed, where that is told.
    patterns: Option<Shared<PatternCounts>>,
    /// Erases of each block by the format.
    format_wear: Vec<u32>,
    index: Box<dyn OrderedIndex>,
    model: Model,
    meter: Meter,
    buffers: Buffers,
    /// Whether insertions and removals answer if the key existed; a tree told `answers=pool` answers what its pool knows.
    updates_answer: bool,
    /// Operations reported to the control.
    reported: u64,
}

/// Room for keys and values.
struct Buffers {
    key: Vec<u8>,
    bound: Vec<u8>,
    value: Vec<u8>,
    expected: Vec<u8>,
    /// Keys and values that a range visited, one record after the other.
    visited: Vec<u8>,
}

impl<'a> Session<'a> {
    /// Formats the index on a fresh chip.
    pub(super) fn open(job: &'a Job<'a>, control: &'a Control) -> Result<Session<'a>, Failure> {
        job.index.check_options(&job.settings.options).map_err(|e| e.to_string())?;
        let chip = SimChip::new(job.part).map_err(|e| e.to_string())?;
        let chip = Shared::new(chip);
        let chip_ns = Shared::new(0);
        let nand: Box<dyn Nand> = if job.options.cpu_time {
            Box::new(TimedChip::new(chip.clone(), chip_ns.clone()))
        } else {
            Box::new(chip.clone())
        };
        let patterns = job.options.patterns.then(Shared::default);
        let nand: Box<dyn Nand> = match &patterns {
            Some(counts) => Box::new(PatternChip::new(nand, counts.clone())),
            None => nand,
        };
        let index = format(job, nand).map_err(|e| e.to_string())?;
        let record = index.record();
        let (key, value) = (vec![0; record.key_bytes.into()], vec![0; record.value_bytes.into()]);
        let page_bytes = job.part.geometry.page_bytes.into();
        let meter =
            Meter::new(Reading::of(&chip.lock()), page_bytes, job.settings.record.entry_bytes() as u64);
        let format_wear = chip.lock().wear().to_vec();
        let buffers =
            Buffers { bound: key.clone(), key, expected: value.clone(), value, visited: Vec::new() };
        Ok(Session {
            model: Model::new(job.prepared.keys.len()),
            updates_answer: job.settings.options.text("answers") != Some("pool"),
            reported: 0,
            job,
            control,
            chip,
            chip_ns,
            patterns,
            format_wear,
            index,
            meter,
            buffers,
        })
    }

    /// Operations reported to the control so far.
    pub(super) fn reported(&self) -> u64 {
        self.reported
    }

    /// Runs every phase until something fails.
    pub(super) fn run_phases(&mut self, result: &mut Run) -> Result<(), Failure> {
        let prepared = self.job.prepared;
        let last = prepared.workload.phases.len().saturating_sub(1);
        for (place, (phase, slots)) in prepared.workload.phases.iter().zip(&prepared.slots).enumerate() {
            self.meter.start_phase(phase.ops.len(), self.index.stats());
            let before = self.patterns.as_ref().map(|counts| *counts.lock());
            let mut outcome =
                if phase.is_sorted { self.load(&phase.ops, slots) } else { self.run_ops(&phase.ops, slots) };
            let delays = self.index.durability() != Durability::EveryOperation;
            let RunOptions { sync_after_load, sync_at_end, .. } = self.job.options;
            let is_due = (sync_at_end && place == last) || (sync_after_load && !phase.measured);
            if is_due && outcome.is_ok() && delays {
                outcome = self.sync().map_err(|why| format!("the sync at the end: {why}"));
            }
            let mut done = self.meter.end_phase((&phase.name, phase.measured), &self.index.stats());
            done.patterns = before.zip(self.patterns.as_ref()).map(|(then, now)| now.lock().since(&then));
            result.phases.push(done);
            result.ram_bytes = result.ram_bytes.max(self.index.ram_bytes() as u64);
            outcome.map_err(|why| format!("phase {}, {why}", phase.name))?;
        }
        Ok(())
    }

    fn run_ops(&mut self, ops: &[Op], slots: &[u32]) -> Result<(), Failure> {
        let mut unsynced = 0u64;
        for (i, (op, &slot)) in ops.iter().zip(slots).enumerate() {
            let number = i as u64 + 1;
            if self.control.is_cancelled() {
                return Err(format!("operation {number}: cancelled"));
            }
            self.apply(op, slot).map_err(|why| describe(number, op, &why))?;
            unsynced += u64::from(op.kind.changes());
            if self.job.options.sync_every.is_some_and(|every| unsynced >= every.max(1)) {
                unsynced = 0;
                self.sync().map_err(|why| describe(number, op, &format!("the sync after it: {why}")))?;
            }
            if number.is_multiple_of(REPORT_INTERVAL) {
                self.control.add_done(REPORT_INTERVAL);
                self.reported += REPORT_INTERVAL;
            }
        }
        Ok(())
    }

    /// Hands all insertions of a phase over at once, in key order.
    fn load(&mut self, ops: &[Op], slots: &[u32]) -> Result<(), Failure> {
        if self.model.records() > 0 || ops.iter().any(|op| op.kind != OpKind::Insert) {
            return Err("sorted records are for an empty index, and insertions only".to_string());
        }
        let mut slots = slots.to_vec();
        slots.sort_unstable();
        let (key_bytes, value_bytes) = (self.buffers.key.len(), self.buffers.value.len());
        let mut bytes = Vec::with_capacity(slots.len() * (key_bytes + value_bytes));
        for &slot in &slots {
            self.job.prepared.keys.encode(slot, &mut self.buffers.key);
            self.model.next_value(slot, &mut self.buffers.value);
            self.model.write(slot);
            bytes.extend_from_slice(&self.buffers.key);
            bytes.extend_from_slice(&self.buffers.value);
        }
        let count = slots.len() as u64;
        let loaded = self.call_many((OpKind::Insert, count), |index, _| {
            index.load(
                &mut bytes.chunks_exact(key_bytes + value_bytes).map(|record| record.split_at(key_bytes)),
            )
        })?;
        self.control.add_done(count);
        self.reported += count;
        if loaded == count { Ok(()) } else { Err(format!("{loaded} of {count} sorted records were loaded")) }
    }

    fn apply(&mut self, op: &Op, slot: u32) -> Result<(), Failure> {
        match op.kind {
            OpKind::Get => self.get(slot),
            OpKind::Insert | OpKind::Update => self.write(op.kind, slot),
            OpKind::Remove => self.remove(slot),
            OpKind::Range => self.range(op, slot, Direction::Ascending),
            OpKind::RangeDown => self.range(op, slot, Direction::Descending),
            OpKind::Sync => self.sync(),
        }
    }

    /// Calls the index for one operation.
    fn call<T>(
        &mut self,
        kind: OpKind,
        call: impl FnOnce(&mut dyn OrderedIndex, &mut Buffers) -> Result<T, IndexError>,
    ) -> Result<T, Failure> {
        self.call_many((kind, 1), call)
    }

    /// Calls the index and books what that cost, whether it succeeds or not.
    fn call_many<T>(
        &mut self,
        (kind, operations): (OpKind, u64),
        call: impl FnOnce(&mut dyn OrderedIndex, &mut Buffers) -> Result<T, IndexError>,
    ) -> Result<T, Failure> {
        let answer;
        let mut cpu_ns = 0;
        if self.job.options.cpu_time {
            let (in_chip, start) = (*self.chip_ns.lock(), Instant::now());
            answer = call(&mut *self.index, &mut self.buffers);
            let elapsed = start.elapsed().as_nanos() as u64;
            cpu_ns = elapsed.saturating_sub(*self.chip_ns.lock() - in_chip);
        } else {
            answer = call(&mut *self.index, &mut self.buffers);
        }
        let done = Done { kind: kind.name(), operations, changes: kind.changes() };
        self.meter.book(done, Reading::of(&self.chip.lock()), cpu_ns);
        answer.map_err(|error| error.to_string())
    }

    fn get(&mut self, slot: u32) -> Result<(), Failure> {
        self.job.prepared.keys.encode(slot, &mut self.buffers.key);
        let found = self.call(OpKind::Get, |index, b| index.get(&b.key, &mut b.value))?;
        self.expect_presence(slot, found)?;
        if found && self.job.options.verify {
            self.model.value(slot, &mut self.buffers.expected);
            let (got, expected) = (&self.buffers.value, &self.buffers.expected);
            if got != expected {
                return Err(format!("wrong answer: the value is {got:02x?}, not {expected:02x?}"));
            }
        }
        Ok(())
    }

    fn write(&mut self, kind: OpKind, slot: u32) -> Result<(), Failure> {
        self.job.prepared.keys.encode(slot, &mut self.buffers.key);
        self.model.next_value(slot, &mut self.buffers.value);
        let existed = self.call(kind, |index, b| index.insert(&b.key, &b.value))?;
        let expected = self.expect_existed(slot, existed);
        self.model.write(slot);
        expected
    }

    fn remove(&mut self, slot: u32) -> Result<(), Failure> {
        self.job.prepared.keys.encode(slot, &mut self.buffers.key);
        let existed = self.call(OpKind::Remove, |index, b| index.remove(&b.key))?;
        let expected = self.expect_existed(slot, existed);
        self.model.remove(slot);
        expected
    }

    fn sync(&mut self) -> Result<(), Failure> {
        self.call(OpKind::Sync, |index, _| index.sync())
    }

    /// What an insertion or removal says of its key, where it is asked to know.
    fn expect_existed(&self, slot: u32, said: bool) -> Result<(), Failure> {
        if self.updates_answer { self.expect_presence(slot, said) } else { Ok(()) }
    }

    fn expect_presence(&self, slot: u32, said: bool) -> Result<(), Failure> {
        let present = self.model.contains(slot);
        if said == present || !self.job.options.verify {
            return Ok(());
        }
        let word = |present| if present { "present" } else { "absent" };
        Err(format!("wrong answer: the key is said to be {}, but is {}", word(said), word(present)))
    }

    /// Visits `op.count` records from the key on, within the tree the key belongs to.
    fn range(&mut self, op: &Op, slot: u32, direction: Direction) -> Result<(), Failure> {
        let keys = &self.job.prepared.keys;
        let tree = keys.tree_of(slot);
        let span = match direction {
            Direction::Ascending => slot..tree.end,
            Direction::Descending => tree.start..slot + 1,
        };
        keys.encode(span.start, &mut self.buffers.key);
        keys.encode(span.end - 1, &mut self.buffers.bound);
        let count = op.count;
        let visits = self.call(op.kind, |index, b| {
            let Buffers { key, bound, visited, .. } = b;
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
        if self.job.options.verify { self.expect_visits(span, direction, (visits, count)) } else { Ok(()) }
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
                    return Err(format!("wrong answer: record {number} of the range is made up"));
                }
                (Some(_), None) => {
                    return Err(format!("wrong answer: the range ends after {visits} records"));
                }
            };
            self.job.prepared.keys.encode(slot, key);
            self.model.value(slot, expected);
            if got[..key.len()] != key[..] || got[key.len()..] != expected[..] {
                return Err(format!(
                    "wrong answer: record {number} of the range is {got:02x?}, not {key:02x?} {expected:02x?}"
                ));
            }
            match direction {
                Direction::Ascending => span.start = slot + 1,
                Direction::Descending => span.end = slot,
            }
        }
        if records.next().is_some() {
            return Err(format!("wrong answer: the range went on after {count} records"));
        }
        Ok(())
    }

    /// Figures of the whole run.
    pub(super) fn finish(&mut self, result: &mut Run) {
        let stats = self.index.stats();
        let record_bytes = self.model.records() * self.job.settings.record.entry_bytes() as u64;
        let page_bytes = u64::from(self.job.part.geometry.page_bytes);
        result.durability = self.index.durability().name().to_string();
        result.ram_bytes = result.ram_bytes.max(self.index.ram_bytes() as u64);
        result.height = stats.height;
        result.records = self.model.records();
        result.live_pages = stats.live_pages;
        result.space_amplification = ratio(stats.live_pages * page_bytes, record_bytes);
        result.metrics = by_name(&stats);
        let chip = self.chip.lock();
        let wear = chip.wear().iter().zip(&self.format_wear);
        result.wear_erases = wear.map(|(now, then)| now - then).collect();
    }

    /// The index's own check, the number of its records, and the RAM it was given; returns the nodes visited.
    pub(super) fn check(&mut self, ram_bytes: u64) -> Result<u64, Failure> {
        // A budget that counts records only, as papers do, is less than what is held.
        let counts_all =
            ["pool_count", "ram"].iter().all(|name| self.job.settings.options.text(name) != Some("record"));
        let given = self.job.settings.ram_bytes.filter(|_| counts_all);
        if let Some(given) = given.filter(|&given| ram_bytes > given as u64) {
            return Err(format!("held {ram_bytes} bytes of RAM, more than the {given} it was given"));
        }
        if !self.job.options.check {
            return Ok(0);
        }
        let report = self.index.check().map_err(|error| format!("the check at the end failed: {error}"))?;
        if let Some(first) = report.violations.first() {
            let more = report.violations.len() - 1;
            let (invariant, at, found) = (first.invariant, first.at, &first.found);
            return Err(format!(
                "the check at the end found {invariant} broken at {at}: {found} ({more} more)"
            ));
        }
        if report.records != self.model.records() {
            let (found, expected) = (report.records, self.model.records());
            return Err(format!("the check at the end found {found} records, not {expected}"));
        }
        Ok(report.nodes)
    }
}

/// Makes the index, or a forest of it where each index of the workload is to be a tree of its own.
fn format(job: &Job<'_>, nand: Box<dyn Nand>) -> Result<Box<dyn OrderedIndex>, IndexError> {
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

fn describe(number: u64, op: &Op, why: &str) -> Failure {
    let tree = if op.tree == 0 { String::new() } else { format!(" of index {}", op.tree) };
    match op.kind {
        OpKind::Sync => format!("operation {number} (sync): {why}"),
        kind => format!("operation {number} ({}, key {}{tree}): {why}", kind.name(), op.key),
    }
}

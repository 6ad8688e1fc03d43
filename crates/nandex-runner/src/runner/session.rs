//! A run in progress: drives a subject through its phases, books the cost of each operation, and checks the
//! index at the end.

use super::medium::Device;
use super::meter::{Done, Meter, by_name, ratio};
use super::progress::Progress;
use super::stopwatch::thread_ns;
use super::subject::{At, Subject};
use super::{Control, Failure, RunOptions};
use crate::results::Run;
use nandex::IndexError;
use nandex::ordered::Durability;

/// State of a run: options, device and meter. It does the operations and books their costs.
pub(crate) struct Desk<'a> {
    pub(crate) options: RunOptions,
    device: Device,
    meter: Meter,
    progress: Progress<'a>,
}

impl Desk<'_> {
    /// Calls the index and books the costs of the call, even if it fails.
    pub(crate) fn call<T>(
        &mut self,
        done: Done,
        call: impl FnOnce() -> Result<T, IndexError>,
    ) -> Result<T, Failure> {
        let answer;
        let mut cpu_ns = 0;
        if self.options.cpu_time {
            let (in_device, start) = (self.device.spent_ns(), thread_ns());
            answer = call();
            let elapsed = thread_ns() - start;
            cpu_ns = elapsed.saturating_sub(self.device.spent_ns() - in_device);
        } else {
            answer = call();
        }
        self.meter.book(done, self.device.reading(), cpu_ns);
        Ok(answer?)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) page_bytes: u64,
    pub(crate) record_bytes: u64,
}

/// A run to do, whose subject is not open yet.
pub(crate) trait Task {
    /// The type of the open subject.
    type Subject<'s>: Subject
    where
        Self: 's;

    /// The results before anything is measured: names of the index and of the storage.
    fn row(&self) -> Run;

    /// Number of operations of all phases.
    fn operations(&self) -> u64;

    fn options(&self) -> RunOptions;

    fn sizes(&self) -> Sizes;

    /// Formats the subject on a new medium.
    fn open(&self) -> Result<(Device, Self::Subject<'_>), Failure>;
}

/// Does a run. A failure is stored in [`Run::error`], next to the figures until then. Also returns the
/// subject if it could be opened.
pub(crate) fn carry_out<'t, T: Task>(task: &'t T, control: &Control) -> (Run, Option<T::Subject<'t>>) {
    let (mut result, planned) = (task.row(), task.operations());
    let (subject, outcome) = match task.open() {
        Ok((device, subject)) => {
            let session = Session::new(subject, device, task.sizes(), task.options(), control);
            let (subject, outcome) = session.run(&mut result, planned);
            (Some(subject), outcome)
        }
        Err(why) => {
            control.add_done(planned);
            (None, Err(why))
        }
    };
    result.error = outcome.err().map(|why| why.to_string());
    (result, subject)
}

struct Session<'a, S> {
    subject: S,
    desk: Desk<'a>,
    sizes: Sizes,
    /// Erases of each block by the format, which do not count in the run.
    format_wear: Vec<u32>,
}

impl<'a, S: Subject> Session<'a, S> {
    /// Begins a run of a subject that is formatted on the device.
    fn new(
        subject: S,
        device: Device,
        sizes: Sizes,
        options: RunOptions,
        control: &'a Control,
    ) -> Session<'a, S> {
        let meter = Meter::new(device.reading(), sizes.page_bytes);
        let format_wear = device.wear();
        let desk = Desk { options, device, meter, progress: Progress::new(control) };
        Session { subject, desk, sizes, format_wear }
    }

    /// Runs every phase and then the check, until something fails. `result` holds the figures until then.
    fn run(mut self, result: &mut Run, planned: u64) -> (S, Result<(), Failure>) {
        let phases = self.run_phases(result);
        self.finish(result);
        let outcome = phases.and_then(|()| self.check(result));
        self.desk.progress.end(planned);
        (self.subject, outcome)
    }

    fn run_phases(&mut self, result: &mut Run) -> Result<(), Failure> {
        let phases = self.subject.phases();
        for place in 0..phases {
            let phase = self.subject.phase(place);
            let (name, measured) = (phase.name.to_string(), phase.measured);
            let (operations, is_bulk) = (phase.operations, phase.is_bulk);
            self.desk.meter.start_phase(operations, self.subject.stats());
            let before = self.desk.device.patterns();
            let mut outcome = if is_bulk { self.load(place) } else { self.run_ops(place, operations) };
            let delays = self.subject.durability() != Durability::EveryOperation;
            let RunOptions { sync_after_load, sync_at_end, .. } = self.desk.options;
            let is_due = (sync_at_end && place + 1 == phases) || (sync_after_load && !measured);
            if is_due && outcome.is_ok() && delays {
                outcome = self.subject.sync(&mut self.desk).map_err(|why| why.at("the sync at the end: "));
            }
            let mut done = self.desk.meter.end_phase(&name, measured, &self.subject.stats());
            done.patterns = before.zip(self.desk.device.patterns()).map(|(then, now)| now.since(&then));
            result.phases.push(done);
            result.ram_bytes = result.ram_bytes.max(self.subject.ram_bytes() as u64);
            outcome.map_err(|why| why.at(format!("phase {name}, ")))?;
            self.subject.phase_done(place)?;
        }
        Ok(())
    }

    fn run_ops(&mut self, phase: usize, operations: usize) -> Result<(), Failure> {
        let mut unsynced = 0u64;
        for op in 0..operations {
            let (at, number) = (At { phase, op }, op + 1);
            self.desk.progress.go_on().map_err(|why| why.at(format!("operation {number}: ")))?;
            if let Err(why) = self.subject.apply(&mut self.desk, at) {
                return Err(self.at_operation(at, why));
            }
            unsynced += u64::from(self.subject.changes(at));
            if self.desk.options.sync_every.is_some_and(|every| unsynced >= every.max(1)) {
                unsynced = 0;
                let synced = self.subject.sync(&mut self.desk);
                synced.map_err(|why| self.at_operation(at, why.at("the sync after it: ")))?;
            }
            self.desk.progress.step();
        }
        Ok(())
    }

    fn at_operation(&self, at: At, why: Failure) -> Failure {
        why.at(format!("operation {} ({}): ", at.op + 1, self.subject.describe(at)))
    }

    fn load(&mut self, phase: usize) -> Result<(), Failure> {
        let count = self.subject.phase(phase).operations as u64;
        let loaded = self.subject.load(&mut self.desk, phase)?;
        self.desk.progress.leap(count);
        if loaded == count {
            return Ok(());
        }
        Err(Failure::Broken(format!("{loaded} of {count} sorted {} were loaded", self.subject.noun())))
    }

    fn finish(&mut self, result: &mut Run) {
        let (stats, records) = (self.subject.stats(), self.subject.records());
        result.durability = self.subject.durability().name().to_string();
        result.ram_bytes = result.ram_bytes.max(self.subject.ram_bytes() as u64);
        result.height = stats.height;
        result.records = records;
        result.live_pages = stats.live_pages;
        let Sizes { page_bytes, record_bytes } = self.sizes;
        result.space_amplification = ratio(stats.live_pages * page_bytes, records * record_bytes);
        result.metrics = by_name(&stats);
        let wear = self.desk.device.wear();
        result.wear_erases = wear.iter().zip(&self.format_wear).map(|(now, then)| now - then).collect();
    }

    /// Checks the RAM that the index was given, its invariants, and the number of its records.
    fn check(&mut self, result: &mut Run) -> Result<(), Failure> {
        let held = result.ram_bytes;
        if let Some(given) = self.subject.ram_given().filter(|&given| held > given as u64) {
            let what = format!("held {held} bytes of RAM, more than the {given} it was given");
            return Err(Failure::Broken(what));
        }
        if !self.desk.options.check {
            return Ok(());
        }
        let report = self.subject.check();
        let report = report.map_err(|e| Failure::from(e).at("the check at the end failed: "))?;
        if let Some(first) = report.violations.first() {
            let more = report.violations.len() - 1;
            let (invariant, at, found) = (first.invariant, first.at, &first.found);
            let what =
                format!("the check at the end found {invariant} broken at {at}: {found} ({more} more)");
            return Err(Failure::Broken(what));
        }
        let (found, expected, noun) = (report.records, self.subject.records(), self.subject.noun());
        if found != expected {
            let what = format!("the check at the end found {found} {noun}, not {expected}");
            return Err(Failure::Broken(what));
        }
        result.nodes = report.nodes;
        Ok(())
    }
}

//! Progress of a run, reported to a listener, which may also end the run.

use super::{Control, Failure};

/// Number of steps between two reports to the control.
const REPORT_INTERVAL: u64 = 256;

pub(crate) struct Progress<'a> {
    control: &'a Control,
    done: u64,
    reported: u64,
}

impl<'a> Progress<'a> {
    pub(crate) fn new(control: &'a Control) -> Progress<'a> {
        Progress { control, done: 0, reported: 0 }
    }

    /// Fails if the run is to stop.
    pub(crate) fn go_on(&self) -> Result<(), Failure> {
        if self.control.is_cancelled() { Err(Failure::Cancelled) } else { Ok(()) }
    }

    pub(crate) fn step(&mut self) {
        self.done += 1;
        if self.done.is_multiple_of(REPORT_INTERVAL) {
            self.report();
        }
    }

    /// Counts many steps at once.
    pub(crate) fn leap(&mut self, steps: u64) {
        self.done += steps;
        self.report();
    }

    fn report(&mut self) {
        self.control.add_done(self.done - self.reported);
        self.reported = self.done;
    }

    /// Ends the run. Steps of the `planned` ones that were skipped or not reported count as done.
    pub(crate) fn end(self, planned: u64) {
        self.control.add_done(planned - self.reported);
    }
}

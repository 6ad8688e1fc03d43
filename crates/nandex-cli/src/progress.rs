//! Progress on stderr when it is a terminal, and Ctrl-C, which lets the finished rows be written.

use anyhow::{Context, Result};
use console::Term;
use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use nandex_lab::compare::Watch;
use nandex_lab::results::Run;
use nandex_lab::runner::Control;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const BAR: &str = "{wide_bar} {human_pos}/{human_len} {msg}  {rate}  {eta} left";
/// The style of the bar while the number of operations is unknown.
const SPINNER: &str = "{spinner} {human_pos} operations  {rate}  {elapsed} so far";
const TICK: Duration = Duration::from_millis(100);

/// A bar over the operations of all runs.
pub(crate) struct Progress {
    bar: ProgressBar,
    control: Arc<Control>,
}

impl Progress {
    /// Makes a bar if stderr is a terminal; otherwise nothing is shown.
    pub(crate) fn new(control: Arc<Control>) -> Progress {
        let bar = match Term::stderr().is_term() {
            true => ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()),
            false => ProgressBar::hidden(),
        };
        set_style(&bar, SPINNER);
        Progress { bar, control }
    }

    /// Sets the total, and the name of the things counted.
    pub(crate) fn count(&self, total: u64, what: &'static str) {
        set_style(&self.bar, BAR);
        self.bar.set_length(total);
        self.bar.set_message(what);
    }

    /// Sets the number that are done.
    pub(crate) fn reach(&self, done: u64) {
        self.bar.set_position(done);
    }

    /// Whether no bar is shown.
    pub(crate) fn is_hidden(&self) -> bool {
        self.bar.is_hidden()
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// Prints a line for the user above the bar.
    pub(crate) fn tell(&self, text: &str) {
        match self.bar.is_hidden() {
            true => crate::output::tell(text),
            false => self.bar.println(text),
        }
    }

    /// Does the work while the bar follows the control.
    pub(crate) fn follow<T>(&self, work: impl FnOnce() -> T) -> T {
        if self.bar.is_hidden() {
            return work();
        }
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    if self.control.planned() > 0 {
                        self.bar.set_length(self.control.planned());
                    }
                    self.bar.set_position(self.control.done());
                    thread::sleep(TICK);
                }
            });
            let _end = SetWhenDropped(&over);
            let result = work();
            self.bar.finish_and_clear();
            result
        })
    }
}

fn set_style(bar: &ProgressBar, template: &str) {
    let rate = |state: &ProgressState, out: &mut dyn fmt::Write| {
        // A bar that cannot be drawn is no reason to stop.
        let _ = write!(out, "{}/s", HumanCount(state.per_sec() as u64));
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.with_key("rate", rate));
    }
}

impl Watch for Progress {
    fn start(&self, operations: u64) {
        self.count(operations, "operations");
    }

    fn finished(&self, run: &Run) {
        let how = run.error.as_deref().unwrap_or("done");
        self.bar.println(format!("{} on {}, seed {}: {how}", run.index, run.storage, run.seed));
    }
}

/// Ends the bar's thread even if the work panics.
struct SetWhenDropped<'a>(&'a AtomicBool);

impl Drop for SetWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Makes Ctrl-C stop the runs and keep their results until then. A second Ctrl-C ends the program.
pub(crate) fn stop_on_interrupt(control: &Arc<Control>) -> Result<()> {
    let control = Arc::clone(control);
    let handler = move || {
        if control.is_cancelled() {
            std::process::exit(130);
        }
        control.cancel();
    };
    ctrlc::set_handler(handler).context("cannot listen for Ctrl-C")
}

//! Runs the cells of a sweep that are not in the store.

use super::grid::Sweep;
use super::outcome::{Outcome, Status};
use super::request::Request;
use super::store::Store;
use crate::LabError;
use crate::parallel;
use crate::runner::Control;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// A part of a sweep for one of several machines: every `of`-th cell, beginning with the `number`-th.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Number of this part, from 1.
    pub number: usize,
    /// Number of parts.
    pub of: usize,
}

impl Shard {
    /// The whole sweep as one part.
    pub const WHOLE: Shard = Shard { number: 1, of: 1 };

    /// The cells of this part.
    pub fn cells(self, sweep: &Sweep) -> Vec<Request> {
        sweep.cells.iter().skip(self.number - 1).step_by(self.of).cloned().collect()
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let wrong = || format!("'{text}' is no part such as 2/8");
        let (number, of) = text.split_once('/').ok_or_else(wrong)?;
        match (number.parse(), of.parse()) {
            (Ok(number), Ok(of)) if (1..=of).contains(&number) => Ok(Shard { number, of }),
            _ => Err(wrong()),
        }
    }
}

/// How a sweep is run.
#[derive(Clone, Debug)]
pub struct SweepPlan {
    /// The part to run.
    pub shard: Shard,
    /// Whether cells may be in the store already. If not, such a sweep is refused.
    pub resume: bool,
    /// Whether failed cells run again.
    pub retry: bool,
    /// Number of cells that run at the same time.
    pub threads: usize,
    /// The commit of the program, for the results.
    pub commit: Option<String>,
}

/// The state at the end of a sweep.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// The known outcomes of the part, in the order of the cells.
    pub outcomes: Vec<Outcome>,
    /// Number of cells that were in the store.
    pub kept: usize,
    /// Number of cells that ran now.
    pub ran: usize,
    /// Number of cells that did not run because the sweep was stopped.
    pub left: usize,
    /// Number of cells in the store that another commit measured.
    pub of_other_commits: usize,
}

impl Tally {
    /// The cells that failed.
    pub fn failures(&self) -> impl Iterator<Item = &Outcome> {
        self.outcomes.iter().filter(|outcome| outcome.status == Status::Failed)
    }
}

/// An observer of a sweep, called from any thread.
pub trait Look: Sync {
    /// Called at the start with the number of cells to run.
    fn start(&self, cells: u64);

    /// Called after each cell with the number of finished cells and its outcome.
    fn finished(&self, done: u64, outcome: &Outcome);
}

/// Runs every cell of a part that is not in the store. A failed cell is an outcome; an error means that the
/// request or the store is wrong.
pub fn run(
    sweep: &Sweep,
    store: &Store,
    plan: &SweepPlan,
    control: &Control,
    look: &dyn Look,
) -> Result<Tally, LabError> {
    let cells = plan.shard.cells(sweep);
    let mut tally = Tally::default();
    let mut found = Vec::with_capacity(cells.len());
    for cell in &cells {
        let kept = store.find(cell)?;
        tally.kept += usize::from(kept.is_some());
        tally.of_other_commits += usize::from(kept.as_ref().is_some_and(|kept| kept.commit != plan.commit));
        found.push(kept.filter(|kept| !(plan.retry && kept.status == Status::Failed)));
    }
    if tally.kept > 0 && !plan.resume && !plan.retry {
        let reason = format!(
            "holds {} of the {} cells already; add --resume to go on from there",
            tally.kept,
            cells.len()
        );
        return Err(LabError::bad_option("--store", "the folder", reason));
    }
    let missing: Vec<usize> = (0..cells.len()).filter(|&place| found[place].is_none()).collect();
    look.start(missing.len() as u64);
    let done = AtomicU64::new(0);
    let broken: Mutex<Option<LabError>> = Mutex::new(None);
    let ran = parallel::map(&missing, plan.threads, |&place| {
        if control.is_cancelled() {
            return None;
        }
        let outcome = cells[place].run(plan.commit.as_deref(), control);
        let kept = outcome.and_then(|outcome| match control.is_cancelled() {
            // Cut short, it would look like a failure.
            true => Ok(None),
            false => store.put(&outcome).map(|()| Some(outcome)),
        });
        match kept {
            Ok(outcome) => {
                let count = done.fetch_add(1, Ordering::Relaxed) + 1;
                outcome.iter().for_each(|outcome| look.finished(count, outcome));
                outcome
            }
            Err(error) => {
                control.cancel();
                broken.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                None
            }
        }
    });
    if let Some(error) = broken.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    for (place, outcome) in missing.into_iter().zip(ran) {
        found[place] = outcome;
        tally.ran += usize::from(found[place].is_some());
    }
    tally.left = found.iter().filter(|outcome| outcome.is_none()).count();
    tally.outcomes = found.into_iter().flatten().collect();
    Ok(tally)
}

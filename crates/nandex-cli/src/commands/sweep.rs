//! `nandex sweep`: every combination of a grid's axes, kept in a folder.

use crate::Status;
use crate::output::{self, Target};
use crate::parquet;
use crate::progress::{Progress, stop_on_interrupt};
use crate::trace_args::Sweep as Args;
use anyhow::Result;
use nandex_lab::parallel;
use nandex_lab::runner::Control;
use nandex_lab::sweep::{self, Grid, Look, Outcome, Status as Ended, Store, Sweep, SweepPlan, Tally};
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Most failures to print; the table contains all of them.
const FAILURES_TOLD: usize = 10;

/// Time between two lines of progress if no terminal shows a bar.
const TELL_EVERY: Duration = Duration::from_secs(10);

pub(crate) fn run(args: &Args) -> Result<Status> {
    args.out.as_ref().map_or(Ok(()), prepare)?;
    let sweep = Grid::load(&args.grid)?.cells()?;
    let store = Store::open(&args.store)?;
    let plan = SweepPlan {
        shard: args.shard,
        resume: args.resume,
        retry: args.retry,
        threads: args.threads.map_or_else(parallel::cores, usize::from),
        commit: output::commit(),
    };
    if args.dry_run {
        return dry_run(&sweep, &store, &plan);
    }
    let control = Arc::new(Control::default());
    stop_on_interrupt(&control)?;
    let cells = Cells::new(Progress::new(Arc::clone(&control)));
    let tally = sweep::run(&sweep, &store, &plan, &control, &cells)?;
    cells.progress.finish();
    if let Some(out) = &args.out {
        let csv = |out: &mut dyn Write| sweep::write_csv(&tally.outcomes, out);
        out.write(|file| if parquet::is_wanted(out) { parquet::write(csv, file) } else { csv(file) })?;
    }
    tell(&tally);
    let is_whole = tally.left == 0 && tally.failures().next().is_none();
    Ok(if is_whole { Status::Done } else { Status::Bad })
}

/// Refuses a file that cannot be written before anything is measured.
fn prepare(out: &Target) -> Result<()> {
    if parquet::is_wanted(out) {
        parquet::prepare("--out")?;
    }
    out.prepare()
}

fn dry_run(sweep: &Sweep, store: &Store, plan: &SweepPlan) -> Result<Status> {
    let cells = plan.shard.cells(sweep);
    let mut kept = 0;
    for cell in &cells {
        kept += usize::from(store.find(cell)?.is_some());
    }
    output::print(&format!(
        "{} cells, {} of them in this part, {kept} of these kept\n",
        sweep.cells.len(),
        cells.len()
    ))?;
    Ok(Status::Done)
}

/// Prints the number of cells for each status.
fn tell(tally: &Tally) {
    let count = |status| tally.outcomes.iter().filter(|outcome| outcome.status == status).count();
    let Tally { kept, ran, left, of_other_commits, .. } = tally;
    let (done, refused, failed) = (count(Ended::Done), count(Ended::Refused), count(Ended::Failed));
    output::tell(&format!(
        "{ran} cells ran, {kept} were kept: {done} done, {refused} refused, {failed} failed"
    ));
    for outcome in tally.failures().take(FAILURES_TOLD) {
        let request = &outcome.request;
        let why = outcome.error.as_deref().unwrap_or("it was not told why");
        output::tell(&format!(
            "! {} on {}, seed {} ({}): {why}",
            request.index, request.chip, request.seed, outcome.key
        ));
    }
    if failed > FAILURES_TOLD {
        output::tell(&format!("! and {} more", failed - FAILURES_TOLD));
    }
    if failed > 0 {
        output::tell("--retry runs those that failed again");
    }
    if *left > 0 {
        output::tell(&format!("{left} cells are left; --resume goes on"));
    }
    if *of_other_commits > 0 {
        output::tell(&format!(
            "! {of_other_commits} of the kept cells were measured by another commit: see the column commit"
        ));
    }
}

/// Progress over the cells as a bar, or as lines from time to time.
struct Cells {
    progress: Progress,
    total: AtomicU64,
    failed: AtomicU64,
    started: Instant,
    told: Mutex<Instant>,
}

impl Cells {
    fn new(progress: Progress) -> Cells {
        let now = Instant::now();
        let (total, failed) = (AtomicU64::new(0), AtomicU64::new(0));
        Cells { progress, total, failed, started: now, told: Mutex::new(now) }
    }

    /// A line such as `120 of 200 cells, 2 failed, about 40 s left`.
    fn line(&self, done: u64) -> String {
        let (total, failed) = (self.total.load(Ordering::Relaxed), self.failed.load(Ordering::Relaxed));
        let left =
            self.started.elapsed().as_secs_f64() / done.max(1) as f64 * total.saturating_sub(done) as f64;
        format!("{done} of {total} cells, {failed} failed, about {left:.0} s left")
    }
}

impl Look for Cells {
    fn start(&self, cells: u64) {
        self.total.store(cells, Ordering::Relaxed);
        self.progress.count(cells, "cells");
    }

    fn finished(&self, done: u64, outcome: &Outcome) {
        self.failed.fetch_add(u64::from(outcome.status == Ended::Failed), Ordering::Relaxed);
        self.progress.reach(done);
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if self.progress.is_hidden() && told.elapsed() >= TELL_EVERY {
            *told = Instant::now();
            output::tell(&self.line(done));
        }
    }
}

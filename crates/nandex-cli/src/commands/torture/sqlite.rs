//! `nandex torture --sqlite`: random SQL on volumes, in every available SQLite.

use super::order;
use crate::Status;
use crate::output;
use crate::progress::{Progress, stop_on_interrupt};
use crate::torture_args::Torture;
use anyhow::Result;
use nandex_lab::runner::Control;
use nandex_lab::torture::Order;
use nandex_lab::{ASSERTIONS, LabError, parallel};
use nandex_sqlite_model::{Counts, Finding, Program, Sqlite, Way};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Advice for a system without SQLite.
const GET_ONE: &str = "install one (Debian: libsqlite3-0), name another with --library FILE, or build the program \
                       with its own: cargo install --path crates/nandex-cli --features sqlite";

pub(super) fn run(args: &Torture) -> Result<Status> {
    let ways = ways(args)?;
    let control = Arc::new(Control::default());
    stop_on_interrupt(&control)?;
    let progress = Progress::new(Arc::clone(&control));
    let mut found = 0;
    for way in &ways {
        let (counts, findings) = live_all(way, args, &control, &progress);
        for finding in &findings {
            output::tell(&told(way, finding, args));
        }
        // One by one, as each takes hundreds of lives.
        if let Some(first) = findings.first().filter(|_| !control.is_cancelled()) {
            output::tell(&way.least(first));
        }
        output::print(&format!("{way}: {counts}, {} findings; {ASSERTIONS}\n", findings.len()))?;
        found += findings.len();
    }
    progress.finish();
    Ok(if found == 0 { Status::Done } else { Status::Bad })
}

/// Finds every named or installed SQLite and the way to use it. Fails if there is none.
fn ways(args: &Torture) -> Result<Vec<Way>, LabError> {
    let mut ways = Vec::new();
    #[cfg(feature = "sqlite")]
    ways.push(Way::InProcess(Sqlite::linked().map_err(|why| LabError::bad_option("--sqlite", "", why))?));
    match Sqlite::shared(args.library.as_deref()) {
        Ok(sqlite) => ways.push(Way::InProcess(sqlite)),
        Err(why) if args.library.is_some() || ways.is_empty() => {
            let named =
                args.library.as_ref().map_or(String::from("the system's"), |l| l.display().to_string());
            return Err(LabError::bad_option("--library", &named, format!("{why}; {GET_ONE}")));
        }
        Err(_) => {}
    }
    if let Some(extension) = args.extension.clone().or_else(beside) {
        match Program::python(&extension) {
            Ok(python) => ways.push(Way::Process(python)),
            Err(why) if args.extension.is_some() => {
                return Err(LabError::bad_option("--extension", &extension.display().to_string(), why));
            }
            Err(why) => output::tell(&format!("left out: {}: {why}", extension.display())),
        }
    }
    Ok(ways)
}

/// The extension in the folder of the program, if it exists.
fn beside() -> Option<PathBuf> {
    let name = if cfg!(target_os = "macos") { "libnandex_sqlite.dylib" } else { "libnandex_sqlite.so" };
    Some(std::env::current_exe().ok()?.with_file_name(name)).filter(|path| path.exists())
}

/// Runs the lives of one way until all are done or the time is over.
fn live_all(way: &Way, args: &Torture, control: &Control, progress: &Progress) -> (Counts, Vec<Finding>) {
    let order = order(args);
    let begin = Instant::now();
    match order {
        Order::Lives(lives) => progress.count(lives, "lives"),
        Order::Time(time) => progress.count(time.as_secs().max(1), "seconds"),
    }
    let (next, sum) = (AtomicU64::new(0), Mutex::new((Counts::default(), Vec::new())));
    let live = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let is_over = match order {
                Order::Lives(lives) => number >= lives,
                Order::Time(time) => begin.elapsed() >= time,
            };
            if is_over || control.is_cancelled() {
                return;
            }
            let (counts, finding) = way.live(args.seed.wrapping_add(number));
            let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
            sum.0.add(counts);
            sum.1.extend(finding);
            progress.reach(match order {
                Order::Lives(_) => sum.0.lives,
                Order::Time(_) => begin.elapsed().as_secs(),
            });
        }
    };
    let threads = args.threads.map_or_else(parallel::cores, usize::from);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(live))));
    let (counts, mut findings) = sum.into_inner().unwrap_or_else(PoisonError::into_inner);
    findings.sort_by_key(|finding| finding.seed);
    (counts, findings)
}

/// A finding in two lines.
fn told(way: &Way, finding: &Finding, args: &Torture) -> String {
    let mut replay = format!("nandex torture --sqlite --seed {} --lives 1", finding.seed);
    for (option, file) in [("library", &args.library), ("extension", &args.extension)] {
        if let Some(file) = file {
            // A string is written to without fail.
            let _ = write!(replay, " --{option} {}", file.display());
        }
    }
    format!("! {way}, seed {}: {}\n  replay: {replay}", finding.seed, finding.what)
}

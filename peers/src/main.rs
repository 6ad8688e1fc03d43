//! Other stores and Nandex on the same simulated chips, in one run: `make peers`.
//!
//! `nandex-peers [SCENARIO]`: all scenarios, those whose name has the text, or with `QUICK=1` the quick ones.
//! A run of all writes `results/peers.csv` and the tables of the pages. Every run compares with
//! `peers/bands.csv`; a run of all with `NANDEX_BLESS=1` writes these anew.

mod bands;
mod drive;
mod nor;
mod scenario;
mod store;
mod stores;
mod tables;

use drive::{MEASURES, Row};
use scenario::{Contestant, SCENARIOS, Scenario, contestants};
use std::fmt::Write;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::{env, fs, io, thread};

const CSV: &str = "results/peers.csv";
const BANDS: &str = "peers/bands.csv";
const LOCK: &str = "peers/Cargo.lock";

type Pair = (&'static Scenario, &'static Contestant);

fn main() -> ExitCode {
    let only = env::args().nth(1).unwrap_or_default();
    let is_quick = env::var("QUICK").is_ok_and(|text| !text.is_empty() && text != "0");
    let is_asked = |one: &&Scenario| one.name.contains(&only) && (one.is_quick || !is_quick);
    let pairs: Vec<Pair> = SCENARIOS
        .iter()
        .filter(is_asked)
        .flat_map(|scenario| contestants(scenario.chip).map(move |one| (scenario, one)))
        .collect();
    let rows = run_all(&pairs);
    match finish(&rows, SCENARIOS.iter().all(|one| is_asked(&one))) {
        Ok(faults) if faults.is_empty() => ExitCode::SUCCESS,
        Ok(faults) => {
            eprintln!("{}\nNANDEX_BLESS=1 make peers keeps these figures", faults.join("\n"));
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs all pairs on all cores; the rows are in the order of the pairs.
fn run_all(pairs: &[Pair]) -> Vec<Row> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some((scenario, contestant)) = pairs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let began = std::time::Instant::now();
            let row = drive::run(scenario, contestant);
            let seconds = began.elapsed().as_secs_f64();
            eprintln!("{}, {}: {} ({seconds:.1} s)", scenario.name, contestant.name, row.outcome);
            done.lock().unwrap_or_else(PoisonError::into_inner).push(row);
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let mut rows = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    let place = |row: &Row| {
        pairs.iter().position(|(scenario, one)| scenario.name == row.scenario && one.name == row.store)
    };
    rows.sort_by_key(place);
    rows
}

/// Prints the tables, writes what is kept, and says what left its band.
fn finish(rows: &[Row], is_whole: bool) -> io::Result<Vec<String>> {
    let csv = csv(rows);
    let lock = fs::read_to_string(LOCK)?;
    println!("{}", tables::page("<!-- peers: tables -->\n<!-- end -->", &csv, &lock));
    if is_whole {
        fs::write(CSV, &csv)?;
        for name in tables::PAGES {
            let page = fs::read_to_string(name)?;
            fs::write(name, tables::page(&page, &csv, &lock))?;
        }
        if env::var_os("NANDEX_BLESS").is_some() {
            fs::write(BANDS, bands::file(rows))?;
        }
    }
    Ok(bands::faults(&fs::read_to_string(BANDS)?, rows))
}

fn csv(rows: &[Row]) -> String {
    let mut out = String::from("scenario,words,store,settings,by,outcome,updates");
    MEASURES.iter().for_each(|(name, _)| out += &format!(",{name}"));
    out.push('\n');
    for row in rows {
        let scenario = SCENARIOS.iter().find(|one| one.name == row.scenario);
        let store = scenario.and_then(|one| contestants(one.chip).find(|c| c.name == row.store));
        let (words, settings) = (scenario.map_or("", |one| one.words), store.map_or("", |one| one.settings));
        let by = if row.is_ours { "nandex" } else { "peer" };
        let _ = write!(
            out,
            "{},{words},{},{settings},{by},{},{}",
            row.scenario, row.store, row.outcome, row.updates
        );
        for (figure, (_, digits)) in row.figures.iter().zip(MEASURES) {
            let _ = match figure {
                Some(figure) => write!(out, ",{figure:.digits$}"),
                None => write!(out, ","),
            };
        }
        out.push('\n');
    }
    out
}

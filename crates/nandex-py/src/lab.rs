//! Cells, grids, kept results and experiments: JSON in, JSON out.

use crate::errors::{RequestError, of_lab};
use nandex_lab::advise::{Request as Question, advise_with};
use nandex_lab::compare::Watch;
use nandex_lab::experiment::{self, Bench, RunPlan};
use nandex_lab::results::Run;
use nandex_lab::runner::Control;
use nandex_lab::sweep::{self, Grid, Outcome, Request, Store};
use nandex_lab::{LabError, parallel};
use pyo3::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

/// Between two looks whether Ctrl-C was pressed.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The version of Nandex.
#[pyfunction]
pub(crate) fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// The commit this was built from, with `+` where files differed from it; None where that is not known.
#[pyfunction]
pub(crate) fn commit() -> Option<&'static str> {
    option_env!("NANDEX_COMMIT")
}

fn json_of(value: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| RequestError::new_err(error.to_string()))
}

fn from_json<T: serde::de::DeserializeOwned>(what: &str, json: &str) -> PyResult<T> {
    serde_json::from_str(json).map_err(|error| RequestError::new_err(format!("{what}: {error}")))
}

fn request(json: &str) -> PyResult<Request> {
    from_json("request", json)
}

fn wait(py: Python<'_>, is_done: &mut Receiver<()>) -> Result<(), RecvTimeoutError> {
    // The receiver itself goes with it: one that is only lent may not.
    py.detach(move || is_done.recv_timeout(LOOK_EVERY))
}

/// Work without the interpreter, which looks for Ctrl-C meanwhile and then has the work stopped.
fn interruptible<T: Send>(py: Python<'_>, work: impl FnOnce(&Control) -> T + Send) -> PyResult<T> {
    let control = Control::default();
    std::thread::scope(|scope| {
        let (done, mut is_done) = mpsc::channel();
        let working = &control;
        let thread = scope.spawn(move || {
            let result = work(working);
            // Whoever waits may have gone.
            let _ = done.send(());
            result
        });
        let mut interrupted = None;
        while wait(py, &mut is_done) == Err(RecvTimeoutError::Timeout) {
            if let Err(error) = py.check_signals() {
                control.cancel();
                interrupted.get_or_insert(error);
            }
        }
        let result = py.detach(|| thread.join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        interrupted.map_or(Ok(result), Err)
    })
}

/// The cells of a grid, each a request in JSON.
#[pyfunction]
pub(crate) fn grid_cells(grid: &str) -> PyResult<Vec<String>> {
    let grid: Grid = from_json("grid", grid)?;
    grid.cells().map_err(of_lab)?.cells.iter().map(json_of).collect()
}

/// The grid in a TOML file as JSON; chip files and traces that lie beside it are named from here.
#[pyfunction]
pub(crate) fn load_grid(path: PathBuf) -> PyResult<String> {
    json_of(&Grid::load(&path).map_err(of_lab)?)
}

/// The hash of all that influences what a cell measures.
#[pyfunction]
pub(crate) fn request_key(json: &str) -> PyResult<String> {
    request(json)?.key().map_err(of_lab)
}

/// Runs a cell and gives its outcome in JSON.
#[pyfunction]
pub(crate) fn run_cell(py: Python<'_>, json: &str) -> PyResult<String> {
    let request = request(json)?;
    json_of(&interruptible(py, |control| request.run(commit(), control))?.map_err(of_lab)?)
}

/// Runs cells on so many threads and gives their outcomes in JSON.
#[pyfunction]
#[pyo3(signature = (jsons, threads=None))]
pub(crate) fn run_cells(py: Python<'_>, jsons: Vec<String>, threads: Option<usize>) -> PyResult<Vec<String>> {
    let requests = jsons.iter().map(|json| request(json)).collect::<PyResult<Vec<_>>>()?;
    let threads = threads.unwrap_or_else(parallel::cores);
    let outcomes = interruptible(py, |control| {
        parallel::map(&requests, threads, |request| request.run(commit(), control))
    })?;
    let outcomes: Result<Vec<Outcome>, LabError> = outcomes.into_iter().collect();
    outcomes.map_err(of_lab)?.iter().map(json_of).collect()
}

/// A progress listener that does nothing.
struct Unseen;

impl Watch for Unseen {
    fn start(&self, _: u64) {}

    fn finished(&self, _: &Run) {}
}

/// Runs a cell and gives all that was measured in JSON: phases, kinds of operations, causes, wear.
#[pyfunction]
pub(crate) fn details(py: Python<'_>, json: &str) -> PyResult<String> {
    let comparison = request(json)?.comparison().map_err(of_lab)?;
    let mut results = interruptible(py, |control| comparison.run(control, &Unseen))?.map_err(of_lab)?;
    results.commit = commit().map(String::from);
    json_of(&results)
}

/// Searches for the index to take and gives the advice in JSON.
#[pyfunction]
pub(crate) fn advise(py: Python<'_>, json: &str) -> PyResult<String> {
    let question: Question = from_json("request", json)?;
    let found = interruptible(py, |control| advise_with(&question, control, &|_| {}))?;
    json_of(&found.map_err(of_lab)?)
}

/// The outcome that a folder keeps of a cell, in JSON.
#[pyfunction]
pub(crate) fn store_find(folder: PathBuf, json: &str) -> PyResult<Option<String>> {
    let store = Store::open(&folder).map_err(of_lab)?;
    store.find(&request(json)?).map_err(of_lab)?.map(|outcome| json_of(&outcome)).transpose()
}

/// Keeps the outcome of a cell in a folder.
#[pyfunction]
pub(crate) fn store_put(folder: PathBuf, outcome: &str) -> PyResult<()> {
    let outcome: Outcome = from_json("outcome", outcome)?;
    Store::open(&folder).and_then(|store| store.put(&outcome)).map_err(of_lab)
}

fn outcomes(jsons: &[String]) -> PyResult<Vec<Outcome>> {
    jsons.iter().map(|json| from_json("outcome", json)).collect()
}

/// The columns of a table of these outcomes.
#[pyfunction]
pub(crate) fn columns(jsons: Vec<String>) -> PyResult<Vec<String>> {
    Ok(sweep::columns(&outcomes(&jsons)?))
}

/// The rows of a table of these outcomes, a JSON object each.
#[pyfunction]
pub(crate) fn rows(jsons: Vec<String>) -> PyResult<Vec<String>> {
    outcomes(&jsons)?.iter().map(|outcome| json_of(&outcome.row())).collect()
}

/// Runs an experiment, by its name or file, and gives its results in JSON; writes all its files into `out`.
#[pyfunction]
#[pyo3(signature = (name, sets, smoke=false, seeds=None, threads=None, data=None, out=None))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn run_experiment(
    py: Python<'_>,
    name: &str,
    sets: Vec<(String, String)>,
    smoke: bool,
    seeds: Option<u32>,
    threads: Option<usize>,
    data: Option<PathBuf>,
    out: Option<PathBuf>,
) -> PyResult<String> {
    let experiment = experiment::load(name, &sets).map_err(of_lab)?;
    let threads = threads.unwrap_or_else(parallel::cores);
    let plan = RunPlan { smoke, seeds, threads, data, commit: commit().map(String::from) };
    let results = interruptible(py, |control| Bench::new(&plan, control).run(&experiment))?;
    let results = results.map_err(of_lab)?;
    let write = |folder: &Path| experiment::write_folder(&results, folder).map_err(of_lab);
    out.as_deref().map_or(Ok(()), write)?;
    json_of(&results)
}

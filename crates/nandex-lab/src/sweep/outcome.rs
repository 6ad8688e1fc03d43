//! The outcome of a cell.

use super::request::Request;
use crate::LabError;
use crate::compare::Watch;
use crate::results::{Results, Run};
use crate::runner::Control;
use crate::totals::Totals;
use serde::{Deserialize, Serialize};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Version of the layout of a cell's file and of the text that is hashed.
pub const CELL_SCHEMA: u32 = 1;

/// Outcome of a cell: its results, or the reason why it has none.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Outcome {
    /// Version of this layout.
    pub schema: u32,
    /// The hash of everything that influences the results.
    pub key: String,
    /// Request of the cell.
    pub request: Request,
    /// Version of Nandex that ran the cell.
    pub nandex_version: String,
    /// The commit that the program was built from, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// How the cell ended.
    pub status: Status,
    /// The reason for a refusal or failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The measured figures. Absent if nothing ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figures: Option<Figures>,
}

/// How a cell ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The cell ran to its end.
    Done,
    /// The index cannot run under these conditions, such as RAM or chip. This is a result: every try gives
    /// the same.
    Refused,
    /// Something went wrong. Another try may succeed.
    Failed,
}

impl Status {
    /// The name used in results.
    pub const fn name(self) -> &'static str {
        match self {
            Status::Done => "done",
            Status::Refused => "refused",
            Status::Failed => "failed",
        }
    }
}

/// Figures of a run over all its measured phases; units are in the names. Times are chip time, except
/// `cpu_ns`, which alone differs between runs.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Figures {
    /// The storage below the index: "raw", or FTL and cache.
    pub storage: String,
    /// The durability class that the index declares. It is at least the class requested.
    pub declared_durability: String,
    /// Number of operations.
    pub operations: u64,
    /// Time of the chip, in nanoseconds.
    pub flash_time_ns: u64,
    /// Chip time of the slowest operation.
    pub flash_time_max_ns: u64,
    /// Page reads.
    pub page_reads: u64,
    /// Page programs.
    pub page_programs: u64,
    /// Block erases.
    pub block_erases: u64,
    /// Energy of the chip.
    pub energy_nj: u64,
    /// Bytes programmed divided by bytes of changed records. Absent if no record was changed.
    pub write_amplification: Option<f64>,
    /// Processor time, in nanoseconds.
    pub cpu_ns: u64,
    /// Cache hits.
    pub cache_hits: u64,
    /// Cache misses.
    pub cache_misses: u64,
    /// Number of victim blocks collected.
    pub collections: u64,
    /// The index as it was at the end.
    #[serde(flatten)]
    pub end: AtEnd,
}

/// The index as it was at the end of a run.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct AtEnd {
    /// Most bytes of RAM held.
    pub ram_bytes: u64,
    /// Number of levels at the end.
    pub height_levels: u32,
    /// Number of records at the end.
    pub records: u64,
    /// Number of pages with live data at the end.
    pub live_pages: u64,
    /// Bytes of pages with live data divided by bytes of the records.
    pub space_amplification: f64,
    /// Erases of the most worn block.
    pub wear_max_erases: u32,
    /// Mean erases of a block.
    pub wear_mean_erases: f64,
}

impl AtEnd {
    fn of(run: &Run) -> AtEnd {
        let wear: u64 = run.wear_erases.iter().copied().map(u64::from).sum();
        AtEnd {
            ram_bytes: run.ram_bytes,
            height_levels: run.height,
            records: run.records,
            live_pages: run.live_pages,
            space_amplification: run.space_amplification,
            wear_max_erases: run.wear_erases.iter().copied().max().unwrap_or(0),
            wear_mean_erases: wear as f64 / run.wear_erases.len().max(1) as f64,
        }
    }
}

impl Figures {
    fn of(run: &Run, results: &Results) -> Figures {
        let totals = Totals::of(run, results);
        Figures {
            storage: run.storage.clone(),
            declared_durability: run.durability.clone(),
            operations: totals.costs.operations,
            flash_time_ns: totals.costs.flash_time_ns,
            flash_time_max_ns: totals.costs.flash_time_max_ns,
            page_reads: totals.costs.page_reads,
            page_programs: totals.costs.page_programs,
            block_erases: totals.costs.block_erases,
            energy_nj: totals.energy_nj,
            write_amplification: totals.write_amplification,
            cpu_ns: totals.cpu_ns,
            cache_hits: totals.cache_hits,
            cache_misses: totals.cache_misses,
            collections: totals.collections,
            end: AtEnd::of(run),
        }
    }
}

/// A [`Watch`] that shows nothing.
struct Unseen;

impl Watch for Unseen {
    fn start(&self, _: u64) {}

    fn finished(&self, _: &Run) {}
}

impl Request {
    /// Runs the cell. Failures of the run are in the outcome. An error means that a file needed for the key
    /// cannot be read.
    pub fn run(&self, commit: Option<&str>, control: &Control) -> Result<Outcome, LabError> {
        let mut outcome = Outcome {
            schema: CELL_SCHEMA,
            key: self.key()?,
            request: self.clone(),
            nandex_version: env!("CARGO_PKG_VERSION").to_string(),
            commit: commit.map(String::from),
            status: Status::Done,
            error: None,
            figures: None,
        };
        // A broken assertion is one cell's failure and no reason to lose the others.
        let measured = catch_unwind(AssertUnwindSafe(|| self.comparison()?.run(control, &Unseen)));
        let measured = measured.map_err(|panic| format!("it panicked: {}", words_of(&*panic)));
        match measured.and_then(|results| results.map_err(|error| error.to_string())) {
            Ok(results) => outcome.take(&results),
            Err(why) => (outcome.status, outcome.error) = (Status::Failed, Some(why)),
        }
        Ok(outcome)
    }
}

impl Outcome {
    fn take(&mut self, results: &Results) {
        let Some(run) = results.runs.first() else { return };
        let started = !run.phases.is_empty();
        self.status = match (&run.error, started) {
            (None, _) => Status::Done,
            (Some(_), false) => Status::Refused,
            (Some(_), true) => Status::Failed,
        };
        self.error.clone_from(&run.error);
        self.figures = started.then(|| Figures::of(run, results));
    }
}

fn words_of(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a word")
}

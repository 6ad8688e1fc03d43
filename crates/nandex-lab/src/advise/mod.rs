//! Advice: the best index for a chip, a workload and an amount of RAM.
//!
//! The candidates are all indexes on all layers that they can use. All run on a first part of the operations,
//! the better ones on a longer part ([`halving`]). The best then run with other options too. The finalists
//! run all operations, with every answer checked, and with several seeds if a generator makes the operations.
//! Among the finalists that are as good as the best, the simplest is the answer: an entry of the registry
//! tells the parts of its index. Candidates that break a constraint (RAM, or the promise about a power cut)
//! are dropped before.

mod answer;
mod config;
mod figures;
pub mod halving;
mod peer;
mod search;
mod space;
mod trial;

pub use config::CONFIG_HEAD;
pub use figures::{Figures, Life};

use crate::LabError;
use crate::compare::{Comparison, Ordered, Source};
use crate::results::ChipFacts;
use crate::runner::Control;
use crate::sweep;
use crate::trace::Trace;
use crate::workload::Workload;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the layout of [`Advice`].
pub const ADVICE_SCHEMA: u32 = 1;

/// RAM in bytes if the request does not give it.
pub const USUAL_RAM: u64 = 64 << 10;

/// The aim of the advice: a figure to make small, or the chip's life to make long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Want {
    /// Chip time per operation.
    #[default]
    Time,
    /// Energy of the chip per operation.
    Energy,
    /// The years that the chip lives.
    Lifetime,
    /// Bytes of pages with live data.
    Space,
    /// The time that one operation in a thousand exceeds.
    Tail,
    /// The time of a mount after a power cut and of the first change then.
    Boot,
}

impl Want {
    /// The aim in words.
    pub const fn words(self) -> &'static str {
        match self {
            Want::Time => "chip time per operation",
            Want::Energy => "energy per operation",
            Want::Lifetime => "wear of the chip",
            Want::Space => "space",
            Want::Tail => "the slowest operations (p99.9)",
            Want::Boot => "a mount after a power cut and the first change",
        }
    }
}

/// A question: the chip, the operations, the constraints and the aim.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Request {
    /// The chip: a part of the catalogue or a chip file.
    pub chip: String,
    /// The generator of operations. Alternatively a trace is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// A trace: a file, or the name of a bundled one. Without trace and workload it is the bundled
    /// `kernel_compile`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// Number of operations in the measured part of a generator, or largest number taken from a trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ops: Option<u64>,
    /// Bytes of a key and of a value, such as `4/4`.
    pub record: String,
    /// RAM in bytes, tables included. Absent means [`USUAL_RAM`].
    pub ram: Option<u64>,
    /// The durability class that the index must promise.
    pub durability: String,
    /// Number of changes between two syncs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync_every: Option<u64>,
    /// The aim: a figure to make small, or a long life.
    pub want: Want,
    /// Operations a second, for the life of the chip. Absent means 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Number of seeds of a generator on which finalists are verified.
    pub seeds: u64,
    /// Options of the workload.
    pub options: BTreeMap<String, String>,
    /// Number of runs at the same time. Absent means the number of cores. Results do not depend on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<usize>,
}

impl Default for Request {
    fn default() -> Request {
        Request {
            chip: String::from("mlc-64m"),
            workload: None,
            trace: None,
            ops: None,
            record: String::from("4/4"),
            ram: None,
            durability: String::from("every-operation"),
            sync_every: None,
            want: Want::Time,
            rate: None,
            seeds: 3,
            options: BTreeMap::new(),
            threads: None,
        }
    }
}

/// An index on a storage with options, and its costs.
#[derive(Clone, Debug, Serialize)]
pub struct Contender {
    /// The index and its FTL: `bplus on dftl`, `mu`.
    pub name: String,
    /// Name of the index.
    pub index: String,
    /// The storage below it: "raw", or the FTL and cache.
    pub storage: String,
    /// Options that differ from the defaults, the FTL among them.
    pub options: BTreeMap<String, String>,
    /// Number of parts of the index and its FTL and of options set. Fewer is simpler.
    pub parts: usize,
    /// The figure to be minimised, divided by that of the answer.
    pub costs_times: f64,
    /// Whether it is as good as the best, within the noise.
    pub is_equivalent: bool,
    /// The life of the chip under it.
    pub life: Life,
    /// All measured costs.
    pub figures: Figures,
}

/// A point at which another answer would become better.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Turn {
    /// The quantity that would have to change: `load`, `chip` or `ram`.
    pub what: String,
    /// The value at which the other becomes better: share of reads, price of a program in reads, or bytes
    /// of RAM.
    pub at: f64,
    /// Whether that value is above the present one.
    pub is_above: bool,
    /// Value in the question.
    pub now: f64,
    /// Name of the other answer.
    pub name: String,
    /// The point in words.
    pub words: String,
}

/// The answer with another RAM, found on a part of the operations.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AtRam {
    /// Bytes of RAM.
    pub ram_bytes: u64,
    /// Name of the answer with this RAM.
    pub name: String,
    /// The figure of the aim for that answer.
    pub cost: f64,
    /// The figure of the aim for the answer to the request; absent if that answer cannot run with this RAM.
    pub cost_of_answer: Option<f64>,
}

/// The answer, with everything that it is based on.
#[derive(Clone, Debug, Serialize)]
pub struct Advice {
    /// Version of this layout.
    pub schema: u32,
    /// Version of Nandex.
    pub nandex_version: &'static str,
    /// The question answered.
    pub request: Request,
    /// RAM in bytes given to each index.
    pub ram_bytes: u64,
    /// Facts of the chip.
    pub chip: ChipFacts,
    /// Name of the workload or trace.
    pub workload: String,
    /// Number of operations of the workload, the load included.
    pub operations: u64,
    /// Seeds that the finalists ran with.
    pub seeds: Vec<u64>,
    /// Number of stacks that were tried.
    pub stacks: usize,
    /// The choice to take. `None` if nothing runs under the conditions.
    pub answer: Option<Contender>,
    /// The other finalists, the best first.
    pub others: Vec<Contender>,
    /// The points at which another answer would become better.
    pub turns: Vec<Turn>,
    /// The answers with other amounts of RAM.
    pub by_ram: Vec<AtRam>,
    /// A note where a store of others may fit better; `None` where none does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<&'static str>,
    /// Indexes that cannot run under the conditions at all, with the reason.
    pub refused: BTreeMap<String, String>,
    /// The configuration as TOML; empty without an answer.
    pub config: String,
    /// Rust source that opens the index.
    pub rust: String,
    /// C source that opens the index, if the C library has it.
    pub c: Option<String>,
}

/// Searches for the index to take.
pub fn advise(request: &Request) -> Result<Advice, LabError> {
    advise_with(request, &Control::default(), &|_| {})
}

/// Does the same as [`advise`]. `control` can cancel the search, and `tell` is told each stage.
pub fn advise_with(
    request: &Request,
    control: &Control,
    tell: &(dyn Fn(&str) + Sync),
) -> Result<Advice, LabError> {
    let comparison = request.comparison()?;
    let workloads = request.workloads(&comparison)?;
    search::Search { request, comparison: &comparison, control, tell }.run(workloads)
}

impl Request {
    /// RAM in bytes given to each index.
    pub fn ram_bytes(&self) -> u64 {
        self.ram.unwrap_or(USUAL_RAM)
    }

    /// A comparison with the chip, the operations and the settings of the request.
    fn comparison(&self) -> Result<Comparison<Ordered>, LabError> {
        if self.rate.is_some_and(|rate| !rate.is_finite() || rate <= 0.0) {
            let given = self.rate.unwrap_or_default().to_string();
            return Err(LabError::bad_option("rate", &given, "is no number of operations a second above 0"));
        }
        let cell = sweep::Request {
            chip: self.chip.clone(),
            workload: self.workload.clone(),
            trace: self.trace.clone(),
            ops: self.ops,
            record: self.record.clone(),
            ram: Some(self.ram_bytes()),
            durability: self.durability.clone(),
            sync_every: self.sync_every,
            options: self.options.clone(),
            ..sweep::Request::new("bplus")
        };
        cell.comparison()
    }

    /// The workloads: one for each seed of a generator, or one for a trace.
    fn workloads(&self, comparison: &Comparison<Ordered>) -> Result<Vec<Workload>, LabError> {
        let no_options = || match self.options.first_key_value() {
            None => Ok(()),
            Some((name, value)) => Err(LabError::bad_option(name, value, "is no option of a trace here")),
        };
        match &comparison.contest.source {
            Source::Generator(entry) => {
                let seeds = 1..=self.seeds.max(1);
                seeds.map(|seed| entry.build(seed, &comparison.settings.options)).collect()
            }
            Source::Trace(path, options) => {
                no_options()?;
                Ok(vec![Trace::read(path, options)?.workload(options)])
            }
            Source::Bundled(bundle, options) => {
                no_options()?;
                Ok(vec![bundle.workload(options)?])
            }
        }
    }
}

#[cfg(test)]
mod tests;

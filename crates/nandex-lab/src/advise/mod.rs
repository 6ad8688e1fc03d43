//! Which index to take: on this chip, for these operations, in this RAM.
//!
//! The field is every index on everything it can stand on. It runs on a beginning of the operations first,
//! the better ones on a longer one ([`halving`]), those that came far with other options too, and the
//! finalists on the whole, with every answer checked, on several seeds where a generator makes the
//! operations. Of those that are as good as the best, the simplest is taken: an entry of the registry says
//! what parts it has. What breaks a constraint, of RAM or of the promise about a power cut, does not come
//! that far.

mod answer;
mod config;
mod figures;
pub mod halving;
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

/// RAM where none is told.
pub const USUAL_RAM: u64 = 64 << 10;

/// The figure that is to be small, or long.
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
}

impl Want {
    /// The unit that is counted, in words.
    pub const fn words(self) -> &'static str {
        match self {
            Want::Time => "chip time per operation",
            Want::Energy => "energy per operation",
            Want::Lifetime => "wear of the chip",
            Want::Space => "space",
            Want::Tail => "the slowest operations (p99.9)",
        }
    }
}

/// The question.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Request {
    /// The chip: a part of the catalogue or a chip file.
    pub chip: String,
    /// The generator of operations; or a trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// A trace: a file or the name of a bundled one; without it and a workload the bundled `kernel_compile`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// Operations of the measured part of a generator, or at most so many of a trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ops: Option<u64>,
    /// Bytes of a key and of a value, such as `4/4`.
    pub record: String,
    /// RAM in bytes, tables included; [`USUAL_RAM`] when absent.
    pub ram: Option<u64>,
    /// The promise about a power cut that the index has to make.
    pub durability: String,
    /// Sync after so many changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync_every: Option<u64>,
    /// The figure that is to be small, or long.
    pub want: Want,
    /// Operations a second, for the life of the chip; 1 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Seeds of a generator that finalists are verified on.
    pub seeds: u64,
    /// Options of the workload.
    pub options: BTreeMap<String, String>,
    /// Runs at a time; as many as there are cores when absent. It changes no result.
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

/// An index on a storage with options, and what it costs.
#[derive(Clone, Debug, Serialize)]
pub struct Contender {
    /// The index and its FTL: `bplus on dftl`, `mu`.
    pub name: String,
    /// The index.
    pub index: String,
    /// The storage below it: "raw", or the FTL and cache.
    pub storage: String,
    /// Options that differ from the defaults, the FTL among them.
    pub options: BTreeMap<String, String>,
    /// Parts of the index and of its FTL and options that are set: the fewer, the simpler.
    pub parts: usize,
    /// The figure that was to be small, over that of the answer.
    pub costs_times: f64,
    /// Whether it is as good as the best: within the noise.
    pub is_equivalent: bool,
    /// The life of the chip under it.
    pub life: Life,
    /// Everything it costs.
    pub figures: Figures,
}

/// A place where another answer would be better.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Turn {
    /// The thing that would have to be other: `load`, `chip` or `ram`.
    pub what: String,
    /// The share of reads, the price of a program in reads, or the bytes of RAM from which on.
    pub at: f64,
    /// Whether that lies above where one is.
    pub is_above: bool,
    /// Where one is.
    pub now: f64,
    /// The other answer.
    pub name: String,
    /// The turn in words.
    pub words: String,
}

/// The answer with another RAM, from a part of the operations.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AtRam {
    /// Bytes of RAM.
    pub ram_bytes: u64,
    /// The answer there.
    pub name: String,
    /// The figure that was to be small, of the answer there.
    pub cost: f64,
    /// The figure of the answer here; absent where it cannot run.
    pub cost_of_answer: Option<f64>,
}

/// The answer, with all that it stands on.
#[derive(Clone, Debug, Serialize)]
pub struct Advice {
    /// Version of this layout.
    pub schema: u32,
    /// Version of Nandex.
    pub nandex_version: &'static str,
    /// The question.
    pub request: Request,
    /// RAM of each index.
    pub ram_bytes: u64,
    /// The chip.
    pub chip: ChipFacts,
    /// Name of the workload or trace.
    pub workload: String,
    /// Operations of the whole of it, the load among them.
    pub operations: u64,
    /// Seeds that finalists ran on.
    pub seeds: Vec<u64>,
    /// Stacks that were tried.
    pub stacks: usize,
    /// The choice to take; none where nothing runs so.
    pub answer: Option<Contender>,
    /// The other finalists, the best first.
    pub others: Vec<Contender>,
    /// Where another would be better.
    pub turns: Vec<Turn>,
    /// The answer with other RAM.
    pub by_ram: Vec<AtRam>,
    /// Why indexes cannot run so at all.
    pub refused: BTreeMap<String, String>,
    /// The configuration as TOML; empty without an answer.
    pub config: String,
    /// Lines of Rust that open it.
    pub rust: String,
    /// Lines of C, where the library for C has it.
    pub c: Option<String>,
}

/// Searches for the index to take.
pub fn advise(request: &Request) -> Result<Advice, LabError> {
    advise_with(request, &Control::default(), &|_| {})
}

/// The search, with a control that can cancel it, and somebody who is told each stage.
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
    /// RAM of each index.
    pub fn ram_bytes(&self) -> u64 {
        self.ram.unwrap_or(USUAL_RAM)
    }

    /// The comparison of one that has the chip, the operations and the settings.
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

    /// The operations: of each seed of a generator, of a trace once.
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

//! An experiment as data: the files of its folder, built into the program.
//!
//! `experiment.toml` defines the runs: inputs x variants x contenders. Each combination is a *cell*, named
//! `input/variant/contender`. `expected.toml` has the paper's claims (see [`crate::repro`]). `README.md` has
//! notes: the set-up, what the paper leaves open, and the assumptions.

use super::claim::Claim;
use super::contender::{Contender, Memory};
use super::plot::Plot;
use super::text::{texts, texts_of};
use crate::LabError;
use crate::keys::Trees;
use crate::results::PatternCounts;
use nandex::ordered::Durability;
use nandex_experiments::{FOLDERS, Folder};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::LazyLock;

/// An experiment: a figure or table of a paper, or one of the user's own.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// Definition of the runs.
    pub definition: Definition,
    /// The claims of the paper about it.
    pub claims: Vec<Claim>,
    /// The experiment's notes, in Markdown.
    pub notes: Cow<'static, str>,
}

/// Definition of the runs of an experiment. The fields are the keys of the file, side by side, so that an
/// unknown key is refused with the list of known ones. Other types interpret the values.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// Name of the experiment. By default that of its folder or file.
    #[serde(default)]
    pub name: String,
    /// The paper, such as "mu" or "wpcb". Empty for a user's own experiment.
    #[serde(default)]
    pub paper: String,
    /// The figure, table or section of the paper.
    #[serde(default)]
    pub shows: String,
    /// The subject of the experiment, in one line.
    #[serde(default)]
    pub summary: String,
    /// The chip: a name in the catalogue, or a chip file.
    pub chip: String,
    /// Bytes of a key.
    #[serde(default = "four")]
    pub key_bytes: u8,
    /// Bytes of a value.
    #[serde(default = "four")]
    pub value_bytes: u8,
    /// Number of seeds of generated workloads by default. A trace runs once.
    #[serde(default = "one")]
    pub seeds: u32,
    /// The contender that others are compared with, seed by seed. Empty means the first contender.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub baseline: String,
    /// The figures compared seed by seed. Empty means the flash time of each measured phase.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compared: Vec<String>,
    /// Number of extreme values left out on either side: for each figure this many of the highest and of
    /// the lowest seeds do not count, if enough others are left.
    #[serde(default)]
    pub trimmed: usize,
    /// Indexes that take part with default options, by their registry names.
    #[serde(default)]
    pub indexes: Vec<String>,
    /// Indexes that take part with options, under names of their own.
    #[serde(default, rename = "contender")]
    pub contenders: Vec<Contender>,
    /// How the runs are done.
    #[serde(default)]
    pub run: Conduct,
    /// Groups of phases whose costs are also wanted as a sum.
    #[serde(default, rename = "sum")]
    pub sums: Vec<Sum>,
    /// Inputs: the workloads.
    #[serde(default, rename = "input")]
    pub inputs: Vec<Input>,
    /// Variants: the settings.
    #[serde(default, rename = "variant")]
    pub variants: Vec<Variant>,
    /// Cells that are computed instead of run over a workload; see `derived`.
    #[serde(default)]
    pub derived: Vec<String>,
    /// The study of access times; see `access`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<Access>,
    /// The plots of the experiment.
    #[serde(default, rename = "plot")]
    pub plots: Vec<Plot>,
    /// Page traces replayed on FTLs; see `replays`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<Replays>,
    /// Sizes for smoke runs.
    #[serde(default)]
    pub smoke: Smoke,
    /// Folder of a user's own experiment. Its traces and chip files are looked for there first.
    #[serde(skip)]
    pub source: Source,
}

/// Where an experiment comes from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Source {
    /// The folder of an experiment of one's own; its traces and chips are looked for there first.
    pub folder: Option<PathBuf>,
    /// Name and settings given on the command line; absent if only the name was given.
    pub called: Option<String>,
}

impl Source {
    /// Path of another file in the experiment's folder, if it exists.
    pub(super) fn beside(&self, file: &str) -> Option<PathBuf> {
        self.folder.as_ref().map(|folder| folder.join(file)).filter(|path| path.is_file())
    }
}

const fn four() -> u8 {
    4
}

const fn one() -> u32 {
    1
}

/// The page traces of an experiment. Each runs on all the devices.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Replays {
    /// Page traces to replay.
    pub traces: Vec<PageTrace>,
    /// The devices that the traces are replayed on.
    pub devices: Vec<Device>,
}

impl Replays {
    /// Prefix of the names of these cells.
    pub const CELLS: &str = "traces";
}

/// A page trace.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PageTrace {
    /// The trace's name in cells.
    pub name: String,
    /// The full trace, a file in the data folder. If it is missing, the bundled part of it is used.
    pub file: String,
}

/// An FTL under a name of its own.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// The device's name in cells.
    pub name: String,
    /// The FTL, alone or behind a TBM.
    pub ftl: String,
    /// Options of the device.
    #[serde(default, deserialize_with = "texts")]
    pub options: BTreeMap<String, String>,
}

/// A workload of an experiment.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The input's name in cells.
    pub name: String,
    /// A generator of operations.
    pub workload: Option<String>,
    /// Options of the generator.
    #[serde(default, deserialize_with = "texts")]
    pub options: BTreeMap<String, String>,
    /// A trace of operations.
    pub trace: Option<TraceInput>,
    /// Whether several indexes in a trace run as one tree or as a tree each.
    #[serde(default)]
    pub trees: Trees,
}

/// A trace of an experiment.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TraceInput {
    /// The full trace, a file in the data folder.
    pub file: String,
    /// Whether the bundled cut is used if the full trace is missing.
    #[serde(default)]
    pub bundled_cut: bool,
    /// Whether claims are judged even if the bundled cut is used.
    #[serde(default)]
    pub judge_cut: bool,
    /// Whether bit 0 of a range's flags means a descending range, as in the OLTP-A and OLAP-B captures.
    #[serde(default)]
    pub descending_flag: bool,
    /// Number of operations to take from the beginning. Absent means all.
    pub operations: Option<u64>,
}

/// The way in which the runs of an experiment are carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Conduct {
    /// Whether processor time is measured. It is the only figure that differs between runs.
    pub cpu_time: bool,
    /// Whether a sync follows each phase that is not measured, so that nothing of a load still waits in a
    /// pool or cache.
    pub sync_after_load: bool,
    /// True if a sync follows the last operation, so that waiting changes are paid for too. The sync is
    /// counted.
    pub sync_at_end: bool,
    /// Costs of a paper that weighs counts. If given, there is the figure `weighted_time_s`.
    pub weights: Option<Weights>,
    /// Costs of a paper that prices a program or read by the operation before it. If given, there is the
    /// figure `pattern_time_s`.
    pub pattern_prices: Option<PatternPrices>,
}

/// Costs of operations that depend on the operation before.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PatternPrices {
    /// The condition under which a program or read has the lower price.
    #[serde(default)]
    pub follows: Follows,
    /// Time of a program that meets the condition, in nanoseconds.
    pub next_program_ns: u64,
    /// Time of any other program, in nanoseconds.
    pub program_ns: u64,
    /// Time of a read that meets the condition. Absent means the same as any read.
    pub next_read_ns: Option<u64>,
    /// Time of any other read, in nanoseconds.
    pub read_ns: u64,
    /// Time of a block erase, in nanoseconds.
    pub erase_ns: u64,
}

/// The condition for the lower price of a program or read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Follows {
    /// The page comes next, in its block, after the last page of the same kind of operation.
    #[default]
    Block,
    /// The condition of `Block`, and the last page of its kind on the whole chip was in the same block.
    Chip,
}

impl PatternPrices {
    /// Time of these programs, reads and erases, in nanoseconds.
    pub(super) fn time_ns(&self, done: &PatternCounts, block_erases: u64) -> u64 {
        let (programs, reads) = match self.follows {
            Follows::Block => (done.programs_next_in_block, done.reads_next_in_block),
            Follows::Chip => (done.programs_next_on_chip, done.reads_next_on_chip),
        };
        programs * self.next_program_ns
            + (done.page_programs - programs) * self.program_ns
            + reads * self.next_read_ns.unwrap_or(self.read_ns)
            + (done.page_reads - reads) * self.read_ns
            + block_erases * self.erase_ns
    }
}

/// A group of phases, with figures of its own.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Sum {
    /// The name of the group in the names of its figures.
    pub name: String,
    /// The phases of the group.
    pub phases: Vec<String>,
}

/// Costs by which a paper weighs counts, independent of the chip.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Weights {
    /// Time of a page read, in nanoseconds.
    pub read_ns: u64,
    /// Time of a page program, in nanoseconds.
    pub program_ns: u64,
    /// Time of a block erase, in nanoseconds.
    pub erase_ns: u64,
    /// Time of a reference to a page in RAM, in nanoseconds.
    pub reference_ns: u64,
}

/// The settings of some cells of an experiment.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// The variant's name in cells.
    pub name: String,
    /// The inputs that it runs with. Empty means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<String>,
    /// Number of blocks of the chip, if it differs from the part's.
    pub blocks: Option<u32>,
    /// Number of blocks of the chip for single contenders, so that trees of different sizes fill the same
    /// share of their chips.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub blocks_of: BTreeMap<String, u32>,
    /// Bytes of a key, if they differ from the experiment's.
    pub key_bytes: Option<u8>,
    /// The durability class. The default is every operation.
    #[serde(default)]
    pub durable: Durable,
    /// RAM, the same for all contenders. Absent means no limit, and no cache that options do not ask for.
    pub memory: Option<Memory>,
    /// The contenders that take part. Empty means all.
    #[serde(default)]
    pub contenders: Vec<String>,
    /// Options of the indexes. Each contender gets those that its index knows.
    #[serde(default, deserialize_with = "texts")]
    pub options: BTreeMap<String, String>,
    /// Options of single contenders.
    #[serde(default, deserialize_with = "texts_of")]
    pub of: BTreeMap<String, BTreeMap<String, String>>,
}

/// A durability class, as it is named in experiments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Durable {
    /// Every operation is durable.
    #[default]
    Always,
    /// The state of the last sync survives a power cut. A write cache needs this class.
    BySync,
    /// Nothing is promised after a power cut, as for a tree that changes several pages on an FTL that
    /// writes one at a time.
    Never,
}

impl Durable {
    pub(super) fn named(name: &str) -> Result<Durable, LabError> {
        let all = [("always", Durable::Always), ("by_sync", Durable::BySync), ("never", Durable::Never)];
        let found = all.iter().find(|(known, _)| *known == name);
        found
            .map(|(_, class)| *class)
            .ok_or_else(|| LabError::unknown("class", name, all.iter().map(|c| c.0)))
    }

    pub(super) fn class(self) -> Durability {
        match self {
            Durable::Always => Durability::EveryOperation,
            Durable::BySync => Durability::EverySync,
            Durable::Never => Durability::None,
        }
    }
}

/// The study of access times: profiles of operations on media, for the index "bplus" and spatial ones.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Access {
    /// The profiles, by their letters.
    pub profiles: Vec<String>,
    /// The media: "flash", or names of disks.
    pub media: Vec<String>,
    /// Number of operations in a profile.
    pub operations: usize,
    /// Number of operations in a profile, in a smoke run.
    pub smoke_operations: usize,
    /// Number of entries inserted into an empty tree on flash to follow its height. 0 means that it is not
    /// followed.
    #[serde(default)]
    pub growth: usize,
    /// Number of entries inserted in a smoke run.
    #[serde(default)]
    pub smoke_growth: usize,
}

/// Sizes for smoke runs.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Smoke {
    /// Number of blocks of the chip, unless the variant gives it.
    pub blocks: Option<u32>,
    /// Options of the generators.
    #[serde(default, deserialize_with = "texts")]
    pub options: BTreeMap<String, String>,
    /// Number of operations taken from the bundled cut of a trace.
    pub trace_operations: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClaimsFile {
    #[serde(default, rename = "claim")]
    claims: Vec<Claim>,
}

static EXPERIMENTS: LazyLock<Vec<Experiment>> = LazyLock::new(|| FOLDERS.iter().map(parse).collect());

/// All built-in experiments.
pub fn list() -> &'static [Experiment] {
    &EXPERIMENTS
}

/// Parses a built-in folder. An error is a mistake in the program, so it panics; the tests find it.
fn parse(folder: &Folder) -> Experiment {
    let definition = parse_definition(folder.definition)
        .unwrap_or_else(|error| panic!("experiment.toml: {error}\n{}", folder.definition));
    let claims = parse_claims(folder.claims)
        .unwrap_or_else(|error| panic!("{}/expected.toml: {error}", definition.name));
    Experiment { definition, claims, notes: folder.notes.into() }
}

/// Parses the definition in an `experiment.toml`.
pub fn parse_definition(text: &str) -> Result<Definition, String> {
    toml::from_str(text).map_err(|error| error.to_string())
}

/// Parses the claims in an `expected.toml`.
pub fn parse_claims(text: &str) -> Result<Vec<Claim>, String> {
    let file: ClaimsFile = toml::from_str(text).map_err(|error| error.to_string())?;
    Ok(file.claims)
}

//! An experiment as data: the files of its folder, built into the program.
//!
//! `experiment.toml` says what runs: inputs x variants x contenders, each combination a *cell* named
//! `input/variant/contender`. `expected.toml` says what the paper claims of it (see [`crate::repro`]).
//! `README.md` holds the notes: set-up, what the paper leaves open, what is assumed.

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

/// An experiment: a figure or table of a paper.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// The definition of what runs.
    pub definition: Definition,
    /// The claims that the paper makes of it.
    pub claims: Vec<Claim>,
    /// The experiment's notes, in Markdown.
    pub notes: Cow<'static, str>,
}

/// The definition of what an experiment runs: the keys of its file, side by side as they stand there, so that
/// an unknown one is refused with those that there are. What is made of them is made by their own types.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// The experiment's name, that of its folder, or of its file where it gives none.
    #[serde(default)]
    pub name: String,
    /// The paper: "mu", "wpcb"; empty for an experiment of one's own.
    #[serde(default)]
    pub paper: String,
    /// The figure, table or section.
    #[serde(default)]
    pub shows: String,
    /// The subject of the experiment, in one line.
    #[serde(default)]
    pub summary: String,
    /// The chip, by its name in the catalogue, or a chip file.
    pub chip: String,
    /// Bytes of a key.
    #[serde(default = "four")]
    pub key_bytes: u8,
    /// Bytes of a value.
    #[serde(default = "four")]
    pub value_bytes: u8,
    /// Seeds of generated workloads when none are asked for; a trace runs once.
    #[serde(default = "one")]
    pub seeds: u32,
    /// The contender that the others are compared with seed by seed; the first one when empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub baseline: String,
    /// The figures that are compared so; flash time of each measured phase when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compared: Vec<String>,
    /// The number of extreme values left out on either side: of so many seeds the highest and of as many the
    /// lowest value of each figure does not count, where enough others are left.
    #[serde(default)]
    pub trimmed: usize,
    /// Indexes that take part as they are, by their names in the registry.
    #[serde(default)]
    pub indexes: Vec<String>,
    /// Indexes that take part with options, under names of their own.
    #[serde(default, rename = "contender")]
    pub contenders: Vec<Contender>,
    /// How the runs are carried out.
    #[serde(default)]
    pub run: Conduct,
    /// Phases whose costs are wanted together.
    #[serde(default, rename = "sum")]
    pub sums: Vec<Sum>,
    /// Workloads.
    #[serde(default, rename = "input")]
    pub inputs: Vec<Input>,
    /// Settings.
    #[serde(default, rename = "variant")]
    pub variants: Vec<Variant>,
    /// Cells that are computed rather than run over a workload, see `derived`.
    #[serde(default)]
    pub derived: Vec<String>,
    /// The study of access times, see `access`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<Access>,
    /// The plots of the experiment.
    #[serde(default, rename = "plot")]
    pub plots: Vec<Plot>,
    /// Page traces replayed on FTLs, see `replays`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<Replays>,
    /// The sizes that are smaller in a smoke run.
    #[serde(default)]
    pub smoke: Smoke,
    /// Where the experiment comes from.
    #[serde(skip)]
    pub source: Source,
}

/// Where an experiment comes from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Source {
    /// The folder of an experiment of one's own; its traces and chips are looked for there first.
    pub folder: Option<PathBuf>,
    /// How the command line named it, with what it set; the name alone when absent.
    pub called: Option<String>,
}

impl Source {
    /// The file beside the experiment's own, if it is there.
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

/// Page traces of an experiment, each on all the devices.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Replays {
    /// The traces.
    pub traces: Vec<PageTrace>,
    /// The devices that the traces are replayed on.
    pub devices: Vec<Device>,
}

impl Replays {
    /// The beginning of the cells' names.
    pub const CELLS: &str = "traces";
}

/// A page trace.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PageTrace {
    /// The trace's name in cells.
    pub name: String,
    /// The full trace, a file in the data folder. What is bundled of it stands in when it is not there.
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
    /// The device's options.
    #[serde(default, deserialize_with = "texts")]
    pub options: BTreeMap<String, String>,
}

/// A workload of an experiment.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The input's name in cells.
    pub name: String,
    /// A generator.
    pub workload: Option<String>,
    /// The generator's options.
    #[serde(default, deserialize_with = "texts")]
    pub options: BTreeMap<String, String>,
    /// A trace.
    pub trace: Option<TraceInput>,
    /// Whether several indexes of a trace run as one tree or as a tree each.
    #[serde(default)]
    pub trees: Trees,
}

/// A trace of an experiment.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TraceInput {
    /// The full trace, a file in the data folder.
    pub file: String,
    /// Whether the bundled cut stands in when the full trace is not there.
    #[serde(default)]
    pub bundled_cut: bool,
    /// Whether claims are judged by the cut as by the full trace.
    #[serde(default)]
    pub judge_cut: bool,
    /// Bit 0 of a range's flags means that it runs downwards (true of the OLTP-A and OLAP-B captures).
    #[serde(default)]
    pub descending_flag: bool,
    /// Only so many of the first operations.
    pub operations: Option<u64>,
}

/// How the runs of an experiment are carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Conduct {
    /// Measure processor time. The only figure that is not the same at every run.
    pub cpu_time: bool,
    /// Sync after each phase that is not measured, so that nothing of a load waits in a pool or cache any
    /// more.
    pub sync_after_load: bool,
    /// Sync after the last operation, counted: what still waits is paid for like the rest.
    pub sync_at_end: bool,
    /// The costs of operations in a paper that weighs counts; with it there is the figure `weighted_time_s`.
    pub weights: Option<Weights>,
    /// The costs of operations in a paper that prices a program or a read by what came before it; with it
    /// there is the figure `pattern_time_s`.
    pub pattern_prices: Option<PatternPrices>,
}

/// Costs of operations by what came before them.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PatternPrices {
    /// The operation that a program or a read must follow to have the lower price.
    #[serde(default)]
    pub follows: Follows,
    /// The time of a program that follows.
    pub next_program_ns: u64,
    /// The time of any other program.
    pub program_ns: u64,
    /// The time of a read that follows, if another than of any read.
    pub next_read_ns: Option<u64>,
    /// The time of any other read.
    pub read_ns: u64,
    /// The time of a block erase.
    pub erase_ns: u64,
}

/// The operation that a program or a read follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Follows {
    /// The last one of its kind in its block, page after page.
    #[default]
    Block,
    /// The last one of its kind in its block, page after page, and the last one of its kind on the chip.
    Chip,
}

impl PatternPrices {
    /// The time of so many programs, reads and erases.
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

/// Several phases taken as one, with figures of its own.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Sum {
    /// The sum's name in figures.
    pub name: String,
    /// The phases.
    pub phases: Vec<String>,
}

/// Costs by which a paper weighs counts, whatever the chip's are.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Weights {
    /// The time of a page read.
    pub read_ns: u64,
    /// The time of a page program.
    pub program_ns: u64,
    /// The time of a block erase.
    pub erase_ns: u64,
    /// The time of a reference to a page in RAM.
    pub reference_ns: u64,
}

/// Settings of an experiment.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// The variant's name in cells.
    pub name: String,
    /// The inputs it runs with, if not all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<String>,
    /// Blocks of the chip, if others than the part has.
    pub blocks: Option<u32>,
    /// Blocks of the chips of single contenders, so that trees of different sizes fill the same share of
    /// theirs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub blocks_of: BTreeMap<String, u32>,
    /// Bytes of a key, if others than the experiment's.
    pub key_bytes: Option<u8>,
    /// The durability class: every operation unless it says otherwise.
    #[serde(default)]
    pub durable: Durable,
    /// RAM, the same for all; without it no limit, and no cache but what options ask for.
    pub memory: Option<Memory>,
    /// Who takes part, if not all.
    #[serde(default)]
    pub contenders: Vec<String>,
    /// Options; each contender gets those it knows.
    #[serde(default, deserialize_with = "texts")]
    pub options: BTreeMap<String, String>,
    /// Options of single contenders.
    #[serde(default, deserialize_with = "texts_of")]
    pub of: BTreeMap<String, BTreeMap<String, String>>,
}

/// A durability class, as experiments name it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Durable {
    /// Every operation.
    #[default]
    Always,
    /// The contents at the last sync survive, which a write cache needs.
    BySync,
    /// Nothing after a cut, as with a tree of several pages on an FTL that writes one page at a time.
    Never,
}

impl Durable {
    /// The class of this name.
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

/// Profiles of operations over media, for the contenders of the experiment: the index "bplus", and spatial
/// ones.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Access {
    /// The profiles by their letters.
    pub profiles: Vec<String>,
    /// "flash", or the names of disks.
    pub media: Vec<String>,
    /// Operations of a profile.
    pub operations: usize,
    /// Operations of a smoke run.
    pub smoke_operations: usize,
    /// Entries inserted into an empty tree on flash whose height is followed; 0 for none.
    #[serde(default)]
    pub growth: usize,
    /// The growth in a smoke run.
    #[serde(default)]
    pub smoke_growth: usize,
}

/// The sizes that are smaller in a smoke run.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Smoke {
    /// Blocks of the chip, where the variant names none.
    pub blocks: Option<u32>,
    /// Options of the generators.
    #[serde(default, deserialize_with = "texts")]
    pub options: BTreeMap<String, String>,
    /// Operations of the bundled cut of a trace.
    pub trace_operations: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClaimsFile {
    #[serde(default, rename = "claim")]
    claims: Vec<Claim>,
}

static EXPERIMENTS: LazyLock<Vec<Experiment>> = LazyLock::new(|| FOLDERS.iter().map(parse).collect());

/// Every experiment.
pub fn list() -> &'static [Experiment] {
    &EXPERIMENTS
}

/// A folder that does not parse is a mistake in the program, found by the tests below.
fn parse(folder: &Folder) -> Experiment {
    let definition = parse_definition(folder.definition)
        .unwrap_or_else(|error| panic!("experiment.toml: {error}\n{}", folder.definition));
    let claims = parse_claims(folder.claims)
        .unwrap_or_else(|error| panic!("{}/expected.toml: {error}", definition.name));
    Experiment { definition, claims, notes: folder.notes.into() }
}

/// The definition that an `experiment.toml` holds.
pub fn parse_definition(text: &str) -> Result<Definition, String> {
    toml::from_str(text).map_err(|error| error.to_string())
}

/// The claims that an `expected.toml` holds.
pub fn parse_claims(text: &str) -> Result<Vec<Claim>, String> {
    let file: ClaimsFile = toml::from_str(text).map_err(|error| error.to_string())?;
    Ok(file.claims)
}

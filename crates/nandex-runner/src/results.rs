//! The results of a run: plain data with units in the names, the same facts for table, JSON, CSV and report.

use crate::latency::LatencyHistogram;
use crate::workload::{LENGTHS, Workload};
use nandex::nand::{Cause, Part};
use nandex_stacks::options::Settings;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;

/// Kinds of operations in the order they are shown.
pub const KINDS: [&str; 9] =
    ["get", "search", "window", "nearest", "insert", "update", "remove", "range", "sync"];

/// Added to the storage of what runs on pages that the chip has not.
pub const AS_NOR: &str = ", as NOR";

/// Everything one command measured, with what is needed to repeat it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Results {
    /// Version of this layout; it rises when a field changes its meaning.
    pub schema: u32,
    /// Version of Nandex.
    pub nandex_version: &'static str,
    /// The commit that the program was built from; absent where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The command that yields the same results again.
    pub command: String,
    /// The chip.
    pub chip: ChipFacts,
    /// The workload and its settings.
    pub workload: WorkloadFacts,
    /// One row per index and seed, in the order asked for.
    pub runs: Vec<Run>,
    /// One sentence of conclusion; empty until a report draws it (`summary::conclusion` of `nandex-report`).
    pub conclusion: String,
}

/// The chip of a run.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct ChipFacts {
    /// Name in the catalogue, or the file it came from.
    pub name: String,
    /// Bytes of a page's data area.
    pub page_bytes: u32,
    /// Bytes of a page's spare area.
    pub spare_bytes: u32,
    /// Pages of a block.
    pub pages_per_block: u32,
    /// Blocks of the chip.
    pub blocks: u32,
    /// Time of a whole page read, transfer included.
    pub page_read_ns: u64,
    /// Time of a whole page program, transfer included.
    pub page_program_ns: u64,
    /// Time of a block erase.
    pub block_erase_ns: u64,
    /// Erases a block is specified for.
    pub endurance_erases: u32,
}

/// The workload of a run.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct WorkloadFacts {
    /// Name of the generator, or of the trace file.
    pub name: String,
    /// Bytes of a key.
    pub key_bytes: u8,
    /// Bytes of a value.
    pub value_bytes: u8,
    /// Operations in all phases together.
    pub operations: u64,
    /// RAM given to each index, tables included; absent when unlimited.
    pub ram_bytes: Option<u64>,
    /// Durability class asked for.
    pub durability: String,
    /// Options set with `--set`.
    pub options: BTreeMap<String, String>,
}

/// One index over one workload with one seed.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Run {
    /// Name of the index in the registry.
    pub index: String,
    /// The storage below the index: "raw" or the FTL and cache.
    pub storage: String,
    /// Seed of the workload; 0 for a trace.
    pub seed: u64,
    /// Why the run could not start or had to stop; the figures then cover what was done before.
    pub error: Option<String>,
    /// Durability class the index declares with these settings.
    pub durability: String,
    /// RAM the index holds: the most seen at the ends of the phases.
    pub ram_bytes: u64,
    /// Levels from leaf to root at the end; one leaf is 1.
    pub height: u32,
    /// Records at the end.
    pub records: u64,
    /// Nodes that the check at the end visited; 0 without a check.
    pub nodes: u64,
    /// Pages that hold live data at the end.
    pub live_pages: u64,
    /// Bytes of those pages over bytes of the records.
    pub space_amplification: f64,
    /// Phases in the order they ran.
    pub phases: Vec<Phase>,
    /// Erases of each block since the format, in block order.
    pub wear_erases: Vec<u32>,
    /// Figures of this index alone, as it names them.
    pub metrics: BTreeMap<String, u64>,
    /// The costs of finding the index again at the end, as a power cut leaves it; absent where that was not
    /// tried, or it cannot be found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount: Option<Costs>,
    /// The costs of finding it again once it was closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount_closed: Option<Costs>,
    /// The smallest RAM with which the index starts on this chip with these settings, in bytes; absent where
    /// that was not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ram_needed_bytes: Option<u64>,
}

/// One phase of a workload, such as the load or the retrievals.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Phase {
    /// The phase's name.
    pub name: String,
    /// Whether it counts in the totals (a load usually does not).
    pub measured: bool,
    /// Operations and their costs by kind: "get", "insert", "remove", "update", "range", "sync".
    #[serde(deserialize_with = "with_known_names")]
    pub kinds: BTreeMap<&'static str, Costs>,
    /// Operations on the chip by cause ("host", "garbage_collection", ...).
    #[serde(deserialize_with = "with_known_names")]
    pub causes: BTreeMap<&'static str, CauseCounts>,
    /// How the chip was read and programmed; absent where that was not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patterns: Option<PatternCounts>,
    /// Everything in the phase together. Its costs include those of syncs, its number of operations does not.
    pub total: Costs,
    /// Bytes programmed into data areas over bytes of the records inserted, updated and removed; 0 where
    /// there are none.
    pub write_amplification: f64,
    /// Time of the processor in index, FTL and cache, measured apart from flash time and never mixed into it.
    pub cpu_ns: u64,
    /// Energy of the chip.
    pub energy_nj: u64,
    /// Cache hits and misses, page granular.
    pub cache_hits: u64,
    /// See `cache_hits`.
    pub cache_misses: u64,
    /// Victim blocks reclaimed.
    pub collections: u64,
    /// Pages that hold live data at the end of the phase.
    pub live_pages: u64,
    /// Figures of this index alone at the end of the phase, as it names them.
    pub metrics: BTreeMap<String, u64>,
    /// Flash time accumulated over the operations, at most a few hundred samples.
    pub timeline: Vec<Sample>,
    /// Chip time of single operations, syncs among them.
    #[serde(default, skip_serializing_if = "LatencyHistogram::is_empty")]
    pub latencies: LatencyHistogram,
}

/// The costs of some operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Costs {
    /// How many operations.
    pub operations: u64,
    /// Page reads.
    pub page_reads: u64,
    /// Page programs.
    pub page_programs: u64,
    /// Block erases.
    pub block_erases: u64,
    /// Simulated time of the chip.
    pub flash_time_ns: u64,
    /// The largest flash time of one operation.
    pub flash_time_max_ns: u64,
}

/// The layout of [`Results`] described in `docs/metrics.md`.
pub const SCHEMA: u32 = 1;

impl Results {
    /// The results without processor time, the only figure that is not the same at every run: what golden
    /// files hold.
    #[must_use]
    pub fn without_cpu_time(&self) -> Results {
        let mut results = self.clone();
        results.runs.iter_mut().flat_map(|run| &mut run.phases).for_each(|phase| phase.cpu_ns = 0);
        results
    }
}

impl ChipFacts {
    /// The facts of a part.
    pub fn of(part: &Part) -> ChipFacts {
        ChipFacts {
            name: part.name.to_string(),
            page_bytes: part.geometry.page_bytes,
            spare_bytes: part.geometry.spare_bytes,
            pages_per_block: part.geometry.pages_per_block,
            blocks: part.geometry.blocks,
            page_read_ns: part.page_read_ns(),
            page_program_ns: part.page_program_ns(),
            block_erase_ns: part.timing.erase_ns,
            endurance_erases: part.endurance_erases,
        }
    }
}

impl WorkloadFacts {
    /// The facts of a workload that runs with these settings; its own options and those set for indexes
    /// together.
    pub fn of(workload: &Workload, settings: &Settings) -> WorkloadFacts {
        WorkloadFacts::with(settings, &workload.name, workload.operations(), &workload.options)
    }

    /// Bytes of a value, or those of the shortest and of the longest where they differ.
    pub fn bytes_of_values(&self) -> String {
        let of_all = || self.value_bytes.to_string();
        self.options.get(LENGTHS).map_or_else(of_all, |ends| ends.replace("..", " to "))
    }

    /// The facts of any workload of this name, with so many operations and these options of its own.
    pub(crate) fn with(
        settings: &Settings,
        name: &str,
        operations: u64,
        options: &BTreeMap<String, String>,
    ) -> WorkloadFacts {
        let set = settings.options.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        WorkloadFacts {
            name: name.to_string(),
            key_bytes: settings.record.key_bytes,
            value_bytes: settings.record.value_bytes,
            operations,
            ram_bytes: settings.ram_bytes.map(|bytes| bytes as u64),
            durability: settings.durability.name().to_string(),
            options: options.clone().into_iter().chain(set).collect(),
        }
    }
}

impl Costs {
    /// The costs of both together.
    #[must_use]
    pub fn plus(&self, other: &Costs) -> Costs {
        Costs {
            operations: self.operations + other.operations,
            page_reads: self.page_reads + other.page_reads,
            page_programs: self.page_programs + other.page_programs,
            block_erases: self.block_erases + other.block_erases,
            flash_time_ns: self.flash_time_ns + other.flash_time_ns,
            flash_time_max_ns: self.flash_time_max_ns.max(other.flash_time_max_ns),
        }
    }
}

/// Operations on the chip for one cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct CauseCounts {
    /// Page reads.
    pub page_reads: u64,
    /// Page programs.
    pub page_programs: u64,
    /// Block erases.
    pub block_erases: u64,
}

/// Programs and reads by what came before them: those that follow the last one of their kind, page after
/// page, in the same block; and those among them that no other of their kind came between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct PatternCounts {
    /// Page programs.
    pub page_programs: u64,
    /// To the page after the one programmed last in the same block since its erase.
    pub programs_next_in_block: u64,
    /// The programs among them to the block that was programmed last.
    pub programs_next_on_chip: u64,
    /// Page reads.
    pub page_reads: u64,
    /// The reads of the page after the one read last in the same block since its erase.
    pub reads_next_in_block: u64,
    /// The reads among them of the block that was read last.
    pub reads_next_on_chip: u64,
}

impl PatternCounts {
    fn by_field(&self, other: &PatternCounts, apply: impl Fn(u64, u64) -> u64) -> PatternCounts {
        PatternCounts {
            page_programs: apply(self.page_programs, other.page_programs),
            programs_next_in_block: apply(self.programs_next_in_block, other.programs_next_in_block),
            programs_next_on_chip: apply(self.programs_next_on_chip, other.programs_next_on_chip),
            page_reads: apply(self.page_reads, other.page_reads),
            reads_next_in_block: apply(self.reads_next_in_block, other.reads_next_in_block),
            reads_next_on_chip: apply(self.reads_next_on_chip, other.reads_next_on_chip),
        }
    }

    /// The counts since `earlier`, a former state of the same counts.
    #[must_use]
    pub fn since(&self, earlier: &PatternCounts) -> PatternCounts {
        self.by_field(earlier, |now, then| now - then)
    }

    /// The counts of both together.
    #[must_use]
    pub fn plus(&self, other: &PatternCounts) -> PatternCounts {
        self.by_field(other, |one, other| one + other)
    }
}

/// A point of the accumulated flash time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Sample {
    /// Operations done.
    pub operations: u64,
    /// Flash time so far, within the phase.
    pub flash_time_ns: u64,
}

/// The causes that have columns of a CSV file. Scrubbing has none: the chips of runs report no corrected
/// bits, and results in JSON name each cause that did anything.
pub const CAUSE_COLUMNS: [Cause; 8] = {
    let [first @ .., Cause::Scrubbing] = Cause::COUNTED else { panic!("another cause is the last") };
    first
};

/// Reads a map whose keys are names of the program: kinds of operations or causes.
fn with_known_names<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<BTreeMap<&'static str, T>, D::Error> {
    let known = |name: &str| {
        let mut names = KINDS.into_iter().chain(Cause::COUNTED.iter().map(|cause| cause.name()));
        names
            .find(|known| *known == name)
            .ok_or_else(|| D::Error::custom(format!("no kind or cause '{name}'")))
    };
    let read = BTreeMap::<String, T>::deserialize(from)?;
    read.into_iter().map(|(name, value)| Ok((known(&name)?, value))).collect()
}

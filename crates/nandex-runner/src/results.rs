//! The results of a run: plain data with units in the names, the same facts for table, JSON, CSV and report.

use crate::latency::LatencyHistogram;
use crate::workload::{LENGTHS, Workload};
use nandex::nand::{Cause, Part};
use nandex_stacks::options::Settings;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;

/// The kinds of operations, in the order in which they are shown.
pub const KINDS: [&str; 9] =
    ["get", "search", "window", "nearest", "insert", "update", "remove", "range", "sync"];

/// Suffix of the storage's name if the index runs on pages of another size than the chip's.
pub const AS_NOR: &str = ", as NOR";

/// Everything that one command measured, and everything needed to repeat it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Results {
    /// Version of this layout. It rises when a field changes its meaning.
    pub schema: u32,
    /// Version of Nandex.
    pub nandex_version: &'static str,
    /// The commit that the program was built from; absent if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The command that yields the same results again.
    pub command: String,
    /// Facts about the chip.
    pub chip: ChipFacts,
    /// The workload and its settings.
    pub workload: WorkloadFacts,
    /// The results of each index and seed, in the order asked for.
    pub runs: Vec<Run>,
    /// A conclusion in one sentence; empty until a report draws it (`summary::conclusion` of
    /// `nandex-report`).
    pub conclusion: String,
}

/// Facts about the chip of a run.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct ChipFacts {
    /// Name in the catalogue, or the file that describes the chip.
    pub name: String,
    /// Size of a page's data area, in bytes.
    pub page_bytes: u32,
    /// Size of a page's spare area, in bytes.
    pub spare_bytes: u32,
    /// Pages per block.
    pub pages_per_block: u32,
    /// Number of blocks.
    pub blocks: u32,
    /// Time of a whole page read including the transfer, in ns.
    pub page_read_ns: u64,
    /// Time of a whole page program including the transfer, in ns.
    pub page_program_ns: u64,
    /// Time of a block erase, in ns.
    pub block_erase_ns: u64,
    /// Number of erases that a block is specified for.
    pub endurance_erases: u32,
}

/// Facts about the workload of a run.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct WorkloadFacts {
    /// Name of the generator, or of the trace file.
    pub name: String,
    /// Size of a key, in bytes.
    pub key_bytes: u8,
    /// Size of a value, in bytes.
    pub value_bytes: u8,
    /// Number of operations of all phases together.
    pub operations: u64,
    /// RAM of each index including its tables, in bytes; absent if unlimited.
    pub ram_bytes: Option<u64>,
    /// The durability class asked for.
    pub durability: String,
    /// Options set with `--set`.
    pub options: BTreeMap<String, String>,
}

/// The results of one index on one workload with one seed.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Run {
    /// Name of the index in the registry.
    pub index: String,
    /// The storage below the index: "raw", or the FTL and the cache.
    pub storage: String,
    /// Seed of the workload; 0 for a trace.
    pub seed: u64,
    /// The reason why the run could not start or had to stop; the figures then cover the work until then.
    pub error: Option<String>,
    /// The durability class that the index has with these settings.
    pub durability: String,
    /// RAM of the index in bytes: the largest value at the ends of the phases.
    pub ram_bytes: u64,
    /// Number of levels from leaf to root at the end; a single leaf has 1.
    pub height: u32,
    /// Number of records at the end.
    pub records: u64,
    /// Number of nodes that the final check visited; 0 without a check.
    pub nodes: u64,
    /// Number of pages with live data at the end.
    pub live_pages: u64,
    /// Bytes of the pages with live data divided by bytes of the records.
    pub space_amplification: f64,
    /// The phases, in the order in which they ran.
    pub phases: Vec<Phase>,
    /// Number of erases of each block since the format, in block order.
    pub wear_erases: Vec<u32>,
    /// Figures that only this index has, by name.
    pub metrics: BTreeMap<String, u64>,
    /// Costs of mounting the index after a power cut at the end; absent if that was not tried or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount: Option<Costs>,
    /// Costs of mounting the index after it was closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount_closed: Option<Costs>,
    /// Costs of the first change after the power cut and the mount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_change: Option<Costs>,
    /// Costs of the first thousand operations after the power cut and the mount, the first change among
    /// them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Costs>,
    /// The smallest RAM in bytes with which the index starts on this chip with these settings; absent if it
    /// was not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ram_needed_bytes: Option<u64>,
}

/// The results of one phase of a workload, such as the load or the retrievals.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Phase {
    /// The phase's name.
    pub name: String,
    /// Whether the phase counts in the totals. A load usually does not.
    pub measured: bool,
    /// Operations and their costs by kind: "get", "insert", "remove", "update", "range", "sync" and so on.
    #[serde(deserialize_with = "with_known_names")]
    pub kinds: BTreeMap<&'static str, Costs>,
    /// Operations on the chip by cause, such as "host" or "garbage_collection".
    #[serde(deserialize_with = "with_known_names")]
    pub causes: BTreeMap<&'static str, CauseCounts>,
    /// Patterns of the chip's programs and reads; absent if they were not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patterns: Option<PatternCounts>,
    /// Sum over the phase. The costs of syncs are in it, but syncs do not count as operations.
    pub total: Costs,
    /// Bytes programmed into data areas divided by bytes of the records inserted, updated and removed; 0
    /// without such records.
    pub write_amplification: f64,
    /// Processor time in index, FTL and cache, in ns. It is measured separately from flash time and never
    /// added to it.
    pub cpu_ns: u64,
    /// Energy that the chip used, in nJ.
    pub energy_nj: u64,
    /// Number of cache hits, counted in pages.
    pub cache_hits: u64,
    /// Number of cache misses, counted in pages.
    pub cache_misses: u64,
    /// Number of victim blocks reclaimed.
    pub collections: u64,
    /// Number of pages with live data at the end of the phase.
    pub live_pages: u64,
    /// Figures that only this index has at the end of the phase, by name.
    pub metrics: BTreeMap<String, u64>,
    /// Flash time accumulated over the operations, as a few hundred samples at most.
    pub timeline: Vec<Sample>,
    /// Chip times of the single operations, syncs included.
    #[serde(default, skip_serializing_if = "LatencyHistogram::is_empty")]
    pub latencies: LatencyHistogram,
}

/// The costs of a number of operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Costs {
    /// Number of operations.
    pub operations: u64,
    /// Number of page reads.
    pub page_reads: u64,
    /// Number of page programs.
    pub page_programs: u64,
    /// Number of block erases.
    pub block_erases: u64,
    /// Simulated time of the chip, in ns.
    pub flash_time_ns: u64,
    /// Largest flash time of one operation, in ns.
    pub flash_time_max_ns: u64,
}

/// Version of the layout of [`Results`], which `docs/metrics.md` describes.
pub const SCHEMA: u32 = 1;

impl Results {
    /// The results without processor time, for golden files: all other figures are the same in every run.
    #[must_use]
    pub fn without_cpu_time(&self) -> Results {
        let mut results = self.clone();
        results.runs.iter_mut().flat_map(|run| &mut run.phases).for_each(|phase| phase.cpu_ns = 0);
        results
    }
}

impl ChipFacts {
    /// The facts about a part.
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
    /// Facts about a workload that runs with these settings. The options are those of the workload and of the
    /// indexes.
    pub fn of(workload: &Workload, settings: &Settings) -> WorkloadFacts {
        WorkloadFacts::with(settings, &workload.name, workload.operations(), &workload.options)
    }

    /// Size of a value in bytes, or the shortest and the longest size if they differ.
    pub fn bytes_of_values(&self) -> String {
        let of_all = || self.value_bytes.to_string();
        self.options.get(LENGTHS).map_or_else(of_all, |ends| ends.replace("..", " to "))
    }

    /// The facts about any workload with this name, number of operations and options.
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

/// Flash time of the mount after a power cut and of the first change then. Of a workload without changes, of
/// the mount.
pub fn mount_and_change_ns(run: &Run) -> Option<u64> {
    let change = run.first_change.map_or(0, |costs| costs.flash_time_ns);
    run.mount.map(|mount| mount.flash_time_ns + change)
}

impl Costs {
    /// The sum of both costs.
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

/// Number of operations on the chip for one cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct CauseCounts {
    /// Number of page reads.
    pub page_reads: u64,
    /// Number of page programs.
    pub page_programs: u64,
    /// Number of block erases.
    pub block_erases: u64,
}

/// Numbers of programs and reads, and how many of them follow the previous one of their kind. An operation
/// follows *in its block* if it is on the next page of that block. It follows *on the chip* if no other block
/// was used in between either.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct PatternCounts {
    /// Number of page programs.
    pub page_programs: u64,
    /// Number of programs to the page after the one programmed last in the same block since its erase.
    pub programs_next_in_block: u64,
    /// Programs that follow in their block, which was also the last one programmed.
    pub programs_next_on_chip: u64,
    /// Number of page reads.
    pub page_reads: u64,
    /// Number of reads of the page after the one read last in the same block since its erase.
    pub reads_next_in_block: u64,
    /// Reads that follow in their block, which was also the last one read.
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

    /// The counts since `earlier`, a former state of these counts.
    #[must_use]
    pub fn since(&self, earlier: &PatternCounts) -> PatternCounts {
        self.by_field(earlier, |now, then| now - then)
    }

    /// The sum of both counts.
    #[must_use]
    pub fn plus(&self, other: &PatternCounts) -> PatternCounts {
        self.by_field(other, |one, other| one + other)
    }
}

/// A sample of the accumulated flash time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Sample {
    /// Number of operations done.
    pub operations: u64,
    /// Flash time since the start of the phase, in ns.
    pub flash_time_ns: u64,
}

/// The causes that have columns in CSV files. Scrubbing has none because the chips of runs report no
/// corrected bits; results in JSON name every cause that did anything.
pub const CAUSE_COLUMNS: [Cause; 8] = {
    let [first @ .., Cause::Scrubbing] = Cause::COUNTED else { panic!("another cause is the last") };
    first
};

/// Reads a map whose keys are kinds of operations or causes, so that the keys can be static strings.
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

//! The command line as plain data. Values are checked where they are parsed, so that a bad one names its flag.

use crate::output::Target;
use crate::parse;
use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use nandex::nand::Part;
use nandex::ordered::{Durability, RecordFormat};
use nandex_lab::registry::IndexEntry;
use nandex_lab::workload::WorkloadEntry;
use std::path::PathBuf;

/// What the exit codes mean.
pub(crate) const AFTER_HELP: &str = "\
Results go to stdout, progress and messages to stderr.
Exit codes: 0 done; 1 a run stopped, an invariant is broken or a file could not be written; 2 a request that makes no sense.";

/// Indexes for flash memory, measured: compare them on a chip over a workload, and check their images.
#[derive(Debug, Parser)]
#[command(name = "nandex", version, after_help = AFTER_HELP, max_term_width = 110)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run indexes over a workload at the same RAM, and show a table, a conclusion and a report.
    Compare(Box<Compare>),
    /// Find the index in the image of a chip and check its invariants.
    Check(Check),
    /// List what there is by name.
    List(List),
}

#[derive(Debug, ClapArgs)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Compare {
    /// Part of the catalogue (nandex list chips), or a chip file.
    #[arg(long, value_name = "PART|FILE", default_value = "mlc-64m", value_parser = parse::chip)]
    pub(crate) chip: Part,
    /// Generator of operations (nandex list workloads).
    #[arg(long, value_name = "NAME", default_value = "mu", value_parser = parse::workload)]
    pub(crate) workload: &'static WorkloadEntry,
    /// Trace of operations instead of a generator; NAME.init.ops beside NAME.ops holds the contents before it.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["workload", "seed", "seeds"])]
    pub(crate) trace: Option<PathBuf>,
    /// Refuse a trace whose operations contradict each other.
    #[arg(long, requires = "trace")]
    pub(crate) strict: bool,
    /// Indexes to compare, separated by commas (nandex list indexes) [default: all].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse::index)]
    pub(crate) index: Vec<&'static IndexEntry>,
    /// RAM for each index, tables included, such as 64KiB; what its tables leave is its cache [default: no cache].
    #[arg(long, value_name = "BYTES", value_parser = parse::bytes)]
    pub(crate) ram: Option<usize>,
    /// What an index has to promise about a power cut: every-operation, every-sync or none.
    #[arg(long, value_name = "CLASS", default_value = "every-operation", value_parser = parse::durability)]
    pub(crate) durability: Durability,
    /// Bytes of a key and of a value.
    #[arg(long, value_name = "KEY/VALUE", default_value = "4/4", value_parser = parse::record)]
    pub(crate) record: RecordFormat,
    /// Operations: of the measured part of a generator, or at most so many of a trace.
    #[arg(long, value_name = "N", value_parser = parse::count)]
    pub(crate) ops: Option<u64>,
    /// Seed of the workload, the first one of several.
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true)]
    pub(crate) seed: u64,
    /// Seeds to run, for means and intervals.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) seeds: u64,
    /// Option of the workload or of an index (nandex list workloads, nandex list indexes); may be repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse::option)]
    pub(crate) set: Vec<(String, String)>,
    /// Sync after so many changes.
    #[arg(long, value_name = "N", value_parser = parse::count)]
    pub(crate) sync_every: Option<u64>,
    /// Runs at a time [default: as many as there are cores]; it changes no result.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) threads: Option<u16>,
    /// Write the results as JSON; - for stdout, then without the table.
    #[arg(long, value_name = "FILE|-")]
    pub(crate) json: Option<Target>,
    /// Write the results as CSV; - for stdout, then without the table.
    #[arg(long, value_name = "FILE|-")]
    pub(crate) csv: Option<Target>,
    /// Write a report that opens in a browser, all in one file.
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Check {
    /// Image of a chip, compressed or not.
    pub(crate) image: PathBuf,
    /// Bytes of a key and of a value [default: 4/4, 8/4, 8/8 and 16/8 are tried].
    #[arg(long, value_name = "KEY/VALUE", value_parser = parse::record)]
    pub(crate) record: Option<RecordFormat>,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct List {
    /// What to list.
    pub(crate) what: Listed,
    /// As JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Listed {
    /// Parts of the catalogue.
    Chips,
    /// Indexes with their options.
    Indexes,
    /// Flash translation layers with their options.
    Ftls,
    /// Generators of operations with their options.
    Workloads,
}

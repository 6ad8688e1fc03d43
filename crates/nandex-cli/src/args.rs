//! The command line as plain data. Values are checked where they are parsed, so that a bad one names its
//! flag.

use crate::advise_args::Advise;
use crate::device_args::Device;
use crate::forecast_args::Forecast;
use crate::look_args::{Check, Inspect, Play, Serve};
use crate::output::{AFTER_HELP, Files};
use crate::parse::{self, Choice, ReplayTarget};
use crate::torture_args::Torture;
use crate::trace_args::{Capture, Cells, Import, Sweep, Trace};
use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use nandex::nand::Part;
use nandex::ordered::{Durability, RecordFormat};
use nandex::spatial::Rect;
use nandex_lab::block_trace::{BlockFormat, Event};
use nandex_lab::crash::{ChipFailures, CutPoint, Cuts, SMALL_CHIP};
use nandex_lab::registry::{IndexEntry, StoreEntry};
use nandex_lab::spatial::SpatialEntry;
use nandex_lab::workload::WorkloadEntry;
use std::path::PathBuf;

/// The version, with whether this build has debug assertions.
const VERSION: &str = if cfg!(debug_assertions) {
    concat!(env!("CARGO_PKG_VERSION"), ", debug assertions on")
} else {
    concat!(env!("CARGO_PKG_VERSION"), ", debug assertions off")
};

/// Indexes for flash memory, measured: compared on a chip over a workload, reproduced from their papers,
/// crash-tested.
#[derive(Debug, Parser)]
#[command(name = "nandex", version = VERSION, after_help = AFTER_HELP, max_term_width = 110)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run indexes over a workload at the same RAM, and show a table, a conclusion and a report.
    Compare(Box<Compare>),
    /// Search for the index to take, and say what it costs and where the answer would be another.
    Advise(Box<Advise>),
    /// Run an experiment, of one's own or of a paper, and show what it measured.
    Run(Box<Run>),
    /// Run every combination of a grid's axes once, kept in a folder, over as many machines as there are.
    Sweep(Sweep),
    /// Run cells of sweeps that come in JSON, one on each line.
    Cells(Cells),
    /// Capture what a program does to its directory tree as a trace; needs strace.
    Capture(Capture),
    /// Make a trace of what another system logged: SQL statements, YCSB, RocksDB, a table of operations.
    Import(Box<Import>),
    /// Look at a trace.
    Trace(Trace),
    /// Measure every claim of a paper and judge it.
    Repro(Repro),
    /// Cut the power at every physical operation and see what comes back.
    Crash(Box<Crash>),
    /// Let indexes and FTLs live whole lives on small chips that are full, cut and dying.
    Torture(Box<Torture>),
    /// Load places into a spatial index and answer a window or a search for the nearest.
    Places(Box<Places>),
    /// Replay a block trace on FTLs, disks and files.
    Replay(Box<Replay>),
    /// Count what every FTL does on small traces, to hold it against another simulator.
    Counts(Counts),
    /// Find the index or the SQLite databases in the image of a chip and check them.
    Check(Check),
    /// An index on real flash: an MTD device, a block device, a file, or a dump of a device.
    Device(Box<Device>),
    /// Look into an image, a dump or a device: tree or databases, free space, wear, pages byte by byte.
    Inspect(Box<Inspect>),
    /// Look inside an index step by step, in a browser of this machine.
    Serve(Serve),
    /// Play the key idea of a paper in a browser of this machine.
    Play(Play),
    /// List what there is by name.
    List(List),
    /// Print what a shell needs to complete commands and flags.
    Completions(Completions),
    /// Write the manual: a page for the program and one for each command.
    Man(Man),
}

#[derive(Debug, ClapArgs)]
#[command(after_help = AFTER_HELP)]
#[group(id = "seeded", multiple = true, args = ["workload", "spatial"])]
pub(crate) struct Compare {
    /// Part of the catalogue (nandex list chips), or a chip file.
    #[arg(long, value_name = "PART|FILE", default_value = "mlc-64m", value_parser = parse::chip)]
    pub(crate) chip: Part,
    /// Generator of operations (nandex list workloads).
    #[arg(long, value_name = "NAME", value_parser = parse::workload)]
    pub(crate) workload: Option<&'static WorkloadEntry>,
    /// Trace of operations instead of a generator: a file, where NAME.init.ops beside NAME.ops holds the
    /// contents before it, or one that is here (nandex list data) [default: kernel_compile].
    #[arg(long, value_name = "FILE|NAME", conflicts_with_all = ["workload", "seed", "seeds"])]
    pub(crate) trace: Option<PathBuf>,
    /// Refuse a trace whose operations contradict each other.
    #[arg(long, requires = "trace")]
    pub(crate) strict: bool,
    /// Indexes to compare, separated by commas, or all that hold what the workload writes (nandex list
    /// indexes) [default: all].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse::subject_choice)]
    pub(crate) index: Vec<Choice<IndexEntry>>,
    /// Spatial indexes to compare instead, separated by commas, or all (nandex list spatial).
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse::spatial_choice,
        conflicts_with_all = ["index", "workload", "trace", "record"])]
    pub(crate) spatial: Vec<Choice<SpatialEntry>>,
    /// The data of the indexes: a CSV or GeoJSON file, or a set that is here (nandex list data) [default:
    /// places].
    #[arg(long, value_name = "FILE|NAME", requires = "spatial")]
    pub(crate) places: Option<String>,
    /// Area of a window, in percent of the data's extent [default: 0.01%].
    #[arg(long, value_name = "SHARE", requires = "spatial", value_parser = parse::share)]
    pub(crate) window: Option<f64>,
    /// Entries that a search for the nearest wants [default: 10].
    #[arg(long, value_name = "K", requires = "spatial", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) nearest: Option<u32>,
    /// RAM for each index, tables included, such as 64KiB, several as 16KiB,64KiB or 16KiB..640KiB; what its
    /// tables leave is its cache [default: no cache; 16KiB..640KiB with neither workload nor trace].
    #[arg(long, value_name = "BYTES", value_parser = parse::rams)]
    pub(crate) ram: Option<parse::Rams>,
    /// The promise about a power cut that an index has to make: every-operation, every-sync, none, several
    /// separated by commas, or all [default: every-operation; every-sync too with neither workload nor
    /// trace; every-sync alone of readings].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse::class_choice)]
    pub(crate) durability: Vec<Choice<Durability>>,
    /// Bytes of a key and of a value.
    #[arg(long, value_name = "KEY/VALUE", default_value = "4/4", value_parser = parse::record)]
    pub(crate) record: RecordFormat,
    /// Operations: of the measured part of a generator, or at most so many of a trace; queries of each kind
    /// of a spatial index.
    #[arg(long, value_name = "N", value_parser = parse::operations)]
    pub(crate) ops: Option<u64>,
    /// Seed of the workload, the first one of several.
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, requires = "seeded")]
    pub(crate) seed: u64,
    /// Seeds to run, for means and intervals.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "seeded",
        value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) seeds: u64,
    /// Option of the workload or of an index (nandex list workloads, nandex list indexes); may be repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse::option)]
    pub(crate) set: Vec<(String, String)>,
    /// Sync after so many changes [default: never; 100 in the class every-sync with neither workload nor
    /// trace, and of readings].
    #[arg(long, value_name = "N", value_parser = parse::count)]
    pub(crate) sync_every: Option<u64>,
    /// Runs at a time [default: as many as there are cores]; it changes no result.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    #[command(flatten)]
    pub(crate) files: Files,
    /// Write a report that opens in a browser, all in one file.
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
}

/// The form of what goes to stdout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table for people.
    Table,
    /// A row for each figure of each cell, over the seeds.
    Csv,
    /// Everything.
    Json,
    /// The rows of csv as Parquet, where the program was built with it.
    Parquet,
}

/// How experiments are carried out.
#[derive(Debug, ClapArgs)]
pub(crate) struct Plan {
    /// The small size, which only shows that everything works.
    #[arg(long)]
    pub(crate) smoke: bool,
    /// Seeds of generated workloads [default: what the experiment says].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) seeds: Option<u32>,
    /// Folder of the full traces [default: $NANDEX_DATA, or the usual folders].
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Runs at a time [default: as many as there are cores]; it changes no result.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Run {
    /// Experiment: a file of one's own (docs/experiments.md), a folder with an experiment.toml, or one that
    /// comes with the program (nandex list experiments).
    #[arg(value_name = "FILE|NAME")]
    pub(crate) experiment: String,
    /// Value of the experiment in place of its own, such as seeds=5, variant.small.blocks=64 or an option as
    /// records=5000; may be repeated.
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse::option)]
    pub(crate) set: Vec<(String, String)>,
    /// The form of what goes to stdout.
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) plan: Plan,
    #[command(flatten)]
    pub(crate) files: Files,
    /// Folder for manifest.json, raw.csv, summary.csv and results.json; it is made when it is not there.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Write a report with the experiment's plots that opens in a browser, all in one file.
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Repro {
    /// The paper.
    #[arg(long, default_value = "mu", value_parser = parse::paper)]
    pub(crate) paper: String,
    /// Every paper, with all experiments, those without claims too.
    #[arg(long, conflicts_with = "paper")]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) plan: Plan,
    #[command(flatten)]
    pub(crate) files: Files,
    /// Folder that keeps the results of each experiment that ended; the same command goes on from there. It
    /// is made when it is not there.
    #[arg(long, value_name = "DIR")]
    pub(crate) keep: Option<PathBuf>,
    /// Write one report that opens in a browser: the scorecard of all claims, then every figure beside the
    /// paper's.
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = AFTER_HELP)]
#[group(id = "target", required = true, multiple = false, args = ["index", "spatial", "ftl"])]
pub(crate) struct Crash {
    /// Index, or store of long values or of readings, to test (nandex list indexes).
    #[arg(long, value_name = "NAME", value_parser = parse::subject)]
    pub(crate) index: Option<&'static IndexEntry>,
    /// Spatial index to test (nandex list spatial).
    #[arg(long, value_name = "NAME", value_parser = parse::spatial_index)]
    pub(crate) spatial: Option<&'static SpatialEntry>,
    /// FTL to test alone (nandex list ftls).
    #[arg(long, value_name = "NAME", value_parser = parse::ftl)]
    pub(crate) ftl: Option<&'static StoreEntry>,
    /// Operations of the workload.
    #[arg(long, value_name = "N", default_value = "2000", value_parser = parse::crash_operations)]
    pub(crate) ops: u64,
    /// Fixes the workload and all that is random in the cuts.
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true)]
    pub(crate) seed: u64,
    /// Places to cut: all, or so many evenly spread.
    #[arg(long, value_name = "all|N", default_value = "all", value_parser = parse::cuts)]
    pub(crate) cuts: Cuts,
    /// One cut alone, as a failure names it.
    #[arg(long, value_name = "POINT", conflicts_with = "cuts", value_parser = parse::cut_point)]
    pub(crate) at: Option<CutPoint>,
    /// Part of the catalogue or a chip file; small chips show more in less time.
    #[arg(long, value_name = "PART|FILE", default_value = SMALL_CHIP, value_parser = parse::crash_chip)]
    pub(crate) chip: Part,
    /// Different keys, or pages of an FTL at most [default: 1200, 80 of long values].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(crate) keys: Option<u32>,
    /// Bytes of a key and of a value.
    #[arg(long, value_name = "KEY/VALUE", default_value = "8/8", value_parser = parse::record)]
    pub(crate) record: RecordFormat,
    /// RAM, tables included, such as 64KiB [default: no cache].
    #[arg(long, value_name = "BYTES", value_parser = parse::bytes)]
    pub(crate) ram: Option<usize>,
    /// The promise that it has to make: every-operation, every-sync or none [default: every-operation;
    /// every-sync of readings].
    #[arg(long, value_name = "CLASS", value_parser = parse::durability)]
    pub(crate) durability: Option<Durability>,
    /// Failures of the chip in a million: programs, erases, and blocks bad from the factory.
    #[arg(long, value_name = "P,E,B", value_parser = parse::faults)]
    pub(crate) faults: Option<ChipFailures>,
    /// Option of the index or FTL; may be repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse::option)]
    pub(crate) set: Vec<(String, String)>,
    /// Cuts at a time [default: as many as there are cores]; it changes no result.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    #[command(flatten)]
    pub(crate) files: Files,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Places {
    /// The data: a CSV or GeoJSON file, or a set that is here (nandex list data).
    #[arg(value_name = "FILE|NAME", default_value = "places")]
    pub(crate) data: String,
    /// Find what a window touches: the lower corner, then the upper one, such as 5,45,15,55.
    #[arg(long, value_name = "X,Y,X,Y", allow_hyphen_values = true, value_parser = parse::rect)]
    pub(crate) window: Option<Rect<f64, 2>>,
    /// Find the entries nearest to a point, such as 13.4,52.5.
    #[arg(long, value_name = "X,Y", allow_hyphen_values = true, value_parser = parse::point)]
    pub(crate) near: Option<Rect<f64, 2>>,
    /// How many of the nearest, and how many entries of a window are shown.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) count: u32,
    /// The index (nandex list spatial).
    #[arg(long, value_name = "NAME", default_value = "r-tree", value_parser = parse::spatial_index)]
    pub(crate) spatial: &'static SpatialEntry,
    /// Part of the catalogue (nandex list chips), or a chip file.
    #[arg(long, value_name = "PART|FILE", default_value = "mlc-64m", value_parser = parse::chip)]
    pub(crate) chip: Part,
    /// RAM, tables included, such as 64KiB; what the tables leave is the cache [default: no cache].
    #[arg(long, value_name = "BYTES", value_parser = parse::bytes)]
    pub(crate) ram: Option<usize>,
    /// Option of the index; may be repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse::option)]
    pub(crate) set: Vec<(String, String)>,
}

/// How a replay lays out addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Layout {
    /// Erase-block sized extents that the trace touches, side by side, by ascending address.
    Compact,
    /// Pages that the trace touches, side by side.
    Dense,
    /// At their address, modulo the store.
    Modulo,
}

/// The pages that are written before a replay; not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Before {
    /// Nothing: a new device.
    None,
    /// Every page of the extents that the trace touches, once.
    Touched,
    /// Every logical page, once: a device that has been in use.
    All,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Replay {
    /// FTLs (nandex list ftls) and disks (disk, disk-flat, disk-page), separated by commas; tbm+NAME: that
    /// FTL behind the buffer and write pattern converter of the WPCB-tree; all, tbm+all: every FTL; none.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "all", value_parser = parse::target)]
    pub(crate) ftl: Vec<ReplayTarget>,
    /// The block trace, packed with zstd or not; a bare name is looked for in the folder that NANDEX_DATA
    /// names too.
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: PathBuf,
    /// The format of the trace: spc, msr, systor, blktrace, fio or csv [default: by its contents].
    #[arg(long, value_name = "NAME", value_parser = parse::trace_format)]
    pub(crate) format: Option<&'static BlockFormat>,
    /// The event of a blktrace that counts as the request: Q (queued), D (issued) or C (completed).
    #[arg(long, value_name = "LETTER", default_value = "Q", value_parser = parse::event)]
    pub(crate) event: Event,
    /// Part of the catalogue (nandex list chips), or a chip file.
    #[arg(long, value_name = "PART|FILE", default_value = "mlc-64m", value_parser = parse::chip)]
    pub(crate) chip: Part,
    /// Replay only so many requests.
    #[arg(long, value_name = "N", value_parser = parse::count)]
    pub(crate) limit: Option<u64>,
    /// Multiply the times of the trace by this.
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse::time_scale)]
    pub(crate) time_scale: u64,
    /// How addresses become pages.
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Layout::Compact)]
    pub(crate) layout: Layout,
    /// The pages that are written before, uncounted.
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = Before::All)]
    pub(crate) fill: Before,
    /// RAM for each FTL, tables included, such as 64KiB; one that holds more is refused [default: whatever it
    /// needs].
    #[arg(long, value_name = "BYTES", value_parser = parse::bytes)]
    pub(crate) ram: Option<usize>,
    /// Option of an FTL (nandex list ftls); may be repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse::option)]
    pub(crate) set: Vec<(String, String)>,
    /// Replays at a time [default: as many as there are cores]; it changes no result.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    #[command(flatten)]
    pub(crate) files: Files,
    /// Write a report that opens in a browser, all in one file.
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Replay on this file or block device too, timed by the wall clock. A file that is not there is made.
    #[arg(long, value_name = "PATH")]
    pub(crate) file: Option<PathBuf>,
    /// Overwrite what is in a file or on a device that is there.
    #[arg(long, requires = "file")]
    pub(crate) overwrite: bool,
    /// Write each page to the medium at once (O_DSYNC).
    #[arg(long, requires = "file")]
    pub(crate) dsync: bool,
    /// Draw the chip at the end: FILE.svg or FILE.png; with several FTLs the name of each is put in.
    #[arg(long, value_name = "FILE")]
    pub(crate) map: Option<PathBuf>,
}

/// The order in which a chip lets pages of a block be programmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Order {
    /// Ascending only.
    Ascending,
    /// Any.
    Any,
    /// Each of the two.
    Both,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Counts {
    /// FTLs to count, separated by commas (nandex list ftls) [default: all].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse::ftl)]
    pub(crate) ftl: Vec<&'static StoreEntry>,
    /// Seed of the random traces.
    #[arg(long, value_name = "N", default_value_t = nandex_lab::counts::SEED)]
    pub(crate) seed: u64,
    /// The order in which the chip lets pages of a block be programmed.
    #[arg(long, value_enum, value_name = "ORDER", default_value_t = Order::Both)]
    pub(crate) order: Order,
    /// Write the traces to this folder, each as a block trace (csv).
    #[arg(long, value_name = "DIR")]
    pub(crate) write_trace: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) files: Files,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct List {
    /// The list to show.
    pub(crate) what: Listed,
    /// The list as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) forecast: Forecast,
}

/// `nandex completions bash > ~/.local/share/bash-completion/completions/nandex`, for example.
#[derive(Debug, ClapArgs)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Completions {
    /// The shell.
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Man {
    /// An existing folder for the pages, nandex.1 and nandex-COMMAND.1.
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Listed {
    /// Parts of the catalogue.
    Chips,
    /// Indexes with their options.
    Indexes,
    /// Spatial indexes with their options.
    Spatial,
    /// Spatial data that are here, and the options of what is done with them.
    Data,
    /// Flash translation layers with their options.
    Ftls,
    /// Replacement and victim policies, and the option that chooses them.
    Policies,
    /// Generators of operations with their options.
    Workloads,
    /// Experiments of the papers.
    Experiments,
    /// Claims of the papers, with the experiment that measures each.
    Claims,
}

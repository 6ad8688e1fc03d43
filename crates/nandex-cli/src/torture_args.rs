//! The arguments of `nandex torture`.

use crate::output::{AFTER_HELP, Files};
use crate::parse::{self, Choice, Replay as Life};
use clap::Args as ClapArgs;
use nandex_lab::registry::{IndexEntry, StoreEntry};
use nandex_lab::spatial::SpatialEntry;
use nandex_lab::torture::damage::{Blow, End};
use std::path::PathBuf;

#[derive(Debug, ClapArgs)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Torture {
    /// Indexes, and stores of long values and of readings, separated by commas, or all (nandex list indexes);
    /// each on the FTLs of --ftl, else on one that the seed draws [default: all, where neither FTLs nor
    /// spatial indexes are named].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse::subject_choice)]
    pub(crate) index: Vec<Choice<IndexEntry>>,
    /// FTLs, separated by commas, or all (nandex list ftls): below the indexes, and alone.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse::ftl_choice)]
    pub(crate) ftl: Vec<Choice<StoreEntry>>,
    /// Spatial indexes, separated by commas, or all (nandex list spatial).
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse::spatial_choice)]
    pub(crate) spatial: Vec<Choice<SpatialEntry>>,
    /// Live for so long; all get the same time.
    #[arg(long, value_name = "N", value_parser = parse::minutes, conflicts_with = "lives")]
    pub(crate) minutes: Option<f64>,
    /// Live so many lives of each [default: 100].
    #[arg(long, value_name = "N", value_parser = parse::count)]
    pub(crate) lives: Option<u64>,
    /// Seed of the first life of each; the next one has the next number.
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true)]
    pub(crate) seed: u64,
    /// Failures of programs and erases rise until nothing can be written any more.
    #[arg(long)]
    pub(crate) until_death: bool,
    /// No read comes back wrong.
    #[arg(long)]
    pub(crate) reads_well: bool,
    /// Chips, records and RAM of any size, a short life on each, and every key looked up after every mount.
    #[arg(long, conflicts_with_all = ["until_death", "damage"])]
    pub(crate) geometry: bool,
    /// Lives at a time [default: as many as there are cores]; it changes no life.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) threads: Option<u16>,
    /// Write the least of each life that went wrong into this folder, as NAME-SEED.life; it is made if it is
    /// not there.
    #[arg(long, value_name = "DIR", conflicts_with = "damage")]
    pub(crate) save: Option<PathBuf>,
    /// Repeat one life, as a finding names it, or one that stands in a file (NAME.life).
    #[arg(long, value_name = "NAME:SEED|FILE", value_parser = parse::life,
        conflicts_with_all = ["index", "ftl", "spatial", "minutes", "lives", "seed"])]
    pub(crate) replay: Option<Life>,
    /// Damage pages and blocks of chips that were closed or cut, and compare every answer with the truth.
    #[arg(long, conflicts_with = "until_death")]
    pub(crate) damage: bool,
    /// Damages of each image; 0 for every page in turn.
    #[arg(long, value_name = "N", default_value_t = 70, requires = "damage")]
    pub(crate) each: u32,
    /// Images cut anywhere, of each life, besides two that were closed.
    #[arg(long, value_name = "N", default_value_t = 3, requires = "damage")]
    pub(crate) cuts: u32,
    /// Write the table of what a damage may do between its marks in this page.
    #[arg(long, value_name = "FILE", requires = "damage", conflicts_with = "replay")]
    pub(crate) guarantees: Option<PathBuf>,
    /// The image of a damage to repeat: closed, remounted, cut:OPERATION:WAY.
    #[arg(long, value_name = "IMAGE", requires_all = ["damage", "replay", "blow"])]
    pub(crate) image: Option<End>,
    /// The damage to repeat, such as ones:17 or exchange:3:40+zero:5.
    #[arg(long, value_name = "DAMAGE", requires_all = ["damage", "replay", "image"])]
    pub(crate) blow: Option<Blow>,
    /// Random SQL on volumes of databases, in every SQLite that is there, compared with a database in memory;
    /// --minutes or --lives for each.
    #[arg(long, conflicts_with_all = ["index", "ftl", "spatial", "until_death", "reads_well",
        "geometry", "save", "replay", "damage", "json", "csv"])]
    pub(crate) sqlite: bool,
    /// The shared library of SQLite [default: that of the system].
    #[arg(long, value_name = "FILE", requires = "sqlite")]
    pub(crate) library: Option<PathBuf>,
    /// The loadable extension (make sqlite-extension), for the SQLite of python3, whose process is killed
    /// [default: one beside the program].
    #[arg(long, value_name = "FILE", requires = "sqlite")]
    pub(crate) extension: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) files: Files,
}

//! The command line of `nandex advise`.

use crate::output::{AFTER_HELP, Target};
use crate::parse;
use clap::{Args as ClapArgs, ValueEnum};
use nandex::nand::Part;
use nandex::ordered::{Durability, RecordFormat};
use nandex_lab::advise;
use nandex_lab::workload::WorkloadEntry;
use std::path::PathBuf;

/// The figure that is to be small, or long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Want {
    /// Chip time per operation.
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

impl From<Want> for advise::Want {
    fn from(want: Want) -> advise::Want {
        match want {
            Want::Time => advise::Want::Time,
            Want::Energy => advise::Want::Energy,
            Want::Lifetime => advise::Want::Lifetime,
            Want::Space => advise::Want::Space,
            Want::Tail => advise::Want::Tail,
            Want::Boot => advise::Want::Boot,
        }
    }
}

#[derive(Debug, ClapArgs)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Advise {
    /// Part of the catalogue (nandex list chips), or a chip file.
    #[arg(long, value_name = "PART|FILE", default_value = "mlc-64m")]
    pub(crate) chip: String,
    /// Generator of operations (nandex list workloads).
    #[arg(long, value_name = "NAME", value_parser = parse::workload)]
    pub(crate) workload: Option<&'static WorkloadEntry>,
    /// Trace of operations instead of a generator: a file, or one that is here (nandex list data) [default:
    /// kernel_compile].
    #[arg(long, value_name = "FILE|NAME", conflicts_with_all = ["workload", "seeds"])]
    pub(crate) trace: Option<String>,
    /// RAM for the index, tables and caches included, such as 32KiB [default: 64KiB].
    #[arg(long, value_name = "BYTES", value_parser = parse::bytes)]
    pub(crate) ram: Option<usize>,
    /// The promise about a power cut that the index has to make: every-operation, every-sync or none.
    #[arg(long, value_name = "CLASS", default_value = "every-operation", value_parser = parse::durability)]
    pub(crate) durability: Durability,
    /// The figure that is to be small, or long.
    #[arg(long, value_enum, value_name = "WHAT", default_value = "time")]
    pub(crate) want: Want,
    /// Operations a second, for the life of the chip [default: 1].
    #[arg(long, value_name = "N")]
    pub(crate) rate: Option<f64>,
    /// Bytes of a key and of a value.
    #[arg(long, value_name = "KEY/VALUE", default_value = "4/4", value_parser = parse::record)]
    pub(crate) record: RecordFormat,
    /// Operations: of the measured part of a generator, or at most so many of a trace.
    #[arg(long, value_name = "N", value_parser = parse::operations)]
    pub(crate) ops: Option<u64>,
    /// Sync after so many changes.
    #[arg(long, value_name = "N", value_parser = parse::count)]
    pub(crate) sync_every: Option<u64>,
    /// Seeds that the finalists are verified on.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) seeds: u64,
    /// Option of the workload (nandex list workloads); may be repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse::option)]
    pub(crate) set: Vec<(String, String)>,
    /// Runs at a time [default: as many as there are cores]; it changes no result.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    /// Write the configuration here; a file of somebody else is not written over.
    #[arg(long, value_name = "FILE", default_value = "nandex.toml")]
    pub(crate) out: PathBuf,
    /// Write the answer with all its figures as JSON; - for stdout, then without the text.
    #[arg(long, value_name = "FILE|-")]
    pub(crate) json: Option<Target>,
}

impl Advise {
    /// The question for the lab.
    pub(crate) fn request(&self) -> Result<advise::Request, nandex_lab::LabError> {
        // Refused here, so that the flag is named.
        let _: Part = parse::chip(&self.chip)?;
        Ok(advise::Request {
            chip: self.chip.clone(),
            workload: self.workload.map(|entry| entry.name.to_string()),
            trace: self.trace.clone(),
            ops: self.ops,
            record: format!("{}/{}", self.record.key_bytes, self.record.value_bytes),
            ram: self.ram.map(|bytes| bytes as u64),
            durability: self.durability.name().replace(' ', "-"),
            sync_every: self.sync_every,
            want: self.want.into(),
            rate: self.rate,
            seeds: self.seeds,
            options: self.set.iter().cloned().collect(),
            threads: self.threads.map(usize::from),
        })
    }
}

//! Arguments of the commands that make traces, look at them, and sweep.

use crate::output::{AFTER_HELP, Target};
use clap::{Args as ClapArgs, Subcommand};
use nandex_lab::LabError;
use nandex_lab::import::Format;
use nandex_lab::sweep::Shard;
use std::ffi::OsString;
use std::path::PathBuf;

/// How keys of a trace become numbers.
#[derive(Debug, ClapArgs)]
pub(crate) struct Numbers {
    /// Replace each key by a number drawn with this seed: the order of the keys stays, and nothing else of
    /// them.
    #[arg(long, value_name = "SEED")]
    pub(crate) hash_keys: Option<u64>,
}

/// `nandex capture --out tar.txt --tree src -- tar xf src.tar`, for example.
#[derive(Debug, ClapArgs)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Capture {
    /// The trace: NAME.txt or NAME.ops, and .zst for a packed one. What was there before goes to
    /// NAME.init.txt beside it.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// The directory tree whose entries count.
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) tree: PathBuf,
    #[command(flatten)]
    pub(crate) numbers: Numbers,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Import {
    /// The log, packed with zstd or not.
    #[arg(value_name = "FILE")]
    pub(crate) log: PathBuf,
    /// The trace: NAME.txt or NAME.ops, and .zst for a packed one. What was there before goes to
    /// NAME.init.txt beside it.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// The format: mysql, postgres, ycsb, rocksdb, rocksdb-blocks or csv [default: by its contents].
    #[arg(long, value_name = "NAME", value_parser = format)]
    pub(crate) format: Option<Format>,
    /// The key column of a table, for statements; may be repeated [default: its primary key, else the column
    /// compared most often].
    #[arg(long, value_name = "TABLE=COLUMN", value_parser = crate::parse::option)]
    pub(crate) key: Vec<(String, String)>,
    /// The columns of a table without a header, such as _,key,_,op.
    #[arg(long, value_name = "LIST")]
    pub(crate) columns: Option<String>,
    /// Nothing was there before the log: what was not inserted is absent.
    #[arg(long)]
    pub(crate) starts_empty: bool,
    /// Leave out where a transaction became durable.
    #[arg(long)]
    pub(crate) without_syncs: bool,
    #[command(flatten)]
    pub(crate) numbers: Numbers,
}

fn format(name: &str) -> Result<Format, LabError> {
    name.parse()
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Trace {
    #[command(subcommand)]
    pub(crate) action: Action,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Operations, keys, skew, locality and phases of a trace.
    Stats(Stats),
}

#[derive(Debug, ClapArgs)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Stats {
    /// The trace: a file, or one that is here (nandex list data).
    #[arg(value_name = "FILE|NAME")]
    pub(crate) trace: PathBuf,
    /// Look at so many operations only.
    #[arg(long, value_name = "N", value_parser = crate::parse::count)]
    pub(crate) ops: Option<u64>,
    /// Write the figures as JSON; - for stdout, in place of the table.
    #[arg(long, value_name = "FILE|-")]
    pub(crate) json: Option<Target>,
    /// Write a page with plots that opens in a browser, all in one file.
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
}

/// `nandex cells < requests`, for example: a request in JSON on each line.
#[derive(Debug, ClapArgs)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Cells {
    /// The requests (docs/sweeps.md), one in JSON on each line; - for stdin.
    #[arg(value_name = "FILE|-", default_value = "-")]
    pub(crate) requests: Target,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Sweep {
    /// The grid, a TOML file (docs/sweeps.md).
    #[arg(value_name = "FILE")]
    pub(crate) grid: PathBuf,
    /// Folder that keeps a file for each cell; it is made when it is not there.
    #[arg(long, value_name = "DIR")]
    pub(crate) store: PathBuf,
    /// The part to do, such as 2/8: every eighth cell, beginning with the second.
    #[arg(long, value_name = "I/N", default_value = "1/1")]
    pub(crate) shard: Shard,
    /// Go on from what the folder keeps.
    #[arg(long)]
    pub(crate) resume: bool,
    /// Go on, and run cells again that failed.
    #[arg(long)]
    pub(crate) retry: bool,
    /// Say how many cells there are, and how many of them are kept, and run none.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Write all cells that are known as one table in CSV, or as Parquet (NAME.parquet) where the program was
    /// built with it; - for CSV on stdout.
    #[arg(long, value_name = "FILE|-")]
    pub(crate) out: Option<Target>,
    /// Cells at a time [default: as many as there are cores]; it changes no result.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
}

//! The command line of `nandex device`: an index on real flash, in a file or in a dump.

use crate::output::{AFTER_HELP, Target};
use crate::parse;
use clap::{Args as ClapArgs, Subcommand};
use nandex::ordered::{Durability, RecordFormat};
use nandex_lab::registry::IndexEntry;
use nandex_mtd::{RawGeometry, SpareLayout};
use std::path::PathBuf;

#[derive(Debug, ClapArgs)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Device {
    #[command(subcommand)]
    pub(crate) action: Action,
}

/// The command on a device. Commands that only look never write to the device: what a mount would finish
/// stays in RAM.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Tell what the device is: pages, blocks, bad ones, free bytes, flags that open a dump of it, what is
    /// on it. Every page of SQLite databases is read; exit code 1 where one is damaged.
    Info(Info),
    /// Make an empty index.
    Format(Format),
    /// Find the index, finish what a power cut left, and close it.
    Mount(Change),
    /// Insert records or give keys new values.
    Put(Put),
    /// Look keys up; exit code 1 where one is not there.
    Get(Get),
    /// Remove keys.
    Remove(Remove),
    /// Show records in the order of their keys.
    Scan(Scan),
    /// Insert records from lines of KEY,VALUE.
    Import(Import),
    /// Write all records as lines of KEY,VALUE.
    Export(Export),
    /// Check the invariants of the index.
    Check(Look),
    /// Tell what the index and the device say about themselves.
    Stats(Look),
    /// Dump an MTD device, pages and out-of-band areas in turn, as nanddump -o -n --bb=dumpbad does.
    Dump(Dump),
    /// Put a dump back onto an MTD device.
    Restore(Restore),
}

/// Where the index is.
#[derive(Debug, ClapArgs)]
#[group(id = "place", required = true, multiple = false, args = ["device", "image"])]
pub(crate) struct Place {
    /// An MTD device such as /dev/mtd3; else a block device or a file, whose pages are used as a chip.
    #[arg(long, value_name = "DEVICE|FILE")]
    pub(crate) device: Option<PathBuf>,
    /// A dump of an MTD device.
    #[arg(long, value_name = "DUMP", requires_all = ["geometry", "spare"])]
    pub(crate) image: Option<PathBuf>,
    /// The geometry of a dump: bytes of pages and out-of-band areas, and pages of a block, such as
    /// 2048+64x64.
    #[arg(long, value_name = "PAGE+OOBxPAGES", requires = "image")]
    pub(crate) geometry: Option<RawGeometry>,
    /// The spare area: the free out-of-band bytes of a dump, offset and length, such as 2+38 (nandex device
    /// info tells); of an MTD device, where a board used fewer of them than Linux calls free.
    #[arg(long, value_name = "OFFSET+LENGTH,..")]
    pub(crate) spare: Option<SpareLayout>,
    #[command(flatten)]
    pub(crate) part: Part,
    /// Bytes of a page of a file or block device; the same whenever it is opened.
    #[arg(long, value_name = "BYTES", default_value = "4096", value_parser = parse::bytes)]
    pub(crate) page: usize,
}

/// The part of a chip that is used.
#[derive(Debug, ClapArgs)]
pub(crate) struct Part {
    /// Use these blocks only, such as 10..200; the last is not included.
    #[arg(long, value_name = "FIRST..END", value_parser = parse_blocks)]
    pub(crate) blocks: Option<(u32, u32)>,
}

/// Which index, with what it was or will be formatted with.
#[derive(Debug, ClapArgs)]
pub(crate) struct Index {
    /// The index (nandex list indexes).
    #[arg(long, value_name = "NAME", value_parser = parse::index)]
    pub(crate) index: &'static IndexEntry,
    /// Bytes of a key and of a value.
    #[arg(long, value_name = "KEY/VALUE", default_value = "8/8", value_parser = parse::record)]
    pub(crate) record: RecordFormat,
    /// RAM, tables included, such as 64KiB [default: no cache].
    #[arg(long, value_name = "BYTES", value_parser = parse::bytes)]
    pub(crate) ram: Option<usize>,
    /// The promise of the index about a power cut: every-operation, every-sync or none.
    #[arg(long, value_name = "CLASS", default_value = "every-operation", value_parser = parse::durability)]
    pub(crate) durability: Durability,
    /// Option of the index or of what it stands on; may be repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse::option)]
    pub(crate) set: Vec<(String, String)>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Info {
    #[command(flatten)]
    pub(crate) place: Place,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Look {
    #[command(flatten)]
    pub(crate) place: Place,
    #[command(flatten)]
    pub(crate) index: Index,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Change {
    #[command(flatten)]
    pub(crate) look: Look,
    /// Where a dump is to be changed: a new file, which becomes a copy of it and is changed.
    #[arg(long, value_name = "FILE", conflicts_with = "device")]
    pub(crate) copy: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Format {
    #[command(flatten)]
    pub(crate) change: Change,
    /// Format though something is there.
    #[arg(long)]
    pub(crate) overwrite: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Put {
    #[command(flatten)]
    pub(crate) change: Change,
    /// Numbers, or 0x and as many bytes in hexadecimal as the record has.
    #[arg(value_name = "KEY=VALUE", required = true)]
    pub(crate) records: Vec<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Get {
    #[command(flatten)]
    pub(crate) look: Look,
    /// Numbers, or 0x and as many bytes in hexadecimal as a key has.
    #[arg(value_name = "KEY", required = true)]
    pub(crate) keys: Vec<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Remove {
    #[command(flatten)]
    pub(crate) change: Change,
    /// Numbers, or 0x and as many bytes in hexadecimal as a key has.
    #[arg(value_name = "KEY", required = true)]
    pub(crate) keys: Vec<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Scan {
    #[command(flatten)]
    pub(crate) look: Look,
    /// The first key.
    #[arg(long, value_name = "KEY")]
    pub(crate) from: Option<String>,
    /// The last key.
    #[arg(long, value_name = "KEY")]
    pub(crate) to: Option<String>,
    /// Show so many at most.
    #[arg(long, value_name = "N", value_parser = parse::count)]
    pub(crate) limit: Option<u64>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Import {
    #[command(flatten)]
    pub(crate) change: Change,
    /// Lines of KEY,VALUE; - for stdin.
    #[arg(value_name = "FILE|-")]
    pub(crate) file: Target,
    /// Sync after so many records [default: at the end].
    #[arg(long, value_name = "N", value_parser = parse::count)]
    pub(crate) sync_every: Option<u64>,
    /// Write each key to stdout as soon as its record survives a power cut.
    #[arg(long)]
    pub(crate) acknowledge: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Export {
    #[command(flatten)]
    pub(crate) look: Look,
    /// Where to; - for stdout.
    #[arg(value_name = "FILE|-", default_value = "-")]
    pub(crate) file: Target,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Dump {
    /// The MTD device.
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: PathBuf,
    /// The dump; a file that is there is refused.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Dump these blocks only, such as 10..200.
    #[arg(long, value_name = "FIRST..END", value_parser = parse_blocks)]
    pub(crate) blocks: Option<(u32, u32)>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Restore {
    /// The dump.
    #[arg(long, value_name = "DUMP")]
    pub(crate) image: PathBuf,
    /// The dump's bytes of pages and out-of-band areas, and pages of a block, such as 2048+64x64.
    #[arg(long, value_name = "PAGE+OOBxPAGES")]
    pub(crate) geometry: RawGeometry,
    /// The dump's free out-of-band bytes, offset and length, such as 2+38.
    #[arg(long, value_name = "OFFSET+LENGTH,..")]
    pub(crate) spare: SpareLayout,
    /// The MTD device, which is erased.
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: PathBuf,
    /// The block of the device that the dump's first one goes to.
    #[arg(long, value_name = "BLOCK", default_value_t = 0)]
    pub(crate) first: u32,
    /// Erase what is on the device.
    #[arg(long)]
    pub(crate) overwrite: bool,
}

/// Parses a range of blocks: the first, and the end, which is excluded.
pub(crate) fn parse_blocks(text: &str) -> Result<(u32, u32), String> {
    let ends = text.split_once("..").and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    match ends {
        Some((first, end)) if first < end => Ok((first, end)),
        _ => Err(format!("'{text}': give FIRST..END with FIRST before END, such as 10..200")),
    }
}

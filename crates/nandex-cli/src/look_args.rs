//! The command line of `nandex check`, `nandex inspect`, `nandex serve` and `nandex play`.

use crate::device_args::parse_blocks;
use crate::output::AFTER_HELP;
use crate::parse;
use clap::Args as ClapArgs;
use nandex::ordered::RecordFormat;
use nandex_lab::registry::IndexEntry;
use nandex_mtd::{RawGeometry, SpareLayout};
use std::path::PathBuf;

#[derive(Debug, ClapArgs)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Check {
    /// Image of a simulated chip, compressed or not, or one with SQLite databases.
    pub(crate) image: PathBuf,
    /// Bytes of a key and of a value [default: 4/4, 8/4, 8/8 and 16/8 are tried].
    #[arg(long, value_name = "KEY/VALUE", value_parser = parse::record)]
    pub(crate) record: Option<RecordFormat>,
}

/// Only looks: nothing is written to the image or the device. Every page of SQLite databases is read; exit
/// code 1 where one is damaged.
#[derive(Debug, ClapArgs)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Inspect {
    /// Image of a simulated chip, compressed or not, or one with SQLite databases; an MTD device; a block
    /// device or file whose pages are used as a chip; or a dump of an MTD device, with --geometry and
    /// --spare.
    #[arg(value_name = "IMAGE|DEVICE")]
    pub(crate) place: PathBuf,
    /// Show this page byte by byte.
    #[arg(long, value_name = "N", conflicts_with = "block")]
    pub(crate) page: Option<u32>,
    /// Show the pages of this block, a line each.
    #[arg(long, value_name = "N")]
    pub(crate) block: Option<u32>,
    /// Everything as JSON; with --page that page.
    #[arg(long, conflicts_with = "block")]
    pub(crate) json: bool,
    /// The index that wrote it (nandex list indexes), where the bytes do not tell.
    #[arg(long, value_name = "NAME", value_parser = parse::index)]
    pub(crate) index: Option<&'static IndexEntry>,
    /// Bytes of a key and of a value, where the bytes do not tell [default: 4/4].
    #[arg(long, value_name = "KEY/VALUE", value_parser = parse::record)]
    pub(crate) record: Option<RecordFormat>,
    /// The geometry of a dump: bytes of pages and out-of-band areas, and pages of a block, such as
    /// 2048+64x64.
    #[arg(long, value_name = "PAGE+OOBxPAGES", requires = "spare")]
    pub(crate) geometry: Option<RawGeometry>,
    /// The spare area of a dump: the free out-of-band bytes, offset and length, such as 2+38.
    #[arg(long, value_name = "OFFSET+LENGTH,..", requires = "geometry")]
    pub(crate) spare: Option<SpareLayout>,
    /// The blocks of a device or dump that were used, such as 10..200; the last is not included.
    #[arg(long, value_name = "FIRST..END", value_parser = parse_blocks)]
    pub(crate) blocks: Option<(u32, u32)>,
    /// Bytes of a page of a file or block device, as it was formatted.
    #[arg(long, value_name = "BYTES", default_value = "4096", value_parser = parse::bytes)]
    pub(crate) page_bytes: usize,
}

/// The address is printed, with a token in it; it works on this machine only, until the program is stopped.
#[derive(Debug, ClapArgs)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Serve {
    /// Port to listen on [default: one that is free].
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    pub(crate) port: u16,
}

/// The address is printed, with a token in it; it works on this machine only, until the program is stopped.
#[derive(Debug, ClapArgs)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Play {
    /// Scene: mu, wpcb, ls-lru, lazy-update, access-r or access-mr [default: the page offers all].
    #[arg(value_name = "SCENE")]
    pub(crate) scene: Option<String>,
    /// Port to listen on [default: one that is free].
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    pub(crate) port: u16,
}

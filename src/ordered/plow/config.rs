//! Configuration of the index, and how it shares out the RAM.

use super::anchor;
use super::budget::{Form, extents_least, passing_bytes};
use super::commit::{SEALS, commit_room_of, root_bytes_of};
use super::cost::LEVELS_MAX;
use super::fences::Extent;
use super::filter::FILTERS;
use super::map;
use super::page::HEADER_BYTES;
use crate::check::{IndexError, message, words};
use crate::fault::IndexFault;
use crate::index::{most, require_ram};
use crate::nand::Geometry;
use crate::ordered::buffered::Answers;
use crate::ordered::{Durability, RecordFormat};

/// A memtable has at least this many records.
pub(super) const MEMTABLE_MIN: usize = 4;
/// A step copies at most this many records at a time: more are seldom used.
const SLICE_MAX: usize = 192;

/// How a plow is formatted, mounted and run.
///
/// An example stands at [`Plow`](crate::Plow).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub struct PlowConfig {
    /// Sizes of the records.
    pub record: RecordFormat,
    /// The durability class wanted.
    pub durability: Durability,
    /// Bytes of RAM, which are shared out between memtable, fences and filters. `None` means pages of each,
    /// and all fences.
    pub ram_bytes: Option<usize>,
    /// Records of the memtable, at least 4. `None` means as many as its share of the RAM holds, or 5/8 of a
    /// page without a limit.
    pub memtable: Option<usize>,
    /// Levels on flash, 1 to 3; `None` means as many as cost least.
    pub levels: Option<usize>,
    /// The answer of an update.
    pub answers: Answers,
}

impl PlowConfig {
    /// No limit of RAM, as many levels as cost least, exact answers, every operation durable.
    pub const fn new(record: RecordFormat) -> PlowConfig {
        PlowConfig {
            record,
            durability: Durability::EveryOperation,
            ram_bytes: None,
            memtable: None,
            levels: None,
            answers: Answers::Exact,
        }
    }

    /// Refuses numbers for which no chip has room.
    fn require_possible(&self) -> Result<(), IndexFault> {
        require_ram(self.ram_bytes)?;
        let memtable_max = most::POOL_REQUESTS as usize;
        if let Some(records) = self.memtable.filter(|n| !(MEMTABLE_MIN..=memtable_max).contains(n)) {
            return Err(IndexError::unsupported(message!(
                "a memtable of {records} records: {MEMTABLE_MIN} to {memtable_max} are possible"
            ))
            .into());
        }
        match self.levels.filter(|levels| !(1..=LEVELS_MAX).contains(levels)) {
            Some(levels) => {
                let what = message!("{levels} levels on flash: 1 to {LEVELS_MAX} are possible");
                Err(IndexError::Unsupported(what.into()).into())
            }
            None => Ok(()),
        }
    }
}

/// Shares of the RAM that follow from a configuration and a chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shares {
    pub(super) answers: Answers,
    pub(super) memtable: usize,
    /// Records of the level above that a step copies at a time.
    pub(super) slice: usize,
    /// Bytes for the filters.
    pub(super) filter: usize,
    /// Bytes for extents and fences.
    pub(super) fences: usize,
    /// Number of levels: exactly this many if `fixed`, else at most.
    pub(super) levels: usize,
    pub(super) fixed: bool,
    pub(super) maps: bool,
    /// Number of extents for which `fences` has room, and the most for which it can have room.
    pub(super) extents: u32,
    pub(super) extents_max: u32,
    /// Least records of the memtable, and whether they are what the configuration asks for.
    pub(super) least: u32,
    pub(super) is_wanted: bool,
    /// The RAM given; what of it is not shared out: the index itself, pages, blocks.
    pub(super) ram: usize,
    pub(super) besides: usize,
}

/// With fewer pages to a block than this, a chip has about as many extents as blocks.
const ROWS_BELOW: u32 = 64;

impl Shares {
    /// Divides the RAM. `own` bytes of it are the index itself.
    pub(super) fn new(config: &PlowConfig, geometry: Geometry, own: usize) -> Result<Shares, IndexFault> {
        let &PlowConfig { record, memtable: wanted, levels, answers, .. } = config;
        let page = geometry.page_bytes as usize;
        let blocks = geometry.blocks as usize;
        require_shape(record, geometry)?;
        config.require_possible()?;
        let entry = record.entry_bytes() + 1;
        let most = memtable_max(record, geometry);
        if most < MEMTABLE_MIN {
            let what = words("roots of this chip leave no room for a memtable: this build lacks \"full\"");
            return Err(IndexError::Unsupported(what.into()).into());
        }
        if let Some(wanted) = wanted.filter(|&wanted| wanted > most) {
            return Err(IndexError::unsupported(message!(
                "pool_requests={wanted}: sealed pages of so many would fill the chip; at most {most} here"
            ))
            .into());
        }
        // Two blocks of each level are half used. If blocks run short as the chip fills, levels go.
        let levels_max = (blocks / 6).clamp(1, LEVELS_MAX);
        let mut shares = Shares {
            answers,
            memtable: wanted.unwrap_or((page * 5 / 8 / entry).clamp(MEMTABLE_MIN, most)),
            slice: (page / entry / 2).clamp(2, SLICE_MAX),
            filter: if FILTERS { page } else { 0 },
            fences: usize::MAX,
            levels: levels.unwrap_or(levels_max),
            fixed: levels.is_some(),
            maps: map::is_kept(geometry, record),
            extents: u32::MAX,
            extents_max: u32::MAX,
            least: wanted.unwrap_or(MEMTABLE_MIN) as u32,
            is_wanted: wanted.is_some(),
            ram: config.ram_bytes.unwrap_or(usize::MAX),
            besides: own
                + 2 * page
                + lists_bytes(record, geometry)
                + passing_bytes(record)
                + anchor::ram_bytes(geometry),
        };
        if config.ram_bytes.is_some() {
            shares.share_out((record, geometry))?;
        }
        Ok(shares)
    }

    fn share_out(&mut self, form: Form) -> Result<(), IndexFault> {
        let (record, geometry) = form;
        let maps = core::mem::take(&mut self.maps);
        let needed = self.needed(form, extents_least(geometry), 0);
        if self.ram < needed {
            return Err(IndexError::TooLittleRam {
                what: "two pages, the blocks and the memtable",
                given: self.ram,
                needed,
            }
            .into());
        }
        // Without RAM for maps, a chip of many blocks is full early.
        self.maps = maps && self.ram >= needed + map::ram_bytes(geometry, record);
        self.divide_first(form);
        Ok(())
    }
}

/// Bytes that vectors hold in reserve.
const RESERVE_BYTES: usize = 48;

/// Bytes of the lists of blocks, of cursors, of some keys and values, and of reserves of vectors.
/// With few pages to a block nearly each page has an extent, and a mount holds the rows of a root besides.
fn lists_bytes(record: RecordFormat, geometry: Geometry) -> usize {
    let blocks = geometry.blocks as usize;
    let values = 8 * usize::from(record.value_bytes.saturating_sub(8))
        + 2 * usize::from(record.key_bytes.saturating_sub(8));
    let rows = match geometry.pages_per_block {
        ROWS_BELOW.. => 0,
        pages => blocks * size_of::<Extent>() * 8 / pages.max(8) as usize,
    };
    blocks * 3 + RESERVE_BYTES + 8 * usize::from(record.key_bytes) + values + rows
}

/// Most records of a memtable. Without sealed pages: the records that fit beside any root of the chip. With
/// them: the records that fit into a commit page beside the root, or those whose sealed pages (three for each
/// page of records, and a few more) take a quarter of the chip. Where changes are appended, sealed pages are
/// given back in time (`Stock::is_nearly_short`), and may take three eighths.
pub(super) fn memtable_max(record: RecordFormat, geometry: Geometry) -> usize {
    let (page, entry) = (geometry.page_bytes as usize, record.entry_bytes() + 1);
    if !SEALS {
        let root = root_bytes_of(geometry.blocks as usize);
        return commit_room_of(page).saturating_sub(root) / entry;
    }
    let of_a_page = ((page - HEADER_BYTES) / entry).max(1);
    let (eighths, sealed_each) = if geometry.appends() { (3, 4) } else { (2, 5) };
    let blocks = (geometry.blocks as usize * eighths / 8).saturating_sub(1);
    let pages = (blocks * geometry.pages_per_block as usize).saturating_sub(4);
    (page * 5 / 8 / entry).max(pages * of_a_page / sealed_each).max(MEMTABLE_MIN)
}

/// Refuses records and chips if a page would hold too little.
fn require_shape(record: RecordFormat, geometry: Geometry) -> Result<(), IndexFault> {
    let (page, entry) = (geometry.page_bytes as usize, record.entry_bytes());
    // A page must hold a root with a few keys, or a few records.
    let needed = HEADER_BYTES + 64 + 6 * usize::from(record.key_bytes) + 2 * (entry + 12);
    if page < needed || geometry.blocks < 8 {
        return Err(IndexError::unsupported(message!(
            "plow needs pages of {needed} bytes for these records and 8 blocks; here are {page} and {}",
            geometry.blocks
        ))
        .into());
    }
    Ok(())
}

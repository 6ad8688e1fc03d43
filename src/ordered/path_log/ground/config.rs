//! Configuration of a tree on raw NAND, and the log that follows from it on a chip.

use crate::blocks::checkpoint::CheckpointArea;
use crate::blocks::victim::VictimPolicy;
use crate::blocks::wear::WearLevelling;
use crate::blocks::{BlockTable, Validity};
use crate::check::{IndexError, message};
use crate::fault::IndexFault;
use crate::index::require_ram;
use crate::log::tag::spare_bytes_needed;
use crate::log::{HAS_READ_PART, HAS_WRITE_PART, LogConfig, Placement, SamePage, WritePartLimit};
use crate::nand::Geometry;
use crate::ordered::{Durability, RecordFormat};

/// How a tree on raw NAND is formatted, mounted and run. Of all this only the sizes of the records are stored
/// on the chip.
///
/// ```
/// use nandex::{Durability, RawConfig, RecordFormat};
///
/// let config: RawConfig = RawConfig::new(RecordFormat::new(8, 8))
///     .with_durability(Durability::EverySync)
///     .with_ram_bytes(Some(32 << 10));
/// assert_eq!(config.read_pages, None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub struct RawConfig<C = ()> {
    /// Sizes of the records.
    pub record: RecordFormat,
    /// The durability class wanted. Where *every sync* suffices, pages may wait in the write part of the
    /// cache.
    pub durability: Durability,
    /// Bytes of RAM in all; `None` means no cache and whatever the tables need.
    pub ram_bytes: Option<usize>,
    /// Pages of the read part of the cache; `None` means all that the RAM allows.
    pub read_pages: Option<usize>,
    /// Pages of the write part of the cache. `None` means half of the remaining RAM if syncs suffice for the
    /// class, otherwise no pages.
    pub write_pages: Option<usize>,
    /// When the write part is programmed.
    pub write_part: WritePartLimit,
    /// Which block is collected.
    pub victim: VictimPolicy,
    /// Garbage is collected while at most this many blocks are free.
    pub collect_at_blocks: u32,
    /// Blocks filled between two checkpoints.
    pub checkpoint_blocks: u32,
    /// Where a written page goes.
    pub placement: Placement,
    /// How valid pages are recorded. `None` means one bit per page if the RAM suffices, otherwise a count per
    /// block.
    pub validity: Option<Validity>,
    /// Whether and when the data of a block that lags behind a worn one move; not by dual pools.
    pub wear_levelling: WearLevelling,
    /// Price of a child that is in its parent's page.
    pub same_page: SamePage,
    /// Leaves that may move before the nodes above them are written (JFFS3's journal tree), a 16th of the
    /// pages at most.
    pub journal: usize,
    /// Further settings of this kind of tree.
    pub scheme: C,
}

impl<C: Copy + Default> RawConfig<C> {
    /// Configuration without a cache, with every operation durable, and with the defaults of the kind of
    /// tree.
    pub fn new(record: RecordFormat) -> RawConfig<C> {
        let log = LogConfig::default();
        RawConfig {
            record,
            durability: Durability::EveryOperation,
            ram_bytes: None,
            read_pages: None,
            write_pages: None,
            write_part: log.write_part,
            victim: log.victim,
            collect_at_blocks: log.collect_at_blocks,
            checkpoint_blocks: log.checkpoint_blocks,
            placement: log.placement,
            validity: None,
            wear_levelling: log.wear_levelling,
            same_page: log.same_page,
            journal: 0,
            scheme: C::default(),
        }
    }
}

/// Bytes of cache bookkeeping for each page, in addition to the page.
const FRAME_BYTES: usize = 96;

impl<C> RawConfig<C> {
    /// Configuration of the log on this chip. The tree itself holds `fixed_bytes`; the rest of the RAM goes
    /// to the cache: to its read part if every operation is to be durable, else half to each part. If valid
    /// pages are counted there is no write part.
    pub(crate) fn log(
        &self,
        geometry: Geometry,
        validity: Validity,
        fixed_bytes: usize,
        pages_at_once: u32,
    ) -> Result<LogConfig, IndexFault> {
        require_ram(self.ram_bytes)?;
        let page_bytes = geometry.page_bytes as usize + FRAME_BYTES;
        let blocks = BlockTable::ram_needed(geometry, validity, self.victim);
        let openings = geometry.blocks as usize * size_of::<u16>();
        let small = SMALL_BYTES + beyond_small(geometry, validity) + beyond_keys(self.record);
        let tables = blocks + openings + 2 * geometry.page_bytes as usize + small + fixed_bytes;
        let divided = self.durability < Durability::EveryOperation && validity == Validity::Bits;
        // Pages that the write part holds beyond its size until it is flushed.
        let overfull_pages = pages_at_once as usize;
        // A cache has no use for more pages than the chip has.
        let most = geometry.pages() as usize;
        let spare_pages = match self.ram_bytes {
            None => 0,
            Some(ram) => {
                let left = ram.checked_sub(tables).ok_or_else(|| too_little(ram, tables))?;
                (left / page_bytes).saturating_sub(if divided { overfull_pages } else { 0 }).min(most)
            }
        };
        let write_default = if divided && HAS_WRITE_PART { (spare_pages / 2).min(200) } else { 0 };
        let write_pages = self.write_pages.unwrap_or(write_default).min(most);
        let read_default = if HAS_READ_PART { spare_pages.saturating_sub(write_pages) } else { 0 };
        let read_pages = self.read_pages.map_or(read_default, |pages| pages.min(most));
        if let Some(ram) = self.ram_bytes {
            let overfull_pages = if write_pages > 0 { overfull_pages } else { 0 };
            let needed = tables + (read_pages + write_pages + overfull_pages) * page_bytes;
            if needed > ram {
                return Err(too_little(ram, needed));
            }
        }
        if write_pages > 0 && !divided {
            return Err(IndexError::unsupported(message!(
                "write_pages = {write_pages} makes the tree durable at every sync only, and every operation is asked for"
            )).into());
        }
        Ok(LogConfig {
            read_pages,
            write_pages,
            write_part: self.write_part,
            victim: self.victim,
            collect_at_blocks: self.collect_at_blocks,
            checkpoint_blocks: self.checkpoint_blocks,
            holds: false,
            placement: self.placement,
            validity,
            wear_levelling: self.wear_levelling,
            same_page: self.same_page,
        })
    }
}

/// Bytes of short lists, and of rows of a few bytes, on a chip of usual shape.
const SMALL_BYTES: usize = 520;

/// Bytes of keys in RAM beyond the usual length.
fn beyond_keys(record: RecordFormat) -> usize {
    const USUAL: u8 = 16;
    3 * usize::from(record.key_bytes.saturating_sub(USUAL))
}

/// Bytes of a block in the checkpoints of a log, in addition to those of the table.
const LOG_BYTES: usize = size_of::<u16>();

/// Blocks with fewer pages need longer lists: [`OPENED_BYTES`] more.
const FEW_PAGES: u32 = 8;
/// Additional bytes of the lists of opened blocks, if blocks have fewer than [`FEW_PAGES`] pages.
const OPENED_BYTES: usize = 1024;

/// Bytes of lists that are longer than usual: because pages are small, or because blocks have many pages, or
/// so few that a checkpoint takes many blocks.
fn beyond_small(geometry: Geometry, validity: Validity) -> usize {
    const USUAL: u32 = 64;
    let tags = spare_bytes_needed(geometry.pages_per_block).saturating_sub(spare_bytes_needed(USUAL));
    let payload = BlockTable::encoded_bytes_with(geometry, validity) + LOG_BYTES * geometry.blocks as usize;
    // With few pages to a block, many blocks are opened between two checkpoints.
    let opened = if geometry.pages_per_block < FEW_PAGES { OPENED_BYTES } else { 0 };
    // A page of usual size has this much room to spare.
    let short = 2048_usize.saturating_sub(geometry.page_bytes as usize) / 2;
    tags + opened + short + CheckpointArea::lists_bytes(geometry, payload)
}

fn too_little(given: usize, needed: usize) -> IndexFault {
    IndexError::TooLittleRam { what: "tables, buffers and cache", given, needed }.into()
}

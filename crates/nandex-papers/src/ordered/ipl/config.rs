//! Configuration of a tree: the form of the log area, the sizes, and the division of the RAM.

use super::cache::ReadCache;
use super::form::Form;
use super::layout::{BLOCK_BYTES, FIXED_BYTES, GROUP_BYTES, HEAD_BYTES, NO_UNIT};
use super::layout::{RECORD_BYTES, SLOT_BYTES, TAG_BYTES, WAITING_BYTES};
use super::look::Look;
use super::merge::KeyRows;
use super::path::PathStep;
use super::places::Block;
use super::slots::{PIECE, PIECE_BYTES};
use nandex::blocks::checkpoint::CheckpointArea;
use nandex::blocks::victim::VictimPolicy;
use nandex::blocks::wear::WearLevelling;
use nandex::blocks::{BlockTable, Validity};
use nandex::check::{IndexError, message};
use nandex::index::{most, require_ram};
use nandex::log::Placement;
use nandex::nand::Geometry;
use nandex::ordered::{Durability, RecordFormat};

/// Bytes of a sector, where log units are sectors.
const SECTOR_BYTES: usize = 512;

/// The form of the log area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogArea {
    /// IPL: the last pages of each block.
    Fixed,
    /// dIPL: whatever the nodes leave of the block.
    Dynamic,
}

/// The kind of log unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogUnit {
    /// A sector for IPL if the part takes partial programs, and for both forms in place if pages are larger
    /// than a sector. Otherwise a page.
    #[default]
    Auto,
    /// A sector of 512 bytes, by partial programs or in place.
    Sector,
    /// One page.
    Page,
}

/// How a tree with in-page logging is formatted, mounted and run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IplConfig {
    /// Sizes of the records.
    pub record: RecordFormat,
    /// The durability class wanted.
    pub durability: Durability,
    /// Bytes of RAM in all; `None` means no read cache and a log buffer for each block.
    pub ram_bytes: Option<usize>,
    /// Form of the log area. At a mount it must be that of the chip.
    pub area: LogArea,
    /// Most entries of a node, at least 4; `None` means as many as fit a page. At a mount the chip's value is
    /// used.
    pub order: Option<usize>,
    /// The kind of log unit. The chip's at mount.
    pub log_unit: LogUnit,
    /// IPL: pages of a block's log region; `None` means a 16th of the block. At a mount the chip's number is
    /// used.
    pub log_pages: Option<u32>,
    /// dIPL: nodes of a block that a merge keeps together; `None` means five eighths of a block.
    pub nodes_max: Option<u32>,
    /// dIPL: number of log units after which a node gets a new image in its block; 0 for never.
    pub rewrite_units: u16,
    /// Pages of the read cache; `None` means all that the RAM allows.
    pub read_pages: Option<usize>,
    /// Bytes of log records that wait in RAM; `None` means a quarter of the remaining RAM.
    pub log_bytes: Option<usize>,
    /// Blocks opened between two checkpoints; `None` means 16, or a 16th of the chip if that is more.
    pub checkpoint_blocks: Option<u32>,
    /// Where nodes and log pages are written.
    pub placement: Placement,
    /// Whether and when a block that lags behind a worn one is merged; not by dual pools.
    pub wear_levelling: WearLevelling,
}

impl IplConfig {
    /// IPL or dIPL with full pages, no cache, every operation durable.
    pub const fn new(record: RecordFormat, area: LogArea) -> IplConfig {
        IplConfig {
            record,
            durability: Durability::EveryOperation,
            ram_bytes: None,
            area,
            order: None,
            log_unit: LogUnit::Auto,
            log_pages: None,
            nodes_max: None,
            rewrite_units: 4,
            read_pages: None,
            log_bytes: None,
            checkpoint_blocks: None,
            placement: Placement::OutOfPlace,
            wear_levelling: WearLevelling::None,
        }
    }
}

/// The part of the configuration that is fixed when the chip is formatted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Format {
    pub(super) record: RecordFormat,
    pub(super) area: LogArea,
    /// Nodes keep their pages.
    pub(super) is_placed: bool,
    pub(super) order: usize,
    pub(super) unit_bytes: usize,
    /// Fixed: pages of the log region. Dynamic: pages that a merge leaves for the log at least.
    pub(super) log_pages: u32,
}

/// Most records that an operation with `splits` splits makes.
fn records_of(splits: u32) -> usize {
    if splits == 0 { 1 } else { 5 * splits as usize + 6 }
}

impl Form {
    /// The set-up that a configuration asks for.
    pub(super) fn of(config: &IplConfig, geometry: Geometry) -> Result<Form, IndexError> {
        let area = config.area;
        let page_bytes = geometry.page_bytes as usize;
        let is_placed = config.placement == Placement::InPlace;
        let partial = if is_placed {
            page_bytes > SECTOR_BYTES
        } else {
            geometry.programs_per_page_max > 1 && page_bytes >= 2 * SECTOR_BYTES
        };
        let sectors = match config.log_unit {
            LogUnit::Auto => partial && (is_placed || area == LogArea::Fixed),
            LogUnit::Sector if !partial => {
                return Err(IndexError::Unsupported(
                    "log_unit = sector: this part takes no partial program, or its pages are sectors".into(),
                ));
            }
            unit => unit == LogUnit::Sector,
        };
        let format = Format {
            record: config.record,
            area,
            is_placed,
            order: config.order.unwrap_or(usize::MAX).min(most::NODE_ENTRIES as usize),
            unit_bytes: page_bytes,
            log_pages: 0,
        };
        let mut form = Form::new(format, geometry);
        let format = &mut form.format;
        if sectors && is_placed {
            // A part of the page, which is shorter than that of a chip by what its tag takes.
            let mut parts = page_bytes.div_ceil(SECTOR_BYTES);
            while !page_bytes.is_multiple_of(parts) {
                parts -= 1;
            }
            format.unit_bytes = page_bytes / parts;
        } else if sectors {
            let programs = geometry.programs_per_page_max as usize;
            format.unit_bytes = SECTOR_BYTES.max(page_bytes / programs.min(page_bytes / SECTOR_BYTES));
            format.unit_bytes = format.unit_bytes.next_power_of_two();
        }
        if !form.has_room_for_entries() {
            return Err(IndexError::Unsupported(message!(
                "pages of {page_bytes} bytes are too small for nodes of 4 entries and log records of this size"
            ).into()));
        }
        if (geometry.spare_bytes as usize) < TAG_BYTES {
            let (needs, has) = (TAG_BYTES as u32, geometry.spare_bytes);
            return Err(IndexError::SpareTooSmall { who: "a tree with in-page logging", needs, has });
        }
        let least = form.units_for_any_operation().div_ceil(form.units_per_page());
        let wanted = config.log_pages.unwrap_or(0).min(geometry.pages_per_block);
        let share = if area == LogArea::Fixed && wanted > 0 { wanted } else { geometry.pages_per_block / 16 };
        let log_pages = share.max(least);
        if log_pages + 4 > geometry.pages_per_block {
            return Err(IndexError::Unsupported(
                message!(
                    "blocks of {} pages are too small: {log_pages} pages of log and four nodes must fit",
                    geometry.pages_per_block
                )
                .into(),
            ));
        }
        form.format.log_pages = log_pages;
        Ok(form)
    }

    fn has_room_for_entries(&self) -> bool {
        let shapes = &self.shapes;
        let units = u64::from(self.geometry.pages_per_block) * u64::from(self.units_per_page());
        let entries = shapes.leaf.capacity.min(shapes.inner.capacity);
        entries >= 4 && self.payload() >= self.record_max() && units < u64::from(NO_UNIT)
    }

    /// Whether the numbers read from a chip can be those of a tree on it.
    pub(super) fn is_possible(&self) -> bool {
        let page_bytes = self.geometry.page_bytes as usize;
        (64..=page_bytes).contains(&self.format.unit_bytes)
            && self.format.order >= 4
            && self.format.log_pages > 0
            && self.format.log_pages + 4 <= self.geometry.pages_per_block
            && self.has_room_for_entries()
    }

    /// Bytes of groups that a unit holds.
    pub(super) fn payload(&self) -> usize {
        self.format.unit_bytes - HEAD_BYTES
    }

    /// Bytes of the longest record with a group of its own.
    fn record_max(&self) -> usize {
        GROUP_BYTES
            + RECORD_BYTES
            + usize::from(self.format.record.key_bytes)
            + usize::from(self.format.record.value_bytes).max(6)
    }

    /// Units that an operation fills at most in one block: a node that splits makes 5 records, a growing root
    /// as many again, and the node at the end one to three.
    pub(super) fn units_for(&self, splits: u32) -> u32 {
        let records = records_of(splits);
        let held = self.payload() + 1 - self.record_max();
        (records * self.record_max()).div_ceil(held) as u32
    }

    /// Units for the largest operation on this chip, with the records that wait before it. In a dynamic area
    /// also a page for an image, before which sectors may stay unused.
    fn units_for_any_operation(&self) -> u32 {
        1 + self.units_for(self.levels_max()) + self.units_for_image()
    }

    /// Most levels of a tree that fills the chip.
    fn levels_max(&self) -> u32 {
        let shapes = &self.shapes;
        let fanout = (shapes.leaf.capacity.min(shapes.inner.capacity) / 2) as u64;
        let (mut levels, mut nodes) = (1, 1u64);
        while nodes < u64::from(self.geometry.pages()) {
            nodes *= fanout;
            levels += 1;
        }
        levels
    }

    /// Most bytes of RAM that the waiting records of one operation take.
    fn operation_bytes(&self) -> usize {
        records_of(self.levels_max()) * (self.record_max() + WAITING_BYTES - RECORD_BYTES)
    }

    /// Units that an image takes of a log area.
    pub(super) fn units_for_image(&self) -> u32 {
        if self.is_fixed() { 0 } else { 2 * self.units_per_page() - 1 }
    }
}

/// The part of the configuration that may change from mount to mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Config {
    pub(super) durability: Durability,
    pub(super) nodes_max: u32,
    pub(super) rewrite_units: u16,
    pub(super) wear_levelling: WearLevelling,
    pub(super) read_pages: usize,
    pub(super) log_bytes: usize,
    pub(super) checkpoint_blocks: u32,
    pub(super) ram_bytes: Option<usize>,
    /// Bytes of the records of a node that are held while it is read.
    pub(super) chain_bytes: usize,
    /// Bytes of RAM for an operation, without the tree and the path to a leaf.
    pub(super) work_bytes: usize,
}

/// Bytes of RAM for lists that grow a little during an operation: bounds, numbers, steps of a chain.
const WORK_BYTES: usize = 1024;

/// Levels and nodes of a tree for which the smallest RAM has room. A larger tree takes RAM from the cache, or
/// is refused.
const LEVELS: usize = 3;
const NODES: usize = 4 * PIECE;

/// Levels that are kept room for.
pub(super) const LEVELS_AT_FIRST: usize = 2;

/// RAM for the structures of a tree themselves.
const TREE_BYTES: usize = 1024;

impl Config {
    pub(super) fn new(asked: &IplConfig, form: &Form) -> Result<Config, IndexError> {
        let (geometry, limit) = (form.geometry, form.nodes_limit());
        let nodes_max = asked.nodes_max.unwrap_or((geometry.pages_per_block * 5 / 8).min(limit * 7 / 8));
        let nodes_max = nodes_max.clamp(2, limit);
        let mut config = Config {
            durability: asked.durability,
            nodes_max: if form.is_fixed() { limit } else { nodes_max },
            rewrite_units: asked.rewrite_units,
            wear_levelling: asked.wear_levelling,
            read_pages: 0,
            log_bytes: usize::MAX,
            checkpoint_blocks: asked.checkpoint_blocks.unwrap_or((geometry.blocks / 16).max(16)).max(1),
            ram_bytes: asked.ram_bytes,
            chain_bytes: usize::MAX,
            work_bytes: 0,
        };
        require_ram(asked.ram_bytes)?;
        // A cache has no use for more pages than the chip has.
        let read_pages = asked.read_pages.map(|pages| pages.min(geometry.pages() as usize));
        if form.is_fixed() {
            config.rewrite_units = 0;
        }
        let page_bytes = geometry.page_bytes as usize;
        let logs = asked.durability != Durability::EveryOperation;
        let buffers = if logs { form.format.unit_bytes } else { 0 };
        match asked.ram_bytes {
            None => config.read_pages = read_pages.unwrap_or(0),
            Some(ram) => {
                config.chain_bytes = records_bytes(form, logs);
                config.work_bytes = work_bytes(form) + config.chain_bytes;
                let needed = fixed_bytes(form, LEVELS, NODES, config.work_bytes) + buffers;
                if ram < needed {
                    return Err(too_little(ram, needed));
                }
                // A tree that grows takes the cache's.
                let fixed = fixed_bytes(form, LEVELS_AT_FIRST, PIECE, config.work_bytes);
                let left = ram.saturating_sub(fixed + buffers);
                config.log_bytes = buffers
                    .max(if logs { left / 4 } else { 0 })
                    .min(buffers.max(most::BUFFER_BYTES as usize));
                let mut left = left.saturating_sub(config.log_bytes);
                if logs {
                    // Long chains need not be read twice where there is RAM.
                    let more = (left / 8).min(chain_bytes_max(form, config.rewrite_units));
                    config.chain_bytes += more;
                    config.work_bytes += more;
                    left -= more;
                }
                let affordable = ReadCache::frames_for(left, page_bytes);
                config.read_pages = read_pages.unwrap_or(affordable.min(geometry.pages() as usize));
                if config.read_pages > affordable {
                    return Err(too_little(ram, fixed + ReadCache::bytes_for(config.read_pages, page_bytes)));
                }
            }
        }
        if let Some(bytes) = asked.log_bytes {
            config.log_bytes = bytes.max(form.format.unit_bytes);
        }
        Ok(config)
    }
}

/// Bytes of RAM that even the smallest tree holds: block tables, path, buffers, page at hand, smallest node
/// table, and the working memory of an operation or a mount.
fn fixed_bytes(form: &Form, levels: usize, nodes: usize, work: usize) -> usize {
    let geometry = form.geometry;
    let page = geometry.page_bytes as usize;
    let blocks = geometry.blocks as usize;
    let table = BlockTable::ram_needed(geometry, Validity::Bits, VictimPolicy::Greedy);
    let tables = table + blocks * size_of::<Block>();
    let path = path_bytes(form, levels);
    // A mount after a cut has no path.
    let working = path.max(Look::bytes_kept(geometry)) + work;
    TREE_BYTES
        + tables
        + working.max(Look::bytes_min(geometry))
        + ReadCache::bytes_for(0, page)
        + page
        + geometry.spare_bytes as usize
        + nodes / PIECE * PIECE_BYTES
        + CheckpointArea::lists_bytes(geometry, saved_bytes(geometry, nodes))
}

/// Bytes of a checkpoint with `nodes` nodes in all blocks.
pub(super) fn saved_bytes(geometry: Geometry, nodes: usize) -> usize {
    let blocks = geometry.blocks as usize * BLOCK_BYTES;
    FIXED_BYTES + BlockTable::encoded_bytes(geometry) + blocks + nodes * SLOT_BYTES
}

/// Bytes of the nodes on the path to a leaf.
pub(super) fn path_bytes(form: &Form, levels: usize) -> usize {
    levels * (form.shapes.node_bytes() + size_of::<PathStep>())
}

/// Bytes of RAM of the records that wait for one unit. In RAM the head of a record is longer than in the
/// unit.
fn held_bytes(form: &Form) -> usize {
    let key = usize::from(form.format.record.key_bytes);
    form.payload() * (WAITING_BYTES + key) / (RECORD_BYTES + key)
}

/// The records of the longest chain that is usual.
fn chain_bytes_max(form: &Form, rewrite_units: u16) -> usize {
    let all = form.units_per_block() as usize;
    let units = match (form.format.area, rewrite_units) {
        (LogArea::Fixed, _) => (form.format.log_pages * form.units_per_page()) as usize,
        (LogArea::Dynamic, 0) => all,
        // Those of the split that comes before.
        (LogArea::Dynamic, units) => usize::from(units) + 3,
    };
    units.min(all) * held_bytes(form)
}

/// Most bytes of records that an operation holds: those that it makes, and a buffer that grows by a quarter,
/// with the old buffer still there. Twice that, since the records of a chain may take as much.
fn records_bytes(form: &Form, logs: bool) -> usize {
    let (operation, unit) = (form.operation_bytes(), held_bytes(form));
    let buffer = if logs { unit } else { operation };
    operation + buffer + buffer / 4
}

/// Most bytes that an operation holds besides the tree, the path and records: a node that is moved, in a
/// fixed area a node that is split, and the lists of a merge.
fn work_bytes(form: &Form) -> usize {
    let nodes = if form.is_fixed() { 2 } else { 1 };
    let row = size_of::<u32>() + usize::from(form.format.record.key_bytes) + KeyRows::MORE;
    let lists = form.nodes_limit() as usize * row;
    nodes * form.shapes.node_bytes() + lists + WORK_BYTES
}

fn too_little(given: usize, needed: usize) -> IndexError {
    IndexError::TooLittleRam { what: "block tables, buffers and one page", given, needed }
}

//! How settings become a tree: the form of the log area, the sizes, and what the RAM is for.

use super::cache::ReadCache;
use super::image::Shapes;
use super::layout::{GROUP_BYTES, HEAD_BYTES, NO_UNIT, RECORD_BYTES, TAG_BYTES};
use super::store::{Block, Slot};
use crate::blocks::BlockTable;
use crate::check::IndexError;
use crate::check::message;
use crate::index::most;
use crate::log::Placement;
use crate::nand::Geometry;
use crate::ordered::{Durability, RecordFormat, Settings};

/// Options of the tree: name and meaning.
pub const OPTIONS: [(&str, &str); 10] = [
    ("log_area", "dynamic (default): dIPL; fixed: IPL"),
    ("order", "entries of a node at most (default: what the page holds)"),
    ("log_unit", "auto (default), sector (of 512 bytes, by partial programs, or in place), page"),
    ("log_pages", "fixed: pages of a block's log region (default: a 16th of the block)"),
    ("nodes_max", "dynamic: nodes of a block that a merge keeps together (default: five eighths of a block)"),
    (
        "rewrite_units",
        "dynamic: log units after which a node is written anew in its block; 0: never (default: 4)",
    ),
    ("read_pages", "pages of the read cache (default: what the RAM leaves)"),
    (
        "log_bytes",
        "bytes of all log buffers; the fullest is programmed beyond (default: a unit for each block)",
    ),
    (
        "checkpoint_blocks",
        "blocks opened between two checkpoints (default: 16, or a 16th of the chip if that is more)",
    ),
    ("placement", "out_of_place (default), in_place: nodes and log pages written over, on an FTL"),
];

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

/// What is fixed when the chip is formatted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Format {
    pub(super) record: RecordFormat,
    pub(super) area: LogArea,
    pub(super) order: usize,
    pub(super) unit_bytes: usize,
    /// Fixed: pages of the log region. Dynamic: pages that a merge leaves for the log at least.
    pub(super) log_pages: u32,
}

impl Format {
    /// As settings ask.
    pub(super) fn new(settings: &Settings, geometry: Geometry) -> Result<Format, IndexError> {
        let options = &settings.options;
        let area = match options.choice("log_area", &["dynamic", "fixed"])? {
            "fixed" => LogArea::Fixed,
            _ => LogArea::Dynamic,
        };
        let page_bytes = geometry.page_bytes as usize;
        let is_placed = placement(settings)? == Placement::InPlace;
        let partial = if is_placed {
            page_bytes > SECTOR_BYTES
        } else {
            geometry.programs_per_page_max > 1 && page_bytes >= 2 * SECTOR_BYTES
        };
        let sectors = match options.choice("log_unit", &["auto", "sector", "page"])? {
            "auto" => partial && (is_placed || area == LogArea::Fixed),
            "sector" if !partial => {
                return Err(IndexError::Unsupported(
                    "log_unit = sector: this part takes no partial program, or its pages are sectors".into(),
                ));
            }
            choice => choice == "sector",
        };
        let mut format = Format {
            record: settings.record,
            area,
            order: options.number("order", 0..=most::NODE_ENTRIES)?.unwrap_or(most::NODE_ENTRIES) as usize,
            unit_bytes: page_bytes,
            log_pages: 0,
        };
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
        if !format.has_room_for_entries(geometry) {
            return Err(IndexError::Unsupported(message!(
                "pages of {page_bytes} bytes are too small for nodes of 4 entries and log records of this size"
            )));
        }
        if (geometry.spare_bytes as usize) < TAG_BYTES {
            return Err(IndexError::Unsupported(message!(
                "a page's tag takes {TAG_BYTES} bytes of spare area; the part has {}",
                geometry.spare_bytes
            )));
        }
        let least = format.units_for_any_operation(geometry).div_ceil(format.units_per_page(geometry));
        let wanted =
            options.number("log_pages", 0..=u64::from(geometry.pages_per_block))?.unwrap_or(0) as u32;
        let share = if area == LogArea::Fixed && wanted > 0 { wanted } else { geometry.pages_per_block / 16 };
        format.log_pages = share.max(least);
        if format.log_pages + 4 > geometry.pages_per_block {
            return Err(IndexError::Unsupported(message!(
                "blocks of {} pages are too small: {} pages of log and four nodes must fit",
                geometry.pages_per_block,
                format.log_pages
            )));
        }
        Ok(format)
    }

    fn has_room_for_entries(&self, geometry: Geometry) -> bool {
        let shapes = self.shapes(geometry);
        let units = u64::from(geometry.pages_per_block) * u64::from(self.units_per_page(geometry));
        let entries = shapes.leaf.capacity.min(shapes.inner.capacity);
        entries >= 4 && self.payload() >= self.record_max() && units < u64::from(NO_UNIT)
    }

    /// Whether the numbers read from a chip can be those of a tree on it.
    pub(super) fn is_possible(&self, geometry: Geometry) -> bool {
        let page_bytes = geometry.page_bytes as usize;
        (64..=page_bytes).contains(&self.unit_bytes)
            && page_bytes.is_multiple_of(self.unit_bytes)
            && self.order >= 4
            && self.log_pages > 0
            && self.log_pages + 4 <= geometry.pages_per_block
            && self.has_room_for_entries(geometry)
    }

    pub(super) fn shapes(&self, geometry: Geometry) -> Shapes {
        Shapes::new(geometry.page_bytes as usize, self.record, self.order)
    }

    pub(super) fn units_per_page(&self, geometry: Geometry) -> u32 {
        geometry.page_bytes / self.unit_bytes as u32
    }

    /// Bytes of groups that a unit holds.
    pub(super) fn payload(&self) -> usize {
        self.unit_bytes - HEAD_BYTES
    }

    /// Bytes of the longest record with a group of its own.
    fn record_max(&self) -> usize {
        GROUP_BYTES
            + RECORD_BYTES
            + usize::from(self.record.key_bytes)
            + usize::from(self.record.value_bytes).max(6)
    }

    /// Units that an operation fills at most in one block: a node that splits makes 5 records, a growing root as many
    /// again, and the node at the end one to three.
    pub(super) fn units_for(&self, splits: u32) -> u32 {
        let records = if splits == 0 { 1 } else { 5 * splits as usize + 6 };
        let held = self.payload() + 1 - self.record_max();
        (records * self.record_max()).div_ceil(held) as u32
    }

    /// The same for the largest operation on this chip, after what waits there before, and in a dynamic area with a page
    /// for an image; sectors may be left unused before that.
    fn units_for_any_operation(&self, geometry: Geometry) -> u32 {
        let shapes = self.shapes(geometry);
        let fanout = (shapes.leaf.capacity.min(shapes.inner.capacity) / 2) as u64;
        let (mut levels, mut nodes) = (1, 1u64);
        while nodes < u64::from(geometry.pages()) {
            nodes *= fanout;
            levels += 1;
        }
        1 + self.units_for(levels) + self.units_for_image(geometry)
    }

    /// Units that an image takes of a log area.
    pub(super) fn units_for_image(&self, geometry: Geometry) -> u32 {
        if self.area == LogArea::Fixed { 0 } else { 2 * self.units_per_page(geometry) - 1 }
    }

    /// Nodes of a block at most.
    pub(super) fn nodes_limit(&self, geometry: Geometry) -> u32 {
        geometry.pages_per_block - self.log_pages
    }
}

/// What may change from mount to mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Config {
    pub(super) durability: Durability,
    pub(super) nodes_max: u32,
    pub(super) rewrite_units: u16,
    pub(super) read_pages: usize,
    pub(super) log_bytes: usize,
    pub(super) checkpoint_blocks: u32,
    pub(super) ram_bytes: Option<usize>,
    pub(super) placement: Placement,
}

/// Where nodes are written, as settings ask.
pub(super) fn placement(settings: &Settings) -> Result<Placement, IndexError> {
    Ok(match settings.options.choice("placement", &["out_of_place", "in_place"])? {
        "in_place" => Placement::InPlace,
        _ => Placement::OutOfPlace,
    })
}

/// RAM for what grows a little while an operation runs: lists of a merge, bounds, numbers.
const WORK_BYTES: usize = 512;

impl Config {
    pub(super) fn new(
        settings: &Settings,
        format: &Format,
        geometry: Geometry,
    ) -> Result<Config, IndexError> {
        let options = &settings.options;
        let limit = format.nodes_limit(geometry);
        let number = |name| {
            let pages = u64::from(geometry.pages());
            Ok::<Option<u32>, IndexError>(options.number(name, 0..=pages)?.map(|n| n as u32))
        };
        let nodes_max = number("nodes_max")?.unwrap_or((geometry.pages_per_block * 5 / 8).min(limit * 7 / 8));
        let nodes_max = nodes_max.clamp(2, limit);
        let mut config = Config {
            durability: settings.durability,
            nodes_max: if format.area == LogArea::Fixed { limit } else { nodes_max },
            rewrite_units: number("rewrite_units")?.unwrap_or(4).min(u32::from(u16::MAX)) as u16,
            read_pages: 0,
            log_bytes: usize::MAX,
            checkpoint_blocks: number("checkpoint_blocks")?.unwrap_or((geometry.blocks / 16).max(16)).max(1),
            ram_bytes: settings.ram_bytes,
            placement: placement(settings)?,
        };
        if format.area == LogArea::Fixed {
            config.rewrite_units = 0;
        }
        let page_bytes = geometry.page_bytes as usize;
        let fixed = fixed_bytes(format, geometry);
        let buffers = if settings.durability == Durability::EveryOperation { 0 } else { format.unit_bytes };
        match settings.ram_bytes {
            None => config.read_pages = number("read_pages")?.unwrap_or(0) as usize,
            Some(ram) => {
                let left =
                    ram.checked_sub(fixed + buffers).ok_or_else(|| too_little(ram, fixed + buffers))?;
                config.log_bytes = buffers.max(if buffers > 0 { left / 4 } else { 0 });
                let left = left.saturating_sub(config.log_bytes);
                let most = ReadCache::frames_for(left, page_bytes);
                config.read_pages = number("read_pages")?.map_or(most, |n| n as usize);
                if config.read_pages > most {
                    return Err(too_little(ram, fixed + ReadCache::bytes_for(config.read_pages, page_bytes)));
                }
            }
        }
        if let Some(bytes) = number("log_bytes")? {
            config.log_bytes = (bytes as usize).max(format.unit_bytes);
        }
        Ok(config)
    }
}

/// What the tree holds however small it is: block tables, path, buffers, page at hand, the least node table.
pub(super) fn fixed_bytes(format: &Format, geometry: Geometry) -> usize {
    let page = geometry.page_bytes as usize;
    let shapes = format.shapes(geometry);
    let blocks = BlockTable::new(geometry).ram_bytes() + geometry.blocks as usize * size_of::<Block>();
    let path = 4 * (shapes.node_bytes() + size_of::<super::image::Node>());
    let records = 2 * format.unit_bytes;
    1024 + blocks
        + path
        + records
        + ReadCache::bytes_for(0, page)
        + page
        + geometry.spare_bytes as usize
        + 64 * size_of::<Slot>()
        + WORK_BYTES
}

fn too_little(ram: usize, needed: usize) -> IndexError {
    IndexError::Unsupported(message!(
        "{ram} bytes of RAM are too few: block tables, buffers and one page take {needed}"
    ))
}

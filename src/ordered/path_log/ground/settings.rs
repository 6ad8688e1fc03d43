//! How settings become a log, and the options that every tree on raw NAND takes.

use crate::blocks::BlockTable;
use crate::blocks::victim::VictimPolicy;
use crate::check::IndexError;
use crate::check::message;
use crate::log::{LogConfig, Placement, SamePage, WritePartLimit};
use crate::nand::Geometry;
use crate::ordered::{Durability, Settings};

/// Bytes of cache bookkeeping per page, besides the page.
const FRAME_BYTES: usize = 96;

/// The log that `settings` ask for. `fixed_bytes` is what the tree itself holds; the rest of the RAM goes to the
/// cache: to its read part when every operation is to be durable, else half to each part.
pub(crate) fn raw_config(
    settings: &Settings,
    geometry: Geometry,
    fixed_bytes: usize,
    pages_at_once: u32,
) -> Result<LogConfig, IndexError> {
    let options = &settings.options;
    let default = LogConfig::default();
    let page_bytes = geometry.page_bytes as usize + FRAME_BYTES;
    let victim = match options.text("victim") {
        Some(text) => {
            VictimPolicy::parse(text).map_err(|e| IndexError::Unsupported(message!("option victim: {e}")))?
        }
        None => default.victim,
    };
    let mut blocks = BlockTable::new(geometry);
    blocks.follow(victim);
    let openings = geometry.blocks as usize * size_of::<u16>();
    let tables = blocks.ram_bytes() + openings + 2 * geometry.page_bytes as usize + 512 + fixed_bytes;
    let divided = settings.durability < Durability::EveryOperation;
    // What the write part holds beyond its size until it is flushed.
    let overfull_pages = pages_at_once as usize;
    let spare_pages = match settings.ram_bytes {
        None => 0,
        Some(ram) => {
            let left = ram.checked_sub(tables).ok_or_else(|| too_little(ram, tables))?;
            (left / page_bytes).saturating_sub(if divided { overfull_pages } else { 0 })
        }
    };
    let write_default = if divided { (spare_pages / 2).min(200) } else { 0 };
    // A cache has no use for more pages than the chip has.
    let pages = |name| options.number(name, 0..=u64::from(geometry.pages()));
    let write_pages = pages("write_pages")?.map_or(write_default, |n| n as usize);
    let read_default = spare_pages.saturating_sub(write_pages);
    let read_pages = pages("read_pages")?.map_or(read_default, |n| n as usize);
    if let Some(ram) = settings.ram_bytes {
        let overfull_pages = if write_pages > 0 { overfull_pages } else { 0 };
        let needed = tables + (read_pages + write_pages + overfull_pages) * page_bytes;
        if needed > ram {
            return Err(too_little(ram, needed));
        }
    }
    if write_pages > 0 && !divided {
        return Err(IndexError::Unsupported(message!(
            "write_pages = {write_pages} makes the tree durable at every sync only, and every operation is asked for"
        )));
    }
    let blocks = |name, default: u32| {
        Ok::<u32, IndexError>(options.number(name, 1..=1 << 24)?.map_or(default, |n| n as u32))
    };
    Ok(LogConfig {
        read_pages,
        write_pages,
        write_part: match options.choice("write_part", &["operation", "lenient", "strict"])? {
            "lenient" => WritePartLimit::Lenient,
            "strict" => WritePartLimit::Strict,
            _ => WritePartLimit::Operation,
        },
        victim,
        collect_at_blocks: blocks("collect_at_blocks", default.collect_at_blocks)?,
        checkpoint_blocks: blocks("checkpoint_blocks", default.checkpoint_blocks)?,
        holds: false,
        placement: match options.choice("placement", &["out_of_place", "in_place"])? {
            "in_place" => Placement::InPlace,
            _ => Placement::OutOfPlace,
        },
        same_page: match options.choice("same_page", &["free", "read"])? {
            "read" => SamePage::Read,
            _ => SamePage::Free,
        },
    })
}

fn too_little(ram: usize, needed: usize) -> IndexError {
    IndexError::Unsupported(message!(
        "{ram} bytes of RAM are too few: tables, buffers and cache take {needed}"
    ))
}

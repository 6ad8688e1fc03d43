//! An FTL beneath a tree that places its pages itself: the option `beneath` of every tree on raw NAND.
//!
//! The tree sees the FTL's pages as a chip ([`StoreNand`]). Its blocks have as many pages as the real ones,
//! so that a block of the tree is a logical block of the FTL, if that has logical blocks.

use super::{ftl_named, too_little};
use crate::entry::{Open, OpenIndex};
use crate::names::OptionInfo;
use crate::options::raw::{BENEATH, PAIRING};
use crate::options::{Options, Settings};
use nandex::Shared;
use nandex::log::tag::spare_bytes_needed;
use nandex::nand::{LowerPages, Pairing};
use nandex::ordered::{IndexStats, Metric, OrderedIndex};
use nandex::store::store_nand::StoreNand;
use nandex::{IndexError, Nand, PageStore};

/// Name of the FTL that the options put below a tree on raw NAND; `None` without one.
pub(crate) fn beneath(options: &Options) -> Option<&str> {
    options.text(BENEATH.name).filter(|name| *name != BENEATH.default)
}

/// Opens a tree on raw NAND, or on the FTL that its settings put beneath it. `own` are the tree's own
/// options, which are not passed on to an FTL with options of the same name.
pub(crate) fn raw_tree(
    nand: Box<dyn Nand>,
    settings: &Settings,
    own: &[OptionInfo],
    open: Open,
    tree: OpenIndex,
) -> Result<Box<dyn OrderedIndex>, IndexError> {
    let nand: Box<dyn Nand> = match PAIRING.of(&settings.options)? {
        Pairing::None => nand,
        pairing => Box::new(LowerPages::new(nand, pairing)),
    };
    let Some(name) = beneath(&settings.options) else { return tree(nand, settings) };
    let mut options = Options::default();
    let others = settings.options.iter().filter(|(name, _)| own.iter().all(|o| o.name != *name));
    others.for_each(|(name, value)| options.set(name, value));
    let pages_per_block = nand.geometry().pages_per_block;
    let store = ftl_named(name, nand, &Settings { options, ..settings.clone() }, open)?;
    let mut chip = StoreNand::new(store, pages_per_block, spare_bytes(pages_per_block))?;
    if settings.options.text("placement") == Some("in_place") {
        chip = chip.replacing();
    }
    let ram_bytes = match settings.ram_bytes {
        None => None,
        Some(ram) => {
            let held = chip.ram_bytes() + size_of::<OnFtl>();
            // The FTL mounts before there is anything else. A chip of before with less RAM stays readable.
            let mount = if open == Open::Format { chip.store().mount_ram_bytes() } else { 0 };
            let least = held.max(mount);
            Some(if ram < least { Err(too_little(ram, least)) } else { Ok(ram - held) }?)
        }
    };
    let chip = Shared::new(chip);
    let tree = tree(Box::new(chip.clone()), &Settings { ram_bytes, ..settings.clone() })?;
    Ok(Box::new(OnFtl { tree, chip }))
}

/// Spare bytes for any tree. With the mark, they take a multiple of 64 bytes of the FTL's page.
fn spare_bytes(pages_per_block: u32) -> u32 {
    (spare_bytes_needed(pages_per_block) as u32 + 1).next_multiple_of(64) - 1
}

struct OnFtl {
    tree: Box<dyn OrderedIndex>,
    chip: Shared<StoreNand<Box<dyn PageStore>>>,
}

impl OrderedIndex for OnFtl {
    nandex::forward_index!(tree: record, durability, get, insert, put, remove, apply, load, range, sync, check);
    nandex::forward_index!(tree: maintain, scrub, free, records_max);

    fn close(&mut self) -> Result<(), IndexError> {
        self.tree.close()?;
        Ok(self.chip.lock().store_mut().checkpoint()?)
    }

    /// Statistics of the tree and of the FTL beneath it. The tree's pages are logical pages here.
    fn stats(&self) -> IndexStats {
        let mut stats = self.tree.stats();
        let ftl = self.chip.lock().store().stats();
        stats.metrics.extend([
            Metric { name: "ftl_collections", value: ftl.collections },
            Metric { name: "ftl_moved_pages", value: ftl.moved_pages },
            Metric { name: "ftl_switch_merges", value: ftl.switch_merges },
            Metric { name: "ftl_partial_merges", value: ftl.partial_merges },
            Metric { name: "ftl_full_merges", value: ftl.full_merges },
        ]);
        if ftl.log_blocks > 0 {
            stats.metrics.push(Metric { name: "log_blocks", value: ftl.log_blocks });
        }
        stats
    }

    fn ram_bytes(&self) -> usize {
        self.tree.ram_bytes() + self.chip.lock().ram_bytes() + size_of::<OnFtl>()
    }
}

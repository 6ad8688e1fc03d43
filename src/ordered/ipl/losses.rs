//! The checks for losses that no power cut can have caused: a chip on which something of that is missed was
//! damaged, and the mount is refused.
//!
//! * A page that another one names as the one programmed before, in a block with nodes of the tree; a log
//!   unit between two others; the units that a checkpoint knows of.
//! * A page of a merge of which later pages say that it was whole (`opened`), if it may have held a node of
//!   the tree.
//! * A record or an image of a node of the tree that is newer than the version that was found.
//! * A version that was found in a block that had been given back: by then there was a newer one elsewhere.

use super::checkpoint::Saved;
use super::layout::{IplTag, PageKind};
use super::recovery::Held;
use super::store::{NO_BLOCK, Store};
use super::views::View;
use crate::check::IndexError;
use crate::nand::Nand;
use crate::units::{Pbn, Ppn};
use alloc::collections::{BTreeMap, BTreeSet};

fn lost(what: &'static str, at: Ppn) -> Result<(), IndexError> {
    Err(IndexError::Corrupted { what, at: u64::from(at.0) })
}

impl<N: Nand> Store<N> {
    /// Refuses a chip on which something is missing that no power cut can have taken.
    pub(super) fn notice_losses(
        &mut self,
        views: &[View],
        held: &Held,
        saved: &Saved,
    ) -> Result<(), IndexError> {
        self.miss_pages(views, saved)?;
        self.miss_merged(views, held)?;
        self.miss_records(held)?;
        self.miss_newer(views, saved)
    }

    /// Whether the block holds a node of the tree.
    fn is_needed(&self, view: &View) -> bool {
        self.blocks[view.pbn.index()].live > 0
    }

    fn first_page(&self, pbn: Pbn) -> Ppn {
        self.geometry.page_at(pbn, 0)
    }

    /// Pages and units missing in blocks that hold nodes.
    fn miss_pages(&self, views: &[View], saved: &Saved) -> Result<(), IndexError> {
        let by_generation: BTreeMap<u32, &View> = views.iter().map(|view| (view.generation, view)).collect();
        for link in views.iter().flat_map(|view| &view.links) {
            let Some(view) = by_generation.get(&link.generation) else { continue };
            if self.is_needed(view) && view.whole.get(usize::from(link.unit)) == Some(&false) {
                let what = "I5: the page programmed before another one is missing";
                return lost(what, self.unit_page(view.pbn, link.unit));
            }
        }
        for view in views.iter().filter(|view| self.is_needed(view)) {
            if view.gap {
                return lost("I5: a page or log unit of this block is missing", self.first_page(view.pbn));
            }
            if let Some(ppn) = view.unreadable {
                return lost("I5: a page of log sectors cannot be read", ppn);
            }
            let known = saved.blocks.iter().find(|known| known.0 == view.pbn);
            let known = known.filter(|known| known.1.generation == view.generation);
            if known.is_some_and(|known| view.units < known.1.units) {
                return lost("I5: the last log units of this block are missing", self.first_page(view.pbn));
            }
        }
        Ok(())
    }

    /// Merges that were whole and are not now. Where all nodes that can be seen there are elsewhere, and
    /// newer, an erase was cut.
    fn miss_merged(&mut self, views: &[View], held: &Held) -> Result<(), IndexError> {
        let committed = self.committed;
        for view in views {
            let is_cut = view.generation > self.opened;
            if view.is_complete() || view.is_void(committed) || is_cut {
                continue;
            }
            for page in 0..self.geometry.pages_per_block {
                let ppn = self.geometry.page_at(view.pbn, page);
                let is_image = |tag: &IplTag| {
                    tag.kind == PageKind::Data
                        && tag.sequence <= committed
                        && tag.generation == view.generation
                };
                let Some(tag) = self.read_spare(ppn)?.filter(is_image) else { continue };
                let chosen = held.versions.get(tag.node as usize).copied().flatten();
                let newer = chosen.is_none_or(|chosen| {
                    (chosen.sequence, chosen.generation) < (tag.sequence, tag.generation)
                });
                if self.is_in_tree(tag.node) && newer {
                    return lost(
                        "I4: an image of the merge to this block is missing",
                        self.first_page(view.pbn),
                    );
                }
            }
        }
        Ok(())
    }

    fn is_in_tree(&self, node: u32) -> bool {
        self.slots.get(node as usize).is_some_and(|slot| slot.block != NO_BLOCK)
    }

    /// Log records that are newer than the version that was found of their node.
    fn miss_records(&self, held: &Held) -> Result<(), IndexError> {
        for (&node, &(sequence, pbn)) in &held.logged {
            let found = held.versions.get(node as usize).copied().flatten();
            let newer = found.is_some_and(|found| found.slot.block != pbn.0 && found.sequence < sequence);
            if self.is_in_tree(node) && newer {
                return lost(
                    "I5: the image is missing that log records of this block are of",
                    self.first_page(pbn),
                );
            }
        }
        Ok(())
    }

    /// Nodes found in blocks that had none any more.
    fn miss_newer(&self, views: &[View], saved: &Saved) -> Result<(), IndexError> {
        let known: BTreeSet<u32> = saved.blocks.iter().map(|known| known.1.generation).collect();
        let dead: BTreeSet<u32> = views.iter().flat_map(|view| view.dead.iter().copied()).collect();
        for view in views.iter().filter(|view| self.is_needed(view)) {
            let was_empty = view.generation <= saved.generation && !known.contains(&view.generation);
            if was_empty || dead.contains(&view.generation) {
                return lost(
                    "I4: the newer version of a node found here is missing",
                    self.first_page(view.pbn),
                );
            }
        }
        Ok(())
    }
}

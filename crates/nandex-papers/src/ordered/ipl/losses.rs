//! The checks for losses that no power cut can have caused: a chip on which something of that is missed was
//! damaged, and the mount is refused.
//!
//! * A page that another one names as the one programmed before, in a block with nodes of the tree; a log
//!   unit between two others; the units that a checkpoint knows of.
//! * A page of a merge of which later pages say that it was whole (`opened`), if it may have held a node of
//!   the tree.
//! * A record or an image of a node of the tree that is newer than the version that was found.
//! * A version that was found in a block that had been given back: by then there was a newer one elsewhere.

use super::layout::{Change, Head, IplTag, NO_UNIT, PageKind, groups, records};
use super::look::{Look, flag};
use super::store::{NO_BLOCK, Slot, Store};
use nandex::check::{IndexError, Invariant};
use nandex::nand::{Cause, Nand};
use nandex::units::{Pbn, Ppn};

fn lost(invariant: Invariant, what: &'static str, at: Ppn) -> Result<(), IndexError> {
    Err(IndexError::broken(invariant, what, u64::from(at.0)))
}

impl<N: Nand> Store<N> {
    /// Refuses a chip on which something is missing that no power cut can have taken. The checkpoint knew of
    /// the blocks up to a generation.
    pub(super) fn notice_losses(&mut self, look: &Look, saved_generation: u32) -> Result<(), IndexError> {
        self.miss_pages(look)?;
        self.miss_merged(look)?;
        self.miss_records(look)?;
        self.miss_newer(look, saved_generation)
    }

    /// Whether the block holds a node of the tree.
    fn is_needed(&self, pbn: Pbn) -> bool {
        self.blocks[pbn.index()].live > 0
    }

    fn first_page(&self, pbn: Pbn) -> Ppn {
        self.geometry.page_at(pbn, 0)
    }

    /// Pages and units missing in blocks that hold nodes.
    fn miss_pages(&self, look: &Look) -> Result<(), IndexError> {
        if let Some(&ppn) = look.lost.iter().find(|&&ppn| self.is_needed(self.geometry.block_of(ppn))) {
            return lost(Invariant::I5, "the page programmed before another one is missing", ppn);
        }
        for pbn in look.with(flag::USED).filter(|&pbn| self.is_needed(pbn)) {
            let what = if look.has(pbn, flag::GAP) {
                "a page or log unit of this block is missing"
            } else if look.has(pbn, flag::UNREADABLE) {
                "a page of log sectors cannot be read"
            } else if look.has(pbn, flag::FEWER) {
                "the last log units of this block are missing"
            } else {
                continue;
            };
            return lost(Invariant::I5, what, self.first_page(pbn));
        }
        Ok(())
    }

    /// Merges that were whole and are not now. Where all nodes that can be seen there are elsewhere, and
    /// newer, an erase was cut.
    fn miss_merged(&mut self, look: &Look) -> Result<(), IndexError> {
        let (committed, opened) = (self.committed, self.opened);
        for pbn in look.with(flag::USED) {
            let generation = self.blocks[pbn.index()].generation;
            if look.has(pbn, flag::COMPLETE) || look.has(pbn, flag::VOID) || generation > opened {
                continue;
            }
            let torn = if look.has(pbn, flag::TORN) { self.last_image_of(pbn)? } else { None };
            for page in (0..self.geometry.pages_per_block).filter(|&page| Some(page) != torn) {
                let ppn = self.geometry.page_at(pbn, page);
                let is_image = |tag: &IplTag| {
                    tag.kind == PageKind::Data && tag.sequence <= committed && tag.generation == generation
                };
                let Some(tag) = self.read_spare(ppn)?.filter(is_image) else { continue };
                if self.is_in_tree(tag.node) && self.is_newer(&tag, look)? {
                    return lost(
                        Invariant::I4,
                        "an image of the merge to this block is missing",
                        self.first_page(pbn),
                    );
                }
            }
        }
        Ok(())
    }

    fn is_in_tree(&self, node: u32) -> bool {
        self.slots.get(node).is_some_and(|slot| slot.block != NO_BLOCK)
    }

    /// Whether an image is newer than the version that was found of its node.
    fn is_newer(&mut self, tag: &IplTag, look: &Look) -> Result<bool, IndexError> {
        let slot = self.slots[tag.node as usize];
        let block = self.blocks[slot.block as usize];
        let is_older = |sequence: u64| (sequence, block.generation) < (tag.sequence, tag.generation);
        // Nothing in a whole block is older than its merge.
        if look.has(Pbn(slot.block), flag::COMPLETE) && !is_older(block.born.get()) {
            return Ok(false);
        }
        Ok(is_older(self.sequence_of(tag.node, slot)?))
    }

    /// The number at which a node came to its block: as a ghost, or by its image.
    fn sequence_of(&mut self, id: u32, slot: Slot) -> Result<u64, IndexError> {
        let (pbn, size) = (Pbn(slot.block), self.format.unit_bytes);
        let (mut unit, mut born) = (slot.last, None);
        while unit != NO_UNIT && born.is_none() {
            let at = (u32::from(unit) % self.units_per_page()) as usize * size;
            let frame = self.read(self.unit_page(pbn, unit), Cause::Recovery)?;
            let bytes = &self.cache.page(frame).0[at..at + size];
            let group = groups(bytes).flatten().find(|group| group.node == id);
            let (Some(head), Some(group)) = (Head::decode(bytes), group) else { break };
            for (sequence, change) in records(self.shapes.widths(), head.first, group.records).flatten() {
                if matches!(change, Change::Ghost { .. } | Change::GhostOfAll { .. }) {
                    born = Some(sequence);
                }
            }
            unit = if group.previous < unit { group.previous } else { NO_UNIT };
        }
        if let Some(sequence) = born {
            return Ok(sequence);
        }
        let ppn = self.geometry.page_at(pbn, slot.base.into());
        let frame = self.read(ppn, Cause::Recovery)?;
        Ok(IplTag::decode(self.cache.page(frame).1).map_or(0, |tag| tag.sequence))
    }

    /// Log records that are newer than the version that was found of their node.
    fn miss_records(&self, look: &Look) -> Result<(), IndexError> {
        match look.suspects.iter().find(|suspect| self.is_in_tree(suspect.0)) {
            Some(&(_, pbn)) => lost(
                Invariant::I5,
                "the image is missing that log records of this block are of",
                self.first_page(pbn),
            ),
            None => Ok(()),
        }
    }

    /// Nodes found in blocks that had none any more.
    fn miss_newer(&self, look: &Look, saved_generation: u32) -> Result<(), IndexError> {
        for pbn in look.with(flag::USED).filter(|&pbn| self.is_needed(pbn)) {
            let is_old = self.blocks[pbn.index()].generation <= saved_generation;
            if is_old && !look.has(pbn, flag::KNOWN) || look.has(pbn, flag::DEAD) {
                return lost(
                    Invariant::I4,
                    "the newer version of a node found here is missing",
                    self.first_page(pbn),
                );
            }
        }
        Ok(())
    }
}

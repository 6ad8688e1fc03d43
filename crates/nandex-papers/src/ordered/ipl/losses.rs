//! Detection of losses that no power cut can cause. If one is found, the chip was damaged and the mount is
//! refused.
//!
//! These must be present:
//!
//! * A page named by another one as programmed before it, in a block with nodes of the tree; a log unit
//!   between two others; the units known to a checkpoint.
//! * A page of a merge that later pages call complete (`opened`), if the page may have held a node of the
//!   tree.
//! * A record or image, once found, that is newer than the version taken for a node of the tree.
//! * The newer version of a node, if its version was found in a block that had been given back.

use super::layout::{Head, IplTag, NO_UNIT, PageKind, groups, records};
use super::look::{Look, flag};
use super::medium::{Medium, corrupted};
use super::numbers::Numbers;
use super::places::Places;
use super::slots::Slot;
use nandex::check::{IndexError, Invariant};
use nandex::nand::{Cause, Nand};
use nandex::units::Pbn;

/// The nodes found by a mount, and the facts it saw on the chip.
pub(super) struct Losses<'a, N> {
    pub(super) medium: &'a mut Medium<N>,
    pub(super) numbers: &'a Numbers,
    pub(super) places: &'a Places,
    pub(super) look: &'a Look,
}

impl<N: Nand> Losses<'_, N> {
    /// Refuses a chip on which something is missing that no power cut can have removed. The checkpoint knew
    /// the blocks up to generation `saved_generation`.
    pub(super) fn notice(mut self, saved_generation: u32) -> Result<(), IndexError> {
        self.miss_pages()?;
        self.miss_merged()?;
        self.miss_records()?;
        self.miss_newer(saved_generation)
    }

    fn lost(&self, invariant: Invariant, what: &'static str, pbn: Pbn) -> Result<(), IndexError> {
        Err(corrupted(invariant, what, self.medium.form.geometry.page_at(pbn, 0)))
    }

    /// Pages and units missing in blocks that hold nodes.
    fn miss_pages(&self) -> Result<(), IndexError> {
        let (look, geometry) = (self.look, &self.medium.form.geometry);
        let is_needed = |pbn: Pbn| self.places.live(pbn) > 0;
        if let Some(&ppn) = look.lost.iter().find(|&&ppn| is_needed(geometry.block_of(ppn))) {
            let what = "the page programmed before another one is missing";
            return Err(corrupted(Invariant::I5, what, ppn));
        }
        for pbn in look.with(flag::USED).filter(|&pbn| is_needed(pbn)) {
            let what = if look.has(pbn, flag::GAP) {
                "a page or log unit of this block is missing"
            } else if look.has(pbn, flag::UNREADABLE) {
                "a page of log sectors cannot be read"
            } else if look.has(pbn, flag::FEWER) {
                "the last log units of this block are missing"
            } else {
                continue;
            };
            return self.lost(Invariant::I5, what, pbn);
        }
        Ok(())
    }

    /// Checks merges that were complete and are not now. If newer versions of all visible nodes are
    /// elsewhere, an erase was cut, and nothing is lost.
    fn miss_merged(&mut self) -> Result<(), IndexError> {
        let (committed, opened, look) = (self.numbers.committed, self.numbers.opened, self.look);
        for pbn in look.with(flag::USED) {
            let generation = self.places[pbn].generation;
            if look.has(pbn, flag::COMPLETE) || look.has(pbn, flag::VOID) || generation > opened {
                continue;
            }
            let torn = if look.has(pbn, flag::TORN) { self.medium.last_image_of(pbn)? } else { None };
            let geometry = self.medium.form.geometry;
            for page in (0..geometry.pages_per_block).filter(|&page| Some(page) != torn) {
                let ppn = geometry.page_at(pbn, page);
                let is_image = |tag: &IplTag| {
                    tag.kind == PageKind::Data && tag.sequence <= committed && tag.generation == generation
                };
                let Some(tag) = self.medium.read_spare(ppn)?.filter(is_image) else { continue };
                if self.is_in_tree(tag.node) && self.is_newer(&tag)? {
                    return self.lost(Invariant::I4, "an image of the merge to this block is missing", pbn);
                }
            }
        }
        Ok(())
    }

    fn is_in_tree(&self, node: u32) -> bool {
        self.places.slot(node).is_ok()
    }

    /// Whether an image is newer than the version that was found of its node.
    fn is_newer(&mut self, tag: &IplTag) -> Result<bool, IndexError> {
        let slot = self.places.slots[tag.node as usize];
        let block = self.places[Pbn(slot.block)];
        let is_older = |sequence: u64| (sequence, block.generation) < (tag.sequence, tag.generation);
        // Nothing in a whole block is older than its merge.
        if self.look.has(Pbn(slot.block), flag::COMPLETE) && !is_older(block.born.get()) {
            return Ok(false);
        }
        Ok(is_older(self.sequence_of(tag.node, slot)?))
    }

    /// Sequence number at which a node came to its block, as a ghost or by its image.
    fn sequence_of(&mut self, id: u32, slot: Slot) -> Result<u64, IndexError> {
        let (pbn, widths) = (Pbn(slot.block), self.medium.form.shapes.widths());
        let (mut unit, mut born) = (slot.last, None);
        while unit != NO_UNIT && born.is_none() {
            let bytes = self.medium.read_unit(pbn, unit, Cause::Recovery)?.0;
            let group = groups(bytes).flatten().find(|group| group.node == id);
            let (Some(head), Some(group)) = (Head::decode(bytes), group) else { break };
            for (sequence, change) in records(widths, head.first, group.records).flatten() {
                if change.source().is_some() {
                    born = Some(sequence);
                }
            }
            unit = if group.previous < unit { group.previous } else { NO_UNIT };
        }
        if let Some(sequence) = born {
            return Ok(sequence);
        }
        let ppn = self.medium.form.geometry.page_at(pbn, slot.base.into());
        Ok(IplTag::decode(self.medium.read(ppn, Cause::Recovery)?.1).map_or(0, |tag| tag.sequence))
    }

    /// Checks for log records that are newer than the version found of their node.
    fn miss_records(&self) -> Result<(), IndexError> {
        match self.look.suspects.iter().find(|suspect| self.is_in_tree(suspect.0)) {
            Some(&(_, pbn)) => {
                self.lost(Invariant::I5, "the image is missing that log records of this block are of", pbn)
            }
            None => Ok(()),
        }
    }

    /// Checks for nodes found in blocks that had been given back.
    fn miss_newer(&self, saved_generation: u32) -> Result<(), IndexError> {
        let look = self.look;
        for pbn in look.with(flag::USED).filter(|&pbn| self.places.live(pbn) > 0) {
            let is_old = self.places[pbn].generation <= saved_generation;
            if is_old && !look.has(pbn, flag::KNOWN) || look.has(pbn, flag::DEAD) {
                return self.lost(Invariant::I4, "the newer version of a node found here is missing", pbn);
            }
        }
        Ok(())
    }
}

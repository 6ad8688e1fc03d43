//! Mounting after a power cut: the tree is found again from the tags and the log units alone.
//!
//! 1. A look at every page (`scan`) finds `S`, the highest number that any page calls committed. What is
//!    newer than `S` is void.
//! 2. Of each node the newest version that is not void counts: its images and ghost records are ordered by
//!    sequence number, then by generation. A merge that is not complete counts for nothing. That is the same
//!    look, as `S` is guessed before.
//! 3. A walk over the inner nodes finds which nodes belong to the tree; others were removed.
//! 4. What no cut can have taken is missed (`losses`): the mount is refused.
//! 5. Void blocks and cut merges are erased.
//! 6. The session gets a new number, on the chip, before anything else is programmed.
//! 7. Blocks with void pages are merged and erased, so that their numbers are never taken for committed ones
//!    later.
//!
//! Steps 5 to 7 are for writing. Where the chip has no block left for them the tree is read-only.
//!
//! In each block as many pages are left unused after the last whole one as sessions may have torn one there:
//! a page may read as erased and yet be half programmed.

use super::cache::ReadCache;
use super::checkpoint::Saved;
use super::config;
use super::image::Node;
use super::look::{Look, SCAN_BYTES, flag};
use super::store::{ROOT, Slot, Store};
use alloc::vec;
use alloc::vec::Vec;
use nandex::check::{IndexError, Invariant};
use nandex::nand::{Cause, Nand};
use nandex::units::Pbn;

/// A version of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Version {
    pub(super) sequence: u64,
    pub(super) generation: u32,
    pub(super) slot: Slot,
}

impl<N: Nand> Store<N> {
    /// RAM that is left beside so much that others hold.
    fn ram_left(&self, others: usize) -> Option<usize> {
        self.config.ram_bytes.map(|ram| ram.saturating_sub(others + self.ram_bytes()))
    }

    /// RAM that is kept for what operations hold, with a tree of so many levels.
    pub(super) fn reserve_bytes(&self, levels: usize) -> usize {
        config::path_bytes(&self.format, self.geometry, levels) + self.config.work_bytes
    }

    /// Gives the cache the RAM that is left beside so much that others hold, or will.
    pub(super) fn fill_cache(&mut self, others: usize) {
        let page_bytes = self.geometry.page_bytes as usize;
        self.cache = ReadCache::new(0, page_bytes);
        self.at_hand = None;
        let left = self.ram_left(others + self.reserve_bytes(config::LEVELS_AT_FIRST));
        let fit = left.map_or(usize::MAX, |left| ReadCache::frames_for(left, page_bytes));
        self.cache = ReadCache::new(fit.min(self.config.read_pages), page_bytes);
    }

    /// Finds the tree on a chip that was not closed. Others hold so much RAM.
    pub(super) fn recover(&mut self, saved: Saved, others: usize) -> Result<(), IndexError> {
        (self.committed, self.session) = (saved.committed, saved.session);
        (self.generation, self.opened) = (saved.generation, saved.generation);
        self.blocks = saved.blocks;
        let ram = self.ram_left(others).map(|left| left.saturating_sub(SCAN_BYTES));
        let look = self.look_around(ram)?;
        self.committed = look.committed;
        self.sequence = look.newest.max(look.committed);
        // The newest blocks may be gone again; their numbers are not given twice.
        self.generation = self.generation.max(self.opened);
        let is_unprotected = flag::COMPLETE | flag::VOID | flag::UNPROTECTED;
        if look.with(is_unprotected).next().is_some() {
            return Err(IndexError::NotCleanlyClosed);
        }
        // The walk has a bit for each node and a list of inner ones.
        self.fill_cache(others + look.ram_bytes() + self.slots.len() / 4);
        self.reach()?;
        self.notice_losses(&look, saved.generation)?;
        self.session += 1;
        debug_assert!(
            self.committed <= self.sequence && self.opened <= self.generation,
            "I7: {} is committed of {}, {} opened of {}",
            self.committed,
            self.sequence,
            self.opened,
            self.generation
        );
        self.settle_states()?;
        match self.tidy_up(&look) {
            Err(error) if error.is_refusal() => {
                self.read_only = true;
                Ok(())
            }
            other => other,
        }
    }

    /// Makes the chip fit for more: what is void goes, and the new session is known.
    fn tidy_up(&mut self, look: &Look) -> Result<(), IndexError> {
        // Before there is a new session: a merge of this one is never found cut later.
        for pbn in
            look.with(flag::USED).filter(|&pbn| look.has(pbn, flag::VOID) || !look.has(pbn, flag::COMPLETE))
        {
            self.erase_unused(pbn)?;
        }
        self.write_checkpoint(false)?;
        self.clean(look)?;
        self.committed = self.sequence;
        Ok(())
    }

    /// Takes the nodes that the tree reaches, of those that have a place.
    pub(super) fn reach(&mut self) -> Result<(), IndexError> {
        let mut reached = vec![0u8; self.slots.len().div_ceil(8)];
        let mut node = Node::default();
        self.slot(ROOT)?;
        let mut todo = vec![(ROOT, 0)];
        while let Some((id, level)) = todo.pop() {
            self.load(id, &mut node, Cause::Recovery)?;
            if level != 0 && node.level != level {
                return Err(IndexError::broken(Invariant::I2, "a node of another level", u64::from(id)));
            }
            let children = if node.level > 1 { node.count } else { 0 };
            if node.level > 2 {
                todo.reserve_exact(children);
            }
            for child in (0..children).map(|i| node.child(&self.shapes, i)) {
                self.slot(child)?;
                let (byte, bit) = (&mut reached[child as usize / 8], 1 << (child % 8));
                if *byte & bit != 0 || child == ROOT {
                    let what = "a node is reached twice";
                    return Err(IndexError::broken(Invariant::I3, what, u64::from(child)));
                }
                *byte |= bit;
                if node.level > 2 {
                    todo.push((child, node.level - 1));
                }
            }
        }
        drop((node, todo));
        let is_reached = |id: u32| id == ROOT || reached[id as usize / 8] >> (id % 8) & 1 != 0;
        for id in (0..self.slots.len() as u32).rev() {
            if is_reached(id) {
                let block = self.slots[id as usize].block;
                self.blocks[block as usize].live += 1;
            } else {
                self.slots.give_back(id);
            }
        }
        Ok(())
    }

    /// Merges the blocks that have void pages, and erases them.
    fn clean(&mut self, look: &Look) -> Result<(), IndexError> {
        for pbn in look.with(flag::TAINTED) {
            if self.blocks[pbn.index()].live > 0 {
                self.merge(&[pbn], self.format.nodes_limit(self.geometry), Cause::Recovery)?;
            }
            self.erase_unused(pbn)?;
        }
        Ok(())
    }

    fn erase_unused(&mut self, pbn: Pbn) -> Result<(), IndexError> {
        // The checkpoint or a merge may have taken the block in the meantime, erased.
        if self.table.state(pbn) != nandex::blocks::BlockState::Unclean {
            return Ok(());
        }
        debug_assert!(self.blocks[pbn.index()].live == 0, "I4: {pbn} is erased and has nodes");
        self.table.claim(pbn);
        if self.table.erase(&mut self.nand, pbn, Cause::Recovery)? {
            self.table.release(pbn);
        }
        Ok(())
    }
}

/// Takes a version if it is the newest one of its node so far.
pub(super) fn offer(versions: &mut Vec<Option<Version>>, id: u32, version: Version, nodes_max: u32) {
    // A number beyond all pages is that of no node.
    if id >= nodes_max.saturating_mul(2) {
        return;
    }
    if versions.len() <= id as usize {
        versions.resize(id as usize + 1, None);
    }
    let best = &mut versions[id as usize];
    let rank = |version: &Version| (version.sequence, version.generation);
    if best.as_ref().is_none_or(|old| rank(old) < rank(&version)) {
        *best = Some(version);
    }
}

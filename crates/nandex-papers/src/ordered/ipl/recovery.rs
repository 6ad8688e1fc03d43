//! Mounting after a power cut: the tree is found again from the tags and the log units alone.
//!
//! 1. A scan of every page (`scan`) finds `S`, the highest number that any page calls committed. Everything
//!    newer than `S` is *void*.
//! 2. The newest version of each node that is not void counts. Images and ghost records are ordered by
//!    sequence number, then by generation. An incomplete merge is ignored. This needs no second scan, because
//!    `S` is guessed before.
//! 3. A walk over the inner nodes finds the nodes that belong to the tree; others were removed.
//! 4. If something is missing that no cut can have removed (`losses`), the mount is refused.
//! 5. Void blocks and cut merges are erased.
//! 6. The session gets a new number, on the chip, before anything else is programmed.
//! 7. Blocks with void pages are merged and erased, so that their numbers are never mistaken for committed
//!    ones later.
//!
//! Steps 5 to 7 prepare for writing. If the chip has no free block for them, the tree is read-only.
//!
//! In each block, pages after the last whole one are left unused, one for each session that may have torn a
//! page there: a page may read as erased and yet be half programmed.

use super::cache::ReadCache;
use super::checkpoint::Saved;
use super::config;
use super::image::Node;
use super::look::{Look, SCAN_BYTES, flag};
use super::losses::Losses;
use super::places::Places;
use super::scan::Scan;
use super::store::{ROOT, Store};
use alloc::vec;
use alloc::vec::Vec;
use nandex::blocks::BlockState;
use nandex::check::{IndexError, Invariant};
use nandex::nand::{Cause, Nand};
use nandex::units::Pbn;

impl<N: Nand> Store<N> {
    /// RAM left if other parts hold `others` bytes.
    fn ram_left(&self, others: usize) -> Option<usize> {
        self.config.ram_bytes.map(|ram| ram.saturating_sub(others + self.ram_bytes()))
    }

    /// RAM reserved for operations on a tree of `levels` levels.
    pub(super) fn reserve_bytes(&self, levels: usize) -> usize {
        config::path_bytes(&self.medium.form, levels) + self.config.work_bytes
    }

    /// Gives the cache the RAM that is left if other parts hold `others` bytes.
    pub(super) fn fill_cache(&mut self, others: usize) {
        let page_bytes = self.medium.form.geometry.page_bytes as usize;
        self.medium.set_frames(0);
        let left = self.ram_left(others + self.reserve_bytes(config::LEVELS_AT_FIRST));
        let fit = left.map_or(usize::MAX, |left| ReadCache::frames_for(left, page_bytes));
        self.medium.set_frames(fit.min(self.config.read_pages));
    }

    /// Finds the tree on a chip that was not closed. Others hold so much RAM.
    pub(super) fn recover(&mut self, saved: Saved, others: usize) -> Result<(), IndexError> {
        let saved_generation = saved.numbers.generation;
        (self.numbers, self.places.blocks) = (saved.numbers, saved.blocks);
        let ram = self.ram_left(others).map(|left| left.saturating_sub(SCAN_BYTES));
        let Store { medium, numbers, places, space, .. } = self;
        let (form, table) = (medium.form, &mut space.table);
        let look = Look::new(form.geometry, form.units_per_page(), ram);
        let look = Scan { form, medium, numbers, places, table, look }.look_around()?;
        numbers.committed = look.committed;
        numbers.sequence = look.newest.max(look.committed);
        // The newest blocks may be gone again; their numbers are not given twice.
        numbers.generation = numbers.generation.max(numbers.opened);
        let is_unprotected = flag::COMPLETE | flag::VOID | flag::UNPROTECTED;
        if look.with(is_unprotected).next().is_some() {
            return Err(IndexError::NotCleanlyClosed);
        }
        // The walk has a bit for each node and a list of inner ones.
        self.fill_cache(others + look.ram_bytes() + self.places.slots.len() / 4);
        self.reach()?;
        let Store { medium, numbers, places, .. } = self;
        Losses { medium, numbers, places, look: &look }.notice(saved_generation)?;
        numbers.session += 1;
        debug_assert!(
            numbers.committed <= numbers.sequence && numbers.opened <= numbers.generation,
            "I7: more is committed or opened than there is: {numbers:?}"
        );
        self.space.settle(&mut self.places.blocks)?;
        match self.tidy_up(&look) {
            Err(error) if error.is_refusal() => {
                self.space.read_only = true;
                Ok(())
            }
            other => other,
        }
    }

    /// Prepares the chip for writing: removes void pages and records the new session.
    fn tidy_up(&mut self, look: &Look) -> Result<(), IndexError> {
        // Before there is a new session: a merge of this one is never found cut later.
        let is_cut = |&pbn: &Pbn| look.has(pbn, flag::VOID) || !look.has(pbn, flag::COMPLETE);
        for pbn in look.with(flag::USED).filter(is_cut) {
            self.erase_unused(pbn)?;
        }
        // The checkpoint knows blocks with void pages that no node is in, too: a mount looks at no others.
        let is_left = |pbn: &Pbn| self.places.blocks[pbn.index()].live == 0;
        let held: Vec<Pbn> = look.with(flag::TAINTED).filter(is_left).collect();
        self.places.held = held;
        let written = self.write_checkpoint(false);
        self.places.held = Vec::new();
        written?;
        // Blocks with void pages are merged and erased.
        for pbn in look.with(flag::TAINTED) {
            if self.places.live(pbn) > 0 {
                self.merge(&[pbn], self.medium.form.nodes_limit(), Cause::Recovery)?;
            }
            self.erase_unused(pbn)?;
        }
        self.numbers.committed = self.numbers.sequence;
        Ok(())
    }

    fn erase_unused(&mut self, pbn: Pbn) -> Result<(), IndexError> {
        let is_erased = self.space.table.state(pbn) == BlockState::Unclean;
        debug_assert!(!is_erased || self.places.live(pbn) == 0, "I4: {pbn} is erased and has nodes");
        self.space.erase_unused(&mut self.medium.nand, pbn)
    }

    /// Keeps the nodes that the tree reaches, and forgets the others.
    pub(super) fn reach(&mut self) -> Result<(), IndexError> {
        let mut reached = vec![0u8; self.places.slots.len().div_ceil(8)];
        let (mut node, shapes) = (Node::default(), self.shapes());
        self.places.slot(ROOT)?;
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
            for child in (0..children).map(|i| node.child(&shapes, i)) {
                self.places.slot(child)?;
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
        let Places { blocks, slots, .. } = &mut self.places;
        for id in (0..slots.len() as u32).rev() {
            if is_reached(id) {
                blocks[slots[id as usize].block as usize].live += 1;
            } else {
                slots.give_back(id);
            }
        }
        Ok(())
    }
}

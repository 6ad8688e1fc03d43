//! Mounting: every page is read once for the settings and the newest root, then the tree is walked and what a
//! power cut left undone is done.
//!
//! * A torn slot, not committed: marked dead, then used.
//! * A mark cleared in part: cleared.
//! * Two live entries of one key: the earlier one is marked dead. In an inner node it is that of a child
//!   written anew.
//! * Two roots: the older one is marked retired.
//! * A batch of changes that is written but not retired: it is entered (`batch`).
//!
//! Pages that the root does not lead to are dead. Nothing is written to the blank pages of a block before it
//! is erased.

use super::batch::CHANGES;
use super::page::{self, SlotState};
use super::{InPlace, NONE, Node};
use crate::check::{IndexError, Invariant, words};
use crate::fault::IndexFault;
use crate::nand::{Cause, Nand, NandError, read_again};
use crate::store::StoreError;
use crate::units::Ppn;
use alloc::vec;
use alloc::vec::Vec;

/// The pages of a chip that a mount found, and their part in the tree.
#[derive(Debug, Default)]
struct MountedPages {
    /// The newest page of the settings, with its sequence and entries.
    settings: Option<(u32, u32, Vec<u8>)>,
    /// Roots that are not retired: sequence, page, level.
    roots: Vec<(u32, u32, u8)>,
    /// The last page of the newest batch of changes: its sequence, and whether the batch is retired.
    batch: Option<(u32, bool)>,
    sequence: u32,
    /// The page with that sequence.
    newest: u32,
}

/// Programs of a page before it is given up.
const ATTEMPTS: u32 = 4;

impl<N: Nand> InPlace<N> {
    /// See [`OverwriteTree::mount`](super::OverwriteTree::mount).
    pub(super) fn mount(&mut self) -> Result<(), IndexFault> {
        let found = self.scan()?;
        let Some((_, settings_page, entry)) = found.settings else {
            let found = crate::nand::unfit(&mut self.nand, words("no page of a VMTree-OW's settings"))?;
            return Err(IndexError::NotFormatted(found).into());
        };
        let wanted = page::settings(self.record, self.marks, self.space.geometry);
        page::require_settings(&entry, &wanted).map_err(IndexError::NotFormatted)?;
        let Some(&(_, root, height)) = found.roots.iter().max() else {
            return Err(IndexError::broken(Invariant::O2, "no sound root", 0).into());
        };
        (self.root, self.height, self.sequence) = (root, height, found.sequence);
        self.settings_page = settings_page;
        self.resume_block(found.newest)?;
        self.space.set_live(settings_page);
        let mut node = Node { ppn: NONE, used: 0, slot: 0, bytes: vec![0xff; self.birth.len()] };
        self.adopt(root, height, &mut node)?;
        for &(_, ppn, _) in found.roots.iter().filter(|found| found.1 != root) {
            self.read_page(ppn, self.shape(page::level(&node.bytes)), Cause::Recovery, &mut node.bytes)?;
            self.retire_root(&mut node, ppn, Cause::Recovery)?;
        }
        match found.batch {
            Some((sequence, false)) => self.enter_found(sequence),
            _ => Ok(()),
        }
    }

    /// Goes on filling the block of the newest page behind all that was programmed there: its erase was
    /// whole, as pages followed. Otherwise every mount would take from what a full chip keeps free.
    fn resume_block(&mut self, newest: u32) -> Result<(), IndexFault> {
        let geometry = self.space.geometry;
        let block = geometry.block_of(Ppn(newest)).0;
        let first = block * geometry.pages_per_block;
        let mut bytes = vec![0xff; self.birth.len()];
        let mut next = geometry.pages_per_block;
        while first + next > newest + 1 && self.is_blank(first + next - 1, &mut bytes)? {
            next -= 1;
        }
        self.space.resume(block, next);
        Ok(())
    }

    /// Whether nothing was programmed to a page. A reading that fails once says nothing: the rest of a block
    /// is at stake.
    fn is_blank(&mut self, ppn: u32, bytes: &mut [u8]) -> Result<bool, IndexFault> {
        let is_blank = |data: &[u8], _: &[u8]| data.iter().all(|&byte| byte == 0xff);
        match read_again(&mut self.nand, (Ppn(ppn), Cause::Recovery), bytes, &mut [], is_blank) {
            Ok(_) => Ok(is_blank(bytes, &[])),
            Err(NandError::Uncorrectable(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads a page in search of something: its level, if it bears the mark of this tree and can be read.
    pub(super) fn read_born(&mut self, ppn: u32, bytes: &mut [u8]) -> Result<Option<u8>, IndexFault> {
        if self.space.is_bad(self.space.geometry.block_of(Ppn(ppn)).0) {
            return Ok(None);
        }
        let shapes = [page::settings_shape(bytes.len()), self.leaf, self.inner, self.changes_shape()];
        let is_whole = |data: &[u8], _: &[u8]| {
            let is_blank = !page::has_magic(data) && data.iter().all(|&byte| byte == 0xff);
            is_blank || shapes.iter().any(|shape| shape.is_born(data, ppn))
        };
        match read_again(&mut self.nand, (Ppn(ppn), Cause::Recovery), bytes, &mut [], is_whole) {
            Ok(_) => Ok(page::has_magic(bytes).then(|| page::level(bytes))),
            Err(NandError::Uncorrectable(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn scan(&mut self) -> Result<MountedPages, IndexFault> {
        let mut found = MountedPages::default();
        let mut bytes = vec![0xff; self.birth.len()];
        let settings_shape = page::settings_shape(bytes.len());
        for ppn in 0..self.space.geometry.pages() {
            let Some(level) = self.read_born(ppn, &mut bytes)? else { continue };
            let sequence = page::sequence(&bytes);
            let shape = match level {
                0 => settings_shape,
                CHANGES.. => self.changes_shape(),
                _ => self.shape(level),
            };
            if !shape.is_born(&bytes, ppn) {
                continue;
            }
            if sequence >= found.sequence {
                (found.sequence, found.newest) = (sequence, ppn);
            }
            if level == CHANGES && found.batch.is_none_or(|(newest, _)| newest <= sequence) {
                // A copy of the page whose program was said to have failed may not be retired.
                let was_retired = found.batch == Some((sequence, true));
                found.batch = Some((sequence, was_retired || page::is_retired(&bytes)));
            }
            if level == 0
                && page::born(&bytes) > 0
                && found.settings.as_ref().is_none_or(|settings| settings.0 < sequence)
            {
                let slots = 0..page::born(&bytes);
                let entries = slots.flat_map(|slot| shape.entry(&bytes, slot).to_vec()).collect();
                found.settings = Some((sequence, ppn, entries));
            }
            if page::is_root(&bytes) && !page::is_retired(&bytes) && (1..=super::LEVELS_MAX).contains(&level)
            {
                found.roots.push((sequence, ppn, level));
            }
        }
        Ok(found)
    }

    /// Takes a node and all below it into the tree.
    fn adopt(&mut self, ppn: u32, level: u8, node: &mut Node) -> Result<(), IndexFault> {
        self.repair(ppn, level, node)?;
        if self.space.is_live(ppn) {
            return Err(IndexFault::broken(Invariant::O5, "two parents name one page", ppn));
        }
        self.space.set_live(ppn);
        if level == 1 {
            return Ok(());
        }
        self.inner_nodes += 1;
        let live = (0..node.used).filter(|&slot| self.inner.is_live(&node.bytes, slot));
        let children: Vec<(u32, Vec<u8>, usize)> = live
            .map(|slot| (self.address(&node.bytes, slot), self.inner.key(&node.bytes, slot).to_vec(), slot))
            .collect();
        let parent = node.bytes.clone();
        if children.is_empty() {
            return Err(IndexFault::broken(Invariant::O3, "an inner node without children", ppn));
        }
        for (child, bound, slot) in children {
            self.adopt(child, level - 1, node)?;
            // It is at hand still if it is a leaf.
            if level == 2 {
                self.require_child(&parent, slot, &node.bytes, child)?;
                let keys = (0..node.used).filter(|&slot| self.leaf.is_live(&node.bytes, slot));
                if keys.map(|slot| self.leaf.key(&node.bytes, slot)).any(|key| *key > *bound) {
                    let what = "a key beyond the bound of its leaf";
                    return Err(IndexError::broken(Invariant::O3, what, child.into()).into());
                }
            }
        }
        Ok(())
    }

    /// Reads a node and ends what was begun with it.
    fn repair(&mut self, ppn: u32, level: u8, node: &mut Node) -> Result<(), IndexFault> {
        let (shape, at) = (self.shape(level), u64::from(ppn));
        if ppn >= self.space.geometry.pages() {
            return Err(IndexError::broken(Invariant::O2, "a child beyond the chip", at).into());
        }
        self.read_page(ppn, shape, Cause::Recovery, &mut node.bytes)?;
        let bytes = &mut node.bytes;
        let is_root = ppn == self.root;
        if page::level(bytes) != level || page::is_root(bytes) != is_root || !shape.is_born(bytes, ppn) {
            return Err(
                IndexError::broken(Invariant::O1, "no node of this level, or not born whole", at).into()
            );
        }
        let frontier = shape.frontier(bytes, at)?;
        if frontier.soiled > frontier.used {
            (frontier.used..frontier.soiled).for_each(|slot| shape.mark_dead(bytes, slot));
            self.try_repair((ppn, shape), bytes)?;
        }
        node.used = frontier.soiled;
        let before = bytes.clone();
        if node.used > 0 {
            shape.mark_used(bytes, node.used);
        }
        for slot in 0..node.used {
            if shape.state(bytes, slot) == SlotState::Halfway
                || self.is_superseded(&shape, bytes, (slot, node.used))
            {
                shape.mark_dead(bytes, slot);
            }
        }
        if *bytes != before { self.try_repair((ppn, shape), bytes) } else { Ok(()) }
    }

    /// Whether a later live slot has the key of this one.
    fn is_superseded(&self, shape: &page::Shape, bytes: &[u8], (slot, used): (usize, usize)) -> bool {
        let key = shape.key(bytes, slot);
        let is_later = |later| shape.state(bytes, later) == SlotState::Live && shape.key(bytes, later) == key;
        shape.is_live(bytes, slot) && (slot + 1..used).any(is_later)
    }

    /// Programs what a node is completed to; where that fails, it is completed in RAM each time it is read.
    fn try_repair(&mut self, place: (u32, page::Shape), bytes: &mut [u8]) -> Result<(), IndexFault> {
        match self.program_surely(place, Cause::Recovery, bytes) {
            Err(error) if error.is_worn_out() => {
                self.read_only = true;
                Ok(())
            }
            other => other,
        }
    }

    /// Finds out again which pages are live, after a change ended half-way; and the newest batch, as
    /// [`Found`] has it.
    pub(super) fn readopt(&mut self) -> Result<Option<(u32, bool)>, IndexFault> {
        let mut node = Node { ppn: NONE, used: 0, slot: 0, bytes: vec![0xff; self.birth.len()] };
        self.forget_path();
        self.space.forget_live();
        self.inner_nodes = 0;
        let found = self.scan()?;
        let newest = found.roots.iter().max();
        let &(_, root, height) = newest.ok_or(IndexError::broken(Invariant::O2, "no sound root", 0))?;
        (self.root, self.height) = (root, height);
        self.space.set_live(self.settings_page);
        self.adopt(root, height, &mut node)?;
        Ok(found.batch)
    }

    /// Programs a page, again where the chip says that it failed. [`IndexError::WornOut`] where it does each
    /// time. The copy becomes what the page holds where it was read wrongly.
    pub(super) fn program_surely(
        &mut self,
        (ppn, shape): (u32, page::Shape),
        cause: Cause,
        bytes: &mut [u8],
    ) -> Result<(), IndexFault> {
        let mut refused = 0;
        for _ in 0..ATTEMPTS {
            match Self::program(&mut self.nand, ppn, cause, bytes) {
                Ok(true) => return Ok(()),
                Ok(false) => self.program_failed(ppn),
                Err(error)
                    if matches!(*error, IndexError::Store(StoreError::Nand(NandError::SetsBits { .. }))) =>
                {
                    refused += 1;
                    if refused == ATTEMPTS {
                        return Err(error);
                    }
                    self.clear_what_is_clear(ppn, shape, cause, bytes)?;
                }
                Err(error) => return Err(error),
            }
        }
        Err(IndexError::WornOut.into())
    }

    /// Clears the bits of a copy that are clear in its page: no check covers a dead slot, so that one may
    /// have been read wrongly.
    fn clear_what_is_clear(
        &mut self,
        ppn: u32,
        shape: page::Shape,
        cause: Cause,
        bytes: &mut [u8],
    ) -> Result<(), IndexFault> {
        let mut found = vec![0xff; bytes.len()];
        self.read_page(ppn, shape, cause, &mut found)?;
        bytes.iter_mut().zip(&found).for_each(|(byte, found)| *byte &= found);
        if !shape.is_born(bytes, ppn) {
            return Err(IndexError::broken(Invariant::O1, "not born whole", ppn.into()).into());
        }
        shape.frontier(bytes, ppn.into()).map(drop)
    }
}

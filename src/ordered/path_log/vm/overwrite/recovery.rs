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
use super::page;
use super::pages::Pages;
use super::{InPlace, Node};
use crate::check::{IndexError, Invariant, words};
use crate::fault::IndexFault;
use crate::nand::{Cause, Nand};
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

impl<N: Nand> Pages<N> {
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
                _ => self.shapes.at(level),
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
}

impl<N: Nand> InPlace<N> {
    /// See [`OverwriteTree::mount`](super::OverwriteTree::mount).
    /// Returns changes of a batch that no block takes: key, 1 for an insertion or 0, value.
    pub(super) fn mount(&mut self) -> Result<Vec<u8>, IndexFault> {
        let found = self.pages.scan()?;
        let Some((_, settings_page, ref entry)) = found.settings else {
            let found = crate::nand::unfit(&mut self.pages.nand, words("no page of a VMTree-OW's settings"))?;
            return Err(IndexError::NotFormatted(found).into());
        };
        let wanted =
            page::settings(self.pages.shapes.record(), self.pages.shapes.marks(), self.pages.space.geometry);
        page::require_settings(entry, &wanted).map_err(IndexError::NotFormatted)?;
        (self.settings_page, self.pages.sequence) = (settings_page, found.sequence);
        self.pages.resume_block(found.newest)?;
        let mut node = self.adopt_newest(&found)?;
        for &(_, ppn, _) in found.roots.iter().filter(|found| found.1 != self.path.root) {
            let shape = self.pages.shapes.at(page::level(&node.bytes));
            self.pages.read_page(ppn, shape, Cause::Recovery, &mut node.bytes)?;
            self.pages.retire_root(&mut node.bytes, ppn, Cause::Recovery)?;
        }
        match found.batch {
            Some((sequence, false)) => self.enter_found(sequence),
            _ => Ok(Vec::new()),
        }
    }

    /// Takes the newest root and all below it for the tree. Returns a node that is free for use.
    fn adopt_newest(&mut self, found: &MountedPages) -> Result<Node, IndexFault> {
        let newest = found.roots.iter().max();
        let &(_, root, height) = newest.ok_or(IndexError::broken(Invariant::O2, "no sound root", 0))?;
        (self.path.root, self.path.height) = (root, height);
        self.pages.space.set_live(self.settings_page);
        let mut node = Node::blank(self.pages.birth.len());
        self.adopt(root, height, &mut node)?;
        Ok(node)
    }

    /// Takes a node and all below it into the tree.
    fn adopt(&mut self, ppn: u32, level: u8, node: &mut Node) -> Result<(), IndexFault> {
        self.repair(ppn, level, node)?;
        if self.pages.space.is_live(ppn) {
            return Err(IndexFault::broken(Invariant::O5, "two parents name one page", ppn));
        }
        self.pages.space.set_live(ppn);
        if level == 1 {
            return Ok(());
        }
        self.inner_nodes += 1;
        let shapes = &self.pages.shapes;
        let live = (0..node.used).filter(|&slot| shapes.inner.is_live(&node.bytes, slot));
        let children: Vec<(u32, Vec<u8>, usize)> = live
            .map(|slot| {
                (shapes.address(&node.bytes, slot), shapes.inner.key(&node.bytes, slot).to_vec(), slot)
            })
            .collect();
        let parent = node.bytes.clone();
        if children.is_empty() {
            return Err(IndexFault::broken(Invariant::O3, "an inner node without children", ppn));
        }
        for (child, bound, slot) in children {
            self.adopt(child, level - 1, node)?;
            // It is at hand still if it is a leaf.
            if level == 2 {
                page::require_child(&parent, slot, &node.bytes, child)?;
                let keys = (0..node.used).filter(|&slot| self.pages.shapes.leaf.is_live(&node.bytes, slot));
                if keys.map(|slot| self.pages.shapes.leaf.key(&node.bytes, slot)).any(|key| *key > *bound) {
                    let what = "a key beyond the bound of its leaf";
                    return Err(IndexError::broken(Invariant::O3, what, child.into()).into());
                }
            }
        }
        Ok(())
    }

    /// Reads a node and finishes interrupted work on it.
    fn repair(&mut self, ppn: u32, level: u8, node: &mut Node) -> Result<(), IndexFault> {
        let shape = self.pages.shapes.at(level);
        let frontier = self.pages.read_torn(ppn, level, Cause::Recovery, &mut node.bytes)?;
        let bytes = &mut node.bytes;
        if page::is_root(bytes) != (ppn == self.path.root) {
            return Err(IndexFault::broken(Invariant::O2, "the marks of a root", ppn));
        }
        if frontier.soiled > frontier.used {
            (frontier.used..frontier.soiled).for_each(|slot| shape.mark_dead(bytes, slot));
            self.pages.try_repair((ppn, shape), bytes)?;
        }
        let before = bytes.clone();
        node.used = shape.complete(bytes, frontier);
        for slot in 0..node.used {
            if shape.is_superseded(bytes, slot, node.used) {
                shape.mark_dead(bytes, slot);
            }
        }
        if *bytes != before { self.pages.try_repair((ppn, shape), bytes) } else { Ok(()) }
    }

    /// Finds out again which pages are live, after a change ended half-way; and the newest batch, as
    /// [`MountedPages`] has it.
    pub(super) fn readopt(&mut self) -> Result<Option<(u32, bool)>, IndexFault> {
        self.path.forget();
        self.pages.space.forget_live();
        self.replaced.clear();
        self.inner_nodes = 0;
        let found = self.pages.scan()?;
        self.adopt_newest(&found)?;
        Ok(found.batch)
    }

    /// Error of a refused operation. Room for it was made before; if there still is none, blocks have failed.
    pub(super) fn refused(&self, error: IndexFault) -> IndexFault {
        if error.is_full() && (self.pages.interrupted || self.pages.read_only) {
            return IndexError::WornOut.into();
        }
        error
    }

    /// Error of a refused operation. If it had begun, it is given up by mounting the tree again.
    pub(super) fn given_up(&mut self, error: IndexFault) -> IndexFault {
        let error = self.refused(error);
        if !self.pages.interrupted || !error.is_refusal() {
            return error;
        }
        match self.readopt() {
            Ok(_) => {
                self.pages.interrupted = false;
                error
            }
            Err(other) => other,
        }
    }
}

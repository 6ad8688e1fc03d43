//! Several changes as one operation, for a scheme that maps moves: a mount finds all of them or none.
//!
//! The changes are applied in key order. Changes of one leaf are applied to one copy of it, which is written
//! once; after a split the path is copied again. No garbage is collected meanwhile, so that replaced pages
//! keep their contents. The room for all changes is made beforehand.

use super::room::EMPTYINGS_MAX;
use super::{Nodes, Path, RawScheme, RawTree};
use crate::fault::IndexFault;
use crate::log::collect::{Need, make_room};
use crate::nand::{Cause, Nand};
use crate::ordered::change::Change;
use alloc::vec::Vec;

/// Number of pages that `changes` changes may take in a tree of this height: for each its leaf and the nodes
/// above it.
pub(crate) const fn batch_pages(changes: usize, height: u8) -> u32 {
    // Half as many again for splits and for pages without a node, and a few for the first changes.
    let pages = (changes as u32 + 2) * (height as u32 + 1);
    pages + pages / 2
}

impl<S: RawScheme> Path<S> {
    /// Key at which the copied leaf ends.
    fn leaf_end(&self) -> Option<Vec<u8>> {
        (2..=self.height).find_map(|level| {
            let next = self.slot(level) + 1;
            (next < self.count(level)).then(|| self.shape(level).key(self.node(level), next).to_vec())
        })
    }
}

impl<N: Nand, S: RawScheme> Nodes<N, S> {
    /// Number of pages that `changes` changes, insertions among them, want free in a tree of this height; and
    /// the largest number of valid pages before.
    pub(super) fn batch_room(&self, changes: usize, height: u8) -> (u32, u32) {
        let pages = self.log.tape.kept_pages() + batch_pages(changes, height);
        let wanted = pages + batch_pages(1, height) + self.moves.pages_kept();
        (wanted, self.mapped_live_max(wanted, height).saturating_sub(changes as u32))
    }

    /// Refuses changes that may make a nearly full tree higher. Each change adds at most one entry to the
    /// root.
    fn require_room_for_batch_to_grow(&mut self, changes: usize) -> Result<(), IndexFault> {
        let (wanted, live_max) = self.batch_room(changes, self.path.height + 1);
        let Err(refused) = self.require_room_when_higher(live_max, wanted) else { return Ok(()) };
        self.path.layout = self.path.scheme.layout_wanted(self.path.height);
        self.copy_node(self.root, self.path.height, Cause::Host)?;
        if self.path.count(self.path.height) + changes <= self.path.root_limit() {
            Ok(())
        } else {
            Err(refused)
        }
    }

    /// Applies the changes that belong to the copied leaf, until it is split or disappears. Returns how many,
    /// and whether anything was written.
    fn apply_to_leaf(&mut self, changes: &[Change<'_>]) -> Result<(usize, bool), IndexFault> {
        debug_assert!(!changes.is_empty(), "a leaf is read for no change");
        let end = self.path.leaf_end();
        let belong = |change: &Change<'_>| end.as_deref().is_none_or(|end| change.key < end);
        let here = changes.iter().position(|change| !belong(change)).unwrap_or(changes.len());
        let mut changed = false;
        for (i, change) in changes[..here].iter().enumerate() {
            let (shape, count) = (self.path.shape(1), self.path.count(1));
            match (self.path.search(change.key), change.value) {
                (Ok(at), Some(value)) => shape.set_value(self.path.node_mut(1), at, value),
                (Err(_), None) => continue,
                (Err(at), Some(value)) if count < shape.capacity => {
                    self.path.insert(1, at, (change.key, value));
                }
                (Ok(at), None) if count > 1 || self.path.height == 1 => {
                    self.path.remove(1, at);
                }
                (Ok(at), None) => {
                    self.moves.goes_on = i + 1 < changes.len();
                    self.take_entry(at)?;
                    return Ok((i + 1, true));
                }
                (Err(at), Some(value)) => {
                    self.moves.goes_on = i + 1 < changes.len();
                    let half = self.add_entry(1, at, (change.key, value))?;
                    S::write_path(self, 1, half, Cause::Host)?;
                    return Ok((i + 1, true));
                }
            }
            changed = true;
        }
        if here == changes.len() {
            self.moves.goes_on = !changed;
        }
        if changed {
            S::write_path(self, 1, None, Cause::Host)?;
        }
        Ok((here, changed))
    }
}

impl<N: Nand, S: RawScheme> RawTree<N, S> {
    /// Makes room for `changes` changes at once. `Full` if there is none.
    pub(crate) fn make_room_for_batch(
        &mut self,
        changes: usize,
        have_inserts: bool,
    ) -> Result<(), IndexFault> {
        let made = self.make_room_for(changes, have_inserts);
        // The chip may have refused a move of a node half-way.
        if self.nodes.is_half_done() && matches!(&made, Err(error) if error.is_refusal()) {
            self.undo()?;
        }
        made
    }

    fn make_room_for(&mut self, changes: usize, have_inserts: bool) -> Result<(), IndexFault> {
        let nodes = &mut self.nodes;
        let height = nodes.path.height;
        let pages = nodes.log.tape.kept_pages() + batch_pages(changes, height);
        let (wanted, live_max) = nodes.batch_room(changes, height);
        nodes.moves.allow_emptyings(EMPTYINGS_MAX, nodes.log.tape.checkpoint_pages() + u32::from(height));
        if !have_inserts {
            return make_room(self, Need { pages, wanted, live_max: None });
        }
        self.settle_before_growth(changes, self.nodes.batch_room(changes, height + 1).1)?;
        make_room(self, Need { pages: wanted, wanted, live_max: Some(live_max) })?;
        self.nodes.require_room_for_batch_to_grow(changes)
    }

    /// Applies changes of different keys, in key order. The room for them must have been made.
    pub(in crate::ordered) fn apply_batch(&mut self, changes: &[Change<'_>]) -> Result<(), IndexFault> {
        debug_assert!(changes.is_sorted_by(|a, b| a.key < b.key), "the keys of a batch do not ascend");
        let applied = self.apply_changes(changes);
        if self.nodes.is_half_done() && matches!(&applied, Err(error) if error.is_refusal()) {
            self.undo()?;
        }
        applied
    }

    fn apply_changes(&mut self, changes: &[Change<'_>]) -> Result<(), IndexFault> {
        assert!(S::MAPS_MOVES, "only a scheme that maps moves says where an operation ends");
        let nodes = &mut self.nodes;
        nodes.usable()?;
        nodes.log.begin(batch_pages(changes.len(), nodes.path.height))?;
        let mut done = 0;
        let mut written = false;
        while done < changes.len() {
            nodes.path.make_room_to_grow();
            nodes.copy_path(changes[done].key, 1, Cause::Host)?;
            nodes.log.tape.half_done = true;
            nodes.moves.goes_on = true;
            let (applied, wrote) = nodes.apply_to_leaf(&changes[done..])?;
            done += applied;
            debug_assert!(done <= changes.len(), "more changes were applied than there are");
            written |= wrote;
        }
        if written && nodes.moves.goes_on {
            nodes.moves.goes_on = false;
            let height = nodes.path.height;
            nodes.copy_node(nodes.root, height, Cause::Host)?;
            S::write_path(nodes, height, None, Cause::Host)?;
        }
        nodes.moves.goes_on = false;
        self.end_update()
    }
}

//! Writing of each page of an operation by itself, as the cost analysis of the WPCB-tree's paper counts
//! pages.
//!
//! Equation (4) of that paper charges an operation one write for its leaf, and three more for each split,
//! merge or rotation: the node, its sibling and their parent. This tree writes each changed page once, and
//! all together. [`StructureWrites::Apart`] writes as the analysis counts: the leaf, then for each change of
//! the structure, from the leaf up, these three pages.
//!
//! A power cut between two of these writes leaves a tree that is neither old nor new, so the class is *none*.

use super::{Core, Work};
use crate::check::{IndexError, words};
use crate::fault::IndexFault;
use crate::nand::Cause;
use crate::ordered::Durability;
use crate::units::Lpn;
use alloc::vec::Vec;

/// How the pages changed by an operation are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub enum StructureWrites {
    /// Each changed page is written once, in one group if the store takes it.
    #[default]
    Together,
    /// The leaf is written, then three pages for each split, merge or rotation, each page by itself. Only in
    /// the class *none*.
    Apart,
}

/// Pages of a change of the structure: the node and its sibling, the one with lower keys first, and their
/// parent.
pub(super) type Restructured = [Lpn; 3];

impl StructureWrites {
    /// Returns an error for `Apart` in every durability class but *none*, since pages written one by one are
    /// not atomic.
    pub(super) fn allow(self, wanted: Durability) -> Result<(), IndexFault> {
        let refusal = match self {
            StructureWrites::Together => return Ok(()),
            StructureWrites::Apart if !cfg!(feature = "full") => {
                words("structure_writes = apart was left out when the engine was built: feature 'full'")
            }
            StructureWrites::Apart if wanted == Durability::None => return Ok(()),
            StructureWrites::Apart => words(
                "structure_writes = apart writes the pages of an operation one by one: only the class 'none' is left",
            ),
        };
        Err(IndexError::Unsupported(refusal.into()).into())
    }
}

impl Core {
    /// Chooses how the pages of an operation are written.
    pub(super) fn write_structure(&mut self, how: StructureWrites) {
        if cfg!(feature = "full") && how == StructureWrites::Apart {
            self.apart = Some(Vec::with_capacity(self.nodes.layout.height_max() + 1));
            self.mark.durability = Durability::None;
        }
    }

    /// Notes a split, a merge or a rotation, if pages are written apart.
    pub(super) fn restructured(&mut self, pages: Restructured) {
        debug_assert!(pages[0] != pages[1] && pages[1] != pages[2], "B6: {pages:?} are not three pages");
        if let Some(changes) = self.apart.as_mut().filter(|_| cfg!(feature = "full")) {
            changes.push(pages);
        }
    }
}

impl Work<'_> {
    /// Writes one by one the leaf, then the pages of each change of the structure, then the other changed
    /// pages.
    pub(super) fn write_apart(&mut self, changes: &[Restructured]) -> Result<(), IndexFault> {
        let nodes = &mut self.core.nodes;
        let (leaf, height, extra_used) = (nodes.leaf(), nodes.height, nodes.extra_used);
        let mut order: Vec<Lpn> = Vec::with_capacity(2 + 3 * changes.len());
        if leaf.is_dirty || !changes.is_empty() {
            order.push(leaf.lpn());
        }
        order.extend(changes.iter().flatten());
        let frames = || nodes.extra[..extra_used].iter().chain(&nodes.path[..height]);
        let others: Vec<Lpn> = frames().filter(|frame| frame.is_dirty).map(|frame| frame.lpn()).collect();
        order.extend(others.iter().filter(|&lpn| !order.contains(lpn)).copied().collect::<Vec<Lpn>>());
        for (i, &lpn) in order.iter().enumerate() {
            let mut frames = nodes.extra[..extra_used].iter_mut().chain(&mut nodes.path[..height]);
            let Some(frame) = frames.find(|frame| frame.lpn() == lpn) else {
                debug_assert!(false, "B6: {lpn} was changed and is not in RAM");
                continue;
            };
            frame.seal();
            if let Err(error) = self.store.write(lpn, Cause::Host, &frame.bytes) {
                if error.is_refusal() && i == 0 {
                    return Err(error.into());
                }
                self.core.mark.is_interrupted = true;
                return Err(if error.is_refusal() { IndexError::Interrupted.into() } else { error.into() });
            }
        }
        Ok(())
    }
}

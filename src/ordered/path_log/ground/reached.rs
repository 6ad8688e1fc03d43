//! The walk over all pages that a tree leads to, by its inner nodes: a leaf is not read for it. Whoever asks
//! which pages live is answered so: a log that counts valid pages, and a mount in doubt (`doubt`).

use super::{RawScheme, RawTree, address};
use crate::check::IndexError;
use crate::fault::IndexFault;
use crate::log::Log;
use crate::nand::{Cause, Nand, NandError};
use crate::store::StoreError;
use crate::units::Ppn;

/// Told of each page that the tree leads to.
type Visit<'v, N> = &'v mut dyn FnMut(&mut Log<N>, Ppn) -> Result<(), IndexFault>;

impl<N: Nand, S: RawScheme> RawTree<N, S> {
    /// Visits every page that the tree leads to, each once: the nodes in a page are children of one another
    /// (R4). The first damage met on the way, if any: what lies below it was not visited.
    pub(super) fn visit_reached(
        &mut self,
        cause: Cause,
        visit: Visit<'_, N>,
    ) -> Result<Option<IndexFault>, IndexFault> {
        self.path_layout = self.scheme.layout_wanted(self.height);
        let mut damage = None;
        let mut next = Some((self.root, self.height));
        while let Some((named, level)) = next {
            let ppn = if level < self.height { self.resolve(level, named) } else { named };
            let is_new = level == self.height || self.path.step(level + 1).page != ppn.0;
            let mut visited = if is_new { visit(&mut self.log, ppn) } else { Ok(()) };
            if visited.is_ok() && level > 1 {
                visited = self.copy_node_at(ppn, level, cause);
            }
            let is_entered = match visited {
                Ok(()) => level > 1,
                Err(error) if is_damage(&error) => {
                    damage.get_or_insert(error);
                    false
                }
                Err(error) => return Err(error),
            };
            next = if is_entered {
                self.path.step_mut(level).slot = 0;
                Some((self.named_child(level), level - 1))
            } else {
                self.subtree_after(level, cause)?
            };
        }
        Ok(damage)
    }

    /// The subtree that follows the one below `level` of the path: its page, as it is named, and level.
    fn subtree_after(&mut self, level: u8, cause: Cause) -> Result<Option<(Ppn, u8)>, IndexFault> {
        let mut above = level + 1..=self.height;
        let Some(above) = above.find(|&above| self.slot(above) + 1 < self.count(above)) else {
            return Ok(None);
        };
        self.path.step_mut(above).slot += 1;
        self.fetch(above, cause)?;
        Ok(Some((self.named_child(above), above - 1)))
    }

    /// The child that the path's node at `level` names at its slot.
    pub(super) fn named_child(&self, level: u8) -> Ppn {
        address::<S>(self.shape(level).value(self.node(level), self.slot(level)))
    }

    /// Answers a log that asks which pages are valid.
    pub(super) fn note_reached(&mut self) -> Result<(), IndexFault> {
        let mut note = |log: &mut Log<N>, ppn| {
            log.note_valid(ppn);
            Ok(())
        };
        match self.visit_reached(Cause::GarbageCollection, &mut note)? {
            Some(damage) => Err(damage),
            None => Ok(()),
        }
    }

    /// Counts the valid pages of every block anew.
    pub(super) fn count_reached(&mut self) -> Result<(), IndexFault> {
        self.log.begin_count();
        let answered = self.note_reached();
        self.log.end_count(answered.is_ok());
        answered
    }
}

fn is_damage(error: &IndexError) -> bool {
    matches!(
        error,
        IndexError::Corrupted { .. }
            | IndexError::Store(
                StoreError::Corrupted { .. }
                    | StoreError::Nand(NandError::Uncorrectable(_) | NandError::BadBlock(_))
            )
    )
}

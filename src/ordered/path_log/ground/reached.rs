//! Walk over all pages to which a tree refers, by its inner nodes; leaves are not read. The walk finds the
//! valid pages, for a log that counts them or is in doubt (`crate::log::settle`).

use super::{Nodes, RawScheme};
use crate::check::IndexError;
use crate::fault::IndexFault;
use crate::log::Log;
use crate::log::collect::Visit;
use crate::nand::{Cause, Nand, NandError};
use crate::ordered::key::Key;
use crate::store::StoreError;
use crate::units::Ppn;

impl<N: Nand, S: RawScheme> Nodes<N, S> {
    /// Visits every page to which the tree leads, once each, since the nodes in a page are children of one
    /// another (R4). Returns the first damage met: the pages below it were not visited.
    pub(super) fn visit_reached(
        &mut self,
        cause: Cause,
        visit: Visit<'_, N>,
    ) -> Result<Option<IndexFault>, IndexFault> {
        self.path.layout = self.path.scheme.layout_wanted(self.path.height);
        let mut damage = None;
        let mut next = Some((self.root, self.path.height));
        while let Some((named, level)) = next {
            let ppn = if level < self.path.height { self.resolve(level, named) } else { named };
            let is_new = level == self.path.height || self.path.step(level + 1).page != ppn.0;
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
                Some((self.path.named_child(level), level - 1))
            } else {
                self.subtree_after(level, cause)?
            };
        }
        Ok(damage)
    }

    /// The subtree after the one below `level` of the path: its page as named by the parent, and its level.
    fn subtree_after(&mut self, level: u8, cause: Cause) -> Result<Option<(Ppn, u8)>, IndexFault> {
        let mut above = level + 1..=self.path.height;
        let Some(above) = above.find(|&above| self.path.slot(above) + 1 < self.path.count(above)) else {
            return Ok(None);
        };
        self.path.step_mut(above).slot += 1;
        self.fetch(above, cause)?;
        Ok(Some((self.path.named_child(above), above - 1)))
    }

    /// Copies the path to the lowest node of a page, and returns its level. `None` if the page cannot be
    /// reached.
    pub(super) fn find_page(&mut self, ppn: Ppn) -> Result<Option<u8>, IndexFault> {
        let level = match self.log.read(ppn, Cause::GarbageCollection) {
            Ok(page) => page.tag.lowest_level,
            Err(error) => return if self.is_reachable(ppn)? { Err(error) } else { Ok(None) },
        };
        if level == self.path.height && ppn == self.root {
            self.path.layout = self.path.scheme.layout_wanted(self.path.height);
            self.copy_node(ppn, level, Cause::GarbageCollection)?;
            return Ok(Some(level));
        }
        if !(1..self.path.height).contains(&level) {
            return Ok(None);
        }
        // The lowest node in the page of an old root may be elsewhere now; then no key read here leads back
        // to the page.
        let page = self.log.again(ppn, Cause::GarbageCollection)?;
        let shape = self.path.scheme.shape(page.tag.layout, level, self.path.height);
        if page.tag.layout >= self.path.scheme.layouts() || shape.capacity == 0 {
            return Ok(None);
        }
        let key = Key::of(
            shape.key(&page.data[self.path.scheme.page_area(page.tag.layout, level, self.path.height)], 0),
        );
        self.copy_path(&key, level, Cause::GarbageCollection)?;
        Ok((self.path.step(level).page == ppn.0).then_some(level))
    }

    /// True if an address in the tree refers to this page. A block whose erase was cut short may have
    /// unreadable pages that count as valid, since no mount can tell. No key in such a page tells where to
    /// look.
    fn is_reachable(&mut self, wanted: Ppn) -> Result<bool, IndexFault> {
        let mut is_met = false;
        let mut visit = |_: &mut Log<N>, ppn| {
            is_met |= ppn == wanted;
            Ok(())
        };
        match self.visit_reached(Cause::GarbageCollection, &mut visit)? {
            Some(damage) if !is_met => Err(damage),
            _ => Ok(is_met),
        }
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

//! Nodes that have a page of their own: a commit applies the units of one node to it.

use super::{NodeCodec, NodeLayer};
use crate::ftl::{PageStore, StoreError};
use crate::nand::Cause;
use crate::units::Lpn;
use alloc::vec::Vec;

impl<S: PageStore, C: NodeCodec> NodeLayer<S, C> {
    /// Changes of one node wait in the buffer; several nodes at once, new nodes, and changes too many to wait, go to the
    /// store.
    pub(super) fn write_in_place(&mut self, pages: &[(Lpn, &[u8])], cause: Cause) -> Result<(), StoreError> {
        if let [(node, data)] = pages {
            self.recall(*node)?;
            let known = self.images.get(*node).and_then(|old| self.codec.mark(old));
            let changes = self.count_changes(pages)?;
            if known.is_some() && known == self.codec.mark(data) && changes <= self.config.units() {
                while self.units.len() + changes > self.config.units() {
                    self.commit_oldest()?;
                }
                return self.reserve(pages);
            }
        }
        let homes: Vec<(Lpn, &[u8])> = pages.iter().map(|(node, data)| (Self::home(*node), *data)).collect();
        match &homes[..] {
            [(home, data)] => self.store.write(*home, cause, data)?,
            homes => self.store.write_atomic(homes, cause)?,
        }
        self.counts.direct_nodes += pages.len() as u64;
        for (node, _) in pages {
            self.units.remove(node.0);
        }
        Ok(())
    }

    /// Commits the node whose unit has waited longest.
    fn commit_oldest(&mut self) -> Result<(), StoreError> {
        self.units.oldest().map_or(Ok(()), |node| self.commit_node(Lpn(node)))
    }

    /// Commits all nodes that have units, in the order of their pages.
    pub(super) fn commit_every_node(&mut self) -> Result<(), StoreError> {
        while let Some(set) = self.units.sets().first() {
            self.commit_node(Lpn(set.node))?;
        }
        Ok(())
    }

    /// Reads a node's page, applies all its units, writes it, and drops them.
    fn commit_node(&mut self, node: Lpn) -> Result<(), StoreError> {
        let mut page = core::mem::take(&mut self.node);
        let read = self.read_node(node, Cause::Host, &mut page);
        self.horizon.show(self.units.set(node.0).map(|set| set.newest));
        let done = read.and_then(|()| self.store.write(Self::home(node), Cause::Host, &page));
        self.horizon.show(None);
        self.node = page;
        done?;
        self.counts.commits += 1;
        self.counts.commit_pages += 1;
        self.counts.committed_units += self.units.remove(node.0) as u64;
        Ok(())
    }
}

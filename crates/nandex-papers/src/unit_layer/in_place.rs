//! Nodes with a page of their own: a commit applies the units of one node to its page.

use super::{NodeCodec, NodeLayer};
use alloc::vec::Vec;
use nandex::nand::Cause;
use nandex::store::{PageStore, StoreError};
use nandex::units::Lpn;

impl<S: PageStore, C: NodeCodec> NodeLayer<S, C> {
    /// Writes nodes. Changes of one existing node wait in the buffer. Several nodes at once, new nodes, and
    /// changes too many to wait go to the store.
    pub(super) fn write_in_place(&mut self, pages: &[(Lpn, &[u8])], cause: Cause) -> Result<(), StoreError> {
        if let [(node, data)] = pages {
            self.recall(*node)?;
            let known = self.images.get(*node).and_then(|old| self.sectors.codec.mark(old));
            let changes = self.count_changes(pages)?;
            if known.is_some() && known == self.sectors.codec.mark(data) && changes <= self.config.units() {
                let committed = self.commit_down_to(self.config.units() - changes);
                let reserved = self.finished(committed, pages).unwrap_or_else(|| self.reserve(pages));
                debug_assert!(
                    self.units.is_overfull || reserved.is_err() || self.units.len() <= self.config.units(),
                    "N4: {} units wait",
                    self.units.len()
                );
                return reserved;
            }
            let committed = self.commit_down_to(self.config.units());
            if let Some(finished) = self.finished(committed, pages) {
                return finished;
            }
        }
        let homes: Vec<(Lpn, &[u8])> = pages.iter().map(|(node, data)| (Self::home(*node), *data)).collect();
        let written = match &homes[..] {
            [(home, data)] => self.sectors.store.write(*home, cause, data),
            homes => self.sectors.store.write_atomic(homes, cause),
        };
        if let Some(finished) = self.finished(written, pages) {
            return finished;
        }
        self.sectors.counts.direct_nodes += pages.len() as u64;
        for (node, _) in pages {
            self.units.remove(node.0);
        }
        Ok(())
    }

    /// The outcome of a batch that the store refused after taking some of its nodes. The rest then waits in
    /// RAM too, as [`Finishing`](nandex::store::finishing::Finishing) does it for writes below. `None` if
    /// the store did not refuse.
    fn finished(
        &mut self,
        outcome: Result<(), StoreError>,
        pages: &[(Lpn, &[u8])],
    ) -> Option<Result<(), StoreError>> {
        match outcome {
            Ok(()) => None,
            Err(error) if error.is_refusal() && self.batch.must_finish() => {
                self.units.is_overfull = true;
                Some(self.count_changes(pages).and_then(|_| self.reserve(pages)))
            }
            Err(error) => Some(Err(error)),
        }
    }

    /// Commits nodes until at most `units` units wait.
    fn commit_down_to(&mut self, units: usize) -> Result<(), StoreError> {
        while self.units.len() > units {
            self.commit_oldest()?;
        }
        self.units.is_overfull = false;
        Ok(())
    }

    fn commit_oldest(&mut self) -> Result<(), StoreError> {
        self.units.oldest().map_or(Ok(()), |node| self.commit_node(Lpn(node)))
    }

    pub(super) fn commit_every_node(&mut self) -> Result<(), StoreError> {
        while let Some(set) = self.units.sets().first() {
            self.commit_node(Lpn(set.node))?;
        }
        Ok(())
    }

    fn commit_node(&mut self, node: Lpn) -> Result<(), StoreError> {
        debug_assert!(self.units.set(node.0).is_some(), "N4: no unit waits for {node}");
        let mut page = core::mem::take(&mut self.sectors.node);
        let read = self.read_node(node, Cause::Host, &mut page);
        let newest = self.units.set(node.0).map(|set| set.newest);
        self.sectors.store.updates_shown(newest);
        let done = read.and_then(|()| self.sectors.store.write(Self::home(node), Cause::Host, &page));
        self.sectors.store.updates_shown(None);
        self.sectors.node = page;
        done?;
        self.sectors.counts.commits += 1;
        self.sectors.counts.commit_pages += 1;
        self.sectors.counts.committed_units += self.units.remove(node.0) as u64;
        Ok(())
    }
}

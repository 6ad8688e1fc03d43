//! The cluster layer: a store of nodes whose pages are chosen when they are written, many at once.

use super::ClusteredConfig;
use super::batch::Batch;
use super::links::{Links, ROOT};
use super::replay::replay;
use super::ring::Ring;
use super::settings::ClusteredSizes;
use super::superblock::{self, Superblock};
use super::table::AddressTable;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use nandex::check::{CheckReport, IndexError, Invariant, message};
use nandex::nand::Cause;
use nandex::store::{PageStore, StoreError};
use nandex::units::Lpn;

/// Counters of a cluster layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterCounts {
    /// Batches written.
    pub flushes: u64,
    /// Nodes written by batches, copies of recycled segments included.
    pub flushed_nodes: u64,
    /// Header pages written by batches.
    pub header_pages: u64,
    /// Runs of consecutive pages written by batches.
    pub runs: u64,
    /// Superblocks written, each after a table or for a new root.
    pub checkpoints: u64,
    /// Pages of tables written by checkpoints.
    pub checkpoint_pages: u64,
    /// Segments recycled.
    pub recycled_segments: u64,
    /// Nodes copied out of recycled segments.
    pub copied_nodes: u64,
    /// The page after the last page written by a batch, to count runs.
    pub(super) next_page: u32,
}

/// The cluster layer: a store of nodes above a store of pages.
pub struct Layer<S> {
    pub(super) store: S,
    pub(super) plan: ClusteredSizes,
    pub(super) superblock: Superblock,
    pub(super) batch: Batch,
    pub(super) table: AddressTable,
    pub(super) ring: Ring,
    pub(super) links: Links,
    pub(super) page: Vec<u8>,
    /// Whether a checkpoint was made since the mount.
    pub(super) is_begun: bool,
    /// Whether the ring must still make room before a node may wait. No node waits meanwhile.
    pub(super) is_room_owed: bool,
    /// Whether the last superblock may not be durable yet.
    pub(super) is_sync_owed: bool,
    /// Whether a tree is being bulk-loaded.
    pub(super) is_loading: bool,
    pub(super) is_interrupted: bool,
    pub(super) counts: ClusterCounts,
}

impl<S: PageStore> Layer<S> {
    /// Makes a layer without nodes. Everything that the store held is dropped.
    pub(super) fn format(mut store: S, config: &ClusteredConfig) -> Result<Layer<S>, IndexError> {
        let plan = config.on(store.page_bytes(), store.page_count())?;
        (0..superblock::SLOTS).try_for_each(|slot| store.trim(Lpn(slot)))?;
        store.sync()?;
        (superblock::SLOTS..plan.pages).try_for_each(|page| store.trim(Lpn(page)))?;
        store.sync()?;
        let anchor = if plan.is_append() { plan.first() } else { 0 };
        let mut layer = Layer::with(store, plan, Superblock::new(anchor));
        for sequence in 0..u64::from(superblock::SLOTS) {
            layer.superblock.sequence = sequence;
            layer.superblock.write(&mut layer.store, &plan, &mut layer.page)?;
        }
        layer.store.sync()?;
        Ok(layer)
    }

    /// Opens the layer that a store holds, in the state of its last whole batch or last superblock.
    pub(super) fn mount(mut store: S, config: &ClusteredConfig) -> Result<Layer<S>, IndexError> {
        let (plan, superblock) = superblock::read(&mut store, config, Cause::Recovery)?;
        let mut layer = Layer::with(store, plan, superblock);
        if plan.is_append() {
            let found = replay(&mut layer.store, &plan, &superblock, Cause::Recovery)?;
            (layer.table, layer.ring) = (found.table, found.ring);
        }
        Ok(layer)
    }

    fn with(store: S, plan: ClusteredSizes, superblock: Superblock) -> Layer<S> {
        Layer {
            batch: Batch::new(plan.frames() + 1, plan.page_bytes),
            table: AddressTable::new(if plan.is_append() { plan.pages } else { 0 }),
            ring: Ring::new(&plan, superblock.anchor, superblock.tail),
            links: Links::new(&plan, superblock.anchor),
            page: vec![0; plan.page_bytes],
            is_begun: false,
            is_room_owed: false,
            is_sync_owed: false,
            is_loading: false,
            is_interrupted: false,
            counts: ClusterCounts::default(),
            store,
            plan,
            superblock,
        }
    }

    /// The store below the layer.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Takes the layer apart and returns the store. Nodes that wait are lost.
    pub(super) fn into_store(self) -> S {
        self.store
    }

    /// Number of nodes that wait in the batch.
    pub fn waiting_nodes(&self) -> usize {
        self.batch.len()
    }

    /// Counters of the layer since it was opened.
    pub fn counts(&self) -> ClusterCounts {
        self.counts
    }

    /// Number of pages with current versions of nodes.
    pub(super) fn live_pages(&self) -> u32 {
        match self.plan.is_append() {
            true => self.table.live.len(),
            false => self.links.busy.len() - self.links.kept.len() - superblock::SLOTS,
        }
    }

    /// Pages that never hold nodes of the tree: each is free while others are written anew.
    pub(super) fn withheld_pages(&self) -> u32 {
        self.page_count().saturating_sub(self.plan.nodes_max)
    }

    /// Frees the nodes that the tree does not use. Called after a mount.
    pub(super) fn adopt(&mut self, is_used: &dyn Fn(Lpn) -> bool) -> Result<(), IndexError> {
        if self.plan.is_append() {
            let unused: Vec<u32> =
                self.table.iter().map(|(id, _)| id).filter(|id| *id > ROOT && !is_used(Lpn(*id))).collect();
            unused.into_iter().for_each(|id| {
                self.table.set(id, None);
            });
            return Ok(());
        }
        for page in superblock::SLOTS..self.plan.pages {
            if is_used(Lpn(page)) {
                self.links.busy.insert(page);
            }
        }
        self.links.nodes = self.links.busy.len() - superblock::SLOTS + 1;
        if self.links.root < superblock::SLOTS || !self.links.busy.insert(self.links.root) {
            return Err(IndexError::broken(Invariant::C6, "the root's page is another node's", 0));
        }
        Ok(())
    }

    pub(super) fn ready(&self) -> Result<(), StoreError> {
        if self.is_interrupted {
            return Err(StoreError::Interrupted);
        }
        Ok(())
    }

    /// Runs an action that changes nothing if the store refuses it. After any other failure the layer is
    /// interrupted.
    pub(super) fn unless_refused(
        &mut self,
        act: impl FnOnce(&mut Self) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let done = act(self);
        self.is_interrupted |= done.as_ref().is_err_and(|error| !error.is_refusal());
        done
    }

    /// Makes room for the nodes that the next operation changes.
    pub(super) fn relieve(&mut self) -> Result<(), StoreError> {
        self.ready()?;
        if !self.plan.is_append() {
            return self.relieve_links();
        }
        self.begin()?;
        if self.batch.len() >= self.plan.batch_nodes() {
            self.append_all()?;
        }
        let settled = self.settle_room();
        debug_assert!(
            settled.is_err() || self.batch.len() < self.plan.batch_nodes(),
            "C5: {} nodes wait",
            self.batch.len()
        );
        settled
    }

    /// Begins a bulk load. Returns the page of the root, which the tree does not know of and must not
    /// overwrite. `None` if nodes are found by a table.
    pub(super) fn begin_load(&mut self) -> Result<Option<Lpn>, StoreError> {
        self.sync()?;
        self.settle_room()?;
        self.is_loading = true;
        Ok((!self.plan.is_append() && self.links.root != 0).then_some(Lpn(self.links.root)))
    }

    /// Makes the pages named by a superblock durable, and then writes the superblock.
    pub(super) fn write_checkpoint(&mut self, next: Superblock) -> Result<(), StoreError> {
        debug_assert!(
            next.epoch > self.superblock.epoch,
            "C1: checkpoint {} after {}",
            next.epoch,
            self.superblock.epoch
        );
        if !self.store.durable_writes() && !self.store.prefix_consistent() {
            self.store.sync()?;
        }
        self.write_superblock(next)?;
        self.counts.checkpoints += 1;
        self.store.sync()
    }

    /// Writes the next superblock. If the store refuses it, the last one remains valid.
    fn write_superblock(&mut self, next: Superblock) -> Result<(), StoreError> {
        let next = Superblock { sequence: self.superblock.sequence + 1, ..next };
        next.write(&mut self.store, &self.plan, &mut self.page)?;
        self.superblock = next;
        Ok(())
    }

    /// Trims a free page. If the store has no room to note that, it only keeps the page longer.
    pub(super) fn trim_page(&mut self, page: Lpn) -> Result<(), StoreError> {
        match self.store.trim(page) {
            Err(error) if error.is_refusal() => Ok(()),
            done => done,
        }
    }

    fn write_nodes(&mut self, pages: &[(Lpn, &[u8])], cause: Cause) -> Result<(), StoreError> {
        self.ready()?;
        for (node, data) in pages {
            self.require(*node, data.len())?;
        }
        match pages {
            [(Lpn(0), data)] => {
                let mut next = self.superblock;
                next.set_tree_page(data)?;
                self.unless_refused(|layer| layer.write_superblock(next))
            }
            [(node, data)] if self.is_loading && !self.plan.is_append() && node.0 != ROOT => {
                self.load_node(node.0, data, cause)
            }
            _ if self.plan.is_append() => {
                // Only a tree that is loaded writes so many before it asks for room.
                if self.batch.len() + pages.len() > self.plan.frames() {
                    self.append_all()?;
                    self.settle_room()?;
                }
                for (node, data) in pages {
                    let level = self.plan.nodes.level_of(data).unwrap_or(0);
                    self.batch.put(node.0, level, 0, data);
                }
                let (waiting, frames) = (self.batch.len(), self.plan.frames());
                debug_assert!(waiting <= frames, "C5: {waiting} nodes wait, there is room for {frames}");
                Ok(())
            }
            _ => self.link_nodes(pages),
        }
    }

    fn require(&self, node: Lpn, got: usize) -> Result<(), StoreError> {
        let expected = self.plan.page_bytes;
        if node.0 >= self.page_count() {
            return Err(StoreError::OutOfRange(node));
        }
        if got == expected { Ok(()) } else { Err(StoreError::WrongLength { expected, got }) }
    }

    pub(super) fn check(
        &mut self,
        report: &mut CheckReport,
        is_used: &dyn Fn(Lpn) -> bool,
    ) -> Result<(), IndexError> {
        match superblock::read(&mut self.store, &self.plan.config, Cause::Check) {
            Ok((_, found)) if found == self.superblock => {}
            Ok(_) => {
                let found = "the newer superblock is not the last one written".to_string();
                report.violation(Invariant::C1, 0, found);
            }
            Err(error) => report.violation(Invariant::C1, 0, error.to_string()),
        }
        if self.plan.is_append() { self.check_ring(report) } else { self.check_links(report, is_used) }
    }

    fn check_ring(&mut self, report: &mut CheckReport) -> Result<(), IndexError> {
        let named = self.table.iter().filter(|(_, page)| self.table.live.contains(*page)).count();
        if named != self.table.live.len() as usize || self.table.iter().count() != named {
            report.violation(Invariant::C4, 0, message!("{named} nodes on {} pages", self.table.live.len()));
        }
        if let Some((id, page)) = self.table.iter().find(|(_, page)| self.ring.is_free(*page)) {
            report.violation(Invariant::C5, u64::from(page), message!("node {id} is on a page that is free"));
        }
        let found = match replay(&mut self.store, &self.plan, &self.superblock, Cause::Check) {
            Ok(found) => found,
            Err(error) => {
                report.violation(Invariant::C3, 0, error.to_string());
                return Ok(());
            }
        };
        let differing = self.table.iter().find(|(id, page)| found.table.get(*id) != Some(*page));
        if let Some((id, page)) = differing {
            let found = message!("a mount would not find node {id} there");
            report.violation(Invariant::C3, u64::from(page), found);
        }
        if found.ring.anchor() != self.ring.anchor() {
            report.violation(Invariant::C3, 0, "a mount would find another head".to_string());
        }
        Ok(())
    }

    fn check_links(
        &mut self,
        report: &mut CheckReport,
        is_used: &dyn Fn(Lpn) -> bool,
    ) -> Result<(), IndexError> {
        for page in superblock::SLOTS..self.plan.pages {
            let waits = self.batch.get(page).is_some();
            let is_held = self.links.page_of(page).is_some();
            if is_used(Lpn(page)) != (waits || is_held) {
                let found = "the bitmap is not what the tree names".to_string();
                report.violation(Invariant::C4, u64::from(page), found);
            }
        }
        for entry in self.batch.entries().iter().filter(|entry| entry.id != ROOT) {
            let above = self.batch.get(entry.parent).map(|above| &above.image);
            if above.is_none_or(|above| !self.plan.nodes.children(above).any(|child| child.0 == entry.id)) {
                let found = "it waits without the node above it".to_string();
                report.violation(Invariant::C6, u64::from(entry.id), found);
            }
        }
        if self.superblock.anchor != 0 && !self.links.busy.contains(self.superblock.anchor) {
            let found = "the durable root is free".to_string();
            report.violation(Invariant::C7, u64::from(self.superblock.anchor), found);
        }
        Ok(())
    }
}

impl<S: PageStore> PageStore for Layer<S> {
    nandex::forward_store!(self => self.store; begin_batch end_batch maintain scrub stats live_page);

    fn page_bytes(&self) -> usize {
        self.plan.page_bytes
    }

    /// Number of possible node numbers. The tree uses node numbers as if they were pages.
    fn page_count(&self) -> u32 {
        if self.plan.is_append() { self.plan.nodes_max } else { self.plan.pages }
    }

    fn read(&mut self, node: Lpn, cause: Cause, data: &mut [u8]) -> Result<(), StoreError> {
        self.require(node, data.len())?;
        if node == Lpn(0) {
            self.superblock.tree_page(data);
            return Ok(());
        }
        let page = match self.plan.is_append() {
            true => self.table.get(node.0).unwrap_or(0),
            false if node.0 == ROOT => self.links.root,
            false => node.0,
        };
        match self.batch.get(node.0) {
            Some(entry) => data.copy_from_slice(&entry.image),
            None if page == 0 => data.fill(0),
            None => self.store.read(Lpn(page), cause, data)?,
        }
        if let Some(level) = self.plan.nodes.level_of(data).filter(|_| cause == Cause::Host) {
            self.links.pass(node.0, level, data);
        }
        Ok(())
    }

    fn write(&mut self, node: Lpn, cause: Cause, data: &[u8]) -> Result<(), StoreError> {
        self.write_nodes(&[(node, data)], cause)
    }

    /// Gives up a node. Its last durable version stays until a newer state is durable.
    fn trim(&mut self, node: Lpn) -> Result<(), StoreError> {
        self.require(node, self.plan.page_bytes)?;
        self.ready()?;
        if !self.plan.is_append() {
            self.unlink(node.0);
            return Ok(());
        }
        self.batch.remove(node.0);
        self.table.set(node.0, None);
        Ok(())
    }

    /// Makes all waiting nodes durable, so that a mount finds them.
    fn sync(&mut self) -> Result<(), StoreError> {
        self.ready()?;
        if self.plan.is_append() {
            self.append_all()?;
        } else {
            self.commit_links()?;
        }
        self.store.sync()
    }

    /// Syncs with a checkpoint of the table.
    fn checkpoint(&mut self) -> Result<(), StoreError> {
        self.sync()?;
        if self.plan.is_append() && self.ring.batch > 0 {
            self.unless_refused(|layer| layer.checkpoint_table())?;
        }
        self.store.checkpoint()
    }

    fn atomic_pages_max(&self) -> usize {
        self.plan.grow
    }

    fn write_atomic(&mut self, pages: &[(Lpn, &[u8])], cause: Cause) -> Result<(), StoreError> {
        if pages.len() > self.plan.grow {
            let what = message!("{} nodes at once, {} are possible", pages.len(), self.plan.grow);
            return Err(StoreError::Unsupported(what.into()));
        }
        self.write_nodes(pages, cause)
    }

    fn durable_writes(&self) -> bool {
        false
    }

    fn prefix_consistent(&self) -> bool {
        true
    }

    fn ram_bytes(&self) -> usize {
        self.store.ram_bytes() + size_of::<Self>() - size_of::<S>()
            + self.page.len()
            + self.batch.ram_bytes()
            + self.table.ram_bytes()
            + self.links.ram_bytes()
    }
}

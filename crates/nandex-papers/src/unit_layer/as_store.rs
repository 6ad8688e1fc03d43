//! The layer as the tree sees it: a store whose pages are nodes.

use super::modes::Access;
use super::{COMMIT_BITS, NodeCodec, NodeLayer, Placement};
use alloc::string::ToString;
use nandex::check::{CheckReport, IndexError, Invariant, message};
use nandex::codec::numbers;
use nandex::nand::Cause;
use nandex::store::{PageStore, StoreError};
use nandex::units::Lpn;

impl<S: PageStore, C: NodeCodec> NodeLayer<S, C> {
    fn write_nodes(&mut self, pages: &[(Lpn, &[u8])], cause: Cause) -> Result<(), StoreError> {
        self.sectors.ready()?;
        for (node, data) in pages {
            self.sectors.require(*node, data.len())?;
        }
        if let [(Lpn(0), data)] = pages {
            return self.sectors.store.write(Self::home(Lpn(0)), cause, data);
        }
        if self.placement().has_sectors() && u64::from(self.sectors.commit) >= numbers(COMMIT_BITS) {
            return Err(StoreError::WornOut);
        }
        match self.placement() {
            Placement::OwnPages => self.write_in_place(pages, cause)?,
            Placement::ByMode => self.write_tuned(pages)?,
            Placement::SharedSectors => self.write_shared(pages)?,
        }
        pages.iter().for_each(|(node, data)| self.images.remember(*node, data));
        self.batch.took();
        Ok(())
    }

    /// Checks all invariants, and adds violations to the report.
    pub fn check(&mut self, report: &mut CheckReport) -> Result<(), IndexError> {
        if let Some(fault) = self.units.fault() {
            report.violation(Invariant::N4, 0, fault.to_string());
        }
        if self.units.len() > self.config.units() && !self.units.is_overfull {
            report.violation(Invariant::N4, 0, message!("{} units wait", self.units.len()));
        }
        if self.placement().has_sectors() {
            self.sectors.check_shared(&self.config, report)?;
            self.check_modes(report);
        }
        Ok(())
    }
}

impl<S: PageStore, C: NodeCodec> PageStore for NodeLayer<S, C> {
    nandex::forward_store!(self => self.sectors.store; page_bytes maintain scrub stats live_page);

    fn page_count(&self) -> u32 {
        self.sectors.room.nodes
    }

    fn read(&mut self, node: Lpn, cause: Cause, data: &mut [u8]) -> Result<(), StoreError> {
        self.sectors.require(node, data.len())?;
        if node == Lpn(0) {
            return self.sectors.store.read(Self::home(node), cause, data);
        }
        self.read_node(node, cause, data)?;
        if cause == Cause::Host {
            self.images.remember(node, data);
            if self.placement().has_modes() {
                self.reckon(node, Access::Read, data)?;
            }
        }
        Ok(())
    }

    fn write(&mut self, node: Lpn, cause: Cause, data: &[u8]) -> Result<(), StoreError> {
        self.write_nodes(&[(node, data)], cause)
    }

    fn trim(&mut self, node: Lpn) -> Result<(), StoreError> {
        self.sectors.require(node, self.sectors.store.page_bytes())?;
        self.sectors.ready()?;
        self.images.forget(node);
        self.units.remove(node.0);
        if node == Lpn(0) || !self.placement().has_sectors() {
            return self.sectors.store.trim(Self::home(node));
        }
        self.sectors.table.replace(node.0, [].into_iter());
        self.modes.forget(node.0);
        self.sectors.trim_if_durable()
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.sectors.ready()?;
        match self.placement() {
            Placement::OwnPages => self.commit_every_node()?,
            Placement::SharedSectors | Placement::ByMode => self.commit_all()?,
        }
        self.sectors.store.sync()?;
        self.sectors.trim_dead()
    }

    fn checkpoint(&mut self) -> Result<(), StoreError> {
        self.sync()?;
        self.sectors.store.checkpoint()
    }

    fn atomic_pages_max(&self) -> usize {
        if self.placement().has_sectors() {
            self.config.group_pages
        } else {
            self.sectors.store.atomic_pages_max()
        }
    }

    fn write_atomic(&mut self, pages: &[(Lpn, &[u8])], cause: Cause) -> Result<(), StoreError> {
        if pages.len() > self.atomic_pages_max() {
            let what =
                alloc::format!("{} nodes at once, {} are possible", pages.len(), self.atomic_pages_max());
            return Err(StoreError::Unsupported(what.into()));
        }
        self.write_nodes(pages, cause)
    }

    fn begin_batch(&mut self) {
        // Commits to shared sectors are whole or nothing by themselves, after a power cut too.
        if !self.placement().has_sectors() {
            self.batch.begin();
            self.sectors.store.begin_batch();
        }
    }

    fn end_batch(&mut self) {
        if !self.placement().has_sectors() {
            self.batch.end();
            self.sectors.store.end_batch();
        }
    }

    fn durable_writes(&self) -> bool {
        false
    }

    fn prefix_consistent(&self) -> bool {
        self.placement() == Placement::SharedSectors
            && (self.sectors.store.durable_writes() || self.sectors.store.prefix_consistent())
    }

    fn ram_bytes(&self) -> usize {
        let vectors = self.sectors.page.len()
            + self.sectors.node.len()
            + self.sectors.newest.capacity() * size_of::<Lpn>()
            + self.sectors.beyond.capacity() * size_of::<(u32, Lpn)>();
        self.sectors.store.ram_bytes() + size_of::<Self>() - size_of::<S>()
            + vectors
            + self.units.ram_bytes()
            + self.images.ram_bytes()
            + self.sectors.table.ram_bytes()
            + self.modes.ram_bytes()
            + self.sectors.writer.ram_bytes()
    }
}

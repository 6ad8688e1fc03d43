//! The global mapping table: the table on flash, and an LRU cache of its pages.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use nandex::fault::StoreFault;
use nandex::ftl::mapping::Flash;
use nandex::ftl::table::MapTable;
use nandex::nand::Cause;
use nandex::units::Ppn;

/// Bytes of RAM that a cached page takes besides its contents.
pub(super) const OVERHEAD_BYTES: usize = 2 * size_of::<(u32, Cached)>() + 2 * size_of::<(u64, u32)>();

#[derive(Debug)]
pub(super) struct Cached {
    used: u64,
    bytes: Vec<u8>,
}

/// The table and its cache. A cached page always equals the page on flash.
#[derive(Debug)]
pub(super) struct Gmt {
    pub(super) table: MapTable,
    pages: BTreeMap<u32, Cached>,
    /// Cached pages by the time of their last use.
    order: BTreeMap<u64, u32>,
    clock: u64,
    pages_max: usize,
    pub(super) hits: u64,
    pub(super) misses: u64,
}

impl Gmt {
    pub(super) fn new(table: MapTable, pages_max: usize) -> Gmt {
        let (pages, order) = (BTreeMap::new(), BTreeMap::new());
        Gmt { table, pages, order, clock: 0, pages_max, hits: 0, misses: 0 }
    }

    /// Brings a page of the table into the chip's page buffer in RAM.
    pub(super) fn bring(&mut self, flash: &mut Flash<'_>, page: u32) -> Result<(), StoreFault> {
        if let Some(cached) = self.pages.get_mut(&page) {
            self.hits += 1;
            self.clock += 1;
            self.order.remove(&cached.used);
            cached.used = self.clock;
            self.order.insert(self.clock, page);
            flash.page_mut().copy_from_slice(&cached.bytes);
            return Ok(());
        }
        self.misses += 1;
        self.table.load(flash, page, Cause::Mapping)?;
        if self.table.exists(page) {
            self.keep(flash, page);
        }
        Ok(())
    }

    /// Writes the page buffer as the new version of a page of the table.
    pub(super) fn save(&mut self, flash: &mut Flash<'_>, page: u32) -> Result<(), StoreFault> {
        self.table.save(flash, page)?;
        match self.pages.get_mut(&page) {
            Some(cached) => cached.bytes.copy_from_slice(flash.page()),
            None => self.keep(flash, page),
        }
        Ok(())
    }

    /// The table's entry of a logical page, if that is live still or nothing.
    pub(super) fn entry(&mut self, flash: &mut Flash<'_>, lpn: u32) -> Result<Option<Ppn>, StoreFault> {
        self.bring(flash, self.table.page_of(lpn))?;
        self.table.live(flash, lpn)
    }

    fn keep(&mut self, flash: &Flash<'_>, page: u32) {
        if self.pages_max == 0 {
            return;
        }
        let mut bytes = Vec::new();
        if self.pages.len() == self.pages_max
            && let Some((_, oldest)) = self.order.pop_first()
            && let Some(cached) = self.pages.remove(&oldest)
        {
            bytes = cached.bytes;
        }
        bytes.clear();
        bytes.extend_from_slice(flash.page());
        self.clock += 1;
        self.order.insert(self.clock, page);
        self.pages.insert(page, Cached { used: self.clock, bytes });
    }

    pub(super) fn cache_bytes_max(&self) -> usize {
        self.pages_max * (OVERHEAD_BYTES + self.table.page_bytes())
    }

    pub(super) fn cache_bytes(&self) -> usize {
        self.pages.len() * (OVERHEAD_BYTES + self.table.page_bytes())
    }
}

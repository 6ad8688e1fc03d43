//! Single writes gathered into groups, where each group waits for the medium.

use nandex::ftl::page_map::PageMapFtl;
use nandex::store::StoreStats;
use nandex::{Cause, Lpn, Nand, PageStore, Ppn, StoreError};
use std::collections::BTreeMap;

/// A store that keeps single writes and trims in RAM until they fill a group, or until an operation must come
/// after them.
///
/// A power cut leaves a prefix of the writes: a group is whole or absent, and groups and syncs wait for all
/// earlier ones. Trims are written after the group of the writes around them; a cut may undo each until a
/// sync. If a group is refused, its pages and trims stay in RAM, and the next operation is refused too.
pub(super) struct Gathering<N> {
    store: PageMapFtl<N>,
    /// Pages in RAM by number: the contents, or `None` if trimmed.
    waiting: BTreeMap<u32, Option<Vec<u8>>>,
}

/// Bytes of RAM of a page in RAM, not counting its contents.
const ENTRY_BYTES: usize = 64;

impl<N: Nand> Gathering<N> {
    pub(super) fn new(store: PageMapFtl<N>) -> Gathering<N> {
        Gathering { store, waiting: BTreeMap::new() }
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let pages: Vec<(Lpn, &[u8])> = self
            .waiting
            .iter()
            .filter_map(|(&lpn, data)| data.as_ref().map(|data| (Lpn(lpn), data.as_slice())))
            .collect();
        self.store.write_ahead(&pages, Cause::Host)?;
        self.waiting.retain(|_, data| data.is_none());
        while let Some(entry) = self.waiting.first_entry() {
            self.store.trim(Lpn(*entry.key()))?;
            entry.remove();
        }
        Ok(())
    }

    /// Keeps a write or trim in RAM, after flushing those that fill a group.
    fn wait(&mut self, lpn: Lpn, data: Option<Vec<u8>>) -> Result<(), StoreError> {
        if self.waiting.len() >= self.store.pages_ahead() {
            self.flush()?;
        }
        self.waiting.insert(lpn.0, data);
        Ok(())
    }
}

impl<N: Nand> PageStore for Gathering<N> {
    fn page_bytes(&self) -> usize {
        self.store.page_bytes()
    }

    fn page_count(&self) -> u32 {
        self.store.page_count()
    }

    fn read(&mut self, lpn: Lpn, cause: Cause, data: &mut [u8]) -> Result<(), StoreError> {
        match self.waiting.get(&lpn.0) {
            Some(Some(page)) if page.len() == data.len() => {
                data.copy_from_slice(page);
                Ok(())
            }
            Some(None) if data.len() == self.page_bytes() => {
                data.fill(0);
                Ok(())
            }
            _ => self.store.read(lpn, cause, data),
        }
    }

    fn write(&mut self, lpn: Lpn, cause: Cause, data: &[u8]) -> Result<(), StoreError> {
        if lpn.0 >= self.page_count() || data.len() != self.page_bytes() {
            // It has words for that.
            return self.store.write(lpn, cause, data);
        }
        self.wait(lpn, Some(data.to_vec()))
    }

    fn trim(&mut self, lpn: Lpn) -> Result<(), StoreError> {
        if lpn.0 >= self.page_count() { self.store.trim(lpn) } else { self.wait(lpn, None) }
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.flush()?;
        self.store.sync()
    }

    fn checkpoint(&mut self) -> Result<(), StoreError> {
        self.flush()?;
        self.store.checkpoint()
    }

    fn atomic_pages_max(&self) -> usize {
        self.store.atomic_pages_max()
    }

    fn write_atomic(&mut self, pages: &[(Lpn, &[u8])], cause: Cause) -> Result<(), StoreError> {
        self.flush()?;
        self.store.write_atomic(pages, cause)
    }

    fn durable_writes(&self) -> bool {
        false
    }

    fn prefix_consistent(&self) -> bool {
        self.store.prefix_consistent()
    }

    fn maintain(&mut self, budget: u32) -> Result<u32, StoreError> {
        self.store.maintain(budget)
    }

    fn scrub(&mut self, budget: u32) -> Result<u32, StoreError> {
        self.store.scrub(budget)
    }

    fn ram_bytes(&self) -> usize {
        let page_bytes = self.store.page_bytes() + ENTRY_BYTES;
        self.store.ram_bytes() + self.store.atomic_pages_max() * page_bytes
    }

    fn mount_ram_bytes(&self) -> usize {
        self.store.mount_ram_bytes()
    }

    fn stats(&self) -> StoreStats {
        self.store.stats()
    }

    fn live_page(&self, ppn: Ppn) -> Option<bool> {
        self.store.live_page(ppn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandex::Geometry;
    use nandex::ftl::page_map::FtlConfig;
    use nandex::nand::sim::SimChip;
    use nandex::nand::{Part, Timing};
    use nandex::rng::Rng;

    const PAGE_BYTES: usize = 512;
    const TIMING: Timing = Timing { read_ns: 1, program_ns: 1, erase_ns: 1, transfer_ps_per_byte: 0 };

    fn chip() -> SimChip {
        SimChip::new(&Part::new("test", Geometry::new(512, 16, 8, 64), TIMING)).unwrap()
    }

    fn settings() -> FtlConfig {
        FtlConfig { atomic_pages: 16, ..FtlConfig::default() }
    }

    fn require(store: &mut impl PageStore, model: &BTreeMap<u32, u8>, lpn: u32) {
        let mut page = vec![1; PAGE_BYTES];
        store.read(Lpn(lpn), Cause::Host, &mut page).unwrap();
        assert_eq!(page, vec![model.get(&lpn).copied().unwrap_or(0); PAGE_BYTES], "page {lpn}");
    }

    #[test]
    fn pages_and_trims_read_as_they_were_written_last_and_a_sync_keeps_them() {
        for seed in 0..8 {
            let mut rng = Rng::new(seed);
            let mut store = Gathering::new(PageMapFtl::format(chip(), &settings()).unwrap());
            let mut model = BTreeMap::new();
            for n in 0..3000u32 {
                let lpn = rng.below(60) as u32;
                let data = vec![n as u8 | 1; PAGE_BYTES];
                match rng.below(20) {
                    0..=7 => {
                        store.write(Lpn(lpn), Cause::Host, &data).unwrap();
                        model.insert(lpn, data[0]);
                    }
                    8..=14 => {
                        store.trim(Lpn(lpn)).unwrap();
                        model.remove(&lpn);
                    }
                    15 => {
                        store.write_atomic(&[(Lpn(lpn), &data), (Lpn(60), &data)], Cause::Host).unwrap();
                        model.extend([(lpn, data[0]), (60, data[0])]);
                    }
                    16 if rng.chance(1, 4) => {
                        store.sync().unwrap();
                        let nand = store.store.into_nand();
                        store = Gathering::new(PageMapFtl::mount(nand, &settings()).unwrap());
                        (0..=60).for_each(|lpn| require(&mut store, &model, lpn));
                    }
                    _ => require(&mut store, &model, lpn),
                }
                assert!(
                    store.waiting.len() <= store.store.pages_ahead(),
                    "{} pages wait",
                    store.waiting.len()
                );
            }
        }
    }

    #[test]
    fn a_trim_ends_no_group() {
        let mut store = Gathering::new(PageMapFtl::format(chip(), &settings()).unwrap());
        let most = store.store.pages_ahead() as u32;
        assert!(most >= 4, "a group of {most}");
        for lpn in 0..most / 2 {
            store.write(Lpn(2 * lpn), Cause::Host, &[7; PAGE_BYTES]).unwrap();
            store.trim(Lpn(2 * lpn + 1)).unwrap();
        }
        let written = |store: &Gathering<SimChip>| store.store.counters().host_writes;
        assert_eq!(written(&store), 0, "a group goes to the store when it is one");
        store.write(Lpn(most), Cause::Host, &[7; PAGE_BYTES]).unwrap();
        assert_eq!(written(&store), u64::from(most / 2));
        let beyond = Lpn(store.page_count());
        assert_eq!(store.trim(beyond), Err(StoreError::OutOfRange(beyond)));
    }
}

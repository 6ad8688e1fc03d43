//! The file of an image: neighbours are written together.

use nandex::{Cause, Lpn, PageStore, StoreError};
use nandex_os::FilePageStore;

/// Bytes that are written together.
const RUN_BYTES: usize = 256 << 10;

/// A file that keeps writes of consecutive pages in RAM until the next sync; or one whose writes are to
/// survive no more than the end of the process, and are written at once.
pub(super) struct ImageFile {
    store: FilePageStore,
    syncs: bool,
    /// Page number of the first page of `run`.
    first: u32,
    run: Vec<u8>,
}

impl ImageFile {
    pub(super) fn new(store: FilePageStore, syncs: bool) -> ImageFile {
        ImageFile { store, syncs, first: 0, run: Vec::new() }
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        if !self.run.is_empty() {
            self.store.write_run(Lpn(self.first), &self.run)?;
            self.run.clear();
        }
        Ok(())
    }

    /// Offset of a page in the run, or of the page that would extend it.
    fn place(&self, lpn: Lpn) -> Option<usize> {
        let place = lpn.0.checked_sub(self.first)? as usize * self.store.page_bytes();
        (place <= self.run.len()).then_some(place)
    }
}

impl PageStore for ImageFile {
    fn page_bytes(&self) -> usize {
        self.store.page_bytes()
    }

    fn page_count(&self) -> u32 {
        self.store.page_count()
    }

    fn read(&mut self, lpn: Lpn, cause: Cause, data: &mut [u8]) -> Result<(), StoreError> {
        let page = self.place(lpn).and_then(|place| self.run.get(place..place + data.len()));
        match page.filter(|page| page.len() == self.store.page_bytes()) {
            Some(page) => {
                data.copy_from_slice(page);
                Ok(())
            }
            None => self.store.read(lpn, cause, data),
        }
    }

    fn write(&mut self, lpn: Lpn, cause: Cause, data: &[u8]) -> Result<(), StoreError> {
        let is_page = data.len() == self.page_bytes() && lpn.0 < self.page_count();
        if !self.syncs || !is_page {
            return self.store.write(lpn, cause, data);
        }
        if self.place(lpn) != Some(self.run.len()) || self.run.len() >= RUN_BYTES {
            self.flush()?;
        }
        if self.run.is_empty() {
            self.first = lpn.0;
        }
        self.run.extend_from_slice(data);
        Ok(())
    }

    fn trim(&mut self, lpn: Lpn) -> Result<(), StoreError> {
        self.flush()?;
        self.store.trim(lpn)
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.flush()?;
        if self.syncs { self.store.sync() } else { Ok(()) }
    }

    fn durable_writes(&self) -> bool {
        !self.syncs
    }

    fn prefix_consistent(&self) -> bool {
        !self.syncs
    }

    fn ram_bytes(&self) -> usize {
        self.store.ram_bytes() + RUN_BYTES + self.page_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandex::rng::Rng;
    use nandex_os::FileOptions;

    #[test]
    fn what_waits_is_read_and_what_is_synced_is_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        let options = FileOptions { direct: false, ..FileOptions::new(512) };
        let (mut rng, mut model) = (Rng::new(3), [0_u8; 40]);
        let mut file = ImageFile::new(FilePageStore::create(&path, 40, options).unwrap(), true);
        let mut at = 0;
        for round in 0..2000 {
            let byte = rng.below(256) as u8;
            match rng.below(20) {
                0 => file.sync().unwrap(),
                1 => {
                    file.trim(Lpn(at)).unwrap();
                    model[at as usize] = 0;
                }
                _ => {
                    file.write(Lpn(at), Cause::Host, &[byte; 512]).unwrap();
                    model[at as usize] = byte;
                }
            }
            at = if rng.chance(3, 4) { (at + 1) % 40 } else { rng.below(40) as u32 };
            let seen = rng.below(40) as u32;
            let mut page = [0; 512];
            file.read(Lpn(seen), Cause::Host, &mut page).unwrap();
            assert_eq!(page, [model[seen as usize]; 512], "page {seen} in round {round}");
            if round % 500 == 499 {
                file.sync().unwrap();
                let bytes = std::fs::read(&path).unwrap();
                assert!(bytes.chunks(512).zip(model).all(|(page, byte)| page == [byte; 512]));
            }
        }
        assert!(file.write(Lpn(40), Cause::Host, &[0; 512]).is_err());
        assert!(file.write(Lpn(0), Cause::Host, &[0; 5]).is_err());
    }
}

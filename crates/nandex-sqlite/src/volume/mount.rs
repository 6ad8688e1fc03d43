//! Formatting a volume, and mounting one.

use super::directory::{Directory, slot_pages};
use super::file::Extent;
use super::placed::Placed;
use super::{File, Files, Medium, Purpose, Run, Volume};
use crate::settings::VolumeConfig;
use crate::stats::VolumeStats;
use nandex::nand::Differs;
use nandex::{Cause, Lpn, PageStore, StoreError};

/// Least bytes of a store page: a page of the list must hold an entry.
const PAGE_BYTES_MIN: usize = 128;

impl Volume {
    /// Formats an empty volume. All contents of the store are lost.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unsupported`] if the store is too small, and errors of the store.
    pub fn format(
        mut store: impl PageStore + Send + 'static,
        settings: VolumeConfig,
    ) -> Result<Volume, StoreError> {
        require_room(&store)?;
        for lpn in 0..store.page_count() {
            store.trim(Lpn(lpn))?;
        }
        store.sync()?;
        Volume::found(Box::new(store), settings, None)
    }

    /// Mounts the volume on a store, or formats one if the store is empty. A large commit that a power cut
    /// interrupted after its directory was written is finished.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFormatted`] if the store holds something else, [`StoreError::Corrupted`] if the
    /// directory contradicts itself, and errors of the store.
    pub fn open(
        mut store: impl PageStore + Send + 'static,
        settings: VolumeConfig,
    ) -> Result<Volume, StoreError> {
        require_room(&store)?;
        let found = newest(&mut store)?;
        Volume::found(Box::new(store), settings, found)
    }

    fn found(
        store: Box<dyn PageStore>,
        settings: VolumeConfig,
        found: Option<Directory>,
    ) -> Result<Volume, StoreError> {
        let medium = Medium::new(store, settings.commits);
        let mut volume =
            Volume { medium, files: Files::new(settings), settings, watch: None, geometry: None };
        if let Some(directory) = found {
            volume.take_over(directory)?;
        }
        volume.finish_moved()?;
        let free: Vec<Run> = volume.medium.space.runs().collect();
        volume.medium.trim(&free);
        volume.medium.stats = VolumeStats::default();
        Ok(volume)
    }

    fn take_over(&mut self, directory: Directory) -> Result<(), StoreError> {
        self.medium.sequence = directory.sequence;
        for listed in directory.files {
            for run in &listed.runs {
                self.medium.take_exactly(*run)?;
            }
            let purpose = match listed.is_main {
                true => Purpose::Main,
                false if listed.name.ends_with("-journal") => Purpose::Journal,
                false => Purpose::Kept,
            };
            let pages = listed.size.div_ceil(self.medium.page_bytes as u64);
            let mut placed = Placed::default();
            placed.list(listed.runs, listed.size);
            placed.filled = placed.capacity();
            if pages > u64::from(placed.filled) {
                return Err(StoreError::Corrupted { what: "a file is longer than its pages", at: pages });
            }
            let now = Extent { size: listed.size, visible: pages as u32 };
            let name = Some(listed.name);
            self.files.add(File { name, purpose, placed, now, settled: now, ..File::default() });
        }
        if let Some((first, entries)) = directory.redo {
            let moved = self.medium.read_list(first, entries)?;
            for run in moved.runs() {
                self.medium.take_exactly(run)?;
            }
            self.medium.moved = Some(moved);
        }
        Ok(())
    }

    /// Finishes a large commit that is not at its homes, and lets the store write its checkpoint, so that the
    /// next mount is cheapest.
    ///
    /// # Errors
    ///
    /// Those of the store. The next mount then finds the last commit.
    pub fn checkpoint(&mut self) -> Result<(), StoreError> {
        self.finish_moved()?;
        self.medium.store.checkpoint()
    }

    /// Returns the store.
    pub fn into_store(self) -> Box<dyn PageStore> {
        self.medium.store
    }
}

/// Refuses a store that is too small for a volume.
pub(super) fn require_room(store: &impl PageStore) -> Result<(), StoreError> {
    let (page_bytes, pages) = (store.page_bytes(), store.page_count());
    let needed = 2 * slot_pages(page_bytes.max(1)) + 8;
    if page_bytes < PAGE_BYTES_MIN || pages < needed {
        let what = format!(
            "a volume takes {needed} pages and more, of {PAGE_BYTES_MIN} bytes and more; there are {pages} of {page_bytes}"
        );
        return Err(StoreError::Unsupported(what.into()));
    }
    Ok(())
}

/// Reads the newest directory; `None` on an empty store.
pub(super) fn newest(store: &mut impl PageStore) -> Result<Option<Directory>, StoreError> {
    let page_bytes = store.page_bytes();
    let pages = slot_pages(page_bytes);
    let mut best: Option<Directory> = None;
    let mut strange = false;
    for first in [0, pages] {
        let mut slot = vec![0; pages as usize * page_bytes];
        for (lpn, page) in (first..).zip(slot.chunks_mut(page_bytes)) {
            // A page torn while it was written is that of a directory that was never acknowledged.
            match store.read(Lpn(lpn), Cause::Recovery, page) {
                Err(StoreError::Corrupted { .. }) => page.fill(0xff),
                other => other?,
            }
        }
        match Directory::decode(&slot, page_bytes) {
            Some(found) => {
                if best.as_ref().is_none_or(|best| best.sequence < found.sequence) {
                    best = Some(found);
                }
            }
            None => strange |= slot.iter().any(|&byte| byte != 0),
        }
    }
    match best {
        None if strange => {
            Err(StoreError::other(Differs::Kind, "the store holds something, and it is no volume"))
        }
        best => Ok(best),
    }
}

//! The flag of the manifest that there were changes after the commit. In the class *none* a mount after a
//! power cut thus notices that they are lost.

use super::{MANIFEST, ShadowOn};
use alloc::vec;
use nandex::check::IndexError;
use nandex::codec::{crc32, put_u32};
use nandex::nand::Cause;
use nandex::store::PageStore;

/// The byte of the manifest that says whether changes were made since the commit.
pub(super) const OPEN_AT: usize = 62;

impl<S: PageStore + ?Sized> ShadowOn<S> {
    /// Whether the manifest says that changes were made since the commit.
    pub(in super::super) const fn is_open(&self) -> bool {
        self.is_open
    }

    /// Sets the flag for later manifests.
    pub(in super::super) const fn set_open(&mut self, is_open: bool) {
        self.is_open = is_open;
    }

    /// Makes the manifest say that changes were made, before the first change that a power cut would lose.
    /// With a journal that is not needed.
    pub(in super::super) fn open(&mut self) -> Result<(), IndexError> {
        if self.is_open || self.store.keeps_updates() {
            return Ok(());
        }
        if self.is_sealed {
            return Err(IndexError::WornOut);
        }
        let mut page = vec![0; self.page_bytes()];
        self.read(MANIFEST, Cause::Checkpoint, &mut page)?;
        page[OPEN_AT] = 1;
        let crc = crc32(&[&page[4..]]);
        put_u32(&mut page, 0, crc);
        let store = &mut self.store;
        let written = store.write(MANIFEST, Cause::Checkpoint, &page);
        // Where the sync after it is refused, a mount may find the word: the next commit takes it back.
        let is_written = written.is_ok();
        let opened = written.and_then(|()| store.sync());
        self.is_interrupted |= opened.as_ref().is_err_and(|error| !error.is_refusal());
        self.is_open |= is_written;
        self.is_changed |= is_written;
        Ok(opened?)
    }
}

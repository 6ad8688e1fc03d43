//! Leaving out pages that did not change. SQLite writes its pages whole; of one larger than a store page
//! often only a part is new.
//!
//! The volume remembers checksums of homes as it reads and writes them. If a page to be written has the
//! checksum of its home, the home is read and compared, and equal pages are not written. A read is several
//! times faster than a program and wears nothing. An outdated checksum only costs that read.

use super::{Change, Files, Medium, Slot};
use std::collections::BTreeMap;

/// Most checksums remembered: about 1 MiB of RAM.
const KNOWN_MAX: usize = 1 << 16;

/// Remembered checksums by store page.
#[derive(Debug, Default)]
pub(super) struct Known(BTreeMap<u32, u32>);

impl Known {
    pub(super) fn learn(&mut self, lpn: u32, bytes: &[u8]) {
        if self.0.len() >= KNOWN_MAX {
            self.0.clear();
        }
        self.0.insert(lpn, crc32fast::hash(bytes));
    }

    fn may_be(&self, lpn: u32, bytes: &[u8]) -> bool {
        self.0.get(&lpn).is_some_and(|&crc| crc == crc32fast::hash(bytes))
    }
}

impl Files {
    /// Removes from the changes the pages that equal their homes. Compares those whose checksum is known, or
    /// with `compared` all. A page whose home cannot be read is kept.
    pub(super) fn without_unchanged(
        &self,
        mut changes: Vec<Change>,
        compared: bool,
        medium: &mut Medium,
    ) -> Vec<Change> {
        let (mut there, mut new) = (vec![0; medium.page_bytes], vec![0; medium.page_bytes]);
        changes.retain(|change| {
            let is_unchanged = self.may_be_unchanged(change, compared, &medium.known)
                && medium.read(change.home, &mut there).is_ok()
                && self.load(change, &mut new, medium).is_ok()
                && there == new;
            medium.stats.unchanged_pages += u64::from(is_unchanged);
            !is_unchanged
        });
        changes
    }

    fn may_be_unchanged(&self, change: &Change, compared: bool, known: &Known) -> bool {
        let is_there =
            self.get(change.file).is_some_and(|file| file.visible_home(change.page) == Some(change.home));
        match self.slot(change) {
            Some(Slot::Ram(bytes)) if is_there => compared || known.may_be(change.home, bytes),
            _ => is_there && compared,
        }
    }

    /// Remembers the checksums of committed pages, in files that are written in units larger than a store
    /// page.
    pub(super) fn teach_written(&self, changes: &[Change], known: &mut Known) {
        for change in changes {
            let Some(file) = self.get(change.file).filter(|file| file.is_wide) else { continue };
            if let Some(bytes) = file.waiting.in_ram(change.page) {
                known.learn(change.home, bytes);
            }
        }
    }
}

//! Halves that did not change: a page of SQLite that is larger than one of the store is written whole, and
//! often only part of it is new.
//!
//! Checksums of what lies in the store are remembered, as they come by. Where what is to be written has the
//! same checksum, the page is read and compared, and left as it is if it is equal: a read is some times
//! faster than a program, and wears nothing. A checksum that is out of date costs that read and nothing else.

use super::{Change, Files, Medium, Slot};
use std::collections::BTreeMap;

/// Checksums remembered at most: about 1 MiB of RAM.
const KNOWN_MAX: usize = 1 << 16;

/// Checksums by page of the store.
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
    /// Leaves out the pages whose place holds just that: of those whose checksum is known, or, `compared`, of
    /// all. One that cannot be read is written.
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

    /// Remembers what a commit wrote, where a file is written in units larger than a page.
    pub(super) fn teach_written(&self, changes: &[Change], known: &mut Known) {
        for change in changes {
            let Some(file) = self.get(change.file).filter(|file| file.is_wide) else { continue };
            if let Some(bytes) = file.waiting.in_ram(change.page) {
                known.learn(change.home, bytes);
            }
        }
    }
}

//! Halves that did not change: a page of SQLite that is larger than one of the store is written whole, and
//! often only part of it is new.
//!
//! Checksums of what lies in the store are remembered, as they come by. Where what is to be written has the
//! same checksum, the page is read and compared, and left as it is if it is equal: a read is some times
//! faster than a program, and wears nothing. A checksum that is out of date costs that read and nothing else.

use super::commit::Change;
use super::slots::Slot;
use super::{FileId, Volume};
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

impl Volume {
    /// Leaves out the pages whose place holds just that: of those whose checksum is known, or, `compared`, of
    /// all. One that cannot be read is written.
    pub(super) fn without_unchanged(&mut self, changes: Vec<Change>, compared: bool) -> Vec<Change> {
        let (mut there, mut new) = (vec![0; self.page_bytes], vec![0; self.page_bytes]);
        let mut left = Vec::with_capacity(changes.len());
        for change in changes {
            let is_unchanged = self.may_be_unchanged(change, compared)
                && self.read_home(change.home, &mut there).is_ok()
                && self.load(change.file, change.page, &mut new).is_ok()
                && there == new;
            if is_unchanged {
                self.stats.unchanged_pages += 1;
            } else {
                left.push(change);
            }
        }
        left
    }

    fn may_be_unchanged(&self, change: Change, compared: bool) -> bool {
        let Some(file) = self.files.get(&change.file) else { return false };
        let is_there = change.page < file.visible && file.home(change.page) == Some(change.home);
        match file.slot(change.page) {
            Some(Slot::Ram(bytes)) if is_there => compared || self.known.may_be(change.home, bytes),
            _ => is_there && compared,
        }
    }

    /// Remembers what was read from its place.
    pub(super) fn learn_read(&mut self, id: FileId, page: u32, bytes: &[u8]) {
        let Some(file) = self.files.get(&id).filter(|file| file.slot(page).is_none()) else { return };
        if let Some(home) = file.home(page).filter(|_| page < file.visible) {
            self.known.learn(home, bytes);
        }
    }

    /// Remembers what a commit wrote, where a file is written in units larger than a page.
    pub(super) fn learn_written(&mut self, changes: &[Change]) {
        for change in changes {
            let Some(file) = self.files.get(&change.file).filter(|file| file.is_wide) else { continue };
            if let Some(Slot::Ram(bytes)) = file.slot(change.page) {
                self.known.learn(change.home, bytes);
            }
        }
    }
}

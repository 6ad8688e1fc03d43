//! Packing waiting pages: a page that nearly equals its home is kept as a record.
//!
//! A home stays the same until a commit replaces it, also after a power cut. But a home of zeros may have
//! been trimmed, and a cut may bring its old contents back. So no piece copies from such a home.

use super::list::{Record, record_bytes_max};
use super::{Medium, Pages, delta};
use std::collections::BTreeSet;

/// A record that copies from its own home only may take this fraction of a page: one in `SHARE`.
const SHARE: usize = 3;

/// A record that copies from several homes may take this part of a page, in quarters. Such records are made
/// only if nothing else saves RAM.
const QUARTERS: usize = 3;

/// Pages before a page, then behind it, from whose homes its record may copy, and the most that it uses.
const BEFORE: u32 = 12;
const BEHIND: u32 = 24;
const OTHERS_MAX: usize = 8;

/// The homes from which a record may copy.
#[derive(Clone, Copy, Debug)]
pub(super) enum Of<'a> {
    /// The home of the page itself.
    Its,
    /// The homes of the page and its neighbours, except these.
    Several(&'a BTreeSet<u32>),
}

impl Pages<'_> {
    /// Packs a waiting page because RAM is short, and returns whether that saved any. A quarter of the RAM is
    /// left for unpacked pages.
    pub(super) fn pack_for_room(&mut self, page: u32, of: Of<'_>) -> bool {
        if !self.may_pack() {
            self.file.waiting.bundle(self.room.used);
        }
        self.may_pack() && self.pack(page, of)
    }

    fn may_pack(&self) -> bool {
        self.room.used.saturating_sub(self.file.waiting.unpacked_bytes()) <= self.room.most / 4 * 3
    }

    /// Replaces a waiting page by its record, if the record is small and no home of it changes before the
    /// commit. Returns whether it was replaced.
    pub(super) fn pack(&mut self, page: u32, of: Of<'_>) -> bool {
        let (file, medium) = (&mut *self.file, &mut *self.room.medium);
        let is_there = page < file.placed.filled && medium.is_stable() && !self.is_logged;
        let Some(home) = file.placed.home(page).filter(|_| is_there) else { return false };
        let Some(new) = file.waiting.in_ram(page) else { return false };
        let mut homes = vec![home];
        if let Of::Several(but) = of {
            // A page that the commit frees, or that was not there before it, may hold anything.
            let around = page.saturating_sub(BEFORE)..page.saturating_add(1 + BEHIND);
            let others = file.staying(around, medium.page_bytes);
            homes
                .extend(others.filter(|(at, home)| *at != page && !but.contains(home)).map(|(_, home)| home));
        }
        let Some(record) = record_of(new, homes, medium) else { return false };
        file.waiting.slots_with(page).pack(page, record, self.room.used);
        true
    }
}

/// Makes the record of a page from these homes; the first is the page's own. Returns `None` if the record is
/// too large.
fn record_of(new: &[u8], mut homes: Vec<u32>, medium: &mut Medium) -> Option<Record> {
    let page_bytes = medium.page_bytes;
    let mut old = read_places(&mut homes, medium)?;
    let mut most = page_bytes / SHARE;
    if homes.len() > 1 {
        most = page_bytes / 4 * QUARTERS;
        let rough = delta::pack(&old, new, page_bytes)?;
        // Once more, of those that it has pieces of, and of its own place.
        let mut used = delta::used(&rough, page_bytes)?;
        used.insert(0);
        if used.len() > 1 + OTHERS_MAX {
            return None;
        }
        homes = used.iter().filter_map(|&at| homes.get(at).copied()).collect();
        old = read_places(&mut homes, medium)?;
    }
    // Another page with its checksum would be taken for the page.
    let there = &old[..page_bytes];
    let is_told_apart = there == new || crc32fast::hash(new) != crc32fast::hash(there);
    let most = most.min(record_bytes_max(page_bytes));
    let most = most.checked_sub(Record::bytes_beside(homes.len() - 1)).filter(|_| is_told_apart)?;
    delta::pack(&old, new, most).map(|pieces| Record::new(homes[0], &homes[1..], &pieces))
}

/// Reads homes, one after the other, and drops those of zeros: a cut may bring back what they held before a
/// trim. Returns `None` if the first home is of zeros.
fn read_places(homes: &mut Vec<u32>, medium: &mut Medium) -> Option<Vec<u8>> {
    let (mut old, mut page, mut kept) = (Vec::new(), vec![0; medium.page_bytes], Vec::new());
    for &home in homes.iter() {
        let is_read = medium.read(home, &mut page).is_ok() && page.iter().any(|&byte| byte != 0);
        if is_read {
            kept.push(home);
            old.extend_from_slice(&page);
        } else if kept.is_empty() {
            return None;
        }
    }
    *homes = kept;
    Some(old)
}

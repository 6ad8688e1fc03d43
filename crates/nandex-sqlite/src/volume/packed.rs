//! Pages to be written that are nearly what lies in their places: as pieces of it.
//!
//! What lies there is the same until a commit replaces it, a power cut included. A page of zeros may have
//! been trimmed, and then a cut brings back what was there before: nothing is made of pieces of such a page.

use super::list::{Record, record_bytes_max};
use super::{Medium, Pages, delta};
use std::collections::BTreeSet;

/// The share of a page that its pieces may take: one in so many.
const SHARE: usize = 3;

/// The part of a page that its pieces of several may take, in quarters: they come where nothing else helps.
const QUARTERS: usize = 3;

/// Pages before and behind one that may have what it is made of, and the most that do.
const BEFORE: u32 = 12;
const BEHIND: u32 = 24;
const OTHERS_MAX: usize = 8;

/// The places that a page is made of.
#[derive(Clone, Copy, Debug)]
pub(super) enum Of<'a> {
    /// The place of the page.
    Its,
    /// The place of the page and those around, but for these.
    Several(&'a BTreeSet<u32>),
}

impl Pages<'_> {
    /// Packs a page that waits in RAM, where RAM is short; whether that was worth while. A quarter of the RAM
    /// is left for pages as they are.
    pub(super) fn pack_for_room(&mut self, page: u32, of: Of<'_>) -> bool {
        if !self.may_pack() {
            self.file.waiting.bundle(self.room.used);
        }
        self.may_pack() && self.pack(page, of)
    }

    fn may_pack(&self) -> bool {
        self.room.used.saturating_sub(self.file.waiting.unpacked_bytes()) <= self.room.most / 4 * 3
    }

    /// Keeps a page that waits in RAM as pieces of what lies in places, where those are few and nothing
    /// changes what lies there before the commit; whether it does.
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

/// The record that makes a page of what lies in these places, the first of which is its own.
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

/// Reads what lies in places, one behind the other. Those of zeros go: a cut may bring back what was there
/// before they were trimmed. `None` where the first one has to.
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

//! The update map table: logical pages whose newest copy is in an update or cold block, or that were trimmed.
//! An entry leaves once the table on flash has it and its block has become a data block.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;
use nandex::codec::get_u32;
use nandex::ftl::table::NONE;
use nandex::units::{Pbn, Ppn};

/// Bytes of RAM that an entry takes, the tree's share included.
pub const ENTRY_BYTES: usize = 2 * size_of::<(u32, Entry)>();

/// Bytes of an entry in a base: logical page u32, physical page u32, flags u8.
pub(super) const ENCODED_BYTES: usize = 9;

/// The newest copy of a logical page, if the table on flash did not name it when it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Physical page of the newest copy. All ones means that the logical page was trimmed.
    pub(super) ppn: u32,
    /// Whether the table on flash must still be told.
    pub(super) update: bool,
    /// Whether the older copy that the table on flash names still counts as valid.
    pub(super) invalidate: bool,
}

/// The update map table: an entry for each logical page that is in UBA or CBA or was trimmed.
#[derive(Debug, Default)]
pub(super) struct Umt {
    entries: BTreeMap<u32, Entry>,
    /// Number of entries of trimmed pages.
    trimmed: u32,
}

impl Umt {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn trimmed(&self) -> u32 {
        self.trimmed
    }

    pub(super) fn get(&self, lpn: u32) -> Option<Entry> {
        self.entries.get(&lpn).copied()
    }

    pub(super) fn insert(&mut self, lpn: u32, entry: Entry) {
        self.trimmed += u32::from(entry.ppn == NONE);
        let old = self.entries.insert(lpn, entry);
        self.trimmed -= u32::from(old.is_some_and(|e| e.ppn == NONE));
    }

    pub(super) fn remove(&mut self, lpn: u32) {
        let old = self.entries.remove(&lpn);
        self.trimmed -= u32::from(old.is_some_and(|e| e.ppn == NONE));
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, Entry)> + '_ {
        self.entries.iter().map(|(&lpn, &entry)| (lpn, entry))
    }

    pub(super) fn updates(&self, lpns: Range<u32>) -> Vec<(u32, Entry)> {
        let all = self.entries.range(lpns).filter(|(_, entry)| entry.update);
        all.map(|(&lpn, &entry)| (lpn, entry)).collect()
    }

    /// Clears the update flag of entries that were written to the table on flash, and removes their
    /// tombstones.
    pub(super) fn told(&mut self, lpns: &[(u32, Entry)]) {
        for &(lpn, entry) in lpns {
            if entry.ppn == NONE {
                self.remove(lpn);
            } else {
                self.entries.insert(lpn, Entry { update: false, invalidate: false, ..entry });
            }
        }
    }

    pub(super) fn forget_block(&mut self, pbn: Pbn, block_of: impl Fn(Ppn) -> Pbn) {
        self.entries.retain(|_, entry| entry.ppn == NONE || block_of(Ppn(entry.ppn)) != pbn);
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.entries.len() * ENTRY_BYTES
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.entries.len() * ENCODED_BYTES);
        for (lpn, entry) in &self.entries {
            bytes.extend(lpn.to_le_bytes());
            bytes.extend(entry.ppn.to_le_bytes());
            bytes.push(u8::from(entry.update) | u8::from(entry.invalidate) << 1);
        }
        bytes
    }

    /// Decodes the UMT of a base. `None` if any entry is impossible.
    pub(super) fn decode(bytes: &[u8]) -> Option<Umt> {
        let mut umt = Umt::default();
        for raw in bytes.chunks(ENCODED_BYTES) {
            let flags = *raw.get(8).filter(|&&flags| flags < 4)?;
            let entry = Entry { ppn: get_u32(raw, 4), update: flags & 1 == 1, invalidate: flags & 2 == 2 };
            let lpn = get_u32(raw, 0);
            if umt.get(lpn).is_some() {
                return None;
            }
            umt.insert(lpn, entry);
        }
        Some(umt)
    }
}

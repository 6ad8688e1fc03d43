//! Rules shared by the schemes with log blocks: the places of pages in log blocks, and the pages that a merge
//! gathers.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use nandex::ftl::mapping::{Flash, HostPage, Source};
use nandex::units::{Lbn, Pbn, Ppn};

/// Number of log blocks by default: 3 % of the good blocks, at least 2.
pub(super) fn log_blocks_of(good_blocks: u32) -> u32 {
    (good_blocks * 3 / 100).max(2)
}

/// The sources of a merge. For each page of the logical block: the page that the host writes now, or the
/// place of the newest copy.
pub(super) fn sources<'a>(
    flash: &Flash<'_>,
    lbn: Lbn,
    host: Option<HostPage<'a>>,
    find: impl Fn(u32) -> Option<Ppn>,
) -> Vec<Option<Source<'a>>> {
    let source = |page: u32| {
        let lpn = flash.lpn_at(lbn, page);
        match host {
            Some(host) if host.lpn == lpn => Some(Source::Host(host.data, host.cause)),
            _ => find(lpn).map(Source::Page),
        }
    };
    (0..flash.geometry().pages_per_block).map(source).collect()
}

/// The place of each logical page whose newest copy is in a log block. For schemes in which several logical
/// blocks share log blocks.
#[derive(Debug, Default)]
pub(super) struct LogMap {
    places: BTreeMap<u32, Ppn>,
}

impl LogMap {
    /// Bytes of RAM for each page; the factor of two covers the tree's own.
    pub(super) const PAGE_BYTES: usize = 2 * size_of::<(u32, Ppn)>();

    pub(super) fn get(&self, lpn: u32) -> Option<Ppn> {
        self.places.get(&lpn).copied()
    }

    pub(super) fn insert(&mut self, lpn: u32, ppn: Ppn) {
        self.places.insert(lpn, ppn);
    }

    pub(super) fn drop_copy(&mut self, flash: &mut Flash<'_>, lpn: u32, old: Option<Ppn>) {
        if let Some(old) = old {
            flash.invalidate(old);
            if self.places.get(&lpn) == Some(&old) {
                self.places.remove(&lpn);
            }
        }
    }

    /// Forgets the pages of a logical block, from a page on, that are gone from the log blocks.
    pub(super) fn forget(&mut self, flash: &Flash<'_>, lbn: Lbn, first: u32, is_gone: impl Fn(Ppn) -> bool) {
        for page in first..flash.geometry().pages_per_block {
            let lpn = flash.lpn_at(lbn, page);
            if self.places.get(&lpn).is_some_and(|&ppn| is_gone(ppn)) {
                self.places.remove(&lpn);
            }
        }
    }

    pub(super) fn lpns(&self) -> impl Iterator<Item = u32> + '_ {
        self.places.keys().copied()
    }

    /// Entries that break the invariant: the block they name is no log block of their page's group.
    pub(super) fn strays(
        &self,
        flash: &Flash<'_>,
        is_log: impl Fn(u32, Pbn) -> bool,
    ) -> impl Iterator<Item = (u32, Ppn)> {
        let block_of = |ppn: Ppn| flash.geometry().block_of(ppn);
        self.places
            .iter()
            .map(|(&lpn, &ppn)| (lpn, ppn))
            .filter(move |&(lpn, ppn)| !is_log(lpn, block_of(ppn)))
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.places.len() * LogMap::PAGE_BYTES
    }
}

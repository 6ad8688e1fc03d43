//! Mounting: every buffer block is read and merged with the store below, and what the blocks hold is declared
//! void.
//!
//! 1. Read the record: pages with a version below the one it names are void.
//! 2. Read the buffer blocks, page by page up to the first that is erased. A page that names a block as
//!    converted makes void what that block held then, and nothing that it holds since its next erase: copies
//!    of older pages may stand there. A block is void as a whole.
//! 3. The pages that are not void prove up to which version all groups are whole. What lies above is dropped.
//! 4. Merge, logical block by logical block, the newest version of each page. A logical block has two blocks
//!    only where the cut came while one replaced the other: what the new one has of a page is what the old
//!    one has last.
//! 5. Write the record. The blocks are erased when they are needed.
//!
//! A store below that takes no more writes, since its blocks have failed, does not keep a mount from
//! succeeding: the buffer blocks then stay what they are, pages are read from them, and nothing is written.
//!
//! Before step 5 nothing is changed but the store below, in which the same pages are written again by the
//! next attempt.
//!
//! An unreadable page was being programmed when the power was cut, or it was whole once. It was if a readable
//! page follows in its block, or if any page says that it was programmed just after. No older version is then
//! passed off for it: the mount is refused. What remains unnoticed is the loss of a page that ends its buffer
//! block, when it is alone there, or when the page programmed after it was converted since or is not there
//! yet. After a checkpoint no page in a buffer block is needed.

use super::convert::Kept;
use super::page::{BufferTag, Life, PageRead, read_page};
use super::summary::Buffer;
use super::versions::Versions;
use super::{Condition, Tbm, TbmConfig, unreadable};
use crate::ftl::tbm::record::Record;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use nandex::blocks::BlockState;
use nandex::check::words;
use nandex::fault::StoreFault;
use nandex::nand::{BlockRange, Cause, Geometry, Nand, Unfit, unfit};
use nandex::sort;
use nandex::store::{PageStore, StoreError};
use nandex::units::{Pbn, Ppn};

/// A block that a mount found with pages that may not be void.
struct Full {
    lbn: u32,
    life: Life,
    first_version: u64,
    /// Highest version up to which its pages prove groups to be whole.
    proves: u64,
    buffer: Buffer,
    /// The first unreadable page in the block.
    unreadable: Option<Ppn>,
    /// Whether a readable page follows the unreadable one.
    has_hole: bool,
}

struct Scan {
    geometry: Geometry,
    page_count: u32,
    void_below: u64,
    /// The block lives that were converted. For each: the version of the page that says so.
    converted: BTreeMap<Life, u64>,
    full: Vec<Full>,
    highest: u64,
    unreadable_pages: u64,
}

impl Scan {
    fn is_void(&self, life: Life, version: u64) -> bool {
        version < self.void_below || self.converted.get(&life).is_some_and(|&by| version < by)
    }

    /// Notes a page of a buffer block in the state of the block, which is made with its first page.
    fn note_page(&mut self, ppn: Ppn, tag: BufferTag, full: &mut Option<Full>) -> Result<(), StoreFault> {
        let corrupted = |what| Err(StoreFault::corrupted(what, ppn.0));
        if tag.lpn >= self.page_count {
            return corrupted("K1: a page names a logical page beyond the store");
        }
        let (lbn, place) = (tag.lpn / self.geometry.pages_per_block, tag.lpn % self.geometry.pages_per_block);
        let full = full.get_or_insert_with(|| Full {
            lbn,
            life: Life::new(self.geometry.block_of(ppn), tag.erases),
            first_version: tag.version,
            proves: 0,
            buffer: Buffer::new(self.geometry.block_of(ppn), self.geometry.pages_per_block),
            unreadable: None,
            has_hole: false,
        });
        if full.lbn != lbn || tag.version <= full.buffer.last_version {
            return corrupted("K1: a page does not follow the one before it in its buffer block");
        }
        if let Some(life) = tag.converted {
            if life.pbn.0 >= self.geometry.blocks {
                return corrupted("a page names a block beyond the buffer blocks");
            }
            let by = self.converted.entry(life).or_default();
            *by = tag.version.max(*by);
        }
        self.highest = self.highest.max(tag.version);
        full.proves = full.proves.max(tag.proves());
        full.buffer.push(place, tag.content, tag.version);
        Ok(())
    }
}

impl<S: PageStore, N: Nand> Tbm<S, N> {
    /// Opens a TBM over its store. The way is the same after a clean end and after a power cut.
    pub fn mount(store: S, nand: BlockRange<N>, settings: &TbmConfig) -> Result<Tbm<S, N>, StoreError> {
        let mut tbm = Tbm::new(store, nand, *settings)?;
        let record = match Record::read(&mut tbm.store, tbm.geometry).map_err(StoreFault::into_inner) {
            Err(StoreError::NotFormatted(Unfit::Blank)) => {
                let what = words("pages of a TBM, and no record of it");
                return Err(StoreError::NotFormatted(unfit(&mut tbm.nand, what)?));
            }
            other => other?,
        };
        tbm.blocks.retire_marked(&mut tbm.nand)?;
        tbm.lost = record.lost.clone();
        for (pbn, &erases) in (0..).map(Pbn).zip(&record.erases) {
            tbm.blocks.set_erase_count(pbn, erases);
        }
        let mut scan = Scan {
            geometry: tbm.geometry,
            page_count: tbm.page_count,
            void_below: record.void_below,
            converted: BTreeMap::new(),
            full: Vec::new(),
            highest: record.void_below - 1,
            unreadable_pages: 0,
        };
        for pbn in (0..tbm.nand.geometry().blocks).map(Pbn) {
            if tbm.blocks.state(pbn) == BlockState::Unclean {
                tbm.scan_block(pbn, &mut scan)?;
            }
        }
        // The page that was being programmed may become readable later.
        let next_version = scan.highest + 1 + scan.unreadable_pages;
        let mut full = tbm.keep_whole_groups(scan)?;
        tbm.versions = Versions::since(next_version, record.void_below);
        sort::unstable_by_key(&mut full, |full| full.lbn);
        match tbm.merge_all(&full).and_then(|()| tbm.write_record(next_version)) {
            Ok(()) => tbm.versions.void_all(),
            Err(error) if error.is_refusal() => tbm.stand_on(full),
            Err(error) => return Err(error.into()),
        }
        Ok(tbm)
    }

    /// Keeps the buffer blocks as they were found, because the store below takes no more writes. Only
    /// reading is possible then.
    fn stand_on(&mut self, full: Vec<Full>) {
        self.condition = Condition::Worn;
        for rivals in full.chunk_by(|a, b| a.lbn == b.lbn) {
            // Of two, the one that was to be replaced has all that the other has.
            let places = |full: &&Full| full.buffer.newest(self.geometry.pages_per_block).len();
            let Some(Full { lbn, buffer, .. }) = rivals.iter().max_by_key(places) else { continue };
            self.blocks.claim(buffer.pbn);
            self.summary.insert(*lbn, buffer.clone());
        }
    }

    fn scan_block(&mut self, pbn: Pbn, scan: &mut Scan) -> Result<(), StoreFault> {
        let mut full: Option<Full> = None;
        let (mut unreadable_page, mut has_hole, mut erases) = (None, false, 0);
        for page in 0..self.geometry.pages_per_block {
            let ppn = self.geometry.page_at(pbn, page);
            let tag = match read_page(&mut self.nand, ppn, Cause::Recovery, &mut self.page)? {
                PageRead::Erased if self.is_end(pbn, page + 1)? => break,
                PageRead::Erased | PageRead::Unreadable => {
                    scan.unreadable_pages += 1;
                    // One page may have been cut, no page after it.
                    has_hole |= unreadable_page.is_some();
                    unreadable_page = unreadable_page.or(Some(ppn));
                    continue;
                }
                // From before the last erase: it came back.
                PageRead::Page(tag) if tag.erases < erases => {
                    unreadable_page = unreadable_page.or(Some(ppn));
                    continue;
                }
                PageRead::Page(tag) => tag,
            };
            if tag.erases > erases && full.is_some() {
                return Err(unreadable(self.geometry.page_at(pbn, page - 1)));
            }
            erases = tag.erases;
            self.blocks.set_erase_count(pbn, self.blocks.erase_count(pbn).max(tag.erases));
            if scan.is_void(Life::new(pbn, tag.erases), tag.version) {
                // Void as a whole, unless the first page came back from before the last erase.
                let is_old = full.is_none() && self.is_needed(pbn, page + 1, scan)?;
                return if is_old { Err(unreadable(ppn)) } else { Ok(()) };
            }
            scan.note_page(ppn, tag, &mut full)?;
            if let Some(full) = &mut full {
                full.has_hole = unreadable_page.is_some();
            }
        }
        scan.full.extend(full.map(|full| {
            let has_hole = has_hole || full.has_hole;
            Full { unreadable: unreadable_page, has_hole, ..full }
        }));
        Ok(())
    }

    fn is_end(&mut self, pbn: Pbn, page: u32) -> Result<bool, StoreFault> {
        if page >= self.geometry.pages_per_block {
            return Ok(true);
        }
        let ppn = self.geometry.page_at(pbn, page);
        Ok(read_page(&mut self.nand, ppn, Cause::Recovery, &mut self.page)? == PageRead::Erased)
    }

    /// Whether the block has a readable page at `page` that is not void.
    fn is_needed(&mut self, pbn: Pbn, page: u32, scan: &Scan) -> Result<bool, StoreFault> {
        if page >= self.geometry.pages_per_block {
            return Ok(false);
        }
        let ppn = self.geometry.page_at(pbn, page);
        let found = read_page(&mut self.nand, ppn, Cause::Recovery, &mut self.page)?;
        Ok(matches!(found, PageRead::Page(tag) if !scan.is_void(Life::new(pbn, tag.erases), tag.version)))
    }

    /// Drops the blocks that are void, and the pages of a group that was cut.
    fn keep_whole_groups(&mut self, mut scan: Scan) -> Result<Vec<Full>, StoreFault> {
        let mut full = core::mem::take(&mut scan.full);
        full.retain(|full| !scan.is_void(full.life, full.first_version));
        for block in full.iter().filter(|block| block.unreadable.is_some()) {
            let was_whole = block.has_hole || self.is_followed(block, &full)?;
            if let Some(ppn) = block.unreadable.filter(|_| was_whole) {
                return Err(unreadable(ppn));
            }
        }
        let whole = full.iter().map(|full| full.proves).max().unwrap_or(0);
        full.retain(|full| full.first_version <= whole);
        for block in &mut full {
            while block.buffer.last_version > whole {
                block.buffer.pop();
                let last = self.geometry.page_at(block.buffer.pbn, block.buffer.pages() - 1);
                match read_page(&mut self.nand, last, Cause::Recovery, &mut self.page)? {
                    PageRead::Page(tag) => block.buffer.last_version = tag.version,
                    PageRead::Erased | PageRead::Unreadable => return Err(unreadable(last)),
                }
            }
        }
        Ok(full)
    }

    /// Whether some page names the unreadable page of this block as the one programmed just before it.
    fn is_followed(&mut self, block: &Full, full: &[Full]) -> Result<bool, StoreFault> {
        for (pbn, page) in full.iter().flat_map(|f| (0..f.buffer.pages()).map(|page| (f.buffer.pbn, page))) {
            let ppn = self.geometry.page_at(pbn, page);
            // An older page means what was in the block before its last erase.
            if let PageRead::Page(tag) = read_page(&mut self.nand, ppn, Cause::Recovery, &mut self.page)?
                && tag.previous == block.unreadable
                && tag.version > block.buffer.last_version
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Merges the blocks with the store below. `full` is sorted by logical block.
    fn merge_all(&mut self, full: &[Full]) -> Result<(), StoreFault> {
        for rivals in full.chunk_by(|a, b| a.lbn == b.lbn) {
            let (lbn, mut seen) = (rivals[0].lbn, BTreeSet::new());
            let mut kept: Vec<Kept> = Vec::new();
            for Full { buffer, .. } in rivals {
                kept.extend(self.kept(lbn, buffer).into_iter().filter(|page| seen.insert(page.lpn)));
            }
            sort::unstable_by_key(&mut kept, |page| page.lpn);
            self.merge(&kept, Cause::Recovery)?;
            self.counters.recovered_pages += kept.len() as u64;
        }
        Ok(())
    }
}

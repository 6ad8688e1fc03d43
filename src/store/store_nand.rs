//! A chip made of logical pages: a [`PageStore`] (an FTL, a page file, an SD card) shown as a [`Nand`].
//!
//! The trees that place their pages themselves (mu, mu-star, wandering, ipl, dipl) need a raw chip. If there
//! is only an FTL, they run on this chip. With it a log-structured tree *on an FTL* can also be compared with
//! trees made for an FTL.
//!
//! ```text
//! store page | data | spare area | mark |      mark 0x00: erased (the whole page is zeros)   0xA5: programmed
//! block b    | pages b * P .. b * P + P |      pages beyond the last whole block are not used
//! ```
//!
//! A page takes one program, and the pages of a block are programmed in ascending order (except with
//! [`StoreNand::replacing`]). No block is ever bad: wear is the affair of the store. Data, spare area and
//! mark together are one page of the store. So the data area is smaller than a page of the store, and its
//! size is no power of two.
//!
//! * *Read*: reads the page of the store. Zeros, which a store returns for a page never written or trimmed,
//!   become 0xFF.
//! * *Program*: one write, and a sync unless the store's writes are durable when they return. An FTL never
//!   tears a page, so neither does this chip. If a file or a disk is below, use [`StoreNand::tearing`].
//! * *Erase*: trims the pages up to the last programmed one, and syncs, so that a power cut cannot bring them
//!   back.
//! * *Barrier*: does nothing, unless programs wait for it: [`StoreNand::waiting`].
//!
//! When a block is first programmed or erased, its last programmed page is searched from the end of the block
//! down. A store answers for pages that it does not hold without going to a medium, so this takes about one
//! read per block.
//!
//! Invariants
//! - S1: an acknowledged program or erase survives a power cut.
//! - S2: a cut inside a program leaves the page erased or programmed whole. A cut inside an erase leaves each
//!   page as before or erased. On a store that tears pages, the page of a program that was cut may be
//!   uncorrectable or hold anything.
//! - S3: `ends` of a block is one more than its last programmed page, or unknown.
//! - S4: while a cut may undo trims (`unsettled`), nothing is programmed.
//! - S5: if programs wait for a barrier, S1 and S2 hold for operations before the last barrier. Each page
//!   programmed since is erased, torn or whole, independently of the programs before it. No block is erased
//!   while programs wait (`waiting`): they may be copies of its pages.
//!
//! Errors: a page that the store finds corrupted is uncorrectable, as on a chip. If the store is full or its
//! device fails, programs and erases fail. Since no block can be marked bad, the tree then gives up at
//! [`Nand::mark_bad`]. A device that fails a *read* counts as switched off: a tree that mounts must not take
//! its pages for torn ones. [`StoreNand::failure`] keeps the error of the store itself.

use crate::check::message;
use crate::nand::{Cause, Geometry, Nand, NandError, ReadOutcome};
use crate::store::{PageStore, StoreError};
use crate::units::{Lpn, Pbn, Ppn};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// Last byte of a page that was programmed.
const MARK: u8 = 0xa5;

const MARK_BYTES: usize = 1;

/// Value of `ends` for a block whose last programmed page is unknown.
const UNKNOWN: u16 = u16::MAX;

/// A store shown as a chip.
#[derive(Debug)]
pub struct StoreNand<S> {
    store: S,
    geometry: Geometry,
    /// For each block one more than its last programmed page, or [`UNKNOWN`].
    ends: Vec<u16>,
    /// Buffer for one page of the store.
    page: Vec<u8>,
    /// True while a power cut may undo trims (S4).
    unsettled: bool,
    /// True if programmed pages may be programmed again, in any order.
    replaces: bool,
    /// True if a power cut may leave a page of the store half written.
    tears: bool,
    /// True if programs need not survive a power cut before the next barrier.
    waits: bool,
    /// True while a power cut may undo programs (S5).
    waiting: bool,
    failure: Option<StoreError>,
}

impl<S: PageStore> StoreNand<S> {
    /// Shows `store` as a chip with `pages_per_block` pages a block and `spare_bytes` spare bytes a page. A
    /// new store, or one whose pages were all trimmed, is an erased chip.
    pub fn new(store: S, pages_per_block: u32, spare_bytes: u32) -> Result<StoreNand<S>, StoreError> {
        let page_bytes = store.page_bytes();
        let data_bytes = page_bytes.saturating_sub(spare_bytes as usize + MARK_BYTES);
        let blocks = store.page_count() / pages_per_block.max(1);
        let data_bytes = u32::try_from(data_bytes).unwrap_or(u32::MAX);
        let geometry = Geometry::new(data_bytes, spare_bytes, pages_per_block, blocks);
        geometry.validate().map_err(|e| {
            let (field, value, reason) = (e.field, e.value, e.reason);
            StoreError::unsupported(message!(
                "{} pages of {page_bytes} bytes as a chip: {field} = {value}: {reason}",
                store.page_count()
            ))
        })?;
        Ok(StoreNand {
            ends: vec![UNKNOWN; blocks as usize],
            page: vec![0; page_bytes],
            // The previous owner of the store may have trimmed pages.
            unsettled: true,
            replaces: false,
            tears: false,
            waits: false,
            waiting: false,
            failure: None,
            geometry,
            store,
        })
    }

    /// Lets the pages of a block be programmed again, and in any order, as the store's own pages may be.
    #[must_use]
    pub fn replacing(self) -> StoreNand<S> {
        StoreNand { replaces: true, ..self }
    }

    /// For a store whose device may leave half a page after a power cut. A mount then takes a page that
    /// cannot be read for one whose program was cut, as on a real chip.
    #[must_use]
    pub fn tearing(self) -> StoreNand<S> {
        StoreNand { tears: true, ..self }
    }

    /// Lets the store sync at barriers only, before an erase and after it, in place of after every program.
    /// This is for an index or FTL whose mount handles the loss of any programs since the last barrier, each
    /// whole or torn. The page-mapping FTL does ([`ftl::page_map`](crate::ftl::page_map)). A store whose
    /// writes are durable never syncs.
    #[must_use]
    pub fn waiting(self) -> StoreNand<S> {
        StoreNand { waits: !self.store.durable_writes(), tears: true, ..self }
    }

    /// The store below.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// The store below, for measuring and for checkpoints.
    pub fn store_mut(&mut self) -> &mut S {
        &mut self.store
    }

    /// Returns the store below.
    pub fn into_store(self) -> S {
        self.store
    }

    /// Last error of the store below; `None` if it never failed.
    pub fn failure(&self) -> Option<&StoreError> {
        self.failure.as_ref()
    }

    /// Bytes of RAM held, those of the store below included.
    pub fn ram_bytes(&self) -> usize {
        size_of::<Self>() + self.page.len() + self.ends.len() * size_of::<u16>() + self.store.ram_bytes()
    }

    fn require_block(&self, pbn: Pbn) -> Result<(), NandError> {
        if pbn.0 < self.geometry.blocks { Ok(()) } else { Err(NandError::BlockOutOfRange(pbn)) }
    }

    fn require_page(&self, ppn: Ppn, data: usize, spare: usize) -> Result<(), NandError> {
        if ppn.0 >= self.geometry.pages() {
            return Err(NandError::PageOutOfRange(ppn));
        }
        if data > self.geometry.page_bytes as usize || spare > self.geometry.spare_bytes as usize {
            return Err(NandError::BufferTooLong(ppn));
        }
        Ok(())
    }

    /// Keeps the store's error, and returns the chip's error for it.
    fn failed(&mut self, error: StoreError, otherwise: NandError) -> NandError {
        let known = match error {
            StoreError::Nand(NandError::PowerLost) => NandError::PowerLost,
            _ => otherwise,
        };
        self.failure = Some(error);
        known
    }

    /// Reads a page of the store into the buffer. Returns false if the page is erased.
    fn load(&mut self, ppn: Ppn, cause: Cause) -> Result<bool, NandError> {
        match self.store.read(Lpn(ppn.0), cause, &mut self.page) {
            Ok(()) => {}
            Err(error @ (StoreError::Corrupted { .. } | StoreError::Nand(NandError::Uncorrectable(_)))) => {
                return Err(self.failed(error, NandError::Uncorrectable(ppn)));
            }
            Err(error) => return Err(self.failed(error, NandError::PowerLost)),
        }
        match self.page.last() {
            Some(&MARK) => Ok(true),
            _ if self.page.iter().all(|&byte| byte == 0) => Ok(false),
            _ => {
                let what = "a page was not programmed through the chip that it is part of";
                let error = StoreError::Corrupted { what, at: u64::from(ppn.0) };
                Err(self.failed(error, NandError::Uncorrectable(ppn)))
            }
        }
    }

    /// Returns true if a page was programmed. A page that cannot be read counts as programmed.
    fn is_programmed(&mut self, ppn: Ppn, cause: Cause) -> Result<bool, NandError> {
        match self.load(ppn, cause) {
            Err(NandError::Uncorrectable(_)) => Ok(true),
            other => other,
        }
    }

    /// Returns one more than the last programmed page of a block.
    fn end_of(&mut self, pbn: Pbn, cause: Cause) -> Result<u32, NandError> {
        if self.ends[pbn.index()] != UNKNOWN {
            return Ok(u32::from(self.ends[pbn.index()]));
        }
        let mut end = self.geometry.pages_per_block;
        while end > 0 && !self.is_programmed(self.geometry.page_at(pbn, end - 1), cause)? {
            end -= 1;
        }
        self.set_end(pbn, end);
        Ok(end)
    }

    fn set_end(&mut self, pbn: Pbn, end: u32) {
        assert!(end <= self.geometry.pages_per_block, "S3: page {end} of {pbn}");
        self.ends[pbn.index()] = end as u16;
    }

    /// Makes trims, and programs that wait, survive a power cut.
    fn settle(&mut self) -> Result<(), StoreError> {
        if self.unsettled {
            self.store.sync()?;
            (self.unsettled, self.waiting) = (false, false);
        }
        Ok(())
    }

    /// Settles before a change if programs wait. If the sync fails, the change was not begun.
    fn settle_apart(&mut self) -> Result<(), NandError> {
        if self.waits {
            self.settle().map_err(|error| self.failed(error, NandError::PowerLost))?;
        }
        Ok(())
    }

    /// Writes the buffered page. Unless programs wait, it survives a power cut after this.
    fn put(&mut self, ppn: Ppn, cause: Cause) -> Result<(), StoreError> {
        self.settle()?;
        debug_assert!(!self.unsettled, "S4: programmed while trims may be undone");
        self.waiting = self.waits;
        self.store.write(Lpn(ppn.0), cause, &self.page)?;
        if self.waits || self.store.durable_writes() { Ok(()) } else { self.store.sync() }
    }

    /// Trims the first `end` pages of a block.
    fn clear(&mut self, pbn: Pbn, end: u32) -> Result<(), StoreError> {
        for page in 0..end {
            self.unsettled = true;
            self.store.trim(Lpn(self.geometry.page_at(pbn, page).0))?;
        }
        // S4: the next program settles the trims.
        if self.waits { Ok(()) } else { self.settle() }
    }
}

impl<S: PageStore> Nand for StoreNand<S> {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn read(
        &mut self,
        ppn: Ppn,
        cause: Cause,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ReadOutcome, NandError> {
        self.require_page(ppn, data.len(), spare.len())?;
        if !self.load(ppn, cause)? {
            data.fill(0xff);
            spare.fill(0xff);
            return Ok(ReadOutcome::CLEAN);
        }
        let (stored_data, stored_spare) = self.page.split_at(self.geometry.page_bytes as usize);
        data.copy_from_slice(&stored_data[..data.len()]);
        spare.copy_from_slice(&stored_spare[..spare.len()]);
        Ok(ReadOutcome::CLEAN)
    }

    fn program(&mut self, ppn: Ppn, cause: Cause, data: &[u8], spare: &[u8]) -> Result<(), NandError> {
        self.require_page(ppn, data.len(), spare.len())?;
        let (pbn, page) = (self.geometry.block_of(ppn), self.geometry.page_in_block(ppn));
        if !self.replaces && page < self.end_of(pbn, cause)? {
            let programmed = self.is_programmed(ppn, cause)?;
            return Err(if programmed { NandError::NotErased(ppn) } else { NandError::OutOfOrder(ppn) });
        }
        self.settle_apart()?;
        let spare_at = self.geometry.page_bytes as usize;
        self.page.fill(0xff);
        self.page[..data.len()].copy_from_slice(data);
        self.page[spare_at..spare_at + spare.len()].copy_from_slice(spare);
        if let Some(mark) = self.page.last_mut() {
            *mark = MARK;
        }
        let done = self.put(ppn, cause);
        // After a failure the contents of the page are unknown. It takes no program before the next erase.
        if self.replaces {
            self.ends[pbn.index()] = UNKNOWN;
        } else {
            self.set_end(pbn, page + 1);
        }
        done.map_err(|error| self.failed(error, NandError::ProgramFailed(ppn)))
    }

    fn erase(&mut self, pbn: Pbn, cause: Cause) -> Result<(), NandError> {
        self.require_block(pbn)?;
        let end = self.end_of(pbn, cause)?;
        if end > 0 {
            self.barrier()?;
        }
        self.ends[pbn.index()] = UNKNOWN;
        self.clear(pbn, end).map_err(|error| self.failed(error, NandError::EraseFailed(pbn)))?;
        self.set_end(pbn, 0);
        Ok(())
    }

    /// Always false: wear is the affair of the store.
    fn is_bad(&mut self, pbn: Pbn) -> Result<bool, NandError> {
        self.require_block(pbn).map(|()| false)
    }

    /// Always refused: a store has no place for marks.
    fn mark_bad(&mut self, pbn: Pbn) -> Result<(), NandError> {
        self.require_block(pbn)?;
        let what = String::from("a block of a chip made of logical pages cannot be marked bad");
        self.failure.get_or_insert(StoreError::Unsupported(what.into()));
        Err(NandError::BadBlock(pbn))
    }

    /// S2: unless the store's device tears pages, a page that the store cannot read is damaged.
    fn tears(&self) -> bool {
        self.tears
    }

    fn replaces(&self) -> bool {
        self.replaces
    }

    /// Trims need no barrier: the next program settles them (S4).
    fn barrier(&mut self) -> Result<(), NandError> {
        if !self.waiting {
            return Ok(());
        }
        self.unsettled = true;
        self.settle_apart()
    }

    fn waits(&self) -> bool {
        self.waits
    }
}

//! Pages: reading, programming and copying them, and making them valid or invalid.

use super::base::VERSION_BITS;
use super::{Chip, Mark};
use crate::blocks::BlockState;
use crate::blocks::spare::{Found, Header, PageKind, read_page, read_told_page};
use crate::codec::numbers;
use crate::fault::StoreFault;
use crate::nand::{Cause, Nand, NandError, Reading};
use crate::store::StoreError;
use crate::units::Ppn;

/// Logical page to write.
#[derive(Clone, Copy, Debug)]
pub struct HostPage<'a> {
    /// Number of the logical page.
    pub lpn: u32,
    /// Cause of the write.
    pub cause: Cause,
    /// Contents of the page.
    pub data: &'a [u8],
}

/// Way of a page to another place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// Valid page that is copied.
    pub from: Ppn,
    /// Page that can be programmed.
    pub to: Ppn,
}

impl<N: Nand + ?Sized> Chip<N> {
    /// Reads a valid logical page, and checks that it is the requested one.
    pub(crate) fn read(
        &mut self,
        ppn: Ppn,
        number: u32,
        cause: Cause,
        data: &mut [u8],
    ) -> Result<(), StoreFault> {
        let (found, reading) = read_told_page(&mut self.nand, ppn, cause, data)?;
        self.state.require(ppn, number, found)?;
        if cause != Cause::Check {
            self.note_reading(ppn, reading);
        }
        Ok(())
    }

    /// Notes how a page was read: the pages of the block of a weak one are looked at by the next writes.
    fn note_reading(&mut self, ppn: Ppn, reading: Reading) {
        let pbn = self.state.geometry.block_of(ppn);
        let first = self.state.geometry.page_at(pbn, 0).0;
        let pages = first..first + self.next_page(pbn);
        self.weak.note(ppn, reading, pages);
    }

    /// Looks at the next page of the block of a weak one, while that is paid for. Returns the fields of a
    /// valid page that needed a correction. Work from now on is that of a move, until [`WeakBlock::rest`].
    ///
    /// [`WeakBlock::rest`]: crate::blocks::weak::WeakBlock::rest
    pub(super) fn look(&mut self) -> Result<Option<(Ppn, Header)>, StoreFault> {
        let Some(ppn) = self.weak.take().filter(|&ppn| self.is_valid(ppn)) else { return Ok(None) };
        let mut page = self.lend_page();
        let read = read_told_page(&mut self.nand, ppn, Cause::Scrubbing, &mut page);
        self.return_page(page);
        Ok(match read? {
            (Found::Page(header, _), reading) if reading != Reading::Whole => Some((ppn, header)),
            _ => None,
        })
    }

    /// Names the old copy of the logical page that is written next. It becomes invalid as soon as that write
    /// is done.
    pub fn replaces(&mut self, old: Option<Ppn>) {
        self.replaced = old;
    }

    pub(super) fn mark_valid(&mut self, ppn: Ppn) {
        self.records.changed.set(self.state.geometry.block_of(ppn));
        self.state.blocks.mark_valid(ppn);
    }

    /// Writes a logical page, as a new version, to a page that can be programmed. False if the program
    /// failed: then the block takes no more pages, is retired once it is empty, and the write must go
    /// elsewhere.
    pub fn write(&mut self, ppn: Ppn, kind: PageKind, page: HostPage<'_>) -> Result<bool, StoreFault> {
        let HostPage { lpn, cause, data } = page;
        debug_assert!(lpn < self.state.page_count && kind != PageKind::Map, "logical page {lpn} as {kind:?}");
        let header = Header { kind, number: lpn, version: self.state.next_version, extra: 0 };
        if !self.program(ppn, header, cause, data)? {
            return Ok(false);
        }
        self.pass_version();
        self.mark_valid(ppn);
        self.note_written(lpn);
        Ok(true)
    }

    /// Notes that a logical page has a new version.
    pub(super) fn note_written(&mut self, lpn: u32) {
        if let Some(old) = self.replaced.take() {
            self.invalidate(old);
        }
        if !self.state.lost.is_empty() {
            self.state.lost.remove(&lpn);
        }
        if !self.records.trimmed.is_empty() {
            self.records.trimmed.remove(lpn);
        }
        self.counters.host_writes += 1;
        self.last_written = Some(lpn);
    }

    /// Sets the logical page written last.
    pub fn note_last_written(&mut self, lpn: Option<u32>) {
        self.last_written = lpn;
    }

    /// True if blocks have failed, here or in the factory.
    pub(crate) fn has_failed_blocks(&self) -> bool {
        !self.upkeep.doomed.is_empty() || self.state.blocks.good_count() < self.state.geometry.blocks
    }

    /// Reads a page as [`Flash::read`] does, into the buffer.
    pub(crate) fn read_here(&mut self, ppn: Ppn, number: u32, cause: Cause) -> Result<(), StoreFault> {
        let mut page = self.lend_page();
        let read = self.read(ppn, number, cause, &mut page);
        self.return_page(page);
        read
    }

    /// Writes the buffer as a new version of a page of the mapping table. False as for [`Flash::write`].
    pub(crate) fn write_map(&mut self, ppn: Ppn, number: u32) -> Result<bool, StoreFault> {
        let header = Header { kind: PageKind::Map, number, version: self.state.next_version, extra: 0 };
        let page = self.lend_page();
        let programmed = self.program(ppn, header, Cause::Mapping, &page);
        self.return_page(page);
        if !programmed? {
            return Ok(false);
        }
        self.pass_version();
        self.mark_valid(ppn);
        Ok(true)
    }

    /// Reads a valid page whole. `None` if it cannot be read.
    pub fn load_into(
        &mut self,
        ppn: Ppn,
        cause: Cause,
        page: &mut [u8],
    ) -> Result<Option<Header>, StoreFault> {
        let cause = self.upkeep.charged(cause);
        Ok(match read_page(&mut self.nand, ppn, cause, page)? {
            Found::Page(header, _) => Some(header).filter(|&header| self.state.is_of_now(ppn, header)),
            Found::Erased | Found::Unreadable(_) => None,
        })
    }

    /// Programs a loaded page elsewhere under its version. The copy becomes valid, and the original invalid.
    /// False if the program failed.
    pub fn store_from(
        &mut self,
        Way { from, to }: Way,
        header: Header,
        cause: Cause,
        page: &[u8],
    ) -> Result<bool, StoreFault> {
        debug_assert!(from != to && self.is_valid(from), "F1: {from} is moved to {to}");
        if !self.program(to, header, cause, page)? {
            return Ok(false);
        }
        self.counters.moved_pages += 1;
        self.invalidate(from);
        self.mark_valid(to);
        Ok(true)
    }

    /// Reads a page as [`Chip::load_into`] does, into the buffer.
    pub fn load(&mut self, ppn: Ppn, cause: Cause) -> Result<Option<Header>, StoreFault> {
        let mut page = self.lend_page();
        let header = self.load_into(ppn, cause, &mut page);
        self.return_page(page);
        self.loaded = header.as_ref().ok().and_then(|header| header.map(|_| ppn));
        header
    }

    /// Programs the buffer as [`Chip::store_from`] does. If the buffer was used for something else since the
    /// page was loaded, the page is loaded again.
    pub fn store(&mut self, way: Way, header: Header, cause: Cause) -> Result<bool, StoreFault> {
        let from = way.from;
        if self.loaded != Some(from) && self.load(from, cause)?.is_none() {
            return Err(StoreFault::corrupted("a page that is moved does not pass its checksum", from.0));
        }
        let page = self.lend_page();
        let programmed = self.store_from(way, header, cause, &page);
        self.return_page(page);
        self.loaded = Some(from);
        programmed
    }

    /// Gives up a valid page that cannot be read: the logical page is lost until it is written.
    pub fn lose(&mut self, ppn: Ppn, lpn: u32) {
        debug_assert!(lpn < self.state.page_count, "a page beyond the store is lost");
        self.invalidate(ppn);
        self.state.lost.insert(lpn);
        self.counters.lost_pages += 1;
        self.records.mark = Mark::Base;
    }

    /// Takes back pages of a group that cannot be completed. A base must record that before anything else is
    /// programmed.
    pub(crate) fn abandon(&mut self, pages: &[Ppn]) {
        pages.iter().for_each(|&ppn| self.invalidate(ppn));
        self.records.mark = Mark::Base;
    }

    /// Makes a page invalid: it is superseded or trimmed.
    pub fn invalidate(&mut self, ppn: Ppn) {
        self.records.changed.set(self.state.geometry.block_of(ppn));
        self.state.blocks.invalidate(ppn);
    }

    /// Refuses a write if nearly all versions are used up. Pages can still be read, and records written.
    pub(super) fn require_versions(&self) -> Result<(), StoreFault> {
        let has_versions = self.state.next_version < numbers(VERSION_BITS) && self.records.area.has_numbers();
        if has_versions { Ok(()) } else { Err(StoreError::WornOut.into()) }
    }

    pub(super) fn program(
        &mut self,
        ppn: Ppn,
        mut header: Header,
        cause: Cause,
        data: &[u8],
    ) -> Result<bool, StoreFault> {
        let pbn = self.state.geometry.block_of(ppn);
        debug_assert_eq!(
            data.len(),
            self.state.geometry.page_bytes as usize,
            "a page of another size is programmed"
        );
        debug_assert!(!self.state.is_surely_valid(ppn), "F1: {ppn} is valid and programmed again");
        assert!(self.records.mark != Mark::Note, "F3: begin comes first");
        header.extra = self.state.blocks.erase_count(pbn) as u8;
        debug_assert!(header.version <= self.state.next_version, "F4: {ppn} gets a version not given yet");
        self.records.is_next_begun |= header.version == self.state.next_version;
        self.records.changed.set(pbn);
        self.records.since += 1;
        let behind = self.state.slots.spend(pbn, self.state.geometry.page_in_block(ppn));
        debug_assert!(
            !self.state.slots.is_open(pbn, self.state.geometry.page_in_block(ppn)),
            "{ppn} can be programmed again"
        );
        self.counters.out_of_order_programs += u64::from(behind);
        if self.state.slots.next(pbn) == self.state.geometry.pages_per_block
            && self.state.blocks.state(pbn) == BlockState::Open
        {
            self.state.blocks.close(pbn);
        }
        let cause = self.upkeep.charged(cause);
        self.weak.credit.note_program();
        match self.nand.program(ppn, cause, data, &header.seal(ppn, data)) {
            Ok(()) => Ok(true),
            Err(NandError::ProgramFailed(_) | NandError::BadBlock(_)) => {
                self.seal(pbn);
                self.upkeep.doomed.insert(pbn);
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }
}

//! Look at a block while mounting: was it rewritten since the checkpoint?
//!
//! The spare area of the first page tells, by its checksum. If that page looks erased, or is of an old
//! checkpoint, the second one is read too, since a single page may have come to look so.

use super::holds_data;
use super::recovery::Recovery;
use crate::blocks::spare::{Found, Header, PageKind, SPARE_BYTES, checksum, read_page};
use crate::fault::StoreFault;
use crate::nand::{Cause, Nand, NandError};
use crate::units::Pbn;

/// A mount takes a block for rewritten if its erase count grew by at most this since the record: far more
/// than there can be (P6). A page carries only the low byte of the count.
const ERASES_MAX: u8 = 201;

/// Finding about the first page of a block.
pub(super) enum First {
    /// The block is as at the checkpoint, or erased: the map's entries in this block still hold.
    Kept,
    /// The block was rewritten since. The checksum is that of the new first page, 0 if it cannot be read; the
    /// header is of a page that can.
    Rewritten(u32, Header),
    /// The block holds pages of an old checkpoint. The checksum is that of the first page.
    Foreign(u32),
    /// The block was marked bad since.
    Bad,
}

impl<N: Nand + ?Sized> Recovery<'_, N> {
    /// Header of the second page of a block, if it was programmed after the checkpoint.
    pub(super) fn second_page(&mut self, pbn: Pbn) -> Result<Option<Header>, StoreFault> {
        if self.geometry.pages_per_block < 2 {
            return Ok(None);
        }
        let ppn = self.geometry.page_at(pbn, 1);
        let found = read_page(self.nand, ppn, Cause::Recovery, self.page)?;
        Ok(match found {
            Found::Page(header, _) if self.is_new(header, pbn) => Some(header),
            _ => None,
        })
    }

    /// True if the spare area of the second page of a block says that it was programmed after the checkpoint.
    pub(super) fn may_have_second(&mut self, pbn: Pbn) -> Result<bool, StoreFault> {
        if self.geometry.pages_per_block < 2 {
            return Ok(false);
        }
        let mut spare = [0; SPARE_BYTES];
        match self.nand.read(self.geometry.page_at(pbn, 1), Cause::Recovery, &mut [], &mut spare) {
            Ok(_) => Ok(Header::claimed(&spare).is_some_and(|header| self.is_new(header, pbn))),
            Err(NandError::Uncorrectable(_) | NandError::BadBlock(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// True if a page of a block was programmed after the checkpoint. Host pages show it by their version,
    /// moved pages by the stamp, unless the block lay ready erased at the checkpoint.
    fn is_new(&self, header: Header, pbn: Pbn) -> bool {
        match header.kind {
            PageKind::Host | PageKind::More => header.version >= self.state.next_version,
            PageKind::Copy | PageKind::Trim => {
                let was_erased =
                    self.state.blocks.state(pbn).is_free() && self.state.first_crc[pbn.index()] == 0;
                let erases = header.extra.wrapping_sub(self.state.stamp_of(pbn));
                (1..=ERASES_MAX).contains(&erases) || (erases == 0 && was_erased)
            }
            _ => false,
        }
    }

    pub(super) fn look_at_first(&mut self, pbn: Pbn) -> Result<First, StoreFault> {
        let ppn = self.geometry.page_at(pbn, 0);
        let known = self.state.first_crc[pbn.index()];
        let mut spare = [0; SPARE_BYTES];
        match self.nand.read(ppn, Cause::Recovery, &mut [], &mut spare) {
            Ok(_) if spare == [0xff; SPARE_BYTES] => {
                // Erased, or this one page came to look so.
                return self.look_at_second(pbn, First::Kept);
            }
            Ok(_) if known != 0 && checksum(&spare) == known => return Ok(First::Kept),
            Ok(_) | Err(NandError::Uncorrectable(_)) => {}
            Err(NandError::BadBlock(_)) => return Ok(First::Bad),
            Err(error) => return Err(error.into()),
        }
        match read_page(self.nand, ppn, Cause::Recovery, self.page)? {
            Found::Page(_, crc) if crc == known => Ok(First::Kept),
            Found::Page(header, crc) if self.is_new(header, pbn) => Ok(First::Rewritten(crc, header)),
            // From before the checkpoint: it came back.
            Found::Page(header, _) if is_data(header.kind) => self.look_past_first(pbn, None),
            Found::Page(header, crc) => {
                if header.kind == PageKind::Checkpoint && header.version > self.records.checkpoint_version() {
                    self.require_no_later_record(pbn)?;
                }
                self.look_behind_checkpoint(pbn, First::Foreign(crc))
            }
            Found::Erased => Ok(First::Kept),
            Found::Unreadable(claim) => self.look_past_first(pbn, claim),
        }
    }

    /// Refuses a block of a checkpoint newer than the newest reference names, if a further record follows it.
    /// Without one the power was simply cut before there was a reference.
    fn require_no_later_record(&mut self, pbn: Pbn) -> Result<(), StoreFault> {
        for page in 0..self.geometry.pages_per_block {
            let ppn = self.geometry.page_at(pbn, page);
            match read_page(self.nand, ppn, Cause::Recovery, self.page)? {
                Found::Erased => break,
                Found::Page(header, _)
                    if header.kind == PageKind::Checkpoint
                        && header.version > self.records.checkpoint_version() + 1 =>
                {
                    let what = "there are newer checkpoints than the newest reference says";
                    return Err(StoreFault::corrupted(what, ppn.0));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Finding by the second page of a block; `first` if that page tells nothing.
    fn look_at_second(&mut self, pbn: Pbn, first: First) -> Result<First, StoreFault> {
        Ok(self.second_page(pbn)?.map_or(first, |header| First::Rewritten(0, header)))
    }

    /// Finding about a block whose first page is of a checkpoint. If a page behind it was programmed after
    /// the newest checkpoint, the first page is an old one that came back. Otherwise the finding by the first
    /// page holds.
    fn look_behind_checkpoint(&mut self, pbn: Pbn, first: First) -> Result<First, StoreFault> {
        for page in 1..self.geometry.pages_per_block {
            let ppn = self.geometry.page_at(pbn, page);
            match read_page(self.nand, ppn, Cause::Recovery, self.page)? {
                Found::Page(header, _) if self.is_new(header, pbn) => return Ok(First::Rewritten(0, header)),
                Found::Erased if page > 1 => break,
                _ => {}
            }
        }
        Ok(first)
    }

    /// Finding about a block whose first page cannot be read. Another page of the block may have been
    /// programmed after the checkpoint.
    fn look_past_first(&mut self, pbn: Pbn, claim: Option<Header>) -> Result<First, StoreFault> {
        let open = self.state.frontier_in(pbn);
        let continued_at = open.map_or(self.geometry.pages_per_block, |f| f.next);
        for page in 1..self.geometry.pages_per_block {
            let ppn = self.geometry.page_at(pbn, page);
            if let Found::Page(header, _) = read_page(self.nand, ppn, Cause::Recovery, self.page)? {
                // An open block was continued after the checkpoint without an erase.
                let went_on = page >= continued_at && header.extra == self.state.stamp_of(pbn);
                let is_rewritten = self.is_new(header, pbn) && !went_on;
                return Ok(if is_rewritten { First::Rewritten(0, header) } else { First::Kept });
            }
        }
        // It may be the only page, and others may have followed elsewhere.
        Ok(claim
            .filter(|&header| self.is_new(header, pbn))
            .map_or(First::Kept, |header| First::Rewritten(0, header)))
    }
}

/// True if a page of this kind is the FTL's own, and not of a checkpoint.
pub(super) fn is_data(kind: PageKind) -> bool {
    holds_data(kind) || kind == PageKind::Trim
}

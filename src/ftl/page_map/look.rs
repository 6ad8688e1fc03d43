//! One look at a block while mounting: whether it was rewritten since the checkpoint.
//!
//! The spare area of the first page tells, by its checksum. Where that page looks erased, or is of an old
//! checkpoint, the second one is asked, since a page alone may have come to look so.

use super::holds_data;
use super::recovery::Recovery;
use crate::blocks::spare::{Found, Header, PageKind, SPARE_BYTES, checksum, read_page};
use crate::fault::StoreFault;
use crate::nand::{Cause, NandError};
use crate::units::Pbn;

/// Most erases of a block since the record, by which a mount knows that the block was rewritten: far more
/// than there are (P6). A page carries only the low byte of the erase count.
const ERASES_MAX: u8 = 201;

/// The account that the first page of a block gives of it.
pub(super) enum First {
    /// The block is as at the checkpoint, or erased: whatever the map says of this block still holds.
    Kept,
    /// Rewritten since. The checksum of the new first page, 0 if that cannot be read; and a page that can.
    Rewritten(u32, Header),
    /// Holds pages of an old checkpoint; the checksum of the first.
    Foreign(u32),
    /// Marked bad since.
    Bad,
}

impl Recovery<'_> {
    /// The second page of a block, if it was programmed after the checkpoint.
    pub(super) fn second_page(&mut self, pbn: Pbn) -> Result<Option<Header>, StoreFault> {
        if self.geometry.pages_per_block < 2 {
            return Ok(None);
        }
        let ppn = self.geometry.page_at(pbn, 1);
        let found = read_page(&mut self.nand, ppn, Cause::Recovery, self.page)?;
        Ok(match found {
            Found::Page(header, _) if self.is_new(header, pbn) => Some(header),
            _ => None,
        })
    }

    /// Whether the spare area of the second page of a block says that it was programmed after the checkpoint.
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

    /// Whether a page of a block was programmed after the checkpoint: host pages have their version to show
    /// it, moved ones the stamp, but for blocks that lay ready erased at the checkpoint.
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
                // Erased, or the page alone came to look so.
                return self.look_at_second(pbn, First::Kept);
            }
            Ok(_) if known != 0 && checksum(&spare) == known => return Ok(First::Kept),
            Ok(_) | Err(NandError::Uncorrectable(_)) => {}
            Err(NandError::BadBlock(_)) => return Ok(First::Bad),
            Err(error) => return Err(error.into()),
        }
        match read_page(&mut self.nand, ppn, Cause::Recovery, self.page)? {
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

    /// A block of a newer checkpoint than the newest reference names: the power was cut before there was
    /// another one. It was not where a further record follows.
    fn require_no_later_record(&mut self, pbn: Pbn) -> Result<(), StoreFault> {
        for page in 0..self.geometry.pages_per_block {
            let ppn = self.geometry.page_at(pbn, page);
            match read_page(&mut self.nand, ppn, Cause::Recovery, self.page)? {
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

    /// The account that the second page gives of a block; where there is none, that of the first one.
    fn look_at_second(&mut self, pbn: Pbn, first: First) -> Result<First, StoreFault> {
        Ok(self.second_page(pbn)?.map_or(first, |header| First::Rewritten(0, header)))
    }

    /// The first page is one of a checkpoint: whether a page behind it was programmed after the newest one,
    /// and the checkpoint's came back; where there is none, the account that the first page gives.
    fn look_behind_checkpoint(&mut self, pbn: Pbn, first: First) -> Result<First, StoreFault> {
        for page in 1..self.geometry.pages_per_block {
            let ppn = self.geometry.page_at(pbn, page);
            match read_page(&mut self.nand, ppn, Cause::Recovery, self.page)? {
                Found::Page(header, _) if self.is_new(header, pbn) => return Ok(First::Rewritten(0, header)),
                Found::Erased if page > 1 => break,
                _ => {}
            }
        }
        Ok(first)
    }

    /// The first page cannot be read: whether another page of the block was programmed after the checkpoint.
    fn look_past_first(&mut self, pbn: Pbn, claim: Option<Header>) -> Result<First, StoreFault> {
        let open = self.state.frontier_in(pbn);
        let continued_at = open.map_or(self.geometry.pages_per_block, |f| f.next);
        for page in 1..self.geometry.pages_per_block {
            let ppn = self.geometry.page_at(pbn, page);
            if let Found::Page(header, _) = read_page(&mut self.nand, ppn, Cause::Recovery, self.page)? {
                // An open block went on after the checkpoint without having been erased.
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

/// Whether a page of this kind is the FTL's own, and none of a checkpoint.
pub(super) fn is_data(kind: PageKind) -> bool {
    holds_data(kind) || kind == PageKind::Trim
}

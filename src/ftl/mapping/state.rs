//! State of a chip that a record keeps and a mount brings back.

use super::base::VERSION_BITS;
use super::scan::is_ours;
use super::slots::Slots;
use super::tags::{BlockTag, BlockTags};
use super::{NOBODY, Rules, note_pages, record_interval};
use crate::blocks::BlockTable;
use crate::blocks::spare::{Found, Header, PageKind, read_page};
use crate::codec::first_number;
use crate::fault::StoreFault;
use crate::nand::{Cause, Geometry, Nand};
use crate::units::{Pbn, Ppn};
use alloc::collections::BTreeSet;

/// Blocks and pages of a chip, their uses, and the versions given out.
pub(crate) struct State {
    pub(super) geometry: Geometry,
    pub(super) rules: Rules,
    pub(super) page_count: u32,
    pub(super) setup: [u32; 4],
    pub(super) blocks: BlockTable,
    pub(super) slots: Slots,
    pub(super) tags: BlockTags,
    pub(super) next_version: u64,
    /// Logical pages whose newest version cannot be read.
    pub(super) lost: BTreeSet<u32>,
}

impl State {
    /// State of an erased chip.
    pub(super) fn new(rules: Rules, blocks: BlockTable) -> State {
        let geometry = blocks.geometry();
        State {
            geometry,
            rules,
            page_count: 0,
            setup: [0; 4],
            blocks,
            slots: Slots::new(geometry),
            tags: BlockTags::unused(geometry.blocks),
            next_version: first_number(VERSION_BITS, 1),
            lost: BTreeSet::new(),
        }
    }

    pub(super) fn tag(&self, pbn: Pbn) -> BlockTag {
        self.tags.get(pbn.index())
    }

    /// True if valid pages are counted by block. Builds without the feature `full` cannot.
    pub(crate) fn is_counted(&self) -> bool {
        cfg!(feature = "full") && self.blocks.is_counted()
    }

    /// True if a page is valid, and that is known for certain.
    pub(super) fn is_surely_valid(&self, ppn: Ppn) -> bool {
        self.blocks.is_valid(ppn) && self.blocks.knows_pages_of(self.geometry.block_of(ppn))
    }

    /// True if a page was programmed since the last erase of its block, as far as the low byte of the erase
    /// count tells.
    pub(super) fn is_of_now(&self, ppn: Ppn, header: Header) -> bool {
        header.extra == self.blocks.erase_count(self.geometry.block_of(ppn)) as u8
    }

    /// Header of a page that was read. An error if the page is not the requested one.
    pub(super) fn require(&self, ppn: Ppn, number: u32, found: Found) -> Result<Header, StoreFault> {
        let what = match found {
            Found::Page(header, _) if !self.is_of_now(ppn, header) => "a page is older than its block",
            Found::Page(header, _) if header.number == number => return Ok(header),
            Found::Page(..) => "a page holds another logical page",
            Found::Erased | Found::Unreadable(_) => "a page does not pass its checksum",
        };
        Err(StoreFault::corrupted(what, ppn.0))
    }

    /// Number of a valid page, read from the page itself.
    pub(super) fn number_on_chip(
        &self,
        nand: &mut (impl Nand + ?Sized),
        ppn: Ppn,
        page: &mut [u8],
    ) -> Result<u32, StoreFault> {
        match read_page(nand, ppn, Cause::Recovery, page)? {
            Found::Page(h, _) | Found::Unreadable(Some(h))
                if is_ours(h) && h.number < self.page_count && self.is_of_now(ppn, h) =>
            {
                Ok(h.number)
            }
            _ => Err(StoreFault::corrupted("a live page cannot be read", ppn.0)),
        }
    }

    /// Number of a page that is in its place in a data block.
    pub(super) fn number_in_place(&self, ppn: Ppn) -> Option<u32> {
        let tag = self.tag(self.geometry.block_of(ppn));
        let place = self.geometry.page_in_block(ppn);
        let known = tag.role == Some(PageKind::Data) && tag.owner != NOBODY;
        let first = tag.owner.checked_mul(self.geometry.pages_per_block).filter(|_| known)?;
        first.checked_add(place).filter(|&number| number < self.page_count)
    }

    /// Most pages programmed between two records, without those of one write.
    pub(crate) fn record_interval(&self) -> u32 {
        // With few blocks no note is long.
        let percent = if note_pages(self.geometry) == 0 { 100 } else { self.rules.record_percent };
        u32::try_from(u64::from(record_interval(self.geometry)) * u64::from(percent) / 100)
            .unwrap_or(u32::MAX)
    }

    /// Bytes of RAM that the tables of the blocks take.
    pub(super) fn table_bytes(&self) -> usize {
        self.blocks.ram_bytes()
            + self.slots.ram_bytes()
            + BlockTags::ram_bytes(self.geometry.blocks, self.rules.has_owners)
    }
}

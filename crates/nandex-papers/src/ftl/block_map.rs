//! The map from logical blocks to data blocks, for schemes that keep logical blocks in place.

use alloc::vec;
use alloc::vec::Vec;
use nandex::blocks::Wear;
use nandex::blocks::spare::PageKind;
use nandex::fault::StoreFault;
use nandex::ftl::mapping::{Flash, HostPage, Source};
use nandex::nand::Cause;
use nandex::units::{Lbn, Pbn, Ppn};

#[derive(Debug)]
pub(super) struct BlockMap {
    data: Vec<Option<Pbn>>,
}

impl BlockMap {
    /// Finds the data blocks after a mount by the tags of the blocks.
    pub(super) fn open(flash: &Flash<'_>) -> Result<BlockMap, StoreFault> {
        let mut map = BlockMap::new(flash);
        for pbn in (0..flash.geometry().blocks).map(Pbn) {
            if flash.live_role(pbn) == Some(PageKind::Data) {
                let what = "a data block belongs to no logical block";
                let owner = map.entry(Lbn(flash.tag(pbn).owner));
                *owner.ok_or_else(|| StoreFault::corrupted(what, pbn.0))? = Some(pbn);
            }
        }
        Ok(map)
    }

    pub(super) fn new(flash: &Flash<'_>) -> BlockMap {
        let blocks = flash.page_count().div_ceil(flash.geometry().pages_per_block);
        BlockMap { data: vec![None; blocks as usize] }
    }

    pub(super) fn get(&self, lbn: Lbn) -> Option<Pbn> {
        self.data[lbn.index()]
    }

    pub(super) fn entry(&mut self, lbn: Lbn) -> Option<&mut Option<Pbn>> {
        self.data.get_mut(lbn.index())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Lbn, Pbn)> + '_ {
        (0..).zip(&self.data).filter_map(|(lbn, pbn)| pbn.map(|pbn| (Lbn(lbn), pbn)))
    }

    pub(super) fn get_or_take(&mut self, flash: &mut Flash<'_>, lbn: Lbn) -> Result<Pbn, StoreFault> {
        if let Some(pbn) = self.get(lbn) {
            return Ok(pbn);
        }
        let pbn = flash.take(PageKind::Data, lbn.0, Wear::Least)?;
        self.data[lbn.index()] = Some(pbn);
        Ok(pbn)
    }

    /// Programs a page in its place in the data block, and takes a data block if there is none. Returns
    /// false if the place cannot be programmed or the program failed.
    pub(super) fn write_in_place(
        &mut self,
        flash: &mut Flash<'_>,
        host: HostPage<'_>,
    ) -> Result<bool, StoreFault> {
        let (lbn, page) = flash.split(host.lpn);
        let pbn = self.get_or_take(flash, lbn)?;
        let ppn = flash.geometry().page_at(pbn, page);
        Ok(flash.is_open(pbn, page) && flash.write(ppn, PageKind::Data, host)?)
    }

    pub(super) fn find(&self, flash: &Flash<'_>, lpn: u32) -> Option<Ppn> {
        let (lbn, page) = flash.split(lpn);
        let ppn = flash.geometry().page_at(self.get(lbn)?, page);
        Some(ppn).filter(|&ppn| flash.is_valid(ppn))
    }

    pub(super) fn adopt(&mut self, flash: &mut Flash<'_>, lbn: Lbn, pbn: Pbn) {
        flash.retag(pbn, PageKind::Data, lbn.0);
        self.data[lbn.index()] = Some(pbn);
    }

    /// Sets or removes the data block of a logical block. Returns the former one, in which no page is valid
    /// any more.
    pub(super) fn replace(&mut self, lbn: Lbn, pbn: Option<Pbn>) -> Option<Pbn> {
        core::mem::replace(&mut self.data[lbn.index()], pbn)
    }

    /// A merged log block becomes the data block; the one before it is erased.
    pub(super) fn switch(&mut self, flash: &mut Flash<'_>, lbn: Lbn, pbn: Pbn) -> Result<(), StoreFault> {
        flash.retag(pbn, PageKind::Data, lbn.0);
        match self.replace(lbn, Some(pbn)) {
            Some(old) => flash.free(old, Cause::Merge, Vec::new),
            None => Ok(()),
        }
    }

    /// Gathers the live pages of a logical block in a new data block, if any are left. Returns the former
    /// data block, which the caller erases.
    pub(super) fn gather(
        &mut self,
        flash: &mut Flash<'_>,
        lbn: Lbn,
        sources: &[Option<Source<'_>>],
    ) -> Result<Option<Pbn>, StoreFault> {
        let is_empty = sources.iter().all(Option::is_none);
        let new = if is_empty { None } else { Some(flash.gather(lbn, sources)?) };
        Ok(self.replace(lbn, new))
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.data.len() * size_of::<Option<Pbn>>()
    }
}

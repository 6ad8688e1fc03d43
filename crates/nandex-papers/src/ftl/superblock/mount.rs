//! Superblocks after a mount: their blocks follow from the place of each logical page.

use super::{Superblock, Update};
use nandex::blocks::BlockState;
use nandex::blocks::spare::PageKind;
use nandex::ftl::mapping::Flash;
use nandex::sort;
use nandex::store::StoreError;

impl Superblock {
    /// Gives each superblock the blocks that hold its pages, by the map.
    pub(super) fn adopt_map(&mut self, flash: &mut Flash<'_>) -> Result<(), StoreError> {
        for lpn in 0..self.map.len() as u32 {
            let Some(ppn) = self.find(lpn) else { continue };
            let (pbn, number) = (flash.geometry().block_of(ppn), self.super_of(flash, lpn));
            let group = &mut self.supers[number];
            group.live += 1;
            if !group.blocks.contains(&pbn) {
                group.enter(pbn);
                flash.retag(pbn, PageKind::Log, number as u32);
            }
        }
        for number in 0..self.supers.len() {
            self.adopt(flash, number)?;
        }
        Ok(())
    }

    /// Decides after a mount which open blocks a superblock continues to fill.
    fn adopt(&mut self, flash: &mut Flash<'_>, number: usize) -> Result<(), StoreError> {
        let group = &mut self.supers[number];
        sort::total(&mut group.blocks);
        for &pbn in &group.blocks {
            if flash.tag(pbn).owner != number as u32 {
                let what = "a block holds pages of two superblocks";
                return Err(StoreError::Corrupted { what, at: u64::from(pbn.0) });
            }
            if flash.blocks().state(pbn) != BlockState::Open {
                continue;
            }
            if group.update.is_none() {
                group.update = Some(Update { pbn, in_order: None, has_rewritten: false });
            } else if group.cold.is_none() {
                group.cold = Some(pbn);
            } else {
                flash.seal(pbn);
            }
        }
        Ok(())
    }
}

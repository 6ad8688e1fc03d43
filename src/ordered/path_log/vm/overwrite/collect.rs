//! Room: blocks are emptied by writing their live pages anew. The place of a page is named by its parent
//! alone, which is overwritten, or written anew when it is full.

use super::update::Anew;
use super::{InPlace, NONE, SEQUENCE_BITS, page};
use crate::check::{IndexError, Invariant, words};
use crate::codec::numbers;
use crate::fault::IndexFault;
use crate::nand::{Cause, Nand};
use alloc::vec::Vec;

impl<N: Nand> InPlace<N> {
    /// Pages that an operation may write, with those of one move.
    fn pages_per_operation(&self) -> u32 {
        4 * u32::from(self.height) + 4
    }

    /// Sees to it that an operation finds the pages it may need, and a block to move pages to.
    pub(super) fn make_room(&mut self) -> Result<(), IndexFault> {
        self.make_room_for(0)
    }

    /// Pages that are wanted free for an operation that takes so many.
    pub(super) fn wanted_for(&self, pages: u32) -> u32 {
        pages + self.pages_per_operation() + self.space.geometry.pages_per_block
    }

    /// Makes room for so many pages more.
    pub(super) fn make_room_for(&mut self, pages: u32) -> Result<(), IndexFault> {
        self.writable()?;
        if u64::from(self.sequence) >= numbers(SEQUENCE_BITS) {
            return Err(IndexError::WornOut.into());
        }
        self.retire_failing()?;
        self.renew_weak()?;
        let wanted = self.wanted_for(pages);
        if self.space.has_free(wanted) {
            return Ok(());
        }
        // Each move frees the page it moves, and a parent written anew its own: what is won is lost again
        // only where all parents are full, and then the chip is.
        for _ in 0..2 * self.space.geometry.blocks {
            let Some(block) = self.space.victim() else { return Err(IndexError::Full.into()) };
            self.counters.collections += 1;
            self.empty(block, Cause::GarbageCollection)?;
            if self.space.has_free(wanted) {
                return Ok(());
            }
        }
        Err(IndexError::Full.into())
    }

    /// Refuses an operation that writes no page unless a program fails, where programs do fail and no page is
    /// left for that.
    pub(super) fn require_spare_pages(&self) -> Result<(), IndexFault> {
        let may_take = 2 * u32::from(self.height) + 2;
        let has_room = self.space.failing.is_empty() || self.space.has_free(may_take);
        if has_room { Ok(()) } else { Err(IndexError::WornOut.into()) }
    }

    /// Writes weak pages anew, while there is room in plenty.
    fn renew_weak(&mut self) -> Result<(), IndexFault> {
        while let Some(ppn) = self.weak.pop() {
            let wanted = 2 * self.pages_per_operation() + self.space.geometry.pages_per_block;
            if self.space.is_live(ppn) && self.space.pinned.is_empty() && self.space.has_free(wanted) {
                self.interrupted = true;
                self.move_page(ppn, Cause::Scrubbing)?;
                self.interrupted = false;
            }
        }
        Ok(())
    }

    /// Writes the live pages of a block anew elsewhere.
    fn empty(&mut self, block: u32, cause: Cause) -> Result<(), IndexFault> {
        let per_block = self.space.geometry.pages_per_block;
        for ppn in block * per_block..(block + 1) * per_block {
            if !self.space.is_live(ppn) {
                continue;
            }
            if !self.space.has_free(2 * u32::from(self.height) + 2) {
                return Err(IndexError::Full.into());
            }
            self.interrupted = true;
            self.move_page(ppn, cause)?;
            self.interrupted = false;
        }
        debug_assert_eq!(self.space.live_of(block), 0, "O5: block {block} still holds live pages");
        Ok(())
    }

    fn move_page(&mut self, ppn: u32, cause: Cause) -> Result<(), IndexFault> {
        self.counters.moved_pages += 1;
        if ppn == self.settings_page {
            self.settings_page = self.write_settings(cause)?;
            self.space.set_dead(ppn);
            return Ok(());
        }
        let level = self.find(ppn, cause)?;
        let node = self.node(level);
        let entries = self.shape(level).sorted(&node.bytes, node.used, &[]);
        self.replace(level, &entries, Anew::AsIs, cause)
    }

    /// Puts the path to a page of the tree in place; returns its level.
    fn find(&mut self, ppn: u32, cause: Cause) -> Result<u8, IndexFault> {
        if ppn == self.root {
            let level = self.height;
            self.load(level, ppn)?;
            return Ok(level);
        }
        let mut bytes = core::mem::take(&mut self.birth);
        let is_it = |bytes: &[u8], tree: &Self| {
            let shape = tree.shape(page::level(bytes));
            shape.is_born(bytes, ppn) && shape.frontier(bytes, u64::from(ppn)).is_ok()
        };
        let mut read = Ok(());
        for _ in 0..crate::nand::READ_TRIES {
            read = self.nand.read(crate::units::Ppn(ppn), cause, &mut bytes, &mut []).map(drop);
            if read.is_ok() && is_it(&bytes, self) {
                break;
            }
        }
        let level = page::level(&bytes);
        let key = self.key_of(ppn, level, &mut bytes);
        self.birth = bytes;
        read?;
        if let Some(key) = key? {
            self.descend(&key, false, level)?;
            if self.node(level).ppn == ppn {
                return Ok(level);
            }
            return Err(IndexFault::broken(Invariant::O5, "a live page is not in the tree", ppn));
        }
        // An empty leaf says nothing of its place.
        self.descend(&[], false, 1)?;
        while self.node(1).ppn != ppn {
            let bound = self.bound(2).to_vec();
            if bound.iter().all(|&byte| byte == 0xff) {
                return Err(IndexFault::broken(Invariant::O5, "a live leaf is not in the tree", ppn));
            }
            self.descend(&bound, true, 1)?;
        }
        Ok(1)
    }

    /// A live key of a page.
    fn key_of(&mut self, ppn: u32, level: u8, bytes: &mut [u8]) -> Result<Option<Vec<u8>>, IndexFault> {
        if level == 0 || level > self.height {
            return Err(IndexFault::broken(Invariant::O2, "a live page of no level", ppn));
        }
        let shape = self.shape(level);
        if !shape.is_born(bytes, ppn) {
            return Err(IndexFault::broken(Invariant::O1, "not born whole", ppn));
        }
        let used = shape.frontier(bytes, u64::from(ppn))?.used;
        let live = (0..used).find(|&slot| shape.is_live(bytes, slot));
        Ok(live.map(|slot| shape.key(bytes, slot).to_vec()))
    }

    /// Empties blocks of which a program failed, and marks them bad.
    fn retire_failing(&mut self) -> Result<(), IndexFault> {
        while let Some(&block) = self.space.failing.first() {
            if self.space.pinned.contains(&block) {
                return Ok(());
            }
            match self.empty(block, Cause::GarbageCollection) {
                Ok(()) => {}
                // It has to wait until there is room.
                Err(error) if error.is_full() && !self.interrupted => return Ok(()),
                Err(error) => return Err(error),
            }
            self.space.failing.retain(|&failing| failing != block);
            self.discard(block)?;
        }
        Ok(())
    }

    pub(super) fn write_settings(&mut self, cause: Cause) -> Result<u32, IndexFault> {
        let shape = page::settings_shape(self.birth.len());
        let settings = page::settings(self.record, self.marks, self.space.geometry);
        let sequence = self.next_sequence();
        shape.birth(&mut self.birth, (sequence, 0), false, &settings);
        self.write_birth(shape, cause)
    }

    /// See [`OverwriteTree::format`](super::OverwriteTree::format).
    pub(super) fn format(&mut self) -> Result<(), IndexFault> {
        let per_block = self.space.geometry.pages_per_block;
        self.require_blocks()?;
        for block in 0..self.space.geometry.blocks {
            if !self.space.is_bad(block) && self.is_written(block, per_block)? {
                match self.nand.erase(crate::units::Pbn(block), Cause::Checkpoint) {
                    Ok(()) => {}
                    Err(crate::nand::NandError::EraseFailed(_)) => self.discard(block)?,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        self.require_blocks()?;
        self.root = self.write_node(1, true, &[], Cause::Checkpoint)?;
        self.settings_page = self.write_settings(Cause::Checkpoint)?;
        debug_assert!(self.root != NONE);
        Ok(())
    }

    /// Refuses a chip on which an empty tree would take no record: root and settings, and what an insertion
    /// wants free.
    fn require_blocks(&self) -> Result<(), IndexFault> {
        let geometry = self.space.geometry;
        let pages = 2 + self.pages_per_operation() + geometry.pages_per_block;
        let needs = pages.div_ceil(geometry.pages_per_block);
        let has = (0..geometry.blocks).filter(|&block| !self.space.is_bad(block)).count() as u32;
        if has >= needs {
            return Ok(());
        }
        Err(IndexError::ChipTooSmall { who: words("a VMTree-OW"), needs, has }.into())
    }

    fn is_written(&mut self, block: u32, per_block: u32) -> Result<bool, IndexFault> {
        let mut bytes = core::mem::take(&mut self.birth);
        let mut written = Ok(false);
        for ppn in block * per_block..(block + 1) * per_block {
            match self.nand.read(crate::units::Ppn(ppn), Cause::Checkpoint, &mut bytes, &mut []) {
                Ok(_) if bytes.iter().all(|&byte| byte == 0xff) => continue,
                Ok(_) | Err(crate::nand::NandError::Uncorrectable(_)) => written = Ok(true),
                Err(error) => written = Err(error.into()),
            }
            break;
        }
        self.birth = bytes;
        written
    }
}

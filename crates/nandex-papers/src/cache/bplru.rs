//! BPLRU: a write buffer that is emptied by erase blocks, least recently written first, each written whole.
//!
//! It holds written pages only: a page that is read and missing does not come in, and a read changes no
//! order. Blocks are in LRU order of their writes. *Victim:* the block not written to for the longest time,
//! with all its pages. Three techniques of the paper:
//! 1. *block-level LRU*, as said;
//! 2. *page padding*: if a page of the victim is dirty, the whole block is written in ascending order, what
//!    is missing being read from the store before, so that an FTL with log blocks can switch the log for the
//!    data block;
//! 3. *LRU compensation*: a block whose pages were written one after the other from first to last goes to the
//!    LRU end at once, for such a block is not written again soon.
//!
//! (H. Kim and S. Ahn, "BPLRU: a buffer management scheme for improving random writes in flash storage", FAST
//! 2008.) Ours: a `sync` writes what is dirty without padding; what it wrote stays as clean pages until the
//! block leaves.

use super::blocks::Blocks;
use super::lists::Lists;
use super::{Access, Exit, PolicyConfig, Replacement};
use alloc::vec;
use alloc::vec::Vec;
use nandex::units::Lpn;

/// In `in_order`: the writes of the block were not in order.
const NOT_IN_ORDER: u32 = u32::MAX;

/// The BPLRU policy: block padding LRU.
#[derive(Clone, Debug)]
pub struct Bplru {
    blocks: Blocks,
    /// Slots of blocks, the most recently written first.
    order: Lists,
    /// For each slot: how many pages were written in order, beginning with the block's first page.
    in_order: Vec<u32>,
}

impl Bplru {
    /// Makes the policy for a device with erase blocks of `settings.block_pages` pages.
    pub fn new(settings: &PolicyConfig) -> Bplru {
        Bplru {
            blocks: Blocks::new(settings.frames, settings.block_pages),
            order: Lists::new(settings.frames, 1),
            in_order: vec![NOT_IN_ORDER; settings.frames],
        }
    }

    fn written(&mut self, slot: u32, lpn: Lpn) {
        debug_assert!(self.blocks.len(slot) > 0, "an erase block without pages is written");
        let (offset, pages) = (lpn.0 % self.blocks.block_pages(), self.blocks.block_pages());
        let in_order = &mut self.in_order[slot as usize];
        *in_order = match offset {
            0 => 1,
            _ if offset == *in_order => offset + 1,
            _ => NOT_IN_ORDER,
        };
        self.order.remove(slot);
        if *in_order == pages && pages > 1 {
            self.order.push_last(0, slot);
        } else {
            self.order.push_first(0, slot);
        }
    }
}

impl Replacement for Bplru {
    fn name(&self) -> &'static str {
        "bplru"
    }

    fn touch(&mut self, frame: u32, access: Access) {
        if let Some(slot) = self.blocks.slot_of(frame).filter(|_| access.write) {
            self.written(slot, access.lpn);
        }
    }

    fn admit(&mut self, frame: u32, access: Access) {
        let slot = self.blocks.enter(frame, access.lpn);
        if self.blocks.len(slot) == 1 {
            self.in_order[slot as usize] = NOT_IN_ORDER;
            self.order.push_first(0, slot);
        }
        self.written(slot, access.lpn);
    }

    fn cleaned(&mut self, _: u32) {}

    fn remove(&mut self, frame: u32, _: Exit) {
        let slot = self.blocks.leave(frame);
        self.in_order[slot as usize] = NOT_IN_ORDER;
        if self.blocks.len(slot) == 0 {
            self.order.remove(slot);
        }
    }

    fn victim(&mut self) -> Option<u32> {
        self.order.last(0).and_then(|slot| self.blocks.first_to_come(slot))
    }

    fn companions(&self, victim: u32, frames: &mut Vec<u32>) {
        self.blocks.others(victim, frames);
    }

    fn admits_reads(&self) -> bool {
        false
    }

    fn padded_pages(&self) -> Option<u32> {
        Some(self.blocks.block_pages())
    }

    fn ram_bytes(&self) -> usize {
        let in_order = self.in_order.len() * size_of::<u32>();
        size_of::<Self>() + self.blocks.ram_bytes() + self.order.ram_bytes() + in_order
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Model, same_victims};
    use super::*;
    use alloc::boxed::Box;

    struct Block {
        id: u32,
        /// Pages in order of entry.
        pages: Vec<(u32, Lpn)>,
        /// The pages written since the block entered or lost a page.
        writes: Vec<u32>,
    }

    /// Blocks in order of eviction, the next one first.
    struct Order {
        blocks: Vec<Block>,
        block_pages: u32,
    }

    impl Order {
        fn write(&mut self, frame: u32, lpn: Lpn) {
            let id = lpn.0 / self.block_pages;
            let at = self.blocks.iter().position(|b| b.id == id);
            let mut block = match at {
                Some(at) => self.blocks.remove(at),
                None => Block { id, pages: Vec::new(), writes: Vec::new() },
            };
            if !block.pages.contains(&(frame, lpn)) {
                block.pages.push((frame, lpn));
            }
            block.writes.push(lpn.0 % self.block_pages);
            if block.writes.ends_with(&(0..self.block_pages).collect::<Vec<_>>()) {
                self.blocks.insert(0, block);
            } else {
                self.blocks.push(block);
            }
        }
        fn block_of(&self, frame: u32) -> Option<&Block> {
            self.blocks.iter().find(|b| b.pages.iter().any(|p| p.0 == frame))
        }
    }

    impl Model for Order {
        fn touch(&mut self, frame: u32, access: Access) {
            if access.write {
                self.write(frame, access.lpn);
            }
        }
        fn admit(&mut self, frame: u32, access: Access) {
            self.write(frame, access.lpn);
        }
        fn remove(&mut self, frame: u32, _: Exit) {
            for block in &mut self.blocks {
                if block.pages.iter().any(|p| p.0 == frame) {
                    block.writes.clear();
                    block.pages.retain(|p| p.0 != frame);
                }
            }
            self.blocks.retain(|b| !b.pages.is_empty());
        }
        fn victim(&mut self) -> Option<u32> {
            self.blocks.first().map(|b| b.pages[0].0)
        }
        fn companions(&self, victim: u32) -> Vec<u32> {
            let pages = &self.block_of(victim).unwrap().pages;
            pages.iter().map(|p| p.0).filter(|&f| f != victim).collect()
        }
    }

    #[test]
    fn victims_are_those_of_the_rule() {
        same_victims(
            |s| Box::new(Bplru::new(s)),
            |s| Box::new(Order { blocks: Vec::new(), block_pages: s.block_pages }),
        );
    }
}

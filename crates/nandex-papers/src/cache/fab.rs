//! FAB: the block with the most pages in the cache leaves as a whole.
//!
//! Pages are grouped by erase block; any use of a page makes its block the most recently used one. *Victim:*
//! the block with the most pages in the cache, of several the least recently used, with all its pages: dirty
//! ones are written in ascending order, clean ones dropped. A long sequential write fills blocks and leaves
//! soon, and as nearly whole blocks. (H. Jo, J.-U. Kang, S.-Y. Park, J.-S. Kim and J. Lee, "FAB: flash-aware
//! buffer management policy for portable media players", IEEE Transactions on Consumer Electronics 52(2),
//! 2006; the rule from summaries of it.)
//!
//! A queue of blocks for each number of pages; the fullest one is found from the top, in as many steps at
//! most as a block has pages.

use super::blocks::Blocks;
use super::use_queues::UseQueues;
use super::{Access, Exit, PolicyConfig, Replacement};
use alloc::vec::Vec;

/// The FAB policy: the block with the most pages leaves as a whole.
#[derive(Clone, Debug)]
pub struct Fab {
    blocks: Blocks,
    /// Slots of blocks. The queue's index is the number of frames less one.
    queues: UseQueues,
    /// Upper bound of the frames that any block has.
    fullest: usize,
}

impl Fab {
    /// Makes the policy for a device with erase blocks of `settings.block_pages` pages.
    pub fn new(settings: &PolicyConfig) -> Fab {
        let blocks = Blocks::new(settings.frames, settings.block_pages);
        let queues = UseQueues::new(settings.frames, blocks.block_pages() as usize);
        Fab { blocks, queues, fullest: 0 }
    }
}

impl Replacement for Fab {
    fn name(&self) -> &'static str {
        "fab"
    }

    fn touch(&mut self, frame: u32, _: Access) {
        let slot = self.blocks.slot_of(frame);
        if let Some((slot, queue)) = slot.and_then(|slot| Some((slot, self.queues.queue_of(slot)?))) {
            self.queues.touch(queue, slot);
        }
    }

    fn admit(&mut self, frame: u32, access: Access) {
        let slot = self.blocks.enter(frame, access.lpn);
        let pages = self.blocks.len(slot);
        debug_assert!(0 < pages && pages <= self.blocks.block_pages() as usize, "{pages} pages of a block");
        if pages > 1 {
            self.queues.remove(slot);
        }
        self.queues.push(pages as u32 - 1, slot);
        self.fullest = self.fullest.max(pages);
    }

    fn cleaned(&mut self, _: u32) {}

    fn remove(&mut self, frame: u32, _: Exit) {
        let slot = self.blocks.leave(frame);
        match self.blocks.len(slot) {
            0 => {
                self.queues.remove(slot);
            }
            pages => self.queues.shift(pages as u32 - 1, slot),
        }
    }

    fn victim(&mut self) -> Option<u32> {
        while self.fullest > 0 {
            if let Some(slot) = self.queues.oldest(self.fullest as u32 - 1) {
                return self.blocks.first_to_come(slot);
            }
            self.fullest -= 1;
        }
        None
    }

    fn companions(&self, victim: u32, frames: &mut Vec<u32>) {
        self.blocks.others(victim, frames);
    }

    fn ram_bytes(&self) -> usize {
        size_of::<Self>() + self.blocks.ram_bytes() + self.queues.ram_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Model, same_victims};
    use super::*;
    use alloc::boxed::Box;

    /// Blocks with their frames in order of entry. The least recently used block comes first.
    struct Order {
        blocks: Vec<(u32, Vec<u32>)>,
        block_pages: u32,
    }

    impl Model for Order {
        fn touch(&mut self, frame: u32, _: Access) {
            let at = self.blocks.iter().position(|b| b.1.contains(&frame)).unwrap();
            let block = self.blocks.remove(at);
            self.blocks.push(block);
        }
        fn admit(&mut self, frame: u32, access: Access) {
            let id = access.lpn.0 / self.block_pages;
            let at = self.blocks.iter().position(|b| b.0 == id);
            let mut block = at.map_or((id, Vec::new()), |at| self.blocks.remove(at));
            block.1.push(frame);
            self.blocks.push(block);
        }
        fn remove(&mut self, frame: u32, _: Exit) {
            self.blocks.iter_mut().for_each(|b| b.1.retain(|&f| f != frame));
            self.blocks.retain(|b| !b.1.is_empty());
        }
        fn victim(&mut self) -> Option<u32> {
            let most = self.blocks.iter().map(|b| b.1.len()).max()?;
            self.blocks.iter().find(|b| b.1.len() == most).map(|b| b.1[0])
        }
        fn companions(&self, victim: u32) -> Vec<u32> {
            let block = self.blocks.iter().find(|b| b.1.contains(&victim)).unwrap();
            block.1.iter().copied().filter(|&f| f != victim).collect()
        }
    }

    #[test]
    fn victims_are_those_of_the_rule() {
        same_victims(
            |s| Box::new(Fab::new(s)),
            |s| Box::new(Order { blocks: Vec::new(), block_pages: s.block_pages }),
        );
    }
}

//! REF, recently evicted first: dirty pages follow those of their erase block that were written not long ago.
//!
//! An FTL with few log blocks suffers when pages of many blocks are written in turn. So among the pages not
//! used for long, those go first whose block is being written anyway. LRU order; its last pages are the
//! victim window; and the numbers of the blocks of which a dirty page was evicted last, the newest first.
//!
//! *Victim:* in the window, the least recently used dirty page of the newest of these blocks that has one; if
//! none has, the least recently used page of all. The block of a dirty page that is evicted becomes the
//! newest. (D. Seo and D. Shin, "Recently-evicted-first buffer replacement policy for flash storage devices",
//! IEEE Transactions on Consumer Electronics 54(3), 2008, of which we have the abstract: that the victim
//! depends on recent victims is theirs; window of half of the frames, eight blocks, and dirty pages only are
//! ours.)

use super::blocks::Blocks;
use super::use_queues::UseQueues;
use super::{Access, Exit, PolicyConfig, Replacement};
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use nandex::units::Lpn;

const WORKING: u32 = 0;
const WINDOW: u32 = 1;
/// Percentage of the frames in the victim window, unless the settings name another.
const WINDOW_PERCENT: u32 = 50;
/// Blocks remembered: as many as a small FTL has log blocks.
const BLOCKS: usize = 8;

/// The REF policy: dirty pages of recently evicted blocks leave first.
#[derive(Clone, Debug)]
pub struct RecentlyEvicted {
    queues: UseQueues,
    pages: Vec<(Lpn, bool)>,
    /// Dirty pages of the window.
    window_blocks: Blocks,
    window: usize,
    /// Blocks of the dirty pages evicted last, the newest first.
    recent: VecDeque<u32>,
    dirty_victim: Option<u32>,
}

impl RecentlyEvicted {
    /// Makes the policy for a device with erase blocks of `settings.block_pages` pages.
    pub fn new(settings: &PolicyConfig) -> RecentlyEvicted {
        RecentlyEvicted {
            queues: UseQueues::new(settings.frames, 2),
            pages: vec![(Lpn(0), false); settings.frames],
            window_blocks: Blocks::new(settings.frames, settings.block_pages),
            window: settings.window_frames(WINDOW_PERCENT),
            recent: VecDeque::with_capacity(BLOCKS),
            dirty_victim: None,
        }
    }

    /// Moves pages into the window until it is full or no page is left outside.
    fn fill_window(&mut self) {
        while self.queues.len(WINDOW) < self.window
            && let Some(frame) = self.queues.oldest(WORKING)
        {
            self.queues.shift(WINDOW, frame);
            let (lpn, dirty) = self.pages[frame as usize];
            if dirty {
                self.window_blocks.enter(frame, lpn);
            }
        }
    }

    fn leave_window_blocks(&mut self, frame: u32) {
        if self.window_blocks.slot_of(frame).is_some() {
            self.window_blocks.leave(frame);
        }
    }

    fn wrote(&mut self, block: u32) {
        self.recent.retain(|&other| other != block);
        self.recent.truncate(BLOCKS - 1);
        self.recent.push_front(block);
        debug_assert!(self.recent.len() <= BLOCKS, "{} blocks are remembered", self.recent.len());
    }
}

impl Replacement for RecentlyEvicted {
    fn name(&self) -> &'static str {
        "ref"
    }

    fn touch(&mut self, frame: u32, access: Access) {
        self.leave_window_blocks(frame);
        self.pages[frame as usize] = (access.lpn, access.dirty);
        self.queues.touch(WORKING, frame);
        self.fill_window();
    }

    fn admit(&mut self, frame: u32, access: Access) {
        self.pages[frame as usize] = (access.lpn, access.dirty);
        self.queues.push(WORKING, frame);
        self.fill_window();
    }

    fn cleaned(&mut self, frame: u32) {
        self.pages[frame as usize].1 = false;
        self.leave_window_blocks(frame);
    }

    fn remove(&mut self, frame: u32, exit: Exit) {
        self.leave_window_blocks(frame);
        self.queues.remove(frame);
        let (lpn, dirty) = self.pages[frame as usize];
        if exit == Exit::Evicted && (dirty || self.dirty_victim == Some(frame)) {
            self.wrote(self.window_blocks.id_of(lpn));
        }
        self.dirty_victim = None;
        self.fill_window();
    }

    fn victim(&mut self) -> Option<u32> {
        let of_block = |&id: &u32| self.window_blocks.first_to_come(self.window_blocks.slot(id)?);
        let recent = self.recent.iter().find_map(of_block);
        let oldest = || self.queues.oldest(WINDOW).or_else(|| self.queues.oldest(WORKING));
        let frame = recent.or_else(oldest);
        // A flush of all dirty pages may clean it before it leaves.
        self.dirty_victim = frame.filter(|&f| self.pages[f as usize].1);
        frame
    }

    fn ram_bytes(&self) -> usize {
        let pages = self.pages.len() * size_of::<(Lpn, bool)>() + BLOCKS * size_of::<u32>();
        size_of::<Self>() + self.queues.ram_bytes() + self.window_blocks.ram_bytes() + pages
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Model, same_victims};
    use super::*;
    use alloc::boxed::Box;

    /// `pages` begins with the least recently used page; `recent` ends with the newest block.
    struct Order {
        pages: Vec<(u32, Access)>,
        recent: Vec<u32>,
        window: usize,
        block_pages: u32,
        chosen: Option<(u32, Access)>,
    }

    impl Model for Order {
        fn touch(&mut self, frame: u32, access: Access) {
            self.pages.retain(|p| p.0 != frame);
            self.pages.push((frame, access));
        }
        fn admit(&mut self, frame: u32, access: Access) {
            self.pages.push((frame, access));
        }
        fn cleaned(&mut self, frame: u32) {
            self.pages.iter_mut().filter(|p| p.0 == frame).for_each(|p| p.1.dirty = false);
        }
        fn remove(&mut self, frame: u32, exit: Exit) {
            let &(_, page) = self.pages.iter().find(|p| p.0 == frame).unwrap();
            let was_dirty = self.chosen.take().is_some_and(|c| c.0 == frame && c.1.dirty);
            if exit == Exit::Evicted && (page.dirty || was_dirty) {
                let block = page.lpn.0 / self.block_pages;
                self.recent.retain(|&b| b != block);
                self.recent.push(block);
                if self.recent.len() > 8 {
                    self.recent.remove(0);
                }
            }
            self.pages.retain(|p| p.0 != frame);
        }
        fn victim(&mut self) -> Option<u32> {
            let window: Vec<_> = self.pages.iter().take(self.window).copied().collect();
            let fits = |p: &&(u32, Access), block: u32| p.1.dirty && p.1.lpn.0 / self.block_pages == block;
            let recent = self.recent.iter().rev().find_map(|&b| window.iter().find(|p| fits(p, b)));
            self.chosen = recent.or(self.pages.first()).copied();
            self.chosen.map(|p| p.0)
        }
    }

    #[test]
    fn victims_are_those_of_the_rule() {
        same_victims(
            |s| Box::new(RecentlyEvicted::new(s)),
            |s| {
                let window = s.frames * s.window_percent.unwrap_or(50) as usize / 100;
                let (pages, recent) = (Vec::new(), Vec::new());
                Box::new(Order { pages, recent, window, block_pages: s.block_pages, chosen: None })
            },
        );
    }
}

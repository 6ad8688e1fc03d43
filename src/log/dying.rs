//! Pages that an operation replaces: they die when it is finished.

use crate::log::Log;
use crate::nand::Nand;
use crate::units::Ppn;
use alloc::vec::Vec;

/// Pages replaced by an operation for which the RAM is kept.
const KEPT: usize = 16;

impl<N: Nand> Log<N> {
    /// Says that nothing in a page can be reached any more once the operation is finished. A page that waits
    /// in the write part gives up its place at once; one on the chip stays valid until then, because a cut
    /// may bring it back.
    pub fn invalidate(&mut self, ppn: Ppn) {
        self.reads.remove(ppn);
        self.loaded = None;
        match self.writes.find_mut(ppn) {
            // A damaged tree may lead to one page twice.
            Some(slot) if !slot.live => {}
            Some(slot) => {
                slot.live = false;
                self.is_part_divided = true;
                self.blocks.invalidate(ppn);
            }
            None => {
                // Not doubled: those of a batch are many.
                if self.dying.len() == self.dying.capacity() {
                    self.dying.reserve_exact((self.dying.len() / 8).max(KEPT));
                }
                self.dying.push(ppn);
            }
        }
    }

    /// Ends an operation: the pages it replaced die.
    pub fn finish(&mut self) {
        self.is_part_divided = false;
        while let Some(ppn) = self.dying.pop() {
            // A damaged tree may have led to one page twice.
            if self.blocks.is_valid(ppn) && !(self.counts() && self.dying.contains(&ppn)) {
                self.blocks.invalidate(ppn);
                self.next_free = self.next_free.min(ppn.0);
            }
        }
        if self.dying.capacity() > KEPT {
            self.dying = Vec::new();
        }
    }
}

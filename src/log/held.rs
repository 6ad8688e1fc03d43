//! Addresses that must not be given to a page, because something on the chip still names what was there: one
//! bit a page, and how many of them lie where the log is yet to write.

use crate::bits::{self, WORD_BITS, Word};
use crate::fault::IndexFault;
use crate::log::Log;
use crate::log::tag::{Place, Tag};
use crate::nand::{Cause, Geometry, Nand};
use crate::units::Ppn;
use alloc::vec::Vec;

/// Whether addresses may be held, by what the engine was built with.
pub(super) const HAS_HOLDS: bool = cfg!(feature = "moved-nodes");

/// The addresses held. Takes RAM from the first hold on.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    bits: Vec<Word>,
    total: u32,
    ahead: u32,
}

impl Held {
    pub(super) fn is_empty(&self) -> bool {
        !HAS_HOLDS || self.total == 0
    }

    #[inline]
    pub(super) fn contains(&self, ppn: Ppn) -> bool {
        !self.is_empty() && bits::is_set(&self.bits, ppn.0 as usize)
    }

    pub(super) fn hold(&mut self, geometry: Geometry, ppn: Ppn, ahead: bool) {
        debug_assert!(ppn.0 < geometry.pages(), "{ppn} is held and beyond the chip");
        if self.bits.is_empty() {
            self.bits = bits::clear(geometry.pages() as usize);
        }
        if !self.contains(ppn) {
            bits::set(&mut self.bits, ppn.0 as usize);
            self.total += 1;
            self.ahead += u32::from(ahead);
            debug_assert!(
                self.ahead <= self.total,
                "{} of {} held addresses are ahead",
                self.ahead,
                self.total
            );
        }
    }

    pub(super) fn release(&mut self, geometry: Geometry, ppn: Ppn, ahead: bool) {
        assert!(ppn.0 < geometry.pages());
        if self.contains(ppn) {
            let (word, bit) = bits::place(ppn.0 as usize);
            self.bits[word] &= !bit;
            self.total -= 1;
            self.ahead -= u32::from(ahead);
            debug_assert!(
                self.ahead <= self.total,
                "{} of {} held addresses are ahead",
                self.ahead,
                self.total
            );
        }
    }

    /// Passes over one of the pages ahead.
    pub(super) fn pass(&mut self) {
        debug_assert!(self.ahead > 0, "an address is passed over that none knew ahead");
        self.ahead -= 1;
    }

    /// Held addresses where the log is yet to write before it erases anything.
    pub(super) fn ahead(&self) -> u32 {
        if HAS_HOLDS { self.ahead } else { 0 }
    }

    pub(super) fn set_ahead(&mut self, ahead: u32) {
        assert!(ahead <= self.total);
        self.ahead = ahead;
    }

    pub(super) fn iter(&self, geometry: Geometry) -> impl Iterator<Item = Ppn> + '_ {
        let words = self.bits.iter().enumerate().filter(|(_, word)| **word != 0);
        words
            .flat_map(|(at, word)| {
                let set = (0..WORD_BITS).filter(move |bit| word >> bit & 1 == 1);
                set.map(move |bit| Ppn((at * WORD_BITS + bit) as u32))
            })
            .inspect(move |ppn| assert!(ppn.0 < geometry.pages()))
    }

    pub(super) fn ram_bytes(&self) -> usize {
        size_of_val(&self.bits[..])
    }
}

impl<N: Nand> Log<N> {
    /// Gives no page this address until it is released. For an owner without a write part.
    pub fn hold(&mut self, ppn: Ppn) {
        assert_eq!(self.writes.pages(), 0, "{ppn} is held, and the write part would give it to another page");
        let ahead = self.is_ahead(ppn);
        self.held.hold(self.geometry, ppn, ahead);
    }

    /// Ends a hold.
    pub fn release(&mut self, ppn: Ppn) {
        let ahead = self.is_ahead(ppn);
        self.held.release(self.geometry, ppn, ahead);
    }

    /// Addresses held that [`Log::free_pages`] leaves out.
    pub fn held_ahead(&self) -> u32 {
        self.held.ahead()
    }

    /// Whether [`Log::allocate`] may come to this address before anything is collected.
    pub fn is_ahead(&self, ppn: Ppn) -> bool {
        let block = self.geometry.block_of(ppn);
        match self.frontier.block {
            Some(open) if open == block => self.geometry.page_in_block(ppn) >= self.frontier.next_page,
            _ => self.blocks.state(block).is_free(),
        }
    }

    /// Counts the addresses held ahead anew, after blocks became free or were taken.
    pub(super) fn recount_held(&mut self) {
        if !self.held.is_empty() {
            let ahead = self.held.iter(self.geometry).filter(|&ppn| self.is_ahead(ppn)).count();
            self.held.set_ahead(ahead as u32);
        }
    }

    /// Leaves a held address out. A block's first page shows a mount what the block is and its last one has
    /// the valid bits: there a page without a node is written.
    pub(super) fn pass_over(&mut self, ppn: Ppn, cause: Cause) -> Result<(), IndexFault> {
        debug_assert!(self.held.contains(ppn), "{ppn} is passed over and not held");
        self.held.pass();
        let page = self.geometry.page_in_block(ppn);
        if page > 0 && page + 1 < self.geometry.pages_per_block {
            return Ok(());
        }
        self.sequence += 1;
        let place = Place {
            remaining: 0,
            block_sequence: self.frontier.block_sequence,
            sequence: self.sequence,
            home: self.geometry.block_of(ppn).0,
            gaps: self.gaps(),
            passed_over: 0,
        };
        // No page of a caller is in the buffer while an address is sought.
        let mut empty = core::mem::take(&mut self.page.data);
        self.loaded = None;
        empty.fill(0xff);
        let programmed = self.program(ppn, (&Tag::default(), &place), &empty, cause);
        // Where the program failed, another one was needed meanwhile.
        if self.page.data.is_empty() {
            self.page.data = empty;
        }
        programmed
    }
}

//! Held addresses: no page may get them, because something on the chip still names the old page there. There
//! is one bit for each page, and a count of those that lie ahead of the log's writing position.

use crate::bits::{self, WORD_BITS, Word};
use crate::nand::Geometry;
use crate::units::Ppn;
use alloc::vec::Vec;

/// True if the engine was built so that addresses may be held.
pub(super) const HAS_HOLDS: bool = cfg!(feature = "moved-nodes");

/// Set of the held addresses. It takes RAM from the first hold on.
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

    /// Passes one of the held addresses ahead.
    pub(super) fn pass(&mut self) {
        debug_assert!(self.ahead > 0, "an address is passed over that none knew ahead");
        self.ahead -= 1;
    }

    /// Number of held addresses at which the log would write before it erases anything.
    pub(super) fn ahead(&self) -> u32 {
        if HAS_HOLDS { self.ahead } else { 0 }
    }

    /// Counts the held addresses ahead again, after blocks became free or were taken.
    pub(super) fn recount(&mut self, geometry: Geometry, is_ahead: impl Fn(Ppn) -> bool) {
        if !self.is_empty() {
            self.ahead = self.iter(geometry).filter(|&ppn| is_ahead(ppn)).count() as u32;
            assert!(self.ahead <= self.total);
        }
    }

    fn iter(&self, geometry: Geometry) -> impl Iterator<Item = Ppn> + '_ {
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

//! Addresses that must not be given to a page, because something on the chip still names what was there: one bit a page,
//! and how many of them lie where the log is yet to write.

use crate::nand::Geometry;
use crate::units::Ppn;
use alloc::vec;
use alloc::vec::Vec;

/// The addresses held. Takes RAM from the first hold on.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    bits: Vec<u64>,
    total: u32,
    ahead: u32,
}

impl Held {
    pub(super) fn is_empty(&self) -> bool {
        self.total == 0
    }

    #[inline]
    pub(super) fn contains(&self, ppn: Ppn) -> bool {
        self.total > 0 && self.bits[ppn.0 as usize / 64] >> (ppn.0 % 64) & 1 == 1
    }

    pub(super) fn hold(&mut self, geometry: Geometry, ppn: Ppn, ahead: bool) {
        if self.bits.is_empty() {
            self.bits = vec![0; geometry.pages().div_ceil(64) as usize];
        }
        if !self.contains(ppn) {
            self.bits[ppn.0 as usize / 64] |= 1 << (ppn.0 % 64);
            self.total += 1;
            self.ahead += u32::from(ahead);
        }
    }

    pub(super) fn release(&mut self, geometry: Geometry, ppn: Ppn, ahead: bool) {
        assert!(ppn.0 < geometry.pages());
        if self.contains(ppn) {
            self.bits[ppn.0 as usize / 64] &= !(1 << (ppn.0 % 64));
            self.total -= 1;
            self.ahead -= u32::from(ahead);
        }
    }

    /// One of those ahead was passed over.
    pub(super) fn pass(&mut self) {
        self.ahead -= 1;
    }

    /// Held addresses where the log is yet to write before it erases anything.
    pub(super) fn ahead(&self) -> u32 {
        self.ahead
    }

    pub(super) fn set_ahead(&mut self, ahead: u32) {
        assert!(ahead <= self.total);
        self.ahead = ahead;
    }

    pub(super) fn iter(&self, geometry: Geometry) -> impl Iterator<Item = Ppn> + '_ {
        let words = self.bits.iter().enumerate().filter(|(_, word)| **word != 0);
        words
            .flat_map(|(at, word)| {
                (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| Ppn((at * 64 + bit) as u32))
            })
            .inspect(move |ppn| assert!(ppn.0 < geometry.pages()))
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.bits.len() * 8
    }
}

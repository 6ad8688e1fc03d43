//! Spent pages of each block: those that cannot be programmed before the next erase.
//!
//! On a chip that requires ascending order that is a mark for each block: the pages below it are spent, which
//! means programmed or skipped. On a chip that takes any order there is also a bit for each page.

use crate::blocks::checkpoint::{Source, Window};
use crate::codec::get_u16;
use crate::fault::StoreFault;
use crate::nand::Geometry;
use crate::store::StoreError;
use crate::units::Pbn;
use alloc::vec;
use alloc::vec::Vec;

const NONE: u16 = u16::MAX;

/// Page number for each block, or [`NONE`]: one byte each if a block has fewer than 255 pages.
#[derive(Clone, Debug)]
enum Row {
    Narrow(Vec<u8>),
    Wide(Vec<u16>),
}

impl Row {
    fn new(geometry: Geometry, page: u16) -> Row {
        let blocks = geometry.blocks as usize;
        match geometry.pages_per_block {
            // `NONE` keeps its meaning when it is cut to a byte.
            0..0xff => Row::Narrow(vec![page as u8; blocks]),
            _ => Row::Wide(vec![page; blocks]),
        }
    }

    fn get(&self, at: usize) -> u16 {
        match self {
            Row::Narrow(row) if row[at] == u8::MAX => NONE,
            Row::Narrow(row) => u16::from(row[at]),
            Row::Wide(row) => row[at],
        }
    }

    fn set(&mut self, at: usize, page: u16) {
        match self {
            Row::Narrow(row) => row[at] = page as u8,
            Row::Wide(row) => row[at] = page,
        }
    }

    fn ram_bytes(&self) -> usize {
        match self {
            Row::Narrow(row) => row.len(),
            Row::Wide(row) => row.len() * 2,
        }
    }
}

/// Spent pages of all blocks.
#[derive(Clone, Debug)]
pub(super) struct Slots {
    geometry: Geometry,
    /// Page behind the highest spent page.
    next: Row,
    /// First page programmed since the erase. At a mount it tells whether the block was erased.
    first: Row,
    /// One bit for each page, on a chip that takes any order.
    bits: Option<Vec<u64>>,
}

impl Slots {
    /// Slots of a chip whose blocks are all erased.
    pub(super) fn new(geometry: Geometry) -> Slots {
        let words = (geometry.pages() as usize).div_ceil(64);
        Slots {
            geometry,
            next: Row::new(geometry, 0),
            first: Row::new(geometry, NONE),
            bits: geometry.random_order.then(|| vec![0; words]),
        }
    }

    /// True if a page can be programmed.
    pub(super) fn is_open(&self, pbn: Pbn, page: u32) -> bool {
        debug_assert!(page < self.geometry.pages_per_block, "page {page} of {pbn}");
        match &self.bits {
            None => page >= self.next(pbn),
            Some(bits) => {
                let ppn = self.geometry.page_at(pbn, page).index();
                bits[ppn / 64] >> (ppn % 64) & 1 == 0
            }
        }
    }

    /// Page behind the highest spent page.
    pub(super) fn next(&self, pbn: Pbn) -> u32 {
        u32::from(self.next.get(pbn.index()))
    }

    /// First page programmed since the erase.
    pub(super) fn first(&self, pbn: Pbn) -> Option<u32> {
        Some(u32::from(self.first.get(pbn.index()))).filter(|&f| f != u32::from(NONE))
    }

    /// Notes a program. True if a higher page of the block was programmed before.
    pub(super) fn spend(&mut self, pbn: Pbn, page: u32) -> bool {
        assert!(self.is_open(pbn, page), "page {page} of {pbn} is spent");
        if self.first.get(pbn.index()) == NONE {
            self.first.set(pbn.index(), page as u16);
        }
        self.set_bit(self.geometry.page_at(pbn, page).index());
        let next = self.next.get(pbn.index());
        let behind = page < u32::from(next);
        self.next.set(pbn.index(), next.max(page as u16 + 1));
        debug_assert!(!self.is_open(pbn, page), "page {page} of {pbn} is spent and open");
        behind
    }

    /// Seals a block: nothing is programmed in it before its next erase.
    pub(super) fn seal(&mut self, pbn: Pbn) {
        self.next.set(pbn.index(), self.geometry.pages_per_block as u16);
        self.set_bits(pbn, true);
        debug_assert!(
            (0..self.geometry.pages_per_block).all(|page| !self.is_open(pbn, page)),
            "{pbn} is sealed"
        );
    }

    /// Sets the page by which a block is known from now on, after a mount.
    pub(super) fn set_first(&mut self, pbn: Pbn, page: Option<u32>) {
        debug_assert!(page.is_none_or(|page| page < self.geometry.pages_per_block), "page {page:?} of {pbn}");
        self.first.set(pbn.index(), page.map_or(NONE, |p| p as u16));
    }

    /// Sets the pages of a block from a later record. `spent` is used on a chip that takes any order.
    pub(super) fn restore(
        &mut self,
        pbn: Pbn,
        (next, first): (u32, Option<u32>),
        spent: impl Iterator<Item = u32>,
    ) {
        debug_assert!(next <= self.geometry.pages_per_block, "{next} pages of {pbn}");
        self.clear(pbn);
        self.next.set(pbn.index(), next as u16);
        self.set_first(pbn, first);
        for page in spent {
            self.set_bit(self.geometry.page_at(pbn, page).index());
        }
    }

    fn set_bit(&mut self, ppn: usize) {
        if let Some(bits) = &mut self.bits {
            bits[ppn / 64] |= 1 << (ppn % 64);
        }
    }

    /// Notes that a block was erased.
    pub(super) fn clear(&mut self, pbn: Pbn) {
        self.next.set(pbn.index(), 0);
        self.first.set(pbn.index(), NONE);
        self.set_bits(pbn, false);
        debug_assert!(
            (0..self.geometry.pages_per_block).all(|page| self.is_open(pbn, page)),
            "{pbn} is clear"
        );
    }

    fn set_bits(&mut self, pbn: Pbn, spent: bool) {
        let Some(bits) = &mut self.bits else { return };
        for page in 0..self.geometry.pages_per_block {
            let ppn = self.geometry.page_at(pbn, page).index();
            let bit = 1u64 << (ppn % 64);
            if spent {
                bits[ppn / 64] |= bit;
            } else {
                bits[ppn / 64] &= !bit;
            }
        }
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.next.ram_bytes() + self.first.ram_bytes() + self.bits.as_ref().map_or(0, |b| b.len() * 8)
    }
}

/// Encoding: next (u16) and first (u16) of each block, then the bits if there are any.
impl Slots {
    /// Bytes that [`Slots::put`] writes.
    pub(super) fn encoded_bytes(geometry: Geometry) -> usize {
        let bits = if geometry.random_order { (geometry.pages() as usize).div_ceil(64) * 8 } else { 0 };
        geometry.blocks as usize * 4 + bits
    }

    pub(super) fn put(&self, page: &mut Window<'_>) {
        page.rows(self.geometry.blocks as usize, |at| {
            (u32::from(self.first.get(at)) << 16 | u32::from(self.next.get(at))).to_le_bytes()
        });
        let bits = self.bits.as_deref().unwrap_or(&[]);
        page.rows(bits.len(), |at| bits[at].to_le_bytes());
    }

    /// Reads the spent pages from the next [`Slots::encoded_bytes`].
    pub(super) fn decode(geometry: Geometry, source: &mut dyn Source) -> Result<Slots, StoreFault> {
        let mut slots = Slots::new(geometry);
        let limit = geometry.pages_per_block as u16;
        for pbn in 0..geometry.blocks as usize {
            let mut row = [0; 4];
            source.take(&mut row)?;
            let (next, first) = (get_u16(&row, 0), get_u16(&row, 2));
            if next > limit || (first != NONE && first >= limit) {
                let what = "the spent pages of a block make no sense";
                return Err(StoreError::Corrupted { what, at: pbn as u64 }.into());
            }
            slots.next.set(pbn, next);
            slots.first.set(pbn, first);
        }
        for word in slots.bits.iter_mut().flatten() {
            let mut bytes = [0; 8];
            source.take(&mut bytes)?;
            *word = u64::from_le_bytes(bytes);
        }
        Ok(slots)
    }
}

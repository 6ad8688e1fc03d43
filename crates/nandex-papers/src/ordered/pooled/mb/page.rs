//! The bytes of a leaf of several pages: a header in the first, sorted entries in all.
//!
//! ```text
//! bytes  0..4   CRC-32 of the rest of the page
//!        4..8   the page's own number
//!        8      its place in the leaf, 0 for the first
//!        9      0x4D, the mark of such a page
//!       10..12  entries in use
//! ```
//!
//! The first page goes on with the leaf header; in the others the node follows at once.
//!
//! ```text
//!       12..16  changes of a batch, in sixteenths, as a moving mean
//!       16..20  reads of the leaf between two batches, the same
//!       20      pages of the leaf, n
//!       21..24  0
//!       24..    for each of the pages that a leaf has at most: its number (4), its entries (2), its first key;
//!               zeros beyond n
//!         ..    the node as laid out by NodeShape: keys, then values
//! ```

use super::corrupted;
use nandex::check::{IndexError, Invariant, message};
use nandex::codec::{crc32, get_u16, get_u32, put_u16, put_u32};
use nandex::ordered::RecordFormat;
use nandex::ordered::node::NodeShape;
use nandex::units::Lpn;

const MARK: u8 = 0x4d;
const PAGE_HEAD: usize = 12;
const HEADER_HEAD: usize = 24;

/// Least number of entries in a page, so that a batch is worth its header.
const ENTRIES_MIN: usize = 4;

/// The layout of a tree's leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LeafLayout {
    pub(super) page_bytes: usize,
    pub(super) pages_max: usize,
    first: NodeShape,
    other: NodeShape,
}

impl LeafLayout {
    /// The layout for leaves of `wanted` pages, or fewer if the header has no room for so many.
    pub(super) fn new(
        record: RecordFormat,
        page_bytes: usize,
        wanted: usize,
    ) -> Result<LeafLayout, IndexError> {
        let (key, value) = (usize::from(record.key_bytes), usize::from(record.value_bytes));
        let mut other = NodeShape::fitting(page_bytes.saturating_sub(PAGE_HEAD), key, value);
        other.capacity = other.capacity.min(usize::from(u16::MAX));
        for pages_max in (1..=wanted.min(PAGES_MAX)).rev() {
            let header = HEADER_HEAD + pages_max * slot_bytes(key);
            let mut first = NodeShape::fitting(page_bytes.saturating_sub(header), key, value);
            first.capacity = first.capacity.min(usize::from(u16::MAX));
            if first.capacity >= ENTRIES_MIN.max(other.capacity / 2) {
                debug_assert!(
                    first.capacity <= other.capacity,
                    "M2: {} entries beside the header, {} without it",
                    first.capacity,
                    other.capacity
                );
                return Ok(LeafLayout { page_bytes, pages_max, first, other });
            }
        }
        Err(IndexError::unsupported(message!(
            "a leaf with a header on pages of {page_bytes} bytes: it takes {ENTRIES_MIN} entries of {} bytes at least",
            key + value
        )))
    }

    pub(super) fn shape(&self, place: usize) -> &NodeShape {
        if place == 0 { &self.first } else { &self.other }
    }

    pub(super) fn capacity(&self, pages: usize) -> usize {
        debug_assert!((1..=self.pages_max).contains(&pages), "M2: a leaf of {pages} pages");
        self.first.capacity + (pages - 1) * self.other.capacity
    }

    pub(super) fn pages_least(&self, entries: usize) -> usize {
        1 + entries.saturating_sub(self.first.capacity).div_ceil(self.other.capacity)
    }

    /// The fewest pages that hold `entries` entries with an eighth of the room left free.
    pub(super) fn pages_roomy(&self, entries: usize) -> usize {
        self.pages_least((8 * entries).div_ceil(7))
    }

    /// Offset of the node in the page at `place`.
    fn node_at(&self, place: usize) -> usize {
        if place == 0 { HEADER_HEAD + self.pages_max * slot_bytes(self.first.key_bytes) } else { PAGE_HEAD }
    }

    pub(super) fn area<'a>(&self, place: usize, page: &'a [u8]) -> &'a [u8] {
        &page[self.node_at(place)..]
    }

    pub(super) fn area_mut<'a>(&self, place: usize, page: &'a mut [u8]) -> &'a mut [u8] {
        &mut page[self.node_at(place)..]
    }

    fn slot(&self, place: usize) -> usize {
        HEADER_HEAD + place * slot_bytes(self.first.key_bytes)
    }

    pub(super) fn pages(&self, header: &[u8]) -> usize {
        usize::from(header[20])
    }

    /// The page at `place`: its number, its entries, and its first key.
    pub(super) fn listed<'a>(&self, header: &'a [u8], place: usize) -> (Lpn, usize, &'a [u8]) {
        let at = self.slot(place);
        let key = &header[at + 6..][..self.first.key_bytes];
        (Lpn(get_u32(header, at)), usize::from(get_u16(header, at + 4)), key)
    }

    pub(super) fn entries(&self, header: &[u8]) -> usize {
        (0..self.pages(header)).map(|place| self.listed(header, place).1).sum()
    }

    /// The place of the page that a key belongs to.
    pub(super) fn place_of(&self, header: &[u8], key: &[u8]) -> usize {
        let places = 1..self.pages(header);
        places.take_while(|&place| self.listed(header, place).2 <= key).last().unwrap_or(0)
    }

    pub(super) fn reset_header(&self, header: &mut [u8], rates: Rates, pages: usize) {
        debug_assert!((1..=self.pages_max).contains(&pages), "M2: a leaf of {pages} pages");
        header.fill(0);
        self.put_rates(header, rates);
        header[20] = pages as u8;
    }

    pub(super) fn rates(&self, header: &[u8]) -> Rates {
        Rates { changes: get_u32(header, 12), reads: get_u32(header, 16) }
    }

    pub(super) fn put_rates(&self, header: &mut [u8], rates: Rates) {
        put_u32(header, 12, rates.changes);
        put_u32(header, 16, rates.reads);
    }

    /// Enters a page into the header: number, entries and first key.
    pub(super) fn list(&self, header: &mut [u8], place: usize, (page, entries): (Lpn, usize), key: &[u8]) {
        debug_assert!(
            place < self.pages(header) && entries <= self.shape(place).capacity,
            "M2: {entries} entries at place {place}"
        );
        debug_assert!(entries == 0 || key.len() == self.first.key_bytes, "M2: a first key of another width");
        let at = self.slot(place);
        put_u32(header, at, page.0);
        put_u16(header, at + 4, entries as u16);
        header[at + 6..][..key.len()].copy_from_slice(key);
    }

    /// Completes a page with its head and checksum.
    pub(super) fn seal(page: &mut [u8], lpn: Lpn, place: usize, entries: usize) {
        debug_assert!(place < PAGES_MAX, "M1: place {place} of a leaf");
        put_u32(page, 4, lpn.0);
        (page[8], page[9]) = (place as u8, MARK);
        put_u16(page, 10, entries as u16);
        let crc = crc32(&[&page[4..]]);
        put_u32(page, 0, crc);
    }

    fn verify_head(&self, page: &[u8], lpn: Lpn, place: usize) -> Result<usize, IndexError> {
        if get_u32(page, 0) != crc32(&[&page[4..]]) {
            return Err(corrupted(Invariant::M1, "the checksum of a page of a leaf is wrong", lpn));
        }
        if get_u32(page, 4) != lpn.0 || usize::from(page[8]) != place || page[9] != MARK {
            return Err(corrupted(Invariant::M1, "another page stands in the place of a leaf's", lpn));
        }
        Ok(usize::from(get_u16(page, 10)))
    }

    /// Checks a page read as the first of a leaf.
    pub(super) fn verify_header(&self, page: &[u8], lpn: Lpn) -> Result<(), IndexError> {
        let entries = self.verify_head(page, lpn, 0)?;
        let pages = self.pages(page);
        if !(1..=self.pages_max).contains(&pages) {
            return Err(corrupted(Invariant::M2, "the leaf has too many pages, or none", lpn));
        }
        let fits = |place: usize| {
            let (page, entries, _) = self.listed(page, place);
            entries <= self.shape(place).capacity
                && (entries > 0 || pages == 1)
                && (place > 0) == (page != lpn)
        };
        if !(0..pages).all(fits) || self.listed(page, 0).1 != entries {
            return Err(corrupted(Invariant::M2, "the header lists pages that cannot be", lpn));
        }
        let keys = || (0..pages).map(|place| self.listed(page, place).2);
        if keys().zip(keys().skip(1)).any(|(a, b)| a >= b) {
            return Err(corrupted(Invariant::M3, "the first keys of the pages do not ascend", lpn));
        }
        Ok(())
    }

    /// Checks a page read for `place` of the leaf with this header.
    pub(super) fn verify_page(&self, page: &[u8], place: usize, header: &[u8]) -> Result<(), IndexError> {
        let (lpn, entries, first) = self.listed(header, place);
        if self.verify_head(page, lpn, place)? != entries
            || self.shape(place).key(self.area(place, page), 0) != first
        {
            return Err(corrupted(Invariant::M2, "the header says otherwise of the page", lpn));
        }
        Ok(())
    }
}

/// Largest number of pages of any leaf.
pub(super) const PAGES_MAX: usize = 16;

/// Bytes of the header for each page.
const fn slot_bytes(key_bytes: usize) -> usize {
    6 + key_bytes
}

/// Moving means of the accesses to a leaf, in sixteenths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Rates {
    /// Mean number of changes in a batch of the leaf. 0 before the first batch.
    pub(super) changes: u32,
    /// Reads between two batches.
    pub(super) reads: u32,
}

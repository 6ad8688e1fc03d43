//! Map in a record, in a store that counts valid pages. Together with the pages of the mapping table that it
//! names, it tells the place of every logical page.
//!
//! ```text
//! at  bytes   field
//!  0    4     pages of the mapping table
//!  4    -     where each is, u32, all ones for nowhere
//!  -    -     entries that the table does not say yet: logical page u32, physical page u32, all ones for
//!             none
//! ```

use crate::codec::get_u32;
use crate::nand::Geometry;
use alloc::vec::Vec;
use core::ops::Range;

/// Bytes of an entry that is not in the table.
const ENTRY_BYTES: usize = 8;

/// Number of entries in a page of the mapping table.
pub(crate) const fn entries_per_page(geometry: Geometry) -> u32 {
    geometry.page_bytes / 4
}

/// Map in a record.
#[derive(Clone, Copy)]
pub(crate) struct Told<'a> {
    places: &'a [u8],
    entries: &'a [u8],
    per_page: u32,
    page_count: u32,
}

impl<'a> Told<'a> {
    /// Bytes of a map with `pages` pages of the table and `entries` further entries.
    pub(crate) const fn bytes(pages: usize, entries: usize) -> usize {
        4 + 4 * pages + ENTRY_BYTES * entries
    }

    /// Appends a map to a record: first the places of the table's pages, then the entries.
    pub(crate) fn put(out: &mut Vec<u8>, places: &[u32], entries: impl Iterator<Item = (u32, u32)>) {
        out.extend((places.len() as u32).to_le_bytes());
        places.iter().for_each(|place| out.extend(place.to_le_bytes()));
        for (lpn, ppn) in entries {
            out.extend(lpn.to_le_bytes());
            out.extend(ppn.to_le_bytes());
        }
    }

    /// Map of a store with `page_count` logical pages. `None` if the bytes make no sense.
    pub(crate) fn new(bytes: &'a [u8], geometry: Geometry, page_count: u32) -> Option<Told<'a>> {
        let per_page = entries_per_page(geometry);
        let (count, rest) = bytes.split_at_checked(4)?;
        let pages = page_count.div_ceil(per_page);
        let (places, entries) = rest.split_at_checked(pages as usize * 4)?;
        let told = Told { places, entries, per_page, page_count };
        let is_page = |raw: u32| raw == u32::MAX || raw < geometry.pages();
        let is_sound = get_u32(count, 0) == pages
            && entries.len() % ENTRY_BYTES == 0
            && (0..pages).all(|page| is_page(told.place(page)))
            && told.entries().all(|(lpn, ppn)| lpn < page_count && is_page(ppn));
        is_sound.then_some(told)
    }

    /// Number of pages of the table.
    pub(crate) fn pages(&self) -> u32 {
        self.places.len() as u32 / 4
    }

    /// Place of a page of the table; all ones for nowhere.
    pub(crate) fn place(&self, page: u32) -> u32 {
        get_u32(self.places, page as usize * 4)
    }

    /// Logical pages whose entries are in a page of the table.
    pub(crate) fn range(&self, page: u32) -> Range<u32> {
        let first = page * self.per_page;
        first..(first + self.per_page).min(self.page_count)
    }

    /// Entries that are not in the table.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (u32, u32)> + use<'a> {
        self.entries.chunks_exact(ENTRY_BYTES).map(|entry| (get_u32(entry, 0), get_u32(entry, 4)))
    }

    /// Entries that are not in the table and belong to one of its pages.
    pub(crate) fn entries_of(&self, page: u32) -> impl Iterator<Item = (u32, u32)> + use<'a> {
        let lpns = self.range(page);
        self.entries().filter(move |(lpn, _)| lpns.contains(lpn))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_comes_back_or_makes_no_sense() {
        let geometry = Geometry::new(128, 16, 4, 100);
        let mut bytes = Vec::new();
        let entries = [(3, 7), (64, u32::MAX)];
        Told::put(&mut bytes, &[5, u32::MAX, 9], entries.into_iter());
        assert_eq!(bytes.len(), Told::bytes(3, 2));
        let told = Told::new(&bytes, geometry, 90).unwrap();
        assert_eq!((told.pages(), [0, 1, 2].map(|page| told.place(page))), (3, [5, u32::MAX, 9]));
        assert_eq!((told.range(0), told.range(2)), (0..32, 64..90));
        assert!(told.entries().eq(entries) && told.entries_of(2).eq([(64, u32::MAX)]));
        for (at, raw, page_count) in [(0, 3, 100), (0, 4, 90), (4, 400, 90), (16, 90, 90), (20, 400, 90)] {
            let mut wrong = bytes.clone();
            wrong[at..at + 4].copy_from_slice(&u32::to_le_bytes(raw));
            assert!(Told::new(&wrong, geometry, page_count).is_none(), "{raw} at {at}");
        }
        assert!(
            (0..bytes.len())
                .all(|end| [16, 24].contains(&end) || Told::new(&bytes[..end], geometry, 90).is_none())
        );
    }
}

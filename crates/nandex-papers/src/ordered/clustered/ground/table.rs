//! The address table: on which page a node is, 4 bytes of RAM for each number; and its pages in a checkpoint.
//!
//! ```text
//! bytes  0..4   CRC-32 of the rest of the page
//!        4..8   the page's own number
//!        8..16  checkpoint
//!       16..    pages of nodes, 4 bytes each, 0 for none; those of this page's share of the numbers, from 0
//! ```

use super::pages::PageMap;
use alloc::vec::Vec;
use nandex::check::{IndexError, Invariant};
use nandex::codec::{crc32, get_u32, get_u64, put_u32, put_u64};
use nandex::units::Lpn;

const HEADER_BYTES: usize = 16;

/// Node numbers added at once when the table grows.
const MORE: usize = 64;

pub(super) const fn page_entries(page_bytes: usize) -> usize {
    (page_bytes - HEADER_BYTES) / 4
}

/// Entries that a table for `nodes` numbers may have, rounded up to its growth.
pub(super) const fn entries_max(nodes: u32) -> usize {
    (nodes as usize).next_multiple_of(MORE)
}

pub(super) const fn ram_bytes_for(nodes: u32) -> usize {
    entries_max(nodes) * size_of::<u32>()
}

/// Page of each node, by number, and the set of these pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AddressTable {
    addresses: Vec<u32>,
    pub(super) live: PageMap,
}

impl AddressTable {
    pub(super) fn new(pages: u32) -> AddressTable {
        AddressTable { addresses: Vec::new(), live: PageMap::new(pages) }
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.addresses.capacity() * size_of::<u32>() + self.live.ram_bytes()
    }

    /// One above the highest number that the table has room for.
    pub(super) fn len(&self) -> u32 {
        self.addresses.len() as u32
    }

    pub(super) fn get(&self, id: u32) -> Option<u32> {
        self.addresses.get(id as usize).copied().filter(|page| *page != 0)
    }

    /// Sets or removes the page of a node. Returns whether no other node is there.
    pub(super) fn set(&mut self, id: u32, page: Option<u32>) -> bool {
        debug_assert!(page != Some(0), "C4: node {id} is on page 0");
        let at = id as usize;
        if at >= self.addresses.len() {
            let Some(_) = page else { return true };
            let length = (at + 1).next_multiple_of(MORE);
            self.addresses.reserve_exact(length - self.addresses.len());
            self.addresses.resize(length, 0);
        }
        let old = core::mem::replace(&mut self.addresses[at], page.unwrap_or(0));
        if old != 0 {
            self.live.remove(old);
        }
        let is_alone = page.is_none_or(|page| self.live.insert(page));
        debug_assert!(
            self.live.len() <= self.len(),
            "C4: {} pages hold {} nodes",
            self.live.len(),
            self.len()
        );
        is_alone
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let all = self.addresses.iter().enumerate().map(|(id, page)| (id as u32, *page));
        all.filter(|(_, page)| *page != 0)
    }

    /// Pages that the table takes in a checkpoint.
    pub(super) fn pages(&self, page_bytes: usize) -> u32 {
        self.addresses.len().div_ceil(page_entries(page_bytes)) as u32
    }

    pub(super) fn encode(&self, epoch: u64, part: u32, at: Lpn, page: &mut [u8]) {
        page.fill(0);
        put_u32(page, 4, at.0);
        put_u64(page, 8, epoch);
        let share = page_entries(page.len());
        debug_assert!(
            (part as usize * share) < self.addresses.len(),
            "C3: part {part} of a table of {} numbers",
            self.addresses.len()
        );
        for (i, address) in self.addresses.iter().skip(part as usize * share).take(share).enumerate() {
            put_u32(page, HEADER_BYTES + 4 * i, *address);
        }
        let crc = crc32(&[&page[4..]]);
        put_u32(page, 0, crc);
    }

    /// Adds a page of a checkpoint. `entries` is the length of its table; a node outside the pages
    /// `possible` is an error.
    pub(super) fn decode(
        &mut self,
        part: u32,
        entries: u32,
        page: &[u8],
        possible: core::ops::Range<u32>,
    ) -> Result<(), IndexError> {
        let share = page_entries(page.len()) as u32;
        let first = part * share;
        for id in first..entries.min(first + share) {
            let address = get_u32(page, HEADER_BYTES + 4 * (id - first) as usize);
            let is_right = address == 0 || possible.contains(&address);
            if !is_right || address != 0 && !self.set(id, Some(address)) {
                return Err(damaged(get_u32(page, 4)));
            }
        }
        Ok(())
    }
}

/// Refuses a page that is not the expected one of this checkpoint.
pub(super) fn require_page(page: &[u8], epoch: u64, at: Lpn) -> Result<(), IndexError> {
    let is_sound = get_u32(page, 0) == crc32(&[&page[4..]]);
    if is_sound && get_u32(page, 4) == at.0 && get_u64(page, 8) == epoch {
        Ok(())
    } else {
        Err(damaged(at.0))
    }
}

fn damaged(at: u32) -> IndexError {
    IndexError::broken(Invariant::C3, "a page of the table is damaged", u64::from(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_live_while_a_node_is_there() {
        let mut table = AddressTable::new(100);
        assert!(table.set(3, Some(40)) && table.set(4, Some(41)) && !table.set(5, Some(41)));
        assert!(table.set(3, Some(42)) && table.set(900, None));
        assert_eq!((table.get(3), table.get(7), table.get(900), table.len()), (Some(42), None, None, 64));
        assert_eq!((table.live.contains(40), table.live.len()), (false, 2));
    }

    #[test]
    fn a_checkpoint_is_the_table() {
        let mut table = AddressTable::new(100);
        (1..60).for_each(|id| assert!(table.set(id, Some(id + 30))));
        let (mut page, mut found) = ([0; 128], AddressTable::new(100));
        for part in 0..table.pages(128) {
            table.encode(7, part, Lpn(part + 2), &mut page);
            require_page(&page, 7, Lpn(part + 2)).unwrap();
            found.decode(part, table.len(), &page, 31..90).unwrap();
        }
        assert_eq!((found.clone(), table.pages(128)), (table.clone(), 3));
        assert!(require_page(&page, 8, Lpn(4)).is_err());
        assert!(AddressTable::new(100).decode(2, 64, &page, 31..88).is_err());
    }
}

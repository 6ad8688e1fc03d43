//! The record of a TBM in the last logical pages of the store below: how the TBM was formatted, which pages
//! in its blocks are void, and the wear of the blocks.
//!
//! ```text
//! each page    bytes  0..4   CRC-32 of the rest of the page
//!                     4..8   the characters "NXTB"
//!                     8..12  number of the page within the record
//!                    12..    its part of the body; the last part is followed by zeros
//! the body     bytes  0..8   version below which every page in the buffer blocks is void; 0 while being formatted
//!                     8..12  logical pages of the TBM
//!                    12..16  pages of a block
//!                    16..20  blocks of the TBM
//!                    20..    erases of each block, four bytes each
//!                            l, the logical pages lost, four bytes, and their numbers, four bytes each
//! ```
//!
//! It is written at format, mount and checkpoint, and when a page is lost, its first page last, so that the
//! void version takes effect when all it stands on is durable. Erase counts of two moments in one record do
//! no harm.

use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;
use nandex::check::words;
use nandex::codec::{crc32, get_u32, get_u64, put_u32, put_u64};
use nandex::fault::StoreFault;
use nandex::nand::{Cause, Differs, Geometry, Unfit};
use nandex::store::{PageStore, StoreError};
use nandex::units::Lpn;

const MAGIC: &[u8; 4] = b"NXTB";
const HEADER_BYTES: usize = 12;
const ERASES_AT: usize = 20;

/// Most lost pages that the record can list.
pub(super) const LOST_MAX: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// Version below which all pages in buffer blocks are void. 0 while the TBM is being formatted.
    pub(super) void_below: u64,
    pub(super) erases: Vec<u32>,
    /// Logical pages whose newest version cannot be read.
    pub(super) lost: BTreeSet<u32>,
}

/// Pages of the store that the record takes.
pub(super) fn pages_needed(blocks: u32, page_bytes: usize) -> u32 {
    let body_bytes = ERASES_AT + (blocks as usize + 1 + LOST_MAX) * size_of::<u32>();
    body_bytes.div_ceil(page_bytes - HEADER_BYTES) as u32
}

impl Record {
    pub(super) fn write(&self, store: &mut impl PageStore, geometry: Geometry) -> Result<(), StoreFault> {
        debug_assert_eq!(self.erases.len(), geometry.blocks as usize, "an erase count for each block");
        let page_bytes = store.page_bytes();
        let pages = pages_needed(geometry.blocks, page_bytes);
        let first = store.page_count() - pages;
        let part_bytes = page_bytes - HEADER_BYTES;
        let mut body = vec![0; pages as usize * part_bytes];
        put_u64(&mut body, 0, self.void_below);
        put_u32(&mut body, 8, first);
        put_u32(&mut body, 12, geometry.pages_per_block);
        put_u32(&mut body, 16, geometry.blocks);
        assert!(self.lost.len() <= LOST_MAX);
        let numbers =
            self.erases.iter().copied().chain([self.lost.len() as u32]).chain(self.lost.iter().copied());
        for (i, number) in numbers.enumerate() {
            put_u32(&mut body, ERASES_AT + i * size_of::<u32>(), number);
        }
        let mut page = vec![0; page_bytes];
        for (number, part) in body.chunks(part_bytes).enumerate().rev() {
            page[4..8].copy_from_slice(MAGIC);
            put_u32(&mut page, 8, number as u32);
            page[HEADER_BYTES..].copy_from_slice(part);
            let crc = crc32(&[&page[4..]]);
            put_u32(&mut page, 0, crc);
            if number == 0 && pages > 1 {
                store.sync()?;
            }
            store.write(Lpn(first + number as u32), Cause::Checkpoint, &page)?;
        }
        Ok(store.sync()?)
    }

    pub(super) fn read(store: &mut impl PageStore, geometry: Geometry) -> Result<Record, StoreFault> {
        let page_bytes = store.page_bytes();
        let pages = pages_needed(geometry.blocks, page_bytes);
        let first = store.page_count().saturating_sub(pages);
        let mut body = Vec::with_capacity(pages as usize * page_bytes);
        let mut page = vec![0; page_bytes];
        for number in 0..pages {
            store.read(Lpn(first + number), Cause::Recovery, &mut page)?;
            let what = words("the last pages of the store are no record of a TBM");
            if page.iter().all(|&byte| byte == 0) {
                return Err(StoreError::NotFormatted(nandex::store::unfit(store, what)?).into());
            }
            if page[4..8] != *MAGIC || get_u32(&page, 8) != number {
                return Err(StoreError::NotFormatted(Unfit::named(&page[4..8], MAGIC, what)).into());
            }
            if get_u32(&page, 0) != crc32(&[&page[4..]]) {
                let what = "the checksum of the TBM's record is wrong";
                return Err(StoreFault::corrupted(what, first + number));
            }
            body.extend_from_slice(&page[HEADER_BYTES..]);
        }
        let found = (get_u32(&body, 8), get_u32(&body, 12), get_u32(&body, 16));
        if found != (first, geometry.pages_per_block, geometry.blocks) {
            return Err(StoreError::other(
                Differs::Geometry,
                words("the TBM was formatted on other blocks or another store"),
            )
            .into());
        }
        let void_below = get_u64(&body, 0);
        if void_below == 0 {
            return Err(
                StoreError::other(Differs::Kind, words("the TBM was not formatted to the end")).into()
            );
        }
        let blocks = geometry.blocks as usize;
        let number = |i: usize| get_u32(&body, ERASES_AT + i * size_of::<u32>());
        let lost = number(blocks) as usize;
        if lost > LOST_MAX {
            let what = "the TBM's record lists too many lost pages";
            return Err(StoreFault::corrupted(what, first));
        }
        Ok(Record {
            void_below,
            erases: (0..blocks).map(number).collect(),
            lost: (0..lost).map(|i| number(blocks + 1 + i)).collect(),
        })
    }
}

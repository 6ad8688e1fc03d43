//! A chip made of the pages of a file or of a block device, for trees that stand on raw NAND.

use crate::{Access, FileOptions, FilePageStore};
use nandex::StoreError;
use nandex::store::store_nand::StoreNand;
use std::path::Path;

/// Pages of a block of the chip that a file's pages become.
const BLOCK_PAGES: u32 = 64;

/// Bytes of its spare areas: what every tree needs for blocks of that size, and with the mark of a page a
/// multiple of 64.
const SPARE_BYTES: u32 = 63;

/// Opens the chip in a file or on a block device that is there, to change it alone or to look at it beside
/// others who look. Every program is on the medium when it returns; what one such opening wrote, another one
/// of the same page size finds.
///
/// # Errors
///
/// Those of [`FilePageStore::open`]: [`StoreError::InUse`] where somebody has it open.
pub fn open_chip(
    path: &Path,
    page_bytes: usize,
    access: Access,
) -> Result<StoreNand<FilePageStore>, StoreError> {
    let options = FileOptions { every_write_synced: true, access, ..FileOptions::new(page_bytes) };
    let store = FilePageStore::open(path, options)?;
    // Sectors may be smaller than pages.
    Ok(StoreNand::new(store, BLOCK_PAGES, SPARE_BYTES)?.tearing())
}

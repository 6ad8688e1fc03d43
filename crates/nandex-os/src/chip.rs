//! A chip made of the pages of a file or of a block device, for trees that stand on raw NAND.

use crate::{Access, FileOptions, FilePageStore};
use nandex::StoreError;
use nandex::store::store_nand::StoreNand;
use std::path::Path;

/// Pages of a block of the chip that a file's pages become.
const BLOCK_PAGES: u32 = 64;

/// Bytes of a spare area: enough for every tree with blocks of that size. With the mark of a page it is a
/// multiple of 64.
const SPARE_BYTES: u32 = 63;

/// Opens the chip in an existing file or block device, alone for changing it or together with other readers.
/// Every program is durable when it returns. A later opening with the same page size finds the same chip.
///
/// # Errors
///
/// Those of [`FilePageStore::open`], such as [`StoreError::InUse`] if another process has the file open.
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

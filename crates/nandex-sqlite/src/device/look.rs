//! Opens the chip in an image for reading only.

use super::{Head, MAGIC, failed, read_label};
use nandex::{Nand, StoreError};
use nandex_os::{Access, FileOptions, FilePageStore, Lock};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Opens the chip in an image made by [`Device`](crate::Device), for reading together with other readers.
/// Programs fail. Returns `None` if there is no such image.
///
/// # Errors
///
/// [`StoreError::InUse`] if another process may change the image; [`StoreError::Corrupted`] if the label is
/// damaged; [`StoreError::Unsupported`] if the file is shorter than its label says; [`StoreError::Device`] if
/// the system refuses.
pub fn chip_of_image(path: &Path) -> Result<Option<Box<dyn Nand>>, StoreError> {
    let kind = std::fs::metadata(path).map_err(|error| failed(path, "examine", &error))?.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        // What is read would be awaited, or changed.
        return Ok(None);
    }
    let mut magic = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAGIC.len() as u64).read_to_end(&mut magic));
    read.map_err(|error| failed(path, "read", &error))?;
    if magic != MAGIC {
        return Ok(None);
    }
    let lock = Lock::take(path, Access::Look)?;
    let Some(Head::Label(label)) = read_label(path)? else {
        return Err(StoreError::Corrupted { what: "the label of the image is damaged", at: 0 });
    };
    label.geometry().validate().map_err(|error| StoreError::Unsupported(error.to_string().into()))?;
    let options =
        FileOptions { direct: false, access: Access::Look, ..FileOptions::new(label.stored_bytes()) };
    let file = FilePageStore::open_under(lock, options)?;
    let (_, chip) = label.chip_in(file, &path.display().to_string(), true)?;
    Ok(Some(Box::new(chip)))
}

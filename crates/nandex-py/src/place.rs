//! The chip below an index: simulated, in an image of one, or real.

use crate::errors::{InUseError, RequestError, StorageError, of_index, of_lab, of_lock};
use nandex::nand::sim::SimChip;
use nandex::{IndexError, Nand, Shared};
use nandex_lab::chip;
use nandex_os::Lock;
use pyo3::prelude::*;
use std::path::{Path, PathBuf};

/// Whatever an index stands on, which outlives it: a mount takes the chip again.
pub(crate) enum Place {
    /// A simulated chip, with the file that it is kept in, if any.
    Sim(Shared<SimChip>, Option<Image>),
    /// A device or a file, and the bytes of its pages.
    Device(PathBuf, usize),
}

/// The file of a simulated chip, which is this process's alone while it is locked.
pub(crate) struct Image {
    path: PathBuf,
    lock: Option<Lock>,
    /// The file was made for its lock and holds nothing yet.
    is_empty: bool,
}

impl Image {
    /// Locks the file of an image. A missing file is made.
    pub(crate) fn lock(path: PathBuf) -> PyResult<Image> {
        let lock = Lock::take_or_make(&path).map_err(|error| of_lock(&error))?;
        let is_empty = std::fs::metadata(&path).is_ok_and(|metadata| metadata.len() == 0);
        Ok(Image { path, lock: Some(lock), is_empty })
    }

    /// True if the image has no chip yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.is_empty
    }

    fn load(&self) -> PyResult<SimChip> {
        chip::load_image(&self.path).map_err(of_lab)
    }

    /// Puts the chip into the file: beside and then renamed, so that the file is always whole.
    fn save(&mut self, chip: &SimChip) -> PyResult<()> {
        let closed = || StorageError::new_err(format!("{}: the index is closed", self.path.display()));
        let lock = self.lock.as_mut().ok_or_else(closed)?;
        let mut name = self.path.file_name().unwrap_or_default().to_os_string();
        name.push(format!(".{}.part", std::process::id()));
        let beside = self.path.with_file_name(name);
        chip::save_image(&beside, chip).map_err(of_lab)?;
        lock.replace_by(&beside).map_err(|error| of_lock(&error))?;
        self.is_empty = false;
        Ok(())
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        // Still locked, so that nobody else has begun to use it.
        if self.is_empty && self.lock.as_ref().is_some_and(|lock| lock.require_owner().is_ok()) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Place {
    /// A fresh simulated chip.
    pub(crate) fn fresh(name: &str, blocks: Option<u32>, image: Option<Image>) -> PyResult<Place> {
        let mut part = chip::find(name).map_err(of_lab)?;
        if let Some(blocks) = blocks {
            part = part.with_blocks(blocks);
        }
        let chip = SimChip::new(&part).map_err(|error| RequestError::new_err(error.to_string()))?;
        Ok(Place::Sim(Shared::new(chip), image))
    }

    /// The simulated chip in this file.
    pub(crate) fn image(image: Image) -> PyResult<Place> {
        Ok(Place::Sim(Shared::new(image.load()?), Some(image)))
    }

    /// True if only the process that opened the place may use it.
    pub(crate) fn has_owner(&self) -> bool {
        !matches!(self, Place::Sim(_, None))
    }

    /// Takes the image again after it was let go: as it is now.
    pub(crate) fn take_again(&mut self) -> PyResult<()> {
        let Place::Sim(_, Some(image)) = self else { return Ok(()) };
        if image.lock.is_none() {
            let path = image.path.clone();
            *self = Place::image(Image::lock(path)?)?;
        }
        Ok(())
    }

    /// Lets others have the image.
    pub(crate) fn let_go(&mut self) {
        if let Place::Sim(_, Some(image)) = self {
            image.lock = None;
        }
    }

    /// The simulated chip; fails for a device.
    pub(crate) fn sim(&self) -> PyResult<&Shared<SimChip>> {
        match self {
            Place::Sim(chip, _) => Ok(chip),
            Place::Device(path, _) => {
                let why = "is a real device: it has neither counters nor power to cut";
                Err(RequestError::new_err(format!("{}: {why}", path.display())))
            }
        }
    }

    /// The chip for an index.
    pub(crate) fn nand(&self) -> PyResult<Box<dyn Nand>> {
        match self {
            Place::Sim(chip, _) => Ok(Box::new(chip.clone())),
            Place::Device(path, page_bytes) => open(path, *page_bytes),
        }
    }

    /// Refuses to format a chip that is not blank.
    pub(crate) fn require_empty(&self, nand: &mut dyn Nand) -> PyResult<()> {
        let Place::Device(path, _) = self else { return Ok(()) };
        match nandex::nand::is_blank(nand) {
            Ok(true) => Ok(()),
            Ok(false) => {
                let why = "something is there; allow it with overwrite=True";
                Err(RequestError::new_err(format!("{}: {why}", path.display())))
            }
            Err(error) => Err(of_index(&IndexError::from(error))),
        }
    }

    /// Writes the image, if there is one.
    pub(crate) fn save(&mut self) -> PyResult<()> {
        let Place::Sim(chip, Some(image)) = self else { return Ok(()) };
        image.save(&chip.lock())
    }
}

#[cfg(unix)]
fn open(path: &Path, page_bytes: usize) -> PyResult<Box<dyn Nand>> {
    use std::os::unix::fs::FileTypeExt;
    let failed = |error: String| StorageError::new_err(error);
    let kind = std::fs::metadata(path).map_err(|e| failed(format!("{}: {e}", path.display())))?.file_type();
    if kind.is_char_device() {
        return open_mtd(path);
    }
    let chip = nandex_os::open_chip(path, page_bytes, nandex_os::Access::Change);
    Ok(Box::new(chip.map_err(|error| of_index(&IndexError::from(error)))?))
}

#[cfg(not(unix))]
fn open(path: &Path, _: usize) -> PyResult<Box<dyn Nand>> {
    let why = "devices are supported on Unix systems only";
    Err(RequestError::new_err(format!("{}: {why}", path.display())))
}

#[cfg(target_os = "linux")]
fn open_mtd(path: &Path) -> PyResult<Box<dyn Nand>> {
    use nandex_mtd::{Mtd, MtdError, MtdOptions};
    let chip = Mtd::open(path, MtdOptions { writable: true, spare: None });
    Ok(Box::new(chip.map_err(|error| match error {
        MtdError::InUse(words) => InUseError::new_err(words),
        other => StorageError::new_err(other.to_string()),
    })?))
}

#[cfg(all(unix, not(target_os = "linux")))]
fn open_mtd(path: &Path) -> PyResult<Box<dyn Nand>> {
    let why = "MTD devices are supported on Linux only";
    Err(RequestError::new_err(format!("{}: {why}", path.display())))
}

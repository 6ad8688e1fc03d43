//! The chip below an index: simulated, in an image of one, or real.

use crate::errors::{RequestError, StorageError, of_index, of_lab};
use nandex::nand::sim::SimChip;
use nandex::{IndexError, Nand, Shared};
use nandex_lab::chip;
use pyo3::prelude::*;
use std::path::{Path, PathBuf};

/// Whatever an index stands on, which outlives it: a mount takes the chip again.
pub(crate) enum Place {
    /// A simulated chip, with the file that it is kept in, if any.
    Sim(Shared<SimChip>, Option<PathBuf>),
    /// A device or a file of pages of so many bytes.
    Device(PathBuf, usize),
}

impl Place {
    /// A fresh simulated chip.
    pub(crate) fn fresh(name: &str, blocks: Option<u32>, image: Option<PathBuf>) -> PyResult<Place> {
        let mut part = chip::find(name).map_err(of_lab)?;
        if let Some(blocks) = blocks {
            part = part.with_blocks(blocks);
        }
        let chip = SimChip::new(&part).map_err(|error| RequestError::new_err(error.to_string()))?;
        Ok(Place::Sim(Shared::new(chip), image))
    }

    /// The simulated chip in this file.
    pub(crate) fn image(path: PathBuf) -> PyResult<Place> {
        Ok(Place::Sim(Shared::new(chip::load_image(&path).map_err(of_lab)?), Some(path)))
    }

    /// The simulated chip, where it is one.
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

    /// Refuses to format what holds something.
    pub(crate) fn require_empty(&self) -> PyResult<()> {
        let Place::Device(path, _) = self else { return Ok(()) };
        let mut nand = self.nand()?;
        match nandex_mtd::is_used(&mut *nand) {
            Ok(false) => Ok(()),
            Ok(true) => {
                let why = "something is there; allow it with overwrite=True";
                Err(RequestError::new_err(format!("{}: {why}", path.display())))
            }
            Err(error) => Err(of_index(&IndexError::from(error))),
        }
    }

    /// Writes the image, where there is one: beside and then renamed, so that the file is always whole.
    pub(crate) fn save(&self) -> PyResult<()> {
        let Place::Sim(chip, Some(path)) = self else { return Ok(()) };
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        name.push(format!(".{}.part", std::process::id()));
        let beside = path.with_file_name(name);
        chip::save_image(&beside, &chip.lock()).map_err(of_lab)?;
        std::fs::rename(&beside, path)
            .map_err(|error| StorageError::new_err(format!("{}: {error}", path.display())))
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
    use nandex_mtd::{Mtd, MtdOptions};
    let chip = Mtd::open(path, MtdOptions { writable: true });
    Ok(Box::new(chip.map_err(|error| StorageError::new_err(error.to_string()))?))
}

#[cfg(all(unix, not(target_os = "linux")))]
fn open_mtd(path: &Path) -> PyResult<Box<dyn Nand>> {
    let why = "MTD devices are supported on Linux only";
    Err(RequestError::new_err(format!("{}: {why}", path.display())))
}

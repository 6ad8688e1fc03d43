//! The chip of a command: an MTD device, pages in a file or on a block device, or a dump.

use crate::commands::volume;
use crate::device_args::Place;
use anyhow::{Context, Result, anyhow};
use nandex::{IndexError, Nand};
use nandex_lab::LabError;
use nandex_mtd::{Counts, Events, RawDump, Unchanged, range};
use std::fs::{self, File};
use std::io;
use std::path::Path;

/// The access of a command to the chip.
#[derive(Clone, Copy)]
pub(super) enum Access<'a> {
    /// The command only reads.
    Look,
    /// The command writes; a dump is changed in a copy.
    Change {
        /// The file of the copy, for a dump.
        copy: Option<&'a Path>,
    },
}

/// An open chip, until an index takes it.
pub(crate) struct Opened {
    nand: Option<Box<dyn Nand>>,
    pub(crate) name: String,
    /// Whether the chip is an image made by SQLite's VFS.
    pub(crate) is_image: bool,
    events: Option<Events>,
}

impl Opened {
    pub(super) fn nand(&mut self) -> Result<&mut dyn Nand> {
        Ok(&mut **self.nand.as_mut().context("the chip was taken")?)
    }

    /// Hands the chip over to an index.
    pub(crate) fn take(&mut self) -> Result<Box<dyn Nand>> {
        self.nand.take().context("the chip was taken")
    }

    /// The error of the index, with the last error of the device if there is one.
    pub(super) fn explain(&self, error: IndexError) -> anyhow::Error {
        let fault = self.events.as_ref().and_then(|events| events.counts().last_fault);
        match fault {
            Some(fault) => anyhow!("{error} (the device failed last: {fault})"),
            None => anyhow!("{}: {error}", self.name),
        }
    }

    /// The device's counts as rows of a table.
    pub(super) fn rows(&self) -> Vec<(String, String)> {
        let Some(events) = &self.events else { return Vec::new() };
        let Counts {
            reads,
            programs,
            erases,
            corrected_reads,
            corrected_bits,
            uncorrectable_reads,
            last_fault,
            ..
        } = events.counts();
        let counts = [
            ("pages read", reads),
            ("pages programmed", programs),
            ("blocks erased", erases),
            ("reads corrected", corrected_reads),
            ("bits corrected", corrected_bits),
            ("reads uncorrectable", uncorrectable_reads),
        ];
        let mut rows: Vec<(String, String)> =
            counts.iter().map(|(name, count)| ((*name).to_string(), count.to_string())).collect();
        rows.extend(last_fault.map(|fault| ("last fault".to_string(), fault.to_string())));
        rows
    }
}

/// Opens the chip of a place. If the command only reads, the chip is wrapped so that it refuses changes.
pub(super) fn open(place: &Place, access: Access<'_>) -> Result<Opened> {
    let image = place.device.as_deref().filter(|path| path.exists() && !is_character_device(path));
    let image = match image {
        Some(path) => open_image(path, access)?,
        None => None,
    };
    let is_image = image.is_some();
    let (nand, name, events) = match (image, &place.device, &place.image) {
        (Some(image), ..) => image,
        (_, Some(path), _) => open_device(place, path, access)?,
        (_, None, Some(path)) => open_dump(place, path, access)?,
        (_, None, None) => return Err(anyhow!("give --device or --image")),
    };
    let nand: Box<dyn Nand> =
        match place.part.blocks {
            Some((first, end)) => {
                let part = range(nand, &name, (first, end - first));
                Box::new(part.map_err(|e| {
                    LabError::bad_option("--blocks", &format!("{first}..{end}"), e.to_string())
                })?)
            }
            None => nand,
        };
    let nand: Box<dyn Nand> = match access {
        Access::Look => Box::new(Unchanged::new(nand)),
        Access::Change { .. } => nand,
    };
    Ok(Opened { nand: Some(nand), name, is_image, events })
}

type Found = (Box<dyn Nand>, String, Option<Events>);

/// Opens the chip in an image made by SQLite's VFS. Only SQLite may change such an image.
fn open_image(path: &Path, access: Access<'_>) -> Result<Option<Found>> {
    let name = path.display().to_string();
    let Some(chip) = volume::chip_of_image(path)? else { return Ok(None) };
    if matches!(access, Access::Change { .. }) {
        let why = "it is an image with SQLite databases, which are changed by SQLite alone";
        return Err(LabError::bad_option("--device", &name, why).into());
    }
    Ok(Some((chip, name, None)))
}

fn open_dump(place: &Place, path: &Path, access: Access<'_>) -> Result<Found> {
    let (Some(raw), Some(layout)) = (place.geometry, place.spare.clone()) else {
        return Err(anyhow!("a dump needs --geometry and --spare"));
    };
    let name = path.display().to_string();
    let dump = match access {
        Access::Look => RawDump::open(path, raw, layout)?,
        Access::Change { copy: None } => {
            let why =
                "a dump is not changed: name a new file with --copy, which becomes a copy and is changed";
            return Err(LabError::bad_option("--image", &name, why).into());
        }
        Access::Change { copy: Some(copy) } => {
            // What cannot be opened should leave no copy behind.
            drop(RawDump::open(path, raw, layout.clone())?);
            copy_new(path, copy)?;
            RawDump::edit(copy, raw, layout)?
        }
    };
    let events = dump.events();
    Ok((Box::new(dump), name, Some(events)))
}

/// Copies a file to a new one; an existing file is refused.
fn copy_new(from: &Path, to: &Path) -> Result<(), LabError> {
    let made = File::create_new(to);
    if made.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::AlreadyExists) {
        return Err(LabError::bad_option("--copy", &to.display().to_string(), "the file is there already"));
    }
    made.and_then(|_| fs::copy(from, to)).map(drop).map_err(|e| LabError::io(to.display(), e))
}

fn open_device(place: &Place, path: &Path, access: Access<'_>) -> Result<Found> {
    if is_character_device(path) {
        return open_mtd(place, path, access);
    }
    if let Some(spare) = &place.spare {
        let why = "a file or block device has no out-of-band area: the flag is for MTD devices and dumps";
        return Err(LabError::bad_option("--spare", &spare.to_string(), why).into());
    }
    open_file(place.page, path, access)
}

#[cfg(unix)]
fn is_character_device(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_char_device())
}

#[cfg(not(unix))]
fn is_character_device(_: &Path) -> bool {
    false
}

#[cfg(target_os = "linux")]
fn open_mtd(place: &Place, path: &Path, access: Access<'_>) -> Result<Found> {
    use nandex_mtd::{Mtd, MtdOptions};
    let writable = matches!(access, Access::Change { .. });
    let chip = Mtd::open(path, MtdOptions { writable, spare: place.spare.clone() })?;
    let (name, events) = (chip.name().to_string(), chip.events());
    Ok((Box::new(chip), name, Some(events)))
}

#[cfg(not(target_os = "linux"))]
fn open_mtd(_: &Place, path: &Path, _: Access<'_>) -> Result<Found> {
    Err(anyhow!("{}: MTD devices are supported on Linux only", path.display()))
}

#[cfg(unix)]
fn open_file(page_bytes: usize, path: &Path, access: Access<'_>) -> Result<Found> {
    use nandex_os::Access as Of;
    if !path.exists() {
        let why = "is not there; make a file of its size first (truncate -s 64M FILE)";
        return Err(LabError::bad_option("--device", &path.display().to_string(), why).into());
    }
    let of = if matches!(access, Access::Look) { Of::Look } else { Of::Change };
    let chip = nandex_os::open_chip(path, page_bytes, of)?;
    Ok((Box::new(chip), path.display().to_string(), None))
}

#[cfg(not(unix))]
fn open_file(_: usize, path: &Path, _: Access<'_>) -> Result<Found> {
    Err(anyhow!("{}: files are supported on Unix systems only", path.display()))
}

//! `nandex inspect`: tells from its bytes which index is on a chip.

use super::device;
use super::volume::{self, Seen};
use crate::Status;
use crate::device_args::{Part, Place};
use crate::look_args::Inspect;
use crate::output;
use anyhow::{Result, bail};
use nandex::Nand;
use nandex::nand::sim::SimChip;
use nandex::ordered::RecordFormat;
use nandex_lab::{LabError, chip};
use nandex_look::decode::Family;
use nandex_look::detect::{Detected, detect};
use nandex_look::inspect::Inspection;
use nandex_mtd::Unchanged;
use nandex_os::{Access, Lock, LockError};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The first bytes of a compressed image and of an uncompressed one.
const MARKS: [&[u8]; 2] = [&[0x28, 0xb5, 0x2f, 0xfd], b"NANDEXCH"];

/// Record sizes for detection if nothing tells them.
const GUESS: RecordFormat = RecordFormat::new(4, 4);

fn is_image(path: &Path) -> bool {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(8).read_to_end(&mut bytes));
    read.is_ok() && MARKS.iter().any(|mark| bytes.starts_with(mark))
}

/// Opens the simulated chip in a file, which is locked against changes while it is read.
pub(super) fn image(path: &Path) -> Result<SimChip> {
    // A path that is no file is told as any other that cannot be read.
    let lock = Lock::take(path, Access::Look);
    if let Err(LockError::InUse(who)) = lock {
        bail!(who);
    }
    Ok(chip::load_image(path)?)
}

struct Opened {
    chip: Box<dyn Nand>,
    name: String,
    /// Whether the chip is an image made by SQLite's VFS.
    is_image: bool,
    /// Number of erases of each block, if the chip tells them.
    wear: Option<Vec<u32>>,
}

fn open(args: &Inspect) -> Result<Opened> {
    let is_dump = args.geometry.is_some();
    if !is_dump && args.place.is_file() && is_image(&args.place) {
        let chip = image(&args.place)?;
        let name = format!("{} (chip {})", args.place.display(), chip.part().name);
        let wear = Some(chip.wear().to_vec());
        return Ok(Opened { chip: Box::new(chip), name, is_image: false, wear });
    }
    let path = Some(args.place.clone());
    let place = Place {
        device: path.clone().filter(|_| !is_dump),
        image: path.filter(|_| is_dump),
        geometry: args.geometry,
        spare: args.spare.clone(),
        part: Part { blocks: args.blocks },
        page: args.page_bytes,
    };
    let mut opened = device::to_look_at(&place)?;
    Ok(Opened { chip: opened.take()?, name: opened.name, is_image: opened.is_image, wear: None })
}

/// The kind of contents that the user names, or else the detected one.
fn found(args: &Inspect, chip: &mut dyn Nand) -> Result<Option<Detected>> {
    let guess = args.record.unwrap_or(GUESS);
    let detected = detect(chip, guess)?;
    let Some(index) = args.index else { return Ok(detected) };
    let family = Family::of_index(index.name);
    let told = detected.filter(|found| found.family == family);
    Ok(Some(told.unwrap_or(Detected::new(family, guess, false))))
}

pub(crate) fn run(args: &Inspect) -> Result<Status> {
    if !args.place.exists() {
        let why = "is not there";
        return Err(LabError::bad_option("IMAGE|DEVICE", &args.place.display().to_string(), why).into());
    }
    let Opened { mut chip, name, is_image, wear } = open(args)?;
    let detected = match found(args, &mut *chip)? {
        Some(detected) => detected,
        // The logical pages of its FTL cannot be found any more.
        None if is_image => Detected::new(Family::Ftl, GUESS, false),
        None => {
            bail!("{name}: nothing on it is of a format that is known here; name what wrote it with --index")
        }
    };
    let mut inspection = Inspection::of(&mut *chip, &name, detected)?;
    inspection.wear = wear;
    let bad = |flag: &str, value: u32, why: String| LabError::bad_option(flag, &value.to_string(), why);
    let text = match (args.page, args.block, args.json) {
        (Some(page), _, true) => {
            let told = inspection.page_json(&mut *chip, page).map_err(|why| bad("--page", page, why))?;
            serde_json::to_string_pretty(&told)? + "\n"
        }
        (Some(page), _, false) => {
            inspection.page(&mut *chip, page).map_err(|why| bad("--page", page, why))?
        }
        (None, Some(block), _) => inspection.block(block).map_err(|why| bad("--block", block, why))?,
        (None, None, is_json) => {
            let seen = (detected.is_volume || is_image).then(|| volume::look(Box::new(Unchanged::new(chip))));
            output::print(&whole(inspection, seen.as_ref(), is_json)?)?;
            return Ok(seen.map_or(Status::Done, |seen| seen.status()));
        }
    };
    output::print(&text)?;
    Ok(Status::Done)
}

/// The inspection as text or JSON, with the volume on the chip.
fn whole(mut inspection: Inspection, seen: Option<&Seen>, is_json: bool) -> Result<String> {
    if !is_json {
        inspection.volume = seen.map(|seen| seen.text.clone());
        return Ok(inspection.summary());
    }
    let mut json = inspection.json();
    if let Some(seen) = seen {
        json["volume"] = seen.json.clone();
    }
    Ok(serde_json::to_string_pretty(&json)? + "\n")
}

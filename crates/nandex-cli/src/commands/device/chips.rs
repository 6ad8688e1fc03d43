//! Commands on devices without an index: describe a device, dump it, and restore a dump.

use super::place::{self, Access};
use crate::Status;
use crate::commands::volume;
use crate::device_args::{Dump, Place, Restore};
use crate::output;
use anyhow::Result;
use nandex::nand::is_blank;
use nandex::ordered::RecordFormat;
use nandex::{Nand, Pbn};
use nandex_look::detect::detect;
use std::fmt::Write as _;

pub(super) fn info(place: &Place) -> Result<Status> {
    let mut device = place::open(place, Access::Look)?;
    let mut text = format!("{}\n", device.name);
    text += &mtd_facts(place)?;
    let user = if device.is_image { "an image of SQLite's VFS" } else { "for an index" };
    let is_image = device.is_image;
    let mut chip = device.take()?;
    let geometry = chip.geometry();
    let _ = writeln!(
        text,
        "{user}: pages of {} bytes with {} spare bytes, {} pages a block, {} blocks, {} MiB",
        geometry.page_bytes,
        geometry.spare_bytes,
        geometry.pages_per_block,
        geometry.blocks,
        geometry.data_bytes() >> 20
    );
    let mut bad = Vec::new();
    for block in 0..geometry.blocks {
        if chip.is_bad(Pbn(block))? {
            bad.push(block.to_string());
        }
    }
    let _ = match bad.len() {
        0 => writeln!(text, "no bad blocks"),
        n => writeln!(text, "{n} bad blocks: {}", bad.join(", ")),
    };
    let (words, is_volume) = contents(&mut *chip)?;
    let _ = writeln!(text, "{words}");
    let seen = (is_volume || is_image).then(|| volume::look(chip));
    text += seen.as_ref().map_or("", |seen| &seen.text);
    output::print(&text)?;
    Ok(seen.map_or(Status::Done, |seen| seen.status()))
}

/// Record sizes for detection if nothing tells them; they are not shown.
const GUESS: RecordFormat = RecordFormat::new(4, 4);

/// The contents of a chip in words, and whether they are a volume of SQLite databases.
fn contents(mut chip: &mut dyn Nand) -> Result<(String, bool)> {
    if is_blank(&mut chip)? {
        return Ok((String::from("blank"), false));
    }
    let Some(found) = detect(chip, GUESS)? else {
        return Ok((String::from("there is something on it, of no format that is known here"), false));
    };
    let sizes = match found.record {
        RecordFormat { key_bytes, value_bytes } if found.is_sure => {
            format!(", records of {key_bytes}+{value_bytes} bytes")
        }
        _ => String::new(),
    };
    Ok((format!("on it: {}{sizes}", found.words()), found.is_volume))
}

#[cfg(target_os = "linux")]
mod linux {
    use super::*;
    use anyhow::Context;
    use nandex_lab::LabError;
    use nandex_mtd::{Device, MtdIo, OobMode, RawDump, transfer};
    use std::fs::File;
    use std::io::{self, BufWriter, Write};
    use std::path::Path;

    /// The facts that an MTD device reports; empty for other places.
    pub(in super::super) fn mtd_facts(place: &Place) -> Result<String> {
        use std::os::unix::fs::FileTypeExt;
        let is_mtd = |path: &&std::path::PathBuf| {
            std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_char_device())
        };
        let Some(path) = place.device.as_ref().filter(is_mtd) else { return Ok(String::new()) };
        let mut device = Device::open(path, false)?;
        let totals = device.ecc_totals().map_err(io::Error::from).context("the totals of the ECC")?;
        let facts = device.facts();
        Ok(format!(
            "MTD '{}', {} blocks; the ECC corrects {} bits a step\n\
             since the driver was loaded: {} bits corrected, {} steps uncorrectable\n\
             a dump of it: --geometry {} --spare {}\n",
            facts.name,
            facts.blocks,
            facts.ecc_strength,
            totals.corrected,
            totals.uncorrectable,
            facts.raw,
            facts.layout
        ))
    }

    pub(in super::super) fn dump(args: &Dump) -> Result<Status> {
        let mut device = Device::open(&args.device, false)?;
        let (first, end) = args.blocks.unwrap_or((0, device.facts().blocks));
        let file = match File::create_new(&args.file) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                let name = args.file.display().to_string();
                return Err(LabError::bad_option("FILE", &name, "the file is there already").into());
            }
            made => made.map_err(|e| LabError::io(args.file.display(), e))?,
        };
        let mut out = BufWriter::new(file);
        let name = args.device.display().to_string();
        let report = transfer::dump(&mut device, &name, (first, end - first), &mut out)?;
        out.flush()
            .and_then(|()| out.get_ref().sync_all())
            .map_err(|e| LabError::io(args.file.display(), e))?;
        let facts = device.facts();
        output::print(&format!(
            "{} blocks, {} of them bad; {} pages corrected, {} uncorrectable\nopen it with --image {} --geometry {} --spare {}\n",
            report.blocks,
            report.bad_blocks,
            report.corrected_pages,
            report.uncorrectable_pages,
            args.file.display(),
            facts.raw,
            facts.layout
        ))?;
        Ok(Status::Done)
    }

    pub(in super::super) fn restore(args: &Restore) -> Result<Status> {
        let mut dump = RawDump::open(&args.image, args.geometry, args.spare.clone())?;
        let mut device = Device::open(&args.device, true)?;
        let name = args.device.display().to_string();
        if !args.overwrite && is_used(&mut device, &args.device)? {
            let why = "something is there; allow it with --overwrite";
            return Err(LabError::bad_option("--device", &name, why).into());
        }
        let report = transfer::restore(&mut dump, &mut device, &name, args.first)?;
        output::print(&format!(
            "{} blocks erased, {} pages programmed and read back, {} blocks bad here or there\n",
            report.blocks, report.pages, report.skipped
        ))?;
        Ok(Status::Done)
    }

    /// Whether the first page of any block is programmed.
    fn is_used(device: &mut Device, path: &Path) -> Result<bool> {
        let (raw, blocks) = (device.facts().raw, device.facts().blocks);
        let mut page = vec![0; raw.page_bytes as usize];
        for at in (0..u64::from(blocks)).map(|block| block * raw.block_bytes()) {
            let is_bad =
                device.is_bad(at).map_err(io::Error::from).with_context(|| path.display().to_string())?;
            let _ = device.read(at, OobMode::Auto, (&mut page, &mut []));
            if !is_bad && page.iter().any(|byte| *byte != 0xff) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[cfg(target_os = "linux")]
pub(super) use linux::{dump, mtd_facts, restore};

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use super::*;
    use anyhow::bail;

    pub(in super::super) fn mtd_facts(_: &Place) -> Result<String> {
        Ok(String::new())
    }

    pub(in super::super) fn dump(args: &Dump) -> Result<Status> {
        bail!("{}: MTD devices are supported on Linux only", args.device.display())
    }

    pub(in super::super) fn restore(args: &Restore) -> Result<Status> {
        bail!("{}: MTD devices are supported on Linux only", args.device.display())
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) use elsewhere::{dump, mtd_facts, restore};

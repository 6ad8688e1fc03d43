//! A chip behind an MTD device of Linux.

use super::counted::{Counted, OnProgress};
use super::{Device, finish};
use crate::settings::VolumeConfig;
use crate::volume::Volume;
use nandex::StoreError;
use nandex::ftl::SPARE_BYTES;
use nandex::ftl::page_map::{FtlConfig, PageMapFtl};
use nandex::nand::{LentSpare, Nand, is_blank};
use nandex_mtd::{Mtd, MtdError, MtdOptions};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Whether the path is a character device, as MTD devices are.
pub(super) fn is_one(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.file_type().is_char_device())
}

/// Opens the volume on an MTD device. If all blocks are erased, one is formatted.
pub(super) fn open(
    device: &Device,
    ftl: FtlConfig,
    settings: VolumeConfig,
    told: &OnProgress,
) -> Result<Volume, StoreError> {
    let refused = |why: &dyn std::fmt::Display| StoreError::Device(format!("{}: {why}", device.name));
    let path = Path::new(&device.name);
    let chip = Mtd::open(path, MtdOptions { writable: true, spare: None }).map_err(|error| match error {
        MtdError::InUse(what) => StoreError::InUse(what),
        other => refused(&other),
    })?;
    let geometry = chip.geometry();
    device.stated.require(&device.name, geometry, None)?;
    let events = chip.events();
    let mut chip = Counted::new(LentSpare::new(chip, SPARE_BYTES as u32), told);
    let counts = chip.counts();
    let opened = (|| {
        let is_new = device.create && is_blank(&mut chip)?;
        let store = if is_new { PageMapFtl::format(chip, &ftl)? } else { PageMapFtl::mount(chip, &ftl)? };
        Volume::open(store, settings)
    })();
    match opened {
        Ok(volume) => finish(volume, geometry, counts),
        // The driver knows block, page and the system's words.
        Err(error) => Err(match events.counts().last_fault {
            Some(fault) => refused(&format!("{error} (the device failed last: {fault})")),
            None => error,
        }),
    }
}

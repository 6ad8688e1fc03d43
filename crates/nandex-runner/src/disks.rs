//! The hard disks that flash is held against, by name.

use crate::error::LabError;
use crate::names;
use nandex::store::disk::DiskModel;

/// A hard disk that is modelled.
#[derive(Debug)]
pub struct DiskEntry {
    /// The name on the command line and in results.
    pub name: &'static str,
    /// A description in one line.
    pub summary: &'static str,
    model: DiskModel,
}

impl DiskEntry {
    /// The model of its times.
    pub(crate) fn model(&self) -> DiskModel {
        self.model
    }
}

/// All disks.
pub static DISKS: &[DiskEntry] = &[
    DiskEntry {
        name: "disk",
        summary: "Barracuda 7200.7: seek by distance, rotation, transfer; full of the pages of the store",
        model: DiskModel::BARRACUDA,
    },
    DiskEntry {
        name: "disk-flat",
        summary: "12.4 ms for each sector of 512 bytes, as the study of access times measured it",
        model: DiskModel::FLAT_SECTOR,
    },
    DiskEntry {
        name: "disk-page",
        summary: "12.7 ms to read a page, 13.7 ms to write one, as the lazy-update paper has it",
        model: DiskModel::FLAT_PAGE,
    },
];

/// The disk of this name.
pub fn disk(name: &str) -> Result<&'static DiskEntry, LabError> {
    Ok(names::find("disk", name, DISKS, |d| d.name)?)
}

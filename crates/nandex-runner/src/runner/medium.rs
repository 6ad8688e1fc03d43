//! The medium below an index that is measured: a new simulated chip, or a disk, with a stopwatch and
//! counters.

use super::chip::TimedChip;
use super::meter::Reading;
use super::pattern::PatternChip;
use super::{Failure, RunOptions};
use crate::disks::DiskEntry;
use crate::registry::Ground;
use crate::results::PatternCounts;
use nandex::Shared;
use nandex::nand::sim::SimChip;
use nandex::nand::{Nand, Part};
use nandex::store::disk::DiskStore;

/// The medium that an index is measured on.
#[derive(Clone, Copy, Debug)]
pub enum Medium<'a> {
    /// A new simulated chip.
    Chip(&'a Part),
    /// A simulated hard disk with the page size and the number of pages of the part.
    Disk(&'static DiskEntry, &'a Part),
}

impl<'a> Medium<'a> {
    pub(crate) fn part(&self) -> &'a Part {
        let (Medium::Chip(part) | Medium::Disk(_, part)) = self;
        part
    }

    /// Makes the medium. Returns one handle for the run and one for the index.
    pub(crate) fn open(&self, options: &RunOptions) -> Result<(Device, Ground), Failure> {
        match *self {
            Medium::Chip(part) => new_chip(part, options).map(|(device, nand)| (device, Ground::Chip(nand))),
            Medium::Disk(disk, part) => {
                let (page_bytes, pages) = (part.geometry.page_bytes as usize, part.geometry.pages());
                let disk = Shared::new(DiskStore::new(page_bytes, pages, disk.model()));
                let what = What::Disk(disk.clone());
                let device = Device { what, spent_ns: Shared::new(0), patterns: None };
                Ok((device, Ground::Disk(Box::new(disk))))
            }
        }
    }
}

/// Makes a new chip. Returns one handle for the run and one for the index.
pub(crate) fn new_chip(part: &Part, options: &RunOptions) -> Result<(Device, Box<dyn Nand>), Failure> {
    let chip = Shared::new(SimChip::new(part).map_err(|e| Failure::Refused(e.to_string()))?);
    let spent_ns = Shared::new(0);
    let mut nand: Box<dyn Nand> = Box::new(chip.clone());
    if options.cpu_time {
        nand = Box::new(TimedChip::new(chip.clone(), spent_ns.clone()));
    }
    let patterns = options.patterns.then(Shared::default);
    if let Some(counts) = &patterns {
        nand = Box::new(PatternChip::new(nand, counts.clone()));
    }
    Ok((Device { what: What::Chip(chip), spent_ns, patterns }, nand))
}

enum What {
    Chip(Shared<SimChip>),
    Disk(Shared<DiskStore>),
}

pub(crate) struct Device {
    what: What,
    /// Time spent simulating the chip, in ns.
    spent_ns: Shared<u64>,
    /// Patterns of programs and reads; `None` if they are not counted.
    patterns: Option<Shared<PatternCounts>>,
}

impl Device {
    pub(crate) fn reading(&self) -> Reading {
        match &self.what {
            What::Chip(chip) => Reading::of(&chip.lock()),
            What::Disk(disk) => Reading::of_disk(&disk.lock()),
        }
    }

    pub(crate) fn chip(&self) -> Option<Shared<SimChip>> {
        match &self.what {
            What::Chip(chip) => Some(chip.clone()),
            What::Disk(_) => None,
        }
    }

    /// Number of erases of each block; empty for a disk.
    pub(crate) fn wear(&self) -> Vec<u32> {
        match &self.what {
            What::Chip(chip) => chip.lock().wear().to_vec(),
            What::Disk(_) => Vec::new(),
        }
    }

    /// Time spent simulating the medium, in ns.
    pub(crate) fn spent_ns(&self) -> u64 {
        *self.spent_ns.lock()
    }

    pub(crate) fn patterns(&self) -> Option<PatternCounts> {
        self.patterns.as_ref().map(|counts| *counts.lock())
    }
}

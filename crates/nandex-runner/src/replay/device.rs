//! The devices that a trace can be replayed on, and how their time is told.

use super::Replay;
use crate::disks::DiskEntry;
use crate::names::OptionInfo;
use crate::registry::StoreEntry;
use crate::tbm::Division;
use nandex::Shared;
use nandex::nand::sim::SimChip;
use nandex::ordered::RecordFormat;
use nandex::store::disk::DiskStore;
use nandex::{Geometry, Nanos, PageStore};
use nandex_stacks::options::{Options, Settings};
use std::time::Instant;

/// Makes a store of so many pages of so many bytes, and tells in words what must be known about it.
pub type OpenOwn = Box<dyn Fn(usize, u32) -> Result<(Box<dyn PageStore>, Vec<String>), String> + Send + Sync>;

/// Something that a trace is replayed on.
pub enum Device {
    /// An FTL on the simulated chip.
    Ftl(&'static StoreEntry),
    /// A device under a name of its own, with options of its own that go before those of the replay.
    Tuned {
        /// The device's name in results.
        name: String,
        /// The FTL.
        entry: &'static StoreEntry,
        /// The device's own options.
        options: Options,
    },
    /// A disk.
    Disk(&'static DiskEntry),
    /// A store of one's own on real hardware, timed by the wall clock.
    Own {
        /// The device's name in results.
        name: String,
        /// Makes it.
        open: OpenOwn,
    },
}

/// Where the time of a device is read.
pub enum Clock {
    /// The simulated chip.
    Chip(Shared<SimChip>),
    /// The simulated disk.
    Disk(Shared<DiskStore>),
    /// The wall clock, since then.
    Wall(Instant),
}

/// A device ready for work.
pub struct Opened {
    /// The pages of the device.
    pub store: Box<dyn PageStore>,
    /// The clock of the device.
    pub clock: Clock,
    /// The notes that readers of the device's figures need.
    pub notes: Vec<String>,
}

impl Device {
    /// The device's name in results.
    pub fn name(&self) -> &str {
        match self {
            Device::Ftl(entry) => entry.name,
            Device::Disk(entry) => entry.name,
            Device::Tuned { name, .. } | Device::Own { name, .. } => name,
        }
    }

    /// Whether its time is real, so that nothing else should run beside it.
    pub fn is_timed_by_wall_clock(&self) -> bool {
        matches!(self, Device::Own { .. })
    }

    /// The device's FTL, where it has one.
    pub(super) fn ftl(&self) -> Option<&'static StoreEntry> {
        match self {
            Device::Ftl(entry) | Device::Tuned { entry, .. } => Some(entry),
            Device::Disk(_) | Device::Own { .. } => None,
        }
    }

    /// The options it understands.
    pub(super) fn options(&self) -> &'static [OptionInfo] {
        self.ftl().map_or(&[], |entry| entry.options)
    }

    /// These options with the device's own.
    pub(super) fn with_own(&self, options: &Options) -> Options {
        let mut all = options.clone();
        if let Device::Tuned { options: own, .. } = self {
            own.iter().for_each(|(name, value)| all.set(name, value));
        }
        all
    }

    /// How it divides a chip, where a TBM is in front of its FTL.
    pub(super) fn division(&self, options: &Options, chip: Geometry) -> Option<Division> {
        Division::of(self.ftl()?, options, chip)
    }

    /// Makes it anew. So many pages are wanted where the device does not decide that itself.
    pub(super) fn open(&self, replay: &Replay, options: &Options, pages: u32) -> Result<Opened, String> {
        let page_bytes = replay.part.geometry.page_bytes as usize;
        match self {
            Device::Ftl(entry) | Device::Tuned { entry, .. } => open_ftl(entry, replay, options),
            Device::Disk(entry) => {
                let disk = Shared::new(DiskStore::new(page_bytes, pages, entry.model()));
                let notes = vec![format!("{}: {}", entry.name, entry.summary)];
                Ok(Opened { store: Box::new(disk.clone()), clock: Clock::Disk(disk), notes })
            }
            Device::Own { open, .. } => {
                let (store, notes) = open(page_bytes, pages)?;
                Ok(Opened { store, clock: Clock::Wall(Instant::now()), notes })
            }
        }
    }
}

/// An FTL on a chip of its own.
fn open_ftl(entry: &StoreEntry, replay: &Replay, options: &Options) -> Result<Opened, String> {
    let chip = SimChip::new(&replay.part).map_err(|e| e.to_string())?;
    let chip = Shared::new(chip);
    let settings = Settings {
        ram_bytes: replay.ram_bytes,
        options: options.clone(),
        ..Settings::new(RecordFormat::new(8, 8))
    };
    let store = (entry.format)(Box::new(chip.clone()), &settings).map_err(|e| e.to_string())?;
    Ok(Opened { store, clock: Clock::Chip(chip), notes: Vec::new() })
}

impl Clock {
    /// The time, in ns.
    pub fn now_ns(&self) -> u64 {
        match self {
            Clock::Chip(chip) => chip.lock().time().0,
            Clock::Disk(disk) => disk.lock().time().0,
            Clock::Wall(start) => u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX),
        }
    }

    /// The device has nothing to do until then. Only a disk cares, which goes on turning.
    pub(super) fn idle_until(&self, time_ns: u64) {
        if let Clock::Disk(disk) = self {
            disk.lock().idle_until(Nanos(time_ns));
        }
    }

    /// The name of the kind of time.
    pub fn name(&self) -> &'static str {
        match self {
            Clock::Chip(_) | Clock::Disk(_) => "simulated",
            Clock::Wall(_) => "wall clock",
        }
    }

    /// The chip, where there is one.
    pub fn chip(&self) -> Option<&Shared<SimChip>> {
        if let Clock::Chip(chip) = self { Some(chip) } else { None }
    }
}

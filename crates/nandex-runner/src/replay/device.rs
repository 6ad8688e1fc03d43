//! The devices on which a trace can be replayed, and the clock of each.

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

/// Makes a store with a number of pages and a page size in bytes. Also returns notes for readers of the
/// results.
pub type OpenOwn = Box<dyn Fn(usize, u32) -> Result<(Box<dyn PageStore>, Vec<String>), String> + Send + Sync>;

/// A device that a trace is replayed on.
pub enum Device {
    /// An FTL on the simulated chip.
    Ftl(&'static StoreEntry),
    /// An FTL under a name of its own. Its options override those of the replay.
    Tuned {
        /// The device's name in results.
        name: String,
        /// The FTL.
        entry: &'static StoreEntry,
        /// The device's own options.
        options: Options,
    },
    /// A simulated disk.
    Disk(&'static DiskEntry),
    /// A store of the user on real hardware, timed by the wall clock.
    Own {
        /// The device's name in results.
        name: String,
        /// Makes the store.
        open: OpenOwn,
    },
}

/// The clock of a device.
pub enum Clock {
    /// The time of the simulated chip.
    Chip(Shared<SimChip>),
    /// The time of the simulated disk.
    Disk(Shared<DiskStore>),
    /// The wall clock, counted from this moment.
    Wall(Instant),
}

/// A device that is open.
pub struct Opened {
    /// The pages of the device.
    pub store: Box<dyn PageStore>,
    /// The clock of the device.
    pub clock: Clock,
    /// Notes that readers of the device's figures need.
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

    /// True if the device runs in real time, so that nothing else should run at the same time.
    pub fn is_timed_by_wall_clock(&self) -> bool {
        matches!(self, Device::Own { .. })
    }

    pub(super) fn ftl(&self) -> Option<&'static StoreEntry> {
        match self {
            Device::Ftl(entry) | Device::Tuned { entry, .. } => Some(entry),
            Device::Disk(_) | Device::Own { .. } => None,
        }
    }

    pub(super) fn options(&self) -> &'static [OptionInfo] {
        self.ftl().map_or(&[], |entry| entry.options)
    }

    /// The given options, overridden by the device's own.
    pub(super) fn with_own(&self, options: &Options) -> Options {
        let mut all = options.clone();
        if let Device::Tuned { options: own, .. } = self {
            own.iter().for_each(|(name, value)| all.set(name, value));
        }
        all
    }

    /// The division of the chip if a TBM is in front of the device's FTL.
    pub(super) fn division(&self, options: &Options, chip: Geometry) -> Option<Division> {
        Division::of(self.ftl()?, options, chip)
    }

    /// Makes the device anew. `pages` counts only if the device does not fix its number of pages itself.
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
    /// The time in ns.
    pub fn now_ns(&self) -> u64 {
        match self {
            Clock::Chip(chip) => chip.lock().time().0,
            Clock::Disk(disk) => disk.lock().time().0,
            Clock::Wall(start) => u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX),
        }
    }

    /// Lets the device idle until `time_ns`. Only a disk needs this, because it keeps turning.
    pub(super) fn idle_until(&self, time_ns: u64) {
        if let Clock::Disk(disk) = self {
            disk.lock().idle_until(Nanos(time_ns));
        }
    }

    /// The kind of clock, in words.
    pub fn name(&self) -> &'static str {
        match self {
            Clock::Chip(_) | Clock::Disk(_) => "simulated",
            Clock::Wall(_) => "wall clock",
        }
    }

    /// The simulated chip, if there is one.
    pub fn chip(&self) -> Option<&Shared<SimChip>> {
        if let Clock::Chip(chip) = self { Some(chip) } else { None }
    }
}

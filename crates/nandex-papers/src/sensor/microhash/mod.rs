//! MicroHash (Zeinalipour-Yazti, Lin, Kalogeraki, Gunopulos and Najjar, FAST 2005): a log of readings on raw
//! flash, by time and value.
//!
//! The chip is a ring. Readings fill data pages in the order in which they come, and nothing is ever moved or
//! rewritten. A directory divides the values into buckets; the readings of a bucket are listed in *index
//! pages* between the data pages, each with the address of an older one of the same bucket. When the ring is
//! full its oldest block is erased, data and index alike, and chains simply end at what is no longer there.
//!
//! * **Append**: the reading joins the page in RAM; a full page is programmed, and its readings are listed in
//!   RAM. When that list is full, the bucket with most entries writes an index page of them.
//! * **By value**: the list in RAM, then the chains of the buckets concerned, the newest page first.
//! * **By time**: every page has the time of the newest reading up to it, so that a search over page numbers
//!   finds the first page: by halves, by proportion (ScaleSearch) or from a lower bound upwards (LBSearch).
//! * **Repartition**: now and then a bucket with more than twice its share is split, and the two neighbours
//!   with least are merged.
//! * **Sync**: the partly filled data page is programmed to the side, in a block of such pages.
//! * **Mounting**: the first sound page of each block says which one it is. The newest block is read whole;
//!   it has a directory, as every block begins with one. What the list in RAM held is read from the data
//!   pages since.
//! * **Damage**: every page has its number in the log and how many readings precede it, and a directory how
//!   many pages the block before has. A page that is missing is [`IndexError::Corrupted`] to whoever comes
//!   upon it. Without its newest directory the log answers by value from the data pages, until those have
//!   gone, and begins a new index.
//!
//! Invariants (`check`):
//!
//! * M1: times do not descend, and readings are numbered without a gap from page to page.
//! * M2: page `n` says so and lies in block `n / pages per block` of the kept ones.
//! * M3: no block serves twice.
//! * M4: every reading in a data page is found by value, once.
//! * M5: buckets ascend and leave no value out; an index page names older pages only.
//!
//! Parts: `Ring` (`layout.rs`) owns the chip, its blocks and the numbers of the log; `Index` (`index.rs`) the
//! directory and the list in RAM, and is lent the ring to write; `Filling` the page being filled.
//!
//! Source: the abstract and what is published about it; the text was not at hand. Pages of the four kinds,
//! chains, the directory that is split and shrunk, the ring and the names of the searches are published;
//! recovery, damage, failing blocks, which bucket is split where and which entries leave RAM are ours.
//!
//! # Example
//!
//! ```
//! use core::ops::ControlFlow;
//! use nandex::nand::{catalogue::mlc_64m, sim::SimChip};
//! use nandex_papers::sensor::microhash::{MicroHash, MicroHashConfig};
//! use nandex_papers::sensor::{Reading, SensorLog};
//!
//! let chip = SimChip::new(&mlc_64m())?;
//! // Tenths of a degree, usually between -20 and 50.
//! let settings = MicroHashConfig { values: (-200, 500), ..MicroHashConfig::default() };
//! let mut log = MicroHash::format(chip, &settings)?;
//! for minute in 0..10_000 {
//!     log.append(Reading { time: minute, value: (minute % 300) as i32 - 100 })?;
//! }
//! log.sync()?;
//!
//! let mut log = MicroHash::mount(log.into_nand(), &settings)?;
//! let mut frosts = 0;
//! log.by_value(-100..=-91, &mut |_| {
//!     frosts += 1;
//!     ControlFlow::Continue(())
//! })?;
//! assert_eq!(frosts, 340);
//! let mut hour = Vec::new();
//! log.by_time(600..=659, &mut |reading| {
//!     hour.push(reading.value);
//!     ControlFlow::Continue(())
//! })?;
//! assert_eq!(hour.len(), 60);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod directory;
mod index;
mod layout;
mod page;
mod query;
mod recovery;
#[cfg(test)]
mod tests;

use super::{Reading, SensorLog, Show};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::RangeInclusive;
use directory::Bucket;
use index::Index;
use layout::Ring;
use nandex::check::{CheckReport, IndexError, message};
use nandex::index::{IndexStats, Metric};
use nandex::nand::{Cause, Nand};
use nandex::units::Pbn;
use page::{Header, Kind, buckets_of, entries_of, put_reading, readings_of};

/// Bits of the numbers of readings and pages. `BLOCK_BITS` is the same for blocks.
const NUMBER_BITS: u32 = 40;
const BLOCK_BITS: u32 = 32;

/// The search for the first page of a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeSearch {
    /// Binary search: each step halves the pages left.
    Binary,
    /// LBSearch: starts at a lower bound, for which all pages between count as full data pages, and goes
    /// up.
    LowerBound,
    /// ScaleSearch: starts where the page would be if readings came evenly.
    #[default]
    Scale,
}

/// The rule that picks the bucket to write an index page when the list in RAM is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Eviction {
    /// The bucket with most entries, whose index page is filled best.
    #[default]
    Fullest,
    /// The bucket of the entry that has waited longest.
    Oldest,
}

/// The settings of a log. A mount takes `values` and `buckets` from the chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MicroHashConfig {
    /// The least and the largest value expected. Other values are accepted too.
    pub values: (i32, i32),
    /// Buckets of the directory. 0 means 16, or as many as a page holds if that is fewer.
    pub buckets: usize,
    /// Entries held in RAM before an index page is written. 0 means four index pages of entries, or four
    /// data pages of readings, whichever is more.
    pub entries: usize,
    /// Pages after which a reading must have an entry on flash; a mount reads this many. 0 means two blocks
    /// of pages.
    pub horizon: u32,
    /// The search for the first page of a time.
    pub time_search: TimeSearch,
    /// The rule that picks the bucket to write when the list in RAM is full.
    pub eviction: Eviction,
}

impl Default for MicroHashConfig {
    fn default() -> MicroHashConfig {
        MicroHashConfig {
            values: (i32::MIN, i32::MAX),
            buckets: 0,
            entries: 0,
            horizon: 0,
            time_search: TimeSearch::default(),
            eviction: Eviction::default(),
        }
    }
}

/// A block's worth of pages of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    /// The block that holds the segment. `None` if a mount did not find it.
    block: Option<Pbn>,
    pages: u16,
    /// Whether a program failed in the block. It is marked bad once its pages are no longer needed.
    failed: bool,
}

/// A block whose contents are no longer needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Free {
    block: Pbn,
    /// True if the block must be marked bad when its turn comes. Not earlier: first a page must record that
    /// nothing in it is needed.
    failed: bool,
}

/// A reading that has no entry on flash yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pending {
    page: u64,
    value: i32,
    place: u16,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    data_pages: u64,
    index_pages: u64,
    index_entries: u64,
    directory_pages: u64,
    partial_pages: u64,
    repartitions: u64,
    blocks_dropped: u64,
    blocks_retired: u64,
}

/// MicroHash: a log of sensor readings on a chip, found by time and by value.
pub struct MicroHash<N> {
    ring: Ring<N>,
    index: Index,
    filling: Filling,
    interrupted: bool,
}

/// The data page being filled in RAM.
struct Filling {
    page: Vec<u8>,
    /// Readings in the page.
    count: usize,
    /// Readings added since the last sync.
    unsynced: usize,
    /// The newest reading of the log. `None` if a mount has not read it yet.
    newest: Option<Reading>,
}

impl Filling {
    fn reading(&self, i: usize) -> Reading {
        page::reading(&self.page, i)
    }
}

impl<N: Nand> MicroHash<N> {
    fn assemble(nand: N, settings: &MicroHashConfig) -> Result<MicroHash<N>, IndexError> {
        let geometry = nand.geometry();
        let page_bytes = geometry.page_bytes as usize;
        let (capacity, entries) = (readings_of(page_bytes), entries_of(page_bytes));
        if capacity < 2 || entries < 2 || geometry.blocks < 8 || geometry.pages_per_block < 4 {
            return Err(IndexError::unsupported(message!(
                "MicroHash needs 8 blocks of 4 pages that hold 2 readings; here are {} of {} that hold {capacity}",
                geometry.blocks,
                geometry.pages_per_block
            )));
        }
        let mut settings = *settings;
        settings.buckets =
            if settings.buckets == 0 { 16.min(buckets_of(page_bytes)) } else { settings.buckets };
        settings.entries = if settings.entries == 0 { 4 * entries.max(capacity) } else { settings.entries };
        settings.horizon =
            if settings.horizon == 0 { 2 * geometry.pages_per_block } else { settings.horizon };
        let width = i64::from(settings.values.1) - i64::from(settings.values.0) + 1;
        if settings.buckets > buckets_of(page_bytes) || width < settings.buckets as i64 {
            return Err(IndexError::unsupported(message!(
                "a directory page holds {} buckets and the values are {width}; {} buckets are asked for",
                buckets_of(page_bytes),
                settings.buckets
            )));
        }
        if settings.entries < 2 * capacity {
            return Err(IndexError::unsupported(message!(
                "the list in RAM must hold two data pages: {} entries, not {}",
                2 * capacity,
                settings.entries
            )));
        }
        let page = || vec![0xff; page_bytes];
        Ok(MicroHash {
            ring: Ring::new(nand),
            index: Index::new(settings, page(), geometry.pages_per_block.into()),
            filling: Filling { page: page(), count: 0, unsynced: 0, newest: None },
            interrupted: false,
        })
    }

    /// Takes the log apart and returns the chip. Readings not synced are lost.
    pub fn into_nand(self) -> N {
        self.ring.nand
    }

    /// The chip that the log is on.
    pub fn nand(&self) -> &N {
        &self.ring.nand
    }

    fn usable(&self) -> Result<(), IndexError> {
        if self.interrupted { Err(IndexError::Interrupted) } else { Ok(()) }
    }

    /// Runs an operation that changes the chip. If it fails for another reason than want of blocks, only a
    /// mount can tell the state of the chip.
    fn change<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, IndexError>) -> Result<T, IndexError> {
        self.interrupted = true;
        let done = work(self);
        self.interrupted = !matches!(done, Ok(_) | Err(IndexError::WornOut));
        done
    }

    fn write_data(&mut self) -> Result<(), IndexError> {
        let MicroHash { ring, index, filling, .. } = self;
        while index.pending.len() + filling.count > index.settings.entries {
            index.write(ring, index.next_to_leave())?;
        }
        let last = filling.reading(filling.count - 1);
        let header = Header { count: filling.count as u16, time: last.time, ..ring.header(Kind::Data) };
        let number = ring.program_log(index, header, &mut filling.page)?;
        ring.newest_data = (number / ring.pages_per_block()) as u32;
        for i in 0..filling.count {
            index.add(Pending { page: number, value: filling.reading(i).value, place: i as u16 });
        }
        ring.counters.data_pages += 1;
        ring.stored += filling.count as u64;
        ring.stored_time = last.time;
        filling.page.fill(0xff);
        (filling.count, filling.unsynced) = (0, 0);
        match index.tend(ring) {
            // The readings are stored all the same; nothing is added from now on.
            Err(IndexError::WornOut) => {
                ring.worn = true;
                Ok(())
            }
            tended => tended,
        }
    }
}

impl<N: Nand> SensorLog for MicroHash<N> {
    fn append(&mut self, reading: Reading) -> Result<(), IndexError> {
        self.usable()?;
        let MicroHash { ring, filling, .. } = self;
        if reading.time < filling.newest.map_or(ring.stored_time, |newest| newest.time) {
            return Err(IndexError::NotAscending);
        }
        if ring.worn || !ring.has_numbers() {
            return Err(IndexError::WornOut);
        }
        put_reading(&mut filling.page, filling.count, reading);
        filling.count += 1;
        filling.unsynced += 1;
        if filling.count == readings_of(filling.page.len()) {
            let written = self.change(Self::write_data);
            if written == Err(IndexError::WornOut) {
                // No block took the page: the reading is not there.
                self.ring.worn = true;
                self.filling.count -= 1;
                self.filling.unsynced -= 1;
            }
            written?;
        }
        self.filling.newest = Some(reading);
        Ok(())
    }

    fn by_time(&mut self, times: RangeInclusive<u64>, show: Show<'_>) -> Result<(), IndexError> {
        self.usable()?;
        self.show_times(times, show)
    }

    fn by_value(&mut self, values: RangeInclusive<i32>, show: Show<'_>) -> Result<(), IndexError> {
        self.usable()?;
        self.show_values((*values.start(), *values.end()), Cause::Host, show)
    }

    fn oldest(&mut self) -> Result<Option<Reading>, IndexError> {
        self.usable()?;
        self.first_reading()
    }

    fn newest(&mut self) -> Result<Option<Reading>, IndexError> {
        self.usable()?;
        if self.filling.newest.is_none() && self.ring.stored > 0 {
            self.filling.newest = self.ring.last_reading()?;
        }
        Ok(self.filling.newest)
    }

    fn sync(&mut self) -> Result<(), IndexError> {
        self.usable()?;
        if self.filling.unsynced == 0 {
            return Ok(());
        }
        self.change(|MicroHash { ring, index, filling, .. }| ring.write_aside(index, filling, false, false))
    }

    fn close(&mut self) -> Result<(), IndexError> {
        self.usable()?;
        self.change(|MicroHash { ring, index, filling, .. }| {
            ring.write_aside(index, filling, true, false)?;
            ring.write_aside(index, filling, true, true)
        })
    }

    fn check(&mut self) -> Result<CheckReport, IndexError> {
        self.usable()?;
        self.check_all()
    }

    fn stats(&self) -> IndexStats {
        let metric = |name, value| Metric { name, value };
        let c = self.ring.counters;
        IndexStats {
            height: 1,
            live_pages: self.ring.kept.iter().map(|segment| u64::from(segment.pages)).sum(),
            collections: c.blocks_dropped,
            metrics: vec![
                metric("data_pages", c.data_pages),
                metric("index_pages", c.index_pages),
                metric("index_entries", c.index_entries),
                metric("directory_pages", c.directory_pages),
                metric("partial_pages", c.partial_pages),
                metric("repartitions", c.repartitions),
                metric("blocks_dropped", c.blocks_dropped),
                metric("blocks_retired", c.blocks_retired),
                metric("waiting_entries", self.index.pending.len() as u64),
            ],
            ..IndexStats::default()
        }
    }

    /// Bytes of RAM: three pages, the lists of blocks, the buckets with the room for a walk over their
    /// chains, and the list of readings without entries.
    fn ram_bytes(&self) -> usize {
        let blocks =
            self.ring.kept.capacity() * size_of::<Segment>() + self.ring.free.capacity() * size_of::<Free>();
        let buckets = self.index.directory.buckets.capacity() * (size_of::<Bucket>() + 2 * size_of::<u64>());
        size_of::<MicroHash<()>>()
            + 3 * self.ring.geometry.page_bytes as usize
            + blocks
            + buckets
            + self.index.pending.capacity() * size_of::<Pending>()
    }
}

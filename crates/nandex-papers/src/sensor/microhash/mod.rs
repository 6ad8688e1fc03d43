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
//! Source: the abstract and what is published about it; the text was not at hand. Pages of the four kinds,
//! chains, the directory that is split and shrunk, the ring and the names of the searches are published;
//! recovery, damage, failing blocks, which bucket is split where and which entries leave RAM are ours.
//!
//! # Example
//!
//! ```
//! use core::ops::ControlFlow;
//! use nandex::nand::{catalogue::mlc_64m, sim::SimChip};
//! use nandex::sensor::microhash::{MicroHash, Settings};
//! use nandex::sensor::{Reading, SensorLog};
//!
//! let chip = SimChip::new(&mlc_64m())?;
//! // Tenths of a degree, usually between -20 and 50.
//! let settings = Settings { values: (-200, 500), ..Settings::default() };
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
mod layout;
mod page;
mod query;
mod recovery;
#[cfg(test)]
mod tests;

use super::{Reading, SensorLog, Show};
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::RangeInclusive;
use directory::{Bucket, Directory};
use nandex::check::{CheckReport, IndexError, message};
use nandex::codec::{first_number, numbers};
use nandex::index::{IndexStats, Metric};
use nandex::nand::{Cause, Geometry, Nand};
use nandex::units::Pbn;
use page::{Header, Kind, NONE, buckets_of, entries_of, put_bounds, put_entry, put_reading, readings_of};

/// Bits of the numbers of readings and pages, and of blocks.
const NUMBER_BITS: u32 = 40;
const BLOCK_BITS: u32 = 32;

/// How the first page of a time is looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeSearch {
    /// Half of what is left.
    Binary,
    /// LBSearch: from a lower bound on, which takes all pages between for full data pages.
    LowerBound,
    /// ScaleSearch: where it should lie if readings came evenly.
    #[default]
    Scale,
}

/// Which bucket writes an index page when the list in RAM is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Eviction {
    /// The page with most entries: the page is as full as can be.
    #[default]
    Fullest,
    /// The page of the entry that has waited longest.
    Oldest,
}

/// How a log is made. A mount takes the buckets from the chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The least and the largest value expected; others are taken too.
    pub values: (i32, i32),
    /// Buckets of the directory; 0 for 16, or as many as a page holds.
    pub buckets: usize,
    /// Entries that RAM holds before an index page is written; 0 for four index pages of them, or four data
    /// pages of readings.
    pub entries: usize,
    /// Pages after which a reading has its entry on flash; 0 for two blocks of them. A mount reads so many.
    pub horizon: u32,
    /// How a time is searched.
    pub time_search: TimeSearch,
    /// The choice of the page that leaves RAM first.
    pub eviction: Eviction,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            values: (i32::MIN, i32::MAX),
            buckets: 0,
            entries: 0,
            horizon: 0,
            time_search: TimeSearch::default(),
            eviction: Eviction::default(),
        }
    }
}

/// A block of the log: as many pages of it as a block has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    /// The block of the segment; none if it was not found again.
    block: Option<Pbn>,
    pages: u16,
    /// A program failed in it: its block is marked bad once its pages are no longer needed.
    failed: bool,
}

/// A block that holds nothing that is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Free {
    block: Pbn,
    /// The block is marked bad when its turn comes: not before a page says that nothing in it is needed.
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

/// A log of readings on a chip.
pub struct MicroHash<N> {
    nand: N,
    geometry: Geometry,
    settings: Settings,
    /// Readings of a page.
    capacity: usize,
    /// Blocks of the log, the oldest first, and the number of that one.
    kept: VecDeque<Segment>,
    oldest: u32,
    /// The newest one with readings, which is not given up.
    newest_data: u32,
    /// How many of them the next page that is programmed gives up.
    giving: u32,
    /// Whether the newest of them takes more pages.
    open: bool,
    /// The page of the log programmed last.
    last: u64,
    /// The block of partly filled pages and its next page.
    aside: Option<(Pbn, u32)>,
    /// Blocks to be used next, in turn.
    free: VecDeque<Free>,
    directory: Directory,
    /// In the order of the log.
    pending: Vec<Pending>,
    /// The page of the log from which on the next repartition may be.
    repartition_at: u64,
    /// Readings ever put into data pages, and the time of the last.
    stored: u64,
    stored_time: u64,
    /// The newest reading; none where a mount has not read it.
    newest: Option<Reading>,
    /// The page being filled, and how many of its readings no sync has seen.
    filling: Vec<u8>,
    count: usize,
    unsynced: usize,
    /// The page read last, and its number.
    read: Vec<u8>,
    read_header: Option<Header>,
    /// The index page being read or written.
    chain: Vec<u8>,
    /// Nothing can be programmed any more.
    worn: bool,
    interrupted: bool,
    counters: Counters,
}

impl<N: Nand> MicroHash<N> {
    fn assemble(nand: N, settings: &Settings) -> Result<MicroHash<N>, IndexError> {
        let geometry = nand.geometry();
        let page_bytes = geometry.page_bytes as usize;
        let (capacity, entries) = (readings_of(page_bytes), entries_of(page_bytes));
        if capacity < 2 || entries < 2 || geometry.blocks < 8 || geometry.pages_per_block < 4 {
            return Err(IndexError::Unsupported(message!(
                "MicroHash needs 8 blocks of 4 pages that hold 2 readings; here are {} of {} that hold {capacity}",
                geometry.blocks, geometry.pages_per_block
            ).into()));
        }
        let mut settings = *settings;
        settings.buckets =
            if settings.buckets == 0 { 16.min(buckets_of(page_bytes)) } else { settings.buckets };
        settings.entries = if settings.entries == 0 { 4 * entries.max(capacity) } else { settings.entries };
        settings.horizon =
            if settings.horizon == 0 { 2 * geometry.pages_per_block } else { settings.horizon };
        let width = i64::from(settings.values.1) - i64::from(settings.values.0) + 1;
        if settings.buckets > buckets_of(page_bytes) || width < settings.buckets as i64 {
            return Err(IndexError::Unsupported(
                message!(
                    "a directory page holds {} buckets and the values are {width}; {} buckets are asked for",
                    buckets_of(page_bytes),
                    settings.buckets
                )
                .into(),
            ));
        }
        if settings.entries < 2 * capacity {
            return Err(IndexError::Unsupported(
                message!(
                    "the list in RAM must hold two data pages: {} entries, not {}",
                    2 * capacity,
                    settings.entries
                )
                .into(),
            ));
        }
        let blocks = geometry.blocks as usize;
        Ok(MicroHash {
            nand,
            geometry,
            settings,
            capacity,
            kept: VecDeque::with_capacity(blocks),
            oldest: 0,
            newest_data: 0,
            giving: 0,
            open: false,
            last: 0,
            aside: None,
            free: VecDeque::with_capacity(blocks),
            directory: Directory::equal_width(settings.buckets, settings.values, 0),
            pending: Vec::with_capacity(settings.entries),
            repartition_at: u64::from(geometry.pages_per_block),
            stored: first_number(NUMBER_BITS, 0),
            stored_time: 0,
            newest: None,
            filling: vec![0xff; page_bytes],
            count: 0,
            unsynced: 0,
            read: vec![0xff; page_bytes],
            read_header: None,
            chain: vec![0xff; page_bytes],
            worn: false,
            interrupted: false,
            counters: Counters::default(),
        })
    }

    /// Gives the chip back.
    pub fn into_nand(self) -> N {
        self.nand
    }

    /// The chip.
    pub fn nand(&self) -> &N {
        &self.nand
    }

    /// The time of the newest reading; 0 where there is none.
    fn newest_time(&self) -> u64 {
        self.newest.map_or(self.stored_time, |newest| newest.time)
    }

    fn usable(&self) -> Result<(), IndexError> {
        if self.interrupted { Err(IndexError::Interrupted) } else { Ok(()) }
    }

    /// Whether there are numbers for more readings, pages and blocks than the last ones.
    fn has_numbers(&self) -> bool {
        let blocks = u64::from(self.oldest) + self.kept.len() as u64;
        self.stored.max(self.last) < numbers(NUMBER_BITS) && blocks < numbers(BLOCK_BITS)
    }

    /// Does what changes the chip; when it fails other than for want of blocks, only a mount knows what is
    /// there.
    fn change<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, IndexError>) -> Result<T, IndexError> {
        self.interrupted = true;
        let done = work(self);
        self.interrupted = !matches!(done, Ok(_) | Err(IndexError::WornOut));
        done
    }

    /// Programs the full page as a data page and lists its readings.
    fn write_data(&mut self) -> Result<(), IndexError> {
        while self.pending.len() + self.count > self.settings.entries {
            self.write_index(self.next_to_leave())?;
        }
        let last = page::reading(&self.filling, self.count - 1);
        let header = Header { count: self.count as u16, time: last.time, ..self.header(Kind::Data) };
        let mut page = core::mem::take(&mut self.filling);
        let written = self.program_log(header, &mut page);
        self.filling = page;
        let number = written?;
        self.newest_data = (number / self.pages_per_block()) as u32;
        for i in 0..self.count {
            let value = page::reading(&self.filling, i).value;
            self.pending.push(Pending { page: number, value, place: i as u16 });
            let bucket = self.directory.bucket_of(value);
            let added = &mut self.directory.buckets[bucket].added;
            *added = added.saturating_add(1);
        }
        self.counters.data_pages += 1;
        self.stored += self.count as u64;
        self.stored_time = last.time;
        self.filling.fill(0xff);
        (self.count, self.unsynced) = (0, 0);
        match self.tend_index() {
            // The readings are stored all the same; nothing is added from now on.
            Err(IndexError::WornOut) => {
                self.worn = true;
                Ok(())
            }
            tended => tended,
        }
    }

    /// The header with what all headers have in common.
    fn header(&self, kind: Kind) -> Header {
        Header {
            kind,
            closed: false,
            previous_failed: false,
            count: 0,
            previous: 0,
            number: self.last,
            readings: self.stored,
            time: self.stored_time,
            oldest: self.oldest + self.giving,
            links: [NONE; 2],
        }
    }

    /// The bucket whose entries leave RAM next.
    fn next_to_leave(&self) -> usize {
        let oldest = self.pending.first().map_or(0, |pending| self.directory.bucket_of(pending.value));
        if self.settings.eviction == Eviction::Oldest {
            return oldest;
        }
        // Without a table of counts: buckets are few, and an index page is seldom.
        let listed = |bucket: usize| {
            let (low, high) = self.directory.bounds(bucket);
            self.pending.iter().filter(|pending| (low..=high).contains(&pending.value)).count()
        };
        (0..self.directory.buckets.len()).max_by_key(|&bucket| listed(bucket)).unwrap_or(oldest)
    }

    /// Writes an index page of the oldest entries of a bucket; none where it has none.
    fn write_index(&mut self, bucket: usize) -> Result<(), IndexError> {
        let (low, high) = self.directory.bounds(bucket);
        let mut page = core::mem::take(&mut self.chain);
        page.fill(0xff);
        put_bounds(&mut page, (low, high));
        let (mut count, mut cover, room) = (0, (0, 0), entries_of(page.len()));
        for pending in self.pending.iter().filter(|p| (low..=high).contains(&p.value)).take(room) {
            cover = (pending.page, pending.place);
            put_entry(&mut page, count, cover);
            count += 1;
        }
        let links = self.directory.buckets[bucket].heads;
        let header = Header { count: count as u16, links, ..self.header(Kind::Index) };
        let written = if count == 0 { Ok(NONE) } else { self.program_log(header, &mut page) };
        self.chain = page;
        let number = written?;
        if count > 0 {
            let bucket = &mut self.directory.buckets[bucket];
            (bucket.heads, bucket.cover) = ([number, NONE], cover);
            self.pending.retain(|p| !(low..=high).contains(&p.value) || (p.page, p.place) > cover);
            self.counters.index_pages += 1;
            self.counters.index_entries += count as u64;
        }
        Ok(())
    }

    /// Writes what has waited too long, and repartitions where that is due.
    fn tend_index(&mut self) -> Result<(), IndexError> {
        while let Some(&first) = self.pending.first()
            && first.page + u64::from(self.settings.horizon) <= self.last
        {
            self.write_index(self.directory.bucket_of(first.value))?;
        }
        if self.last >= self.repartition_at {
            self.repartition_at = self.last + u64::from(self.geometry.pages_per_block);
            self.repartition()?;
        }
        Ok(())
    }

    /// Splits the bucket with most readings of late, at their mean, and merges the two neighbours with least.
    fn repartition(&mut self) -> Result<(), IndexError> {
        let Some((mut hot, cut)) = self.directory.hottest().and_then(|hot| Some((hot, self.cut(hot)?)))
        else {
            self.directory.age();
            return Ok(());
        };
        let heads = |bucket: usize| {
            let (low, high) = self.directory.bounds(bucket);
            let waits = self.pending.iter().any(|pending| (low..=high).contains(&pending.value));
            if waits { 1 } else { self.directory.buckets[bucket].heads() }
        };
        if let Some(cold) = self.directory.coldest_pair(hot, heads) {
            for bucket in [cold, cold + 1] {
                let (low, high) = self.directory.bounds(bucket);
                while self.pending.iter().any(|pending| (low..=high).contains(&pending.value)) {
                    self.write_index(bucket)?;
                }
            }
            self.directory.merge(cold, (self.last, u16::MAX));
            hot -= usize::from(cold < hot);
            self.directory.split(hot, cut);
            self.counters.repartitions += 1;
            self.write_directory()?;
        }
        self.directory.age();
        Ok(())
    }

    /// The least value of the upper half of a bucket that is to be split.
    fn cut(&self, bucket: usize) -> Option<i32> {
        let (low, high) = self.directory.bounds(bucket);
        let of_bucket = self.pending.iter().filter(|pending| (low..=high).contains(&pending.value));
        let (sum, count) = of_bucket.fold((0, 0), |(sum, count), p| (sum + i64::from(p.value), count + 1));
        let middle = if count == 0 { i64::midpoint(low.into(), high.into()) } else { sum / count };
        (low < high).then(|| (middle as i32).clamp(low + 1, high))
    }
}

impl<N: Nand> SensorLog for MicroHash<N> {
    fn append(&mut self, reading: Reading) -> Result<(), IndexError> {
        self.usable()?;
        if reading.time < self.newest_time() {
            return Err(IndexError::NotAscending);
        }
        if self.worn || !self.has_numbers() {
            return Err(IndexError::WornOut);
        }
        put_reading(&mut self.filling, self.count, reading);
        self.count += 1;
        self.unsynced += 1;
        if self.count == self.capacity {
            let written = self.change(Self::write_data);
            if written == Err(IndexError::WornOut) {
                // No block took the page: the reading is not there.
                self.worn = true;
                self.count -= 1;
                self.unsynced -= 1;
            }
            written?;
        }
        self.newest = Some(reading);
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
        if self.newest.is_none() && self.stored > 0 {
            self.newest = self.last_reading()?;
        }
        Ok(self.newest)
    }

    fn sync(&mut self) -> Result<(), IndexError> {
        self.usable()?;
        if self.unsynced == 0 {
            return Ok(());
        }
        self.change(|log| log.write_aside(false, false))
    }

    fn close(&mut self) -> Result<(), IndexError> {
        self.usable()?;
        self.change(|log| {
            log.write_aside(true, false)?;
            log.write_aside(true, true)
        })
    }

    fn check(&mut self) -> Result<CheckReport, IndexError> {
        self.usable()?;
        self.check_all()
    }

    fn stats(&self) -> IndexStats {
        let metric = |name, value| Metric { name, value };
        let c = self.counters;
        IndexStats {
            height: 1,
            live_pages: self.kept.iter().map(|segment| u64::from(segment.pages)).sum(),
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
                metric("waiting_entries", self.pending.len() as u64),
            ],
            ..IndexStats::default()
        }
    }

    /// Three pages, the blocks, the buckets with what a walk over their chains takes, and the list.
    fn ram_bytes(&self) -> usize {
        let blocks = self.kept.capacity() * size_of::<Segment>() + self.free.capacity() * size_of::<Free>();
        let buckets = self.directory.buckets.capacity() * (size_of::<Bucket>() + 2 * size_of::<u64>());
        size_of::<MicroHash<()>>()
            + 3 * self.geometry.page_bytes as usize
            + blocks
            + buckets
            + self.pending.capacity() * size_of::<Pending>()
    }
}

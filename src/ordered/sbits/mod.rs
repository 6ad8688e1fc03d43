//! SBITS, the sequential index of EmbedDB (Lawrence et al.; code and paper read): records with ascending
//! keys, which are appended.
//!
//! The keys of time series only rise, so nothing is ever moved. Full pages follow each other on the chip,
//! block after block, and a small spline in RAM leads from a key to its page (`spline`). An insertion
//! programs a page when one is full, and a look-up reads one page or a few. This is the best that any index
//! can do if keys come in order. It is no index for other keys: an insertion whose key is not above the
//! largest one is refused ([`IndexError::NotAscending`]). This rules out updates; removals are
//! refused too.
//!
//! * **Insertion**: the record is added to the page in RAM. A full page is programmed as the next page of the
//!   newest block.
//! * **Sync**: a partly filled page is programmed at the side, in a block of such pages. The next page with
//!   the same number, or the full page, replaces it. In the class *every operation* each insertion does this.
//! * **Look-up**: reads the page that the spline gives, and then its neighbours until the key is between
//!   first and last record of a page.
//! * **Space**: blocks are used in turn; the next one is erased just before it is written. If none is left,
//!   an insertion is `Full`, or drops the oldest block with all its records (`when_full = drop-oldest`, as
//!   published).
//! * **Mounting**: the first two pages of each block tell which block of full pages it is. The newest block
//!   and the block of partly filled pages are read whole. The spline is built anew from the first key of each
//!   block. It is coarser than before, so a look-up after a mount reads a few pages more. The block that was
//!   the newest is copied before pages are added, since a page that was cut short may look erased.
//! * **Damage**: every page tells how many full pages precede it, and which of them is the oldest. A full
//!   page also tells when the newest partly filled page was programmed, and a close writes two partly filled
//!   pages, in two blocks. So a missing page is noticed. A page of zeros is damage, since no power cut leaves
//!   one. A look-up that meets a missing page returns `Corrupted`.
//!
//! Invariants (`check`):
//!
//! * S1: keys ascend in a page and from page to page.
//! * S2: full page `n` has this number, holds as many records as a page can, and lies in block `n / pages per
//!   block` of the kept ones.
//! * S3: no block is used for two purposes.
//! * S4: the newest partly filled page can be read until the next one is programmed.
//!
//! # Parts
//!
//! | part | owns | file |
//! |---|---|---|
//! | `Blocks` | the use of each block, and so the place of each page | `blocks.rs` |
//! | `Spline` | the way from a key to its page | `spline.rs` |
//! | `Filling` | the page being filled | here |
//! | `Loaded` | the page read last | here |
//!
//! Deviations: EmbedDB's aggregates and its bitmap index over values are left out, since the interface needs
//! only keys. EmbedDB's temporary pages lie ahead of the frontier in the same region, ours in blocks of their
//! own. Our recovery reads more and relies on less. Confidence: high for layout and look-up (read in the
//! authors' code and paper); recovery is ours.

mod blocks;
mod layout;
mod page;
mod recovery;
mod service;
mod spline;
#[cfg(test)]
mod tests;

use crate::check::{CheckReport, IndexError, message};
use crate::codec::{first_number, numbers};
use crate::fault::IndexFault;
use crate::index::require_ram;
use crate::nand::{Cause, Geometry, Nand};
use crate::ordered::{
    Direction, Durability, IndexStats, Metric, OrderedIndex, RecordFormat, Room, Tour, Visit,
};
use alloc::vec;
use alloc::vec::Vec;
use blocks::Blocks;
use core::ops::{Bound, ControlFlow, RangeInclusive};
use page::{HEADER_BYTES, entry, search};
use spline::{Spline, project};

/// Bits of the number of a program. The number of a block has [`BLOCK_BITS`].
const SEQUENCE_BITS: u32 = 40;
const BLOCK_BITS: u32 = 32;

/// Treatment of an insertion when no block is left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub enum WhenFull {
    /// The insertion is refused.
    #[default]
    Refuse,
    /// The oldest block of records is dropped.
    DropOldest,
}

/// How an SBITS store is formatted, mounted and run.
///
/// An example stands at [`Sbits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub struct SbitsConfig {
    /// Sizes of the records.
    pub record: RecordFormat,
    /// The durability class wanted.
    pub durability: Durability,
    /// Bytes of RAM; `None` means whatever tables and spline need.
    pub ram_bytes: Option<usize>,
    /// Points of the spline from keys to pages, 4 to 2^20. `None` means 300 as published, or as many as the
    /// RAM allows.
    pub spline_points: Option<usize>,
    /// Pages by which the spline may be wrong while its points suffice, 1 or more.
    pub max_error: u32,
    /// The fate of an insertion when no block is left.
    pub when_full: WhenFull,
}

impl SbitsConfig {
    /// 300 points, an error of one page, every operation durable; insertions into a full store are refused.
    pub const fn new(record: RecordFormat) -> SbitsConfig {
        SbitsConfig {
            record,
            durability: Durability::EveryOperation,
            ram_bytes: None,
            spline_points: None,
            max_error: 1,
            when_full: WhenFull::Refuse,
        }
    }
}

/// An SBITS store on a chip.
///
/// ```
/// # use nandex::nand::{catalogue::mlc_64m, sim::SimChip};
/// # let chip = SimChip::new(&mlc_64m().with_blocks(64))?;
/// use nandex::{OrderedIndex, RecordFormat, Sbits, SbitsConfig};
///
/// let config = SbitsConfig::new(RecordFormat::new(2, 4));
/// let mut tree = Sbits::format(chip, &config)?;
/// tree.insert(&[0, 7], &[1; 4])?;
/// tree.close()?;
/// let mut tree = Sbits::mount(tree.into_nand(), &config)?;
/// assert!(tree.get(&[0, 7], &mut [0; 4])?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Sbits<N> {
    nand: N,
    record: RecordFormat,
    /// Number of records of a page.
    capacity: usize,
    every_operation: bool,
    blocks: Blocks,
    sequence: u64,
    /// Number of the newest program of a partly filled page.
    partial_sequence: u64,
    spline: Spline,
    filling: Filling,
    read: Loaded,
    interrupted: bool,
    /// Number of the full page that a scrub reads next.
    scrubbed: u64,
    counters: Counters,
}

/// The page being filled.
struct Filling {
    page: Vec<u8>,
    count: usize,
    /// Number of records added since the last sync.
    unsynced: usize,
    closed: bool,
    /// Largest key of all.
    largest: Option<Vec<u8>>,
}

/// The page read last, and its number; [`NO_PAGE`] if it is no full page.
struct Loaded {
    page: Vec<u8>,
    number: u64,
}

const NO_PAGE: u64 = u64::MAX;

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    partial_programs: u64,
    lookup_pages: u64,
    lookups: u64,
}

/// The refusal of an insertion or a removal that the rule forbids.
#[cfg_attr(not(feature = "unstable"), doc(hidden))]
pub const RULE: &str = "SBITS takes records in ascending order of their keys and removes none";

impl<N: Nand> Sbits<N> {
    fn assemble(nand: N, config: &SbitsConfig) -> Result<Sbits<N>, IndexFault> {
        let (geometry, record) = (nand.geometry(), config.record);
        let page_bytes = geometry.page_bytes as usize;
        let capacity = (page_bytes - HEADER_BYTES) / record.entry_bytes();
        if capacity < 2 || geometry.blocks < 4 {
            return Err(IndexError::unsupported(message!(
                "SBITS needs pages that hold 2 records and 4 blocks; here are {capacity} and {}",
                geometry.blocks
            ))
            .into());
        }
        let knots = knots::<N>(config, geometry)?;
        if config.max_error == 0 {
            let what = "a spline of no error: 1 page at least is possible";
            return Err(IndexError::Unsupported(what.into()).into());
        }
        Ok(Sbits {
            nand,
            record,
            capacity,
            every_operation: config.durability == Durability::EveryOperation,
            blocks: Blocks::new(geometry, config.when_full),
            sequence: first_number(SEQUENCE_BITS, 0),
            partial_sequence: first_number(SEQUENCE_BITS, 0),
            spline: Spline::new(knots, config.max_error),
            filling: Filling::new(page_bytes),
            read: Loaded { page: vec![0xff; page_bytes], number: NO_PAGE },
            interrupted: false,
            scrubbed: 0,
            counters: Counters::default(),
        })
    }

    /// Gives the chip back.
    pub fn into_nand(self) -> N {
        self.nand
    }

    /// Programs the page being filled at the side.
    fn write_aside(&mut self, closed: bool, elsewhere: bool) -> Result<(), IndexFault> {
        self.interrupted = true;
        let written = self.write_partial(closed, elsewhere);
        self.interrupted = matches!(&written, Err(error) if !error.is_worn_out());
        written
    }

    fn usable(&self) -> Result<(), IndexFault> {
        if self.interrupted { Err(IndexError::Interrupted.into()) } else { Ok(()) }
    }

    fn append(&mut self, key: &[u8], value: &[u8]) -> Result<(), IndexFault> {
        self.filling.require_ascending(key)?;
        if self.sequence >= numbers(SEQUENCE_BITS) || self.blocks.ever() >= numbers(BLOCK_BITS) {
            return Err(IndexError::WornOut.into());
        }
        while !self.blocks.make_room()? {
            self.read.number = NO_PAGE;
            self.spline.drop_before(self.blocks.first_page());
        }
        self.move_weak()?;
        debug_assert!(
            self.filling.count < self.capacity,
            "S2: {} records of {}",
            self.filling.count,
            self.capacity
        );
        self.filling.push(self.record, key, value);
        self.interrupted = true;
        let written = if self.filling.count == self.capacity {
            self.write_full()
        } else if self.every_operation {
            self.write_partial(false, false)
        } else {
            Ok(())
        };
        if written.as_ref().is_err_and(|error| error.is_worn_out()) {
            // No block took the page: the record is not there.
            self.filling.pop();
            self.interrupted = false;
        }
        debug_assert!(
            self.filling.unsynced <= self.filling.count,
            "{} of {} records are unsynced",
            self.filling.unsynced,
            self.filling.count
        );
        written?;
        self.interrupted = false;
        self.filling.note_largest(key);
        Ok(())
    }

    /// Finds the only page that may hold a key, and leaves it in the read buffer. False if the key precedes
    /// all.
    fn seek(&mut self, key: &[u8]) -> Result<bool, IndexFault> {
        let pages = (self.blocks.first_page(), self.blocks.full_pages);
        if pages.0 >= pages.1 {
            return Ok(false);
        }
        let (guess, mut low, mut high) = self.spline.find(project(key), pages);
        self.counters.lookups += 1;
        let (mut at, mut step) = (guess, 1);
        // The bounds hold for sound pages; damaged ones must not lead beyond them.
        while low <= high {
            self.read_page(at, Cause::Host)?;
            debug_assert!((low..=high).contains(&at), "page {at} is read for {low} to {high}");
            self.counters.lookup_pages += 1;
            let (first, last) = (self.read_key(0), self.read_key(self.capacity - 1));
            if key < first {
                if at == low {
                    return Ok(at > pages.0);
                }
                high = at - 1;
                at = leap(at.saturating_sub(step), step, (low, high));
            } else if key > last {
                if at == high {
                    return Ok(true);
                }
                low = at + 1;
                at = leap(at.saturating_add(step), step, (low, high));
            } else {
                return Ok(true);
            }
            step = step.saturating_mul(2);
        }
        Ok(true)
    }

    fn read_key(&self, i: usize) -> &[u8] {
        entry(&self.read.page, self.record, i).0
    }

    /// Page at which a walk begins. The page being filled counts as the one after the last.
    fn start_of(&mut self, key: &[u8]) -> Result<u64, IndexFault> {
        let (first, end) = (self.blocks.first_page(), self.blocks.full_pages);
        if first >= end || self.filling.begins_by(self.record, key) {
            return Ok(end);
        }
        self.seek(key)?;
        Ok(if self.read.number == NO_PAGE { first } else { self.read.number })
    }

    /// Visits the records of page `number` within the bounds. Breaks if the walk is over.
    fn show_page(&mut self, number: u64, tour: &mut Tour<'_, '_>) -> Result<ControlFlow<()>, IndexFault> {
        let (page, count) = if number == self.blocks.full_pages {
            (&self.filling.page, self.filling.count)
        } else {
            self.read_page(number, Cause::Host)?;
            (&self.read.page, self.capacity)
        };
        Ok(tour.show(count, |i| entry(page, self.record, i)))
    }
}

impl Filling {
    fn new(page_bytes: usize) -> Filling {
        Filling { page: vec![0xff; page_bytes], count: 0, unsynced: 0, closed: false, largest: None }
    }

    /// True if a key is not below the first one of the page.
    fn begins_by(&self, record: RecordFormat, key: &[u8]) -> bool {
        self.count > 0 && key >= entry(&self.page, record, 0).0
    }

    /// Returns an error if a key is not above all others.
    fn require_ascending(&self, key: &[u8]) -> Result<(), IndexFault> {
        match &self.largest {
            Some(largest) if key <= &largest[..] => Err(IndexError::NotAscending.into()),
            _ => Ok(()),
        }
    }

    fn push(&mut self, record: RecordFormat, key: &[u8], value: &[u8]) {
        let at = HEADER_BYTES + self.count * record.entry_bytes();
        let (key_end, end) = (at + key.len(), at + record.entry_bytes());
        self.page[at..key_end].copy_from_slice(key);
        self.page[key_end..end].copy_from_slice(value);
        self.count += 1;
        self.unsynced += 1;
        self.closed = false;
    }

    /// Removes the newest record.
    fn pop(&mut self) {
        self.count -= 1;
        self.unsynced -= 1;
    }

    fn clear(&mut self) {
        self.page.fill(0xff);
        (self.count, self.unsynced) = (0, 0);
    }

    fn note_largest(&mut self, key: &[u8]) {
        let largest = self.largest.get_or_insert_with(|| Vec::with_capacity(key.len()));
        largest.clear();
        largest.extend_from_slice(key);
    }
}

/// Number of knots of the spline: as configured, or 300, or as many as the RAM allows.
fn knots<N: Nand>(config: &SbitsConfig, geometry: Geometry) -> Result<usize, IndexFault> {
    const PUBLISHED: usize = 300;
    const POSSIBLE: RangeInclusive<usize> = 4..=1 << 20;
    require_ram(config.ram_bytes)?;
    let fixed = fixed_bytes::<N>(geometry, config.record);
    if let Some(points) = config.spline_points.filter(|points| !POSSIBLE.contains(points)) {
        let what =
            message!("a spline of {points} points: {} to {} are possible", POSSIBLE.start(), POSSIBLE.end());
        return Err(IndexError::Unsupported(what.into()).into());
    }
    let left = match config.ram_bytes {
        None => PUBLISHED,
        Some(ram) => ram.saturating_sub(fixed) / Spline::KNOT_BYTES,
    };
    let knots = config.spline_points.unwrap_or(left.min(PUBLISHED));
    match config.ram_bytes {
        Some(ram) if knots < 4 || fixed + knots * Spline::KNOT_BYTES > ram => {
            let needed = fixed + knots.max(4) * Spline::KNOT_BYTES;
            Err(IndexError::TooLittleRam { what: "two pages, the blocks and the spline", given: ram, needed }
                .into())
        }
        _ => Ok(knots),
    }
}

/// Bytes of RAM without the spline's knots, but with the error of a refusal.
fn fixed_bytes<N: Nand>(geometry: Geometry, record: RecordFormat) -> usize {
    size_of::<Sbits<N>>()
        + size_of::<IndexError>()
        + 2 * geometry.page_bytes as usize
        + usize::from(record.key_bytes)
        + Blocks::ram_needed(geometry)
}

/// Next page of a search that jumps to `aim`: the middle of the remaining pages if the jump is longer than
/// these.
const fn leap(aim: u64, step: u64, (low, high): (u64, u64)) -> u64 {
    if step > high - low { low.midpoint(high) } else { aim }
}

impl<N: Nand> OrderedIndex for Sbits<N> {
    fn record(&self) -> RecordFormat {
        self.record
    }

    fn durability(&self) -> Durability {
        if self.every_operation { Durability::EveryOperation } else { Durability::EverySync }
    }

    fn get(&mut self, key: &[u8], value: &mut [u8]) -> Result<bool, IndexError> {
        self.record.check(key, value)?;
        self.usable()?;
        if self.filling.begins_by(self.record, key) {
            let found = search(&self.filling.page, self.record, self.filling.count, key);
            if let Ok(i) = found {
                value.copy_from_slice(entry(&self.filling.page, self.record, i).1);
            }
            return Ok(found.is_ok());
        }
        if self.filling.largest.as_deref().is_none_or(|largest| key > largest) || !self.seek(key)? {
            return Ok(false);
        }
        let found = search(&self.read.page, self.record, self.capacity, key);
        if let Ok(i) = found {
            value.copy_from_slice(entry(&self.read.page, self.record, i).1);
        }
        Ok(found.is_ok())
    }

    /// Appends a record. A key that is not above all others is refused.
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, IndexError> {
        self.record.check(key, value)?;
        self.usable()?;
        self.append(key, value)?;
        Ok(false)
    }

    /// Refuses the removal: [`RULE`].
    fn remove(&mut self, key: &[u8]) -> Result<bool, IndexError> {
        self.record.check_key(key)?;
        Err(IndexError::Unsupported(RULE.into()))
    }

    fn range(
        &mut self,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), IndexError> {
        self.usable()?;
        let mut tour = Tour { bounds: (low, high), direction, visit };
        tour.check(self.record)?;
        let mut number = match (tour.start(), direction) {
            (Bound::Included(key) | Bound::Excluded(key), _) => self.start_of(key)?,
            (Bound::Unbounded, Direction::Ascending) => self.blocks.first_page(),
            (Bound::Unbounded, Direction::Descending) => self.blocks.full_pages,
        };
        loop {
            if self.show_page(number, &mut tour)?.is_break() {
                return Ok(());
            }
            match direction {
                Direction::Ascending if number < self.blocks.full_pages => number += 1,
                Direction::Descending if number > self.blocks.first_page() => number -= 1,
                _ => return Ok(()),
            }
        }
    }

    fn free(&self) -> Option<Room> {
        let pages = self.blocks.pages_left();
        let records = (pages * self.capacity as u64).saturating_sub(self.filling.count as u64);
        Some(Room { pages, records, surely: records })
    }

    fn records_max(&self) -> Option<u64> {
        Some(self.blocks.full_pages_max() * self.capacity as u64)
    }

    fn sync(&mut self) -> Result<(), IndexError> {
        self.usable()?;
        if self.filling.unsynced == 0 {
            return Ok(());
        }
        Ok(self.write_aside(false, false)?)
    }

    fn maintain(&mut self, _budget: u32) -> Result<u32, IndexError> {
        self.usable()?;
        self.move_weak()?;
        Ok(0)
    }

    fn scrub(&mut self, budget: u32) -> Result<u32, IndexError> {
        self.usable()?;
        Ok(self.look_on(budget)?)
    }

    fn close(&mut self) -> Result<(), IndexError> {
        self.usable()?;
        if self.filling.closed {
            return Ok(());
        }
        self.write_aside(true, false)?;
        // In two blocks, so that one of the two may be lost.
        match self.write_aside(true, true) {
            Err(error) if !error.is_worn_out() => return Err(error.into()),
            _ => {}
        }
        self.filling.closed = true;
        Ok(())
    }

    fn check(&mut self) -> Result<CheckReport, IndexError> {
        self.usable()?;
        Ok(self.check_all()?)
    }

    fn stats(&self) -> IndexStats {
        let partial = u64::from(self.blocks.aside.is_some());
        let counters = self.counters;
        let metrics = [
            ("full_pages", self.blocks.pages()),
            ("partial_programs", counters.partial_programs),
            ("spline_points", self.spline.knots() as u64),
            ("spline_thinnings", self.spline.thinnings),
            ("lookups", counters.lookups),
            ("lookup_pages", counters.lookup_pages),
            ("blocks_dropped", self.blocks.dropped),
            ("blocks_retired", self.blocks.retired.into()),
        ];
        IndexStats {
            height: 1,
            live_pages: self.blocks.pages() + partial,
            collections: self.blocks.dropped,
            metrics: metrics.map(|(name, value)| Metric { name, value }).to_vec(),
            ..IndexStats::default()
        }
    }

    fn ram_bytes(&self) -> usize {
        let buffers = self.filling.page.len() + self.read.page.len() + usize::from(self.record.key_bytes);
        size_of::<Sbits<N>>() + buffers + self.blocks.ram_bytes() + self.spline.ram_bytes()
    }
}

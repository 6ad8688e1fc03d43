//! Furrow, an index of our own for small stores: a log of changes in the blocks, and a directory in RAM that
//! knows the place of each record. It lives on two erase units.
//!
//! * **Layout** (`page`): a block has a number, and its pages a header and changes of one size, each with its
//!   own checksum. Where a chip appends words ([`Geometry::appends`](crate::Geometry::appends)) a durable
//!   change is an append to the open page; elsewhere it takes a page.
//! * **Look-up**: bisects the directory. It has four bytes of place for each record, and the first bytes of
//!   its key where there is RAM for them; where they do not tell, the key is read from the chip.
//! * **Change**: is written behind the last one. A batch is one program in one page, and counts as a whole.
//! * **Space**: blocks are used in turn. When no more than the reserve of free ones is left (one of up to
//!   seven blocks, else two), the records of the oldest block that are still current are copied into the one
//!   that is opened; the last page of copies says that all are there. Before that the block does not count.
//!   Removals are not copied: all that they hide is gone with the oldest block.
//! * **Mounting**: reads each page, and enters the changes in their order. Nothing is written behind what it
//!   found: a torn program may look erased, so the first change opens the next block. The last change found
//!   is written again there, since a torn program may also look whole.
//! * **Damage**: each page says how many changes count in the page before, each block how many pages in the
//!   block before. So whatever is missing is noticed, but for what was programmed last. A close marks a block
//!   of its own. A block of which no page counts (its only page may be torn, or its program failed) is passed
//!   over: the next one says so, and its place in the log is taken by any free block.
//!
//! Invariants (`check`):
//!
//! * L1: the keys ascend in the directory, and begin as it says.
//! * L2: each place is a change that is whole, of a block of the log.
//!
//! # Parts
//!
//! | part | owns | file |
//! |---|---|---|
//! | `Ring` | the order of the blocks | `ring.rs` |
//! | `Directory` | the places of the records | `directory.rs` |
//! | `Live` | the records that are copied | `directory.rs` |
//! | `Tail` | the page to which changes go | `write.rs` |
//!
//! Deviations: none, it is our own.

mod directory;
mod mount;
mod page;
mod ring;
#[cfg(test)]
mod tests;
mod write;

use crate::check::{CheckReport, IndexError, Invariant, Limit, message};
use crate::codec::is_blank;
use crate::fault::IndexFault;
use crate::index::require_ram;
use crate::nand::{Cause, Geometry, Nand, NandError, Reading, read_again, read_again_at};
use crate::ordered::change::{check_batch, newest_by_key};
use crate::ordered::{
    Change, Direction, Durability, IndexStats, Metric, OrderedIndex, RecordFormat, Records, Room, Visit,
};
use crate::sort;
use crate::units::Ppn;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::ops::Bound;
use directory::{Directory, Live};
use page::Shape;
use ring::Ring;
use write::Tail;

/// Bits of the number of a block.
const BLOCK_BITS: u32 = 32;
/// Blocks that a change may open before it finds room, for each block of the chip.
const ROUNDS: usize = 3;

/// Most changes of a batch: their list is not part of the RAM that is given.
const BATCH_MAX: usize = 128;
/// Bytes for each block during a mount.
const MOUNT_BYTES: usize = 8;
/// Records without a limit of RAM.
const RECORDS: usize = 16_384;
const RECORDS_MIN: usize = 4;
/// First bytes of keys in the directory, on chips that do not append.
const PREFIX: usize = 8;

/// How a furrow is formatted, mounted and run.
///
/// An example stands at [`Furrow`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub struct FurrowConfig {
    /// Sizes of the records.
    pub record: RecordFormat,
    /// The durability class wanted.
    pub durability: Durability,
    /// Bytes of RAM; `None` means whatever the directory needs.
    pub ram_bytes: Option<usize>,
    /// Most records. `None` means as many as the RAM takes, 16,384 without a limit.
    pub records: Option<usize>,
    /// First bytes of each key in RAM. `None` means none on a chip that appends, 8 on others.
    pub prefix_bytes: Option<usize>,
}

impl FurrowConfig {
    /// Every operation durable, and no limit of RAM.
    pub const fn new(record: RecordFormat) -> FurrowConfig {
        FurrowConfig {
            record,
            durability: Durability::EveryOperation,
            ram_bytes: None,
            records: None,
            prefix_bytes: None,
        }
    }
}

/// A furrow on a chip.
///
/// ```
/// # use nandex::nand::{catalogue::mlc_64m, sim::SimChip};
/// # let chip = SimChip::new(&mlc_64m().with_blocks(64))?;
/// use nandex::{Furrow, FurrowConfig, OrderedIndex, RecordFormat};
///
/// let config = FurrowConfig::new(RecordFormat::new(2, 4));
/// let mut store = Furrow::format(chip, &config)?;
/// store.insert(&[0, 7], &[1; 4])?;
/// store.close()?;
/// let mut store = Furrow::mount(store.into_nand(), &config)?;
/// assert!(store.get(&[0, 7], &mut [0; 4])?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Furrow<N> {
    nand: N,
    shape: Shape,
    every_operation: bool,
    ring: Ring,
    rows: Directory,
    live: Live,
    tail: Tail,
    /// Bytes that were read last: a change, or on a chip that does not append the page `loaded`.
    input: Vec<u8>,
    loaded: Option<Ppn>,
    scratch: Vec<u8>,
    is_interrupted: bool,
    is_closed: bool,
    is_loading: bool,
    collections: u64,
    retired: u64,
    care: Care,
}

/// Pages that become hard to read.
#[derive(Default)]
struct Care {
    /// Number of a block with such a page.
    weak: Option<u32>,
    /// Page of the log that a scrub reads next.
    page: u32,
}

impl Care {
    /// True if the block with such a page is still in the log.
    fn is_due(&self, oldest: u32) -> bool {
        self.weak.is_some_and(|weak| weak >= oldest)
    }
}

impl<N: Nand> Furrow<N> {
    fn assemble(nand: N, config: &FurrowConfig) -> Result<Furrow<N>, IndexFault> {
        let (geometry, record) = (nand.geometry(), config.record);
        let shape = Shape::new(geometry, record);
        if shape.slots == 0 {
            let what = message!("a page of {} bytes holds no record", geometry.page_bytes);
            return Err(IndexError::unsupported(what).into());
        }
        if u64::from(geometry.pages() + 1) * u64::from(shape.slots) > u64::from(u32::MAX) {
            let what = "furrow is for small stores: this chip has too many pages";
            return Err(IndexError::Unsupported(what.into()).into());
        }
        let blocks = geometry.blocks as usize;
        let usual = if geometry.appends() { 0 } else { PREFIX };
        let prefix = config.prefix_bytes.unwrap_or(usual).min(record.key_bytes.into());
        let most = most_records::<N>(config, &shape, prefix)?;
        Ok(Furrow {
            nand,
            shape,
            every_operation: config.durability == Durability::EveryOperation,
            ring: Ring::with_capacity(blocks),
            rows: Directory::new(prefix, most, config.ram_bytes.is_some()),
            live: Live::new(shape.slots, geometry.pages_per_block),
            tail: Tail::new(geometry.page_bytes as usize),
            input: vec![0xff; input_bytes(&shape)],
            loaded: None,
            scratch: vec![0; shape.slot_bytes],
            is_interrupted: false,
            is_closed: false,
            is_loading: false,
            collections: 0,
            retired: 0,
            care: Care::default(),
        })
    }

    /// Gives the chip back.
    pub fn into_nand(self) -> N {
        self.nand
    }

    fn usable(&self) -> Result<(), IndexFault> {
        if self.is_interrupted { Err(IndexError::Interrupted.into()) } else { Ok(()) }
    }

    fn ram_held(&self) -> usize {
        let buffers = self.tail.image.len() + self.input.len() + self.scratch.len();
        size_of::<Furrow<N>>()
            + buffers
            + self.ring.ram_bytes()
            + self.rows.ram_bytes()
            + self.live.ram_bytes()
            + self.nand.ram_bytes()
    }

    /// Reads a change of a block with this number into the input buffer. Returns where it begins there.
    fn load_change(
        &mut self,
        (ppn, slot): (Ppn, u32),
        number: u32,
        cause: Cause,
    ) -> Result<usize, IndexFault> {
        let (shape, at, slot_bytes) = (self.shape, self.shape.at(slot), self.shape.slot_bytes);
        let is_whole = |change: &[u8]| shape.is_whole((ppn, slot), number, change);
        let reading = if shape.geometry.appends() {
            let bytes = &mut self.input[..shape.slot_bytes];
            read_again_at(&mut self.nand, (ppn, cause, at as u32), bytes, is_whole)
        } else if self.loaded == Some(ppn)
            && cause != Cause::Check
            && is_whole(&self.input[at..][..slot_bytes])
        {
            Ok(Reading::Whole)
        } else if self.loaded == Some(ppn) && is_blank(&self.input[at..][..slot_bytes]) {
            Ok(Reading::Broken)
        } else {
            self.loaded = None;
            let is_whole = |page: &[u8], _: &[u8]| is_whole(&page[at..at + shape.slot_bytes]);
            let reading = read_again(&mut self.nand, (ppn, cause), &mut self.input, &mut [], is_whole);
            self.loaded = Some(ppn).filter(|_| matches!(reading, Ok(reading) if reading != Reading::Broken));
            reading
        };
        match reading {
            Ok(Reading::Broken) | Err(NandError::Uncorrectable(_)) => {
                Err(IndexFault::broken(Invariant::L2, "a change is not whole", ppn.0))
            }
            Err(error) => Err(error.into()),
            Ok(reading) => {
                if reading == Reading::Weak && cause == Cause::Host {
                    self.care.weak = self.care.weak.or(Some(number));
                }
                Ok(if shape.geometry.appends() { 0 } else { at })
            }
        }
    }

    /// Has the change at a place in the input buffer. Returns where it begins there.
    fn load(&mut self, place: u32, cause: Cause) -> Result<usize, IndexFault> {
        let (ppn, slot) = self.shape.split(place);
        let number = self.ring.number_of(self.shape.geometry.block_of(ppn));
        let Some(number) = number else {
            return Err(IndexFault::broken(Invariant::L2, "a record is in no block of the log", ppn.0));
        };
        self.load_change((ppn, slot), number, cause)
    }

    /// The change at a place, in the image or on the chip.
    fn change_at(&mut self, place: u32, cause: Cause) -> Result<&[u8], IndexFault> {
        let (ppn, slot) = self.shape.split(place);
        let bytes = self.shape.slot_bytes;
        if ppn == self.tail.ppn.unwrap_or(self.shape.nowhere()) && slot >= self.tail.programmed {
            let at = self.shape.at(slot);
            return Ok(&self.tail.image[at..at + bytes]);
        }
        let at = self.load(place, cause)?;
        Ok(&self.input[at..at + bytes])
    }

    /// How a key compares with the one in a row.
    fn compare(&mut self, at: usize, key: &[u8], cause: Cause) -> Result<Ordering, IndexFault> {
        let prefix = self.rows.prefix_bytes();
        let order = self.rows.prefix(at).cmp(&key[..prefix]);
        if order != Ordering::Equal || prefix == key.len() {
            return Ok(order);
        }
        let (place, shape) = (self.rows.place(at), self.shape);
        Ok(shape.key(self.change_at(place, cause)?).cmp(key))
    }

    /// The row of a key, or as the error the row where it would be.
    fn find(&mut self, key: &[u8]) -> Result<Result<usize, usize>, IndexFault> {
        let (mut low, mut high) = (0, self.rows.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            match self.compare(middle, key, Cause::Host)? {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return Ok(Ok(middle)),
            }
        }
        Ok(Err(low))
    }

    /// First row that is not below a bound, or not within it if it is the upper one.
    fn row_at(&mut self, bound: Bound<&[u8]>, is_upper: bool) -> Result<usize, IndexFault> {
        Ok(match bound {
            Bound::Unbounded => {
                if is_upper {
                    self.rows.len()
                } else {
                    0
                }
            }
            Bound::Included(key) => match self.find(key)? {
                Ok(at) => at + usize::from(is_upper),
                Err(at) => at,
            },
            Bound::Excluded(key) => match self.find(key)? {
                Ok(at) => at + usize::from(!is_upper),
                Err(at) => at,
            },
        })
    }

    /// Most records that the blocks take.
    fn blocks_take(&self) -> u64 {
        self.shape.most(self.ring.good().saturating_sub(self.ring.reserve()))
    }

    /// Refuses more records than there may be.
    fn require_room(&self, more: usize) -> Result<(), IndexFault> {
        let records = self.rows.len() + more;
        if records as u64 > self.blocks_take() {
            return Err(IndexError::Full(Limit::Blocks).into());
        }
        if records > self.rows.most() {
            return Err(IndexError::Full(Limit::Ram).into());
        }
        Ok(())
    }

    /// Runs an operation that writes. If it ends half-way, the store has to be mounted again.
    fn writing<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, IndexFault>) -> Result<T, IndexError> {
        self.usable()?;
        self.is_interrupted = true;
        let done = work(self);
        self.is_interrupted = done.as_ref().is_err_and(|error| !error.is_refusal());
        Ok(done?)
    }

    fn change(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<bool, IndexFault> {
        let found = self.find(key)?.is_ok();
        if found || value.is_some() {
            self.require_room(usize::from(!found)).or_else(|full| if found { Ok(()) } else { Err(full) })?;
            self.write(&[Change { key, value }], &mut [None])?;
        }
        Ok(found)
    }

    fn change_all(&mut self, batch: &[Change<'_>]) -> Result<(), IndexFault> {
        let mut wanted = newest_by_key(batch);
        let (mut kept, mut more, mut fewer) = (0, 0, 0);
        for at in 0..wanted.len() {
            let change = wanted[at];
            let found = self.find(change.key)?.is_ok();
            if found || change.value.is_some() {
                (more, fewer) = (more + usize::from(!found), fewer + usize::from(change.value.is_none()));
                wanted[kept] = change;
                kept += 1;
            }
        }
        wanted.truncate(kept);
        if more > fewer {
            self.require_room(more - fewer)?;
        }
        if wanted.is_empty() {
            return Ok(());
        }
        // Removals first: the directory takes no more than it may.
        sort::unstable_by(&mut wanted, |a, b| a.value.is_some().cmp(&b.value.is_some()));
        let mut before = vec![None; wanted.len()];
        self.write(&wanted, &mut before)
    }

    fn check_rows(&mut self) -> Result<CheckReport, IndexFault> {
        let mut report = CheckReport::default();
        let (mut before, shape) = (core::mem::take(&mut self.scratch), self.shape);
        let key_bytes = usize::from(shape.record.key_bytes);
        for at in 0..self.rows.len() {
            let change = self.change_at(self.rows.place(at), Cause::Check);
            let is_right = change.map(|change| {
                let key = shape.key(change);
                let ascends = at == 0 || before[..key_bytes] < *key;
                before[..key_bytes].copy_from_slice(key);
                ascends
            });
            if is_right.as_ref().is_ok_and(|ascends| !ascends || !before.starts_with(self.rows.prefix(at))) {
                report.violation(Invariant::L1, at as u64, message!("key {at} is out of order"));
            }
            if let Err(error) = is_right {
                self.scratch = before;
                return Err(error);
            }
            report.records += 1;
        }
        self.scratch = before;
        self.loaded = None;
        report.nodes = self.ring.used() as u64;
        Ok(report)
    }
}

/// Bytes that are read at a time.
fn input_bytes(shape: &Shape) -> usize {
    if shape.geometry.appends() {
        shape.slot_bytes.max(page::HEADER_BYTES)
    } else {
        shape.geometry.page_bytes as usize
    }
}

/// Most records that the RAM takes.
fn most_records<N: Nand>(config: &FurrowConfig, shape: &Shape, prefix: usize) -> Result<usize, IndexFault> {
    require_ram(config.ram_bytes)?;
    let Geometry { blocks, page_bytes, pages_per_block, .. } = shape.geometry;
    let row = Directory::row_bytes(prefix);
    let fixed = size_of::<Furrow<N>>()
        + size_of::<IndexError>()
        + page_bytes as usize
        + input_bytes(shape)
        + shape.slot_bytes
        + Live::ram_needed(shape.slots, pages_per_block)
        + blocks as usize * (size_of::<u32>() + MOUNT_BYTES);
    let chip = usize::try_from(shape.most(blocks as usize)).unwrap_or(usize::MAX);
    let holds = config.ram_bytes.map_or(RECORDS, |ram| ram.saturating_sub(fixed) / row);
    let most = config.records.map_or(holds, |records| records.max(RECORDS_MIN)).min(chip.max(RECORDS_MIN));
    match config.ram_bytes {
        Some(given) if most < RECORDS_MIN || fixed + most * row > given => {
            let needed = fixed + most.max(RECORDS_MIN) * row;
            Err(IndexError::TooLittleRam { what: "a page, the blocks and the directory", given, needed }
                .into())
        }
        _ => Ok(most),
    }
}

impl<N: Nand> OrderedIndex for Furrow<N> {
    fn record(&self) -> RecordFormat {
        self.shape.record
    }

    fn durability(&self) -> Durability {
        if self.every_operation { Durability::EveryOperation } else { Durability::EverySync }
    }

    fn get(&mut self, key: &[u8], value: &mut [u8]) -> Result<bool, IndexError> {
        self.shape.record.check(key, value)?;
        self.usable()?;
        let Ok(at) = self.find(key)? else { return Ok(false) };
        let (place, shape) = (self.rows.place(at), self.shape);
        value.copy_from_slice(shape.value(self.change_at(place, Cause::Host)?));
        Ok(true)
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, IndexError> {
        self.shape.record.check(key, value)?;
        self.writing(|store| store.change(key, Some(value)))
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, IndexError> {
        self.shape.record.check_key(key)?;
        self.writing(|store| store.change(key, None))
    }

    fn batch_max(&self) -> usize {
        BATCH_MAX.min(self.shape.slots as usize)
    }

    fn apply(&mut self, batch: &[Change<'_>]) -> Result<(), IndexError> {
        check_batch(self.shape.record, batch, self.batch_max())?;
        match batch {
            [] => Ok(()),
            [one] => self.writing(|store| store.change(one.key, one.value)).map(drop),
            _ => self.writing(|store| store.change_all(batch)),
        }
    }

    /// Inserts the records one by one. A durable change elsewhere takes a page; here they fill pages.
    fn load(&mut self, records: Records<'_, '_>) -> Result<u64, IndexError> {
        self.is_loading = true;
        let loaded = crate::ordered::change::load_one_by_one(self, records);
        self.is_loading = false;
        let synced = self.sync();
        loaded.and_then(|loaded| synced.map(|()| loaded))
    }

    fn range(
        &mut self,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), IndexError> {
        self.usable()?;
        for bound in [low, high] {
            if let Bound::Included(key) | Bound::Excluded(key) = bound {
                self.shape.record.check_key(key)?;
            }
        }
        let (mut low, mut high, shape) = (self.row_at(low, false)?, self.row_at(high, true)?, self.shape);
        while low < high {
            let at = if direction == Direction::Ascending { low } else { high - 1 };
            let change = self.change_at(self.rows.place(at), Cause::Host)?;
            if visit(shape.key(change), shape.value(change)).is_break() {
                break;
            }
            if direction == Direction::Ascending { low += 1 } else { high -= 1 }
        }
        Ok(())
    }

    fn free(&self) -> Option<Room> {
        let most = self.blocks_take().min(self.rows.most() as u64);
        let records = most.saturating_sub(self.rows.len() as u64);
        Some(Room { pages: records.div_ceil(self.shape.slots.into()), records, surely: records })
    }

    fn records_max(&self) -> Option<u64> {
        Some(self.blocks_take().min(self.rows.most() as u64))
    }

    fn sync(&mut self) -> Result<(), IndexError> {
        self.usable()?;
        if self.tail.redo.is_some() {
            return Ok(());
        }
        self.writing(|store| store.settle())
    }

    fn maintain(&mut self, _: u32) -> Result<u32, IndexError> {
        self.writing(|store| store.move_weak()).map(u32::from)
    }

    fn scrub(&mut self, budget: u32) -> Result<u32, IndexError> {
        self.writing(|store| store.look_on(budget))
    }

    fn close(&mut self) -> Result<(), IndexError> {
        self.sync()?;
        if self.is_closed {
            return Ok(());
        }
        match self.writing(|store| store.mark_closed()) {
            Err(error) if !matches!(error, IndexError::WornOut) => Err(error),
            done => {
                self.is_closed = done.is_ok();
                Ok(())
            }
        }
    }

    fn check(&mut self) -> Result<CheckReport, IndexError> {
        self.usable()?;
        Ok(self.check_rows()?)
    }

    fn stats(&self) -> IndexStats {
        let pages = self.ring.used() as u64 * u64::from(self.shape.geometry.pages_per_block);
        let metrics = [("log_pages", pages), ("blocks_retired", self.retired)];
        IndexStats {
            height: 1,
            live_pages: (self.rows.len() as u64).div_ceil(self.shape.slots.into()),
            collections: self.collections,
            metrics: metrics.map(|(name, value)| Metric { name, value }).to_vec(),
            ..IndexStats::default()
        }
    }

    fn ram_bytes(&self) -> usize {
        self.ram_held()
    }
}

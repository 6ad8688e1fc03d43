//! Long values apart from their keys, in a log of their own. An ordered index holds their places.
//!
//! A value in an index is written again whenever its page is: in a tree with each change of a neighbour, in
//! [plow](crate::ordered::plow) with each sweep. For short values this is cheap; for long ones it is most of
//! the bytes written. So a `ValueLog` divides a chip in two: an index of keys and short values, and a log of
//! blocks to which long values are appended. For a long value the index holds the places of its chunks: 4
//! bytes for each chunk, and 9 bytes before them.
//!
//! ```text
//! index   "cat" -> short "Felis catus"      "dog" -> page 17, byte 0, 900 bytes
//! log     page 17 | "dog" 900 bytes | "elk" first 3,000 bytes |     page 18 | "elk" last 500 bytes | ...
//! ```
//!
//! * **Change**: a value is cut into chunks at the ends of pages. A page of the log is programmed when it is
//!   full, and at the next sync. In the class *every operation*, and if the index may have no room for the
//!   waiting values, it is programmed with the change. Only then does the index get the place of the value.
//!   So after a power cut the index never names a chunk that is missing, and every acknowledged change can be
//!   synced.
//! * **Look-up**: a look-up of the index, and a read for each chunk. If the chip can, only the bytes of the
//!   chunk are read.
//! * **Room**: the number of live bytes of each block is known (a mount reads the index once). If few blocks
//!   are empty, the block with the fewest live bytes is *cleaned*, some pages with each page that is written:
//!   the chunks that the index still names are appended anew, and the index gets their new places. A cleaned
//!   block is erased just before it is filled again, and never before the moves are durable. There is no
//!   mark, table or checkpoint on the chip.
//! * **Mounts**: a mount does not look where the log ended, and the next page begins a block. If power cuts
//!   follow one another, each costs a block then, and cleaning may have used all that are kept for it. So
//!   with no more than one empty block the log goes on at the end of one that was left half filled: then a
//!   cut costs a page or two.
//! * **Wear**: empty blocks are filled in turn. One victim of 33 is the block filled longest ago, so that
//!   blocks of values that never change wear like the others.
//!
//! Invariants (`check`, and tests with power cuts):
//!
//! * V1: the index holds for each key a short value, or places within the log.
//! * V2: at each such place is a whole chunk with the key and the number of its place. The chunks of a value
//!   have the mark that the index holds.
//! * V3: the number of live bytes of a block is that of the chunks that the index names there.
//!
//! The separation of keys and values is that of WiscKey (Lu and others 2016). Two things differ. No tail of
//! the log is checkpointed or replayed, since the index itself is durable. And blocks are cleaned by their
//! live bytes, not by their age.

mod batch;
mod blocks;
mod check;
mod chunk;
mod clean;
mod log;
mod share;
mod tell;
// Its plow seals many pages of a small chip, which builds of less than everything refuse.
#[cfg(test)]
#[cfg(feature = "full")]
mod tests;
mod waiting;
mod walk;

use crate::check::{IndexError, message, words};
use crate::nand::{Cause, Nand};
use crate::ordered::variable::{VALUE_HEAD, Variable, require_fits};
use crate::ordered::{Durability, OrderedIndex, RecordFormat};
use alloc::vec::Vec;
use blocks::Blocks;
use chunk::{HEAD_BYTES, MARKED_ONE, PLACE_BYTES, Place, UNMARKED_ONE};
use log::{CUT_SHARE, Log};
pub use share::{log_blocks, ram_needed};
use waiting::Waiting;
use walk::{Read, read_held};

/// Smallest number of blocks of a log: those kept for cleaning, and as many again.
const BLOCKS_MIN: u32 = 2 * Blocks::KEPT;

/// Record format of an index below a [`ValueLog`]: keys of up to `max_key` bytes, and values of up to `short`
/// bytes that stay with their keys.
///
/// Panics if a key has more than 253 bytes or a short value more than 252.
pub const fn record(max_key: u8, short: u8) -> RecordFormat {
    // One byte tells the kind of value. There is always room for a place.
    let held = 1 + if short as usize > PLACE_BYTES { short as usize } else { PLACE_BYTES };
    assert!(held + VALUE_HEAD <= u8::MAX as usize, "a short value has at most 252 bytes");
    RecordFormat::variable(max_key, (held + VALUE_HEAD) as u8)
}

/// An ordered index of keys and values of any length. Long values are in a log.
///
/// ```
/// use nandex::nand::{BlockRange, catalogue::mlc_64m, sim::SimChip};
/// use nandex::ordered::value_log::{self, ValueLog};
/// use nandex::{Nand, Plow, PlowConfig};
///
/// let chip = SimChip::new(&mlc_64m())?;
/// // Keys of up to 16 bytes; values of up to 30 stay with them, and the mean one has 2,000.
/// let record = value_log::record(16, 30);
/// let blocks = value_log::log_blocks(chip.geometry(), record, 2_000);
/// let [log, keys] = BlockRange::divide(chip, blocks);
/// let plow = Plow::format(keys, &PlowConfig::new(record))?;
/// let mut pages = ValueLog::new(plow, log, 20_000)?;
///
/// pages.put(b"short", b"with its key")?;
/// pages.put(b"long", &[7; 20_000])?;
/// assert_eq!(pages.get(b"long")?, Some(vec![7; 20_000]));
/// assert!(pages.remove(b"long")? && pages.get(b"long")?.is_none());
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ValueLog<I, N> {
    index: Variable<I>,
    log: Log<N>,
    /// Values of which the index does not know yet, in the order of the changes.
    waiting: Vec<Waiting>,
    waiting_max: usize,
    max_value: usize,
    /// Largest number of bytes of a value that stays with its key.
    short: usize,
    /// The index holds a mark of a value with at least this many chunks: the mark of a single chunk takes
    /// bytes.
    marked_from: usize,
    /// Buffer for an index value.
    held: Vec<u8>,
    /// Next page that scrubbing looks at.
    scrubbed: u32,
    moved: u64,
    /// True if the index had no room to hear of a moved value, and nothing made room since.
    moves_in_vain: bool,
}

/// State and work of the log of a [`ValueLog`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub struct LogStats {
    /// Bytes of chunks that the index names, with their keys and heads.
    pub live_bytes: u64,
    /// Largest number of live bytes.
    pub capacity_bytes: u64,
    /// Values moved by cleaning.
    pub values_moved: u64,
    /// Programs that failed.
    pub programs_failed: u64,
    /// Blocks without live bytes.
    pub blocks_empty: u32,
}

impl<I: OrderedIndex, N: Nand> ValueLog<I, N> {
    /// Puts a log beside an index with records as [`record`] makes them. With a new index it begins a new
    /// log, on a range of blocks that hold nothing of use. With a mounted index it continues the log on the
    /// same range. Values have at most `max_value` bytes; that number must be the same at each mount, or
    /// larger.
    ///
    /// Reads the index once. Refused if the places of a value of `max_value` bytes take more pieces than the
    /// index changes as one, and on fewer than six blocks, counting failed ones. Failed blocks are read all
    /// the same, and values that find no room are refused.
    pub fn new(index: I, nand: N, max_value: usize) -> Result<ValueLog<I, N>, IndexError> {
        let record = index.record();
        let log = Log::new(nand)?;
        // Bad blocks count: pages written before they failed are read all the same.
        let has = log.geometry.blocks;
        if has < BLOCKS_MIN {
            return Err(IndexError::ChipTooSmall { who: words("a log of values"), needs: BLOCKS_MIN, has });
        }
        let page = log.page_bytes();
        let chunk =
            page.checked_sub(HEAD_BYTES + usize::from(record.key_bytes) + 1).filter(|_| page <= 1 << 16);
        let Some(chunk) = chunk else {
            let what = message!(
                "a log of values on pages of {page} bytes: up to 65536 are possible, and a key must fit"
            );
            return Err(IndexError::Unsupported(what.into()));
        };
        let short = usize::from(record.value_bytes).saturating_sub(VALUE_HEAD + 1);
        let held = (1 + share::places(max_value, chunk) * PLACE_BYTES).max(1 + short);
        let index = Variable::new(index, held)?;
        let takes_mark_of_one = index.pieces_of(MARKED_ONE) == index.pieces_of(UNMARKED_ONE);
        let waiting_max = share::waiting_max(page, short);
        let mut values = ValueLog {
            index,
            log,
            waiting: Vec::with_capacity(waiting_max + 1),
            waiting_max,
            max_value,
            short,
            marked_from: if takes_mark_of_one { 1 } else { 2 },
            held: Vec::new(),
            scrubbed: 0,
            moved: 0,
            moves_in_vain: false,
        };
        let most = values.capacity_of(has) / 2;
        if max_value as u64 > most {
            let what = message!("values of {max_value} bytes: this log takes up to {most}");
            return Err(IndexError::Unsupported(what.into()));
        }
        values.find_live()?;
        Ok(values)
    }

    /// Adds a log to a newly formatted index, as [`ValueLog::new`] does.
    ///
    /// Also refused if the index has no room for the places of a single value of `max_value` bytes. Then give
    /// the index more of the chip's blocks.
    pub fn format(index: I, nand: N, max_value: usize) -> Result<ValueLog<I, N>, IndexError> {
        let values = ValueLog::new(index, nand, max_value)?;
        values.index.require_room()?;
        Ok(values)
    }

    /// Largest number of bytes of a key.
    pub fn max_key(&self) -> usize {
        self.index.max_key()
    }

    /// Largest number of bytes of a value.
    pub const fn max_value(&self) -> usize {
        self.max_value
    }

    /// Durability class of the index below.
    pub fn durability(&self) -> Durability {
        self.index.durability()
    }

    /// Returns the index below, for its statistics.
    pub const fn index(&self) -> &I {
        self.index.index()
    }

    /// Gives back the index below and the chip of the log. Changes not synced are lost.
    pub fn into_parts(self) -> (I, N) {
        (self.index.into_inner(), self.log.nand)
    }

    /// State of the log.
    pub fn log_stats(&self) -> LogStats {
        LogStats {
            live_bytes: self.log.blocks.live() + self.log.used as u64,
            capacity_bytes: self.capacity(),
            values_moved: self.moved,
            programs_failed: self.log.programs_failed,
            blocks_empty: self.log.blocks.empty(),
        }
    }

    /// Bytes of RAM held.
    pub fn ram_bytes(&self) -> usize {
        let waiting: usize = self.waiting.iter().map(Waiting::ram_bytes).sum();
        size_of::<Self>() - size_of::<Variable<I>>() - size_of::<N>()
            + self.index.index().ram_bytes()
            + self.log.ram_bytes()
            + self.waiting.capacity() * size_of::<Waiting>()
            + waiting
            + self.held.capacity()
    }

    /// Returns the value of a key.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, IndexError> {
        let mut value = Vec::new();
        Ok(self.get_into(key, &mut value)?.then_some(value))
    }

    /// Looks a key up. If it is present, its value replaces the contents of `value`, and the answer is true.
    pub fn get_into(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, IndexError> {
        require_fits("key", key, self.max_key())?;
        value.clear();
        if let Some(waiting) = self.waiting.iter().rev().find(|waiting| waiting.is_value_of(key)) {
            waiting.read(&mut self.log, Cause::Host, value)?;
            return Ok(true);
        }
        if !self.index.get_into(key, &mut self.held)? {
            return Ok(false);
        }
        read_held(&mut self.log, key, &self.held, Read::Chunks, value)?;
        Ok(true)
    }

    /// Inserts a record, or gives an existing key a new value. Returns whether the key existed.
    pub fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, IndexError> {
        let existed = self.contains(key)?;
        self.put(key, value)?;
        Ok(existed)
    }

    /// Gives a key a value. The index is asked for the old value, so that the log knows which chunks die.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), IndexError> {
        require_fits("key", key, self.max_key())?;
        require_fits("value", value, self.max_value)?;
        if value.len() <= self.short {
            return self.put_short(key, value);
        }
        self.settle()?;
        self.make_room(&[key], value.len())?;
        self.append(key, value)?;
        let may_wait = !self.is_every_operation() && self.waiting.len() < self.waiting_max;
        if !may_wait || !self.index_takes_what_waits() {
            let settled = self.flush();
            if settled.is_err() {
                // The waiting value of the key from before is still needed.
                self.waiting.pop().into_iter().for_each(|value| value.give_up(&mut self.log));
                return settled;
            }
        }
        self.forget_older(key);
        Ok(())
    }

    /// Removes a key. Returns whether it existed.
    pub fn remove(&mut self, key: &[u8]) -> Result<bool, IndexError> {
        require_fits("key", key, self.max_key())?;
        let waited = self.waiting.iter().any(|waiting| waiting.is_value_of(key));
        self.tell_before_a_change()?;
        let before = self.places_of(key)?;
        if before.is_some() {
            self.index.remove(key)?;
            self.moves_in_vain = false;
        }
        self.forget(key);
        self.release(key, before.as_deref().unwrap_or_default());
        Ok(waited || before.is_some())
    }

    /// Makes every acknowledged operation survive a power cut.
    pub fn sync(&mut self) -> Result<(), IndexError> {
        self.flush()?;
        self.index.sync()?;
        self.log.blocks.synced();
        Ok(())
    }

    /// Syncs, and leaves the medium so that the next mount is cheapest.
    pub fn close(&mut self) -> Result<(), IndexError> {
        self.flush()?;
        self.index.close()?;
        self.log.blocks.synced();
        Ok(())
    }

    fn is_every_operation(&self) -> bool {
        self.durability() == Durability::EveryOperation
    }

    /// Largest number of live bytes: all blocks but those kept for cleaning, without the rest that may be
    /// left at the end of each page, and less a 16th, so that cleaning finds room.
    fn capacity(&self) -> u64 {
        self.capacity_of(self.log.blocks.good())
    }

    fn capacity_of(&self, good: u32) -> u64 {
        let page = self.log.page_bytes();
        let end = (page / CUT_SHARE).max(HEAD_BYTES + self.max_key() + 1);
        let pages = good.saturating_sub(Blocks::KEPT) * self.log.geometry.pages_per_block;
        u64::from(pages) * page.saturating_sub(end) as u64 / 16 * 15
    }

    fn contains(&mut self, key: &[u8]) -> Result<bool, IndexError> {
        require_fits("key", key, self.max_key())?;
        let is_waiting = self.waiting.iter().any(|waiting| waiting.is_value_of(key));
        Ok(is_waiting || self.index.get_into(key, &mut self.held)?)
    }

    /// Places of the index's value for a key, empty for a short value. `None` if the index holds nothing.
    fn places_of(&mut self, key: &[u8]) -> Result<Option<Vec<Place>>, IndexError> {
        if !self.index.get_into(key, &mut self.held)? {
            return Ok(None);
        }
        Ok(Some(self.log.decode(key, &self.held)?.places().collect()))
    }

    /// Counts off dead chunks at these places.
    fn release(&mut self, key: &[u8], places: &[Place]) {
        let is_durable = self.is_every_operation();
        places.iter().for_each(|&place| self.log.blocks.release(place, key.len(), is_durable));
    }
}

//! Log buffer, which both VMTrees may have: records wait in RAM and are then entered together.
//!
//! Without a log buffer every operation is durable. With one of `log_pages` pages an insertion or a removal
//! is noted in RAM. When the buffer is full, or at a sync, all changes are entered in key order as one
//! operation, so a mount finds the state of the last sync or a later one. (The published program enters them
//! one by one, and promises nothing.) The room that a full buffer may take on the chip is kept free: an
//! insertion beyond it is refused as `Full`, and none that was accepted fails later.

use crate::check::{CheckReport, IndexError, message};
use crate::fault::IndexFault;
use crate::ordered::buffered::{Answers, Between, Merge};
use crate::ordered::change::{Change, change_one, check_batch, newest_by_key};
use crate::ordered::{
    Direction, Durability, IndexStats, Metric, OrderedIndex, RecordFormat, Room, Tour, Visit, entries_within,
};
use crate::sort;
use alloc::vec::Vec;
use core::ops::Bound;

/// A tree that applies several changes as one operation. Without a log buffer every operation of it is
/// durable.
pub trait TakesBatches: OrderedIndex {
    /// True if changes that add no record take the room of removals.
    const REPLACES_IN_ROOM: bool;

    /// Refuses a tree that cannot be used any more.
    fn usable(&self) -> Result<(), IndexFault>;

    /// Makes room for `changes` changes at once. `Full` if there is none.
    fn make_room_for_batch(&mut self, changes: usize, have_inserts: bool) -> Result<(), IndexFault>;

    /// Applies changes of different keys, in key order. A mount finds all of them or none. Room must have
    /// been made before. A refused batch leaves the tree as it was.
    fn apply_batch(&mut self, changes: &[Change<'_>]) -> Result<Entered, IndexFault>;

    /// Tells whether the tree holds a key, at the cost of an update's descent.
    fn holds(&mut self, key: &[u8]) -> Result<bool, IndexFault>;

    /// Looks for a key as a checker does: nothing is counted, and no copy of a node is replaced.
    fn peek_key(&mut self, key: &[u8]) -> Result<bool, IndexFault>;
}

/// Place of the changes of a batch that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entered {
    /// The changes are in the tree.
    All,
    /// The changes are on the chip beside the tree, which takes no more changes. They wait in RAM until the
    /// next mount applies them.
    Waits,
}

/// Tree with a log buffer, which has room for 0 records if none was configured.
pub struct Logged<T> {
    pub(super) tree: T,
    waiting: Waiting,
    answers: Answers,
    flushes: u64,
}

/// Changes in key order. Each is a key, a byte that is 1 for an insertion, and a value.
pub(super) struct Waiting {
    record: RecordFormat,
    capacity: usize,
    bytes: Vec<u8>,
}

impl Waiting {
    /// Makes a buffer of as many records as `log_pages` pages of this size hold. An error if every operation
    /// is to be durable.
    pub(super) fn new(
        record: RecordFormat,
        log_pages: u32,
        (durability, page_bytes): (Durability, u32),
    ) -> Result<Waiting, IndexFault> {
        if log_pages > LOG_PAGES_MAX {
            let what = message!("log_pages = {log_pages}: 0 to {LOG_PAGES_MAX} are possible");
            return Err(IndexError::Unsupported(what.into()).into());
        }
        if log_pages > 0 && durability == Durability::EveryOperation {
            return Err(IndexError::unsupported(message!(
                "log_pages = {log_pages} makes the tree durable at every sync only, and every operation is asked for"
            )).into());
        }
        let capacity = log_pages as usize * page_bytes as usize / record.entry_bytes();
        let bytes = Vec::with_capacity(capacity * (record.entry_bytes() + 1));
        Ok(Waiting { record, capacity, bytes })
    }

    /// Number of records that the buffer holds.
    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Takes over changes that a mount found and the tree cannot take.
    pub(super) fn take_over(&mut self, changes: Vec<u8>) {
        debug_assert!(changes.len().is_multiple_of(self.entry_bytes()), "changes of the records' size");
        if !changes.is_empty() {
            self.bytes = changes;
        }
    }

    /// Bytes of RAM of the buffered records, and of the list of them that is passed to the tree.
    pub(super) fn ram_bytes(&self) -> usize {
        self.capacity * (self.entry_bytes() + size_of::<Change<'_>>())
    }

    fn entry_bytes(&self) -> usize {
        self.record.entry_bytes() + 1
    }

    fn len(&self) -> usize {
        self.bytes.len() / self.entry_bytes()
    }

    fn get(&self, i: usize) -> Change<'_> {
        debug_assert!(i < self.len(), "change {i} of {} that wait", self.len());
        let entry = &self.bytes[i * self.entry_bytes()..(i + 1) * self.entry_bytes()];
        decoded(entry, self.record.key_bytes.into())
    }

    fn search(&self, key: &[u8]) -> Result<usize, usize> {
        let found = sort::search(0..self.len(), |i| self.get(i).key.cmp(key));
        let Err(place) = found else { return found };
        debug_assert!(
            place == 0 || self.get(place - 1).key < key,
            "the change before place {place} is not below"
        );
        debug_assert!(
            place == self.len() || self.get(place).key > key,
            "the change at place {place} is not above"
        );
        found
    }

    fn note(&mut self, change: Change<'_>) {
        debug_assert_eq!(change.key.len(), usize::from(self.record.key_bytes), "a key of another width");
        let size = self.entry_bytes();
        let (at, replaced) = match self.search(change.key) {
            Ok(i) => (i * size, size),
            Err(i) => (i * size, 0),
        };
        self.bytes.splice(at..at + replaced, encoded(change, size));
        debug_assert!(self.bytes.len().is_multiple_of(size), "a change of another size waits");
    }
}

/// A change in so many bytes.
pub(super) fn encoded(change: Change<'_>, entry_bytes: usize) -> impl Iterator<Item = u8> {
    let (key, value) = (change.key, change.value.unwrap_or(&[]));
    let padding = entry_bytes - key.len() - 1 - value.len();
    debug_assert!(change.value.is_none() || padding == 0, "a value of another width");
    let kind = u8::from(change.value.is_some());
    let bytes = key.iter().copied().chain([kind]).chain(value.iter().copied());
    bytes.chain(core::iter::repeat_n(0, padding))
}

/// The change in these bytes.
pub(super) fn decoded(entry: &[u8], key_bytes: usize) -> Change<'_> {
    let (key, rest) = entry.split_at(key_bytes);
    Change { key, value: (rest[0] == 1).then_some(&rest[1..]) }
}

/// Most changes of a batch: the pages that they replace stay until its end.
const BATCH_MAX: usize = 256;

/// Largest number of pages of a log buffer.
pub const LOG_PAGES_MAX: u32 = 1024;

impl<T: TakesBatches> Logged<T> {
    pub(super) fn new(tree: T, waiting: Waiting, answers: Answers) -> Logged<T> {
        Logged { tree, waiting, answers, flushes: 0 }
    }

    fn note(&mut self, key: &[u8], value: Option<&[u8]>, answers: Answers) -> Result<bool, IndexFault> {
        self.tree.usable()?;
        let waits = self.waiting.search(key).ok().map(|i| self.waiting.get(i).value.is_some());
        if waits.is_none() && self.waiting.len() == self.waiting.capacity {
            self.flush()?;
        }
        match self.tree.make_room_for_batch(self.waiting.len() + 1, value.is_some()) {
            // The waiting changes go first; they have their room.
            Err(error) if error.is_full() && self.tree.usable().is_ok() => {
                self.flush()?;
                self.make_room(&[Change { key, value }])?;
            }
            other => other?,
        }
        let existed = match (waits, answers) {
            (Some(existed), _) => existed,
            (None, Answers::Pool) => false,
            (None, Answers::Exact) => self.tree.holds(key)?,
        };
        if value.is_some() || existed || answers == Answers::Pool {
            self.waiting.note(Change { key, value });
        }
        Ok(existed)
    }

    /// Makes room for changes while none wait. Those that replace records are not refused for want of the
    /// room of new ones.
    fn make_room(&mut self, changes: &[Change<'_>]) -> Result<(), IndexFault> {
        debug_assert_eq!(self.waiting.len(), 0, "what waits has its room first");
        let mut puts = changes.iter().filter(|change| change.value.is_some());
        let has_inserts = puts.clone().next().is_some();
        let refused = match self.tree.make_room_for_batch(changes.len(), has_inserts) {
            Err(error) if error.is_full() && has_inserts && T::REPLACES_IN_ROOM => error,
            made => return made,
        };
        self.tree.usable()?;
        let are_there =
            puts.try_fold(true, |all, put| Ok::<_, IndexFault>(all && self.tree.holds(put.key)?))?;
        if are_there { self.tree.make_room_for_batch(changes.len(), false) } else { Err(refused) }
    }

    /// Enters the waiting changes as one operation.
    fn flush(&mut self) -> Result<(), IndexFault> {
        if self.waiting.len() == 0 {
            return Ok(());
        }
        self.tree.make_room_for_batch(self.waiting.len(), false)?;
        let changes: Vec<Change<'_>> = (0..self.waiting.len()).map(|i| self.waiting.get(i)).collect();
        if self.tree.apply_batch(&changes)? == Entered::Waits {
            return Err(IndexError::WornOut.into());
        }
        self.waiting.bytes.clear();
        debug_assert_eq!(self.waiting.len(), 0, "changes wait that were applied");
        self.flushes += 1;
        Ok(())
    }
}

impl<T: TakesBatches> OrderedIndex for Logged<T> {
    fn durability(&self) -> Durability {
        if self.waiting.capacity == 0 { self.tree.durability() } else { Durability::EverySync }
    }

    fn get(&mut self, key: &[u8], value: &mut [u8]) -> Result<bool, IndexError> {
        if self.waiting.bytes.is_empty() {
            return self.tree.get(key, value);
        }
        self.record().check(key, value)?;
        match self.waiting.search(key) {
            Ok(i) => {
                let waiting = self.waiting.get(i).value;
                waiting.inspect(|bytes| value.copy_from_slice(bytes));
                Ok(waiting.is_some())
            }
            Err(_) => self.tree.get(key, value),
        }
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, IndexError> {
        if self.waiting.capacity == 0 {
            return self.tree.insert(key, value);
        }
        self.record().check(key, value)?;
        Ok(self.note(key, Some(value), self.answers)?)
    }

    /// Puts without a look at the tree, if there is a log buffer.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), IndexError> {
        if self.waiting.capacity == 0 {
            return self.tree.put(key, value);
        }
        self.record().check(key, value)?;
        Ok(self.note(key, Some(value), Answers::Pool).map(drop)?)
    }

    fn batch_max(&self) -> usize {
        BATCH_MAX
    }

    fn takes_batch(&self, changes: usize) -> Option<bool> {
        self.tree.takes_batch(changes)
    }

    /// Waiting changes go first, so that the batch is one operation of the tree.
    fn apply(&mut self, batch: &[Change<'_>]) -> Result<(), IndexError> {
        if let [one] = batch {
            return change_one(self, *one);
        }
        self.tree.usable()?;
        check_batch(self.record(), batch, BATCH_MAX)?;
        self.flush()?;
        let changes = newest_by_key(batch);
        if changes.is_empty() {
            return Ok(());
        }
        self.make_room(&changes)?;
        if self.tree.apply_batch(&changes)? == Entered::Waits {
            changes.iter().for_each(|change| self.waiting.note(*change));
        }
        Ok(())
    }

    crate::forward_index!(tree: maintain, scrub, records_max, record);

    fn free(&self) -> Option<Room> {
        let (room, waiting) = (self.tree.free()?, self.waiting.len() as u64);
        Some(room.without(waiting))
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, IndexError> {
        if self.waiting.capacity == 0 {
            return self.tree.remove(key);
        }
        self.record().check_key(key)?;
        Ok(self.note(key, None, self.answers)?)
    }

    fn range(
        &mut self,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), IndexError> {
        if self.waiting.bytes.is_empty() {
            return self.tree.range(low, high, direction, visit);
        }
        let tour = Tour { bounds: (low, high), direction, visit };
        tour.check(self.record())?;
        let Logged { waiting, tree, .. } = self;
        let left = entries_within(tour.bounds, waiting.len(), |key| waiting.search(key));
        let pending = Between { left, direction, change: &|i| waiting.get(i) };
        Merge::new(pending, tour).walk(|visit| tree.range(low, high, direction, visit))
    }

    fn sync(&mut self) -> Result<(), IndexError> {
        self.flush()?;
        self.tree.sync()
    }

    fn close(&mut self) -> Result<(), IndexError> {
        self.flush()?;
        self.tree.close()
    }

    fn check(&mut self) -> Result<CheckReport, IndexError> {
        let mut report = self.tree.check()?;
        for i in 0..self.waiting.len() {
            let change = self.waiting.get(i);
            match (self.tree.peek_key(change.key)?, change.value.is_some()) {
                (false, true) => report.records += 1,
                (true, false) => report.records -= 1,
                _ => {}
            }
        }
        Ok(report)
    }

    fn stats(&self) -> IndexStats {
        let mut stats = self.tree.stats();
        if self.waiting.capacity > 0 {
            stats.metrics.extend([
                Metric { name: "log_records", value: self.waiting.len() as u64 },
                Metric { name: "log_records_max", value: self.waiting.capacity as u64 },
                Metric { name: "log_flushes", value: self.flushes },
            ]);
        }
        stats
    }

    fn ram_bytes(&self) -> usize {
        size_of::<Self>() - size_of::<T>() + self.waiting.ram_bytes() + self.tree.ram_bytes()
    }
}

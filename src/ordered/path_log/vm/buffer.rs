//! The log buffer, which both trees may have: records wait in RAM and are then entered together.
//!
//! Without a log buffer every operation is durable. With one of `log_pages` pages an insertion or a removal
//! is noted in RAM; when the buffer is full, or at a sync, all of them are entered in key order as one
//! operation, so a mount finds the state of the last sync or a later one that once was. (The published
//! program enters them one by one, and promises nothing.) Whatever a full buffer may take of the chip is kept
//! free: an insertion that it would no longer hold is refused as `Full`, and none that was accepted fails
//! later.

use crate::check::{CheckReport, IndexError, message};
use crate::fault::IndexFault;
use crate::ordered::buffered::{Answers, Merge, Pending};
use crate::ordered::change::{Change, change_one, check_batch, newest_by_key};
use crate::ordered::{
    Direction, Durability, IndexStats, Metric, OrderedIndex, RecordFormat, Room, Visit, within,
};
use crate::sort;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::ops::{Bound, ControlFlow};

/// A tree that enters several changes as one operation. Without them every operation of it is durable.
pub trait TakesBatches: OrderedIndex {
    /// Whether the tree may be used still.
    fn usable(&self) -> Result<(), IndexFault>;

    /// Makes room for so many changes at once; `Full` when there is none.
    fn make_room_for_batch(&mut self, changes: usize, have_inserts: bool) -> Result<(), IndexFault>;

    /// Enters changes of different keys, in the order of the keys; a mount finds all of them or none. The
    /// room was made. A refusal leaves the tree as it was.
    fn apply_batch(&mut self, changes: &[Change<'_>]) -> Result<Entered, IndexFault>;

    /// Whether the tree holds a key, at the cost of an update's descent.
    fn holds(&mut self, key: &[u8]) -> Result<bool, IndexFault>;

    /// Looks for a key as a checker does: nothing is counted and no copy of a node is replaced.
    fn peek_key(&mut self, key: &[u8]) -> Result<bool, IndexFault>;
}

/// Where the changes of a batch are that was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entered {
    /// In the tree.
    All,
    /// On the chip beside the tree, which takes them no more: until the next mount, which finds them there,
    /// they wait in RAM.
    Waits,
}

/// A tree with a log buffer, of no records if none was asked for.
pub struct Logged<T> {
    pub(super) tree: T,
    waiting: Waiting,
    answers: Answers,
    flushes: u64,
}

/// Changes in key order, each a key, a byte that is 1 for an insertion, and a value.
pub(super) struct Waiting {
    record: RecordFormat,
    capacity: usize,
    bytes: Vec<u8>,
}

impl Waiting {
    /// A buffer of as many records as `log_pages` pages of this size hold; none where every operation is to
    /// be durable.
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

    /// Records that it holds.
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

    /// RAM of the records, and of the list of them that the tree is given.
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
        let (key, rest) = entry.split_at(usize::from(self.record.key_bytes));
        Change { key, value: (rest[0] == 1).then_some(&rest[1..]) }
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
        let value_bytes = usize::from(self.record.value_bytes);
        debug_assert!(
            change.value.is_none_or(|value| value.len() == value_bytes),
            "a value of another width"
        );
        let kind = u8::from(change.value.is_some());
        let value = change.value.unwrap_or(&[]).iter().copied();
        let entry = change.key.iter().copied().chain([kind]).chain(value);
        let padding = if change.value.is_some() { 0 } else { value_bytes };
        let entry = entry.chain(core::iter::repeat_n(0, padding));
        self.bytes.splice(at..at + replaced, entry);
        debug_assert!(self.bytes.len().is_multiple_of(size), "a change of another size waits");
    }
}

/// Changes of a batch at most: what they replace stays until its end.
const BATCH_MAX: usize = 256;

/// Pages of a log buffer at most.
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
            // What waits goes first; it has its room.
            Err(error) if error.is_full() && self.waiting.len() > 0 => {
                self.flush()?;
                self.tree.make_room_for_batch(1, value.is_some())?;
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

    /// Enters what waits as one operation.
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

    /// Where records wait in the log buffer, the tree is not asked.
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

    /// Changes that wait go first, so that the batch is one operation of the tree.
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
        let has_inserts = changes.iter().any(|change| change.value.is_some());
        self.tree.make_room_for_batch(changes.len(), has_inserts)?;
        if self.tree.apply_batch(&changes)? == Entered::Waits {
            changes.iter().for_each(|change| self.waiting.note(*change));
        }
        Ok(())
    }

    crate::forward_index!(tree: maintain, scrub, record);

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
        for bound in [low, high] {
            if let Bound::Included(key) | Bound::Excluded(key) = bound {
                self.record().check_key(key)?;
            }
        }
        let pending = Within::new(&self.waiting, (low, high), direction);
        let mut merge = Merge { pending, direction, visit };
        let mut flow = ControlFlow::Continue(());
        self.tree.range(low, high, direction, &mut |key, value| {
            flow = merge.record(key, value);
            flow
        })?;
        if flow.is_continue() {
            let _ended = merge.rest();
        }
        Ok(())
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

/// The changes between two bounds that were not shown yet.
struct Within<'a> {
    waiting: &'a Waiting,
    direction: Direction,
    /// The changes not shown: from the first to before the second.
    left: (usize, usize),
}

impl<'a> Within<'a> {
    fn new(waiting: &'a Waiting, bounds: (Bound<&[u8]>, Bound<&[u8]>), direction: Direction) -> Within<'a> {
        let place = |i: &usize| within(waiting.get(*i).key, bounds);
        let start = (0..waiting.len()).find(|i| place(i) != Ordering::Less).unwrap_or(waiting.len());
        let inside = (start..waiting.len()).take_while(|i| place(i) == Ordering::Equal).count();
        Within { waiting, direction, left: (start, start + inside) }
    }
}

impl Pending for Within<'_> {
    fn peek(&self) -> Option<Change<'_>> {
        let (from, to) = self.left;
        let next = if self.direction == Direction::Ascending { from } else { to.wrapping_sub(1) };
        (from < to).then(|| self.waiting.get(next))
    }

    fn advance(&mut self) {
        debug_assert!(self.left.0 < self.left.1, "nothing waits beyond");
        match self.direction {
            Direction::Ascending => self.left.0 += 1,
            Direction::Descending => self.left.1 -= 1,
        }
    }
}

//! Reading the records of a journal back, and doing again what the index below lost.
//!
//! Of several records for a key only the last counts, and of these only those that differ from what the index
//! holds are *owed* (`owed.rs`). They are carried out, removals first: as a rule these are the updates that
//! its buffer held at the cut, and they find the room that they had. What the index refuses goes on being
//! owed, so a mount never fails for want of room. Where the store itself refuses a write, the index below may
//! have stopped half-way: it is opened once more, as after a cut, and then nothing is carried out. Reading
//! the journal takes RAM as much as its pages, until it is known what is owed.

use super::owed::Owed;
use super::page::{change_of, record_of};
use super::writer::Guarded;
use super::writer::Writer;
use super::{Below, Buffered, Journaled};
use crate::check::IndexError;
use crate::ordered::OrderedIndex;
use crate::ordered::change::Change;
use crate::record_log::{Header, Layout};
use crate::sort;
use crate::store::{PageStore, StoreError};
use alloc::vec;
use alloc::vec::Vec;

/// The records of an epoch, oldest first.
pub(super) struct Run {
    layout: Layout,
    /// The changes of each page, of which all but the last are full: a row that grows is held twice.
    pages: Vec<Vec<u8>>,
}

impl Run {
    /// Reads the run that begins with this page, and makes the journal go on after it.
    pub(super) fn read<S: PageStore>(journal: &mut Writer<S>, first: Header) -> Result<Run, IndexError> {
        let mut run = Run { layout: journal.layout(), pages: Vec::new() };
        journal.resume(first, &mut |records| run.pages.push(records.to_vec()))?;
        Ok(run)
    }

    fn len(&self) -> usize {
        let Some(last) = self.pages.last() else { return 0 };
        debug_assert!(last.len().is_multiple_of(self.layout.record_bytes), "J1: a record is cut short");
        (self.pages.len() - 1) * self.layout.page_records + last.len() / self.layout.record_bytes
    }

    fn change(&self, at: usize) -> Change<'_> {
        debug_assert!(at < self.len(), "J1: record {at} of {}", self.len());
        let (bytes, per_page) = (self.layout.record_bytes, self.layout.page_records);
        let record = &self.pages[at / per_page][at % per_page * bytes..][..bytes];
        change_of(record_of(&self.layout), record)
    }

    /// The updates among the first `count` that an index lacks.
    fn owed(&self, index: &mut impl OrderedIndex, count: usize) -> Result<Owed, IndexError> {
        let mut value = vec![0; record_of(&self.layout).value_bytes.into()];
        let mut owed = Owed::default();
        for at in self.newest(count) {
            let change = self.change(at as usize);
            if differs(index, change, &mut value)? {
                owed.owe(at.into(), change);
            }
        }
        Ok(owed)
    }

    /// The last of the first `count` records for each key, in key order.
    fn newest(&self, count: usize) -> Vec<u32> {
        debug_assert!(count <= self.len(), "J1: {count} records of {}", self.len());
        let mut order: Vec<u32> = (0..count as u32).collect();
        let key = |at: u32| self.change(at as usize).key;
        sort::unstable_by(&mut order, |&a, &b| key(a).cmp(key(b)).then(b.cmp(&a)));
        order.dedup_by(|a, b| key(*a) == key(*b));
        order
    }
}

/// Whether an index does not hold what a change says.
fn differs(index: &mut impl OrderedIndex, change: Change<'_>, value: &mut [u8]) -> Result<bool, IndexError> {
    let found = index.get(change.key, value)?;
    Ok(found.then_some(&*value) != change.value)
}

/// Carries a change out; whether the key existed.
pub(super) fn apply(index: &mut impl OrderedIndex, change: Change<'_>) -> Result<bool, IndexError> {
    match change.value {
        Some(value) => index.insert(change.key, value),
        None => index.remove(change.key),
    }
}

/// Carries a change out without asking whether its key existed, where it puts a value.
pub(super) fn apply_blind(index: &mut impl OrderedIndex, change: Change<'_>) -> Result<bool, IndexError> {
    match change.value {
        Some(value) => index.put(change.key, value).map(|()| false),
        None => index.remove(change.key),
    }
}

impl<S: PageStore + 'static, T: Buffered<Below>> Journaled<S, T> {
    /// Carries out what the records of a run say and the index below has not.
    pub(super) fn replay(&mut self, run: Run) -> Result<(), IndexError> {
        self.owed = run.owed(&mut self.inner, run.len())?;
        drop(run);
        let owed = self.owed.len();
        self.pay()?;
        self.journal.lock().counts.replayed_records = (owed - self.owed.len().min(owed)) as u64;
        Ok(())
    }

    /// Carries out what is owed, until the index below refuses something.
    pub(super) fn pay(&mut self) -> Result<(), IndexError> {
        for is_put in [false, true] {
            let mut after: Option<Vec<u8>> = None;
            while let Some((key, value)) = self.owed.next(is_put, after.as_deref()) {
                let change = Change { key: &key, value: value.as_deref() };
                match self.below(|inner| apply(inner, change)) {
                    Ok(_) => self.owed.settle(&key),
                    Err((_, Some(refusal))) => return self.revive(&refusal, 0),
                    Err((error, None)) if error.is_refusal() => return Ok(()),
                    Err((error, None)) => return Err(error),
                }
                after = Some(key);
            }
        }
        Ok(())
    }

    /// Opens the index below once more, after the store refused a write that it needed: it has what the
    /// medium has of it. What it lacks is owed, but for the newest records that do not count.
    pub(super) fn revive(&mut self, refusal: &StoreError, uncounted: usize) -> Result<(), IndexError> {
        if *refusal == StoreError::WornOut {
            self.is_worn_out = true;
        }
        self.journal.lock().forget_heard();
        let inner = T::mount_after_cut(Guarded::boxed(&self.journal), self.config.clone())?;
        let mut journal = self.journal.lock();
        let mut run = Run { layout: journal.layout(), pages: Vec::new() };
        journal.records(&mut |records| run.pages.push(records.to_vec()))?;
        drop(journal);
        self.inner = inner;
        self.owed = run.owed(&mut self.inner, run.len() - uncounted)?;
        self.journal.lock().take_refusal();
        Ok(())
    }
}

//! Finding a journal on its store, reading its records back, and doing again what the index below lost.
//!
//! All pages are read once. Of several records for a key only the last counts, and of these only those that differ from
//! what the index holds are applied, removals first: these are the updates that its buffer held at the cut, so they find
//! the room that they had. Until it is done the records take RAM, as much as they take pages, and 4 bytes each.

use super::page::{change_of, record_of};
use super::writer::Writer;
use crate::check::IndexError;
use crate::ftl::PageStore;
use crate::log::records::{Header, Layout};
use crate::ordered::OrderedIndex;
use crate::ordered::bplus::Change;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::RefCell;

/// The records of an epoch as the medium has them, oldest first.
pub(super) struct Run {
    layout: Layout,
    records: Vec<u8>,
}

impl Run {
    /// Reads the run that begins with this page, and makes the journal go on after it.
    pub(super) fn read<S: PageStore>(journal: &mut Writer<S>, first: Header) -> Result<Run, IndexError> {
        let mut run = Run { layout: journal.layout(), records: Vec::new() };
        journal.resume(first, &mut |records| run.records.extend_from_slice(records))?;
        Ok(run)
    }

    fn len(&self) -> usize {
        self.records.len() / self.layout.record_bytes
    }

    fn change(&self, at: usize) -> Change<'_> {
        let bytes = self.layout.record_bytes;
        change_of(record_of(&self.layout), &self.records[at * bytes..][..bytes])
    }

    /// Applies to an index what its records say. The last update may have been in flight and have no room: it is taken
    /// back.
    pub(super) fn replay<S: PageStore>(
        &self,
        index: &mut impl OrderedIndex,
        journal: &RefCell<Writer<S>>,
    ) -> Result<(), IndexError> {
        let Some(last) = self.len().checked_sub(1) else { return Ok(()) };
        let mut value = vec![0; record_of(&self.layout).value_bytes.into()];
        let mut lost = self.newest(last);
        let mut failed = None;
        lost.retain(|&at| match differs(index, self.change(at as usize), &mut value) {
            Ok(differs) => differs,
            Err(error) => {
                failed = Some(error);
                false
            }
        });
        failed.map_or(Ok(()), Err)?;
        let (removals, puts): (Vec<u32>, Vec<u32>) =
            lost.into_iter().partition(|&at| self.change(at as usize).value.is_none());
        for &at in removals.iter().chain(&puts) {
            apply(index, self.change(at as usize))?;
        }
        journal.borrow_mut().counts.replayed_records = (removals.len() + puts.len()) as u64;
        let in_flight = self.change(last);
        if !differs(index, in_flight, &mut value)? {
            return Ok(());
        }
        match apply(index, in_flight) {
            Err(IndexError::Full) => journal.borrow_mut().retract()?,
            applied => {
                applied?;
                journal.borrow_mut().counts.replayed_records += 1;
            }
        }
        Ok(())
    }

    /// The last of the first `count` records for each key, in key order.
    fn newest(&self, count: usize) -> Vec<u32> {
        let mut order: Vec<u32> = (0..count as u32).collect();
        let key = |at: u32| self.change(at as usize).key;
        order.sort_unstable_by(|&a, &b| key(a).cmp(key(b)).then(b.cmp(&a)));
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

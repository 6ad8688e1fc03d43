//! A check by look-ups: every record of a walk must be found by a look-up.
//!
//! The walk of `check` need not use the fences, filters, splines and directories that a look-up uses. Here
//! all records are walked over, some at a time, and each is looked up, by the operations of the index itself.
//! So this check needs no support of the index. Two walks must also find the same number of records: one from
//! end to end, and one that starts anew after every few records.
//!
//! * L1: a look-up finds each record of a walk, and its value.
//! * L2: a walk from any key finds the records that the whole walk finds.

use super::{Direction, OrderedIndex, Visit};
use crate::check::{CheckReport, IndexError, Invariant, message};
use alloc::vec::Vec;
use core::ops::{Bound, ControlFlow};

/// Bytes of records after which they are looked up.
const HELD_BYTES: usize = 4096;

/// An index whose records can be walked over and looked up.
pub(super) trait Asked {
    /// Visits the records from a bound on.
    fn walk(&mut self, from: Bound<&[u8]>, visit: Visit<'_>) -> Result<(), IndexError>;

    /// Looks a key up. Returns true and its value if it exists.
    fn ask(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, IndexError>;
}

struct Ordered<'a>(&'a mut dyn OrderedIndex);

impl Asked for Ordered<'_> {
    fn walk(&mut self, from: Bound<&[u8]>, visit: Visit<'_>) -> Result<(), IndexError> {
        self.0.range(from, Bound::Unbounded, Direction::Ascending, visit)
    }

    fn ask(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, IndexError> {
        value.resize(self.0.record().value_bytes.into(), 0);
        self.0.get(key, value)
    }
}

/// Runs [`OrderedIndex::check`], and looks each record up. The look-ups count as operations of an
/// application, and change the contents of caches.
///
/// ```
/// use nandex::ordered::check_with_look_ups;
/// use nandex::store::ram::RamStore;
/// use nandex::{BPlusConfig, BPlusTree, RecordFormat};
///
/// let config = BPlusConfig::new(RecordFormat::new(1, 1));
/// let mut tree = BPlusTree::format(RamStore::new(512, 100), &config)?;
/// assert!(check_with_look_ups(&mut tree)?.is_sound());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn check_with_look_ups(index: &mut dyn OrderedIndex) -> Result<CheckReport, IndexError> {
    let mut report = index.check()?;
    look_all_up(&mut Ordered(index), &mut report)?;
    Ok(report)
}

/// Looks up each record of a walk.
pub(super) fn look_all_up(asked: &mut dyn Asked, report: &mut CheckReport) -> Result<(), IndexError> {
    let (mut all, mut met, mut amiss) = (0u64, 0u64, 0u64);
    asked.walk(Bound::Unbounded, &mut |_, _| {
        all += 1;
        ControlFlow::Continue(())
    })?;
    let (mut held, mut last, mut value) = (Vec::<(Vec<u8>, Vec<u8>)>::new(), None::<Vec<u8>>, Vec::new());
    loop {
        let (mut bytes, before) = (0, last.take());
        held.clear();
        let from = before.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        asked.walk(from, &mut |key, value| {
            bytes += key.len() + value.len();
            held.push((key.to_vec(), value.to_vec()));
            if bytes < HELD_BYTES { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        for (key, expected) in &held {
            met += 1;
            amiss += u64::from(!asked.ask(key, &mut value)? || value != *expected);
        }
        // A walk that does not ascend would never end.
        let end =
            held.pop().map(|(key, _)| key).filter(|key| before.as_ref().is_none_or(|before| key > before));
        if end.is_none() || met > all {
            break;
        }
        last = end;
    }
    if amiss > 0 {
        let found = message!("look-ups do not find {amiss} of {met} records of a walk");
        report.violation(Invariant::L1, 0, found);
    }
    if met != all {
        let found = message!("walks from key to key meet {met} records, the whole one {all}");
        report.violation(Invariant::L2, 0, found);
    }
    Ok(())
}

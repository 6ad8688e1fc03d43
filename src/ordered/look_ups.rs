//! A check by look-ups: what a walk meets, a look-up finds.
//!
//! The walk of `check` need not ask the fences, filters, splines and directories that a look-up goes by. Here
//! all records are walked over, some at a time, and each is looked up, by the index's own operations. So no
//! index can leave a way out. Two walks must meet as many records: one from end to end, and one that begins
//! anew behind each few.
//!
//! * L1: a look-up finds each record of a walk, and its value.
//! * L2: a walk from any key meets what the whole walk does.

use super::{Direction, OrderedIndex, Visit};
use crate::check::{CheckReport, IndexError, Invariant, message};
use alloc::vec::Vec;
use core::ops::{Bound, ControlFlow};

/// Bytes of records that are held at a time, and one record.
const HELD_BYTES: usize = 4096;

/// Records that can be walked over and looked up.
pub(super) trait Asked {
    /// Shows the records from a bound on.
    fn walk(&mut self, from: Bound<&[u8]>, visit: Visit<'_>) -> Result<(), IndexError>;

    /// Looks a key up: whether it is there, and its value.
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

/// [`OrderedIndex::check`], and a look-up of each record. The look-ups are those of an application: they are
/// counted as such, and caches follow them.
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

/// Looks each record of a walk up.
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
        // Behind what lies no further up there is no end.
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

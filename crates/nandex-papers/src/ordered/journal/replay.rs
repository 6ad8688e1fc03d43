//! Reading the journal's records back, and repeating the updates that the index below lost.
//!
//! Of several records of a key only the last counts. Of these only those must be repeated that differ from
//! the index below. As a rule these are the updates in its buffer at the cut, and they find the room that
//! they had. A *sweep* repeats them in key order, reading the journal as often as the given RAM requires
//! (`newest.rs`). Once the index refuses an update for want of room, the sweep repeats removals only, and
//! another sweep follows as long as such removals were found. Updates still refused are *owed* (`owed.rs`),
//! so a mount never fails for want of room. If the store itself refuses a write, the index below may have
//! stopped half-way. It is then opened again, as after a cut; all updates that it lacks are owed, and nothing
//! more is repeated.

use super::newest::Newest;
use super::owed::Owed;
use super::page::{change_of, record_of};
use super::writer::{Guarded, Writer};
use super::{Below, Buffered, Journaled};
use alloc::vec;
use alloc::vec::Vec;
use nandex::check::IndexError;
use nandex::ordered::OrderedIndex;
use nandex::ordered::change::Change;
use nandex::record_log::{Header, Layout};
use nandex::store::{PageStore, StoreError};

/// Reads records of the journal in the order of their pages, for a pass.
struct Reader<'a> {
    layout: Layout,
    newest: &'a mut Newest,
    /// Number of the next record. Records from `count` on do not count.
    place: usize,
    count: usize,
}

impl Reader<'_> {
    fn page(&mut self, records: &[u8]) {
        let (record, width) = (record_of(&self.layout), self.layout.record_bytes);
        debug_assert!(records.len().is_multiple_of(width), "J1: a record is cut short");
        for bytes in records.chunks_exact(width) {
            if self.place < self.count {
                self.newest.offer(self.place as u32, change_of(record, bytes));
            }
            self.place += 1;
        }
    }
}

impl Newest {
    /// Makes slots for the records of a journal in some bytes of RAM.
    pub(super) fn of(layout: &Layout, ram_bytes: Option<usize>) -> Newest {
        let records = usize::try_from(layout.records_max()).unwrap_or(usize::MAX);
        Newest::new(record_of(layout), ram_bytes.unwrap_or(usize::MAX), records)
    }

    /// Reads the run that begins with this page. The journal continues after it.
    pub(super) fn read<S: PageStore>(
        &mut self,
        journal: &mut Writer<S>,
        first: Header,
    ) -> Result<(), IndexError> {
        let layout = journal.layout();
        let mut reader = Reader { layout, newest: self, place: 0, count: usize::MAX };
        journal.resume(first, &mut |records| reader.page(records))
    }
}

#[derive(Default)]
struct Swept {
    carried_out: u64,
    is_refused: bool,
    /// Whether removals were carried out after the index had refused an update.
    made_room: bool,
}

/// Whether the index does not have the state that a change leads to.
fn differs(index: &mut impl OrderedIndex, change: Change<'_>, value: &mut [u8]) -> Result<bool, IndexError> {
    let found = index.get(change.key, value)?;
    Ok(found.then_some(&*value) != change.value)
}

/// Carries out a change. Returns whether the key existed.
pub(super) fn apply(index: &mut impl OrderedIndex, change: Change<'_>) -> Result<bool, IndexError> {
    match change.value {
        Some(value) => index.insert(change.key, value),
        None => index.remove(change.key),
    }
}

/// Carries out a change. For a put it is not asked whether the key existed.
pub(super) fn apply_blind(index: &mut impl OrderedIndex, change: Change<'_>) -> Result<bool, IndexError> {
    match change.value {
        Some(value) => index.put(change.key, value).map(|()| false),
        None => index.remove(change.key),
    }
}

impl<S: PageStore + 'static, T: Buffered<Below>> Journaled<S, T> {
    /// Carries out the updates in the records that the index below does not have. The first pass has been
    /// read.
    pub(super) fn replay(&mut self, mut newest: Newest) -> Result<(), IndexError> {
        loop {
            let Some(swept) = self.sweep(&mut newest)? else { return Ok(()) };
            self.journal.lock().counts.replayed_records += swept.carried_out;
            if !swept.is_refused {
                return Ok(());
            }
            self.again(&mut newest, usize::MAX)?;
            if !swept.made_room {
                break;
            }
        }
        self.owed = self.lacking(&mut newest, usize::MAX)?;
        Ok(())
    }

    /// Carries out the updates that the index lacks. If the store refuses a write, they are all owed
    /// instead, and the result is `None`.
    fn sweep(&mut self, newest: &mut Newest) -> Result<Option<Swept>, IndexError> {
        let mut value = vec![0; usize::from(self.record().value_bytes)];
        let mut swept = Swept::default();
        loop {
            newest.finish();
            for i in 0..newest.len() {
                let (_, change) = newest.get(i);
                let is_left = swept.is_refused && change.value.is_some();
                if is_left || !differs(&mut self.inner, change, &mut value)? {
                    continue;
                }
                match self.below(|inner| apply(inner, change)) {
                    Ok(_) => {
                        swept.carried_out += 1;
                        swept.made_room |= swept.is_refused;
                    }
                    Err((_, Some(refusal))) => return self.revive(&refusal, 0).map(|()| None),
                    Err((error, None)) if error.is_refusal() => swept.is_refused = true,
                    Err((error, None)) => return Err(error),
                }
            }
            if newest.is_last() {
                return Ok(Some(swept));
            }
            newest.next_pass();
            self.pass(newest, usize::MAX)?;
        }
    }

    /// Shows the first `count` records to a pass.
    fn pass(&self, newest: &mut Newest, count: usize) -> Result<(), IndexError> {
        let mut journal = self.journal.lock();
        let mut reader = Reader { layout: journal.layout(), newest, place: 0, count };
        journal.records(&mut |records| reader.page(records))
    }

    /// Begins again with the first pass. If it is the only one it need not be read again.
    fn again(&self, newest: &mut Newest, count: usize) -> Result<(), IndexError> {
        if newest.is_only() {
            return Ok(());
        }
        newest.restart();
        self.pass(newest, count)
    }

    /// The updates in the first `count` records that the index below lacks. The first pass has been read.
    fn lacking(&mut self, newest: &mut Newest, count: usize) -> Result<Owed, IndexError> {
        let mut value = vec![0; usize::from(self.record().value_bytes)];
        let mut owed = Owed::default();
        loop {
            newest.finish();
            for i in 0..newest.len() {
                let (place, change) = newest.get(i);
                if differs(&mut self.inner, change, &mut value)? {
                    owed.owe(place.into(), change);
                }
            }
            if newest.is_last() {
                return Ok(owed);
            }
            newest.next_pass();
            self.pass(newest, count)?;
        }
    }

    /// Carries out owed updates until the index below refuses one.
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

    /// Opens the index below again after the store refused one of its writes. The index then has the state on
    /// the medium, and the updates that it lacks are owed. The newest `uncounted` records are ignored.
    pub(super) fn revive(&mut self, refusal: &StoreError, uncounted: usize) -> Result<(), IndexError> {
        if *refusal == StoreError::WornOut {
            self.is_worn_out = true;
        }
        self.journal.lock().forget_heard();
        self.inner = T::mount_after_cut(Guarded::boxed(&self.journal), &self.config)?;
        let (layout, records) = {
            let journal = self.journal.lock();
            (journal.layout(), journal.records_now())
        };
        let count = records - uncounted;
        let mut newest = Newest::of(&layout, self.replay_ram);
        self.pass(&mut newest, count)?;
        self.owed = self.lacking(&mut newest, count)?;
        self.journal.lock().take_refusal();
        Ok(())
    }
}

//! Updates: recorded in the journal, then passed below; records taken back, and updates owed.

use super::{Below, Buffered, Journaled, page};
use alloc::vec;
use nandex::check::IndexError;
use nandex::ordered::OrderedIndex;
use nandex::ordered::change::Change;
use nandex::store::{PageStore, StoreError};

/// The error of the index below, and the refusal of the store behind it, if any.
type Failure = (IndexError, Option<StoreError>);

/// The way to carry out a change in the index below. It returns whether the key existed.
pub(super) type Carry<T> = fn(&mut T, Change<'_>) -> Result<bool, IndexError>;

impl<S: PageStore + 'static, T: Buffered<Below>> Journaled<S, T> {
    pub(super) fn update(&mut self, change: Change<'_>, carry: Carry<T>) -> Result<bool, IndexError> {
        self.journal.lock().ready()?;
        if self.is_worn_out {
            return Err(IndexError::WornOut);
        }
        if !self.owed.is_empty() {
            self.pay()?;
            if change.value.is_some() && !self.owed.is_empty() {
                return Err(self.refusal());
            }
        }
        if self.journal.lock().is_full() {
            if self.owed.is_empty() {
                self.cut_off()?;
            } else if let Some(existed) = self.condense(change.key)? {
                return Ok(existed);
            }
        }
        self.note(change)?;
        self.carry_out(change, carry)
    }

    /// The error for an update that finds no room.
    pub(super) fn refusal(&self) -> IndexError {
        if self.is_worn_out { IndexError::WornOut } else { IndexError::NO_BLOCK }
    }

    /// Runs a call of the index below.
    pub(super) fn below<R>(
        &mut self,
        act: impl FnOnce(&mut T) -> Result<R, IndexError>,
    ) -> Result<R, Failure> {
        let done = act(&mut self.inner);
        let refusal = self.journal.lock().take_refusal();
        done.map_err(|error| (error, refusal))
    }

    /// Runs a call of the index below that changes no record. If the store refused it a write, the index is
    /// opened again.
    pub(super) fn below_or_revive<R>(
        &mut self,
        act: impl FnOnce(&mut T) -> Result<R, IndexError>,
    ) -> Result<R, IndexError> {
        match self.below(act) {
            Ok(done) => Ok(done),
            Err((error, None)) => Err(error),
            Err((_, Some(refusal))) => {
                self.revive(&refusal, 0)?;
                Err(refusal.into())
            }
        }
    }

    /// Adds an update to the journal. A full group is written.
    pub(super) fn note(&self, change: Change<'_>) -> Result<(), IndexError> {
        let mut journal = self.journal.lock();
        journal.append(change)?;
        if self.group == 0 || journal.pending() < self.group as usize {
            return Ok(());
        }
        let written = journal.force();
        if written.is_err() {
            // It is not on the medium, so that costs no write.
            journal.retract()?;
        }
        Ok(written?)
    }

    /// Carries out an update in the index below. Its record is the newest in the journal.
    pub(super) fn carry_out(&mut self, change: Change<'_>, carry: Carry<T>) -> Result<bool, IndexError> {
        match self.below(|inner| carry(inner, change)) {
            Ok(existed) => {
                let owed = self.owed.value(change.key).map(|value| value.is_some());
                self.owed.settle(change.key);
                Ok(owed.unwrap_or(existed))
            }
            Err((error, None)) if !error.is_refusal() => {
                // It may happen after a cut, which is more than nothing.
                let _ = self.journal.lock().retract();
                Err(error)
            }
            Err((error, refusal)) => self.take_back(change, error, refusal),
        }
    }

    /// Takes back the newest record, because its update was refused. If the store refuses that, the update
    /// stands and is owed.
    pub(super) fn take_back(
        &mut self,
        change: Change<'_>,
        error: IndexError,
        refusal: Option<StoreError>,
    ) -> Result<bool, IndexError> {
        let retracted = self.journal.lock().retract();
        let stands = match &retracted {
            Ok(()) => false,
            Err(why) if why.is_refusal() => true,
            Err(why) => return Err(why.clone().into()),
        };
        if let Some(refusal) = &refusal {
            self.revive(refusal, usize::from(stands))?;
        }
        if !stands {
            return Err(refusal.map_or(error, IndexError::from));
        }
        let mut value = vec![0; usize::from(self.record().value_bytes)];
        let existed = self.look_up(change.key, &mut value)?;
        let at = self.journal.lock().newest();
        self.owed.owe(at, change);
        self.is_worn_out |= retracted == Err(StoreError::WornOut);
        Ok(existed)
    }

    /// Looks a key up among the owed updates, then in the index below.
    pub(super) fn look_up(&mut self, key: &[u8], value: &mut [u8]) -> Result<bool, IndexError> {
        if let Some(owed) = self.owed.value(key) {
            if let Some(found) = owed {
                value.copy_from_slice(found);
            }
            return Ok(owed.is_some());
        }
        match self.below(|inner| inner.get(key, value)) {
            Ok(found) => Ok(found),
            Err((error, None)) => Err(error),
            Err((_, Some(refusal))) => {
                self.revive(&refusal, 0)?;
                self.inner.get(key, value)
            }
        }
    }

    /// Begins a new epoch, after the index below was synced and needs nothing of the old one.
    pub(super) fn cut_off(&mut self) -> Result<(), IndexError> {
        assert!(self.owed.is_empty(), "what is owed is in the old epoch alone");
        // Until the medium learns of the new epoch the old one is replayed, and must not end longer ago than
        // promised.
        self.journal.lock().force()?;
        self.below_or_revive(OrderedIndex::sync)?;
        self.journal.lock().cut_off();
        Ok(())
    }

    /// Makes room in a full journal for the removal of a key: the index below is synced, and only the
    /// records of owed updates stay. If these fill the journal, the key is removed without a record; then
    /// the result is whether the key existed.
    pub(super) fn condense(&mut self, key: &[u8]) -> Result<Option<bool>, IndexError> {
        debug_assert!(self.journal.lock().is_full(), "only a full journal is condensed");
        debug_assert!(!self.owed.is_empty(), "a journal is condensed for nothing owed");
        self.journal.lock().force()?;
        self.below_or_revive(OrderedIndex::sync)?;
        let layout = self.journal.lock().layout();
        let is_crowded = self.owed.len() as u64 == layout.records_max();
        let was_owed = self.owed.value(key).map(|value| value.is_some());
        if is_crowded && was_owed.is_none() {
            // No record is of this key, so that none brings it back.
            return self.below_or_revive(|inner| {
                inner.remove(key).and_then(|found| inner.sync().map(|()| Some(found)))
            });
        }
        if is_crowded {
            self.owed.remove(key);
        }
        let records = self.owed.condensed(page::record_of(&layout), layout.record_bytes);
        debug_assert_eq!(records.len(), self.owed.len(), "a record for each debt");
        let condensed = self.journal.lock().condense(records.iter().map(|record| &record[..]));
        if let Err(error) = condensed {
            if !error.is_refusal() {
                return Err(error.into());
            }
            // Some pages may be written, that with the removal among them.
            self.revive(&error, 0)?;
            let mut value = vec![0; usize::from(self.record().value_bytes)];
            let is_done = is_crowded && !self.look_up(key, &mut value)?;
            return if is_done { Ok(was_owed) } else { Err(error.into()) };
        }
        Ok(was_owed.filter(|_| is_crowded))
    }

    /// Gives the index below its owed updates. Returns true if none is left and the store still takes writes.
    pub(super) fn is_settled(&mut self) -> Result<bool, IndexError> {
        if !self.owed.is_empty() && !self.is_worn_out {
            self.pay()?;
        }
        Ok(self.owed.is_empty() && !self.is_worn_out)
    }
}

//! The state behind a handle: an index and its operations as C asks for them, without a pointer.

use crate::config::Config;
use crate::error::{Failure, Message};
use crate::ffi::codes::{
    NANDEX_ERR_BATCH, NANDEX_ERR_BATCH_FULL, NANDEX_ERR_EXISTS, NANDEX_ERR_INTERRUPTED, NANDEX_ERR_NOT_OPEN,
    NANDEX_ERR_UNSUPPORTED, NANDEX_NOT_FOUND, NANDEX_OK,
};
use crate::open::{self, Open, Opened};
use alloc::vec;
use nandex::check::CheckReport;
use nandex::ordered::{Change, Durability, RecordFormat, check_with_look_ups};
use nandex::{IndexError, Nand, OrderedIndex};

const NOT_OPEN: Failure =
    Failure::Code(NANDEX_ERR_NOT_OPEN, c"the index is not open: format or mount it first");
const BATCH_OPEN: Failure = Failure::Code(NANDEX_ERR_BATCH, c"a batch is open: commit or abandon it first");
const NO_BATCH: Failure = Failure::Code(NANDEX_ERR_BATCH, c"no batch is open");
const LEFT: Failure = Failure::Code(
    NANDEX_ERR_INTERRUPTED,
    c"a batch could not be taken back: mount the index again to continue",
);

/// The answer of a call: a code that is no failure, or a failure.
pub(crate) type Answer = Result<i32, Failure>;

/// An index on its chip, open or not.
pub(crate) struct State<N> {
    pub(crate) chip: N,
    pub(crate) config: Config,
    pub(crate) message: Message,
    opened: Option<Opened>,
    in_batch: bool,
    /// Number of calls that may have changed records. Cursors compare it.
    changes: u64,
}

impl<N: Nand + Clone + 'static> State<N> {
    /// The state before the index is opened.
    pub(crate) fn new(chip: N, config: Config) -> State<N> {
        State { chip, config, message: Message::new(), opened: None, in_batch: false, changes: 0 }
    }

    /// Formats or mounts the index. An open index is dropped as by a power cut.
    pub(crate) fn open(&mut self, how: Open) -> Answer {
        self.opened = None;
        self.in_batch = false;
        self.changes += 1;
        self.opened = Some(open::open(self.chip.clone(), &self.config, how)?);
        Ok(NANDEX_OK)
    }

    /// The open index; fails if there is none.
    pub(crate) fn index(&mut self) -> Result<&mut dyn OrderedIndex, Failure> {
        let opened = self.opened.as_mut().ok_or(NOT_OPEN)?;
        match &mut opened.index {
            Some(index) => Ok(&mut **index),
            None => Err(LEFT),
        }
    }

    pub(crate) const fn record(&self) -> RecordFormat {
        self.config.record
    }

    /// Number of calls that may have changed records.
    pub(crate) const fn changes(&self) -> u64 {
        self.changes
    }

    /// Whether an acknowledged operation must be on the chip: the class is *every operation* and no batch is
    /// open.
    pub(crate) fn is_durable_now(&self) -> bool {
        !self.in_batch && self.config.durability == Durability::EveryOperation
    }

    /// Converts an error during a batch: a refusal for want of room means that the batch exceeds the group.
    fn in_batch_full(&self, error: IndexError) -> Failure {
        match error {
            IndexError::Full(_) if self.in_batch => Failure::Code(
                NANDEX_ERR_BATCH_FULL,
                c"the batch takes no more: its pages are as many as an atomic group has, or the store is full",
            ),
            error => error.into(),
        }
    }

    /// Gives a key a value; true if the key was there.
    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<bool, Failure> {
        let done = self.index()?.insert(key, value);
        self.changes += 1;
        done.map_err(|error| self.in_batch_full(error))
    }

    /// Inserts a record; fails if the key exists.
    pub(crate) fn insert(&mut self, key: &[u8], value: &[u8]) -> Answer {
        let record = self.record();
        record.check_key(key)?;
        record.check_value(value)?;
        let mut there = vec![0; usize::from(record.value_bytes)];
        if self.index()?.get(key, &mut there)? {
            return Err(Failure::Code(NANDEX_ERR_EXISTS, c"the key exists; put gives it another value"));
        }
        self.put(key, value).map(|_| NANDEX_OK)
    }

    /// Copies the value of a key.
    pub(crate) fn get(&mut self, key: &[u8], value: &mut [u8]) -> Answer {
        let record = self.record();
        record.check_value(value)?;
        Ok(if self.index()?.get(key, value)? { NANDEX_OK } else { NANDEX_NOT_FOUND })
    }

    pub(crate) fn remove(&mut self, key: &[u8]) -> Answer {
        let done = self.index()?.remove(key);
        self.changes += 1;
        let existed = done.map_err(|error| self.in_batch_full(error))?;
        Ok(if existed { NANDEX_OK } else { NANDEX_NOT_FOUND })
    }

    /// Makes several changes as one.
    pub(crate) fn apply(&mut self, batch: &[Change<'_>]) -> Answer {
        self.require_no_batch()?;
        let done = self.index()?.apply(batch);
        self.changes += 1;
        done?;
        Ok(NANDEX_OK)
    }

    /// Does maintenance on up to `budget` pages. Returns the pages left to do.
    pub(crate) fn maintain(&mut self, budget: u32) -> Result<u32, Failure> {
        self.require_no_batch()?;
        Ok(self.index()?.maintain(budget)?)
    }

    /// Looks for pages that become hard to read; the pages left of the round.
    pub(crate) fn scrub(&mut self, budget: u32) -> Result<u32, Failure> {
        self.require_no_batch()?;
        Ok(self.index()?.scrub(budget)?)
    }

    /// Makes every acknowledged operation survive a power cut.
    pub(crate) fn sync(&mut self) -> Answer {
        self.require_no_batch()?;
        self.index()?.sync()?;
        Ok(NANDEX_OK)
    }

    /// Syncs and closes; the handle can mount again.
    pub(crate) fn close(&mut self) -> Answer {
        self.require_no_batch()?;
        self.index()?.close()?;
        self.opened = None;
        self.changes += 1;
        Ok(NANDEX_OK)
    }

    /// Walks the index and looks each record up; the report, and the first broken invariant as a message.
    pub(crate) fn check(&mut self) -> Result<CheckReport, Failure> {
        self.require_no_batch()?;
        Ok(check_with_look_ups(self.index()?)?)
    }

    fn require_no_batch(&self) -> Result<(), Failure> {
        if self.in_batch { Err(BATCH_OPEN) } else { Ok(()) }
    }

    pub(crate) fn begin(&mut self) -> Answer {
        self.require_no_batch()?;
        // What waits in the index is no part of the batch.
        self.index()?.sync()?;
        let batches = self.opened.as_mut().ok_or(NOT_OPEN)?.batches.as_mut();
        let unsupported = Failure::Code(
            NANDEX_ERR_UNSUPPORTED,
            c"this index does not take several operations as one; NANDEX_INDEX_BPLUS does",
        );
        batches.ok_or(unsupported)?.begin();
        self.in_batch = true;
        Ok(NANDEX_OK)
    }

    /// Commits the batch: all changes or, on any failure, none.
    pub(crate) fn commit(&mut self) -> Answer {
        if !self.in_batch {
            return Err(NO_BATCH);
        }
        // A batch that a failure left half in the tree cannot be written.
        let whole = self.index().and_then(|index| Ok(index.sync()?));
        let written = whole.and_then(|()| match self.opened.as_mut().and_then(|o| o.batches.as_mut()) {
            Some(batches) => Ok(batches.commit()?),
            None => Err(NO_BATCH),
        });
        if let Err(failure) = written {
            self.abandon()?;
            return Err(failure);
        }
        self.in_batch = false;
        Ok(NANDEX_OK)
    }

    pub(crate) fn abandon(&mut self) -> Answer {
        if !self.in_batch {
            return Err(NO_BATCH);
        }
        self.in_batch = false;
        self.changes += 1;
        let opened = self.opened.as_mut().ok_or(NOT_OPEN)?;
        // The tree has pages of the batch in RAM: it is read anew.
        opened.index = None;
        if let Some(batches) = &mut opened.batches {
            batches.abandon();
            opened.index = Some(batches.reopen()?);
        }
        Ok(NANDEX_OK)
    }

    /// Bytes of RAM that the index takes once it is formatted on a chip.
    pub(crate) fn ram_needed(chip: N, config: &Config) -> Result<usize, Failure> {
        let opened = open::open(chip, config, Open::Format)?;
        Ok(opened.index.map_or(0, |index| index.ram_bytes()))
    }
}

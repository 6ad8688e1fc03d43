//! How a value gets into the log, and the index is told where it is.

use super::ValueLog;
use super::chunk::Held;
use super::waiting::Waiting;
use crate::check::IndexError;
use crate::nand::{Cause, Nand};
use crate::ordered::OrderedIndex;

impl<I: OrderedIndex, N: Nand> ValueLog<I, N> {
    pub(super) fn put_short(&mut self, key: &[u8], value: &[u8]) -> Result<(), IndexError> {
        let before = self.places_of(key)?;
        Held::begin_short(&mut self.held);
        self.held.extend_from_slice(value);
        self.index.put(key, &self.held)?;
        self.forget(key);
        self.release(key, before.as_deref().unwrap_or_default());
        Ok(())
    }

    /// Puts a value into the log, as the last one that waits.
    pub(super) fn append(&mut self, key: &[u8], mut rest: &[u8]) -> Result<(), IndexError> {
        let mut value = Waiting::new(key, false);
        while !rest.is_empty() {
            match value.append(&mut self.log, Some(rest), (0, rest.len())) {
                Some(taken) => rest = &rest[taken..],
                None => value = self.write_tail_with(value, Cause::Host)?,
            }
        }
        value.is_whole = true;
        self.waiting.push(value);
        Ok(())
    }

    /// Programs the page being filled, in which a value has a chunk that is not whole yet. On an error that
    /// value is given up.
    pub(super) fn write_tail_with(&mut self, value: Waiting, cause: Cause) -> Result<Waiting, IndexError> {
        // It waits without being told of, as the last.
        self.waiting.push(value);
        let written = self.write_tail(cause);
        let Some(value) = self.waiting.pop() else { return Err(IndexError::Interrupted) };
        if let Err(error) = written {
            value.give_up(&mut self.log);
            return Err(error);
        }
        Ok(value)
    }

    /// Programs the page that is being filled, for a change of the user, and tells the index.
    pub(super) fn flush(&mut self) -> Result<(), IndexError> {
        self.write_tail(Cause::Host)
    }

    /// Programs the page that is being filled, and tells the index.
    pub(super) fn write_tail(&mut self, cause: Cause) -> Result<(), IndexError> {
        if self.log.used > 0 {
            let index = &mut self.index;
            let page = self.log.program(cause, &mut || index.sync())?;
            self.waiting.iter_mut().for_each(|waiting| waiting.place(page, &mut self.log));
        }
        self.settle()
    }

    /// Tells the index of values that are in place.
    pub(super) fn settle(&mut self) -> Result<(), IndexError> {
        while let Some(at) = self.waiting.iter().position(Waiting::is_placed) {
            let waiting = self.waiting[at].clone();
            let before = self.places_of(&waiting.key)?.unwrap_or_default();
            waiting.encode(&mut self.held);
            self.index.put(&waiting.key, &self.held)?;
            self.waiting.remove(at);
            self.release(&waiting.key, &before);
        }
        Ok(())
    }

    /// Values of a key that wait are wanted no more.
    pub(super) fn forget(&mut self, key: &[u8]) {
        while let Some(at) = self.waiting.iter().position(|waiting| waiting.key == key) {
            self.waiting.remove(at).give_up(&mut self.log);
        }
    }

    /// Values of a key that waited before its newest one are wanted no more.
    pub(super) fn forget_older(&mut self, key: &[u8]) {
        let Some(newest) = self.waiting.iter().rposition(|waiting| waiting.is_value_of(key)) else { return };
        let mut at = newest;
        while at > 0 {
            at -= 1;
            if self.waiting[at].key == key {
                self.waiting.remove(at).give_up(&mut self.log);
            }
        }
    }
}

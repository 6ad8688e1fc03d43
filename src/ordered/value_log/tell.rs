//! The way of a value into the log, and of its place into the index.

use super::ValueLog;
use super::chunk::Held;
use super::waiting::Waiting;
use crate::check::IndexError;
use crate::nand::{Cause, Nand};
use crate::ordered::OrderedIndex;

/// Number of pages of the index that are left for each piece of an index value while values wait: its pieces
/// are one batch, and replaced pages die only at its end.
const SPARE_PAGES: u64 = 16;

impl<I: OrderedIndex, N: Nand> ValueLog<I, N> {
    pub(super) fn put_short(&mut self, key: &[u8], value: &[u8]) -> Result<(), IndexError> {
        self.tell_before_a_change()?;
        let before = self.places_of(key)?;
        Held::begin_short(&mut self.held);
        self.held.extend_from_slice(value);
        self.index.put(key, &self.held)?;
        self.moves_in_vain = false;
        self.forget(key);
        self.release(key, before.as_deref().unwrap_or_default());
        Ok(())
    }

    /// Puts a value into the log, as the last of the waiting ones.
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

    /// Programs the page being filled, in which a value has an incomplete chunk. On an error that value is
    /// given up.
    pub(super) fn write_tail_with(&mut self, value: Waiting, cause: Cause) -> Result<Waiting, IndexError> {
        // The value waits as the last one, and the index does not hear of it.
        self.waiting.push(value);
        let written = self.write_tail(cause);
        let Some(value) = self.waiting.pop() else { return Err(IndexError::Interrupted) };
        if let Err(error) = written {
            value.give_up(&mut self.log);
            return Err(error);
        }
        Ok(value)
    }

    /// Programs the page being filled, for a change of the user, and tells the index.
    pub(super) fn flush(&mut self) -> Result<(), IndexError> {
        self.write_tail(Cause::Host)
    }

    /// Programs the page being filled, and tells the index.
    pub(super) fn write_tail(&mut self, cause: Cause) -> Result<(), IndexError> {
        if self.log.used > 0 {
            let index = &mut self.index;
            match self.log.program(cause, &mut || index.sync()) {
                Ok(page) => self.waiting.iter_mut().for_each(|waiting| waiting.place(page, &mut self.log)),
                // Values moved by cleaning stay where they were.
                Err(error) if error.is_refusal() && self.waiting.iter().all(Waiting::is_moved) => {
                    self.give_moves_up()?;
                }
                Err(error) => return Err(error),
            }
        }
        self.settle()
    }

    /// True if the index surely takes all waiting values and one change more. Each record may divide a node,
    /// and those above it, with the root.
    pub(super) fn index_takes_what_waits(&self) -> bool {
        let pieces = self.index.pieces_max() as u64;
        let records = (self.waiting.len() as u64 + 1) * pieces;
        let Some(room) = self.index.index().free() else { return false };
        room.surely >= records && room.pages >= 2 * records + SPARE_PAGES * pieces
    }

    /// Flushes before another change of the index, if that may take the room for the waiting values.
    pub(super) fn tell_before_a_change(&mut self) -> Result<(), IndexError> {
        if self.waiting.is_empty() || self.index_takes_what_waits() { Ok(()) } else { self.flush() }
    }

    /// Gives up the moves of which the index does not know, together with the page being filled.
    fn give_moves_up(&mut self) -> Result<(), IndexError> {
        self.log.used = 0;
        self.moves_in_vain = true;
        for moved in core::mem::take(&mut self.waiting) {
            let places = self.places_of(&moved.key)?.unwrap_or_default();
            places.iter().for_each(|place| self.log.blocks.not_cleaned(*place));
            moved.give_up(&mut self.log);
        }
        Ok(())
    }

    /// Gives the index the places of values that are programmed. A moved value stays where it was if the
    /// index has no room for the new place.
    pub(super) fn settle(&mut self) -> Result<(), IndexError> {
        while let Some(at) = self.waiting.iter().position(Waiting::is_placed) {
            let waiting = self.waiting[at].clone();
            let before = self.places_of(&waiting.key)?.unwrap_or_default();
            waiting.encode(&mut self.held, self.marked_from);
            match self.index.put(&waiting.key, &self.held) {
                Err(error) if error.is_refusal() && !waiting.is_value() => {
                    self.waiting.remove(at).give_up(&mut self.log);
                    before.iter().for_each(|place| self.log.blocks.not_cleaned(*place));
                    self.moves_in_vain = true;
                    continue;
                }
                told => told?,
            }
            self.moves_in_vain = false;
            self.waiting.remove(at);
            self.release(&waiting.key, &before);
        }
        Ok(())
    }

    /// Gives up all waiting values of a key.
    pub(super) fn forget(&mut self, key: &[u8]) {
        while let Some(at) = self.waiting.iter().position(|waiting| *waiting.key == *key) {
            self.waiting.remove(at).give_up(&mut self.log);
        }
    }

    /// Gives up the waiting values of a key that are older than its newest one.
    pub(super) fn forget_older(&mut self, key: &[u8]) {
        let Some(newest) = self.waiting.iter().rposition(|waiting| waiting.is_value_of(key)) else { return };
        let mut at = newest;
        while at > 0 {
            at -= 1;
            if *self.waiting[at].key == *key {
                self.waiting.remove(at).give_up(&mut self.log);
            }
        }
    }
}

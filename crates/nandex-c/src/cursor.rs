//! A place in an index: the engine's, kept apart from the index as handles of C are.

use crate::error::Failure;
use crate::ffi::codes::{NANDEX_NOT_FOUND, NANDEX_OK};
use crate::state::{Answer, State};
use nandex::ordered::Direction;
use nandex::ordered::cursor::Place;
use nandex::{IndexError, Nand, OrderedIndex};

const NOWHERE: Failure = Failure::Code(NANDEX_NOT_FOUND, c"the cursor stands on no record");

/// A place in an index: on a record or before the first move. It stays while records change.
#[derive(Debug)]
pub(crate) struct Cursor {
    place: Place,
    /// The changes that the index had seen when its records were fetched.
    changes: u64,
}

impl Cursor {
    /// A cursor that is on no record.
    pub(crate) const fn new() -> Cursor {
        Cursor { place: Place::nowhere(), changes: 0 }
    }

    /// Goes to the record with this key or the next greater one.
    pub(crate) fn seek<N: Nand + Clone + 'static>(&mut self, state: &mut State<N>, key: &[u8]) -> Answer {
        state.record().check_key(key)?;
        self.go(state, |place, index| place.seek(index, key))
    }

    /// Goes to the record behind this one in a direction; to the first in it from nowhere.
    pub(crate) fn step<N: Nand + Clone + 'static>(
        &mut self,
        state: &mut State<N>,
        direction: Direction,
    ) -> Answer {
        self.go(state, |place, index| place.step(index, direction))
    }

    /// Moves the cursor with `to`. If that finds no record, the cursor stays.
    fn go<N: Nand + Clone + 'static>(
        &mut self,
        state: &mut State<N>,
        to: impl FnOnce(&mut Place, &mut dyn OrderedIndex) -> Result<bool, IndexError>,
    ) -> Answer {
        if self.changes != state.changes() {
            self.place.forget_ahead(state.record());
            self.changes = state.changes();
        }
        if to(&mut self.place, state.index()?)? {
            return Ok(NANDEX_OK);
        }
        self.place.stay();
        Ok(NANDEX_NOT_FOUND)
    }

    /// The record at the cursor, as fetched by the last move.
    pub(crate) fn record<N: Nand + Clone + 'static>(
        &self,
        state: &State<N>,
    ) -> Result<(&[u8], &[u8]), Failure> {
        self.place.record(state.record()).ok_or(NOWHERE)
    }
}

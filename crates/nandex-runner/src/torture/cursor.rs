//! Calls of a life that change no record: maintenance, scrubbing, and a cursor that moves while records
//! change.

use super::body::Body;
use super::fault::{Fault, Kind};
use super::step::Aside;
use crate::crash::history::fingerprint;
use crate::crash::subject::{Subject, write_key};
use nandex::IndexError;
use nandex::ordered::Direction;
use nandex::ordered::cursor::Place;

/// The position of a cursor, as the cursor reports it and as it must be.
pub(super) struct Position {
    place: Place,
    stand: Stand,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stand {
    Nowhere,
    On(usize),
    Past(Direction),
}

impl Default for Position {
    fn default() -> Position {
        Position { place: Place::nowhere(), stand: Stand::Nowhere }
    }
}

impl Stand {
    /// The next position of the cursor: the next slot with a value, or past the last one.
    fn step(self, contents: &[u64], direction: Direction) -> Stand {
        let slots = match (self, direction) {
            (Stand::On(slot), Direction::Ascending) => slot + 1..contents.len(),
            (Stand::On(slot), Direction::Descending) => 0..slot,
            (Stand::Past(led), _) if led == direction => 0..0,
            _ => 0..contents.len(),
        };
        Stand::next(contents, slots, direction)
    }

    fn next(contents: &[u64], mut slots: std::ops::Range<usize>, direction: Direction) -> Stand {
        let next = match direction {
            Direction::Ascending => slots.find(|&slot| contents[slot] != 0),
            Direction::Descending => slots.rfind(|&slot| contents[slot] != 0),
        };
        next.map_or(Stand::Past(direction), Stand::On)
    }
}

impl Body<'_> {
    /// Makes a call that changes no record.
    pub(super) fn aside(&mut self, aside: Aside) -> Result<(), Fault> {
        let Some(victim) = &mut self.victim else { return Ok(()) };
        let done = match (aside, &mut *victim) {
            // What was given up since the last look is expected where the cursor goes.
            (Aside::Seek(_) | Aside::Walk { .. }, _) if self.expected.mix.gives_up => return Ok(()),
            (Aside::Seek(slot), _) => return self.seek(slot),
            (Aside::Walk { records, on }, _) => return self.walk(records, on),
            (Aside::Scrub(budget), Subject::Index(index)) => index.scrub(budget),
            (Aside::Maintain(budget), Subject::Index(index)) => index.maintain(budget),
            (Aside::Scrub(budget), Subject::Store(store)) => store.scrub(budget).map_err(IndexError::from),
            (Aside::Maintain(budget), Subject::Store(store)) => {
                store.maintain(budget).map_err(IndexError::from)
            }
            (Aside::Free, Subject::Index(index)) => Ok(index.free().map_or(0, |room| room.pages as u32)),
            (_, Subject::Spatial(_) | Subject::Store(_)) => Ok(0),
        };
        self.answered(done, &aside).map(|_| ())
    }

    /// The answer of such a call; `None` if the power was cut or the victim asks for a mount.
    fn answered<T>(&mut self, done: Result<T, IndexError>, aside: &Aside) -> Result<Option<T>, Fault> {
        if !self.rig.is_powered() {
            self.cut_off();
            return Ok(None);
        }
        match done {
            Ok(answer) => Ok(Some(answer)),
            Err(IndexError::Interrupted) if self.asks_for_a_mount() => {
                self.victim = None;
                Ok(None)
            }
            Err(IndexError::Full(_) | IndexError::WornOut) if self.rig.has_failed => Ok(None),
            Err(error) => Err(Fault::new(Kind::Error, format!("{aside}: {error}"))),
        }
    }

    fn seek(&mut self, slot: u32) -> Result<(), Fault> {
        let Some(Subject::Index(index)) = &mut self.victim else { return Ok(()) };
        let mut key = vec![0; index.record().key_bytes.into()];
        write_key(slot, &mut key);
        let done = self.position.place.seek(index.as_mut(), &key);
        let contents = self.expected.contents();
        let from = (slot as usize).min(contents.len());
        let expected = Stand::next(contents, from..contents.len(), Direction::Ascending);
        self.arrive(done, expected, &Aside::Seek(slot)).map(|_| ())
    }

    fn walk(&mut self, records: u32, on: bool) -> Result<(), Fault> {
        let direction = if on { Direction::Ascending } else { Direction::Descending };
        for _ in 0..records {
            let Some(Subject::Index(index)) = &mut self.victim else { return Ok(()) };
            let position = &mut self.position;
            // What was fetched ahead may have changed since.
            position.place.forget_ahead(index.record());
            let done = position.place.step(index.as_mut(), direction);
            let expected = position.stand.step(self.expected.contents(), direction);
            let has_arrived = self.arrive(done, expected, &Aside::Walk { records, on })?;
            if !has_arrived || expected == Stand::Past(direction) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Compares the record at the cursor with the expected one. Returns false if the cursor did not get
    /// there.
    fn arrive(
        &mut self,
        done: Result<bool, IndexError>,
        expected: Stand,
        aside: &Aside,
    ) -> Result<bool, Fault> {
        let Some(found) = self.answered(done, aside)? else { return Ok(false) };
        let Some(Subject::Index(index)) = &mut self.victim else { return Ok(false) };
        let record = self.position.place.record(index.record());
        let is_right = match (expected, record) {
            (Stand::On(slot), Some((key, value))) => {
                let mut wanted = vec![0; key.len()];
                write_key(slot as u32, &mut wanted);
                found && key == wanted && fingerprint(value) == self.expected.contents()[slot]
            }
            (Stand::On(_), None) => false,
            (_, record) => !found && record.is_none(),
        };
        self.position.stand = expected;
        if is_right {
            return Ok(true);
        }
        let what = format!("{aside}: the cursor should be {expected:?}, and stands on {record:02x?}");
        Err(Fault::new(Kind::Wrong, what))
    }
}

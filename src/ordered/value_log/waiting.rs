//! Values whose places the index does not have yet: one of their chunks is in the page being filled, or was
//! just programmed.

use super::chunk::{Held, Place};
use super::log::{InTail, Log};
use crate::check::IndexError;
use crate::nand::{Cause, Nand};
use crate::units::Ppn;
use alloc::boxed::Box;
use alloc::vec::Vec;

#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) key: Box<[u8]>,
    /// Places of the programmed chunks, all but `tail`.
    placed: Vec<Place>,
    /// Mark of the programmed chunks.
    mark: u32,
    tail: Option<InTail>,
    /// True if cleaning moves the value: then the index still has it elsewhere.
    is_moved: bool,
    /// True if the value is complete and its places can go to the index.
    pub(super) is_whole: bool,
}

impl Waiting {
    pub(super) fn new(key: &[u8], is_moved: bool) -> Waiting {
        Waiting { key: key.into(), placed: Vec::new(), mark: 0, tail: None, is_moved, is_whole: false }
    }

    /// True for a new value.
    pub(super) const fn is_value(&self) -> bool {
        self.is_whole && !self.is_moved
    }

    /// True for a new value of this key, which look-ups must find.
    pub(super) fn is_value_of(&self, key: &[u8]) -> bool {
        self.is_value() && *self.key == *key
    }

    /// True if cleaning moves the value and the value is complete.
    pub(super) const fn is_moved(&self) -> bool {
        self.is_moved && self.is_whole
    }

    /// True if the index can be told of the value.
    pub(super) const fn is_placed(&self) -> bool {
        self.is_whole && self.tail.is_none()
    }

    /// Notes that the page being filled, in which the value may have a chunk, was programmed.
    pub(super) fn place<N: Nand>(&mut self, page: Ppn, log: &mut Log<N>) {
        if let Some(chunk @ InTail { at, bytes }) = self.tail.take() {
            self.mark = log.mark_programmed(self.mark, chunk);
            let place = Place { page, at, bytes };
            log.blocks.add(place, self.key.len());
            // Mostly it is the only one.
            self.placed.reserve_exact(1);
            self.placed.push(place);
        }
    }

    /// Gives up the value: its chunks die, of which the index never heard.
    pub(super) fn give_up<N: Nand>(self, log: &mut Log<N>) {
        for place in self.placed {
            log.blocks.release(place, self.key.len(), true);
        }
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.key.len() + self.placed.capacity() * size_of::<Place>()
    }

    /// Writes the index value, with the mark if there are at least `marked_from` chunks.
    pub(super) fn encode(&self, held: &mut Vec<u8>, marked_from: usize) {
        Held::encode(held, &self.placed, (self.placed.len() >= marked_from).then_some(self.mark));
    }

    pub(super) fn read<N: Nand>(
        &self,
        log: &mut Log<N>,
        cause: Cause,
        value: &mut Vec<u8>,
    ) -> Result<(), IndexError> {
        for (number, &place) in self.placed.iter().enumerate() {
            value.extend_from_slice(log.read((&self.key, number as u16), place, cause)?);
        }
        if let Some(chunk) = self.tail {
            value.extend_from_slice(log.in_tail(self.key.len(), chunk));
        }
        Ok(())
    }

    /// Puts the next bytes of the value into the page being filled: those of `value`, or else those of the
    /// chunk that was read last, from place `from` on. Returns how many of the `bytes` bytes. `None` if the
    /// page must be written first.
    pub(super) fn append<N: Nand>(
        &mut self,
        log: &mut Log<N>,
        value: Option<&[u8]>,
        (from, bytes): (usize, usize),
    ) -> Option<usize> {
        let number = self.placed.len() as u16;
        let taken = log.takes(self.tail.is_none().then_some(self.key.len()), bytes)?;
        let chunk = match self.tail {
            Some(chunk) => chunk,
            None => log.begin_chunk(&self.key, number),
        };
        self.tail = Some(log.extend_chunk(chunk, value, from, taken));
        Some(taken)
    }
}

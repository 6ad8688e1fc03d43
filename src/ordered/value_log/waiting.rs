//! Values of which the index does not know yet where they are: a chunk of them is in the page that is being
//! filled, or was just programmed.

use super::chunk::{Held, Place};
use super::log::{InTail, Log};
use crate::check::IndexError;
use crate::nand::{Cause, Nand};
use crate::units::Ppn;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// A value that waits.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) key: Box<[u8]>,
    /// The chunks that are programmed, and the one that is not.
    placed: Vec<Place>,
    /// The mark of those that are.
    mark: u32,
    tail: Option<InTail>,
    /// Whether cleaning moves it: then the index has it elsewhere, too.
    is_moved: bool,
    /// Whether it has all of its chunks, and the index is to be told of it.
    pub(super) is_whole: bool,
}

impl Waiting {
    pub(super) fn new(key: &[u8], is_moved: bool) -> Waiting {
        Waiting { key: key.into(), placed: Vec::new(), mark: 0, tail: None, is_moved, is_whole: false }
    }

    /// Whether it is a new value.
    pub(super) const fn is_value(&self) -> bool {
        self.is_whole && !self.is_moved
    }

    /// Whether it is a new value of a key: look-ups are to find it.
    pub(super) fn is_value_of(&self, key: &[u8]) -> bool {
        self.is_value() && *self.key == *key
    }

    /// Whether cleaning moves it, all of it being there.
    pub(super) const fn is_moved(&self) -> bool {
        self.is_moved && self.is_whole
    }

    /// Whether the index can be told of it.
    pub(super) const fn is_placed(&self) -> bool {
        self.is_whole && self.tail.is_none()
    }

    /// The page being filled, in which it may have a chunk, was programmed.
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

    /// The value is wanted no more: the index never heard of its chunks.
    pub(super) fn give_up<N: Nand>(self, log: &mut Log<N>) {
        for place in self.placed {
            log.blocks.release(place, self.key.len(), true);
        }
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.key.len() + self.placed.capacity() * size_of::<Place>()
    }

    /// The value of the index for it, with its mark if it has so many chunks.
    pub(super) fn encode(&self, held: &mut Vec<u8>, marked_from: usize) {
        Held::encode(held, &self.placed, (self.placed.len() >= marked_from).then_some(self.mark));
    }

    /// Reads it.
    pub(super) fn read<N: Nand>(
        &self,
        log: &mut Log<N>,
        cause: Cause,
        value: &mut Vec<u8>,
    ) -> Result<(), IndexError> {
        for (number, &place) in self.placed.iter().enumerate() {
            log.read((&self.key, number as u16, 0), place, cause, value)?;
        }
        if let Some(chunk) = self.tail {
            value.extend_from_slice(log.in_tail(self.key.len(), chunk));
        }
        Ok(())
    }

    /// Puts the next bytes of it, of so many, into the page being filled: those of `value`, or else those of
    /// the chunk that was read last, from one on. Returns how many; none if the page is to be written first.
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

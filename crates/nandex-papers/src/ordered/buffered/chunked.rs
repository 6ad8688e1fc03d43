//! A table that grows by whole chunks of a fixed number of slots, so that it never moves and its RAM is known
//! beforehand.

use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

/// Values by slot number, in chunks of equal length.
#[derive(Clone, Debug)]
pub(in crate::ordered) struct Chunked<T> {
    chunks: Vec<Vec<T>>,
    chunk_slots: usize,
}

impl<T: Copy> Chunked<T> {
    /// A table without chunks, for up to `chunks_max` of them.
    pub(in crate::ordered) fn new(chunk_slots: usize, chunks_max: usize) -> Chunked<T> {
        Chunked { chunks: Vec::with_capacity(chunks_max), chunk_slots }
    }

    /// Adds a chunk whose slots all have this value.
    pub(in crate::ordered) fn grow(&mut self, value: T) {
        let mut chunk = Vec::with_capacity(self.chunk_slots);
        chunk.resize(self.chunk_slots, value);
        self.chunks.push(chunk);
    }

    pub(in crate::ordered) fn len(&self) -> usize {
        self.chunks.len() * self.chunk_slots
    }

    /// Bytes of RAM for a table of up to `chunks_max` chunks, without the chunks themselves.
    pub(in crate::ordered) const fn directory_bytes(chunks_max: usize) -> usize {
        chunks_max * size_of::<Vec<T>>()
    }

    fn place(&self, slot: u32) -> (usize, usize) {
        let slot = slot as usize;
        // A table of one chunk needs no division.
        if self.chunks.len() == 1 { (0, slot) } else { (slot / self.chunk_slots, slot % self.chunk_slots) }
    }
}

impl<T: Copy> Index<u32> for Chunked<T> {
    type Output = T;

    fn index(&self, slot: u32) -> &T {
        let (chunk, at) = self.place(slot);
        &self.chunks[chunk][at]
    }
}

impl<T: Copy> IndexMut<u32> for Chunked<T> {
    fn index_mut(&mut self, slot: u32) -> &mut T {
        let (chunk, at) = self.place(slot);
        &mut self.chunks[chunk][at]
    }
}

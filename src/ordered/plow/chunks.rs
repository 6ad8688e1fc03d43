//! A list that grows by a chunk at a time.
//!
//! A vector is in RAM twice while it grows, and an allocator of a small part has no other way. Here only the
//! list of chunks is, which takes a pointer for each. At most one chunk is partly empty.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;

/// Places for chunks that stay when others are given back.
const SPARE: usize = 1;

#[derive(Clone, Debug)]
pub(super) struct Chunks<T, const N: usize> {
    chunks: Vec<Box<[T; N]>>,
    count: u32,
}

impl<T, const N: usize> Default for Chunks<T, N> {
    fn default() -> Chunks<T, N> {
        Chunks { chunks: Vec::new(), count: 0 }
    }
}

impl<T: Copy, const N: usize> Chunks<T, N> {
    pub(super) fn len(&self) -> usize {
        self.count as usize
    }

    pub(super) fn get(&self, i: usize) -> T {
        self.chunks[i / N][i % N]
    }

    pub(super) fn set(&mut self, i: usize, item: T) {
        self.chunks[i / N][i % N] = item;
    }

    pub(super) fn last(&self) -> Option<T> {
        self.len().checked_sub(1).map(|last| self.get(last))
    }

    pub(super) fn last_mut(&mut self) -> Option<&mut T> {
        let last = self.len().checked_sub(1)?;
        Some(&mut self.chunks[last / N][last % N])
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> + Clone {
        self.chunks.iter().flat_map(|chunk| chunk.iter()).take(self.len())
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        let count = self.len();
        self.chunks.iter_mut().flat_map(|chunk| chunk.iter_mut()).take(count)
    }

    pub(super) fn range(&self, range: Range<usize>) -> impl Iterator<Item = T> + '_ {
        range.map(|i| self.get(i))
    }

    pub(super) fn push(&mut self, item: T) {
        let at = self.len();
        if at == self.chunks.len() * N {
            self.chunks.reserve_exact(1);
            self.chunks.push(Box::new([item; N]));
        }
        self.count += 1;
        self.set(at, item);
    }

    /// Inserts an item before number `at`, or at the end.
    pub(super) fn insert(&mut self, at: usize, item: T) {
        let Some(mut carried) = self.last() else { return self.push(item) };
        if at == self.len() {
            return self.push(item);
        }
        self.push(carried);
        carried = item;
        for i in at / N..=(self.len() - 1) / N {
            let from = if i == at / N { at % N } else { 0 };
            let chunk = &mut self.chunks[i][from..];
            chunk.rotate_right(1);
            core::mem::swap(&mut chunk[0], &mut carried);
        }
    }

    pub(super) fn remove(&mut self, at: usize) {
        let last = self.len() - 1;
        for i in at / N..=last / N {
            let from = if i == at / N { at % N } else { 0 };
            self.chunks[i][from..].rotate_left(1);
            if let Some(next) = self.chunks.get(i + 1).map(|next| next[0]) {
                self.chunks[i][N - 1] = next;
            }
        }
        self.truncate(last);
    }

    /// Keeps the first items only, and gives back the chunks behind them.
    pub(super) fn truncate(&mut self, count: usize) {
        self.count = self.count.min(count as u32);
        self.chunks.truncate(self.len().div_ceil(N));
        if self.chunks.capacity() > self.chunks.len() + 2 * SPARE {
            self.chunks.shrink_to(self.chunks.len() + SPARE);
        }
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.chunks.capacity() * size_of::<Box<[T; N]>>() + self.chunks.len() * size_of::<[T; N]>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn it_is_a_list_and_holds_a_chunk_too_much_at_most() {
        let (mut rng, mut list, mut model) = (Rng::new(1), Chunks::<u16, 8>::default(), Vec::new());
        for round in 0..4_000u16 {
            // It grows to some hundred items, and shrinks again.
            let grows = rng.chance(if round / 1000 % 2 == 0 { 2 } else { 1 }, 3);
            let at = rng.below(model.len() as u64 + 1) as usize;
            match rng.below(3) {
                0 if grows => {
                    list.push(round);
                    model.push(round);
                }
                _ if grows => {
                    list.insert(at, round);
                    model.insert(at, round);
                }
                _ if at < model.len() => {
                    list.remove(at);
                    model.remove(at);
                }
                _ => {}
            }
            assert!(list.iter().eq(&model) && list.last() == model.last().copied(), "round {round}");
            let at = at.min(model.len());
            assert!(list.range(at..model.len()).eq(model[at..].iter().copied()));
            let chunks = model.len().div_ceil(8);
            assert!(list.chunks.len() == chunks && list.len() == model.len());
        }
        (0..9).for_each(|_| list.push(4));
        list.iter_mut().for_each(|item| *item = 3);
        list.truncate(9);
        assert!(list.iter().eq(&[3; 9]) && list.chunks.len() == 2);
        list.truncate(0);
        assert_eq!((list.chunks.len(), list.last()), (0, None));
    }
}

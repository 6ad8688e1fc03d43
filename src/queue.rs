//! A queue in one row of memory. Elements taken from its front leave a gap, which is closed when room is
//! needed.
//!
//! The queue of the standard library wraps around its end. Its code handles both halves in every call, a
//! kilobyte of code for each type of element. Here the elements lie side by side, so a slice shows them all.
//! Both queues grow at the same length.

use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};

#[derive(Clone, Debug)]
pub(crate) struct Queue<T> {
    row: Vec<T>,
    /// Number of elements at the beginning of the row that were taken.
    gone: usize,
}

impl<T: Copy> Queue<T> {
    pub(crate) fn with_capacity(elements: usize) -> Queue<T> {
        Queue { row: Vec::with_capacity(elements), gone: 0 }
    }

    pub(crate) fn capacity(&self) -> usize {
        self.row.capacity()
    }

    pub(crate) fn push_back(&mut self, element: T) {
        if self.row.len() == self.row.capacity() {
            self.row();
        }
        self.row.push(element);
    }

    pub(crate) fn pop_front(&mut self) -> Option<T> {
        let first = *self.first()?;
        self.gone += 1;
        Some(first)
    }

    /// Closes the gap and returns the elements, for changes anywhere.
    pub(crate) fn row(&mut self) -> &mut Vec<T> {
        let left = self.len();
        self.row.copy_within(self.gone.., 0);
        self.row.truncate(left);
        self.gone = 0;
        &mut self.row
    }
}

impl<T> Deref for Queue<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.row[self.gone..]
    }
}

impl<T> DerefMut for Queue<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.row[self.gone..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use alloc::collections::VecDeque;

    #[test]
    fn it_answers_as_that_of_the_standard_library_and_grows_no_sooner() {
        let mut rng = Rng::new(11);
        let (mut ours, mut theirs) = (Queue::with_capacity(20), VecDeque::with_capacity(20));
        let capacity = ours.capacity();
        for step in 0..10_000u64 {
            match rng.below(5) {
                0 | 1 if theirs.len() < 20 => {
                    ours.push_back(step);
                    theirs.push_back(step);
                }
                2 if theirs.len() < 20 => {
                    let at = rng.below(theirs.len() as u64 + 1) as usize;
                    ours.row().insert(at, step);
                    theirs.insert(at, step);
                }
                3 => {
                    ours.row().truncate(15);
                    theirs.truncate(15);
                }
                _ => assert_eq!(ours.pop_front(), theirs.pop_front()),
            }
            assert!(ours.iter().eq(&theirs));
            assert_eq!((ours.first(), ours.last()), (theirs.front(), theirs.back()));
            assert_eq!(ours.capacity(), capacity);
        }
    }
}

//! The state of a tree as a mount finds it: read as it is asked for, so that only a page of it is in RAM.

use super::shadow::{MANIFEST, Shadow, corrupted};
use alloc::vec;
use alloc::vec::Vec;
use nandex::check::{IndexError, Invariant};

/// The state that was committed, read page by page as its bytes are asked for.
pub struct CommittedState {
    pub(super) page: Vec<u8>,
    /// Bytes of the page that were asked for, its head among them.
    pub(super) read: usize,
    /// Bytes of the state that were not.
    pub(super) left: usize,
    pub(super) unit: u32,
    /// The page of the unit that comes next, and the unit after that.
    pub(super) place: u32,
    pub(super) next: u32,
}

impl CommittedState {
    /// The bytes that are left.
    pub(in crate::ordered) const fn len(&self) -> usize {
        self.left
    }

    /// The next bytes; there are as many.
    pub(in crate::ordered) fn take(
        &mut self,
        shadow: &mut Shadow<'_>,
        mut bytes: &mut [u8],
    ) -> Result<(), IndexError> {
        self.left = self.left.checked_sub(bytes.len()).ok_or(corrupted(
            Invariant::S1,
            "the state is cut off",
            MANIFEST,
        ))?;
        while !bytes.is_empty() {
            if self.read == self.page.len() {
                shadow.next_page(self)?;
            }
            let count = bytes.len().min(self.page.len() - self.read);
            let (now, later) = bytes.split_at_mut(count);
            now.copy_from_slice(&self.page[self.read..][..count]);
            (self.read, bytes) = (self.read + count, later);
        }
        Ok(())
    }

    /// All bytes that are left.
    pub(in crate::ordered) fn rest(mut self, shadow: &mut Shadow<'_>) -> Result<Vec<u8>, IndexError> {
        let mut bytes = vec![0; self.left];
        self.take(shadow, &mut bytes)?;
        Ok(bytes)
    }
}

//! The state of a tree as a mount reads it: piece by piece, so that only one page of it is in RAM.

use super::shadow::{MANIFEST, Shadow, corrupted};
use alloc::vec;
use alloc::vec::Vec;
use nandex::check::{IndexError, Invariant};

/// The committed state. It is read page by page as its bytes are asked for.
pub struct CommittedState {
    pub(super) page: Vec<u8>,
    /// Bytes of the page that were used so far, its head included.
    pub(super) read: usize,
    /// Bytes of the state that were not asked for yet.
    pub(super) left: usize,
    pub(super) unit: u32,
    /// The next page of the unit; `next` is the unit after that.
    pub(super) place: u32,
    pub(super) next: u32,
}

impl CommittedState {
    /// Number of bytes left.
    pub(in crate::ordered) const fn len(&self) -> usize {
        self.left
    }

    /// Reads the next bytes of the state. If it has fewer, the state is damaged.
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

//! A key in a fixed array.

use core::ops::{Deref, DerefMut};

/// A key in a fixed array: to keep one for the length of an operation allocates no memory.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    bytes: [u8; u8::MAX as usize],
    len: u8,
}

impl Key {
    /// Copies a key, which has at most 255 bytes.
    pub(crate) fn of(key: &[u8]) -> Key {
        let mut copy = Key::zeros(key.len());
        copy.bytes[..key.len()].copy_from_slice(key);
        copy
    }

    /// A key of zeros, at most 255.
    pub(crate) fn zeros(len: usize) -> Key {
        Key { bytes: [0; u8::MAX as usize], len: len as u8 }
    }
}

impl Deref for Key {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl DerefMut for Key {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..usize::from(self.len)]
    }
}

//! A page store as a row of bytes: `embedded-storage` and `embedded-io`.
//!
//! A write that covers a page in part reads it first and writes it whole, so each page is old or new after a
//! power cut and never torn; a write over several pages may be there in part.

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use embedded_io::{ErrorKind, SeekFrom};
use nandex::{Cause, Lpn, PageStore, StoreError};

/// A page store as bytes.
#[derive(Debug)]
pub struct StoreBytes<S> {
    store: S,
    page: Vec<u8>,
    /// Offset of the next byte of the stream.
    position: u64,
}

/// Why bytes could not be read or written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BytesError {
    /// The bytes lie beyond the end of the store.
    OutOfBounds,
    /// The store failed or refused.
    Store(StoreError),
}

impl fmt::Display for BytesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BytesError::OutOfBounds => f.write_str("the bytes lie beyond the end of the store"),
            BytesError::Store(error) => write!(f, "{error}"),
        }
    }
}

impl core::error::Error for BytesError {}

impl embedded_io::Error for BytesError {
    fn kind(&self) -> ErrorKind {
        match self {
            BytesError::OutOfBounds => ErrorKind::InvalidInput,
            BytesError::Store(StoreError::Corrupted { .. }) => ErrorKind::InvalidData,
            BytesError::Store(StoreError::Full | StoreError::WornOut) => ErrorKind::OutOfMemory,
            BytesError::Store(StoreError::Unsupported(_)) => ErrorKind::Unsupported,
            BytesError::Store(_) => ErrorKind::Other,
        }
    }
}

impl<S: PageStore> StoreBytes<S> {
    /// The bytes of a store, from its first page on. Takes one page of RAM.
    pub fn new(store: S) -> StoreBytes<S> {
        let page = vec![0; store.page_bytes()];
        StoreBytes { store, page, position: 0 }
    }

    /// The store below, for example to sync it.
    pub fn store_mut(&mut self) -> &mut S {
        &mut self.store
    }

    /// Gives the store back.
    pub fn into_store(self) -> S {
        self.store
    }

    fn bytes(&self) -> u64 {
        u64::from(self.store.page_count()) * self.page.len() as u64
    }

    fn check(&self, at: u64, count: usize) -> Result<(), BytesError> {
        let end = at.checked_add(count as u64);
        if end.is_some_and(|end| end <= self.bytes()) { Ok(()) } else { Err(BytesError::OutOfBounds) }
    }

    /// The page of a byte, and the byte's place in it.
    fn place(&self, at: u64) -> (Lpn, usize) {
        let page = self.page.len() as u64;
        (Lpn((at / page) as u32), (at % page) as usize)
    }

    fn read_from(&mut self, mut at: u64, mut bytes: &mut [u8]) -> Result<(), BytesError> {
        self.check(at, bytes.len())?;
        while !bytes.is_empty() {
            let (lpn, from) = self.place(at);
            let count = bytes.len().min(self.page.len() - from);
            self.store.read(lpn, Cause::Host, &mut self.page).map_err(BytesError::Store)?;
            let (now, later) = bytes.split_at_mut(count);
            now.copy_from_slice(&self.page[from..from + count]);
            (bytes, at) = (later, at + count as u64);
        }
        Ok(())
    }

    fn write_to(&mut self, mut at: u64, mut bytes: &[u8]) -> Result<(), BytesError> {
        self.check(at, bytes.len())?;
        while !bytes.is_empty() {
            let (lpn, from) = self.place(at);
            let count = bytes.len().min(self.page.len() - from);
            if count < self.page.len() {
                self.store.read(lpn, Cause::Host, &mut self.page).map_err(BytesError::Store)?;
            }
            let (now, later) = bytes.split_at(count);
            self.page[from..from + count].copy_from_slice(now);
            self.store.write(lpn, Cause::Host, &self.page).map_err(BytesError::Store)?;
            (bytes, at) = (later, at + count as u64);
        }
        Ok(())
    }
}

impl<S: PageStore> embedded_storage::ReadStorage for StoreBytes<S> {
    type Error = BytesError;

    fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), BytesError> {
        self.read_from(offset.into(), bytes)
    }

    /// The first 4 GiB of a larger store: offsets have 32 bits.
    fn capacity(&self) -> usize {
        self.bytes().min(u32::MAX.into()) as usize
    }
}

impl<S: PageStore> embedded_storage::Storage for StoreBytes<S> {
    fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), BytesError> {
        self.write_to(offset.into(), bytes)
    }
}

impl<S> embedded_io::ErrorType for StoreBytes<S> {
    type Error = BytesError;
}

impl<S: PageStore> embedded_io::Read for StoreBytes<S> {
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize, BytesError> {
        let left = self.bytes().saturating_sub(self.position);
        let count = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        self.read_from(self.position, &mut bytes[..count])?;
        self.position += count as u64;
        Ok(count)
    }
}

impl<S: PageStore> embedded_io::Write for StoreBytes<S> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, BytesError> {
        let left = self.bytes().saturating_sub(self.position);
        let count = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        if count == 0 && !bytes.is_empty() {
            return Err(BytesError::OutOfBounds);
        }
        self.write_to(self.position, &bytes[..count])?;
        self.position += count as u64;
        Ok(count)
    }

    /// Syncs the store: earlier writes then survive a power cut.
    fn flush(&mut self) -> Result<(), BytesError> {
        self.store.sync().map_err(BytesError::Store)
    }
}

impl<S: PageStore> embedded_io::Seek for StoreBytes<S> {
    fn seek(&mut self, to: SeekFrom) -> Result<u64, BytesError> {
        let to = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.bytes().checked_add_signed(by),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
        };
        self.position = to.filter(|at| *at <= self.bytes()).ok_or(BytesError::OutOfBounds)?;
        Ok(self.position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use embedded_io::{Read, Seek, Write};
    use embedded_storage::{ReadStorage, Storage};
    use nandex::store::ram::RamStore;

    fn bytes() -> StoreBytes<RamStore> {
        StoreBytes::new(RamStore::new(512, 16))
    }

    #[test]
    fn bytes_are_where_they_were_written_across_pages() {
        let mut store = bytes();
        assert_eq!(store.capacity(), 8192);
        let text: Vec<u8> = (0..1500u32).map(|i| (i * 7) as u8).collect();
        Storage::write(&mut store, 300, &text).unwrap();
        Storage::write(&mut store, 305, &[9, 9]).unwrap();
        let mut found = vec![0; 1502];
        ReadStorage::read(&mut store, 299, &mut found).unwrap();
        assert_eq!((found[0], found[1501], &found[6..8]), (0, 0, &[9, 9][..]));
        assert!(found[1..6] == text[..5] && found[8..1501] == text[7..]);
        assert_eq!(Storage::write(&mut store, 8190, &[1, 2, 3]), Err(BytesError::OutOfBounds));
        assert_eq!(ReadStorage::read(&mut store, 8192, &mut [0]), Err(BytesError::OutOfBounds));
    }

    #[test]
    fn a_stream_goes_on_where_it_stands_and_ends() {
        let mut store = bytes();
        store.seek(SeekFrom::End(-4)).unwrap();
        assert_eq!(Write::write(&mut store, &[1, 2, 3, 4, 5, 6]), Ok(4));
        assert_eq!(Write::write(&mut store, &[7]), Err(BytesError::OutOfBounds));
        store.flush().unwrap();
        store.seek(SeekFrom::Current(-3)).unwrap();
        let mut found = [0; 8];
        assert_eq!(Read::read(&mut store, &mut found), Ok(3));
        assert_eq!(Read::read(&mut store, &mut found[4..]), Ok(0));
        assert_eq!(found, [2, 3, 4, 0, 0, 0, 0, 0]);
        assert_eq!(store.seek(SeekFrom::Start(9000)), Err(BytesError::OutOfBounds));
    }
}

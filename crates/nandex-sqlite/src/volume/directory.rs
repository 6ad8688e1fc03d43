//! The directory of a volume: the files, their runs, and the list of a large commit that is not yet at its
//! homes.
//!
//! ```text
//! store page 0 .. D      slot 0      the directory of even sequence numbers
//! store page D .. 2 D    slot 1      of odd ones
//! store page 2 D ..      pages of files, of commits too large for a group, and free ones
//!
//! a slot   magic 8 | crc 4 of all that follows | bytes 4 of all that follows | sequence 8 | page bytes 4 | redo page 4 |
//!          redo entries 4 | files 4 | files
//! a file   name bytes 2 | name | main database 1 | size 8 | runs 4 | runs of (first page 4, pages 4)
//! ```
//!
//! Numbers are little-endian. The directory is that of the two slots whose checksum holds and whose sequence
//! number is higher. A new directory goes to the other slot. It is written in one group with the pages of its
//! commit if the store has groups; otherwise the page with the checksum is written last. So a power cut
//! leaves the old directory or the new one.

use super::Run;
use nandex::StoreError;

/// First bytes of a directory slot.
const MAGIC: &[u8; 8] = b"NDXSQL1\n";

/// Bytes of a directory slot before the part that the checksum covers.
const SEALED_AT: usize = 12;

/// Bytes of a directory slot, rounded up to whole pages.
const SLOT_BYTES: usize = 16 * 1024;

/// Stands for no page.
pub(super) const NO_PAGE: u32 = u32::MAX;

/// Store pages of a directory slot.
pub(super) const fn slot_pages(page_bytes: usize) -> u32 {
    SLOT_BYTES.div_ceil(page_bytes) as u32
}

/// A file in the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) name: String,
    /// True for a database. Its size is then that of its runs, since SQLite's header has the exact size.
    pub(super) is_main: bool,
    /// Size of the file in bytes.
    pub(super) size: u64,
    pub(super) runs: Vec<Run>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Directory {
    pub(super) sequence: u64,
    /// The large commit whose pages must still go to their homes: the first store page of its list, and the
    /// number of entries.
    pub(super) redo: Option<(u32, u32)>,
    pub(super) files: Vec<Listed>,
}

impl Directory {
    /// Encodes the directory in whole pages.
    ///
    /// # Errors
    ///
    /// [`StoreError::Full`] if the files and runs take more than a directory slot.
    pub(super) fn encode(&self, page_bytes: usize) -> Result<Vec<u8>, StoreError> {
        let mut body = Vec::new();
        body.extend([0; 4]);
        body.extend(self.sequence.to_le_bytes());
        body.extend((page_bytes as u32).to_le_bytes());
        let (page, entries) = self.redo.unwrap_or((NO_PAGE, 0));
        body.extend(page.to_le_bytes());
        body.extend(entries.to_le_bytes());
        body.extend((self.files.len() as u32).to_le_bytes());
        for file in &self.files {
            body.extend((file.name.len() as u16).to_le_bytes());
            body.extend(file.name.as_bytes());
            body.push(u8::from(file.is_main));
            body.extend(file.size.to_le_bytes());
            body.extend((file.runs.len() as u32).to_le_bytes());
            for run in &file.runs {
                body.extend(run.first.to_le_bytes());
                body.extend(run.pages.to_le_bytes());
            }
        }
        let bytes = body.len() as u32;
        body[..4].copy_from_slice(&bytes.to_le_bytes());
        let mut slot = Vec::from(MAGIC.as_slice());
        slot.extend(crc32fast::hash(&body).to_le_bytes());
        slot.extend(body);
        let pages = slot.len().div_ceil(page_bytes);
        if pages > slot_pages(page_bytes) as usize {
            return Err(StoreError::Full);
        }
        slot.resize(pages * page_bytes, 0);
        Ok(slot)
    }

    /// Decodes a directory slot; `None` if it is empty or torn.
    pub(super) fn decode(slot: &[u8], page_bytes: usize) -> Option<Directory> {
        if slot.get(..8)? != MAGIC {
            return None;
        }
        let mut bytes = Bytes(slot.get(8..)?);
        let crc = bytes.u32()?;
        let length = u32::from_le_bytes(slot.get(SEALED_AT..SEALED_AT + 4)?.try_into().ok()?) as usize;
        let body = slot.get(SEALED_AT..SEALED_AT.checked_add(length)?)?;
        if crc32fast::hash(body) != crc {
            return None;
        }
        let mut bytes = Bytes(body.get(4..)?);
        let sequence = bytes.u64()?;
        if bytes.u32()? as usize != page_bytes {
            return None;
        }
        let redo = (bytes.u32()?, bytes.u32()?);
        let count = bytes.u32()?;
        let mut files = Vec::new();
        for _ in 0..count {
            files.push(bytes.listed()?);
        }
        Some(Directory { sequence, redo: (redo.0 != NO_PAGE).then_some(redo), files })
    }
}

/// Reader of encoded bytes; each read removes them from the front.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(front)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn listed(&mut self) -> Option<Listed> {
        let length = usize::from(u16::from_le_bytes(self.take(2)?.try_into().ok()?));
        let name = String::from_utf8(self.take(length)?.to_vec()).ok()?;
        let is_main = self.take(1)?[0] != 0;
        let size = self.u64()?;
        let count = self.u32()?;
        let mut runs = Vec::new();
        for _ in 0..count {
            let run = Run { first: self.u32()?, pages: self.u32()? };
            run.first.checked_add(run.pages)?;
            runs.push(run);
        }
        Some(Listed { name, is_main, size, runs })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Directory {
        let runs = vec![Run { first: 20, pages: 3 }, Run { first: 90, pages: 1 }];
        let file = Listed { name: String::from("a.db"), is_main: true, size: 8000, runs };
        let empty = Listed { name: String::from("b"), is_main: false, size: 0, runs: Vec::new() };
        Directory { sequence: 7, redo: Some((50, 300)), files: vec![file, empty] }
    }

    #[test]
    fn what_is_written_is_read() {
        for page_bytes in [512, 2048, 4096] {
            let slot = some().encode(page_bytes).unwrap();
            assert_eq!(slot.len() % page_bytes, 0);
            assert_eq!(Directory::decode(&slot, page_bytes), Some(some()));
            assert_eq!(Directory::decode(&slot, 1024), None, "the directory of another page size");
        }
    }

    #[test]
    fn any_byte_that_changed_is_seen() {
        let slot = some().encode(512).unwrap();
        let length = 12 + u32::from_le_bytes(slot[12..16].try_into().unwrap()) as usize;
        for place in 0..length {
            let mut torn = slot.clone();
            torn[place] ^= 0x10;
            assert_eq!(Directory::decode(&torn, 512), None, "byte {place}");
            assert_eq!(Directory::decode(&slot[..place], 512), None, "cut at {place}");
        }
    }

    #[test]
    fn too_many_files_are_refused() {
        let files = vec![some().files[0].clone(); 2000];
        let many = Directory { files, ..some() };
        assert_eq!(many.encode(2048), Err(StoreError::Full));
    }
}

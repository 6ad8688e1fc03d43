//! Examines a volume without changing it: its files, its free pages, and a check.

use crate::stats::VolumeStats;
use crate::volume;
use nandex::ftl::SPARE_BYTES;
use nandex::ftl::page_map::{FtlConfig, PageMapFtl};
use nandex::nand::LentSpare;
use nandex::{Nand, PageStore, StoreError};
use nandex_mtd::Unchanged;
use std::fmt;

/// The state of a volume, every page of which was read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Look {
    /// Bytes of a page of the store: the best `page_size` of a database.
    pub page_bytes: usize,
    /// Pages of the store.
    pub pages: u32,
    /// Pages of the store for the directory.
    pub directory_pages: u32,
    /// Files that survive, ordered by name.
    pub files: Vec<FileStats>,
    /// The numbers of `PRAGMA nandex_stats`, as after a mount.
    pub stats: VolumeStats,
    /// A power cut left a large commit half applied: it counts, and the next mount finishes it.
    pub is_unfinished: bool,
    /// All faults found.
    pub faults: Vec<FileFault>,
}

impl Look {
    /// Looks at the volume on a chip through the page-mapping FTL. What a mount would write stays in RAM. The
    /// chip of an image is [`chip_of_image`](crate::chip_of_image).
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use nandex_sqlite::{Device, Look, VolumeConfig, chip_of_image};
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("chip.img");
    /// # drop(Device::new(path.to_string_lossy()).open(VolumeConfig::default())?);
    ///
    /// let chip = chip_of_image(&path)?.ok_or("no image of a chip")?;
    /// let look = Look::of_chip(chip)?;
    /// println!("{} files, {} free pages", look.files.len(), look.stats.free_pages);
    /// assert!(look.faults.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of a mount, [`StoreError::Corrupted`] for one: nothing of the volume can be told then.
    pub fn of_chip(chip: impl Nand + 'static) -> Result<Look, StoreError> {
        let chip = LentSpare::new(Unchanged::new(chip), SPARE_BYTES as u32);
        Look::of(PageMapFtl::mount(chip, &FtlConfig::default())?)
    }

    /// Examines the volume on any store. A mount may write: pass a store whose changes stay in RAM.
    ///
    /// # Errors
    ///
    /// Those of [`Volume::open`](crate::Volume::open).
    pub fn of(store: impl PageStore + Send + 'static) -> Result<Look, StoreError> {
        volume::look(store)
    }
}

/// The kind of file that SQLite has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileKind {
    /// A database.
    Database,
    /// A rollback journal.
    Journal,
    /// A write-ahead log.
    Log,
    /// Another file.
    Other,
}

impl FileKind {
    /// The kind in words.
    pub const fn words(self) -> &'static str {
        match self {
            FileKind::Database => "database",
            FileKind::Journal => "rollback journal",
            FileKind::Log => "write-ahead log",
            FileKind::Other => "file",
        }
    }
}

/// A file of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileStats {
    /// Name of the file.
    pub name: String,
    /// The kind of file.
    pub kind: FileKind,
    /// Bytes of the file; of a database whole pages of the store.
    pub bytes: u64,
    /// Pages of the store for these bytes.
    pub pages: u32,
    /// Pages of the store that the file has, including those for growth.
    pub room_pages: u32,
    /// Header of a database, if a [`Look`] read one.
    pub header: Option<Header>,
}

/// The header of a database of SQLite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Header {
    /// `page_size` of the database, in bytes.
    pub page_bytes: u32,
    /// Pages of the database, if the header tells them.
    pub pages: u32,
    /// Whether it opens with a write-ahead log.
    pub is_logged: bool,
}

impl Header {
    /// Decodes the header at the start of a database; `None` if there is none, for example in an encrypted
    /// one.
    pub(crate) fn decode(page: &[u8]) -> Option<Header> {
        let rest = page.strip_prefix(b"SQLite format 3\0")?;
        let page_bytes = u32::from(u16::from_be_bytes(*rest.first_chunk()?));
        let page_bytes = if page_bytes == 1 { 1 << 16 } else { page_bytes };
        let word = |at: usize| Some(u32::from_be_bytes(*page.get(at..)?.first_chunk()?));
        // An old SQLite that changed the database left the number of pages as it was.
        let pages = if word(24)? == word(92)? { word(28)? } else { 0 };
        let is_sound = page_bytes.is_power_of_two() && page_bytes >= 512;
        is_sound.then_some(Header { page_bytes, pages, is_logged: *page.get(18)? == 2 })
    }
}

/// Something that is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileFault {
    /// Name of the file.
    pub file: String,
    /// Page of the file, counted from 0 in pages of the store; `None` if the fault concerns the whole file.
    pub page: Option<u32>,
    /// The reason in words.
    pub why: String,
}

impl fmt::Display for FileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.page {
            Some(page) => write!(f, "{}, page {page}: {}", self.file, self.why),
            None => write!(f, "{}: {}", self.file, self.why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_and_nothing_else_taken_for_one() {
        let mut page = vec![0; 512];
        page[..16].copy_from_slice(b"SQLite format 3\0");
        page[16..18].copy_from_slice(&[0, 1]);
        page[18] = 2;
        page[24..28].copy_from_slice(&[0, 0, 0, 9]);
        page[28..32].copy_from_slice(&[0, 0, 1, 0]);
        page[92..96].copy_from_slice(&[0, 0, 0, 9]);
        let header = Header { page_bytes: 65_536, pages: 256, is_logged: true };
        assert_eq!(Header::decode(&page), Some(header));
        page[95] = 8;
        assert_eq!(Header::decode(&page), Some(Header { pages: 0, ..header }));
        for bytes in 0..96 {
            assert_eq!(Header::decode(&page[..bytes]), None);
        }
        page[16..18].copy_from_slice(&[3, 1]);
        assert_eq!(Header::decode(&page), None, "no page has 769 bytes");
        assert_eq!(Header::decode(&[0; 512]), None);
    }
}

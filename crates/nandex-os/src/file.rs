//! Pages in a file or on a block device.
//!
//! Page `n` is the bytes from `n * page_bytes` on; the file contains nothing else. Reads and writes bypass
//! the system's page cache (O_DIRECT) if the system, the file system and the page size allow that.
//! [`FilePageStore::is_direct`] tells whether they do.
//!
//! # What survives a power cut
//!
//! - *Sync* is fdatasync: afterwards all earlier writes and trims are on the medium, as far as the medium
//!   tells the truth.
//! - Without a sync nothing is promised: direct I/O bypasses the system's cache but not the device's. Writes
//!   may reach the medium in any order. So [`PageStore::durable_writes`] and [`PageStore::prefix_consistent`]
//!   are false. With [`FileOptions::every_write_synced`] (O_DSYNC) a write is on the medium when it returns,
//!   and both are true.
//! - A power cut tears a page unless the device writes whole pages, or sectors of that size; the store cannot
//!   know. The layer above should have checksums, as the trees have.
//!
//! # Trim
//!
//! A trim punches a hole (fallocate), which reads as zeros and lets an SSD forget the page. If that is not
//! supported, zeros are written, at the cost of a write. After the first trim [`FilePageStore::punching`]
//! tells which.
//!
//! # One owner
//!
//! The file is locked ([`Lock`]) as long as it is open: by one process that may change it, or by several that
//! read. A child of `fork` that inherits the store cannot use it.

use crate::aligned::{ALIGNMENT, Aligned};
use crate::{Access, Lock};
use nandex::{Cause, Lpn, PageStore, StoreError};
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileOptions {
    /// Bytes of a page.
    pub page_bytes: usize,
    /// Bypass the system's page cache if possible.
    pub direct: bool,
    /// Each write is on the medium when it returns (O_DSYNC).
    pub every_write_synced: bool,
    /// Whether pages are written. If they are only read, other processes may read too.
    pub access: Access,
}

impl FileOptions {
    /// To be written, past the page cache where possible; durable by sync.
    pub fn new(page_bytes: usize) -> FileOptions {
        FileOptions { page_bytes, direct: true, every_write_synced: false, access: Access::Change }
    }
}

/// The outcome of trims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Punching {
    /// There was no trim yet.
    Unknown,
    /// The trims punch holes.
    Works,
    /// The trims write zeros.
    WritesZeros,
}

/// Pages in a file.
pub struct FilePageStore {
    file: File,
    lock: Lock,
    name: String,
    options: FileOptions,
    page_count: u32,
    is_direct: bool,
    is_device: bool,
    punching: Punching,
    page: Aligned,
}

impl FilePageStore {
    /// Makes a new file of `page_count` pages of zeros. An existing file is refused unless it is empty.
    ///
    /// # Errors
    ///
    /// Those of [`FilePageStore::open`], and [`StoreError::Device`] for a file that is not empty.
    pub fn create(path: &Path, page_count: u32, options: FileOptions) -> Result<FilePageStore, StoreError> {
        check_page(options.page_bytes)?;
        let lock = Lock::take_or_make(path)?;
        FilePageStore::create_under(lock, page_count, options)
    }

    /// A store made as [`FilePageStore::create`] does, in a file that was locked before.
    ///
    /// # Errors
    ///
    /// Those of [`FilePageStore::create`].
    pub fn create_under(
        lock: Lock,
        page_count: u32,
        options: FileOptions,
    ) -> Result<FilePageStore, StoreError> {
        check_page(options.page_bytes)?;
        let bytes = u64::from(page_count) * options.page_bytes as u64;
        let made = OpenOptions::new().write(true).open(lock.path()).and_then(|file| {
            let metadata = file.metadata()?;
            if !metadata.is_file() || metadata.len() > 0 {
                return Err(io::Error::from(io::ErrorKind::AlreadyExists));
            }
            file.set_len(bytes)
        });
        made.map_err(|e| failed(lock.path(), "create", &e))?;
        FilePageStore::open_under(lock, options)
    }

    /// Opens a file or a block device with the pages that it holds; a rest smaller than a page is left alone.
    /// Pages hold whatever was there.
    ///
    /// # Errors
    ///
    /// [`StoreError::InUse`] where somebody has it open; [`StoreError::Unsupported`] for pages that it cannot
    /// have; [`StoreError::Device`] where the system refuses.
    pub fn open(path: &Path, options: FileOptions) -> Result<FilePageStore, StoreError> {
        check_page(options.page_bytes)?;
        FilePageStore::open_under(Lock::take(path, options.access)?, options)
    }

    /// The store that [`FilePageStore::open`] finds, in a file that was locked before.
    ///
    /// # Errors
    ///
    /// Those of [`FilePageStore::open`].
    pub fn open_under(lock: Lock, options: FileOptions) -> Result<FilePageStore, StoreError> {
        check_page(options.page_bytes)?;
        let path = lock.path();
        let (mut file, is_direct) = open_file(path, &options)?;
        let kind = file.metadata().map_err(|e| failed(path, "examine", &e))?.file_type();
        let bytes = file.seek(SeekFrom::End(0)).map_err(|e| failed(path, "measure", &e))?;
        let pages = u32::try_from(bytes / options.page_bytes as u64).unwrap_or(u32::MAX);
        if pages == 0 {
            let what = format!("{} is smaller than a page of {} bytes", path.display(), options.page_bytes);
            return Err(StoreError::Unsupported(what.into()));
        }
        Ok(FilePageStore {
            file,
            name: path.display().to_string(),
            lock,
            options,
            page_count: pages,
            is_direct,
            is_device: kind.is_block_device(),
            punching: Punching::Unknown,
            page: Aligned::zeroed(options.page_bytes),
        })
    }

    /// Limits the store to its first `page_count` pages.
    #[must_use]
    pub fn limited_to(mut self, page_count: u32) -> FilePageStore {
        self.page_count = self.page_count.min(page_count);
        self
    }

    /// Whether reads and writes go past the system's page cache.
    pub fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// Whether it is a block device.
    pub fn is_device(&self) -> bool {
        self.is_device
    }

    /// The outcome of trims.
    pub fn punching(&self) -> Punching {
        self.punching
    }

    /// The promises of this store, in words: for whoever reads figures measured on it.
    pub fn promises(&self) -> String {
        let kind = if self.is_device { "block device" } else { "file" };
        let path = if self.is_direct { "past the page cache (O_DIRECT)" } else { "through the page cache" };
        let durable = match self.options.every_write_synced {
            true => "each write synced (O_DSYNC)",
            false => "durable by sync only (fdatasync)",
        };
        format!("{kind} {}, {path}, {durable}; a page may be torn by a power cut", self.name)
    }

    fn offset(&self, lpn: Lpn, bytes: usize) -> Result<u64, StoreError> {
        self.lock.require_owner()?;
        if lpn.0 >= self.page_count {
            return Err(StoreError::OutOfRange(lpn));
        }
        let expected = self.options.page_bytes;
        if bytes != expected {
            return Err(StoreError::WrongLength { expected, got: bytes });
        }
        Ok(u64::from(lpn.0) * expected as u64)
    }

    /// Writes consecutive pages.
    ///
    /// # Errors
    ///
    /// Those of [`PageStore::write`]. Any of the pages may then be written.
    pub fn write_run(&mut self, first: Lpn, data: &[u8]) -> Result<(), StoreError> {
        let page_bytes = self.options.page_bytes;
        let pages = data.len() / page_bytes;
        if self.is_direct || pages < 2 || !data.len().is_multiple_of(page_bytes) {
            return (first.0..)
                .zip(data.chunks(page_bytes))
                .try_for_each(|(lpn, page)| self.write(Lpn(lpn), Cause::Host, page));
        }
        let last = u64::from(first.0) + pages as u64 - 1;
        self.offset(Lpn(u32::try_from(last).unwrap_or(u32::MAX)), page_bytes)?;
        let offset = self.offset(first, page_bytes)?;
        self.file.write_all_at(data, offset).map_err(|e| self.failed("write", &e))
    }

    fn failed(&self, doing: &str, error: &io::Error) -> StoreError {
        StoreError::Device(format!("{}: cannot {doing}: {error}", self.name))
    }

    fn punch(&self, offset: u64) -> Result<bool, StoreError> {
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::{FallocateFlags, fallocate};
            use rustix::io::Errno;
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            match fallocate(&self.file, flags, offset, self.options.page_bytes as u64) {
                Ok(()) => Ok(true),
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::NODEV) => Ok(false),
                Err(error) => Err(self.failed("trim", &error.into())),
            }
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = offset;
            Ok(false)
        }
    }
}

/// Direct I/O addresses whole sectors; a page that is no multiple of one could not be read alone.
fn check_page(page_bytes: usize) -> Result<(), StoreError> {
    if page_bytes > 0 && page_bytes.is_multiple_of(512) {
        return Ok(());
    }
    Err(StoreError::Unsupported(format!("a page of {page_bytes} bytes is no multiple of 512").into()))
}

fn failed(path: &Path, doing: &str, error: &io::Error) -> StoreError {
    StoreError::Device(format!("{}: cannot {doing}: {error}", path.display()))
}

/// Opens a file, direct if that was asked for and a page can be read so.
fn open_file(path: &Path, options: &FileOptions) -> Result<(File, bool), StoreError> {
    let base = if options.every_write_synced { OFlags::DSYNC } else { OFlags::empty() };
    let open = |flags: OFlags| {
        let writes = options.access == Access::Change;
        OpenOptions::new().read(true).write(writes).custom_flags(flags.bits().cast_signed()).open(path)
    };
    if let (true, Some(direct)) = (options.direct, direct_flag()) {
        let mut page = Aligned::zeroed(options.page_bytes.max(ALIGNMENT));
        let probed = open(base | direct).and_then(|file| {
            // Some systems refuse the flag, others the first access: a page smaller than the device's sector,
            // say.
            let place = options.page_bytes as u64;
            file.read_at(&mut page.get_mut()[..options.page_bytes], place).map(|_| file)
        });
        if let Ok(file) = probed {
            return Ok((file, true));
        }
    }
    open(base).map(|file| (file, false)).map_err(|e| failed(path, "open", &e))
}

#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
fn direct_flag() -> Option<OFlags> {
    Some(OFlags::DIRECT)
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
fn direct_flag() -> Option<OFlags> {
    None
}

impl PageStore for FilePageStore {
    fn page_bytes(&self) -> usize {
        self.options.page_bytes
    }

    fn page_count(&self) -> u32 {
        self.page_count
    }

    fn read(&mut self, lpn: Lpn, _cause: Cause, data: &mut [u8]) -> Result<(), StoreError> {
        let offset = self.offset(lpn, data.len())?;
        let read = self.file.read_exact_at(self.page.get_mut(), offset);
        read.map_err(|e| self.failed("read", &e))?;
        data.copy_from_slice(self.page.get());
        Ok(())
    }

    fn write(&mut self, lpn: Lpn, _cause: Cause, data: &[u8]) -> Result<(), StoreError> {
        let offset = self.offset(lpn, data.len())?;
        self.page.get_mut().copy_from_slice(data);
        self.file.write_all_at(self.page.get(), offset).map_err(|e| self.failed("write", &e))
    }

    fn trim(&mut self, lpn: Lpn) -> Result<(), StoreError> {
        let offset = self.offset(lpn, self.options.page_bytes)?;
        if self.punching != Punching::WritesZeros {
            if self.punch(offset)? {
                self.punching = Punching::Works;
                return Ok(());
            }
            self.punching = Punching::WritesZeros;
        }
        self.page.get_mut().fill(0);
        self.file.write_all_at(self.page.get(), offset).map_err(|e| self.failed("write zeros", &e))
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.lock.require_owner()?;
        self.file.sync_data().map_err(|e| self.failed("sync", &e))
    }

    fn durable_writes(&self) -> bool {
        self.options.every_write_synced
    }

    fn prefix_consistent(&self) -> bool {
        self.options.every_write_synced
    }

    fn ram_bytes(&self) -> usize {
        size_of::<Self>() + self.options.page_bytes + ALIGNMENT
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn create(folder: &Path, pages: u32, options: FileOptions) -> FilePageStore {
        FilePageStore::create(&folder.join("pages"), pages, options).unwrap()
    }

    #[derive(Clone, Debug)]
    enum Op {
        Write(u32, u8),
        Trim(u32),
        Read(u32),
        Sync,
        Reopen,
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            4 => (0..20u32, any::<u8>()).prop_map(|(lpn, byte)| Op::Write(lpn, byte)),
            2 => (0..20u32).prop_map(Op::Trim),
            3 => (0..20u32).prop_map(Op::Read),
            1 => Just(Op::Sync),
            1 => Just(Op::Reopen),
        ]
    }

    proptest! {
        #![proptest_config(crate::inputs::fixed(40))]

        #[test]
        fn it_is_an_array_of_pages(
            ops in prop::collection::vec(op(), 1..80),
            page_bytes in prop::sample::select(vec![512, 4096, 8192]),
            direct in any::<bool>(),
            every_write_synced in any::<bool>(),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let options =
                FileOptions { direct, every_write_synced, ..FileOptions::new(page_bytes) };
            let mut store = create(folder.path(), 20, options);
            let mut model = [0u8; 20];
            let mut data = vec![0; page_bytes];
            for op in ops {
                match op {
                    Op::Write(lpn, byte) => {
                        store.write(Lpn(lpn), Cause::Host, &vec![byte; page_bytes]).unwrap();
                        model[lpn as usize] = byte;
                    }
                    Op::Trim(lpn) => {
                        store.trim(Lpn(lpn)).unwrap();
                        model[lpn as usize] = 0;
                    }
                    Op::Read(lpn) => {
                        store.read(Lpn(lpn), Cause::Host, &mut data).unwrap();
                        prop_assert!(data.iter().all(|&b| b == model[lpn as usize]), "page {}", lpn);
                    }
                    Op::Sync => store.sync().unwrap(),
                    Op::Reopen => {
                        drop(store);
                        store = FilePageStore::open(&folder.path().join("pages"), options).unwrap();
                    }
                }
            }
            for (lpn, byte) in model.into_iter().enumerate() {
                store.read(Lpn(lpn as u32), Cause::Host, &mut data).unwrap();
                prop_assert!(data.iter().all(|&b| b == byte));
            }
        }
    }

    #[test]
    fn a_trim_reads_as_zeros_where_holes_cannot_be_punched() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = create(folder.path(), 4, FileOptions::new(512));
        store.write(Lpn(2), Cause::Host, &[7; 512]).unwrap();
        store.punching = Punching::WritesZeros;
        store.trim(Lpn(2)).unwrap();
        let mut data = [9; 512];
        store.read(Lpn(2), Cause::Host, &mut data).unwrap();
        assert_eq!((data, store.punching()), ([0; 512], Punching::WritesZeros));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = create(folder.path(), 4, FileOptions::new(512));
        let mut data = [0; 512];
        assert_eq!(store.read(Lpn(4), Cause::Host, &mut data), Err(StoreError::OutOfRange(Lpn(4))));
        assert_eq!(store.trim(Lpn(9)), Err(StoreError::OutOfRange(Lpn(9))));
        let short = store.write(Lpn(0), Cause::Host, &[0; 100]);
        assert_eq!(short, Err(StoreError::WrongLength { expected: 512, got: 100 }));
        let path = folder.path().join("pages");
        drop(store);
        let again = FilePageStore::create(&path, 4, FileOptions::new(512));
        assert!(matches!(again, Err(StoreError::Device(why)) if why.contains("cannot create")));
        for (path, bytes) in [(folder.path().join("none"), 512), (path.clone(), 1000), (path, 4096)] {
            assert!(FilePageStore::open(&path, FileOptions::new(bytes)).is_err(), "{path:?} {bytes}");
        }
    }

    #[test]
    fn promises_are_what_the_flags_give() {
        let folder = tempfile::tempdir().unwrap();
        let plain = create(folder.path(), 8, FileOptions { direct: false, ..FileOptions::new(512) });
        let again = FilePageStore::open(&folder.path().join("pages"), FileOptions::new(512));
        assert!(matches!(again, Err(StoreError::InUse(why)) if why.contains("pages is in use")));
        assert!(!plain.durable_writes() && !plain.prefix_consistent() && !plain.is_direct());
        assert!(plain.promises().contains("through the page cache, durable by sync only"));
        drop(plain);
        let options = FileOptions { every_write_synced: true, ..FileOptions::new(512) };
        let synced = FilePageStore::open(&folder.path().join("pages"), options).unwrap().limited_to(3);
        assert!(synced.durable_writes() && synced.prefix_consistent() && !synced.is_device());
        assert_eq!((synced.page_count(), synced.atomic_pages_max()), (3, 1));
        assert!(synced.promises().contains("each write synced"));
    }
}

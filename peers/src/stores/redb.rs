//! redb on bytes of a page-mapping FTL.

use crate::store::{Load, Medium, Opened, Records, Store, Trouble};
use nandex::ftl::page_map::{FtlConfig, PageMapFtl};
use nandex::nand::sim::SimChip;
use nandex::{Cause, Lpn, PageStore, Shared};
use nandex_embedded::StoreBytes;
use redb::{Database, ReadableDatabase, StorageBackend, TableDefinition};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// KiB of redb's cache.
pub const CACHE_KIB: usize = 256;

/// The name of the table.
const TABLE: &str = "t";

type Ftl = PageMapFtl<Shared<SimChip>>;

/// The file of redb: page 0 of the store keeps its length, the bytes follow.
struct File {
    bytes: StoreBytes<Ftl>,
    page: u64,
    len: u64,
}

struct Backend(Mutex<File>);

impl std::fmt::Debug for Backend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a file on an FTL")
    }
}

fn failed(error: impl std::fmt::Debug) -> io::Error {
    io::Error::other(format!("{error:?}"))
}

impl Backend {
    fn new(mut ftl: Ftl) -> Result<Backend, Trouble> {
        let mut page = vec![0; ftl.page_bytes()];
        ftl.read(Lpn(0), Cause::Host, &mut page).map_err(Trouble::of)?;
        let len = u64::from_le_bytes(page[..8].try_into().map_err(Trouble::of)?);
        let page = page.len() as u64;
        Ok(Backend(Mutex::new(File { bytes: StoreBytes::new(ftl), page, len })))
    }

    fn file(&self) -> MutexGuard<'_, File> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl File {
    fn place(&self, offset: u64) -> io::Result<u32> {
        u32::try_from(self.page + offset).map_err(failed)
    }
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file().len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut file = self.file();
        if offset + out.len() as u64 > file.len {
            return Err(failed("a read beyond the end"));
        }
        let at = file.place(offset)?;
        embedded_storage::ReadStorage::read(&mut file.bytes, at, out).map_err(failed)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut file = self.file();
        let (page, old) = (file.page, file.len);
        let store = file.bytes.store_mut();
        if page + len > u64::from(store.page_count()) * page {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        // A page that was never written, or was trimmed, reads as zeros.
        for number in len.div_ceil(page)..old.div_ceil(page) {
            store.trim(Lpn(1 + number as u32)).map_err(failed)?;
        }
        let mut head = vec![0; page as usize];
        head[..8].copy_from_slice(&len.to_le_bytes());
        store.write(Lpn(0), Cause::Host, &head).map_err(failed)?;
        file.len = len;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file().bytes.store_mut().sync().map_err(failed)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut file = self.file();
        let at = file.place(offset)?;
        embedded_storage::Storage::write(&mut file.bytes, at, data).map_err(failed)
    }
}

/// A database of keys and values of so many bytes.
struct Kept<const K: usize, const V: usize> {
    database: Database,
    chip: Shared<SimChip>,
    ftl_bytes: usize,
}

/// Makes the database and its table.
pub fn open(medium: &Medium, load: &Load) -> Opened {
    let chip = medium.nand()?;
    let ftl = PageMapFtl::format(chip.clone(), &FtlConfig::default()).map_err(Trouble::of)?;
    match (load.key_bytes, load.value_bytes) {
        (8, 8) => Ok(Box::new(Kept::<8, 8>::on(ftl, chip)?)),
        (16, 100) => Ok(Box::new(Kept::<16, 100>::on(ftl, chip)?)),
        _ => Err(Trouble::Failed("no records of such sizes are in the list".into())),
    }
}

impl<const K: usize, const V: usize> Kept<K, V> {
    fn on(ftl: Ftl, chip: Shared<SimChip>) -> Result<Kept<K, V>, Trouble> {
        let ftl_bytes = ftl.ram_bytes();
        let mut builder = Database::builder();
        builder.set_cache_size(CACHE_KIB << 10);
        let database = builder.create_with_backend(Backend::new(ftl)?).map_err(Trouble::of)?;
        Ok(Kept { database, chip, ftl_bytes })
    }

    fn table() -> TableDefinition<'static, &'static [u8; K], &'static [u8; V]> {
        TableDefinition::new(TABLE)
    }
}

fn trouble(error: impl Into<redb::Error>) -> Trouble {
    match error.into() {
        redb::Error::Io(error) if error.kind() == io::ErrorKind::StorageFull => Trouble::NoRoom,
        error => Trouble::of(error),
    }
}

fn sized<const N: usize>(bytes: &[u8]) -> Result<&[u8; N], Trouble> {
    bytes.try_into().map_err(|_| Trouble::Failed("a record of another size".into()))
}

impl<const K: usize, const V: usize> Store for Kept<K, V> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Trouble> {
        let change = self.database.begin_write().map_err(trouble)?;
        {
            let mut table = change.open_table(Self::table()).map_err(trouble)?;
            table.insert(sized(key)?, sized(value)?).map_err(trouble)?;
        }
        change.commit().map_err(trouble)
    }

    fn get(&mut self, key: &[u8], value: &mut [u8]) -> Result<bool, Trouble> {
        let view = self.database.begin_read().map_err(trouble)?;
        let table = view.open_table(Self::table()).map_err(trouble)?;
        let Some(found) = table.get(sized::<K>(key)?).map_err(trouble)? else { return Ok(false) };
        value.copy_from_slice(found.value());
        Ok(true)
    }

    fn range(&mut self, from: &[u8], count: usize) -> Result<Option<Records>, Trouble> {
        let view = self.database.begin_read().map_err(trouble)?;
        let table = view.open_table(Self::table()).map_err(trouble)?;
        let rows = table.range::<&[u8; K]>(sized::<K>(from)?..).map_err(trouble)?;
        let mut records = Records::new();
        for row in rows.take(count) {
            let (key, value) = row.map_err(trouble)?;
            records.push((key.value().to_vec(), value.value().to_vec()));
        }
        Ok(Some(records))
    }

    fn ram_bytes(&self) -> Option<usize> {
        Some((CACHE_KIB << 10) + self.ftl_bytes)
    }

    fn again(self: Box<Self>) -> Opened {
        let Kept { database, chip, .. } = *self;
        // Not closed: what it would write then, a cut prevents.
        std::mem::forget(database);
        let ftl = PageMapFtl::mount(chip.clone(), &FtlConfig::default()).map_err(Trouble::of)?;
        Ok(Box::new(Self::on(ftl, chip)?))
    }
}

//! SQLite on nandex-sqlite: its VFS over a page-mapping FTL.

use crate::store::{Load, Medium, Opened, Records, Store, Trouble};
use nandex::ftl::page_map::{FtlConfig, PageMapFtl};
use nandex::nand::sim::SimChip;
use nandex::{PageStore, Shared};
use nandex_sqlite::{Vfs, Volume, VolumeConfig};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params};
use std::sync::atomic::{AtomicU32, Ordering};

/// KiB of SQLite's own page cache.
pub const CACHE_KIB: usize = 256;

/// Numbers the names of VFSes, of which a process has one each.
static VOLUMES: AtomicU32 = AtomicU32::new(0);

struct Database {
    rows: Connection,
    vfs: Vfs,
    chip: Shared<SimChip>,
    ftl_bytes: usize,
}

fn settings() -> FtlConfig {
    FtlConfig { atomic_pages: 256, ..FtlConfig::default() }
}

/// Makes the database and its table.
pub fn open(medium: &Medium, load: &Load) -> Opened {
    let chip = medium.nand()?;
    let database = on(PageMapFtl::format(chip.clone(), &settings()).map_err(Trouble::of)?, chip)?;
    let table = match load.key_bytes {
        8 => "CREATE TABLE t(id INTEGER PRIMARY KEY, value BLOB)",
        _ => "CREATE TABLE t(id BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID",
    };
    database.rows.execute_batch(table).map_err(trouble)?;
    Ok(Box::new(database))
}

fn on(ftl: PageMapFtl<Shared<SimChip>>, chip: Shared<SimChip>) -> Result<Database, Trouble> {
    let ftl_bytes = ftl.ram_bytes();
    let volume = Volume::open(ftl, VolumeConfig::default()).map_err(Trouble::of)?;
    let name = format!("peers-{}", VOLUMES.fetch_add(1, Ordering::Relaxed));
    let vfs = Vfs::register(&name, volume).map_err(Trouble::of)?;
    let rows = vfs.open("rows.db").map_err(Trouble::of)?;
    let modes =
        format!("PRAGMA synchronous=FULL; PRAGMA locking_mode=EXCLUSIVE; PRAGMA cache_size=-{CACHE_KIB}");
    rows.execute_batch(&modes).map_err(trouble)?;
    Ok(Database { rows, vfs, chip, ftl_bytes })
}

fn trouble(error: rusqlite::Error) -> Trouble {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::DiskFull) => Trouble::NoRoom,
        _ => Trouble::Failed(error.to_string()),
    }
}

/// A key as SQLite keeps it, in the same order: of eight bytes an integer, which has a sign there.
fn id_of(key: &[u8]) -> Value {
    match key.try_into() {
        Ok(eight) => Value::Integer((u64::from_be_bytes(eight) ^ (1 << 63)).cast_signed()),
        Err(_) => Value::Blob(key.to_vec()),
    }
}

fn key_of(id: Value) -> Vec<u8> {
    match id {
        Value::Integer(id) => (id.cast_unsigned() ^ (1 << 63)).to_be_bytes().to_vec(),
        Value::Blob(key) => key,
        _ => Vec::new(),
    }
}

impl Store for Database {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Trouble> {
        let text = "INSERT INTO t VALUES(?, ?) ON CONFLICT(id) DO UPDATE SET value = excluded.value";
        let mut statement = self.rows.prepare_cached(text).map_err(trouble)?;
        statement.execute(params![id_of(key), value]).map(drop).map_err(trouble)
    }

    fn get(&mut self, key: &[u8], value: &mut [u8]) -> Result<bool, Trouble> {
        let mut statement = self.rows.prepare_cached("SELECT value FROM t WHERE id = ?").map_err(trouble)?;
        let found = statement.query_row([id_of(key)], |row| row.get::<_, Vec<u8>>(0));
        let found: Option<Vec<u8>> = found.optional().map_err(trouble)?;
        let Some(found) = found.filter(|found| found.len() == value.len()) else { return Ok(false) };
        value.copy_from_slice(&found);
        Ok(true)
    }

    fn range(&mut self, from: &[u8], count: usize) -> Result<Option<Records>, Trouble> {
        let text = "SELECT id, value FROM t WHERE id >= ? ORDER BY id LIMIT ?";
        let mut statement = self.rows.prepare_cached(text).map_err(trouble)?;
        let row = |row: &rusqlite::Row<'_>| Ok((key_of(row.get(0)?), row.get(1)?));
        let rows = statement.query_map(params![id_of(from), count as i64], row).map_err(trouble)?;
        rows.collect::<Result<Records, _>>().map(Some).map_err(trouble)
    }

    fn ram_bytes(&self) -> Option<usize> {
        Some((CACHE_KIB << 10) + self.ftl_bytes)
    }

    fn again(self: Box<Self>) -> Opened {
        let Database { rows, vfs, chip, .. } = *self;
        // Neither is closed: what they would write then, a cut prevents.
        std::mem::forget((rows, vfs));
        let ftl = PageMapFtl::mount(chip.clone(), &settings()).map_err(Trouble::of)?;
        Ok(Box::new(on(ftl, chip)?))
    }
}

//! `Vfs::open` adds to a connection of rusqlite the page size of the chip, and words.
#![allow(clippy::unwrap_used)]
#![cfg(feature = "bundled")]

use nandex::ftl::page_map::{FtlConfig, PageMapFtl};
use nandex::nand::{catalogue, sim::SimChip};
use nandex_sqlite::{Vfs, Volume, VolumeConfig};
use rusqlite::Connection;

fn vfs(name: &str) -> Vfs {
    let part = catalogue::find("k9f1g08u0f").unwrap().clone().with_blocks(24);
    let settings = FtlConfig { atomic_pages: 256, ..FtlConfig::default() };
    let store = PageMapFtl::format(SimChip::new(&part).unwrap(), &settings).unwrap();
    Vfs::register(name, Volume::open(store, VolumeConfig::default()).unwrap()).unwrap()
}

fn number(database: &Connection, sql: &str) -> i64 {
    database.query_row(sql, [], |row| row.get(0)).unwrap()
}

#[test]
fn the_pragma_tells() {
    let vfs = vfs("pragma");
    assert!(vfs.has_batches(), "the SQLite of the crate is built to ask for batches");
    let database = vfs.open("a.db").unwrap();
    database.execute_batch("CREATE TABLE t(v); INSERT INTO t VALUES(1)").unwrap();
    let text: String = database.query_row("PRAGMA nandex_stats", [], |row| row.get(0)).unwrap();
    assert!(text.starts_with("batch_atomic yes\nbest_page_size 2048\ncommits 2\ngroups 2\n"), "{text}");
    assert_eq!(number(&database, "PRAGMA page_size"), 2048, "a new database has the pages of the chip");
    let used: i64 = number(&database, "SELECT sqlite_compileoption_used('ENABLE_BATCH_ATOMIC_WRITE')");
    assert_eq!(used, 1);
    assert_eq!(number(&vfs.open(":memory:").unwrap(), "SELECT 1"), 1, "nothing of it is on the volume");
}

#[test]
fn a_new_database_on_a_device_has_its_pages() {
    let folder = tempfile::tempdir().unwrap();
    let vfs = Vfs::register_for_devices("opened", VolumeConfig::default()).unwrap();
    let device = folder.path().join("image");
    let uri = format!("file:a.db?device={}&size=8M&sync=0&page_bytes=1024", device.display());
    let database = vfs.open(&uri).unwrap();
    database.execute_batch("CREATE TABLE t(v)").unwrap();
    assert_eq!(number(&database, "PRAGMA page_size"), 1024);
}

#[test]
fn the_last_error_is_one_call_away() {
    let vfs = vfs("words");
    let database = vfs.open("a.db").unwrap();
    let told = |database: &Connection| -> Option<String> {
        database.query_row("SELECT nandex_error()", [], |row| row.get(0)).unwrap()
    };
    assert_eq!(told(&database), None);
    database.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
    let rows = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n LIMIT 5000) SELECT NULL, randomblob(1500) FROM n";
    assert!(database.execute_batch(&format!("INSERT INTO t {rows}")).is_err());
    assert_eq!(told(&database).as_deref(), Some("no room is left; nothing was changed"));
    assert!(vfs.open("a.db-journal").is_err());
    assert!(told(&database).unwrap().contains("journal of another"));
}

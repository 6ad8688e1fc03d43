//! A SQLite that the crate does not link: volumes are registered through the table of its functions.
#![allow(clippy::unwrap_used)]

use nandex::ftl::page_map::{FtlConfig, PageMapFtl};
use nandex::nand::{catalogue, sim::SimChip};
use nandex::{PageStore, Shared};
use nandex_papers::ftl::fast::{FastConfig, FastFtl};
use nandex_sqlite::{Routines, Vfs, Volume, VolumeConfig, routines};
use rusqlite::Connection;

#[path = "../../examples/beside-rusqlite.rs"]
mod example;

#[test]
fn the_example_works() {
    let _turn = crate::turn();
    example::main().unwrap();
}

type Make = fn(Shared<SimChip>, bool) -> Box<dyn PageStore>;

fn page_map(chip: Shared<SimChip>, is_new: bool) -> Box<dyn PageStore> {
    let settings = FtlConfig { atomic_pages: 256, ..FtlConfig::default() };
    let make = if is_new { PageMapFtl::format } else { PageMapFtl::mount };
    Box::new(make(chip, &settings).unwrap())
}

fn fast(chip: Shared<SimChip>, is_new: bool) -> Box<dyn PageStore> {
    let make = if is_new { FastFtl::format } else { FastFtl::mount };
    Box::new(make(chip, &FastConfig::default()).unwrap())
}

fn chip() -> Shared<SimChip> {
    let part = catalogue::find("k9f1g08u0f").unwrap();
    Shared::new(SimChip::new(part).unwrap())
}

fn vfs(name: &str, store: Box<dyn PageStore>) -> Vfs {
    let volume = Volume::open(store, VolumeConfig::default()).unwrap();
    Vfs::register_with(routines!(rusqlite::ffi).unwrap(), name, volume).unwrap()
}

/// A database of this VFS, opened as any program does.
fn open(name: &str) -> Connection {
    Connection::open(format!("file:a.db?vfs={name}")).unwrap()
}

#[test]
fn commits_are_there_after_a_mount_on_every_store() {
    let _turn = crate::turn();
    for (name, make) in [("beside-page-map", page_map as Make), ("beside-fast", fast)] {
        let chip = chip();
        for mount in 0..4_i64 {
            let vfs = vfs(name, make(chip.clone(), mount == 0));
            let mut database = open(name);
            if mount == 0 {
                database.execute_batch("PRAGMA page_size=2048; CREATE TABLE t(a)").unwrap();
            }
            let rows = "SELECT count(*), ifnull(sum(a), 0) FROM t";
            let found: (i64, i64) =
                database.query_row(rows, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
            assert_eq!(found, (50 * mount, (0..50 * mount).sum()), "{name}, mount {mount}");
            let group = database.transaction().unwrap();
            for row in 50 * mount..50 * (mount + 1) {
                group.execute("INSERT INTO t VALUES(?)", [row]).unwrap();
            }
            group.commit().unwrap();
            // One that is under way when everything goes.
            database.execute_batch("BEGIN; DELETE FROM t").unwrap();
            assert_eq!(vfs.last_error(), None);
            assert!(vfs.stats().unwrap().commits > 0);
            drop(database);
            assert!(vfs.unregister().is_some(), "nobody has it open");
        }
    }
}

#[test]
fn the_name_goes_with_the_vfs_and_is_taken_until_then() {
    let _turn = crate::turn();
    let first = vfs("beside-name", page_map(chip(), true));
    let volume = Volume::open(page_map(chip(), true), VolumeConfig::default()).unwrap();
    let refused = Vfs::register_with(routines!(rusqlite::ffi).unwrap(), "beside-name", volume).unwrap_err();
    assert!(refused.to_string().contains("already"), "{refused}");
    drop(first);
    assert!(Connection::open("file:a.db?vfs=beside-name").is_err());
    drop(vfs("beside-name", page_map(chip(), true)));
}

#[test]
fn devices_by_uri_and_the_reason_of_a_refusal() {
    let _turn = crate::turn();
    let table = routines!(rusqlite::ffi).unwrap();
    let vfs = Vfs::register_for_devices_with(table, "beside-devices", VolumeConfig::default()).unwrap();
    let open = |options: &str| Connection::open(format!("file:a.db?vfs=beside-devices&device=sim:{options}"));
    let database = open("k9f1g08u0f").unwrap();
    database.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES(7)").unwrap();
    let again = open("k9f1g08u0f").unwrap();
    assert_eq!(again.query_row("SELECT a FROM t", [], |row| row.get::<_, i64>(0)), Ok(7));
    assert!(open("k9f1g08u0f&sise=8M").is_err());
    let why = vfs.last_error().unwrap();
    assert!(why.contains("sise"), "{why}");
}

/// A failure of any VFS is told in all connections of its SQLite, those of another VFS too.
#[test]
fn the_reason_of_a_refusal_is_one_statement_away() {
    let _turn = crate::turn();
    let table = || routines!(rusqlite::ffi).unwrap();
    let of_devices =
        |name: &str| Vfs::register_for_devices_with(table(), name, VolumeConfig::default()).unwrap();
    let vfses = [of_devices("beside-told-1"), of_devices("beside-told-2")];
    let volume = vfs("beside-told-3", page_map(chip(), true));
    let plain = Connection::open_in_memory().unwrap();
    let own = open("beside-told-3");
    let told = |connection: &Connection| -> Option<String> {
        connection.query_row("SELECT nandex_error()", [], |row| row.get(0)).unwrap()
    };
    for (number, key) in [(1, "sise"), (2, "sice"), (1, "zize"), (2, "sync")] {
        let name = format!("file:a.db?vfs=beside-told-{number}&device=sim:k9f1g08u0f&{key}=banana");
        assert!(Connection::open(name).is_err());
        for connection in [&plain, &own, &Connection::open_in_memory().unwrap()] {
            let why = told(connection).unwrap();
            assert!(why.contains(&format!("{key}=banana")), "{why}");
        }
        assert_eq!(told(&plain), vfses[number - 1].last_error());
    }
    // Names go, words stay.
    drop((vfses, own, volume));
    assert!(told(&plain).is_some_and(|why| why.contains("sync=banana")));
}

#[test]
fn the_table_is_found_by_many_threads_and_no_entry_point_stays() {
    let _turn = crate::turn();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let _ = table();
                }
            });
        }
    });
    drop(Connection::open_in_memory().unwrap());
}

fn table() -> Routines {
    routines!(rusqlite::ffi).unwrap()
}

#[test]
#[allow(unsafe_code)]
fn a_sqlite_without_extensions_is_told_of() {
    let _turn = crate::turn();
    // SAFETY: the table is null, which is one that SQLite hands over.
    let refused = unsafe { Routines::of_table(std::ptr::null::<u8>()) }.err().unwrap();
    assert!(refused.to_string().contains("built without extensions"), "{refused}");
}

//! One owner of a device: two VFSes, two processes, and a child of `fork`; names and URIs that cannot be.
#![allow(clippy::unwrap_used, unsafe_code)]
#![cfg(all(feature = "bundled", unix))]

use nandex_sqlite::{OpenError, Vfs, VolumeConfig};
use rusqlite::{Connection, ErrorCode};
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

fn vfs(name: &str) -> Vfs {
    Vfs::register_for_devices(name, VolumeConfig::default()).unwrap()
}

fn uri(name: &str, device: &Path, more: &str) -> String {
    format!("file:{name}?device={}{more}", device.display())
}

fn code<T>(opened: Result<T, OpenError>) -> Option<ErrorCode> {
    match opened {
        Err(OpenError::Sqlite(error)) => error.sqlite_error_code(),
        _ => None,
    }
}

fn count(database: &Connection) -> i64 {
    database.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap()
}

fn insert(database: &Connection, rows: usize) -> usize {
    (0..rows).filter(|_| database.execute("INSERT INTO t VALUES(1)", []).is_ok()).count()
}

#[test]
fn a_second_owner_is_busy_until_the_first_has_gone() {
    let _turn = crate::turn();
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("chip");
    let (first, second) = (vfs("owner-1"), vfs("owner-2"));
    let name = uri("a.db", &image, "&size=4M");
    let database = first.open(&name).unwrap();
    database.execute_batch("CREATE TABLE t(a)").unwrap();
    // Connections of one VFS share the volume.
    assert_eq!(insert(&first.open(&name).unwrap(), 3), 3);
    let flags = rusqlite::OpenFlags::default();
    let late = Connection::open_with_flags_and_vfs(&name, flags, "owner-2").unwrap();
    late.busy_timeout(Duration::ZERO).unwrap();
    for sql in ["SELECT count(*) FROM t", "INSERT INTO t VALUES(9)", "BEGIN IMMEDIATE", "PRAGMA nandex_stats"]
    {
        let busy = late.execute_batch(sql).unwrap_err();
        assert_eq!(busy.sqlite_error_code(), Some(ErrorCode::DatabaseBusy), "{sql}: {busy}");
    }
    late.busy_timeout(Duration::from_secs(60)).unwrap();
    let waits = thread::spawn(move || {
        assert_eq!(insert(&late, 5), 5);
        count(&late)
    });
    let opens = thread::spawn(move || second.open(&uri("b.db", &image, "")).map(|_| ()).is_ok());
    thread::sleep(Duration::from_millis(300));
    assert_eq!(insert(&database, 4), 4);
    assert!(!waits.is_finished() && !opens.is_finished());
    drop(database);
    assert_eq!(waits.join().unwrap(), 3 + 4 + 5);
    assert!(opens.join().unwrap());
}

unsafe extern "C" {
    fn fork() -> i32;
    fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
    fn _exit(code: i32) -> !;
}

/// Runs in a child of `fork`, with a connection of its own and an inherited one. Returns the rows
/// acknowledged on each, and whether the child was kept out until its parent had closed.
fn in_child(vfs: &Vfs, name: &str, inherited: &Connection) -> (usize, usize, bool) {
    let own = Connection::open_with_flags_and_vfs(name, rusqlite::OpenFlags::default(), "forked").unwrap();
    own.busy_timeout(Duration::ZERO).unwrap();
    let was_busy = insert(&own, 20) == 0;
    let wrong = insert(inherited, 20);
    // It waits for its parent to close.
    own.busy_timeout(Duration::from_secs(60)).unwrap();
    let done = insert(&own, 200);
    // A second connection of its own shares the volume.
    let more = vfs.open(name).map_or(0, |second| insert(&second, 10));
    (done + more, wrong, was_busy)
}

#[test]
fn a_child_of_fork_loses_nothing_and_takes_nothing() {
    let _turn = crate::turn();
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("chip");
    let vfs = vfs("forked");
    let name = uri("a.db", &image, "&size=8M&vfs=forked");
    let database = vfs.open(&name).unwrap();
    database.execute_batch("CREATE TABLE t(a)").unwrap();
    assert_eq!(insert(&database, 50), 50);
    let told = folder.path().join("told");
    // SAFETY: the child goes on with this thread alone, and ends without what a process does at its end.
    let child = unsafe { fork() };
    if child == 0 {
        let done = std::panic::catch_unwind(AssertUnwindSafe(|| in_child(&vfs, &name, &database)));
        let text = done.map_or_else(|_| String::from("a panic"), |done| format!("{done:?}"));
        let _ = std::fs::write(&told, text);
        // SAFETY: it never returns.
        unsafe { _exit(0) };
    }
    assert!(child > 0);
    let done = insert(&database, 200);
    thread::sleep(Duration::from_millis(500));
    drop(database);
    let mut status = 0;
    // SAFETY: the status has a place.
    assert_eq!(unsafe { waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(std::fs::read_to_string(&told).unwrap(), "(210, 0, true)");
    let database = vfs.open(&name).unwrap();
    assert_eq!((done, count(&database)), (200, 50 + 200 + 210));
    let sound: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
}

#[test]
fn what_a_uri_says_is_taken_or_refused() {
    let _turn = crate::turn();
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("chip");
    let vfs = vfs("strict");
    for wrong in [
        "size=banana",
        "size=-1",
        "size=1T",
        "size=",
        "size=17179869184G",
        "sise=8M",
        "page_bytes=2k",
        "page_bytes=0",
        "block_pages=-64",
        "create=maybe",
        "sync=2",
        "Size=8M",
        "size=1",
    ] {
        assert_eq!(
            code(vfs.open(&uri("a.db", &image, &format!("&{wrong}")))),
            Some(ErrorCode::CannotOpen),
            "{wrong}"
        );
        assert!(!image.exists(), "{wrong}");
    }
    vfs.open(&uri("a.db", &image, "&size=8M&mode=rwc")).unwrap();
    for other in ["size=16M", "size=4M", "page_bytes=4096", "block_pages=32"] {
        let opened = vfs.open(&uri("a.db", &image, &format!("&{other}")));
        assert_eq!(code(opened), Some(ErrorCode::CannotOpen), "{other}");
    }
    vfs.open(&uri("a.db", &image, "&size=8M&page_bytes=2048&block_pages=64&sync=0")).unwrap();
    let part = Path::new("sim:mlc-64m");
    assert_eq!(code(vfs.open(&uri("a.db", part, "&size=8M"))), Some(ErrorCode::CannotOpen));
}

#[test]
fn a_fifo_is_refused_at_once() {
    let _turn = crate::turn();
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let (tell, told) = mpsc::channel();
    thread::spawn(move || tell.send(code(vfs("fifo").open(&uri("a.db", &fifo, "")))));
    assert_eq!(told.recv_timeout(Duration::from_secs(20)).unwrap(), Some(ErrorCode::CannotOpen));
}

#[test]
fn no_database_is_called_as_the_journal_of_another() {
    let _turn = crate::turn();
    let vfs = vfs("names");
    let name = |name: &str| uri(name, Path::new("sim:mlc-64m"), "");
    let database = vfs.open(&name("a.db")).unwrap();
    database.execute_batch("CREATE TABLE t(a)").unwrap();
    for other in ["a.db-journal", "a.db-wal", "b.db-journal"] {
        assert_eq!(code(vfs.open(&name(other))), Some(ErrorCode::CannotOpen), "{other}");
    }
    // Neither waits for a lock.
    database.busy_timeout(Duration::ZERO).unwrap();
    assert_eq!(insert(&database, 5), 5);
    let second = vfs.open(&name("a.db")).unwrap();
    second.busy_timeout(Duration::ZERO).unwrap();
    assert_eq!(insert(&second, 5), 5);
    assert_eq!(count(&database), 10);
}

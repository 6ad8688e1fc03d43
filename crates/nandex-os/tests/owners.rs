//! One owner of a file: opened twice, by threads and by processes; replaced; and paths that are no files.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

use nandex::{Cause, Lpn, PageStore, StoreError};
use nandex_os::{Access, FileOptions, FilePageStore, Lock, LockError};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

const PATH: &str = "NANDEX_OWNERS_PATH";

fn options(access: Access) -> FileOptions {
    FileOptions { access, ..FileOptions::new(512) }
}

fn assert_in_use<T>(opened: Result<T, StoreError>, path: &Path) {
    match opened {
        Err(StoreError::InUse(why)) => assert!(why.contains(&path.display().to_string()), "{why}"),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("{} was opened twice", path.display()),
    }
}

#[test]
fn one_changes_alone_and_any_number_look() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pages");
    let open = |access| FilePageStore::open(&path, options(access));
    let mut owner = FilePageStore::create(&path, 8, options(Access::Change)).unwrap();
    owner.write(Lpn(3), Cause::Host, &[7; 512]).unwrap();
    for access in [Access::Look, Access::Change] {
        assert_in_use(open(access), &path);
    }
    assert_in_use(FilePageStore::create(&path, 8, options(Access::Change)), &path);
    drop(owner);
    let (mut a, mut b) = (open(Access::Look).unwrap(), open(Access::Look).unwrap());
    assert_in_use(open(Access::Change), &path);
    for store in [&mut a, &mut b] {
        let mut data = [0; 512];
        store.read(Lpn(3), Cause::Host, &mut data).unwrap();
        assert_eq!(data, [7; 512]);
        assert!(store.write(Lpn(3), Cause::Host, &[8; 512]).is_err(), "it was opened to look at");
    }
    drop((a, b));
    open(Access::Change).unwrap();
}

#[test]
fn of_many_threads_one_wins() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pages");
    for _ in 0..20 {
        let (start, end) = (Barrier::new(8), Barrier::new(8));
        let opened: Vec<bool> = thread::scope(|scope| {
            let one = || {
                start.wait();
                let lock = Lock::take_or_make(&path);
                end.wait();
                lock.is_ok()
            };
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(one)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(opened.iter().filter(|opened| **opened).count(), 1);
    }
}

/// Runs in the other process: tries to open the file and reports the result by its exit code.
#[test]
fn another_process() {
    let Some(path) = std::env::var_os(PATH) else { return };
    let opened = FilePageStore::open(Path::new(&path), options(Access::Change));
    std::process::exit(match opened {
        Ok(_) => 20,
        Err(StoreError::InUse(_)) => 21,
        Err(_) => 22,
    });
}

#[test]
fn another_process_is_refused_until_the_owner_has_gone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pages");
    let other = || {
        let mut program = Command::new(std::env::current_exe().unwrap());
        program.args(["another_process", "--exact"]).env(PATH, &path).stdout(Stdio::null());
        program.status().unwrap().code()
    };
    let owner = FilePageStore::create(&path, 8, options(Access::Change)).unwrap();
    assert_eq!(other(), Some(21));
    drop(owner);
    assert_eq!(other(), Some(20));
}

#[test]
fn a_file_that_is_replaced_stays_locked() {
    let folder = tempfile::tempdir().unwrap();
    let (path, beside) = (folder.path().join("image"), folder.path().join("image.part"));
    let mut lock = Lock::take_or_make(&path).unwrap();
    for round in 0..3u8 {
        fs::write(&beside, [round; 100]).unwrap();
        lock.replace_by(&beside).unwrap();
        assert_eq!(fs::read(&path).unwrap(), [round; 100]);
        assert!(matches!(Lock::take(&path, Access::Look), Err(LockError::InUse(_))), "round {round}");
    }
    drop(lock);
    Lock::take(&path, Access::Change).unwrap();
}

#[test]
fn what_has_no_pages_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let (told, heard) = mpsc::channel();
    let paths = [fifo, folder.path().to_path_buf(), folder.path().join("none")];
    thread::spawn(move || {
        for (path, word) in paths.into_iter().zip(["FIFO", "folder", "No such file"]) {
            let refused = FilePageStore::open(&path, options(Access::Look)).err().map(|e| e.to_string());
            told.send((refused, word)).unwrap();
        }
    });
    for _ in 0..3 {
        let (refused, word) = heard.recv_timeout(Duration::from_secs(10)).expect("it waits for a writer");
        let refused = refused.unwrap();
        assert!(refused.contains(word) && refused.contains("cannot open"), "{refused}");
    }
}

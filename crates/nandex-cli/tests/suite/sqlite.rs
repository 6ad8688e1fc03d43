//! Random SQL as people run it: `nandex torture --sqlite`.
#![allow(clippy::unwrap_used, clippy::print_stdout)]
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

/// Runs the program with `folder` first in the search path.
fn torture(folder: &Path, more: &[&str]) -> Output {
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new(env!("CARGO_BIN_EXE_nandex"));
    command.env("PATH", path).args(["torture", "--sqlite"]).args(more).output().unwrap()
}

fn told(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// True if this machine has a SQLite; prints a note otherwise.
fn has_one(folder: &Path) -> bool {
    let (code, _, errors) = told(&torture(folder, &["--lives", "1"]));
    if code == Some(2) {
        println!("skipped: {errors}");
    }
    code != Some(2)
}

#[test]
fn lives_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    if !has_one(folder.path()) {
        return;
    }
    let (code, out, errors) =
        told(&torture(folder.path(), &["--lives", "4", "--seed", "3", "--threads", "2"]));
    assert_eq!(code, Some(0), "{out}{errors}");
    assert!(
        out.contains(": 4 lives, ") && out.contains(" cuts (") && out.contains(", 0 findings; "),
        "{out}"
    );
}

/// A fake program that refuses everything goes wrong in every life.
#[test]
fn a_finding_has_a_command_that_repeats_it() {
    let folder = tempfile::tempdir().unwrap();
    if !has_one(folder.path()) {
        return;
    }
    let python = folder.path().join("python3");
    let script = "#!/bin/sh\ncase \"$*\" in *sys.executable*) echo \"$0\"; exit;; esac\necho ready 0\n\
                  while read -r line; do case \"$line\" in open*) echo out ok 0;; *) echo out no such thing;; \
                  esac; done\n";
    fs::write(&python, script).unwrap();
    fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
    let (code, out, errors) =
        told(&torture(folder.path(), &["--lives", "2", "--seed", "7", "--extension", "x.so"]));
    assert_eq!(code, Some(1), "{out}{errors}");
    assert!(out.contains("0 findings") && out.contains("2 lives, ") && out.contains("2 findings"), "{out}");
    assert!(errors.contains("seed 7: the beginning: such thing"), "{errors}");
    assert!(
        errors.contains("replay: nandex torture --sqlite --seed 8 --lives 1 --extension x.so"),
        "{errors}"
    );
    assert!(errors.contains("the least of seed 7: "), "{errors}");
}

#[test]
fn a_sqlite_that_is_not_there_is_told_of() {
    let folder = tempfile::tempdir().unwrap();
    let (code, out, errors) = told(&torture(folder.path(), &["--library", "/nowhere/lib.so"]));
    assert_eq!((code, &*out), (Some(2), ""), "{errors}");
    assert!(errors.contains("/nowhere/lib.so") && errors.contains("--features sqlite"), "{errors}");
    let (code, _, errors) = told(&torture(folder.path(), &["--damage"]));
    assert_eq!(code, Some(2), "{errors}");
}

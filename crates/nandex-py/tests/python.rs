//! The package as Python sees it: runs its own tests with the module built beside this one.
//!
//! Without Python nothing is run.
#![cfg(unix)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The newest module in the folder of this test.
fn module() -> PathBuf {
    let executable = std::env::current_exe().expect("this test has a path");
    let folder = executable.parent().expect("in a folder");
    let candidates = fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path());
    let is_module = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with("libnandex_py") && (name.ends_with(".so") || name.ends_with(".dylib"))
    };
    let age = |path: &PathBuf| fs::metadata(path).and_then(|data| data.modified()).ok();
    candidates.filter(is_module).max_by_key(age).expect("the module lies beside this test")
}

#[test]
#[allow(clippy::print_stdout, reason = "a test that was not run says so")]
fn the_package_does_what_its_tests_say() {
    let python =
        Command::new("python3").args(["-c", "import sys; assert sys.version_info >= (3, 9)"]).output();
    if !python.is_ok_and(|ran| ran.status.success()) {
        println!("skipped: python3 of 3.9 or newer is not installed");
        return;
    }
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("package");
    let package = folder.join("nandex");
    fs::create_dir_all(&package).expect("a folder for the package");
    for entry in fs::read_dir(here.join("python/nandex")).expect("the package").flatten() {
        if entry.path().is_file() {
            fs::copy(entry.path(), package.join(entry.file_name())).expect("a copy");
        }
    }
    fs::copy(module(), package.join("_native.abi3.so")).expect("a copy of the module");
    let mut tests = Command::new("python3");
    tests.args(["-m", "unittest", "discover", "-s"]).arg(here.join("tests/python"));
    let ran = tests.current_dir(&folder).env("PYTHONPATH", &folder).output().expect("python3 starts");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stdout));
    assert!(said.contains("OK"), "{said}");
}

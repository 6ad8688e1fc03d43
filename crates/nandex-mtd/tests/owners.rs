//! One owner of a device node: a second one is refused before a request reaches the kernel's driver.
//!
//! The test uses a terminal of its own as the node: a character device that no other process has, and no MTD.
//! The same test on nandsim in a virtual machine is `tests/mtd`.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use nandex_mtd::{Mtd, MtdError, MtdOptions};
use nandex_os::{Access, Lock};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::path::{Path, PathBuf};

/// Whether an opening is refused as in use; else it gets as far as the question whether it is MTD.
fn is_in_use(path: &Path, writable: bool) -> bool {
    match Mtd::open(path, MtdOptions { writable, spare: None }) {
        Err(MtdError::InUse(why)) => {
            assert!(why.contains(path.to_str().unwrap()), "{why}");
            true
        }
        Err(other) => {
            assert!(other.to_string().contains("ask as an MTD device"), "{other}");
            false
        }
        Ok(_) => panic!("a terminal is no MTD"),
    }
}

#[test]
fn a_node_has_one_owner_or_some_who_look() {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let path = PathBuf::from(ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap());
    for writable in [false, true] {
        assert!(!is_in_use(&path, writable), "free at first, and left free by who was refused");
    }
    let owner = Lock::take(&path, Access::Change).unwrap();
    assert!(is_in_use(&path, false) && is_in_use(&path, true));
    drop(owner);
    let other = Lock::take(&path, Access::Look).unwrap();
    assert!(!is_in_use(&path, false) && is_in_use(&path, true));
    drop(other);
    assert!(!is_in_use(&path, true));
}

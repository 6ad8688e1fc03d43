//! Finds the extension that cargo builds with the tests.
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

pub(crate) fn extension() -> PathBuf {
    let folder = std::env::current_exe().unwrap().parent().unwrap().to_path_buf();
    let name = if cfg!(target_os = "macos") { "libnandex_sqlite.dylib" } else { "libnandex_sqlite.so" };
    let path = folder.join(name);
    assert!(path.exists(), "{} is not built", path.display());
    path
}

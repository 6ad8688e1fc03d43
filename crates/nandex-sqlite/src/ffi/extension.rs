//! The entry points of the loadable extension: `SELECT load_extension('libnandex_sqlite')`.

use super::abi;
use super::api::Api;
use super::file::guarded;
use super::vfs::Registered;
use super::words::teach;
use crate::router::Router;
use crate::settings::VolumeConfig;
use std::ffi::{c_char, c_int, c_void};
use std::ptr;

/// The name of the VFS.
const NAME: &str = "nandex";

/// The entry point that SQLite derives from the file's name, `libnandex_sqlite.so` or `nandex_sqlite.so`.
///
/// # Safety
///
/// SQLite calls it, with its table of functions.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn sqlite3_nandexsqlite_init(
    database: *mut c_void,
    error: *mut *mut c_char,
    table: *const c_void,
) -> c_int {
    guarded(abi::ERROR, || {
        // SAFETY: the table is SQLite's (F5); the place for an error is null or takes a string that SQLite
        // frees.
        unsafe {
            let api = match Api::of_table(table) {
                Ok(api) => api,
                Err(_) => return abi::ERROR,
            };
            // Loaded again, by another connection or under another path: the VFS is there.
            if (api.vfs_find)(c"nandex".as_ptr()).is_null() {
                let router = Router::new(VolumeConfig::default(), None);
                if let Err(text) = Registered::register(api, NAME, router) {
                    if !error.is_null() {
                        ptr::write(error, api.string(&text));
                    }
                    return abi::ERROR;
                }
            }
            teach(database, error, table);
        }
        abi::OK_LOAD_PERMANENTLY
    })
}

/// The entry point that SQLite looks for first, whatever the file's name. Not in a library that a program
/// links, which may have others of that name: so a feature.
///
/// # Safety
///
/// As for [`sqlite3_nandexsqlite_init`].
#[cfg(feature = "extension")]
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn sqlite3_extension_init(
    database: *mut c_void,
    error: *mut *mut c_char,
    table: *const c_void,
) -> c_int {
    // SAFETY: the arguments are passed on as they are.
    unsafe { sqlite3_nandexsqlite_init(database, error, table) }
}

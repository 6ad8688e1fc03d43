//! The functions of any SQLite in the process.

use super::api::Api;
use crate::errors::OpenError;
use std::ffi::c_void;

/// The functions of one SQLite of this process: rusqlite's, sqlx's, diesel's, the system's.
///
/// [`routines!`](crate::routines) finds them through any libsqlite3-sys; [`Routines::of_table`] takes the
/// table that an extension gets.
#[derive(Clone, Copy)]
pub struct Routines(pub(super) Api);

impl Routines {
    /// Reads the functions from a table, `const sqlite3_api_routines *`. Every entry point of an extension
    /// and of `sqlite3_auto_extension` gets the table as its third argument. `T` may be the type of any
    /// binding.
    ///
    /// # Errors
    ///
    /// [`OpenError::Vfs`] if that SQLite is older than 3.31. Also for a null table: that SQLite was built
    /// without extensions.
    ///
    /// # Safety
    ///
    /// The table is null or is one that SQLite handed to an entry point, and its library stays loaded as long
    /// as the process.
    pub unsafe fn of_table<T>(table: *const T) -> Result<Routines, OpenError> {
        let table: *const c_void = table.cast();
        if table.is_null() {
            return Err(OpenError::Vfs(String::from("this SQLite was built without extensions")));
        }
        // SAFETY: as the caller promises (F5).
        unsafe { Api::of_table(table) }.map(Routines).map_err(OpenError::Vfs)
    }
}

/// The functions of the SQLite behind a libsqlite3-sys of any version, for
/// [`Vfs::register_with`](crate::Vfs::register_with): `routines!(rusqlite::ffi)`, or
/// `routines!(libsqlite3_sys)` beside sqlx and diesel. SQLite hands them over while a database in memory is
/// opened.
///
/// It is a `Result<Routines, OpenError>`: see [`Routines::of_table`](crate::Routines::of_table).
///
/// ```
/// # #[cfg(feature = "bundled")] {
/// use nandex_sqlite::{Vfs, VolumeConfig};
///
/// let routines = nandex_sqlite::routines!(rusqlite::ffi).unwrap();
/// let vfs = Vfs::register_for_devices_with(routines, "mine", VolumeConfig::default()).unwrap();
/// let database = rusqlite::Connection::open("file:notes.db?vfs=mine&device=sim:k9f1g08u0f").unwrap();
/// database.execute_batch("CREATE TABLE note(text)").unwrap();
/// # drop(database); drop(vfs);
/// # }
/// ```
#[macro_export]
macro_rules! routines {
    ($($binding:ident)::+) => {{
        use ::std::ffi::{c_char, c_int, c_void};
        use ::std::ptr;
        use ::std::sync::atomic::{AtomicPtr, Ordering};
        use $($binding)::+ as sqlite;

        static TABLE: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
        unsafe extern "C" fn keep(
            _: *mut sqlite::sqlite3,
            _: *mut *mut c_char,
            table: *const sqlite::sqlite3_api_routines,
        ) -> c_int {
            TABLE.store(table.cast_mut().cast(), Ordering::Release);
            sqlite::SQLITE_OK
        }
        // SAFETY: the entry point keeps a pointer and no more; SQLite closes a null database, too; the table
        // is null or SQLite's, which is linked in and stays.
        unsafe {
            let mut database = ptr::null_mut();
            let flags = sqlite::SQLITE_OPEN_READWRITE | sqlite::SQLITE_OPEN_MEMORY;
            sqlite::sqlite3_auto_extension(Some(keep));
            sqlite::sqlite3_open_v2(c":memory:".as_ptr(), &raw mut database, flags, ptr::null());
            sqlite::sqlite3_close(database);
            sqlite::sqlite3_cancel_auto_extension(Some(keep));
            $crate::Routines::of_table(TABLE.load(Ordering::Acquire).cast_const())
        }
    }};
}

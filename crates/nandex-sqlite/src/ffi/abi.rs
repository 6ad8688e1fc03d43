//! Structures and constants of SQLite's C interface (`sqlite3.h`), which SQLite never changes.

use std::ffi::{c_char, c_double, c_int, c_void};

pub(super) const OK: c_int = 0;
pub(super) const ERROR: c_int = 1;
pub(super) const BUSY: c_int = 5;
pub(super) const NOTFOUND: c_int = 12;
pub(super) const FULL: c_int = 13;
pub(super) const CANTOPEN: c_int = 14;
pub(super) const NOTICE: c_int = 27;
pub(super) const OK_LOAD_PERMANENTLY: c_int = 256;

const fn io_error(which: c_int) -> c_int {
    10 | which << 8
}
pub(super) const IOERR_READ: c_int = io_error(1);
pub(super) const IOERR_SHORT_READ: c_int = io_error(2);
pub(super) const IOERR_WRITE: c_int = io_error(3);
pub(super) const IOERR_FSYNC: c_int = io_error(4);
pub(super) const IOERR_TRUNCATE: c_int = io_error(6);
pub(super) const IOERR_FSTAT: c_int = io_error(7);
pub(super) const IOERR_UNLOCK: c_int = io_error(8);
pub(super) const IOERR_DELETE: c_int = io_error(10);
pub(super) const IOERR_ACCESS: c_int = io_error(13);
pub(super) const IOERR_CHECKRESERVED: c_int = io_error(14);
pub(super) const IOERR_LOCK: c_int = io_error(15);
pub(super) const IOERR_CLOSE: c_int = io_error(16);
pub(super) const IOERR_DELETE_NOENT: c_int = io_error(23);
pub(super) const IOERR_COMMIT_ATOMIC: c_int = io_error(30);
pub(super) const IOERR_ROLLBACK_ATOMIC: c_int = io_error(31);

/// The encoding of the texts of a function.
pub(super) const UTF8: c_int = 1;

/// A function of SQL: it gets its context, the number of arguments, and the arguments.
pub(super) type Answer = unsafe extern "C" fn(*mut c_void, c_int, *mut *mut c_void);

pub(super) const OPEN_CREATE: c_int = 0x4;
pub(super) const OPEN_MAIN_DB: c_int = 0x100;
pub(super) const OPEN_MAIN_JOURNAL: c_int = 0x800;
pub(super) const OPEN_SUPER_JOURNAL: c_int = 0x4000;
pub(super) const OPEN_WAL: c_int = 0x8_0000;

pub(super) const IOCAP_SAFE_APPEND: c_int = 0x200;
pub(super) const IOCAP_POWERSAFE_OVERWRITE: c_int = 0x1000;
pub(super) const IOCAP_BATCH_ATOMIC: c_int = 0x4000;

pub(super) const FCNTL_PRAGMA: c_int = 14;
pub(super) const FCNTL_SYNC: c_int = 21;
pub(super) const FCNTL_BEGIN_ATOMIC_WRITE: c_int = 31;
pub(super) const FCNTL_COMMIT_ATOMIC_WRITE: c_int = 32;
pub(super) const FCNTL_ROLLBACK_ATOMIC_WRITE: c_int = 33;

/// `sqlite3_file`, extended by the fields of this VFS.
#[repr(C)]
pub(super) struct File {
    pub(super) methods: *const IoMethods,
    pub(super) open: *mut super::file::Open,
}

type OfFile<T> = unsafe extern "C" fn(*mut File, T) -> c_int;

/// `sqlite3_io_methods`, version 1: no shared memory, no mapping.
#[repr(C)]
pub(super) struct IoMethods {
    pub(super) version: c_int,
    pub(super) close: unsafe extern "C" fn(*mut File) -> c_int,
    pub(super) read: unsafe extern "C" fn(*mut File, *mut c_void, c_int, i64) -> c_int,
    pub(super) write: unsafe extern "C" fn(*mut File, *const c_void, c_int, i64) -> c_int,
    pub(super) truncate: OfFile<i64>,
    pub(super) sync: OfFile<c_int>,
    pub(super) file_size: OfFile<*mut i64>,
    pub(super) lock: OfFile<c_int>,
    pub(super) unlock: OfFile<c_int>,
    pub(super) check_reserved_lock: OfFile<*mut c_int>,
    pub(super) file_control: unsafe extern "C" fn(*mut File, c_int, *mut c_void) -> c_int,
    pub(super) sector_size: unsafe extern "C" fn(*mut File) -> c_int,
    pub(super) device_characteristics: unsafe extern "C" fn(*mut File) -> c_int,
}

type Library = unsafe extern "C" fn(*mut Vfs, *const c_char) -> *mut c_void;
type Symbol = unsafe extern "C" fn();

/// `sqlite3_vfs`, version 2.
#[repr(C)]
pub(super) struct Vfs {
    pub(super) version: c_int,
    pub(super) file_bytes: c_int,
    pub(super) path_bytes_max: c_int,
    pub(super) next: *mut Vfs,
    pub(super) name: *const c_char,
    pub(super) app: *mut c_void,
    pub(super) open: unsafe extern "C" fn(*mut Vfs, *const c_char, *mut File, c_int, *mut c_int) -> c_int,
    pub(super) delete: unsafe extern "C" fn(*mut Vfs, *const c_char, c_int) -> c_int,
    pub(super) access: unsafe extern "C" fn(*mut Vfs, *const c_char, c_int, *mut c_int) -> c_int,
    pub(super) full_pathname: unsafe extern "C" fn(*mut Vfs, *const c_char, c_int, *mut c_char) -> c_int,
    pub(super) dl_open: Option<Library>,
    pub(super) dl_error: Option<unsafe extern "C" fn(*mut Vfs, c_int, *mut c_char)>,
    pub(super) dl_sym: Option<unsafe extern "C" fn(*mut Vfs, *mut c_void, *const c_char) -> Option<Symbol>>,
    pub(super) dl_close: Option<unsafe extern "C" fn(*mut Vfs, *mut c_void)>,
    pub(super) randomness: unsafe extern "C" fn(*mut Vfs, c_int, *mut c_char) -> c_int,
    pub(super) sleep: unsafe extern "C" fn(*mut Vfs, c_int) -> c_int,
    pub(super) current_time: unsafe extern "C" fn(*mut Vfs, *mut c_double) -> c_int,
    pub(super) last_error: unsafe extern "C" fn(*mut Vfs, c_int, *mut c_char) -> c_int,
    pub(super) current_time_ms: Option<unsafe extern "C" fn(*mut Vfs, *mut i64) -> c_int>,
}

#[cfg(all(test, feature = "bundled"))]
mod tests {
    use super::*;
    use libsqlite3_sys as ffi;
    use std::mem::offset_of;

    #[test]
    fn the_structures_are_those_of_sqlite() {
        assert_eq!(offset_of!(Vfs, name), offset_of!(ffi::sqlite3_vfs, zName));
        assert_eq!(offset_of!(Vfs, app), offset_of!(ffi::sqlite3_vfs, pAppData));
        assert_eq!(offset_of!(Vfs, full_pathname), offset_of!(ffi::sqlite3_vfs, xFullPathname));
        assert_eq!(offset_of!(Vfs, dl_close), offset_of!(ffi::sqlite3_vfs, xDlClose));
        assert_eq!(offset_of!(Vfs, sleep), offset_of!(ffi::sqlite3_vfs, xSleep));
        assert_eq!(offset_of!(Vfs, last_error), offset_of!(ffi::sqlite3_vfs, xGetLastError));
        assert_eq!(offset_of!(Vfs, current_time_ms), offset_of!(ffi::sqlite3_vfs, xCurrentTimeInt64));
        type Methods = ffi::sqlite3_io_methods;
        assert_eq!(offset_of!(IoMethods, read), offset_of!(Methods, xRead));
        assert_eq!(offset_of!(IoMethods, file_size), offset_of!(Methods, xFileSize));
        assert_eq!(offset_of!(IoMethods, check_reserved_lock), offset_of!(Methods, xCheckReservedLock));
        let last = offset_of!(Methods, xDeviceCharacteristics);
        assert_eq!(offset_of!(IoMethods, device_characteristics), last);
        assert_eq!(offset_of!(File, methods), offset_of!(ffi::sqlite3_file, pMethods));
    }

    #[test]
    fn the_numbers_are_those_of_sqlite() {
        let pairs = [
            (BUSY, ffi::SQLITE_BUSY),
            (NOTFOUND, ffi::SQLITE_NOTFOUND),
            (FULL, ffi::SQLITE_FULL),
            (CANTOPEN, ffi::SQLITE_CANTOPEN),
            (NOTICE, ffi::SQLITE_NOTICE),
            (IOERR_SHORT_READ, ffi::SQLITE_IOERR_SHORT_READ),
            (IOERR_DELETE_NOENT, ffi::SQLITE_IOERR_DELETE_NOENT),
            (IOERR_COMMIT_ATOMIC, ffi::SQLITE_IOERR_COMMIT_ATOMIC),
            (IOERR_ROLLBACK_ATOMIC, ffi::SQLITE_IOERR_ROLLBACK_ATOMIC),
            (IOERR_CLOSE, ffi::SQLITE_IOERR_CLOSE),
            (IOERR_LOCK, ffi::SQLITE_IOERR_LOCK),
            (OPEN_MAIN_DB, ffi::SQLITE_OPEN_MAIN_DB),
            (OPEN_MAIN_JOURNAL, ffi::SQLITE_OPEN_MAIN_JOURNAL),
            (OPEN_SUPER_JOURNAL, ffi::SQLITE_OPEN_SUPER_JOURNAL),
            (OPEN_WAL, ffi::SQLITE_OPEN_WAL),
            (OPEN_CREATE, ffi::SQLITE_OPEN_CREATE),
            (UTF8, ffi::SQLITE_UTF8),
            (IOCAP_BATCH_ATOMIC, ffi::SQLITE_IOCAP_BATCH_ATOMIC),
            (IOCAP_POWERSAFE_OVERWRITE, ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE),
            (IOCAP_SAFE_APPEND, ffi::SQLITE_IOCAP_SAFE_APPEND),
            (FCNTL_PRAGMA, ffi::SQLITE_FCNTL_PRAGMA),
            (FCNTL_SYNC, ffi::SQLITE_FCNTL_SYNC),
            (FCNTL_BEGIN_ATOMIC_WRITE, ffi::SQLITE_FCNTL_BEGIN_ATOMIC_WRITE),
            (FCNTL_COMMIT_ATOMIC_WRITE, ffi::SQLITE_FCNTL_COMMIT_ATOMIC_WRITE),
            (FCNTL_ROLLBACK_ATOMIC_WRITE, ffi::SQLITE_FCNTL_ROLLBACK_ATOMIC_WRITE),
        ];
        for (ours, theirs) in pairs {
            assert_eq!(ours, theirs);
        }
    }
}

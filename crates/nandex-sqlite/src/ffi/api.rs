//! The functions of SQLite that the VFS calls: those linked in, or those of the SQLite that loads the
//! extension.

use super::abi::Vfs;
use super::words::Functions;
use std::ffi::{CStr, CString, c_char, c_int, c_void};

pub(super) type OfName = unsafe extern "C" fn(*const c_char) -> *const c_char;

#[derive(Clone, Copy)]
pub(super) struct Api {
    pub(super) vfs_find: unsafe extern "C" fn(*const c_char) -> *mut Vfs,
    pub(super) vfs_register: unsafe extern "C" fn(*mut Vfs, c_int) -> c_int,
    pub(super) vfs_unregister: unsafe extern "C" fn(*mut Vfs) -> c_int,
    /// `None` if SQLite was built without it.
    pub(super) compileoption_used: Option<unsafe extern "C" fn(*const c_char) -> c_int>,
    pub(super) log: unsafe extern "C" fn(c_int, *const c_char, ...),
    pub(super) uri_parameter: unsafe extern "C" fn(*const c_char, *const c_char) -> *const c_char,
    pub(super) uri_key: unsafe extern "C" fn(*const c_char, c_int) -> *const c_char,
    pub(super) filename_journal: OfName,
    pub(super) filename_wal: OfName,
    pub(super) malloc: unsafe extern "C" fn(c_int) -> *mut c_void,
    /// Functions for adding a function to SQL, if they were found in a table.
    pub(super) teaching: Option<Teaching>,
}

/// The functions that add a function to SQL for every future connection.
#[derive(Clone, Copy)]
pub(super) struct Teaching {
    /// Address of the table with these functions; each SQLite has one.
    pub(super) table: usize,
    pub(super) functions: Functions,
    pub(super) auto_extension: unsafe extern "C" fn(Entry) -> c_int,
}

/// The version that `sqlite3_filename_journal` came with.
const VERSION_MIN: c_int = 3_031_000;

/// Places of the functions in `sqlite3_api_routines`, which only ever grows at its end (`sqlite3ext.h`).
mod place {
    pub(super) const CREATE_FUNCTION: usize = 45;
    pub(super) const LIBVERSION_NUMBER: usize = 67;
    pub(super) const MALLOC: usize = 68;
    pub(super) const RESULT_TEXT: usize = 85;
    pub(super) const USER_DATA: usize = 101;
    pub(super) const VFS_FIND: usize = 141;
    pub(super) const VFS_REGISTER: usize = 142;
    pub(super) const VFS_UNREGISTER: usize = 143;
    pub(super) const COMPILEOPTION_USED: usize = 161;
    pub(super) const LOG: usize = 167;
    pub(super) const URI_PARAMETER: usize = 189;
    pub(super) const AUTO_EXTENSION: usize = 192;
    pub(super) const URI_KEY: usize = 245;
    pub(super) const FILENAME_JOURNAL: usize = 247;
    pub(super) const FILENAME_WAL: usize = 248;
}

/// Entry point of an extension: it gets a connection, a place for a message, and the table of functions.
pub(super) type Entry = unsafe extern "C" fn(*mut c_void, *mut *mut c_char, *const c_void) -> c_int;

impl Api {
    /// Reads the functions from the table that an extension gets. Fails with a message if that SQLite is too
    /// old.
    ///
    /// # Safety
    ///
    /// The table is the one that SQLite hands to an extension's entry point (F5).
    pub(super) unsafe fn of_table(table: *const c_void) -> Result<Api, String> {
        // SAFETY: the table is an array of pointers to functions, of which a null one is read as `None`. The
        // types are those of sqlite3ext.h at these places, but for those of contexts and values, to which
        // there are only pointers; the version is asked for before anything that came later is read.
        unsafe {
            let table = table.cast::<*const c_void>();
            let at = |place: usize| table.add(place);
            let version = *at(place::LIBVERSION_NUMBER).cast::<unsafe extern "C" fn() -> c_int>();
            let version = version();
            if version < VERSION_MIN {
                return Err(format!("SQLite {version} is too old, {VERSION_MIN} (3.31) is needed"));
            }
            Ok(Api {
                vfs_find: *at(place::VFS_FIND).cast(),
                vfs_register: *at(place::VFS_REGISTER).cast(),
                vfs_unregister: *at(place::VFS_UNREGISTER).cast(),
                compileoption_used: *at(place::COMPILEOPTION_USED).cast(),
                log: *at(place::LOG).cast(),
                uri_parameter: *at(place::URI_PARAMETER).cast(),
                uri_key: *at(place::URI_KEY).cast(),
                filename_journal: *at(place::FILENAME_JOURNAL).cast(),
                filename_wal: *at(place::FILENAME_WAL).cast(),
                malloc: *at(place::MALLOC).cast(),
                teaching: Some(Teaching {
                    table: table.addr(),
                    functions: Functions {
                        create_function: *at(place::CREATE_FUNCTION).cast(),
                        user_data: *at(place::USER_DATA).cast(),
                        result_text: *at(place::RESULT_TEXT).cast(),
                    },
                    auto_extension: *at(place::AUTO_EXTENSION).cast(),
                }),
            })
        }
    }

    /// The SQLite that is linked in.
    #[cfg(feature = "bundled")]
    pub(super) fn linked() -> Api {
        Api {
            vfs_find: linked::vfs_find,
            vfs_register: linked::vfs_register,
            vfs_unregister: linked::vfs_unregister,
            compileoption_used: Some(libsqlite3_sys::sqlite3_compileoption_used),
            log: libsqlite3_sys::sqlite3_log,
            uri_parameter: linked::uri_parameter,
            uri_key: linked::uri_key,
            filename_journal: linked::filename_journal,
            filename_wal: linked::filename_wal,
            malloc: libsqlite3_sys::sqlite3_malloc,
            teaching: None,
        }
    }

    /// Whether this SQLite asks a VFS for atomic batches.
    pub(super) fn has_batches(&self) -> bool {
        // SAFETY: the string ends with a zero and outlives the call.
        let asked = |used: unsafe extern "C" fn(*const c_char) -> c_int| unsafe {
            used(c"ENABLE_BATCH_ATOMIC_WRITE".as_ptr())
        };
        self.compileoption_used.is_some_and(|used| asked(used) != 0)
    }

    /// Writes to SQLite's error log, which whoever configured it sees.
    pub(super) fn tell(&self, code: c_int, text: &str) {
        let Ok(text) = CString::new(text) else { return };
        // SAFETY: the format takes one string, which ends with a zero and outlives the call.
        unsafe { (self.log)(code, c"nandex: %s".as_ptr(), text.as_ptr()) }
    }

    /// A parameter of the name of a database.
    ///
    /// # Safety
    ///
    /// The name is one that SQLite handed to `xOpen` for a database, a journal or a log.
    pub(super) unsafe fn parameter(&self, name: *const c_char, parameter: &CStr) -> Option<String> {
        // SAFETY: as the caller promises; what is returned is null or a string that lives as long as the name
        // (F3).
        unsafe {
            let value = (self.uri_parameter)(name, parameter.as_ptr());
            (!value.is_null()).then(|| CStr::from_ptr(value).to_string_lossy().into_owned())
        }
    }

    /// The keys of the parameters of the name of a database.
    ///
    /// # Safety
    ///
    /// As for [`Api::parameter`].
    pub(super) unsafe fn keys(&self, name: *const c_char) -> Vec<String> {
        // SAFETY: as the caller promises; what is returned is null or a string that lives as long as the name
        // (F3).
        let key = |number: c_int| unsafe {
            let key = (self.uri_key)(name, number);
            (!key.is_null()).then(|| CStr::from_ptr(key).to_string_lossy().into_owned())
        };
        (0..).map_while(key).collect()
    }

    /// A string that SQLite frees; null without memory.
    pub(super) fn string(&self, text: &str) -> *mut c_char {
        let Ok(bytes) = c_int::try_from(text.len() + 1) else { return std::ptr::null_mut() };
        // SAFETY: the block is null or has room for the text and the zero behind it.
        unsafe {
            let block = (self.malloc)(bytes).cast::<u8>();
            if !block.is_null() {
                block.copy_from_nonoverlapping(text.as_ptr(), text.len());
                block.add(text.len()).write(0);
            }
            block.cast()
        }
    }
}

/// The functions under the types of this crate.
#[cfg(feature = "bundled")]
mod linked {
    use super::Vfs;
    use libsqlite3_sys as ffi;
    use std::ffi::{c_char, c_int};

    // They pass their arguments on as they are; `Vfs` has the layout of `sqlite3_vfs`, which a test compares.

    pub(super) unsafe extern "C" fn vfs_find(name: *const c_char) -> *mut Vfs {
        // SAFETY: as the caller promises to SQLite.
        unsafe { ffi::sqlite3_vfs_find(name).cast() }
    }
    pub(super) unsafe extern "C" fn vfs_register(vfs: *mut Vfs, default: c_int) -> c_int {
        // SAFETY: as the caller promises to SQLite.
        unsafe { ffi::sqlite3_vfs_register(vfs.cast(), default) }
    }
    pub(super) unsafe extern "C" fn vfs_unregister(vfs: *mut Vfs) -> c_int {
        // SAFETY: as the caller promises to SQLite.
        unsafe { ffi::sqlite3_vfs_unregister(vfs.cast()) }
    }
    pub(super) unsafe extern "C" fn uri_parameter(name: *const c_char, key: *const c_char) -> *const c_char {
        // SAFETY: as the caller promises to SQLite.
        unsafe { ffi::sqlite3_uri_parameter(name, key) }
    }
    pub(super) unsafe extern "C" fn uri_key(name: *const c_char, number: c_int) -> *const c_char {
        // SAFETY: as the caller promises to SQLite.
        unsafe { ffi::sqlite3_uri_key(name, number) }
    }
    pub(super) unsafe extern "C" fn filename_journal(name: *const c_char) -> *const c_char {
        // SAFETY: as the caller promises to SQLite.
        unsafe { ffi::sqlite3_filename_journal(name) }
    }
    pub(super) unsafe extern "C" fn filename_wal(name: *const c_char) -> *const c_char {
        // SAFETY: as the caller promises to SQLite.
        unsafe { ffi::sqlite3_filename_wal(name) }
    }
}

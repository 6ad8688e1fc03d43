//! A client of any SQLite of the process: of the one that is linked in, and of a shared library.

use nandex_sqlite::{OpenError, Routines, Vfs, Volume, VolumeConfig};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};

const OK: c_int = 0;
const BUSY: c_int = 5;
const FULL: c_int = 13;
const ROW: c_int = 100;
const DONE: c_int = 101;
const OPEN_READWRITE: c_int = 0x2;
const OPEN_CREATE: c_int = 0x4;
const OPEN_URI: c_int = 0x40;
const OPEN_NOMUTEX: c_int = 0x8000;

/// File name of the system's SQLite library.
const LIBRARY: &str = if cfg!(target_os = "macos") { "libsqlite3.dylib" } else { "libsqlite3.so.0" };

type Entry = unsafe extern "C" fn(*mut c_void, *mut *mut c_char, *const c_void) -> c_int;

macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) -> $result:ty;)*) => {
        /// Functions of one SQLite, under their own names.
        #[derive(Clone, Copy)]
        struct Functions {
            $($name: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl Functions {
            /// # Safety
            ///
            /// `found` returns null or SQLite's function of that name, valid as long as the process lives.
            unsafe fn find(found: impl Fn(&CStr) -> *const c_void) -> Result<Functions, String> {
                Ok(Functions { $($name: {
                    let name = concat!(stringify!($name), "\0");
                    let place = CStr::from_bytes_with_nul(name.as_bytes()).map_or(ptr::null(), &found);
                    if place.is_null() {
                        return Err(format!("it has no {}", stringify!($name)));
                    }
                    // SAFETY: as the caller promises; the types are those of sqlite3.h.
                    unsafe {
                        std::mem::transmute::<*const c_void, unsafe extern "C" fn($($argument),*) -> $result>(place)
                    }
                },)* })
            }

            #[cfg(feature = "bundled")]
            fn linked() -> Functions {
                // SAFETY: functions of SQLite that are linked in, under their types in sqlite3.h.
                unsafe {
                    Functions { $($name: std::mem::transmute::<
                        *const c_void,
                        unsafe extern "C" fn($($argument),*) -> $result,
                    >(libsqlite3_sys::$name as *const c_void),)* }
                }
            }
        }
    };
}

functions! {
    sqlite3_initialize: fn() -> c_int;
    sqlite3_libversion: fn() -> *const c_char;
    sqlite3_auto_extension: fn(Option<Entry>) -> c_int;
    sqlite3_cancel_auto_extension: fn(Option<Entry>) -> c_int;
    sqlite3_open_v2: fn(*const c_char, *mut *mut c_void, c_int, *const c_char) -> c_int;
    sqlite3_close: fn(*mut c_void) -> c_int;
    sqlite3_errcode: fn(*mut c_void) -> c_int;
    sqlite3_errmsg: fn(*mut c_void) -> *const c_char;
    sqlite3_busy_timeout: fn(*mut c_void, c_int) -> c_int;
    sqlite3_get_autocommit: fn(*mut c_void) -> c_int;
    sqlite3_prepare_v2: fn(*mut c_void, *const c_char, c_int, *mut *mut c_void, *mut *const c_char) -> c_int;
    sqlite3_step: fn(*mut c_void) -> c_int;
    sqlite3_finalize: fn(*mut c_void) -> c_int;
    sqlite3_column_text: fn(*mut c_void, c_int) -> *const u8;
    sqlite3_column_bytes: fn(*mut c_void, c_int) -> c_int;
    sqlite3_backup_init: fn(*mut c_void, *const c_char, *mut c_void, *const c_char) -> *mut c_void;
    sqlite3_backup_step: fn(*mut c_void, c_int) -> c_int;
    sqlite3_backup_finish: fn(*mut c_void) -> c_int;
}

/// A SQLite of this process.
#[derive(Clone, Copy)]
pub struct Sqlite {
    functions: Functions,
    routines: Routines,
    is_linked: bool,
}

/// A refusal of SQLite: its primary result code and its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    code: c_int,
    text: String,
}

impl Refusal {
    /// Whether there was no room.
    pub fn is_full(&self) -> bool {
        self.code == FULL
    }

    /// True if another connection has locked the database or its device.
    pub fn is_busy(&self) -> bool {
        self.code == BUSY
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Refusal {}

unsafe extern "C" {
    fn dlopen(name: *const c_char, how: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlerror() -> *const c_char;
}

/// Flags of `dlopen`: all symbols are resolved at once and are not visible to other libraries (`RTLD_NOW`,
/// `RTLD_LOCAL`).
const HOW: c_int = if cfg!(target_os = "macos") { 0x2 | 0x4 } else { 0x2 };

/// The table of functions that SQLite hands to an entry point.
static TABLE: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

unsafe extern "C" fn keep(_: *mut c_void, _: *mut *mut c_char, table: *const c_void) -> c_int {
    TABLE.store(table.cast_mut(), Ordering::Release);
    OK
}

impl Sqlite {
    /// The SQLite that is linked in.
    ///
    /// # Errors
    ///
    /// In words, where it was built without extensions.
    #[cfg(feature = "bundled")]
    pub fn linked() -> Result<Sqlite, String> {
        Sqlite::of(Functions::linked(), true)
    }

    /// Loads the SQLite of a shared library, the system's if none is named. It stays loaded.
    ///
    /// # Errors
    ///
    /// A message if the library or one of the needed functions is missing.
    pub fn shared(library: Option<&Path>) -> Result<Sqlite, String> {
        let name = library.map_or(LIBRARY.to_string(), |path| path.display().to_string());
        let path = CString::new(name.as_str()).map_err(|_| format!("{name:?} is no name"))?;
        // SAFETY: the name ends with a zero; what a library does as it is loaded is for whoever names it.
        let loaded = unsafe { dlopen(path.as_ptr(), HOW) };
        if loaded.is_null() {
            // SAFETY: a call failed, so there is a text, or null.
            let why = unsafe { text_of(dlerror()) };
            return Err(format!("no SQLite: {why}"));
        }
        // SAFETY: the library was loaded and stays so; the names end with a zero.
        let functions = unsafe { Functions::find(|name| dlsym(loaded, name.as_ptr()).cast_const()) };
        Sqlite::of(functions.map_err(|why| format!("{name}: {why}"))?, false)
    }

    fn of(functions: Functions, is_linked: bool) -> Result<Sqlite, String> {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        TABLE.store(ptr::null_mut(), Ordering::Release);
        // SAFETY: the entry point keeps a pointer and no more; SQLite closes a null database, too; the table
        // is null or SQLite's, which stays as long as the process.
        let routines = unsafe {
            let mut database = ptr::null_mut();
            (functions.sqlite3_initialize)();
            (functions.sqlite3_auto_extension)(Some(keep));
            (functions.sqlite3_open_v2)(c":memory:".as_ptr(), &raw mut database, OPEN_READWRITE, ptr::null());
            (functions.sqlite3_close)(database);
            (functions.sqlite3_cancel_auto_extension)(Some(keep));
            Routines::of_table(TABLE.load(Ordering::Acquire).cast_const())
        };
        Ok(Sqlite { functions, routines: routines.map_err(|error| error.to_string())?, is_linked })
    }

    /// The version, as SQLite writes it.
    pub fn version(&self) -> String {
        // SAFETY: the string is SQLite's own, and stays.
        unsafe { text_of((self.functions.sqlite3_libversion)()) }
    }

    /// Registers a VFS over a volume with this SQLite.
    ///
    /// # Errors
    ///
    /// Those of [`Vfs::register_with`].
    pub fn register(&self, name: &str, volume: Volume) -> Result<Vfs, OpenError> {
        Vfs::register_with(self.routines, name, volume)
    }

    /// Registers a VFS that finds the device in the name of each database.
    ///
    /// # Errors
    ///
    /// Those of [`Vfs::register_for_devices_with`].
    pub fn register_for_devices(&self, name: &str, settings: VolumeConfig) -> Result<Vfs, OpenError> {
        Vfs::register_for_devices_with(self.routines, name, settings)
    }

    /// Opens a database; the name may be a URI.
    ///
    /// # Errors
    ///
    /// SQLite's.
    pub fn open(&self, name: &str) -> Result<Database, Refusal> {
        let mut database = Database { functions: self.functions, raw: ptr::null_mut() };
        let flags = OPEN_READWRITE | OPEN_CREATE | OPEN_URI | OPEN_NOMUTEX;
        let name = CString::new(name).map_err(|error| database.refusal(error.to_string()))?;
        // SAFETY: the name ends with a zero; the database has a place. SQLite makes one to ask for the reason
        // where it refuses, too, or leaves null.
        let code = unsafe {
            let open = self.functions.sqlite3_open_v2;
            open(name.as_ptr(), &raw mut database.raw, flags, ptr::null())
        };
        database.require(code)?;
        Ok(database)
    }
}

impl fmt::Display for Sqlite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whose = if self.is_linked { "linked in" } else { "shared library" };
        write!(f, "SQLite {}, {whose}", self.version())
    }
}

/// A string of C as text; nothing of a null one.
///
/// # Safety
///
/// It is null or ends with a zero.
unsafe fn text_of(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: as the caller promises.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// A connection, used by one thread at a time.
pub struct Database {
    functions: Functions,
    raw: *mut c_void,
}

// SAFETY: SQLite allows a connection to go from thread to thread where it is used by one at a time, as it is
// without `Sync`.
unsafe impl Send for Database {}

impl Database {
    fn refusal(&self, text: String) -> Refusal {
        Refusal { code: 1, text }
    }

    fn require(&self, code: c_int) -> Result<(), Refusal> {
        if matches!(code, OK | ROW | DONE) {
            return Ok(());
        }
        // SAFETY: the database is open, or null, of which SQLite says that there is no memory.
        let text = unsafe { text_of((self.functions.sqlite3_errmsg)(self.raw)) };
        Err(Refusal { code: code & 0xff, text })
    }

    /// Runs statements; returns the first column of every row.
    ///
    /// # Errors
    ///
    /// SQLite's; statements behind the one that is refused are not run.
    pub fn read(&self, sql: &str) -> Result<Vec<String>, Refusal> {
        let mut rows = Vec::new();
        let mut rest = sql.as_bytes();
        while !rest.is_empty() {
            let mut statement = ptr::null_mut();
            let mut tail = ptr::null();
            let bytes = c_int::try_from(rest.len()).map_err(|error| self.refusal(error.to_string()))?;
            // SAFETY: the text has so many bytes; statement and tail have places.
            let code = unsafe {
                let prepare = self.functions.sqlite3_prepare_v2;
                prepare(self.raw, rest.as_ptr().cast(), bytes, &raw mut statement, &raw mut tail)
            };
            self.require(code)?;
            // SAFETY: SQLite lets the tail point into the text, or to its end.
            let done = unsafe { tail.cast::<u8>().offset_from(rest.as_ptr()) };
            rest = rest.get(done.unsigned_abs()..).unwrap_or_default();
            // SAFETY: the statement is null, for a comment or space, or was prepared and is finalized once.
            unsafe {
                let all = if statement.is_null() { Ok(()) } else { self.rows_of(statement, &mut rows) };
                (self.functions.sqlite3_finalize)(statement);
                all?;
            }
        }
        Ok(rows)
    }

    /// # Safety
    ///
    /// The statement belongs to this database.
    unsafe fn rows_of(&self, statement: *mut c_void, rows: &mut Vec<String>) -> Result<(), Refusal> {
        // SAFETY: as the caller promises; a text has so many bytes until the next step, and is null where the
        // value is, or has no bytes.
        unsafe {
            loop {
                let code = (self.functions.sqlite3_step)(statement);
                if code != ROW {
                    return self.require(code);
                }
                let text = (self.functions.sqlite3_column_text)(statement, 0);
                let bytes = (self.functions.sqlite3_column_bytes)(statement, 0);
                let bytes = if text.is_null() { 0 } else { usize::try_from(bytes).unwrap_or(0) };
                let text = if bytes == 0 { &[] } else { std::slice::from_raw_parts(text, bytes) };
                rows.push(String::from_utf8_lossy(text).into_owned());
            }
        }
    }

    /// Runs statements and drops their rows.
    ///
    /// # Errors
    ///
    /// Those of [`Database::read`].
    pub fn run(&self, sql: &str) -> Result<(), Refusal> {
        self.read(sql).map(drop)
    }

    /// Whether a transaction is open.
    pub fn in_transaction(&self) -> bool {
        // SAFETY: the database is open.
        unsafe { (self.functions.sqlite3_get_autocommit)(self.raw) == 0 }
    }

    /// Sets how long to wait for locks of other connections, in milliseconds.
    pub fn wait_for(&self, milliseconds: u32) {
        let most = c_int::try_from(milliseconds).unwrap_or(c_int::MAX);
        // SAFETY: the database is open.
        unsafe { (self.functions.sqlite3_busy_timeout)(self.raw, most) };
    }

    /// Copies the main database into another one, some pages at a time.
    ///
    /// # Errors
    ///
    /// SQLite's; a database that is locked is one.
    pub fn back_up(&self, copy: &Database) -> Result<(), Refusal> {
        const PAGES: c_int = 7;
        // SAFETY: both databases are open, the names end with a zero; the backup is null or finished once.
        unsafe {
            let main = c"main".as_ptr();
            let backup = (self.functions.sqlite3_backup_init)(copy.raw, main, self.raw, main);
            if backup.is_null() {
                return copy.require((self.functions.sqlite3_errcode)(copy.raw));
            }
            let step = loop {
                let code = (self.functions.sqlite3_backup_step)(backup, PAGES);
                if code != OK {
                    break code;
                }
            };
            let code = (self.functions.sqlite3_backup_finish)(backup);
            // A lock that somebody has is told by the step alone.
            copy.require(if code == OK { step } else { code })
        }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // SAFETY: every statement was finalized; it is closed once, and null may be.
        unsafe { (self.functions.sqlite3_close)(self.raw) };
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").finish_non_exhaustive()
    }
}

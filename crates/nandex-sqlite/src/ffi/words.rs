//! The SQL function `nandex_error()`: why the VFS refused or failed last, in words; null before that.

use super::abi::{self, Answer};
use super::api::Teaching;
use super::file::guarded;
#[cfg(feature = "bundled")]
use super::vfs::App;
use crate::router::locked;
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::{Mutex, OnceLock};

/// The functions of one SQLite that the SQL function needs.
#[derive(Clone, Copy)]
pub(super) struct Functions {
    pub(super) create_function: unsafe extern "C" fn(
        *mut c_void,
        *const c_char,
        c_int,
        c_int,
        *mut c_void,
        Option<Answer>,
        Option<Answer>,
        Option<unsafe extern "C" fn(*mut c_void)>,
    ) -> c_int,
    pub(super) user_data: unsafe extern "C" fn(*mut c_void) -> *mut c_void,
    pub(super) result_text: unsafe extern "C" fn(*mut c_void, *const c_char, c_int, *const c_void),
}

/// A SQLite that has the SQL function, and the message of its VFSes' last failure.
struct Taught {
    teaching: Teaching,
    last: Mutex<String>,
}

/// The first SQLite found by a table: the one that loaded the extension, or with whose routines a VFS was
/// registered. All its connections have the SQL function. A second SQLite in the process, which is rare, does
/// not get the function.
static TAUGHT: OnceLock<Taught> = OnceLock::new();

/// The state of a SQLite, if it has the SQL function.
fn taught(table: usize) -> Option<&'static Taught> {
    TAUGHT.get().filter(|taught| taught.teaching.table == table)
}

/// Gives the function to each connection of a SQLite that is opened from now on.
pub(super) fn teach_all(teaching: Teaching) {
    TAUGHT.get_or_init(|| Taught { teaching, last: Mutex::default() });
    if taught(teaching.table).is_some() {
        // SAFETY: the function is that of the table (F5), and takes the same entry point any number of times.
        unsafe { (teaching.auto_extension)(teach) };
    }
}

/// Notes the message of a VFS's refusal or failure.
pub(super) fn note(teaching: Teaching, text: &str) {
    if let Some(taught) = taught(teaching.table) {
        *locked(&taught.last) = String::from(text);
    }
}

/// Adds the function to a connection that is opened.
///
/// # Safety
///
/// SQLite calls it as the entry point of an extension, with its table of functions.
pub(super) unsafe extern "C" fn teach(
    database: *mut c_void,
    _: *mut *mut c_char,
    table: *const c_void,
) -> c_int {
    match taught(table.addr()).filter(|_| !database.is_null()) {
        Some(taught) => {
            let state = ptr::from_ref(&taught.last).cast_mut().cast();
            // SAFETY: the functions are those of the table (F5), and the connection is one of its SQLite; the
            // state is never freed.
            unsafe { taught.teaching.functions.add(database, state, by_table) }
        }
        None => abi::OK,
    }
}

impl Functions {
    /// Adds the function to a connection of the SQLite that is linked in.
    ///
    /// # Safety
    ///
    /// The connection is open.
    #[cfg(feature = "bundled")]
    pub(super) unsafe fn add_to_linked(database: *mut c_void, app: &'static App) -> c_int {
        // SAFETY: as the caller promises.
        unsafe { LINKED.add(database, ptr::from_ref(&app.last).cast_mut().cast(), linked::answer) }
    }

    /// The state is a `Mutex<String>` that stays.
    unsafe fn add(&self, database: *mut c_void, state: *mut c_void, answer: Answer) -> c_int {
        let name = c"nandex_error".as_ptr();
        // SAFETY: as the callers promise; the name outlives the call.
        unsafe { (self.create_function)(database, name, 0, abi::UTF8, state, Some(answer), None, None) }
    }

    /// Answers a call of the SQL function.
    ///
    /// # Safety
    ///
    /// SQLite calls this for the function that was added, with these functions.
    unsafe fn tell(&self, context: *mut c_void) {
        // SAFETY: the state is what `add` was given; SQLite copies the text before the call returns.
        unsafe {
            let last = &*(self.user_data)(context).cast::<Mutex<String>>();
            guarded(abi::ERROR, || {
                let text = CString::new(locked(last).as_str()).unwrap_or_default();
                if !text.is_empty() {
                    let copied = ptr::without_provenance(usize::MAX);
                    (self.result_text)(context, text.as_ptr(), -1, copied);
                }
                abi::OK
            });
        }
    }
}

unsafe extern "C" fn by_table(context: *mut c_void, _: c_int, _: *mut *mut c_void) {
    if let Some(taught) = TAUGHT.get() {
        // SAFETY: SQLite calls it for the function that was added with these.
        unsafe { taught.teaching.functions.tell(context) };
    }
}

/// The functions of the SQLite that is linked in.
#[cfg(feature = "bundled")]
const LINKED: Functions = Functions {
    create_function: linked::create_function,
    user_data: linked::user_data,
    result_text: linked::result_text,
};

/// The linked functions under the types of this module. Arguments are passed on unchanged.
#[cfg(feature = "bundled")]
mod linked {
    use super::{Answer, LINKED};
    use libsqlite3_sys as ffi;
    use std::ffi::{c_char, c_int, c_void};
    use std::mem::transmute;

    pub(super) unsafe extern "C" fn create_function(
        database: *mut c_void,
        name: *const c_char,
        arguments: c_int,
        encoding: c_int,
        state: *mut c_void,
        answer: Option<Answer>,
        _: Option<Answer>,
        _: Option<unsafe extern "C" fn(*mut c_void)>,
    ) -> c_int {
        // SAFETY: as the caller promises to SQLite; contexts and values are pointers that it gave.
        unsafe {
            let answer = answer.map(|answer| transmute::<Answer, LinkedAnswer>(answer));
            ffi::sqlite3_create_function_v2(
                database.cast(),
                name,
                arguments,
                encoding,
                state,
                answer,
                None,
                None,
                None,
            )
        }
    }

    type LinkedAnswer = unsafe extern "C" fn(*mut ffi::sqlite3_context, c_int, *mut *mut ffi::sqlite3_value);

    pub(super) unsafe extern "C" fn user_data(context: *mut c_void) -> *mut c_void {
        // SAFETY: as the caller promises to SQLite.
        unsafe { ffi::sqlite3_user_data(context.cast()) }
    }

    pub(super) unsafe extern "C" fn result_text(
        context: *mut c_void,
        text: *const c_char,
        bytes: c_int,
        _: *const c_void,
    ) {
        // SAFETY: as the caller promises to SQLite.
        unsafe { ffi::sqlite3_result_text(context.cast(), text, bytes, ffi::SQLITE_TRANSIENT()) }
    }

    pub(super) unsafe extern "C" fn answer(context: *mut c_void, _: c_int, _: *mut *mut c_void) {
        // SAFETY: SQLite calls it for the function that was added with these.
        unsafe { LINKED.tell(context) };
    }
}

//! The SQL function `nandex_error()`: why the VFS refused or failed last, in words; null before that.

use super::abi::{self, Answer};
use super::file::guarded;
use super::vfs::App;
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

/// The functions of one SQLite that this takes.
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

/// The functions of the SQLite that loaded the extension.
static LOADED: OnceLock<Functions> = OnceLock::new();

impl Functions {
    /// Adds the function to a connection of the SQLite that loaded the extension.
    ///
    /// # Safety
    ///
    /// The functions are those of that SQLite, and the connection is one of it.
    pub(super) unsafe fn add_to_loader(self, database: *mut c_void, app: &'static App) -> c_int {
        LOADED.get_or_init(|| self);
        // SAFETY: as the caller promises.
        unsafe { self.add(database, app, loaded) }
    }

    /// Adds the function to a connection of the SQLite that is linked in.
    ///
    /// # Safety
    ///
    /// The connection is open.
    #[cfg(feature = "bundled")]
    pub(super) unsafe fn add_to_linked(database: *mut c_void, app: &'static App) -> c_int {
        // SAFETY: as the caller promises.
        unsafe { LINKED.add(database, app, linked::answer) }
    }

    unsafe fn add(&self, database: *mut c_void, app: &'static App, answer: Answer) -> c_int {
        let (name, state) = (c"nandex_error".as_ptr(), ptr::from_ref(app).cast_mut().cast());
        // SAFETY: as the callers promise; the name outlives the call, and the state is never freed (F1).
        unsafe { (self.create_function)(database, name, 0, abi::UTF8, state, Some(answer), None, None) }
    }

    /// Answers the function.
    ///
    /// # Safety
    ///
    /// SQLite calls it for the function that was added, with these functions.
    unsafe fn tell(&self, context: *mut c_void) {
        // SAFETY: the state is that of a VFS (F1); SQLite copies the text before the call returns.
        unsafe {
            let app = &*(self.user_data)(context).cast::<App>();
            guarded(abi::ERROR, || {
                let text = CString::new(app.told()).unwrap_or_default();
                if !text.is_empty() {
                    let copied = ptr::without_provenance(usize::MAX);
                    (self.result_text)(context, text.as_ptr(), -1, copied);
                }
                abi::OK
            });
        }
    }
}

unsafe extern "C" fn loaded(context: *mut c_void, _: c_int, _: *mut *mut c_void) {
    if let Some(functions) = LOADED.get() {
        // SAFETY: SQLite calls it for the function that was added with these.
        unsafe { functions.tell(context) };
    }
}

/// The functions of the SQLite that is linked in.
#[cfg(feature = "bundled")]
const LINKED: Functions = Functions {
    create_function: linked::create_function,
    user_data: linked::user_data,
    result_text: linked::result_text,
};

/// The functions under the types of this module, to which they pass their arguments on as they are.
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

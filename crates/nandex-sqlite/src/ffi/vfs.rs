//! The VFS: its registration, and the calls that open, delete and find files.

use super::abi::{self, File, Vfs};
use super::api::Api;
use super::file::{METHODS, Open, code_of, guarded};
use super::routines::Routines;
use super::words;
use crate::device::{Device, MountProgress, OnProgress};
use crate::router::{Failure, Kind, Request, Router};
use std::ffi::{CStr, CString, c_char, c_double, c_int};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// The longest name of a file.
const NAME_BYTES_MAX: c_int = 512;

/// A VFS registered with SQLite.
pub(crate) struct Registered {
    vfs: *mut Vfs,
    app: &'static App,
}

// SAFETY: the VFS is only read after it was made (F1), SQLite's functions may be called on any thread, and
// what changes is locked.
unsafe impl Send for Registered {}
// SAFETY: the same.
unsafe impl Sync for Registered {}

/// The state that `pAppData` points to.
pub(super) struct App {
    pub(super) api: Api,
    pub(super) router: Router,
    /// The VFS of the system: for time, sleep and chance.
    base: *mut Vfs,
    /// The last error in words, for `xGetLastError`.
    pub(super) last: Mutex<String>,
}

// SAFETY: the base is only read (F1), SQLite's functions may be called on any thread, and what changes is
// locked.
unsafe impl Sync for App {}

impl App {
    /// Notes and logs a failure.
    pub(super) fn fail(&self, failure: &Failure, otherwise: c_int) -> c_int {
        let code = code_of(failure, otherwise);
        let text = failure.to_string();
        self.api.tell(code, &text);
        if let Some(teaching) = self.api.teaching {
            words::note(teaching, &text);
        }
        *crate::router::locked(&self.last) = text;
        code
    }

    /// Message of the last failure; empty before the first.
    pub(super) fn told(&self) -> String {
        crate::router::locked(&self.last).clone()
    }
}

impl Registered {
    /// Registers a VFS with the SQLite that is linked in.
    ///
    /// # Errors
    ///
    /// In words, where the name is taken or SQLite refuses.
    #[cfg(feature = "bundled")]
    pub(crate) fn linked(name: &str, router: Router) -> Result<Registered, String> {
        // SAFETY: SQLite is linked in; it may be initialised any number of times.
        unsafe { libsqlite3_sys::sqlite3_initialize() };
        Registered::register(Api::linked(), name, router)
    }

    /// Registers a VFS with some SQLite.
    ///
    /// # Errors
    ///
    /// As for [`Registered::linked`].
    pub(crate) fn with(routines: Routines, name: &str, router: Router) -> Result<Registered, String> {
        Registered::register(routines.0, name, router)
    }

    /// Registers a VFS until [`Registered::unregister`].
    pub(super) fn register(api: Api, name: &str, router: Router) -> Result<Registered, String> {
        let name = CString::new(name).map_err(|_| String::from("a name of a VFS has no zero byte"))?;
        // SAFETY: strings end with a zero and outlive the calls; a null name asks for the default VFS.
        let (taken, base) = unsafe { ((api.vfs_find)(name.as_ptr()), (api.vfs_find)(std::ptr::null())) };
        if !taken.is_null() {
            return Err(format!("there is a VFS {name:?} already"));
        }
        if base.is_null() {
            return Err(String::from("this SQLite has no VFS of the system"));
        }
        if !api.has_batches() {
            let text = "this SQLite was built without SQLITE_ENABLE_BATCH_ATOMIC_WRITE: each sync is an atomic group instead";
            api.tell(abi::NOTICE, text);
        }
        let app: &'static App = Box::leak(Box::new(App { api, router, base, last: Mutex::default() }));
        // SAFETY: the default VFS stays registered (F1).
        let base = unsafe { &*base };
        let vfs = Box::into_raw(Box::new(Vfs {
            version: 2,
            file_bytes: size_of::<File>() as c_int,
            path_bytes_max: NAME_BYTES_MAX,
            next: std::ptr::null_mut(),
            name: name.into_raw(),
            app: std::ptr::from_ref(app).cast_mut().cast(),
            open,
            delete,
            access,
            full_pathname,
            dl_open: base.dl_open,
            dl_error: base.dl_error,
            dl_sym: base.dl_sym,
            dl_close: base.dl_close,
            randomness,
            sleep,
            current_time,
            last_error,
            current_time_ms: Some(current_time_ms),
        }));
        // SAFETY: the VFS is complete and is never freed.
        match unsafe { (api.vfs_register)(vfs, 0) } {
            abi::OK => {
                if let Some(teaching) = api.teaching {
                    words::teach_all(teaching);
                }
                Ok(Registered { vfs, app })
            }
            code => Err(format!("SQLite refused the VFS: error {code}")),
        }
    }

    /// The router of the VFS's files.
    pub(crate) fn router(&self) -> &'static Router {
        &self.app.router
    }

    /// Whether SQLite asks for atomic batches.
    pub(crate) fn has_batches(&self) -> bool {
        self.app.api.has_batches()
    }

    /// Adds the SQL function `nandex_error()` to a connection.
    ///
    /// # Errors
    ///
    /// Those of SQLite.
    #[cfg(feature = "bundled")]
    pub(crate) fn teach(&self, connection: &rusqlite::Connection) -> rusqlite::Result<()> {
        // SAFETY: the connection is open as long as it is borrowed.
        let code = unsafe { words::Functions::add_to_linked(connection.handle().cast(), self.app) };
        if code == abi::OK {
            Ok(())
        } else {
            Err(rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None))
        }
    }

    /// Message of the last failure; empty before the first.
    pub(crate) fn told(&self) -> String {
        self.app.told()
    }

    /// Takes the name away. Databases that are open stay so: the VFS itself is never freed.
    pub(crate) fn unregister(&self) {
        // SAFETY: it was registered, and SQLite accepts one that it does not know.
        unsafe { (self.app.api.vfs_unregister)(self.vfs) };
    }
}

/// The state that a VFS of ours points to.
///
/// # Safety
///
/// The VFS is one that [`Registered::register`] made.
unsafe fn app_of(vfs: *mut Vfs) -> &'static App {
    // SAFETY: as the caller promises; it is never freed (F1).
    unsafe { &*(*vfs).app.cast::<App>() }
}

/// Converts a name from SQLite; `None` if it is null or not UTF-8.
///
/// # Safety
///
/// The name is null or ends with a zero (F3).
unsafe fn text<'a>(name: *const c_char) -> Option<&'a str> {
    // SAFETY: as the caller promises.
    if name.is_null() { None } else { unsafe { CStr::from_ptr(name) }.to_str().ok() }
}

unsafe extern "C" fn open(
    vfs: *mut Vfs,
    name: *const c_char,
    file: *mut File,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: F1 to F4; the methods stay null until the file is open, so that SQLite does not close one that
    // is not.
    unsafe {
        (*file).methods = std::ptr::null();
        (*file).open = std::ptr::null_mut();
        let app = app_of(vfs);
        guarded(abi::CANTOPEN, || {
            let kind = match flags {
                _ if name.is_null() => Kind::Temporary,
                f if f & abi::OPEN_MAIN_DB != 0 => Kind::Main,
                f if f & abi::OPEN_MAIN_JOURNAL != 0 => Kind::Journal,
                f if f & abi::OPEN_WAL != 0 => Kind::Wal,
                f if f & abi::OPEN_SUPER_JOURNAL != 0 => Kind::SuperJournal,
                _ => Kind::Temporary,
            };
            let is_main = kind == Kind::Main;
            let device = if is_main { device(&app.api, name) } else { Ok(None) };
            let device = match device {
                Ok(device) => device,
                Err(why) => return app.fail(&Failure::Uri(why), abi::CANTOPEN),
            };
            let companions: [super::api::OfName; 2] = [app.api.filename_journal, app.api.filename_wal];
            let request = Request {
                name: text(name),
                kind,
                create: flags & abi::OPEN_CREATE != 0 || kind == Kind::Temporary,
                told: device.as_ref().map(|device| tells_of(app.api, &device.name)),
                device,
                address: name.addr(),
                journals: companions.map(|of| if is_main { of(name).addr() } else { 0 }),
            };
            if !name.is_null() && request.name.is_none() {
                return abi::CANTOPEN;
            }
            match app.router.open(&request) {
                Ok(handle) => {
                    let process = std::process::id();
                    (*file).open = Box::into_raw(Box::new(Open { handle, app, process }));
                    (*file).methods = &raw const METHODS;
                    if !out_flags.is_null() {
                        *out_flags = flags;
                    }
                    abi::OK
                }
                Err(Failure::Missing) => abi::CANTOPEN,
                Err(failure) => app.fail(&failure, abi::CANTOPEN),
            }
        })
    }
}

/// Returns a listener that writes the progress of a mount to SQLite's error log, if the mount takes long.
fn tells_of(api: Api, name: &str) -> OnProgress {
    let (name, was_told) = (String::from(name), AtomicBool::new(false));
    Arc::new(move |progress: MountProgress| {
        let MountProgress { pages_read, chip_pages, is_done } = progress;
        let text = match is_done {
            false => {
                format!("{name}: mounting, {pages_read} page reads so far, the chip has {chip_pages} pages")
            }
            true if was_told.load(Ordering::Relaxed) => {
                format!("{name}: mounted after {pages_read} page reads")
            }
            true => return,
        };
        was_told.store(true, Ordering::Relaxed);
        api.tell(abi::NOTICE, &text);
    })
}

/// Keys of a URI that SQLite and its own VFS know, in addition to ours.
const KEYS_OF_SQLITE: [&str; 7] = ["vfs", "mode", "cache", "psow", "nolock", "immutable", "modeof"];

/// The device named by the parameters of a database's name, if any. Unknown keys and values are refused.
///
/// # Safety
///
/// As for [`Api::parameter`].
unsafe fn device(api: &Api, name: *const c_char) -> Result<Option<Device>, String> {
    // SAFETY: as the caller promises.
    let (keys, value) = unsafe { (api.keys(name), |key: &CStr| api.parameter(name, key)) };
    let Some(path) = value(c"device") else { return Ok(None) };
    let mut device = Device::new(path);
    for key in keys {
        let wrong = |why: &str| format!("{}: {key}={why}", device.name);
        let text = CString::new(key.as_str()).ok().and_then(|key| value(&key)).unwrap_or_default();
        match key.as_str() {
            "device" => {}
            "create" => device.create = flag(&text).ok_or_else(|| wrong(&format!("{text}: give 0 or 1")))?,
            "sync" => device.sync = flag(&text).ok_or_else(|| wrong(&format!("{text}: give 0 or 1")))?,
            "size" => {
                let why =
                    || wrong(&format!("{text}: give a number of bytes, with K, M or G behind it or not"));
                device.bytes = bytes(&text).ok_or_else(why)?;
                device.stated.bytes = Some(device.bytes);
            }
            "page_bytes" | "block_pages" => {
                let number: Option<u32> = text.parse().ok().filter(|number| *number > 0);
                let number = number.ok_or_else(|| wrong(&format!("{text}: give a number")))?;
                if key == "page_bytes" {
                    (device.page_bytes, device.stated.page_bytes) = (number, Some(number));
                } else {
                    (device.block_pages, device.stated.block_pages) = (number, Some(number));
                }
            }
            known if KEYS_OF_SQLITE.contains(&known) => {}
            _ => return Err(wrong(&format!("{text}: there is no such key"))),
        }
    }
    Ok(Some(device))
}

/// Parses yes or no.
fn flag(text: &str) -> Option<bool> {
    match text {
        "1" | "yes" | "on" | "true" => Some(true),
        "0" | "no" | "off" | "false" => Some(false),
        _ => None,
    }
}

/// A number of bytes, with K, M or G behind it or not.
fn bytes(text: &str) -> Option<u64> {
    let (number, factor) = match text.char_indices().last()? {
        (at, 'k' | 'K') => (&text[..at], 1 << 10),
        (at, 'm' | 'M') => (&text[..at], 1 << 20),
        (at, 'g' | 'G') => (&text[..at], 1 << 30),
        _ => (text, 1),
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// Deletes a file. SQLite asks for a sync of the folder if the deletion of a super-journal commits, and not
/// if it tidies up after a rollback.
unsafe extern "C" fn delete(vfs: *mut Vfs, name: *const c_char, sync_folder: c_int) -> c_int {
    // SAFETY: F1, F3.
    unsafe {
        let app = app_of(vfs);
        guarded(abi::IOERR_DELETE, || {
            let Some(text) = text(name) else { return abi::IOERR_DELETE_NOENT };
            match app.router.delete(text, name.addr(), sync_folder != 0) {
                Ok(()) => abi::OK,
                Err(Failure::Missing) => abi::IOERR_DELETE_NOENT,
                Err(failure) => app.fail(&failure, abi::IOERR_DELETE),
            }
        })
    }
}

unsafe extern "C" fn access(vfs: *mut Vfs, name: *const c_char, _flags: c_int, out: *mut c_int) -> c_int {
    // SAFETY: F1, F3; the result has a place.
    unsafe {
        let app = app_of(vfs);
        guarded(abi::IOERR_ACCESS, || {
            *out = c_int::from(text(name).is_some_and(|text| app.router.exists(text, name.addr())));
            abi::OK
        })
    }
}

/// Copies a name unchanged: a device has no folders.
unsafe extern "C" fn full_pathname(_: *mut Vfs, name: *const c_char, room: c_int, out: *mut c_char) -> c_int {
    // SAFETY: F3; the room is that of `out` (F4).
    unsafe {
        let bytes = CStr::from_ptr(name).to_bytes_with_nul();
        if usize::try_from(room).is_ok_and(|room| bytes.len() > room) {
            return abi::CANTOPEN;
        }
        out.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        abi::OK
    }
}

unsafe extern "C" fn randomness(vfs: *mut Vfs, bytes: c_int, out: *mut c_char) -> c_int {
    // SAFETY: F1, F4: the arguments are passed on as they are.
    unsafe {
        let base = app_of(vfs).base;
        ((*base).randomness)(base, bytes, out)
    }
}

unsafe extern "C" fn sleep(vfs: *mut Vfs, microseconds: c_int) -> c_int {
    // SAFETY: F1.
    unsafe {
        let base = app_of(vfs).base;
        ((*base).sleep)(base, microseconds)
    }
}

unsafe extern "C" fn current_time(vfs: *mut Vfs, out: *mut c_double) -> c_int {
    // SAFETY: F1, F4.
    unsafe {
        let base = app_of(vfs).base;
        ((*base).current_time)(base, out)
    }
}

/// Returns the current time as a Julian day number, in milliseconds.
unsafe extern "C" fn current_time_ms(vfs: *mut Vfs, out: *mut i64) -> c_int {
    // SAFETY: F1, F4; the field is there from version 2 on.
    unsafe {
        let base = app_of(vfs).base;
        if (*base).version >= 2
            && let Some(time) = (*base).current_time_ms
        {
            return time(base, out);
        }
        let mut days = 0.0;
        let code = ((*base).current_time)(base, &raw mut days);
        *out = (days * 86_400_000.0) as i64;
        code
    }
}

unsafe extern "C" fn last_error(vfs: *mut Vfs, room: c_int, out: *mut c_char) -> c_int {
    // SAFETY: F1; the room is that of `out` (F4).
    unsafe {
        let text = crate::router::locked(&app_of(vfs).last).clone();
        let room = usize::try_from(room).unwrap_or(0);
        if room > 0 && !out.is_null() {
            let bytes = text.len().min(room - 1);
            out.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), bytes);
            out.add(bytes).write(0);
        }
        abi::OK
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_units() {
        assert_eq!(bytes("4096"), Some(4096));
        assert_eq!(bytes("64M"), Some(64 << 20));
        assert_eq!(bytes("1g"), Some(1 << 30));
        for text in ["2 M", "", "banana", "-1", "1T", "17179869184G", "+", "M"] {
            assert_eq!(bytes(text), None, "{text}");
        }
    }
}

//! The calls on an open file.

use super::abi::{self, File, IoMethods};
use super::vfs::App;
use crate::locks::Level;
use crate::router::{Failure, Handle};
use nandex::StoreError;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;

/// State of an open file, to which SQLite's structure points.
pub(super) struct Open {
    pub(super) handle: Handle,
    pub(super) app: &'static App,
    /// Id of the process that opened the file.
    pub(super) process: u32,
}

/// The calls, for every open file.
pub(super) static METHODS: IoMethods = IoMethods {
    version: 1,
    close,
    read,
    write,
    truncate,
    sync,
    file_size,
    lock,
    unlock,
    check_reserved_lock,
    file_control,
    sector_size,
    device_characteristics,
};

/// Lets no panic cross the border.
pub(super) fn guarded(otherwise: c_int, work: impl FnOnce() -> c_int) -> c_int {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(otherwise)
}

/// SQLite's number for a failure.
pub(super) fn code_of(failure: &Failure, otherwise: c_int) -> c_int {
    match failure {
        Failure::Store(StoreError::Full | StoreError::WornOut) => abi::FULL,
        Failure::Store(StoreError::InUse(_)) => abi::BUSY,
        _ => otherwise,
    }
}

/// Calls `work` with an open file, or returns `otherwise` if it is not open.
///
/// # Safety
///
/// The file was opened by this VFS and is used by this call alone (F2).
unsafe fn with(
    file: *mut File,
    otherwise: c_int,
    work: impl FnOnce(&mut Handle, &App) -> Result<c_int, Failure>,
) -> c_int {
    // SAFETY: as the caller promises.
    let Some(open) = (unsafe { (*file).open.as_mut() }) else { return otherwise };
    guarded(otherwise, || {
        if open.process != std::process::id() {
            return open.app.fail(&Failure::Inherited(open.process), otherwise);
        }
        work(&mut open.handle, open.app).unwrap_or_else(|failure| open.app.fail(&failure, otherwise))
    })
}

unsafe extern "C" fn close(file: *mut File) -> c_int {
    // SAFETY: F2: the box was made by `open` and is taken once.
    unsafe {
        let open = std::mem::replace(&mut (*file).open, std::ptr::null_mut());
        (*file).methods = std::ptr::null();
        if open.is_null() {
            return abi::OK;
        }
        let Open { handle, app, process } = *Box::from_raw(open);
        if process != std::process::id() {
            // It is its owner's: nothing is written, nothing unlocked.
            drop(handle);
            return abi::OK;
        }
        guarded(abi::IOERR_CLOSE, || match app.router.close(handle) {
            Ok(()) => abi::OK,
            Err(failure) => app.fail(&failure, abi::IOERR_CLOSE),
        })
    }
}

unsafe extern "C" fn read(file: *mut File, data: *mut c_void, bytes: c_int, offset: i64) -> c_int {
    // SAFETY: F2, F4: the buffer has so many bytes.
    unsafe {
        let (Ok(bytes), Ok(offset)) = (usize::try_from(bytes), u64::try_from(offset)) else {
            return abi::IOERR_READ;
        };
        data.cast::<u8>().write_bytes(0, bytes);
        let data = slice::from_raw_parts_mut(data.cast::<u8>(), bytes);
        with(file, abi::IOERR_READ, |handle, _| {
            let there = handle.read(offset, data)?;
            Ok(if there < data.len() { abi::IOERR_SHORT_READ } else { abi::OK })
        })
    }
}

unsafe extern "C" fn write(file: *mut File, data: *const c_void, bytes: c_int, offset: i64) -> c_int {
    // SAFETY: F2, F4: the buffer has so many bytes.
    unsafe {
        let (Ok(bytes), Ok(offset)) = (usize::try_from(bytes), u64::try_from(offset)) else {
            return abi::IOERR_WRITE;
        };
        let data = slice::from_raw_parts(data.cast::<u8>(), bytes);
        with(file, abi::IOERR_WRITE, |handle, _| handle.write(offset, data).map(|()| abi::OK))
    }
}

unsafe extern "C" fn truncate(file: *mut File, size: i64) -> c_int {
    let Ok(size) = u64::try_from(size) else { return abi::IOERR_TRUNCATE };
    // SAFETY: F2.
    unsafe { with(file, abi::IOERR_TRUNCATE, |handle, _| handle.truncate(size).map(|()| abi::OK)) }
}

unsafe extern "C" fn sync(file: *mut File, _flags: c_int) -> c_int {
    // SAFETY: F2.
    unsafe { with(file, abi::IOERR_FSYNC, |handle, _| handle.sync().map(|()| abi::OK)) }
}

unsafe extern "C" fn file_size(file: *mut File, out: *mut i64) -> c_int {
    // SAFETY: F2, F4.
    unsafe {
        with(file, abi::IOERR_FSTAT, |handle, _| {
            *out = i64::try_from(handle.size()).unwrap_or(i64::MAX);
            Ok(abi::OK)
        })
    }
}

unsafe extern "C" fn lock(file: *mut File, level: c_int) -> c_int {
    // SAFETY: F2.
    unsafe {
        with(file, abi::IOERR_LOCK, |handle, app| {
            app.router.arrive(handle)?;
            Ok(if handle.lock(Level::from_number(level)) { abi::OK } else { abi::BUSY })
        })
    }
}

unsafe extern "C" fn unlock(file: *mut File, level: c_int) -> c_int {
    // SAFETY: F2.
    unsafe {
        with(file, abi::IOERR_UNLOCK, |handle, _| {
            handle.unlock(Level::from_number(level));
            Ok(abi::OK)
        })
    }
}

unsafe extern "C" fn check_reserved_lock(file: *mut File, out: *mut c_int) -> c_int {
    // SAFETY: F2, F4.
    unsafe {
        with(file, abi::IOERR_CHECKRESERVED, |handle, _| {
            *out = c_int::from(handle.is_reserved());
            Ok(abi::OK)
        })
    }
}

unsafe extern "C" fn file_control(file: *mut File, what: c_int, argument: *mut c_void) -> c_int {
    // SAFETY: F2; the argument is what the control says: for a sync a string or null, for a pragma an array
    // of strings.
    unsafe {
        match what {
            abi::FCNTL_BEGIN_ATOMIC_WRITE => with(file, abi::ERROR, |handle, _| {
                handle.begin_batch();
                Ok(abi::OK)
            }),
            // The same as a sync: a store that refuses the batch refuses it without one, too, unless it is
            // too full for both.
            abi::FCNTL_COMMIT_ATOMIC_WRITE => {
                with(file, abi::IOERR_COMMIT_ATOMIC, |handle, _| handle.sync().map(|()| abi::OK))
            }
            abi::FCNTL_ROLLBACK_ATOMIC_WRITE => {
                with(file, abi::IOERR_ROLLBACK_ATOMIC, |handle, _| handle.roll_back_batch().map(|()| abi::OK))
            }
            abi::FCNTL_SYNC => with(file, abi::IOERR_FSYNC, |handle, app| {
                let name = argument.cast::<c_char>();
                let name = if name.is_null() { None } else { CStr::from_ptr(name).to_str().ok() };
                handle.begin_sync(&app.router, name).map(|()| abi::OK)
            }),
            abi::FCNTL_PRAGMA => with(file, abi::ERROR, |handle, app| {
                let words = argument.cast::<*mut c_char>();
                let name = CStr::from_ptr(*words.add(1)).to_string_lossy().to_ascii_lowercase();
                let value = *words.add(2);
                let value = if value.is_null() { None } else { CStr::from_ptr(value).to_str().ok() };
                if name.starts_with("nandex_") {
                    app.router.arrive(handle)?;
                }
                let (code, text) = pragma(handle, app, &name, value);
                if code != abi::NOTFOUND {
                    *words = app.api.string(&text);
                }
                Ok(code)
            }),
            _ => abi::NOTFOUND,
        }
    }
}

/// Answers a pragma. Returns the result code, and the answer or a message.
fn pragma(handle: &mut Handle, app: &App, name: &str, value: Option<&str>) -> (c_int, String) {
    match (name, value) {
        ("nandex_stats", _) => (abi::OK, about(handle, app)),
        ("nandex_files", _) => (abi::OK, handle.names().join("\n")),
        ("nandex_remove", Some(file)) => match handle.remove(file) {
            Ok(true) => (abi::OK, String::from("removed")),
            Ok(false) => (abi::ERROR, format!("there is no {file}")),
            Err(failure) => (abi::ERROR, failure.to_string()),
        },
        ("nandex_remove", None) => (abi::ERROR, String::from("PRAGMA nandex_remove='NAME'")),
        _ => (abi::NOTFOUND, String::new()),
    }
}

/// The text of `PRAGMA nandex_stats`.
fn about(handle: &mut Handle, app: &App) -> String {
    let batches = match (handle.has_batches(), app.api.has_batches()) {
        (true, true) => "yes",
        (true, false) => {
            "no (SQLite was built without SQLITE_ENABLE_BATCH_ATOMIC_WRITE; each sync is a group)"
        }
        (false, _) => "no (switched off; each sync is a group)",
    };
    let page_bytes = handle.page_bytes();
    format!("batch_atomic {batches}\nbest_page_size {page_bytes}\n{}", handle.stats())
}

unsafe extern "C" fn sector_size(file: *mut File) -> c_int {
    // SAFETY: F2.
    unsafe { with(file, 4096, |handle, _| Ok(c_int::try_from(handle.page_bytes()).unwrap_or(4096))) }
}

unsafe extern "C" fn device_characteristics(file: *mut File) -> c_int {
    let always = abi::IOCAP_SAFE_APPEND | abi::IOCAP_POWERSAFE_OVERWRITE;
    // SAFETY: F2.
    unsafe {
        with(file, always, |handle, _| {
            Ok(if handle.has_batches() { always | abi::IOCAP_BATCH_ATOMIC } else { always })
        })
    }
}

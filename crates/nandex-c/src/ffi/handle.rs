//! Handles: what a C caller holds, and how every call gets at it.

use super::chip::CallbackChip;
use super::codes::{NANDEX_ERR_BUSY, NANDEX_ERR_HANDLE, NANDEX_ERR_NULL, NANDEX_ERR_PANIC};
use crate::state::{Answer, State};
use core::cell::{Cell, RefCell};

/// The index behind a handle.
pub(super) type CState = State<CallbackChip>;

const LIVE: u32 = 0x4e64_7831;
const FREED: u32 = 0xdead_4e64;

/// An index on its chip. One thread at a time may use it; which one does not matter.
pub struct nandex_index {
    magic: Cell<u32>,
    /// Whether a call panicked half-way.
    broken: Cell<bool>,
    /// Cursors that point here.
    pub(super) cursors: Cell<u32>,
    state: RefCell<CState>,
}

impl nandex_index {
    /// A handle around a state.
    pub(super) const fn new(state: CState) -> nandex_index {
        nandex_index {
            magic: Cell::new(LIVE),
            broken: Cell::new(false),
            cursors: Cell::new(0),
            state: RefCell::new(state),
        }
    }

    /// Marks it freed, if nothing uses it.
    pub(super) fn retire(&self) -> Result<(), i32> {
        if self.cursors.get() > 0 || self.state.try_borrow_mut().is_err() {
            return Err(NANDEX_ERR_BUSY);
        }
        self.magic.set(FREED);
        Ok(())
    }

    /// Where the words of its last failure begin; None while a call runs.
    pub(super) fn message(&self) -> Option<*const core::ffi::c_char> {
        Some(self.state.try_borrow().ok()?.message.bytes().as_ptr().cast())
    }
}

/// The handle at a pointer, if it is one.
///
/// # Safety
///
/// The pointer is null, or points to a handle that `nandex_free` has not freed or to memory that can be read.
pub(super) unsafe fn handle<'a>(at: *const nandex_index) -> Result<&'a nandex_index, i32> {
    if at.is_null() {
        return Err(NANDEX_ERR_NULL);
    }
    if !at.is_aligned() {
        return Err(NANDEX_ERR_HANDLE);
    }
    // SAFETY: the caller's promise; what is no handle has another number in this place.
    let handle = unsafe { &*at };
    if handle.magic.get() == LIVE { Ok(handle) } else { Err(NANDEX_ERR_HANDLE) }
}

/// Runs a call on what is behind a handle: one at a time, with failures noted.
pub(super) fn run(handle: &nandex_index, work: impl FnOnce(&mut CState) -> Answer) -> i32 {
    if handle.broken.get() {
        return NANDEX_ERR_PANIC;
    }
    let Ok(mut state) = handle.state.try_borrow_mut() else { return NANDEX_ERR_BUSY };
    match caught(|| work(&mut state)) {
        Some(Ok(code)) => code,
        Some(Err(failure)) => {
            state.message.set(&failure);
            failure.code()
        }
        None => {
            handle.broken.set(true);
            state.message.set("a fault of the library was caught; free this handle");
            NANDEX_ERR_PANIC
        }
    }
}

/// Runs work on the index behind a pointer.
///
/// # Safety
///
/// As for [`handle`].
pub(super) unsafe fn with(at: *const nandex_index, work: impl FnOnce(&mut CState) -> Answer) -> i32 {
    // SAFETY: the caller's promise.
    match unsafe { handle(at) } {
        Ok(handle) => run(handle, work),
        Err(code) => code,
    }
}

/// The answer of the work; None if it panicked.
#[cfg(feature = "std")]
pub(super) fn caught<T>(work: impl FnOnce() -> T) -> Option<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).ok()
}

/// The answer of the work: without a system a panic does not come back.
#[cfg(not(feature = "std"))]
pub(super) fn caught<T>(work: impl FnOnce() -> T) -> Option<T> {
    Some(work())
}

//! Handles: the pointers that a C caller holds, and the checks when a call uses one.

use super::chip::CallbackChip;
use super::codes::{NANDEX_ERR_BUSY, NANDEX_ERR_HANDLE, NANDEX_ERR_NULL, NANDEX_ERR_PANIC};
use crate::error::Message;
use crate::state::{Answer, State};
use core::cell::{Cell, RefCell};

/// The index behind a handle.
pub(super) type CState = State<CallbackChip>;

const LIVE: u32 = 0x4e64_7831;
const FREED: u32 = 0xdead_4e64;

/// A state that has words for its last failure.
pub(super) trait Worded {
    /// Message of the last failure.
    fn message(&mut self) -> &mut Message;
}

impl Worded for CState {
    fn message(&mut self) -> &mut Message {
        &mut self.message
    }
}

/// A state that one call at a time may use. The number at its beginning tells the handles of a type from
/// everything else.
pub(super) struct Guard<S, const KIND: u32> {
    magic: Cell<u32>,
    /// Whether a call panicked half-way.
    broken: Cell<bool>,
    /// Id of the process that made the handle.
    #[cfg(feature = "std")]
    process: u32,
    state: RefCell<S>,
}

impl<S: Worded, const KIND: u32> Guard<S, KIND> {
    pub(super) fn new(state: S) -> Guard<S, KIND> {
        Guard {
            magic: Cell::new(LIVE ^ KIND),
            broken: Cell::new(false),
            #[cfg(feature = "std")]
            process: std::process::id(),
            state: RefCell::new(state),
        }
    }

    /// True if this process is a child, by `fork`, of the one that made the handle. The chip is the parent's.
    fn is_inherited(&self) -> bool {
        #[cfg(feature = "std")]
        return self.process != std::process::id();
        #[cfg(not(feature = "std"))]
        return false;
    }

    /// Whether this is such a state, and not freed.
    pub(super) fn is_live(&self) -> bool {
        self.magic.get() == LIVE ^ KIND
    }

    /// Marks the handle as freed. Fails if a call is using it.
    pub(super) fn retire(&self) -> Result<(), i32> {
        if self.state.try_borrow_mut().is_err() {
            return Err(NANDEX_ERR_BUSY);
        }
        self.magic.set(FREED);
        Ok(())
    }

    /// Where the words of its last failure begin; None while a call runs.
    pub(super) fn words(&self) -> Option<*const core::ffi::c_char> {
        Some(self.state.try_borrow_mut().ok()?.message().bytes().as_ptr().cast())
    }

    /// Runs a call: one at a time, with failures noted.
    pub(super) fn run(&self, work: impl FnOnce(&mut S) -> Answer) -> i32 {
        if self.broken.get() {
            return NANDEX_ERR_PANIC;
        }
        let Ok(mut state) = self.state.try_borrow_mut() else { return NANDEX_ERR_BUSY };
        if self.is_inherited() {
            state
                .message()
                .set("another process made this handle, before a fork: free it, and open the chip anew");
            return NANDEX_ERR_BUSY;
        }
        match caught(|| work(&mut state)) {
            Some(Ok(code)) => code,
            Some(Err(failure)) => {
                state.message().set(&failure);
                failure.code()
            }
            None => {
                self.broken.set(true);
                state.message().set("a fault of the library was caught; free this handle");
                NANDEX_ERR_PANIC
            }
        }
    }
}

/// An index on its chip. One thread at a time may use it; which one does not matter.
pub struct nandex_index {
    guard: Guard<CState, 0>,
    /// Cursors that point here.
    pub(super) cursors: Cell<u32>,
}

impl nandex_index {
    /// A handle around a state.
    pub(super) fn new(state: CState) -> nandex_index {
        nandex_index { guard: Guard::new(state), cursors: Cell::new(0) }
    }

    /// Marks the handle as freed. Fails if a call or a cursor is using it.
    pub(super) fn retire(&self) -> Result<(), i32> {
        if self.cursors.get() > 0 { Err(NANDEX_ERR_BUSY) } else { self.guard.retire() }
    }

    /// Where the words of its last failure begin; None while a call runs.
    pub(super) fn message(&self) -> Option<*const core::ffi::c_char> {
        self.guard.words()
    }
}

/// The handle at a pointer, if it is one.
///
/// # Safety
///
/// The pointer is null, or points to a handle that `nandex_free` has not freed or to memory that can be read.
pub(super) unsafe fn handle<'a>(at: *const nandex_index) -> Result<&'a nandex_index, i32> {
    // SAFETY: the caller's promise.
    unsafe { live(at, |index: &nandex_index| index.guard.is_live()) }
}

/// The handle at a pointer, if it is a live one of this type.
///
/// # Safety
///
/// The pointer is null, or points to such a handle or to readable memory of its size.
pub(super) unsafe fn live<'a, H>(at: *const H, is_live: impl FnOnce(&H) -> bool) -> Result<&'a H, i32> {
    if at.is_null() {
        return Err(NANDEX_ERR_NULL);
    }
    if !at.is_aligned() {
        return Err(NANDEX_ERR_HANDLE);
    }
    // SAFETY: the caller's promise; what is no handle has another number in this place.
    let handle = unsafe { &*at };
    if is_live(handle) { Ok(handle) } else { Err(NANDEX_ERR_HANDLE) }
}

/// Runs one call on an index and notes its failure.
pub(super) fn run(handle: &nandex_index, work: impl FnOnce(&mut CState) -> Answer) -> i32 {
    handle.guard.run(work)
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

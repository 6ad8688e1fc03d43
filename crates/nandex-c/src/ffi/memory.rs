//! Memory and panics of firmware: an arena or an allocator that the caller hands over, and a hook.
//!
//! With the feature `std` the system does both, and the functions here answer `NANDEX_ERR_UNSUPPORTED`.

use super::types::{nandex_allocator, nandex_memory};
use core::ffi::{c_char, c_void};

/// Called when the library finds a fault of its own, or no memory is left, in a build without an operating
/// system: `message` says what, and where. It must not return, and not call the library; a reset is the usual
/// end.
pub type nandex_panic_hook = Option<unsafe extern "C" fn(context: *mut c_void, message: *const c_char)>;

#[cfg(all(feature = "firmware", not(feature = "std")))]
use crate::ffi::heap as kind;

/// Every memory function of a build that has the system's.
#[cfg(not(all(feature = "firmware", not(feature = "std"))))]
mod kind {
    use super::{c_void, nandex_allocator, nandex_memory, nandex_panic_hook};
    use crate::ffi::codes::NANDEX_ERR_UNSUPPORTED;

    pub(super) unsafe fn arena(_: *mut c_void, _: usize) -> i32 {
        NANDEX_ERR_UNSUPPORTED
    }
    pub(super) unsafe fn allocator(_: *const nandex_allocator) -> i32 {
        NANDEX_ERR_UNSUPPORTED
    }
    pub(super) unsafe fn figures(_: *mut nandex_memory) -> i32 {
        NANDEX_ERR_UNSUPPORTED
    }
    pub(super) unsafe fn on_panic(_: nandex_panic_hook, _: *mut c_void) -> i32 {
        NANDEX_ERR_UNSUPPORTED
    }
}

/// Gives the library its memory, before anything else: a block of the caller's that is its own from now on.
/// Nothing is taken from elsewhere. NANDEX_ERR_MEMORY if it is smaller than 1,024 bytes, or if memory handed
/// over before is in use.
///
/// # Safety
///
/// `memory` points to so many bytes, which nothing else uses while the library does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandex_use_arena(memory: *mut c_void, bytes: usize) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { kind::arena(memory, bytes) }
}

/// Lets the library take its memory from an allocator, in place of an arena. NANDEX_ERR_MEMORY if memory
/// handed over before is in use.
///
/// # Safety
///
/// `allocator` is null or points to what its type says; its functions do what they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandex_use_allocator(allocator: *const nandex_allocator) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { kind::allocator(allocator) }
}

/// Writes how much memory is in use to `*memory`, whose `struct_bytes` the caller set.
///
/// # Safety
///
/// `memory` is null or points to what its type says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandex_get_memory(memory: *mut nandex_memory) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { kind::figures(memory) }
}

/// Sets what is called when the library cannot go on; null for an endless loop, the default.
///
/// # Safety
///
/// `hook` is null or a function that does what its type says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandex_on_panic(hook: nandex_panic_hook, context: *mut c_void) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { kind::on_panic(hook, context) }
}

//! Pointers of C as values, structs and slices of Rust.

use super::codes::{NANDEX_ERR_NULL, NANDEX_ERR_STRUCT};
use core::mem::MaybeUninit;
use core::{ptr, slice};

/// A struct of C whose first field is its size as the caller knows it.
///
/// # Safety
///
/// The first field is `struct_bytes: usize`, and all bytes zero are a value.
pub(super) unsafe trait Versioned: Copy {
    /// Bytes of the first version of the struct.
    const BYTES_FIRST: usize;
}

// SAFETY: each begins with `struct_bytes`; numbers, raw pointers and functions that may be missing can be
// zero.
unsafe impl Versioned for super::types::nandex_chip {
    const BYTES_FIRST: usize = size_of::<Self>();
}
// SAFETY: as above.
unsafe impl Versioned for super::types::nandex_config {
    const BYTES_FIRST: usize = size_of::<Self>();
}
// SAFETY: as above.
unsafe impl Versioned for super::types::nandex_map_config {
    const BYTES_FIRST: usize = size_of::<Self>();
}
// SAFETY: as above.
unsafe impl Versioned for super::types::nandex_stats {
    const BYTES_FIRST: usize = size_of::<Self>();
}
// SAFETY: as above.
unsafe impl Versioned for super::types::nandex_report {
    const BYTES_FIRST: usize = size_of::<Self>();
}
// SAFETY: as above.
unsafe impl Versioned for super::types::nandex_allocator {
    const BYTES_FIRST: usize = size_of::<Self>();
}
// SAFETY: as above.
unsafe impl Versioned for super::types::nandex_memory {
    const BYTES_FIRST: usize = size_of::<Self>();
}

/// Bytes that a struct may have: those of a caller who knows far more fields are an error rather.
const BYTES_MOST: usize = 4096;

/// The size that the struct says it has.
///
/// # Safety
///
/// `from` is null or points to a struct that begins with its size.
unsafe fn said_bytes<T: Versioned>(from: *const T) -> Result<usize, i32> {
    if from.is_null() {
        return Err(NANDEX_ERR_NULL);
    }
    // SAFETY: not null, and the first field is there in every version.
    let said = unsafe { from.cast::<usize>().read_unaligned() };
    if (T::BYTES_FIRST..=BYTES_MOST).contains(&said) { Ok(said) } else { Err(NANDEX_ERR_STRUCT) }
}

/// Copies a struct of the caller. Fields that the caller's version lacks are zero. Fields that our version
/// lacks must be zero, or the struct is refused.
///
/// # Safety
///
/// `from` is null or points to as many bytes as its first field says.
pub(super) unsafe fn read_struct<T: Versioned>(from: *const T) -> Result<T, i32> {
    // SAFETY: the caller's promise.
    let said = unsafe { said_bytes(from)? };
    let known = said.min(size_of::<T>());
    // SAFETY: `said` bytes are readable.
    let beyond = unsafe { slice::from_raw_parts(from.cast::<u8>().add(known), said - known) };
    if beyond.iter().any(|byte| *byte != 0) {
        return Err(NANDEX_ERR_STRUCT);
    }
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: `known` bytes are readable there and fit here; zeros are a value, and so are a caller's bytes.
    unsafe {
        ptr::copy_nonoverlapping(from.cast::<u8>(), value.as_mut_ptr().cast::<u8>(), known);
        Ok(value.assume_init())
    }
}

/// Writes as much of the struct as the caller's version has, but for its size.
///
/// # Safety
///
/// `to` is null or points to as many writable bytes as its first field says.
pub(super) unsafe fn write_struct<T: Versioned>(to: *mut T, value: &T) -> Result<(), i32> {
    // SAFETY: the caller's promise.
    let said = unsafe { said_bytes(to)? };
    let first = size_of::<usize>();
    let fields = said.min(size_of::<T>()) - first;
    // SAFETY: `said` bytes are writable; `value` is another place.
    unsafe {
        let from = ptr::from_ref(value).cast::<u8>().add(first);
        ptr::copy_nonoverlapping(from, to.cast::<u8>().add(first), fields);
    }
    Ok(())
}

/// The `count` bytes at a pointer, which may be null if `count` is 0.
///
/// # Safety
///
/// `count` bytes are readable there, and do not change while the slice lives.
pub(super) unsafe fn bytes<'a>(at: *const u8, count: usize) -> Result<&'a [u8], i32> {
    match (at.is_null(), count) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(NANDEX_ERR_NULL),
        // SAFETY: the caller's promise.
        (false, _) => Ok(unsafe { slice::from_raw_parts(at, count) }),
    }
}

/// The `count` writable bytes at a pointer, which may be null if `count` is 0.
///
/// # Safety
///
/// `count` bytes are writable there, and nothing else uses them while the slice lives.
pub(super) unsafe fn bytes_mut<'a>(at: *mut u8, count: usize) -> Result<&'a mut [u8], i32> {
    match (at.is_null(), count) {
        (_, 0) => Ok(&mut []),
        (true, _) => Err(NANDEX_ERR_NULL),
        // SAFETY: the caller's promise.
        (false, _) => Ok(unsafe { slice::from_raw_parts_mut(at, count) }),
    }
}

//! Cursors: places in an index.

use super::codes::{NANDEX_ERR_BUSY, NANDEX_ERR_HANDLE, NANDEX_ERR_NULL, NANDEX_OK};
use super::handle::{CState, handle, nandex_index, run};
use super::pointers::{bytes, bytes_mut};
use crate::cursor::Cursor;
use crate::error::Failure;
use crate::state::Answer;
use alloc::boxed::Box;
use core::cell::{Cell, RefCell};
use core::ptr;
use nandex::ordered::Direction;

const LIVE: u32 = 0x4e64_7843;
const FREED: u32 = 0xdead_4e43;

/// A place in an index. It belongs to the handle it was made from and follows its thread rule.
pub struct nandex_cursor {
    magic: Cell<u32>,
    index: *const nandex_index,
    cursor: RefCell<Cursor>,
}

/// The cursor at a pointer, if it is one.
///
/// # Safety
///
/// The pointer is null, or points to a cursor that was not freed or to memory that can be read.
unsafe fn cursor<'a>(at: *const nandex_cursor) -> Result<&'a nandex_cursor, i32> {
    if at.is_null() {
        return Err(NANDEX_ERR_NULL);
    }
    if !at.is_aligned() {
        return Err(NANDEX_ERR_HANDLE);
    }
    // SAFETY: the caller's promise; what is no cursor has another number in this place.
    let cursor = unsafe { &*at };
    if cursor.magic.get() == LIVE { Ok(cursor) } else { Err(NANDEX_ERR_HANDLE) }
}

/// Runs a call on a cursor and its index.
///
/// # Safety
///
/// As for [`cursor`].
unsafe fn with(at: *const nandex_cursor, work: impl FnOnce(&mut Cursor, &mut CState) -> Answer) -> i32 {
    // SAFETY: the caller's promise; a handle is not freed while it has cursors.
    let found = unsafe { cursor(at).and_then(|cursor| Ok((cursor, handle(cursor.index)?))) };
    let (cursor, index) = match found {
        Ok(found) => found,
        Err(code) => return code,
    };
    let Ok(mut cursor) = cursor.cursor.try_borrow_mut() else { return NANDEX_ERR_BUSY };
    run(index, |state| work(&mut cursor, state))
}

/// Makes a cursor that stands on no record: `nandex_cursor_next` goes to the first one, `nandex_cursor_prev`
/// to the last.
///
/// # Safety
///
/// `index` is null or a handle, `made` null or a place for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandex_cursor_new(index: *mut nandex_index, made: *mut *mut nandex_cursor) -> i32 {
    if made.is_null() {
        return NANDEX_ERR_NULL;
    }
    // SAFETY: not null; the caller's promise.
    let found = unsafe {
        *made = ptr::null_mut();
        handle(index)
    };
    let handle = match found {
        Ok(handle) => handle,
        Err(code) => return code,
    };
    handle.cursors.set(handle.cursors.get() + 1);
    let cursor = nandex_cursor { magic: Cell::new(LIVE), index, cursor: RefCell::new(Cursor::new()) };
    // SAFETY: not null.
    unsafe { *made = Box::into_raw(Box::new(cursor)) };
    NANDEX_OK
}

/// Frees a cursor. Null is ignored.
///
/// # Safety
///
/// `at` is null or a cursor, and not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandex_cursor_free(at: *mut nandex_cursor) -> i32 {
    if at.is_null() {
        return NANDEX_OK;
    }
    // SAFETY: the caller's promise.
    match unsafe { cursor(at) } {
        Ok(cursor) => cursor.magic.set(FREED),
        Err(code) => return code,
    }
    // SAFETY: a live cursor until now, which `nandex_cursor_new` took from a box; its handle is there still.
    unsafe {
        let owned = Box::from_raw(at);
        if let Ok(handle) = handle(owned.index) {
            handle.cursors.set(handle.cursors.get() - 1);
        }
    }
    NANDEX_OK
}

/// Goes to the record with this key or, where it is not there, the next greater one. NANDEX_NOT_FOUND, and
/// the cursor stays, if there is none.
///
/// # Safety
///
/// `at` is null or a cursor, `key` null or as many bytes as is said.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandex_cursor_seek(at: *mut nandex_cursor, key: *const u8, key_bytes: usize) -> i32 {
    // SAFETY: the caller's promise.
    match unsafe { bytes(key, key_bytes) } {
        // SAFETY: the caller's promise.
        Ok(key) => unsafe { with(at, |cursor, state| cursor.seek(state, key)) },
        Err(code) => code,
    }
}

/// Goes to the next greater record, whatever was inserted or removed since; from nowhere to the first one.
/// NANDEX_NOT_FOUND, and the cursor stays, if there is none.
///
/// # Safety
///
/// `at` is null or a cursor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandex_cursor_next(at: *mut nandex_cursor) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { with(at, |cursor, state| cursor.step(state, Direction::Ascending)) }
}

/// Goes to the next smaller record; from nowhere to the last one. NANDEX_NOT_FOUND, and the cursor stays, if
/// there is none.
///
/// # Safety
///
/// `at` is null or a cursor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandex_cursor_prev(at: *mut nandex_cursor) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { with(at, |cursor, state| cursor.step(state, Direction::Descending)) }
}

/// Copies the record that the cursor stands on, as it was when the cursor fetched it (a few records at a
/// time). A null pointer with length 0 skips that part. NANDEX_NOT_FOUND if it stands on none.
///
/// # Safety
///
/// `at` is null or a cursor, the other pointers null or as many writable bytes as is said.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandex_cursor_get(
    at: *mut nandex_cursor,
    key: *mut u8,
    key_bytes: usize,
    value: *mut u8,
    value_bytes: usize,
) -> i32 {
    // SAFETY: the caller's promise.
    let (key, value) = unsafe {
        match (bytes_mut(key, key_bytes), bytes_mut(value, value_bytes)) {
            (Ok(key), Ok(value)) => (key, value),
            _ => return NANDEX_ERR_NULL,
        }
    };
    let copy = |from: &[u8], to: &mut [u8]| -> Result<(), Failure> {
        if to.is_empty() {
            return Ok(());
        }
        let wrong =
            Failure::Code(super::codes::NANDEX_ERR_LENGTH, c"the buffer has not the length of the part");
        if to.len() != from.len() {
            return Err(wrong);
        }
        to.copy_from_slice(from);
        Ok(())
    };
    let work = |cursor: &mut Cursor, state: &mut CState| {
        let (found_key, found_value) = cursor.record(state)?;
        copy(found_key, key)?;
        copy(found_value, value)?;
        Ok(NANDEX_OK)
    };
    // SAFETY: the caller's promise.
    unsafe { with(at, work) }
}

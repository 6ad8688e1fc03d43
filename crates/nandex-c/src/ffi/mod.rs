//! The border to C: what `include/nandex.h` declares. All that is unsafe in this crate is here.
//!
//! A pointer of the caller is read as the header says it must be: null is answered with `NANDEX_ERR_NULL`,
//! what cannot be seen (a length that is wrong, a pointer to nothing) is the caller's promise. A handle is
//! behind a [`RefCell`](core::cell::RefCell), so that a call within a callback of another one answers
//! `NANDEX_ERR_BUSY`.
#![allow(unsafe_code, reason = "C hands over pointers")]
#![allow(non_camel_case_types, reason = "the names are C's")]

pub mod chip;
pub mod codes;
pub mod cursor;
mod handle;
#[cfg(any(test, all(feature = "firmware", not(feature = "std"))))]
mod heap;
pub mod index;
#[cfg(feature = "r-tree")]
pub mod map;
pub mod memory;
mod pointers;
pub mod types;

//! The border to C: the declarations of `include/nandex.h`. All unsafe code of the crate is here.
//!
//! A pointer of the caller is read as the header says. Null is answered with `NANDEX_ERR_NULL`. Correct
//! lengths and valid pointers are the caller's promise. A handle contains a [`RefCell`](core::cell::RefCell),
//! so that a call within a callback of another call answers `NANDEX_ERR_BUSY`.
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

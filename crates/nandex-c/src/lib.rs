//! Nandex for firmware in C and C++: the interface that `include/nandex.h` declares.
//!
//! Rust programs use the crate `nandex` itself. The functions here take C's pointers, so all that is unsafe
//! is one module, [`ffi`]; everything that needs no pointer stands beside it and is tested in Rust.
#![no_std]

extern crate alloc;
#[cfg(any(feature = "std", test))]
extern crate std;

mod config;
mod cursor;
mod error;
pub mod ffi;
#[cfg(any(feature = "bplus", feature = "bplus-dftl"))]
mod gather;
#[cfg(feature = "r-tree")]
mod map;
#[cfg(any(feature = "bplus", feature = "bplus-dftl"))]
mod on_store;
mod open;
mod state;

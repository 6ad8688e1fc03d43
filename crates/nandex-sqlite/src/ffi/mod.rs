//! The border to SQLite, and the only unsafe code: SQLite's structures, its functions, and our functions that
//! it calls.
//!
//! The code relies on these promises of SQLite:
//! - F1: a VFS, its name and its data stay where they are until it is unregistered and no database is open.
//!   They are never freed.
//! - F2: `xOpen` gets a block of `szOsFile` bytes, zeroed or not. The other calls on the file get the same
//!   block, one call at a time, until `xClose`. The block holds a pointer to the methods and one to a
//!   [`Handle`](crate::router::Handle) and its VFS on the heap; the methods are null if `xOpen` failed.
//! - F3: strings end with a zero and live as long as the call. Names of databases and journals live as long
//!   as the database is open.
//! - F4: buffers have the length that is passed, and nobody else uses them during the call.
//! - F5: the table that an extension gets has at least the functions of the version that it tells.
//!
//! No panic crosses the border: it becomes an I/O error.

mod abi;
mod api;
mod extension;
mod file;
mod routines;
mod vfs;
mod words;

pub use routines::Routines;
pub(crate) use vfs::Registered;

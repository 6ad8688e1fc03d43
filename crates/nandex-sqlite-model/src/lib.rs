//! Random SQL on a volume and on an ordinary database in memory of the same SQLite: tables, indexes,
//! triggers, savepoints, FTS5, JSON, a second database, backups, VACUUM, every journal mode, pages of 512 to
//! 65,536 bytes, volumes 20 to 100 % full, refusals, power cuts. After each transaction, refusal and mount
//! all contents are compared.
//!
//! A [`Way`] leads to a SQLite: linked in, in a shared library, or in another program that loads the
//! extension. [`Sqlite`] is a client of the first two, for other tests, too.
#![deny(missing_docs)]
#![cfg(unix)]

mod campaign;
mod counts;
mod draw;
mod engine;
mod in_process;
mod life;
mod process;
mod serve;
#[allow(unsafe_code)]
mod sqlite;

pub use campaign::{Finding, Way};
pub use counts::Counts;
pub use engine::No;
pub use process::{Process, Program};
pub use serve::serve;
pub use sqlite::{Database, Refusal, Sqlite};

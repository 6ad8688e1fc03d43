//! Tests that have a process to themselves, one at a time. One of them forks: no other thread may be in
//! SQLite then, whose locks the child would inherit. In `beside` the SQLite that is linked in is the first
//! of the process that gets a volume by its table, and a failure of any VFS is told in all connections.

mod beside;
mod owners;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The turn of a test.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

//! Tests that need a process of their own, run one at a time. One of them forks: no other thread may be in
//! SQLite then, because the child would inherit its locks. In `beside`, the linked SQLite must be the first
//! of the process that gets a volume by its table.

mod beside;
mod owners;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The turn of a test.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

//! What a structure on a journaled store tells the journal of the updates that it holds back.
//!
//! The journal's last page waits in RAM, and must be on the medium before a write that shows one of its updates. A structure
//! that says which updates its writes show is not made to wait for others.

use core::cell::Cell;

/// Updates that were heard of, counted by who tells of them, and how far a write shows them.
#[derive(Debug, Default)]
pub struct Horizon {
    heard: Cell<u64>,
    /// The newest update that writes may show; none when it is not known.
    shows: Cell<Option<u64>>,
}

impl Horizon {
    /// So many updates were heard of.
    pub fn hear(&self, updates: u64) {
        self.heard.set(updates);
    }

    /// What is written from now on shows no update after this one, or any if it is not known.
    pub fn show(&self, newest: Option<u64>) {
        self.shows.set(newest);
    }

    /// How many were heard of.
    pub fn heard(&self) -> u64 {
        self.heard.get()
    }

    /// Whether writes show none but the first so many.
    pub fn shows_only(&self, first: u64) -> bool {
        self.shows.get().is_some_and(|newest| newest <= first)
    }
}

//! The lists of indexes, of stores of long values and of readings, and of FTLs.

pub use crate::indexes::*;
use crate::names::UnknownName;
use crate::wrappers::ENTRIES;

list! {
    /// The stores of long values and of readings: each makes of an index, or of a log, a subject like every
    /// index.
    WRAPPERS: IndexEntry = ENTRIES
}

/// Every subject: the indexes, then the stores of long values and of readings.
pub fn subjects() -> impl Iterator<Item = &'static IndexEntry> + Clone {
    INDEXES.iter().chain(WRAPPERS)
}

/// The subject of this name.
pub fn subject(name: &str) -> Result<&'static IndexEntry, UnknownName> {
    let unknown = || UnknownName::of("index", name, subjects().map(|entry| entry.name));
    subjects().find(|entry| entry.name == name).ok_or_else(unknown)
}

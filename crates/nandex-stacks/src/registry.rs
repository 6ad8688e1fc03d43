//! The lists of indexes, of stores of long values and of readings, and of FTLs.

pub use crate::indexes::*;
use crate::names::UnknownName;
use crate::wrappers::ENTRIES;

list! {
    /// The stores of long values and of readings. Each presents an index or a log as an index like all
    /// others.
    WRAPPERS: IndexEntry = ENTRIES
}

/// All subjects: the indexes, then the stores of long values and of readings.
pub fn subjects() -> impl Iterator<Item = &'static IndexEntry> + Clone {
    INDEXES.iter().chain(WRAPPERS)
}

/// The subject with this name.
pub fn subject(name: &str) -> Result<&'static IndexEntry, UnknownName> {
    let unknown = || UnknownName::of("index", name, subjects().map(|entry| entry.name));
    subjects().find(|entry| entry.name == name).ok_or_else(unknown)
}

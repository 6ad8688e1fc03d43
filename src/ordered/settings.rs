//! How an index is to be set up: record sizes, RAM, and options by name.

use crate::ordered::{Durability, Options, RecordFormat};
use alloc::string::ToString;

/// What an index is formatted and mounted with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Sizes of the records.
    pub record: RecordFormat,
    /// RAM in all: tables, buffers and caches. An index that needs more refuses; what it does not need it gives to
    /// its cache. `None` means no cache and whatever the tables need.
    pub ram_bytes: Option<usize>,
    /// The durability class wanted. An index that cannot give at least this refuses.
    pub durability: Durability,
    /// Options of the index, of its FTL and of its cache.
    pub options: Options,
}

impl Settings {
    /// These records, no cache, every operation durable, default options.
    pub fn new(record: RecordFormat) -> Settings {
        Settings {
            record,
            ram_bytes: None,
            durability: Durability::EveryOperation,
            options: Options::default(),
        }
    }

    /// The same with one option set.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl ToString) -> Settings {
        self.options.set(name, &value.to_string());
        self
    }
}

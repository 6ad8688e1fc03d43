//! How an index is to be set up: record sizes, RAM, and options by name.

use super::{Durability, RecordFormat};
use crate::check::IndexError;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};

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

/// Options by name, as given with `--set name=value`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    values: BTreeMap<String, String>,
}

impl Options {
    /// Sets an option.
    pub fn set(&mut self, name: &str, value: &str) {
        self.values.insert(name.to_string(), value.to_string());
    }

    /// The text of an option, if set.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// A whole number, if set.
    pub fn number(&self, name: &str) -> Result<Option<u64>, IndexError> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let parsed = text.replace('_', "").parse();
        parsed
            .map(Some)
            .map_err(|_| IndexError::Unsupported(format!("option {name}: '{text}' is no whole number")))
    }

    /// One of some words; the first is the default.
    pub fn choice(&self, name: &str, words: &[&'static str]) -> Result<&'static str, IndexError> {
        let Some(text) = self.text(name) else { return Ok(words[0]) };
        words.iter().find(|w| **w == text).copied().ok_or_else(|| {
            IndexError::Unsupported(format!("option {name}: '{text}' is none of {}", words.join(", ")))
        })
    }

    /// Every option set, in name order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().map(|(k, v)| (k.as_str(), v.as_str()))
    }
}

//! Options by name, the settings with which an index is opened, and the errors of options.

use nandex::ordered::{Durability, RecordFormat};
use nandex::{IndexError, StoreError};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Options by name, as given with `--set name=value`. Clones share their memory, so options cost an open
/// index no RAM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    values: Arc<BTreeMap<String, String>>,
}

impl Options {
    /// Sets an option.
    pub fn set(&mut self, name: &str, value: &str) {
        Arc::make_mut(&mut self.values).insert(name.to_string(), value.to_string());
    }

    /// The value of an option as text; `None` if it is not set.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// All options that are set, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().map(|(k, v)| (k.as_str(), v.as_str()))
    }
}

/// The settings that an index is formatted and mounted with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Sizes of the records.
    pub record: RecordFormat,
    /// RAM in bytes for tables, buffers and caches together. An index that needs more refuses to start. RAM
    /// that an index does not need goes to its cache. `None` means no cache and unlimited tables.
    pub ram_bytes: Option<usize>,
    /// The durability class wanted. An index that cannot give at least this class refuses to start.
    pub durability: Durability,
    /// Options of the index, its FTL and its cache.
    pub options: Options,
}

impl Settings {
    /// Settings with these record sizes, no cache, every operation durable, and default options.
    pub fn new(record: RecordFormat) -> Settings {
        Settings {
            record,
            ram_bytes: None,
            durability: Durability::EveryOperation,
            options: Options::default(),
        }
    }

    /// The settings with one option set in addition.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl ToString) -> Settings {
        self.options.set(name, &value.to_string());
        self
    }
}

/// An error: an option with an invalid value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionError {
    /// The name of the option.
    pub option: &'static str,
    /// The reason for the refusal.
    pub why: String,
}

impl OptionError {
    /// The error of an option whose text is refused for the reason `why`.
    pub fn new(option: &'static str, text: &str, why: impl fmt::Display) -> OptionError {
        OptionError { option, why: format!("'{text}' {why}") }
    }

    /// The error of an option that is refused whatever its text.
    pub fn because(option: &'static str, why: impl fmt::Display) -> OptionError {
        OptionError { option, why: why.to_string() }
    }
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "option {}: {}", self.option, self.why)
    }
}

impl std::error::Error for OptionError {}

impl From<OptionError> for IndexError {
    fn from(error: OptionError) -> IndexError {
        IndexError::Unsupported(error.to_string().into())
    }
}

impl From<OptionError> for StoreError {
    fn from(error: OptionError) -> StoreError {
        StoreError::Unsupported(error.to_string().into())
    }
}

/// Parses a whole number within bounds; `_` may separate its digits. The error names the fault.
pub fn whole_number(text: &str, possible: RangeInclusive<u64>) -> Result<u64, String> {
    // One of more digits than 64 bits hold is too large, and no less a number.
    let digits = text.replace('_', "");
    if digits.is_empty() || digits.bytes().any(|digit| !digit.is_ascii_digit()) {
        let has_unit = digits.starts_with(|c: char| c.is_ascii_digit()) && digits.ends_with(['B', 'b']);
        let hint = if has_unit { "; bytes are given without a unit here" } else { "" };
        return Err(format!("is no whole number{hint}"));
    }
    match digits.parse() {
        Ok(number) if possible.contains(&number) => Ok(number),
        _ => Err(format!("is not between {} and {}", possible.start(), possible.end())),
    }
}

//! Options by name, what an index is opened with, and what is wrong with an option.

use nandex::{IndexError, StoreError};
use std::fmt;
use std::ops::RangeInclusive;

pub use nandex::ordered::{Options, Settings};

/// An option whose text is not possible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionError {
    /// Its name.
    pub option: &'static str,
    /// What is wrong with it.
    pub why: String,
}

impl OptionError {
    /// The text of this option, and why it is refused.
    pub fn new(option: &'static str, text: &str, why: impl fmt::Display) -> OptionError {
        OptionError { option, why: format!("'{text}' {why}") }
    }

    /// An option that is refused whatever its text.
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
        IndexError::Unsupported(error.to_string())
    }
}

impl From<OptionError> for StoreError {
    fn from(error: OptionError) -> StoreError {
        StoreError::Unsupported(error.to_string())
    }
}

/// A whole number within bounds as people type it; `_` may separate its digits. Else what is wrong with it.
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

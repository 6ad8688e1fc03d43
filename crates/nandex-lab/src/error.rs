//! What the lab refuses, in words that say what to do next.

use crate::names::nearest;
use nandex::IndexError;
use std::fmt;

/// Why the lab could not do what was asked.
#[derive(Debug)]
#[non_exhaustive]
pub enum LabError {
    /// A name that stands in no list.
    UnknownName {
        /// "index", "workload", "option", ...
        what: &'static str,
        /// The name given.
        name: String,
        /// The known name most like it.
        nearest: Option<String>,
        /// Every known name.
        known: Vec<String>,
    },
    /// An option whose value makes no sense.
    BadOption {
        /// Its name.
        name: String,
        /// The value given.
        value: String,
        /// What is wrong with it.
        reason: String,
    },
    /// More distinct keys than a key of this width can tell apart.
    TooManyKeys {
        /// Distinct keys of the workload.
        keys: u64,
        /// Bytes of a key.
        key_bytes: u8,
    },
    /// A trace that cannot be read.
    Trace {
        /// The file.
        file: String,
        /// Where in it, such as "record 17" or "line 3".
        place: Option<String>,
        /// What is wrong there.
        reason: String,
    },
    /// A chip file or an image of a chip that cannot be used.
    Chip {
        /// The file.
        file: String,
        /// The field or place, and what is wrong with it.
        reason: String,
    },
    /// An index refused its settings.
    Index(IndexError),
    /// A file could not be read or written.
    Io {
        /// The file.
        file: String,
        /// Why.
        error: std::io::Error,
    },
}

impl LabError {
    /// An unknown name, with the nearest of the known ones.
    pub fn unknown<'a>(what: &'static str, name: &str, known: impl IntoIterator<Item = &'a str>) -> LabError {
        let known: Vec<String> = known.into_iter().map(str::to_string).collect();
        let nearest = nearest(name, known.iter().map(String::as_str)).map(str::to_string);
        LabError::UnknownName { what, name: name.to_string(), nearest, known }
    }

    /// An option with a value that makes no sense.
    pub fn bad_option(name: &str, value: &str, reason: impl Into<String>) -> LabError {
        LabError::BadOption { name: name.to_string(), value: value.to_string(), reason: reason.into() }
    }

    /// A file that could not be read or written.
    pub fn io(file: impl fmt::Display, error: std::io::Error) -> LabError {
        LabError::Io { file: file.to_string(), error }
    }
}

impl From<IndexError> for LabError {
    fn from(error: IndexError) -> LabError {
        LabError::Index(error)
    }
}

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LabError::UnknownName { what, name, nearest: Some(nearest), .. } => {
                write!(f, "there is no {what} '{name}'; did you mean '{nearest}'?")
            }
            LabError::UnknownName { what, name, known, .. } => {
                write!(f, "there is no {what} '{name}'; known: {}", known.join(", "))
            }
            LabError::BadOption { name, value, reason } => write!(f, "option {name}: '{value}' {reason}"),
            LabError::TooManyKeys { keys, key_bytes } => write!(
                f,
                "the workload has {keys} distinct keys, more than keys of {key_bytes} bytes can tell apart; \
                 choose wider keys"
            ),
            LabError::Trace { file, place: Some(place), reason } => write!(f, "{file}: {place}: {reason}"),
            LabError::Trace { file, place: None, reason } => write!(f, "{file}: {reason}"),
            LabError::Chip { file, reason } => write!(f, "{file}: {reason}"),
            LabError::Index(error) => write!(f, "{error}"),
            LabError::Io { file, error } => write!(f, "{file}: {error}"),
        }
    }
}

impl std::error::Error for LabError {}

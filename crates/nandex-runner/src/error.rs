//! Errors of the lab. The messages tell what to do next.

use nandex::IndexError;
use nandex_stacks::names::UnknownName;
use std::fmt;

/// An error of the lab.
#[derive(Debug)]
#[non_exhaustive]
pub enum LabError {
    /// A name that is in no list.
    UnknownName(UnknownName),
    /// An option with an invalid value.
    BadOption {
        /// The option's name.
        name: String,
        /// The value given.
        value: String,
        /// The reason why it is invalid.
        reason: String,
    },
    /// More distinct keys than keys of this width can tell apart.
    TooManyKeys {
        /// Number of distinct keys in the workload.
        keys: u64,
        /// Bytes of a key.
        key_bytes: u8,
    },
    /// A trace that cannot be read.
    Trace {
        /// Name of the file.
        file: String,
        /// The place in the file, such as "record 17" or "line 3".
        place: Option<String>,
        /// The reason.
        reason: String,
    },
    /// A chip file or an image of a chip that cannot be used.
    Chip {
        /// Name of the file.
        file: String,
        /// The field or place, and the reason.
        reason: String,
    },
    /// An experiment or a grid that is invalid.
    Experiment {
        /// Name of the file.
        file: String,
        /// The line, from 1, if known.
        line: Option<usize>,
        /// The key there, or the line's text. May be empty.
        key: String,
        /// The reason.
        reason: String,
    },
    /// The index refused its settings.
    Index(IndexError),
    /// A file that could not be read or written.
    Io {
        /// Name of the file.
        file: String,
        /// The error of the system.
        error: std::io::Error,
    },
}

impl LabError {
    /// An error for an unknown name. It suggests the nearest known one.
    pub fn unknown<'a>(what: &'static str, name: &str, known: impl IntoIterator<Item = &'a str>) -> LabError {
        UnknownName::of(what, name, known).into()
    }

    /// An error for an option with an invalid value.
    pub fn bad_option(name: &str, value: &str, reason: impl Into<String>) -> LabError {
        LabError::BadOption { name: name.to_string(), value: value.to_string(), reason: reason.into() }
    }

    /// An error for a file that could not be read or written.
    pub fn io(file: impl fmt::Display, error: std::io::Error) -> LabError {
        LabError::Io { file: file.to_string(), error }
    }
}

impl From<UnknownName> for LabError {
    fn from(unknown: UnknownName) -> LabError {
        LabError::UnknownName(unknown)
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
            LabError::UnknownName(unknown) => write!(f, "{unknown}"),
            LabError::BadOption { name, value, reason } => write!(f, "option {name}: '{value}' {reason}"),
            LabError::TooManyKeys { keys, key_bytes } => write!(
                f,
                "the workload has {keys} distinct keys, more than keys of {key_bytes} bytes can tell apart; \
                 choose wider keys"
            ),
            LabError::Trace { file, place: Some(place), reason } => write!(f, "{file}: {place}: {reason}"),
            LabError::Trace { file, place: None, reason } => write!(f, "{file}: {reason}"),
            LabError::Experiment { file, line, key, reason } => {
                write!(f, "{file}: ")?;
                line.map_or(Ok(()), |line| write!(f, "line {line}: "))?;
                if key.is_empty() { Ok(()) } else { write!(f, "{key}: ") }?;
                write!(f, "{reason}")
            }
            LabError::Chip { file, reason } => write!(f, "{file}: {reason}"),
            LabError::Index(error) => write!(f, "{error}"),
            LabError::Io { file, error } => write!(f, "{file}: {error}"),
        }
    }
}

impl std::error::Error for LabError {}

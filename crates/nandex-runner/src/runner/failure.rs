//! Why a run ends before its last operation.

use nandex::IndexError;
use std::fmt;

/// Why a run ended, and where.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Whoever waits for the run does not want it any more.
    Cancelled,
    /// The index, or the store under it, refused or failed.
    Index(IndexError),
    /// An answer is not what the model says.
    WrongAnswer(String),
    /// The workload, or the set-up, is none for this index.
    Refused(String),
    /// The index broke a promise: of its RAM, or of an invariant.
    Broken(String),
    /// The place where the failure inside happened, in words that end with a separator.
    At(String, Box<Failure>),
}

impl Failure {
    /// The failure with the place where it happened, such as `phase load, `.
    pub(crate) fn at(self, place: impl Into<String>) -> Failure {
        Failure::At(place.into(), Box::new(self))
    }
}

impl From<IndexError> for Failure {
    fn from(error: IndexError) -> Failure {
        Failure::Index(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Cancelled => write!(f, "cancelled"),
            Failure::Index(error) => write!(f, "{error}"),
            Failure::WrongAnswer(what) => write!(f, "wrong answer: {what}"),
            Failure::Refused(why) | Failure::Broken(why) => write!(f, "{why}"),
            Failure::At(place, why) => write!(f, "{place}{why}"),
        }
    }
}

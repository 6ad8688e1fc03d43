//! Why a run ends before its last operation.

use nandex::IndexError;
use std::fmt;

#[derive(Debug)]
pub(crate) enum Failure {
    /// The user cancelled the run.
    Cancelled,
    Index(IndexError),
    /// An answer differs from the model's.
    WrongAnswer(String),
    /// The index cannot run this workload or these settings.
    Refused(String),
    /// The index broke an invariant or exceeded its RAM.
    Broken(String),
    /// The failure inside, with its place in words that end with a separator.
    At(String, Box<Failure>),
}

impl Failure {
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

//! The faults that a life finds.

use serde::Serialize;
use std::fmt;

/// The kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The subject panicked.
    Panicked,
    /// The subject answers something, or holds something, that no promise allows.
    Wrong,
    /// An invariant is violated.
    Unsound,
    /// The subject refuses to be mounted.
    Unmountable,
    /// The subject cannot be mounted or made because no room is left.
    FullAtMount,
    /// The chip is full, and no key can be removed or no sync done.
    Stuck,
    /// The subject refuses an operation that it must not refuse.
    Refused,
    /// The subject returns an error without a cause.
    Error,
}

impl Kind {
    /// The kind's name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Panicked => "panicked",
            Kind::Wrong => "wrong",
            Kind::Unsound => "unsound",
            Kind::Unmountable => "unmountable",
            Kind::FullAtMount => "full_at_mount",
            Kind::Stuck => "stuck",
            Kind::Refused => "refused",
            Kind::Error => "error",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    pub(crate) what: String,
}

impl Fault {
    pub(crate) fn new(kind: Kind, what: impl Into<String>) -> Fault {
        Fault { kind, what: what.into() }
    }

    /// The class of the fault: its kind, and its words without numbers. Faults with the same cause share
    /// it.
    pub(crate) fn class(&self) -> String {
        let words = self.what.chars().filter(|c| !c.is_ascii_digit());
        format!("{} {}", self.kind.name(), words.collect::<String>())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.name(), self.what)
    }
}

//! The faults that a life finds.

use serde::Serialize;
use std::fmt;

/// The kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The subject panicked.
    Panicked,
    /// The subject holds, or answers, what no promise allows.
    Wrong,
    /// An invariant does not hold.
    Unsound,
    /// The subject refuses to be mounted.
    Unmountable,
    /// The subject cannot be mounted, or made, because no room is left.
    FullAtMount,
    /// With the chip full, no key can be removed, or no sync done.
    Stuck,
    /// The subject refuses what it must not refuse.
    Refused,
    /// The subject answers an error that has no cause.
    Error,
}

impl Kind {
    /// The name used in results.
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

/// Something that is wrong, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    pub(crate) what: String,
}

impl Fault {
    pub(crate) fn new(kind: Kind, what: impl Into<String>) -> Fault {
        Fault { kind, what: what.into() }
    }

    /// The common part of the faults of one cause: the kind, and the words without their numbers.
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

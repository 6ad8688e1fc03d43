//! Errors of an index, and the report of a checker.

pub use crate::invariant::Invariant;
use crate::nand::{Differs, NandError, Unfit};
use crate::store::StoreError;
use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// The text of a refusal or of a finding, as `format!` makes it; empty without the feature `messages`, where
/// neither the words nor what would put them together take room in a firmware.
#[doc(hidden)]
#[macro_export]
macro_rules! message {
    ($($text:tt)*) => {
        if $crate::check::HAS_MESSAGES { alloc::format!($($text)*) } else { alloc::string::String::new() }
    };
}
pub use message;

/// Whether refusals and findings are told in words: the feature `messages`.
#[doc(hidden)]
pub const HAS_MESSAGES: bool = cfg!(feature = "messages");

/// Words that are known when the engine is built: empty without the feature `messages`.
#[doc(hidden)]
#[inline(always)]
pub const fn words(text: &'static str) -> &'static str {
    if cfg!(feature = "messages") { text } else { "" }
}

/// A broken invariant, and what was found in words.
#[doc(hidden)]
pub type Breach = (Invariant, &'static str);

/// Why an index could not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IndexError {
    /// The storage below failed.
    Store(StoreError),
    /// No room is left: the operation was not done and nothing was lost.
    Full,
    /// Too many blocks of the chip have failed: it takes no more writes: the operation was not done, nothing
    /// was lost, and every record can still be read, now and after the next mount.
    WornOut,
    /// Bytes on the medium contradict an invariant of the index.
    Corrupted {
        /// The invariant, where it has a number.
        invariant: Option<Invariant>,
        /// The words for what was found; empty without the feature `messages`.
        what: &'static str,
        /// The page or node where it was found.
        at: u64,
    },
    /// A key or value of the wrong length.
    WrongLength {
        /// "key" or "value".
        what: &'static str,
        /// Bytes the index was formatted for.
        expected: usize,
        /// Bytes given.
        got: usize,
    },
    /// The records of a bulk load do not ascend strictly.
    NotSorted {
        /// The first record, counted from 0, whose key is not above the one before it.
        position: u64,
    },
    /// The index takes ascending keys only, and this one is not above the largest.
    NotAscending,
    /// More changes than the index makes as one. None was made.
    BatchTooLarge {
        /// The name of what is limited: "changes", or "pages" that the changes write.
        unit: &'static str,
        /// The most of them that are possible.
        most: usize,
    },
    /// The RAM that the index was given is less than it needs.
    TooLittleRam {
        /// The part that takes it.
        what: &'static str,
        /// Bytes given.
        given: usize,
        /// Bytes needed.
        needed: usize,
    },
    /// The chip has too few good blocks.
    ChipTooSmall {
        /// The structure that needs them.
        who: &'static str,
        /// Blocks that it needs.
        needs: u32,
        /// Good blocks that there are.
        has: u32,
    },
    /// The spare area of a page is too small.
    SpareTooSmall {
        /// The structure that needs it.
        who: &'static str,
        /// Bytes that it needs in a page.
        needs: u32,
        /// Bytes that the chip has.
        has: u32,
    },
    /// The index cannot run with these settings on this chip, for another reason than those that have
    /// numbers.
    Unsupported(Cow<'static, str>),
    /// The medium holds no index of this kind, or one made with other settings: what it holds instead.
    NotFormatted(Unfit),
    /// Something stands on the medium that was to be formatted. It was not touched.
    NotBlank,
    /// The index promises nothing after a power cut, and the power was cut: contents are not to be trusted.
    NotCleanlyClosed,
    /// An earlier operation failed half-way (the chip refused or lost power): mount again to continue.
    Interrupted,
}

impl IndexError {
    /// A refusal in words: what is needed and what there is.
    #[doc(hidden)]
    #[cold]
    pub fn unsupported(what: String) -> IndexError {
        IndexError::Unsupported(what.into())
    }

    /// Bytes that contradict an invariant: which, in words, and the page or node where they are.
    #[inline(always)]
    pub const fn broken(invariant: Invariant, what: &'static str, at: u64) -> IndexError {
        IndexError::Corrupted { invariant: Some(invariant), what: words(what), at }
    }

    /// Bytes that contradict what has no number: in words, and the page or node where they are.
    #[inline(always)]
    pub const fn corrupted(what: &'static str, at: u64) -> IndexError {
        IndexError::Corrupted { invariant: None, what: words(what), at }
    }

    /// Something else is on the medium than what was to be mounted.
    pub const fn other(differs: Differs, what: &'static str) -> IndexError {
        IndexError::NotFormatted(Unfit::other(differs, what))
    }

    /// Whether the medium is blank: the one answer of a mount after which nothing is lost by formatting.
    pub const fn is_blank(&self) -> bool {
        matches!(self, IndexError::NotFormatted(Unfit::Blank))
    }

    /// The error of a mount within a layer that was found: what holds a layer is not blank.
    #[doc(hidden)]
    pub fn in_layer(self) -> IndexError {
        let what = words("a layer stands on the medium, and no tree in it");
        if self.is_blank() { IndexError::other(Differs::Kind, what) } else { self }
    }

    /// Whether an operation was refused: it was not done, and nothing else changed.
    pub const fn is_refusal(&self) -> bool {
        matches!(self, IndexError::Full | IndexError::WornOut)
    }

    /// Whether the index cannot run like this: other settings, more RAM or another chip are needed.
    pub const fn is_unsupported(&self) -> bool {
        matches!(
            self,
            IndexError::Unsupported(_)
                | IndexError::TooLittleRam { .. }
                | IndexError::ChipTooSmall { .. }
                | IndexError::SpareTooSmall { .. }
        )
    }
}

impl From<StoreError> for IndexError {
    fn from(error: StoreError) -> IndexError {
        match error {
            StoreError::Full => IndexError::Full,
            StoreError::WornOut => IndexError::WornOut,
            StoreError::Interrupted => IndexError::Interrupted,
            StoreError::Unsupported(what) => IndexError::Unsupported(what),
            StoreError::ChipTooSmall { who, needs, has } => IndexError::ChipTooSmall { who, needs, has },
            StoreError::SpareTooSmall { who, needs, has } => IndexError::SpareTooSmall { who, needs, has },
            StoreError::NotFormatted(what) => IndexError::NotFormatted(what),
            other => IndexError::Store(other),
        }
    }
}

impl From<NandError> for IndexError {
    fn from(error: NandError) -> IndexError {
        StoreError::from(error).into()
    }
}

impl fmt::Display for IndexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IndexError::Store(e) => write!(f, "{e}"),
            IndexError::Full => write!(f, "no room is left; nothing was changed"),
            IndexError::WornOut => {
                write!(f, "too many blocks have failed: the chip is read-only now; nothing was changed")
            }
            IndexError::Corrupted { invariant, what, at } => {
                write!(f, "corrupted at {at}")?;
                if let Some(invariant) = invariant {
                    write!(f, ": {invariant}")?;
                }
                if what.is_empty() { Ok(()) } else { write!(f, ": {what}") }
            }
            IndexError::WrongLength { what, expected, got } => {
                write!(f, "a {what} has {expected} bytes here, not {got}")
            }
            IndexError::NotSorted { position } => {
                write!(f, "the key of record {position} is not above the one before it")
            }
            IndexError::BatchTooLarge { unit, most } => {
                write!(f, "the batch is too large: {most} {unit} are possible; nothing was changed")
            }
            IndexError::NotAscending => {
                write!(
                    f,
                    "this index takes keys in ascending order only, and the key is not above the largest one"
                )
            }
            IndexError::TooLittleRam { what, given, needed } => {
                write!(f, "{given} bytes of RAM are too few: {what} take {needed}")
            }
            IndexError::ChipTooSmall { who, needs, has } => {
                write!(f, "{who} needs {needs} good blocks; this chip has {has}")
            }
            IndexError::SpareTooSmall { who, needs, has } => {
                write!(f, "{who} needs {needs} spare bytes in a page; this chip has {has}")
            }
            IndexError::Unsupported(what) => write!(f, "{what}"),
            IndexError::NotFormatted(what) => write!(f, "no index to mount: {what}"),
            IndexError::NotBlank => write!(f, "something is there; only an overwriting format takes it away"),
            IndexError::Interrupted => write!(f, "an earlier operation failed half-way; mount again"),
            IndexError::NotCleanlyClosed => {
                write!(f, "the power was cut and this configuration promises nothing after that")
            }
        }
    }
}

impl core::error::Error for IndexError {}

/// One broken invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The invariant, by its number in the header of the module.
    pub invariant: Invariant,
    /// The page or node at fault.
    pub at: u64,
    /// The fact that contradicts it.
    pub found: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is broken at {}", self.invariant, self.at)?;
        if self.found.is_empty() { Ok(()) } else { write!(f, ": {}", self.found) }
    }
}

/// Findings of a walk over the whole index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Nodes visited.
    pub nodes: u64,
    /// Records counted.
    pub records: u64,
    /// Broken invariants; empty when all hold.
    pub violations: Vec<Violation>,
}

impl CheckReport {
    /// Notes a broken invariant.
    pub fn violation(&mut self, invariant: Invariant, at: u64, found: String) {
        self.violations.push(Violation { invariant, at, found });
    }

    /// Whether every invariant holds.
    pub fn is_sound(&self) -> bool {
        self.violations.is_empty()
    }
}

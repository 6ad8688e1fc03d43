//! Errors of an index, and the report of a checker.

pub use crate::invariant::Invariant;
use crate::nand::{Differs, NandError, Unfit};
use crate::store::StoreError;
use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// Formats the text of a refusal or of a finding, as `format!` does. Without the feature `messages` the text
/// is empty, and a firmware holds neither the words nor the code that formats them.
#[doc(hidden)]
#[macro_export]
macro_rules! message {
    ($($text:tt)*) => {
        if $crate::check::HAS_MESSAGES { alloc::format!($($text)*) } else { alloc::string::String::new() }
    };
}
pub use message;

/// True if refusals and findings have texts: with the feature `messages`.
#[doc(hidden)]
pub const HAS_MESSAGES: bool = cfg!(feature = "messages");

/// Returns a text that is known at compile time, or an empty one without the feature `messages`.
#[doc(hidden)]
#[inline(always)]
pub const fn words(text: &'static str) -> &'static str {
    if cfg!(feature = "messages") { text } else { "" }
}

/// Violated invariant, and the finding in words.
#[doc(hidden)]
pub type Breach = (Invariant, &'static str);

/// Limit that an insertion met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Limit {
    /// No page is left, on the chip or in the store. Removals give room, and so would more blocks.
    Blocks,
    /// The tree cannot get higher: its upper nodes hold few entries in pages of this size with keys of this
    /// size. More blocks would give no room, larger pages or another index would
    /// ([`OrderedIndex::records_max`](crate::OrderedIndex::records_max)).
    Height,
    /// The root names as many blocks as fit into its page. Larger pages or blocks would give room.
    Root,
    /// A table or buffer may not grow beyond the RAM that was given.
    Ram,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Limit::Blocks => "no room is left in the blocks",
            Limit::Height => "no room is left: the tree cannot get higher",
            Limit::Root => "no room is left: the root names no more blocks",
            Limit::Ram => "no room is left in RAM",
        })
    }
}

/// Error of an index: an operation was refused or failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IndexError {
    /// The storage below failed.
    Store(StoreError),
    /// No room is left: a limit was met. The operation was not done, and nothing was lost.
    Full(Limit),
    /// Too many blocks of the chip have failed for further writes. The operation was not done, and nothing
    /// was lost. Every record can still be read, now and after the next mount.
    WornOut,
    /// The bytes on the medium contradict an invariant of the index.
    Corrupted {
        /// Violated invariant; `None` if it has no number.
        invariant: Option<Invariant>,
        /// Finding in words; empty without the feature `messages`.
        what: &'static str,
        /// Number of the page or node with the fault.
        at: u64,
    },
    /// A key or a value has the wrong length.
    WrongLength {
        /// "key" or "value".
        what: &'static str,
        /// Bytes that the index was formatted for.
        expected: usize,
        /// Bytes given.
        got: usize,
    },
    /// The keys of the records of a bulk load do not ascend strictly.
    NotSorted {
        /// Position of the first record, from 0, whose key is not above the key before it.
        position: u64,
    },
    /// The index takes ascending keys only, and the key is not above the largest one.
    NotAscending,
    /// The batch has more changes than the index makes atomically. No change was made.
    BatchTooLarge {
        /// Limited quantity: "changes", or "pages" that the changes write.
        unit: &'static str,
        /// Most of this quantity.
        most: usize,
    },
    /// The index was given less RAM than it needs.
    TooLittleRam {
        /// Part of the index that needs the RAM.
        what: &'static str,
        /// Bytes given.
        given: usize,
        /// Bytes needed.
        needed: usize,
    },
    /// The chip has too few good blocks.
    ChipTooSmall {
        /// Structure that needs the blocks.
        who: &'static str,
        /// Number of good blocks needed.
        needs: u32,
        /// Number of good blocks of the chip.
        has: u32,
    },
    /// The spare area of a page is too small.
    SpareTooSmall {
        /// Structure that needs the spare area.
        who: &'static str,
        /// Number of spare bytes needed in a page.
        needs: u32,
        /// Spare bytes of a page of the chip.
        has: u32,
    },
    /// The index cannot run with these settings on this chip, for the reason in words.
    Unsupported(Cow<'static, str>),
    /// The medium holds no index of this kind, or one with other settings.
    NotFormatted(Unfit),
    /// The medium to be formatted is not blank. It was not changed.
    NotBlank,
    /// The index promises nothing after a power cut, and the power was cut: its contents cannot be trusted.
    NotCleanlyClosed,
    /// An earlier operation failed half-way: the chip refused a change or lost power. Mount again to
    /// continue.
    Interrupted,
}

impl IndexError {
    /// A refusal with a message: the number needed and the number given.
    #[doc(hidden)]
    #[cold]
    pub fn unsupported(what: String) -> IndexError {
        IndexError::Unsupported(what.into())
    }

    /// Error for bytes that contradict an invariant: the message, and the page or node.
    #[inline(always)]
    pub const fn broken(invariant: Invariant, what: &'static str, at: u64) -> IndexError {
        IndexError::Corrupted { invariant: Some(invariant), what: words(what), at }
    }

    /// Returns the error for bytes that contradict a rule without a number, with the finding in words and the
    /// page or node.
    #[inline(always)]
    pub const fn corrupted(what: &'static str, at: u64) -> IndexError {
        IndexError::Corrupted { invariant: None, what: words(what), at }
    }

    /// Returns the error for a medium that holds something else.
    pub const fn other(differs: Differs, what: &'static str) -> IndexError {
        IndexError::NotFormatted(Unfit::other(differs, what))
    }

    /// Returns true if the medium is blank. Of all errors of a mount, only after this one does formatting
    /// lose nothing.
    pub const fn is_blank(&self) -> bool {
        matches!(self, IndexError::NotFormatted(Unfit::Blank))
    }

    /// Returns the error of a mount inside a layer that was found. A medium with a layer is not blank.
    #[doc(hidden)]
    pub fn in_layer(self) -> IndexError {
        let what = words("a layer stands on the medium, and no tree in it");
        if self.is_blank() { IndexError::other(Differs::Kind, what) } else { self }
    }

    /// Error of an operation that finds no page.
    #[doc(hidden)]
    pub const NO_BLOCK: IndexError = IndexError::Full(Limit::Blocks);

    /// Returns true if no room is left, whichever limit was met.
    pub const fn is_full(&self) -> bool {
        matches!(self, IndexError::Full(_))
    }

    /// Returns true if an operation was refused: it was not done, and nothing else changed.
    pub const fn is_refusal(&self) -> bool {
        matches!(self, IndexError::Full(_) | IndexError::WornOut)
    }

    /// Returns true if the index cannot run in this way: it needs other settings, more RAM or another chip.
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
            StoreError::Full => IndexError::NO_BLOCK,
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
            IndexError::Full(limit) => write!(f, "{limit}; nothing was changed"),
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

/// A violated invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub struct Violation {
    /// Number of the invariant, as in the header of the module.
    pub invariant: Invariant,
    /// Number of the page or node with the fault.
    pub at: u64,
    /// Finding in words; empty without the feature `messages`.
    pub found: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is broken at {}", self.invariant, self.at)?;
        if self.found.is_empty() { Ok(()) } else { write!(f, ": {}", self.found) }
    }
}

/// Report of a walk over the whole index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub struct CheckReport {
    /// Number of nodes visited.
    pub nodes: u64,
    /// Number of records found.
    pub records: u64,
    /// Violated invariants; empty if all hold.
    pub violations: Vec<Violation>,
}

impl CheckReport {
    /// Adds a violated invariant.
    pub fn violation(&mut self, invariant: Invariant, at: u64, found: String) {
        self.violations.push(Violation { invariant, at, found });
    }

    /// Returns true if every invariant holds.
    pub fn is_sound(&self) -> bool {
        self.violations.is_empty()
    }
}

//! What the trees that hold updates back in RAM have in common: orders over slots of tables, walks over a tree and the
//! changes that wait for it, and what an update answers.

mod chunked;
mod merged;
mod order;
#[cfg(test)]
pub(super) mod tests;

pub(super) use chunked::Chunked;
pub(super) use merged::{Merge, Pending};
pub(super) use order::Order;

use super::Options;
use crate::check::IndexError;

/// What an insertion or a removal answers, where updates wait in RAM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Answers {
    /// Whether the key existed. Where the RAM does not know, its leaf is read.
    #[default]
    Exact,
    /// Whether the updates that wait hold the key; `false` where they do not know. The papers' algorithms, which answer
    /// nothing: no leaf is read for an update, only what is above it.
    Pool,
}

impl Answers {
    /// What the option `answers` says; *exact* if it is not set.
    pub(super) fn from_options(options: &Options) -> Result<Answers, IndexError> {
        Ok(match options.choice("answers", &["exact", "pool"])? {
            "pool" => Answers::Pool,
            _ => Answers::Exact,
        })
    }
}

/// What the tree holds of the key of an update that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Below {
    Absent,
    Present,
    /// Nobody looked.
    Unknown,
}

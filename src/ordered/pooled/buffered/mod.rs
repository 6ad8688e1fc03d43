//! The ground of the trees that hold updates back in RAM: orders over slots of tables, walks over a tree and
//! the changes that wait for it, and what an update answers.

mod chunked;
mod merged;
mod order;
#[cfg(test)]
pub(in crate::ordered) mod tests;

pub(in crate::ordered) use chunked::Chunked;
pub(in crate::ordered) use merged::{Merge, Pending};
pub(in crate::ordered) use order::Order;

use crate::check::IndexError;
use crate::ordered::Options;

/// The answer of an insertion or a removal, where updates wait in RAM.
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
    /// The answers by the option `answers`; *exact* if it is not set.
    pub(in crate::ordered) fn from_options(options: &Options) -> Result<Answers, IndexError> {
        Ok(match options.choice("answers", &["exact", "pool"])? {
            "pool" => Answers::Pool,
            _ => Answers::Exact,
        })
    }
}

/// The state of an update's key in the tree below, while the update waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ordered) enum Below {
    Absent,
    Present,
    /// Nobody looked.
    Unknown,
}

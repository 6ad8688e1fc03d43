//! What the trees that hold updates back in RAM have in common: orders over slots of tables, walks over a tree and the
//! changes that wait for it, and what an update answers.

mod chunked;
mod merged;
mod order;
#[cfg(test)]
pub(in crate::ordered) mod tests;

pub(in crate::ordered) use chunked::Chunked;
pub(in crate::ordered) use merged::{Merge, Pending};
pub(in crate::ordered) use order::Order;

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

/// What the tree holds of the key of an update that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ordered) enum Below {
    Absent,
    Present,
    /// Nobody looked.
    Unknown,
}

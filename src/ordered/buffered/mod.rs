//! The ground of the trees that hold updates back in RAM: walks over a tree and the changes that wait for it,
//! and what an update answers.

mod merged;
#[doc(hidden)]
pub use merged::{Merge, Pending};

/// The answer of an insertion or a removal, where updates wait in RAM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub enum Answers {
    /// Whether the key existed. Where the RAM does not know, its leaf is read.
    #[default]
    Exact,
    /// Whether the updates that wait hold the key; `false` where they do not know. The papers' algorithms,
    /// which answer nothing: no leaf is read for an update, only what is above it.
    Pool,
}

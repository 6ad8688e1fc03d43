//! The common parts of trees that hold updates back in RAM: walks over a tree and its waiting changes, and
//! the results of updates.

mod merged;
#[doc(hidden)]
pub use merged::{Between, Merge, Pending};

/// Meaning of the result of an insertion or a removal if updates wait in RAM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub enum Answers {
    /// The result tells if the key existed. The leaf is read if the RAM does not tell.
    #[default]
    Exact,
    /// The result is true if a waiting update shows that the key existed, and false otherwise. No leaf is
    /// read for an update, only nodes above it. The algorithms of the papers, which return no result, work
    /// like this.
    Pool,
}

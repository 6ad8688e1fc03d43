//! The ground of the trees that hold updates back in RAM: orders over slots of tables, and the knowledge of a
//! key.

mod chunked;
mod order;

pub(in crate::ordered) use chunked::Chunked;
pub(in crate::ordered) use order::Order;

/// Whether the tree on flash has the key of a waiting update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ordered) enum Below {
    Absent,
    Present,
    /// The tree was not searched for the key.
    Unknown,
}

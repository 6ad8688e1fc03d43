//! The ground of the trees that hold updates back in RAM: orders over slots of tables, and the knowledge of a
//! key.

mod chunked;
mod order;

pub(in crate::ordered) use chunked::Chunked;
pub(in crate::ordered) use order::Order;

/// The knowledge that the tree has of the key of an update that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ordered) enum Below {
    /// The key is not in the tree.
    Absent,
    /// The key is in the tree.
    Present,
    /// Nobody looked.
    Unknown,
}

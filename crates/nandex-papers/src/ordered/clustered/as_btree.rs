//! AS B-tree: "always sequential". Modified nodes are appended in batches and found by an address table.
//!
//! H. Roh, S. Kim, D. Lee, S. Park, "AS B-tree: A Study of an Efficient B+-tree for SSDs", Journal of
//! Information Science and Engineering 30, 2014. The tree has five parts. A legacy B+-tree has node numbers
//! as child pointers. A *write buffer* holds W modified nodes. A *sequential writer* writes a full buffer
//! contiguously at the end of the index file. An *address mapping table* maps numbers to pages, so that
//! nothing propagates. A *node validation manager*, with a bitmap for each segment of the file, copies the
//! live nodes of the oldest segment through the buffer and recycles the segment.
//!
//! # Deviations and confidence
//!
//! The five parts: high, from the abstract. The rest is our reading: 64 nodes, fewer on a small store;
//! segments of 1 MiB in a ring. A segment is recycled if less than half of it is live (`recycle_percent`), or
//! if there is no other room. A header page precedes each batch; the table is replayed from these. The table
//! is checkpointed every 64 batches, or later if it is so large that it would be an eighth of the written
//! bytes. Nodes take at most half of the store (`space_percent`).

use super::{ClusteredConfig, FlushPolicy};
use nandex::ordered::RecordFormat;

/// Settings of the AS B-tree, by our reading of the paper.
pub const fn config(record: RecordFormat) -> ClusteredConfig {
    ClusteredConfig::new(record, FlushPolicy::Append, 64, None)
}

//! AS B-tree: "always sequential", modified nodes are appended in batches and found by an address table.
//!
//! H. Roh, S. Kim, D. Lee, S. Park, "AS B-tree: A Study of an Efficient B+-tree for SSDs", Journal of
//! Information Science and Engineering 30, 2014. Five parts: a legacy B+-tree whose child pointers are
//! numbers of nodes; a *write buffer* of W modified nodes; a *sequential writer* that writes a full buffer
//! contiguously at the end of the index file; an *address mapping table* from number to page, so that nothing
//! propagates; a *node validation manager* with a bitmap for each segment of the file, which copies the live
//! nodes of the oldest segment through the buffer and recycles it.
//!
//! # Deviations and confidence
//!
//! The five parts: high, from the abstract. The rest is our reading: 64 nodes, fewer on a small store;
//! segments of 1 MiB in a ring; a segment is recycled when less than half of it is live (`recycle_percent`),
//! or where there is no other room; a header page before each batch, from which the table is replayed; a
//! checkpoint of the table every 64 batches, or later where the table is so large that it would be an eighth
//! of what is written. Nodes take half of the store at most (`space_percent`).

use super::{ClusteredConfig, FlushPolicy};
use nandex::ordered::RecordFormat;

/// Settings of the AS B-tree, by our reading of the paper.
pub const fn config(record: RecordFormat) -> ClusteredConfig {
    ClusteredConfig::new(record, FlushPolicy::Append, 64, None)
}

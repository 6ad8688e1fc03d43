//! IBSF: a node has a page of its own, and the buffer keeps one unit for each entry.
//!
//! H.-S. Lee, S. Park, H.-J. Song, D.-H. Lee, "An Efficient Buffer Management Scheme for Implementing a
//! B-Tree on NAND Flash Memory", ICESS 2007; Data & Knowledge Engineering 2010. An *index buffer* of units,
//! first in first out, from which redundant units are eliminated: a unit meets the one that waits for the
//! same entry. A full buffer commits the node of its oldest unit, with all its units, by one page write
//! (*first-associated*). A search reads one page per level.
//!
//! # Deviations and confidence
//!
//! Concept and layout: high, from four abstracts and two later papers; elimination and splits: medium, ours.
//! What units come to: an insertion and a removal nothing, a removal and an insertion an update, otherwise
//! the last of them. The nodes of a split or merge are written at once, as one group with all that waited for
//! them, so the parent never waits. The size of the buffer is not known: BFTL's.

use super::LayeredConfig;
use crate::unit_layer::CommitPolicy;
use nandex::ordered::RecordFormat;

/// Settings of IBSF, by our reading.
pub const fn config(record: RecordFormat) -> LayeredConfig {
    LayeredConfig::new(record, CommitPolicy::OldestNode)
}

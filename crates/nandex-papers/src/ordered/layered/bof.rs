//! BOF: all units of a node go to the same sector.
//!
//! J.-H. Nam, D.-J. Park, "The Efficient Design and Implementation of the B-Tree on Flash Memory", Journal of
//! KIISE: Databases 34(2), 2007. BFTL's buffer, but its replacement puts the units of one node into the
//! node's own sector, so that no table lists the sectors of a node.
//!
//! # Deviations and confidence
//!
//! Our reading of one sentence of the abstract: medium for the concept, low for all else. The sector holds
//! the node with the units applied. The victim is the node whose unit has waited longest. It is [`ibsf`]
//! without the elimination of redundant units.

use super::{LayeredConfig, ibsf};
use nandex::ordered::RecordFormat;

/// Settings of BOF, by our reading of the abstract.
pub const fn config(record: RecordFormat) -> LayeredConfig {
    LayeredConfig { eliminates: false, ..ibsf::config(record) }
}

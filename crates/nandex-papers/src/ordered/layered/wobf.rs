//! WOBF: units are sorted before they are written, together with what older sectors have of their nodes.
//!
//! X. Gong, S. Chen, M. Lin, H. Liu, "A Write-Optimized B-Tree Layer for NAND Flash Memory", WiCOM 2011.
//! BFTL, but (1) units for one entry meet in the buffer, (2) a commit sorts all units by node and key, and
//! (3) the nodes in it are gathered from their older sectors and written again in the sorted stream: a node
//! lies in one sector or across two.
//!
//! # Deviations and confidence
//!
//! Our reading of the abstract, which says that units are batched and that the multiplicity of pages with a
//! node's units goes: medium for the concept, low for the rest. Whether every commit gathers is not known:
//! `merge_on_commit = no` leaves the lists to grow to C as in BFTL. A node has no more entries than a sector
//! has units, less one.

use super::LayeredConfig;
use crate::unit_layer::CommitPolicy;
use nandex::ordered::RecordFormat;

/// Settings of WOBF, by our reading of the abstract.
pub const fn config(record: RecordFormat) -> LayeredConfig {
    LayeredConfig { list_length: 4, ..LayeredConfig::new(record, CommitPolicy::SortedMerged) }
}

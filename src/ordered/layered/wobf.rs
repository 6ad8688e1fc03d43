//! WOBF: units are sorted before they are written, together with what older sectors have of their nodes.
//!
//! X. Gong, S. Chen, M. Lin, H. Liu, "A Write-Optimized B-Tree Layer for NAND Flash Memory", WiCOM 2011. BFTL, but (1) units
//! for one entry meet in the buffer, (2) a commit sorts all units by node and key, and (3) the nodes in it are gathered from
//! their older sectors and written again in the sorted stream: a node lies in one sector or across two.
//!
//! # Deviations and confidence
//!
//! Our reading of the abstract, which says that units are batched and that the multiplicity of pages with a node's units
//! goes: medium for the concept, low for the rest. Whether every commit gathers is not known: `merge_on_commit = no` leaves the
//! lists to grow to C as in BFTL. A node has no more entries than a sector has units, less one.

use super::{LayeredConfig, bftl};
use crate::check::IndexError;
use crate::ordered::{RecordFormat, Settings};
use crate::unit_layer::CommitPolicy;

/// Options besides those of the B+-tree: name and meaning.
pub const OPTIONS: [(&str, &str); 3] = [
    ("reservation_units", "units of the reservation buffer (default 60)"),
    ("merge_on_commit", "yes (default), or no: a list grows to list_length sectors before it is compacted"),
    ("list_length", "C: sectors of a node at most, 1 to 64, where commits do not merge (default 4)"),
];

/// WOBF by our reading.
pub const fn config(record: RecordFormat) -> LayeredConfig {
    LayeredConfig { list_length: 4, ..LayeredConfig::new(record, CommitPolicy::SortedMerged) }
}

/// From settings, with the [`OPTIONS`].
pub fn from_settings(settings: &Settings) -> Result<LayeredConfig, IndexError> {
    let config = config(settings.record).with_settings(settings)?;
    let commit = match settings.options.choice("merge_on_commit", &["yes", "no"])? {
        "no" => CommitPolicy::Sorted,
        _ => config.commit,
    };
    Ok(LayeredConfig { commit, list_length: bftl::list_length(settings, config.list_length)?, ..config })
}

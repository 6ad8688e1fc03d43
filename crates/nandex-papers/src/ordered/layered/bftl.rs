//! BFTL: units of many nodes share sectors, and a table tells which sectors have units of a node.
//!
//! C.-H. Wu, L.-P. Chang, T.-W. Kuo, "An Efficient B-Tree Layer for Flash-Memory Storage Systems", RTCSA
//! 2003; ACM TECS 6(3), 2007. A *reservation buffer* holds dirty records. When it is full they become index
//! units, those of a node a set, and the sets are packed into the fewest sectors, first fit; the *node
//! translation table* lists the sectors of each node. A list longer than C is compacted: the node is read and
//! written to sectors of its own. Reading a node costs up to C sector reads.
//!
//! # Deviations and confidence
//!
//! Concept and layout: high, from the authors' slides and two later papers. A unit is 12 bytes and the record
//! (theirs also names children and parent), a sector is a page of the store. First fit takes sets in order of
//! arrival; `packing = decreasing` takes the largest first. The number of sectors is finite here: where those
//! with units of many nodes grow too many, the nodes of the oldest one are compacted (metric `reclaims`),
//! which no paper describes. Defaults 60 units and C = 4: from the slides.

use super::LayeredConfig;
use crate::unit_layer::CommitPolicy;
use nandex::ordered::RecordFormat;

/// Settings of BFTL, as published.
pub const fn config(record: RecordFormat) -> LayeredConfig {
    let config = LayeredConfig::new(record, CommitPolicy::FirstFit);
    LayeredConfig { eliminates: false, list_length: 4, ..config }
}

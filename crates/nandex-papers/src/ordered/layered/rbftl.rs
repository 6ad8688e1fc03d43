//! RBFTL: an index buffer with a journal, so that a power cut loses nothing that was promised.
//!
//! X. Xiang, L. Yue, Z. Liu, P. Wei, "A Reliable B-Tree Implementation over Flash Memory", SAC 2008. Between
//! application and FTL, it "minimises loss and removes inconsistency" after a crash.
//!
//! # Deviations and confidence
//!
//! Our reading of the abstract: medium for the concept, low for the journal. It is [`ibsf`] below the update
//! [`journal`](crate::ordered::journal) of this crate, always: the journal holds updates (key and value)
//! where theirs likely held index units, its page is written when full, at a sync and before a commit, and
//! structural changes need no record of their own since the nodes of one are written as one atomic group. The
//! option `journal_group` is the granularity of its durability.

use super::{LayeredConfig, ibsf};
use nandex::ordered::RecordFormat;

/// Settings of RBFTL below its journal, by our reading of the abstract.
pub const fn config(record: RecordFormat) -> LayeredConfig {
    ibsf::config(record)
}

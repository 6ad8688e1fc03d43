//! Ordered indexes of the literature.
//!
//! | folder | systems |
//! |---|---|
//! | [`wpcb`] | the WPCB-tree |
//! | `pooled` | lazy-update B+-tree, LS-LRU, LSB-tree, MB-tree, PIO B-tree: updates wait in RAM |
//! | [`layered`] | BFTL, IBSF, WOBF, rBFTL, BOF, FlashDB: a B+-tree over a layer of units |
//! | [`clustered`] | AS-tree, FB-tree, CB-tree: nodes gathered into runs of pages |
//! | [`messages`] | B-epsilon-tree, LA-tree, FD-tree: updates wait on flash |
//! | [`ipl`] | in-page logging, IPL and dIPL |

mod bplus_nodes;
mod buffered;
pub mod clustered;
pub mod ipl;
pub mod journal;
pub mod layered;
pub mod messages;
mod pooled;
#[cfg(test)]
mod tests;
pub mod wpcb;

pub use messages::{bepsilon, fd, la};
pub use pooled::{lazy_update, ls_lru, lsb, mb, pio};

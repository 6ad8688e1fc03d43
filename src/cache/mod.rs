//! Page caches: frames in RAM over a [`PageStore`](crate::store::PageStore), and the replacement policies.
//!
//! [`PageCache`] is itself a `PageStore`. A [`Replacement`] policy, a value, decides which page leaves. The
//! write mode decides when the contents of a page reach the store below:
//!
//! - *Through*: a write goes to the store at once, and a group as a group. Durability is that of the store.
//! - *Back*, over a store with atomic groups: dirty pages leave only all together, as one atomic group. This
//!   happens if the next write would make them too many, if a dirty page must make room, and at `sync`. Pages
//!   written as a group become dirty together. So the state after a power cut is that after a prefix of the
//!   writes, not older than the last sync. Trims wait for this flush too: the writes before a page was freed
//!   must not be lost while the trim survives.
//! - *Back*, over a store without atomic groups, and *BackAlone* over any store: a dirty page is written
//!   alone when it is evicted. After a cut old and new pages may be mixed, and the cache says so
//!   ([`PageStore::prefix_consistent`](crate::store::PageStore::prefix_consistent)).
//!
//! A policy may name frames that leave together with the victim, and may ask for blocks to be written whole,
//! since the write buffer of a device empties by erase blocks. It may also refuse pages that are only read.
//!
//! Invariants
//! - K1: a page has at most one frame, and the table, the policy and the frame agree on it.
//! - K2: a clean frame equals the page in the store below.
//! - K3: (Back, atomic) there are never more dirty frames than one atomic group takes.

mod page_cache;
#[cfg(not(feature = "unstable"))]
pub(crate) mod policy;
#[cfg(feature = "unstable")]
pub mod policy;
#[cfg(not(feature = "unstable"))]
pub(crate) mod table;
#[cfg(feature = "unstable")]
pub mod table;
#[cfg(test)]
mod tests;

pub use page_cache::{CacheConfig, CacheCounters, PageCache, WriteMode};
#[cfg(feature = "unstable")]
pub use policy::lru;
pub use policy::{Lru, Replacement};

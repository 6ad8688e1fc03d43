//! Page caches: frames in RAM over a [`PageStore`](crate::store::PageStore), and the replacement policies.
//!
//! [`PageCache`] is a `PageStore` itself. Which page leaves is decided by a [`Replacement`] policy, a value;
//! when its contents reach the store below is decided by the write mode:
//!
//! - *Through*: a write goes to the store at once, and a group as a group. Durability is that of the store.
//! - *Back*, over a store with atomic groups: dirty pages leave only all together, as one atomic group, when
//!   the next write would make them too many, when a dirty page must make room, or at `sync`. Pages written
//!   as a group become dirty together. So what a power cut leaves is the state after some prefix of the
//!   writes, never older than the last sync. Trims wait for that flush too: what was written before a page
//!   was freed must not be lost alone.
//! - *Back*, over a store without them, and *BackAlone* over any: a dirty page is written alone when it is
//!   evicted; after a cut old and new pages may be mixed, and the cache says so
//!   ([`PageStore::prefix_consistent`](crate::store::PageStore::prefix_consistent)).
//!
//! A policy may name frames that leave together with the victim, and ask that blocks be written whole: a
//! write buffer in a device empties by erase blocks. It may also refuse pages that are only read.
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

//! Flash translation layers: a [`PageStore`](crate::store::PageStore) on a chip, by page, block or both.

#[cfg(not(feature = "unstable"))]
pub(crate) mod cached;
#[cfg(feature = "unstable")]
pub mod cached;
#[cfg(not(feature = "unstable"))]
pub(crate) mod cmt;
#[cfg(feature = "unstable")]
pub mod cmt;
#[cfg(not(feature = "unstable"))]
pub(crate) mod collecting;
#[cfg(feature = "unstable")]
pub mod collecting;
pub mod dftl;
#[cfg(not(feature = "unstable"))]
pub(crate) mod mapping;
#[cfg(feature = "unstable")]
pub mod mapping;
pub mod page_map;
#[cfg(not(feature = "unstable"))]
pub(crate) mod table;
#[cfg(feature = "unstable")]
pub mod table;
mod told;
#[cfg(not(feature = "unstable"))]
pub(crate) mod untold;
#[cfg(feature = "unstable")]
pub mod untold;

pub use crate::blocks::spare::SPARE_BYTES;
pub use mapping::{FlashConfig, FlashCounters};

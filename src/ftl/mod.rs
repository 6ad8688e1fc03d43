//! Flash translation layers: a [`PageStore`](crate::store::PageStore) on a chip, by page, block or both.

#[cfg(not(feature = "unstable"))]
mod cached;
#[cfg(feature = "unstable")]
pub mod cached;
#[cfg(not(feature = "unstable"))]
mod cmt;
#[cfg(feature = "unstable")]
pub mod cmt;
#[cfg(not(feature = "unstable"))]
mod collecting;
#[cfg(feature = "unstable")]
pub mod collecting;
pub mod dftl;
pub mod mapping;
pub mod page_map;
#[cfg(not(feature = "unstable"))]
mod table;
#[cfg(feature = "unstable")]
pub mod table;
mod told;
#[cfg(not(feature = "unstable"))]
mod untold;
#[cfg(feature = "unstable")]
pub mod untold;

pub use crate::blocks::spare::SPARE_BYTES;

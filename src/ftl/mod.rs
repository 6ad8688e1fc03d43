//! Flash translation layers: a [`PageStore`](crate::store::PageStore) on a chip, by page, block or both.

pub mod bast;
mod block_map;
mod cached;
pub mod cftl;
mod cmt;
mod collecting;
pub mod dftl;
pub mod fast;
pub mod hftl;
pub mod lazy;
mod log_map;
pub mod mapping;
pub mod nftl;
pub mod page_map;
pub mod sast;
pub mod superblock;
mod table;
pub mod tbm;
mod told;
mod untold;

pub use crate::blocks::spare::SPARE_BYTES;

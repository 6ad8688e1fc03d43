//! Flash translation layers of the literature: mapped by block or by both block and page, and the TBM.
//!
//! All but the TBM are [`Scheme`](nandex::ftl::mapping::Scheme)s on the ground of [`nandex::ftl::mapping`].

pub mod bast;
mod block_map;
pub mod cftl;
pub mod fast;
pub mod hftl;
pub mod lazy;
mod log_map;
pub mod nftl;
pub mod sast;
pub mod superblock;
pub mod tbm;

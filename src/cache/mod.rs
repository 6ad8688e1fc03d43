//! Page caches: frames in RAM over a [`PageStore`](crate::ftl::PageStore), and the replacement policies.

pub mod lru;

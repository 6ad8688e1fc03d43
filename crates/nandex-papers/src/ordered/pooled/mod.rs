//! Trees whose updates wait in RAM until many go to one leaf: the pool, and how each tree empties it.

pub mod lazy_update;
mod leaves;
pub mod ls_lru;
pub mod lsb;
pub mod mb;
pub mod pio;

pub(in crate::ordered) use leaves::require_none;

//! Trees whose updates wait on flash on their way to the leaves: their common ground, and the scheme of each.

pub mod bepsilon;
pub mod fd;
pub(crate) mod ground;
pub mod la;

pub use ground::{Common, MessageScheme, MessageTree, StorePages, ram_bytes_on};

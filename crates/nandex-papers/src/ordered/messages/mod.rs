//! Trees whose updates wait on flash, on their way to the leaves: the ground they share, and where each lets
//! them wait.

pub mod bepsilon;
pub mod fd;
pub(crate) mod ground;
pub mod la;

pub use ground::{Common, MessageScheme, MessageTree, StorePages, ram_bytes_on};

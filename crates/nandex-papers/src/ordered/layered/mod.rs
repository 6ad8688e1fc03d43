//! The buffered B-tree layers: their ground is one tree over one node layer, and each layer consists of
//! settings for it.

pub mod bftl;
pub mod bof;
pub mod flashdb;
mod ground;
pub mod ibsf;
pub mod rbftl;
pub mod wobf;

pub use crate::unit_layer::{CommitPolicy, Modes, Tuning};
pub use ground::{LayeredConfig, LayeredTree};

//! The spatial indexes by name.

mod layers;
pub mod registry;
pub mod trees;

pub use registry::{Number, SPATIAL, Space, SpatialEntry, spatial};
pub use trees::rect_of;

//! The integration tests of the crate as one program, which is linked once: a module for each subject. Tests
//! that need a process without others are in `alone`.

mod client;
mod common;
mod connections;
mod cuts;
mod extension;
mod extension_here;
mod figures;
mod full;
mod kept;
mod lives;
mod look;
mod measure;
mod model;
mod opened;
mod processes;
mod refusals;
#[path = "../../../../src/sizes.rs"]
mod sizes;

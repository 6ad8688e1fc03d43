//! The integration tests of the literature as one program: a module for each subject.

#[path = "../../../../src/inputs.rs"]
mod inputs;
mod invariants;
mod ipl;
mod placed;
mod raw_lives;
mod sensor_damage;
mod sensor_dying;
mod spatial;
mod store_nand;
mod stores;
mod trims;

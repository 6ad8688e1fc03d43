//! The integration tests of the engine as one program, which is linked once: a module for each subject.

mod chip_docs;
mod chip_model;
mod counted;
mod firmware_docs;
#[path = "../../src/inputs.rs"]
mod inputs;
mod look_ups;
mod mu_star;
mod opened;
mod page_map_damage;
mod peers_docs;
mod plow;
mod plow_room;
mod quoted;
mod services;
mod tidy;
mod tidy_circles;
mod tidy_parameters;
mod tidy_types;
mod torn_pages;
mod value_log_full;
mod value_log_older;
mod value_log_shapes;
mod variable_older;
mod write_amplification;

//! The integration tests of the crate as one program, which is linked once: a module for each subject.
//!
//! The heap is counted thread by thread, so that tests may run side by side.

mod corpus;
mod counts;
mod damage;
mod damage_cases;
mod experiment_schema;
mod field_docs;
mod full_after_cut;
mod geometry;
mod golden;
mod guarantees;
#[path = "../../../../src/inputs.rs"]
mod inputs;
mod options;
mod own_experiments;
mod power_cuts;
mod properties;
mod spatial;
mod texts;
mod torture;

use nandex_testkit::Heap;

#[global_allocator]
static HEAP: Heap = Heap;

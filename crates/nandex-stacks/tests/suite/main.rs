//! The integration tests of the crate as one program, which is linked once: a module for each subject.

mod boots;
mod ends;
mod extremes;
mod full;
mod kept;
mod less_ram;
mod loads;
mod nor;
mod odd_pages;
mod opened;
mod options;
mod options_docs;
mod ram_docs;
mod read_only;
mod room;
#[path = "../../../../src/sizes.rs"]
mod sizes;
mod small_nor;
mod unfit;
mod value_logs;
mod wear;

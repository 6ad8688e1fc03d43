//! The integration tests of the crate as one program, which is linked once: a module for each subject.

mod driver;
mod indexes;
mod places;

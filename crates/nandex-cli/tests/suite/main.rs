//! The integration tests of the crate as one program, which is linked once: a module for each subject.

mod advise;
mod cli;
mod device;
mod limits;
mod own;
mod spatial;
mod sqlite;
mod stores;
mod traces;
mod volume;

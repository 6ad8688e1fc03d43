//! Sweeps: the cross product of axes as cells. Each cell is run once and kept in a folder.
//!
//! A [`Request`] is one cell: one index on one chip over one workload with one seed. It is plain data, read
//! alike by the program, Python and a worker on another machine. A [`Grid`] lists values for the fields of a
//! request and yields a request for each combination. A [`Store`] is a folder with one file per cell, named
//! by the hash of all that influences the results. A stored cell is not run again.

mod grid;
mod hash;
mod outcome;
mod request;
mod run;
mod store;
mod table;
#[cfg(test)]
mod tests;

pub use grid::{Grid, Sweep};
pub use outcome::{AtEnd, CELL_SCHEMA, Figures, Outcome, Status};
pub use request::Request;
pub use run::{Look, Shard, SweepPlan, Tally, run};
pub use store::Store;
pub use table::{columns, write_csv};

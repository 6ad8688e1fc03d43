//! Sweeps: the cross product of axes as cells, each run once and kept in a folder.
//!
//! A [`Request`] is one cell: one index on one chip over one workload with one seed, as plain data that the
//! program, Python and a worker on another machine read alike. A [`Grid`] is lists of what requests have, and
//! yields a request for each combination. A [`Store`] is a folder with a file for each cell under the hash of
//! all that influences it: what is there need not run again.

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

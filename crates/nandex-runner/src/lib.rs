//! Drives an index or FTL: through workloads and traces, power cuts, and whole lives on failing chips.
//!
//! A [`workload`] (or a [`trace`] turned into one) is made ready for a key width by [`runner::Prepared`];
//! [`runner::run`] drives one index of the [`registry`] on one simulated chip through it,
//! [`parallel::run_all`] many at once; what that cost are [`results`].

pub mod block_trace;
pub mod bundle;
#[cfg(unix)]
pub mod capture;
pub mod chip;
pub mod compare;
pub mod crash;
pub mod data;
pub mod disks;
pub mod error;
pub mod import;
pub mod input;
#[cfg(test)]
#[path = "../../../src/inputs.rs"]
mod inputs;
pub mod keys;
pub mod latency;
pub mod machine;
pub mod model;
pub mod parallel;
pub mod quantities;
pub mod replay;
pub mod results;
pub mod runner;
#[cfg(any(test, feature = "sample"))]
pub mod sample;
pub mod single;
pub mod spatial;
pub mod stats;
pub mod tbm;
pub mod torture;
pub mod trace;
pub mod workload;

pub use error::LabError;

/// Whether this build has the engine's debug assertions. The releases of this repository and the profile
/// `campaign` have them.
pub const ASSERTIONS: &str =
    if cfg!(debug_assertions) { "debug assertions on" } else { "debug assertions off" };

pub use nandex_stacks::{forest, names, needed, options, registry};

//! The lab: workloads, traces, experiments, metrics and reports for flash indexes.
//!
//! A [`workload`] (or a [`trace`] turned into one) is made ready for a key width by [`runner::Prepared`];
//! [`runner::run`] drives one index of the [`registry`] on one simulated chip through it,
//! [`parallel::run_all`] many at once; the [`results`] go to files by [`record`] and into claims by
//! [`stats`].

pub mod advise;
pub mod analysis;
pub mod block_trace;
pub(crate) mod bundle;
#[cfg(unix)]
pub mod capture;
pub mod chip;
pub mod compare;
pub mod counts;
pub mod crash;
pub mod data;
pub mod disks;
pub mod error;
pub mod experiment;
pub mod import;
pub mod input;
#[cfg(test)]
#[path = "../../../src/inputs.rs"]
mod inputs;
pub mod inspect;
pub mod keys;
pub mod latency;
pub mod machine;
pub mod model;
pub mod parallel;
pub mod quantities;
pub mod record;
pub mod replay;
pub mod repro;
pub mod results;
pub mod runner;
#[cfg(any(test, feature = "sample"))]
pub mod sample;
pub mod spatial;
pub mod stats;
pub mod sweep;
pub mod tbm;
pub mod torture;
pub mod totals;
pub mod trace;
pub mod workload;

pub use advise::advise;
pub use error::LabError;
pub use nandex_stacks::{forest, names, needed, options, registry};

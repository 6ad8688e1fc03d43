//! The lab: workloads, traces, experiments, metrics and reports for flash indexes.

pub mod chip;
pub mod error;
pub mod names;
pub mod registry;
pub mod results;
pub mod trace;
pub mod workload;

pub use error::LabError;

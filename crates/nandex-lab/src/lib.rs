//! The lab: workloads, traces, experiments, metrics and reports for flash indexes.

pub mod analysis;
pub mod chip;
pub mod error;
pub mod experiment;
pub mod keys;
pub mod model;
pub mod names;
pub mod parallel;
pub mod record;
pub mod registry;
pub mod repro;
pub mod results;
pub mod runner;
pub mod stats;
pub mod trace;
pub mod workload;

pub use error::LabError;

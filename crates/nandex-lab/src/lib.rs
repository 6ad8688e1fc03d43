//! The lab: workloads, traces, experiments, metrics and reports for flash indexes.

pub mod chip;
pub mod compare;
pub mod error;
pub mod inspect;
pub mod keys;
pub mod model;
pub mod names;
pub mod parallel;
pub mod record;
pub mod registry;
pub mod report;
pub mod results;
pub mod runner;
pub mod stats;
pub mod trace;
pub mod workload;

pub use error::LabError;

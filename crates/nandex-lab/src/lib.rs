//! The lab: workloads, traces, experiments, metrics and reports for flash indexes.

pub mod results;

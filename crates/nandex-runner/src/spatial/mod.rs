//! The lab for spatial indexes: data, workloads, runs, comparisons and maps.
//!
//! A [`data::Dataset`] becomes a [`workload::SpatialWorkload`]; [`runner::run`] drives one index of the
//! [`registry`] on one chip or disk through it, a [`Comparison`](crate::compare::Comparison) of
//! [`compare::Spatial`] several, with the results, table and report of every other comparison.

pub mod compare;
pub mod data;
pub mod growth;
pub mod map;
mod model;
pub mod query;
pub mod runner;
mod subject;
#[cfg(test)]
mod tests;
pub mod workload;

pub use model::Answer;
pub use nandex_stacks::spatial::{SPATIAL, SpatialEntry, rect_of, registry, spatial};
pub use subject::{found_in, found_near, with_domain};

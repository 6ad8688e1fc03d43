//! Equations of the papers as functions, to compare with measurements.

pub mod mu;

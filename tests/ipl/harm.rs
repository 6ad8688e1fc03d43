//! Harm.

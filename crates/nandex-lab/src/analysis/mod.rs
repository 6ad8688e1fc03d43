//! The papers' derivations: their equations as functions, to be held against what is measured.

pub mod mu;

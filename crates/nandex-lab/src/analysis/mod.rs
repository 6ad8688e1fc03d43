//! What the papers derive on paper: their equations as functions, to be held against what is measured.

pub mod mu;

//! Runs of a single tree in set-ups that no option offers: for the counts of a paper or of its authors'
//! program, and for the costs of plow phase by phase.

pub mod ls_lru;
pub mod plow;
pub mod vm;
pub mod wpcb;

/// The figures of a run by name.
pub type Figures = Vec<(String, f64)>;

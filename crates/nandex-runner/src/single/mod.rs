//! One tree in a set-up that no option names: what a paper or its authors' program counts, and what plow
//! costs phase by phase.

pub mod ls_lru;
pub mod plow;
pub mod vm;
pub mod wpcb;

/// Figures of a run with their names.
pub type Figures = Vec<(String, f64)>;

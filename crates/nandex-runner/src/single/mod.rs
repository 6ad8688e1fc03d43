//! One tree in a set-up that no option names: what a paper or its authors' program counts, and what plow
//! costs phase by phase.

pub mod ls_lru;
pub mod plow;
pub mod vm;
pub mod wpcb;

/// The figures of a run by name.
pub type Figures = Vec<(String, f64)>;

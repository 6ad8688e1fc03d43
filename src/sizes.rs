//! The two sizes of a test: the gate judges a sample, the nightly run everything. Programs of tests include
//! this file by its path.

/// The environment variable of the nightly run.
const NIGHTLY: &str = "NANDEX_NIGHTLY";

/// The step of a sweep: the gate judges one case in so many, the nightly run each one.
#[allow(dead_code, reason = "not every target that includes this file sweeps")]
pub(crate) fn stride(gate: usize) -> usize {
    sized(gate, 1)
}

/// The size of a test: the gate's, or the nightly run's.
#[allow(dead_code, reason = "not every target that includes this file has tests of two sizes")]
pub(crate) fn sized<T>(gate: T, nightly: T) -> T {
    if std::env::var_os(NIGHTLY).is_some() { nightly } else { gate }
}

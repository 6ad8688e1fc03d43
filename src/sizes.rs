//! The two sizes of a test: the gate runs a sample, the nightly run everything. Test programs include this
//! file by its path.

/// Name of the environment variable of the nightly run.
const NIGHTLY: &str = "NANDEX_NIGHTLY";

/// Returns the step of a sweep: `gate` in the gate, 1 in the nightly run.
#[allow(dead_code, reason = "not every target that includes this file sweeps")]
pub(crate) fn stride(gate: usize) -> usize {
    sized(gate, 1)
}

/// Returns the size of a test: `gate` in the gate, `nightly` in the nightly run.
#[allow(dead_code, reason = "not every target that includes this file has tests of two sizes")]
pub(crate) fn sized<T>(gate: T, nightly: T) -> T {
    if std::env::var_os(NIGHTLY).is_some() { nightly } else { gate }
}

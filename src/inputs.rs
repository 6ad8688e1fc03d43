//! The random inputs of the property tests: the same in every run, on every machine.
//!
//! A gate that draws new inputs fails newcomers by chance and lets bugs land by chance. Every `proptest!` of
//! the project takes its configuration from [`fixed`], and `tests/suite/tidy.rs` refuses one that does not;
//! properties that draw for themselves do so from the seeds of [`cases`].
//! New inputs are for exploration: `NANDEX_SEED=7 cargo test` draws others, and what they find becomes a case
//! of its own. Programs of tests include this file by its path.

use proptest::test_runner::{Config, RngSeed};

/// The seed of the gate.
const SEED: u64 = 0x6e61_6e64_6578;

/// The environment variable that replaces the gate's seed by another number.
const VARIABLE: &str = "NANDEX_SEED";

/// The environment variable of the nightly run.
const NIGHTLY: &str = "NANDEX_NIGHTLY";

/// The step of a sweep: the gate judges one case in so many, the nightly run each one.
#[allow(dead_code, reason = "not every target that includes this file sweeps")]
pub(crate) fn stride(gate: usize) -> usize {
    if std::env::var_os(NIGHTLY).is_some() { 1 } else { gate }
}

/// The gate's seed, or the one that replaces it.
///
/// # Panics
///
/// Where `NANDEX_SEED` is set and no number of 64 bits.
fn seed() -> u64 {
    std::env::var(VARIABLE).map_or(SEED, |text| match text.parse() {
        Ok(seed) => seed,
        Err(error) => panic!("{VARIABLE}={text}: {error}"),
    })
}

/// Names the case in which a property fails.
struct Case(u64);

impl Drop for Case {
    #[allow(clippy::print_stderr, reason = "a test says where it failed")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::eprintln!("case {} of {VARIABLE}={}", self.0, seed());
        }
    }
}

/// Asks a property for so many cases, each with a seed of its own for all that it draws; one that fails is
/// named.
#[allow(dead_code, reason = "not every target that includes this file has such properties")]
pub(crate) fn cases(count: u64, mut property: impl FnMut(u64)) {
    for case in 0..count {
        let named = Case(case);
        property(seed() ^ case.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        drop(named);
    }
}

/// The configuration of a property test: as many inputs as `cases`, drawn from the gate's seed. A failure
/// prints its input and leaves no file behind: the same run finds it again.
///
/// # Panics
///
/// Where `NANDEX_SEED` is set and no number of 64 bits.
pub(crate) fn fixed(cases: u32) -> Config {
    Config { cases, rng_seed: RngSeed::Fixed(seed()), failure_persistence: None, ..Config::default() }
}

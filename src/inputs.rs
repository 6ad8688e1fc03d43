//! The random inputs of the property tests: the same in every run, on every machine.
//!
//! If a gate drew new inputs, it would fail newcomers by chance, and let bugs pass by chance. Every
//! `proptest!` of the project takes its configuration from [`fixed`], and `tests/suite/tidy.rs` refuses one
//! that does not. Properties that draw for themselves use the seeds of [`cases`].
//!
//! New inputs are for exploration: `NANDEX_SEED=7 cargo test` draws others, and a failure that they find
//! becomes a test of its own. Test programs include this file by its path.

use proptest::test_runner::{Config, RngSeed};

#[path = "sizes.rs"]
#[allow(clippy::duplicate_mod, reason = "the judges of `testing` have it too, in the engine's own tests")]
mod sizes;

#[allow(unused_imports, reason = "not every target that includes this file has tests of two sizes")]
pub(crate) use sizes::{sized, stride};

/// Seed of the gate.
const SEED: u64 = 0x6e61_6e64_6578;

/// Name of the environment variable that replaces the seed of the gate.
const VARIABLE: &str = "NANDEX_SEED";

/// Returns the seed of the gate, or the one that replaces it.
///
/// # Panics
///
/// Panics if `NANDEX_SEED` is set and is no number of 64 bits.
fn seed() -> u64 {
    std::env::var(VARIABLE).map_or(SEED, |text| match text.parse() {
        Ok(seed) => seed,
        Err(error) => panic!("{VARIABLE}={text}: {error}"),
    })
}

/// Prints the case in which a property fails.
struct Case(u64);

impl Drop for Case {
    #[allow(clippy::print_stderr, reason = "a test says where it failed")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::eprintln!("case {} of {VARIABLE}={}", self.0, seed());
        }
    }
}

/// Calls a property for `all` cases in the nightly run, and for a sixth of them in the gate. Each case has a
/// seed of its own. A failing case is printed.
#[allow(dead_code, reason = "not every target that includes this file has such properties")]
pub(crate) fn cases(all: u64, mut property: impl FnMut(u64)) {
    for case in 0..sized(all.div_ceil(6), all) {
        let named = Case(case);
        property(seed() ^ case.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        drop(named);
    }
}

/// Returns the configuration of a property test: `all` inputs in the nightly run and a sixth of them in the
/// gate, drawn from the seed of the gate. A failure prints its input and leaves no file behind: the same run
/// finds it again.
///
/// # Panics
///
/// Panics if `NANDEX_SEED` is set and is no number of 64 bits.
pub(crate) fn fixed(all: u32) -> Config {
    let cases = sized(all.div_ceil(6), all);
    Config { cases, rng_seed: RngSeed::Fixed(seed()), failure_persistence: None, ..Config::default() }
}

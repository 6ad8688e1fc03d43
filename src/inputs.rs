//! The random inputs of the property tests: the same in every run, on every machine.
//!
//! A gate that draws new inputs fails newcomers by chance and lets bugs land by chance. Every `proptest!` of
//! the project takes its configuration from [`fixed`], and `tests/suite/tidy.rs` refuses one that does not.
//! New inputs are for exploration: `NANDEX_SEED=7 cargo test` draws others, and what they find becomes a case
//! of its own. Programs of tests include this file by its path.

use proptest::test_runner::{Config, RngSeed};

#[path = "sizes.rs"]
mod sizes;

#[allow(unused_imports, reason = "not every target that includes this file has tests of two sizes")]
pub(crate) use sizes::{cases, stride};

/// The seed of the gate.
const SEED: u64 = 0x6e61_6e64_6578;

/// The environment variable that replaces the gate's seed by another number.
const VARIABLE: &str = "NANDEX_SEED";

/// The configuration of a property test: `all` inputs in the nightly run and a third of them in the gate, drawn
/// from the gate's seed. A failure prints its input and leaves no file behind: the same run finds it again.
///
/// # Panics
///
/// Where `NANDEX_SEED` is set and no number of 64 bits.
pub(crate) fn fixed(all: u32) -> Config {
    let seed = std::env::var(VARIABLE).map_or(SEED, |text| match text.parse() {
        Ok(seed) => seed,
        Err(error) => panic!("{VARIABLE}={text}: {error}"),
    });
    let cases = cases(all.div_ceil(3), all);
    Config { cases, rng_seed: RngSeed::Fixed(seed), failure_persistence: None, ..Config::default() }
}

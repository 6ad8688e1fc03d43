//! The lab: experiments, sweeps, claims and advice about flash indexes.
//!
//! What drives one index through a workload is `nandex-runner`, whose rooms are shown here too: a
//! [`workload`] made ready by [`runner::Prepared`] is run by [`runner::run`] on one simulated chip, by
//! [`parallel::run_all`] on many at once. An [`experiment`] is a folder that says what to run and what the
//! papers claim of it; its [`results`] go to files by [`record`].

pub mod advise;
pub mod analysis;
pub mod counts;
pub mod experiment;
pub mod inspect;
pub mod record;
pub mod repro;
pub mod sweep;
pub mod totals;

pub use advise::advise;
#[cfg(unix)]
pub use nandex_runner::capture;
#[cfg(any(test, feature = "sample"))]
pub use nandex_runner::sample;
pub use nandex_runner::{
    ASSERTIONS, LabError, block_trace, chip, compare, crash, data, disks, error, forest, import, input, keys,
    latency, machine, model, names, needed, options, parallel, quantities, registry, replay, results, runner,
    spatial, stats, tbm, torture, trace, workload,
};
pub(crate) use nandex_runner::{bundle, single};

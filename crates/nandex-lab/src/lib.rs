//! The lab: experiments, sweeps, claims and advice about flash indexes.
//!
//! The crate `nandex-runner` drives one index through a workload; its modules are re-exported here. A
//! [`workload`] is prepared by [`runner::Prepared`] and run by [`runner::run`] on one simulated chip, or by
//! [`parallel::run_all`] on many at once. An [`experiment`] is a folder that defines runs and holds the
//! papers' claims. Its [`results`] are written to files by [`record`].

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

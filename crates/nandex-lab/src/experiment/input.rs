//! Where the operations of an experiment come from: a generator, a full trace on disk, or the bundled cut of one.

use super::definition::{Input, Smoke, TraceInput};
use crate::LabError;
use crate::bundle::Bundle;
use crate::data;
use crate::trace::{Trace, TraceOptions};
use crate::workload::{Workload, workload};
use nandex_stacks::options::Options;
use std::path::Path;

/// The origin of a workload, when it is not what the experiment names.
#[derive(Clone, Debug, Default)]
pub(super) struct Origin {
    /// A part of it, which can show how the experiment works but not what comes out.
    pub(super) stand_in: Option<String>,
    /// Others of the same kind and number, which do as well.
    pub(super) substitute: Option<String>,
}

/// A workload found, or why there is none.
pub(super) enum Found {
    Workload { workload: Workload, origin: Origin },
    Missing(String),
}

/// The seeds an input is run with: a trace has one.
pub(super) fn seeds(input: &Input, seeds: &[u64]) -> Vec<u64> {
    if input.trace.is_some() { vec![0] } else { seeds.to_vec() }
}

/// The workload of an input.
pub(super) fn find(
    input: &Input,
    seed: u64,
    smoke: Option<&Smoke>,
    data: Option<&Path>,
) -> Result<Found, LabError> {
    if let Some(trace) = &input.trace {
        return find_trace(trace, smoke, data);
    }
    let name = input.workload.as_deref().unwrap_or_default();
    let mut options = Options::default();
    let smaller = smoke.map(|smoke| &smoke.options).into_iter().flatten();
    input.options.iter().chain(smaller).for_each(|(name, value)| options.set(name, value));
    let workload = workload(name)?.build_from(seed, &options, data)?;
    let auto = input.options.get("source").is_none_or(|source| source == "auto");
    let is_substitute = auto && workload.options.get("source").is_some_and(|source| source == "words");
    let substitute = is_substitute.then(|| String::from("the bundled words, for authors.tsv is not at hand"));
    Ok(Found::Workload { workload, origin: Origin { substitute, ..Origin::default() } })
}

fn find_trace(trace: &TraceInput, smoke: Option<&Smoke>, data: Option<&Path>) -> Result<Found, LabError> {
    let TraceInput { operations, descending_flag, .. } = *trace;
    let options = TraceOptions { operations, descending_flag, ..TraceOptions::default() };
    let stand_in = |why: String| Origin { stand_in: Some(why), ..Origin::default() };
    let bundle = Bundle::of(&trace.file);
    if let Some(smoke) = smoke {
        let bundle = bundle.unwrap_or(Bundle::any());
        let workload = bundle.beginning(&TraceOptions { operations: smoke.trace_operations, ..options })?;
        let origin = stand_in(String::from("the first operations of the bundled cut"));
        return Ok(Found::Workload { workload, origin });
    }
    let reason = match data::find(&trace.file, data) {
        Ok(path) => {
            let workload = Trace::read(&path, &options)?.workload(&options);
            return Ok(Found::Workload { workload, origin: Origin::default() });
        }
        Err(reason) => reason,
    };
    let Some(bundle) = bundle.filter(|bundle| trace.bundled_cut || bundle.is_whole) else {
        return Ok(Found::Missing(reason));
    };
    let origin = match (bundle.is_whole, trace.judge_cut) {
        (true, _) => Origin::default(),
        (false, false) => stand_in(format!("the bundled cut, for {reason}")),
        (false, true) => {
            Origin { substitute: Some(format!("the bundled cut, for {reason}")), ..Origin::default() }
        }
    };
    Ok(Found::Workload { workload: bundle.workload(&options)?, origin })
}

//! Finds the operations of an experiment: a generator, a full trace on disk, or the bundled part of a trace.

use super::definition::{Definition, Input, Smoke, Source, TraceInput};
use crate::LabError;
use crate::bundle::Bundle;
use crate::data;
use crate::trace::{Trace, TraceOptions};
use crate::workload::{Workload, workload};
use nandex_stacks::options::Options;
use std::path::{Path, PathBuf};

/// The origin of a workload, if it is not the one that the experiment names.
#[derive(Clone, Debug, Default)]
pub(super) struct Origin {
    /// A stand-in: a part of the input named. It shows that the experiment works, not its results.
    pub(super) stand_in: Option<String>,
    /// A substitute: other data of the same kind and number, which is as good.
    pub(super) substitute: Option<String>,
}

/// The places where traces and chip files are looked for: the folder of a user's own experiment, then those
/// of [`data::find`].
pub(super) struct Places<'a> {
    source: &'a Source,
    data: Option<&'a Path>,
}

impl<'a> Places<'a> {
    pub(super) fn of(definition: &'a Definition, data: Option<&'a Path>) -> Places<'a> {
        Places { source: &definition.source, data }
    }

    /// Finds a file. The error lists the places searched.
    pub(super) fn find(&self, file: &str) -> Result<PathBuf, String> {
        let elsewhere = |reason: String| match &self.source.folder {
            Some(folder) => format!("{reason}; nor is it beside the experiment, in '{}'", folder.display()),
            None => reason,
        };
        self.source.beside(file).map_or_else(|| data::find(file, self.data).map_err(elsewhere), Ok)
    }
}

/// A workload, or the reason why it is missing.
pub(super) enum Found {
    Workload { workload: Workload, origin: Origin },
    Missing(String),
}

/// The seeds with which an input runs. A trace has one.
pub(super) fn seeds(input: &Input, seeds: &[u64]) -> Vec<u64> {
    if input.trace.is_some() { vec![0] } else { seeds.to_vec() }
}

pub(super) fn find(
    input: &Input,
    seed: u64,
    smoke: Option<&Smoke>,
    places: &Places<'_>,
) -> Result<Found, LabError> {
    if let Some(trace) = &input.trace {
        return find_trace(trace, smoke, places);
    }
    let name = input.workload.as_deref().unwrap_or_default();
    let mut options = Options::default();
    let smaller = smoke.map(|smoke| &smoke.options).into_iter().flatten();
    input.options.iter().chain(smaller).for_each(|(name, value)| options.set(name, value));
    let workload = workload(name)?.build_from(seed, &options, places.data)?;
    let auto = input.options.get("source").is_none_or(|source| source == "auto");
    let is_substitute = auto && workload.options.get("source").is_some_and(|source| source == "words");
    let substitute = is_substitute.then(|| String::from("the bundled words, for authors.tsv is not at hand"));
    Ok(Found::Workload { workload, origin: Origin { substitute, ..Origin::default() } })
}

fn find_trace(trace: &TraceInput, smoke: Option<&Smoke>, places: &Places<'_>) -> Result<Found, LabError> {
    let TraceInput { operations, descending_flag, .. } = *trace;
    let options = TraceOptions { operations, descending_flag, ..TraceOptions::default() };
    let stand_in = |why: String| Origin { stand_in: Some(why), ..Origin::default() };
    let bundle = Bundle::of(&trace.file).or_else(|| Bundle::named(&trace.file));
    if let Some(smoke) = smoke {
        let options = TraceOptions { operations: smoke.trace_operations.or(operations), ..options };
        if let Some(path) = places.source.beside(&trace.file) {
            let workload = Trace::read(&path, &options)?.workload(&options);
            let origin = stand_in(String::from("the first operations of the trace"));
            return Ok(Found::Workload { workload, origin });
        }
        let origin = match bundle {
            Some(_) => stand_in(String::from("the first operations of the bundled cut")),
            None => stand_in(format!(
                "{}, not {}: the first operations of the bundled cut, which show that the experiment works and nothing else",
                Bundle::any().name,
                trace.file
            )),
        };
        let workload = bundle.unwrap_or(Bundle::any()).beginning(&options)?;
        return Ok(Found::Workload { workload, origin });
    }
    let reason = match places.find(&trace.file) {
        Ok(path) => {
            let workload = Trace::read(&path, &options)?.workload(&options);
            return Ok(Found::Workload { workload, origin: Origin::default() });
        }
        Err(reason) => reason,
    };
    if let Some(bundle) = Bundle::named(&trace.file) {
        return Ok(Found::Workload { workload: bundle.workload(&options)?, origin: Origin::default() });
    }
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

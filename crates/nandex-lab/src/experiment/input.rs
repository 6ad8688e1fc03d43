//! Where the operations of an experiment come from: a generator, a full trace on disk, or the bundled cut of one.

use super::definition::{Input, Smoke, TraceInput};
use crate::LabError;
use crate::data;
use crate::trace::{Record, Trace, TraceOptions, ops1};
use crate::workload::{Workload, workload};
use nandex::ordered::Options;
use std::collections::BTreeSet;
use std::path::Path;

/// The cut of the kernel compile trace that comes with the program, and its initial contents.
const CUT: &[u8] = include_bytes!("../../../../data/kernel_compile.ops.zst");
const CUT_INIT: &[u8] = include_bytes!("../../../../data/kernel_compile.init.ops.zst");

/// What a workload is made from, when it is not what the experiment names.
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
    if let Some(smoke) = smoke {
        return bundled(smoke.trace_operations, "the first operations of the bundled cut".into());
    }
    let reason = match data::find(&trace.file, data) {
        Ok(path) => {
            let TraceInput { operations, descending_flag, .. } = *trace;
            let options = TraceOptions { operations, descending_flag, ..TraceOptions::default() };
            let workload = Trace::read(&path, &options)?.workload(&options);
            return Ok(Found::Workload { workload, origin: Origin::default() });
        }
        Err(reason) => reason,
    };
    if trace.bundled_cut {
        return bundled(None, format!("the bundled cut, for {reason}"));
    }
    Ok(Found::Missing(reason))
}

/// The bundled cut, or as many of its first operations and the initial contents they touch.
fn bundled(operations: Option<u64>, stand_in: String) -> Result<Found, LabError> {
    let limit = operations.unwrap_or(u64::MAX) as usize;
    let records = unpack("data/kernel_compile.ops.zst", CUT, limit)?;
    let mut init = unpack("data/kernel_compile.init.ops.zst", CUT_INIT, usize::MAX)?;
    if operations.is_some() {
        let touched: BTreeSet<u64> = records.iter().map(|record| record.key).collect();
        init.retain(|record| touched.contains(&record.key));
    }
    let trace = Trace { name: String::from("kernel_compile"), init, records };
    let workload = trace.workload(&TraceOptions { operations, ..TraceOptions::default() });
    Ok(Found::Workload { workload, origin: Origin { stand_in: Some(stand_in), ..Origin::default() } })
}

fn unpack(name: &str, packed: &[u8], limit: usize) -> Result<Vec<Record>, LabError> {
    let input = zstd::stream::read::Decoder::new(packed).map_err(|error| LabError::io(name, error))?;
    let mut reader = ops1::Reader::new(std::io::BufReader::new(input));
    let records = reader.by_ref().take(limit).collect::<Result<_, _>>();
    records.map_err(|reason| LabError::Trace { file: name.to_string(), place: Some(reader.place()), reason })
}

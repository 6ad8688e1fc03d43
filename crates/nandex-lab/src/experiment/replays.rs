//! Page traces as cells: each replayed on FTLs and on FTLs behind a TBM ([`crate::replay`]), which judges
//! stores by the pages that a tree asked for, without the tree.
//!
//! A cell is called `traces/TRACE/DEVICE`. All devices of an experiment have the same chip and use the same
//! logical pages. Where a full trace is not there, the bundled cut stands in.

use super::definition::{Definition, Device as DeviceInput, PageTrace, Replays};
use super::input::Places;
use super::results::CellResult;
use super::{RunPlan, find_chip};
use crate::block_trace::place::Placing;
use crate::block_trace::{BlockTrace, BlockTraceOptions};
use crate::bundle::PageBundle;
use crate::replay::{Device, Fill, Replay, ReplayRun};
use crate::results::ChipFacts;
use crate::runner::Control;
use crate::stats::Summary;
use crate::{LabError, tbm};
use nandex_stacks::options::Options;
use std::collections::BTreeMap;

pub(super) fn cells(
    definition: &Definition,
    plan: &RunPlan,
    control: &Control,
) -> Result<Vec<CellResult>, LabError> {
    let Some(replays) = &definition.replay else { return Ok(Vec::new()) };
    let smaller = definition.smoke.blocks.filter(|_| plan.smoke);
    let part = find_chip(definition)?;
    let part = smaller.map_or_else(|| part.clone(), |blocks| part.clone().with_blocks(blocks));
    let mut cells = Vec::new();
    for trace in &replays.traces {
        let found = match find(trace, definition, plan)? {
            Ok(found) => found,
            Err(missing) => {
                let row = |device: &DeviceInput| CellResult {
                    missing: Some(missing.clone()),
                    ..row(trace, device)
                };
                cells.extend(replays.devices.iter().map(row));
                continue;
            }
        };
        let replay = Replay {
            part: part.clone(),
            trace: found.trace,
            trace_file: trace.file.clone(),
            devices: replays.devices.iter().map(device).collect::<Result<_, _>>()?,
            placing: Placing::Compact,
            fill: Fill::None,
            ram_bytes: None,
            options: Options::default(),
            threads: plan.threads,
            command: plan.command(definition),
        };
        let results = replay.run(control)?;
        let measured = |(device, run): (&DeviceInput, ReplayRun)| CellResult {
            chip: Some(ChipFacts::of(&part)),
            stand_in: found.stand_in.clone(),
            figures: figures(&run),
            missing: run.error,
            ..row(trace, device)
        };
        cells.extend(replays.devices.iter().zip(results.runs).map(measured));
    }
    Ok(cells)
}

/// A trace that was found, with a note if it is not the one named.
struct Found {
    trace: BlockTrace,
    stand_in: Option<String>,
}

/// Finds the full trace, or its bundled part, or the reason why both are missing.
fn find(
    trace: &PageTrace,
    definition: &Definition,
    plan: &RunPlan,
) -> Result<Result<Found, String>, LabError> {
    let bundle = PageBundle::of(&trace.file);
    let reason = match Places::of(definition, plan.data.as_deref()).find(&trace.file) {
        _ if plan.smoke => String::from("the smoke size takes no more"),
        Ok(path) => {
            let trace = BlockTrace::read(&path, &BlockTraceOptions::default())?;
            return Ok(Ok(Found { trace, stand_in: None }));
        }
        Err(reason) => reason,
    };
    let Some(bundle) = bundle else { return Ok(Err(reason)) };
    let limit = definition.smoke.trace_operations.filter(|_| plan.smoke);
    let is_whole = bundle.is_whole && limit.is_none();
    let stand_in = (!is_whole).then(|| format!("the bundled cut, for {reason}"));
    Ok(Ok(Found { trace: bundle.read(limit)?, stand_in }))
}

/// An FTL with the options of the experiment. An unknown option is refused.
fn device(input: &DeviceInput) -> Result<Device, LabError> {
    let entry = tbm::find(&input.ftl)?;
    let mut options = Options::default();
    input.options.iter().for_each(|(name, value)| options.set(name, value));
    nandex_stacks::options::sharing::resolve(entry.options, &options)?;
    Ok(Device::Tuned { name: input.name.clone(), entry, options })
}

/// The row of a cell before it is measured.
fn row(trace: &PageTrace, device: &DeviceInput) -> CellResult {
    CellResult {
        name: format!("{}/{}/{}", Replays::CELLS, trace.name, device.name),
        input: trace.name.clone(),
        contender: device.name.clone(),
        index: device.ftl.clone(),
        ..CellResult::default()
    }
}

/// Figures of a device under a trace, with units in their names.
fn figures(run: &ReplayRun) -> BTreeMap<String, Summary> {
    let counts = [
        ("host_page_reads", run.host_page_reads),
        ("host_page_writes", run.host_page_writes),
        ("page_reads", run.page_reads),
        ("page_programs", run.page_programs),
        ("block_erases", run.block_erases),
        ("switch_merges", run.switch_merges),
        ("partial_merges", run.partial_merges),
        ("full_merges", run.full_merges),
        ("collections", run.collections),
        ("ram_bytes", run.ram_bytes),
        ("block_erases_max", run.wear.max_erases.into()),
    ];
    let converter = [
        ("converted_blocks", run.conversions),
        ("converted_pages", run.converted_pages),
        ("dropped_pages", run.dropped_pages),
    ];
    let converter = converter.into_iter().filter(|_| run.division.is_some());
    let counts = counts.into_iter().chain(converter).map(|(figure, count)| (figure, count as f64));
    let others = [
        ("flash_time_s", run.device_time_ns as f64 / 1e9),
        ("write_amplification", run.write_amplification),
        ("latency_p999_ms", run.latency.p999_ns as f64 / 1e6),
        ("latency_max_ms", run.latency.max_ns as f64 / 1e6),
    ];
    let exact = |(figure, value): (&str, f64)| (figure.to_string(), Summary::exact(value));
    counts.chain(others).map(exact).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment;

    #[test]
    fn a_trace_that_is_not_there_is_stood_in_for_unless_it_is_bundled_whole() {
        let folder = tempfile::tempdir().unwrap();
        let plan = RunPlan { data: Some(folder.path().into()), ..RunPlan::default() };
        let definition = &experiment::find("wpcb-page-traces").unwrap().definition;
        let replays = definition.replay.as_ref().unwrap();
        let found = |name: &str| {
            let trace = replays.traces.iter().find(|trace| trace.name == name).unwrap();
            find(trace, definition, &plan).unwrap().unwrap().stand_in
        };
        assert!(found("rs0").unwrap().starts_with("the bundled cut, for btree_io_rs0.csv.zst is not in"));
        assert_eq!(found("rs1"), None);
        let other = PageTrace { name: "other".to_string(), file: "other.csv".to_string() };
        assert!(
            find(&other, definition, &plan).unwrap().is_err_and(|why| why.contains("other.csv is not in"))
        );
    }

    #[test]
    fn every_device_does_the_same_work_in_a_smoke_run() {
        let plan = RunPlan { smoke: true, threads: 2, ..RunPlan::default() };
        let results = experiment::run("wpcb-page-traces", &plan, &Control::default()).unwrap();
        let replays = results.definition.replay.as_ref().unwrap();
        assert_eq!(results.cells.len(), replays.traces.len() * replays.devices.len());
        for cell in &results.cells {
            assert_eq!(cell.missing, None, "{}", cell.name);
            assert!(cell.stand_in.is_some());
            let of = |figure: &str| cell.figures[figure].mean;
            let alone = &results.cell(&format!("traces/{}/fast", cell.input)).unwrap().figures;
            for figure in ["host_page_reads", "host_page_writes"] {
                assert_eq!(of(figure), alone[figure].mean, "{}", cell.name);
            }
            assert!(of("page_programs") >= of("host_page_writes") && of("flash_time_s") > 0.0);
            assert_eq!(cell.figures.contains_key("converted_blocks"), cell.index.starts_with("tbm+"));
        }
    }
}

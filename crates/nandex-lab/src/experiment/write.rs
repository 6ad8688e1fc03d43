//! Writes the results of an experiment: `manifest.json` (definition of the runs), `raw.csv` (every figure of
//! every run), `summary.csv` (over the seeds), `pairs.csv` (contenders against the baseline, if there are
//! several seeds), `results.json` (all, with timelines and wear).

use super::figures;
use super::results::{CellResult, ExperimentResults};
use crate::LabError;
use crate::stats::Summary;
use serde_json::json;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// Writes everything as JSON, indented, with a newline at the end.
pub fn write_json(results: &ExperimentResults, mut out: impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut out, results)?;
    writeln!(out)
}

/// Writes a row for each figure of each run. A run that stopped early also has a row "error" with value 1.
pub fn write_raw_csv(results: &ExperimentResults, out: impl Write) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record([
        "experiment",
        "cell",
        "input",
        "variant",
        "contender",
        "index",
        "seed",
        "figure",
        "value",
    ])?;
    for cell in &results.cells {
        for run in &cell.runs {
            let seed = run.seed.to_string();
            let mut row = |figure: &str, value: f64| {
                csv.write_record(columns(results, cell, &[&seed, figure, &value.to_string()]))
            };
            let definition = &results.definition;
            for (figure, value) in cell.chip.iter().flat_map(|chip| figures::of_run(run, chip, definition)) {
                row(&figure, value)?;
            }
            if run.error.is_some() {
                row("error", 1.0)?;
            }
        }
        for (figure, value) in cell.figures.iter().filter(|_| cell.runs.is_empty()) {
            csv.write_record(columns(results, cell, &["", figure, &value.mean.to_string()]))?;
        }
    }
    csv.flush()
}

/// Writes a row for each figure of each cell, summarised over the seeds.
pub fn write_summary_csv(results: &ExperimentResults, out: impl Write) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    let head = [
        "experiment",
        "cell",
        "input",
        "variant",
        "contender",
        "index",
        "figure",
        "runs",
        "mean",
        "min",
        "max",
        "ci95",
    ];
    csv.write_record(head)?;
    for cell in &results.cells {
        for (figure, summary) in &cell.figures {
            let ci95 = summary.ci95.map_or_else(String::new, |half| half.to_string());
            let numbers = [summary.mean, summary.min, summary.max].map(|number| number.to_string());
            let [mean, min, max] = &numbers;
            let tail = [figure.as_str(), &summary.count.to_string(), mean, min, max, &ci95];
            csv.write_record(columns(results, cell, &tail))?;
        }
    }
    csv.flush()
}

/// Writes a row for each seed-by-seed comparison of a contender with the baseline.
pub fn write_pairs_csv(results: &ExperimentResults, out: impl Write) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    let head = [
        "experiment",
        "input",
        "variant",
        "contender",
        "against",
        "figure",
        "seeds",
        "difference_percent",
        "ci95_percent",
        "least_percent",
        "most_percent",
        "verdict",
    ];
    csv.write_record(head)?;
    for pair in &results.pairs {
        let Summary { count, mean, min, max, ci95 } = pair.difference_percent;
        let ci95 = ci95.map_or_else(String::new, |half| half.to_string());
        let [count, mean, min, max] = [count.to_string(), mean.to_string(), min.to_string(), max.to_string()];
        let name = &results.definition.name;
        let names = [name, &pair.input, &pair.variant, &pair.contender, &pair.against, &pair.figure];
        let verdict = pair.verdict.words();
        let row = names.map(String::as_str).into_iter().chain([&count, &mean, &ci95, &min, &max, verdict]);
        csv.write_record(row)?;
    }
    csv.flush()
}

fn columns<'a>(results: &'a ExperimentResults, cell: &'a CellResult, tail: &[&'a str]) -> Vec<&'a str> {
    let head =
        [&results.definition.name, &cell.name, &cell.input, &cell.variant, &cell.contender, &cell.index];
    head.into_iter().map(String::as_str).chain(tail.iter().copied()).collect()
}

/// Writes all files into a folder, which is made if needed.
pub fn write_folder(results: &ExperimentResults, folder: &Path) -> Result<(), LabError> {
    fs::create_dir_all(folder).map_err(|error| LabError::io(folder.display(), error))?;
    let file = |name: &str, write: &dyn Fn(&mut Vec<u8>) -> io::Result<()>| {
        let path = folder.join(name);
        let mut bytes = Vec::new();
        let written = write(&mut bytes).and_then(|()| fs::write(&path, bytes));
        written.map_err(|error| LabError::io(path.display(), error))
    };
    file("manifest.json", &|out| write_manifest(results, out))?;
    file("raw.csv", &|out| write_raw_csv(results, out))?;
    file("summary.csv", &|out| write_summary_csv(results, out))?;
    if !results.pairs.is_empty() {
        file("pairs.csv", &|out| write_pairs_csv(results, out))?;
    }
    file("results.json", &|out| write_json(results, out))
}

/// Writes the manifest: the definition of the runs without the measurements.
fn write_manifest(results: &ExperimentResults, out: &mut Vec<u8>) -> io::Result<()> {
    let cell = |cell: &CellResult| {
        json!({
            "name": cell.name, "chip": cell.chip, "workload": cell.workload, "log_blocks": cell.log_blocks,
            "stand_in": cell.stand_in, "substitute": cell.substitute, "missing": cell.missing,
            "errors": cell.failures().collect::<Vec<_>>(),
        })
    };
    let manifest = json!({
        "schema": results.schema,
        "nandex_version": results.nandex_version,
        "commit": results.commit,
        "command": results.command,
        "smoke": results.smoke,
        "seeds": results.seeds,
        "definition": results.definition,
        "cells": results.cells.iter().map(cell).collect::<Vec<_>>(),
    });
    serde_json::to_writer_pretty(&mut *out, &manifest)?;
    writeln!(out)
}

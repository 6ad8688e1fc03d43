//! A replay as files: JSON with everything, CSV with a row for each device.

use super::figures::{Latencies, ReplayResults, ReplayRun};
use crate::results::{CAUSE_COLUMNS, CauseCounts};
use std::io::{self, Write};

/// Writes the results as JSON, indented, with a newline at the end.
pub fn write_json(results: &ReplayResults, mut out: impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut out, results)?;
    writeln!(out)
}

/// The first columns of the CSV. The columns of operations by cause follow, such as `page_reads_host`.
pub const COLUMNS: [&str; 40] = [
    "trace",
    "chip",
    "device",
    "clock",
    "error",
    "requests",
    "host_page_reads",
    "host_page_writes",
    "host_page_trims",
    "partial_page_writes",
    "page_reads",
    "page_programs",
    "block_erases",
    "write_amplification_ratio",
    "switch_merges",
    "partial_merges",
    "full_merges",
    "collections",
    "moved_pages",
    "conversions",
    "converted_pages",
    "dropped_pages",
    "device_time_ns",
    "energy_nj",
    "latency_mean_ns",
    "latency_p50_ns",
    "latency_p99_ns",
    "latency_p999_ns",
    "latency_max_ns",
    "response_mean_ns",
    "response_p50_ns",
    "response_p99_ns",
    "response_p999_ns",
    "response_max_ns",
    "wear_min_erases",
    "wear_mean_erases",
    "wear_max_erases",
    "wear_deviation_erases",
    "mapping_bytes",
    "ram_bytes",
];

/// Writes the results as CSV. Columns of the chip are empty for a device without a chip.
pub fn write_csv(results: &ReplayResults, out: impl Write) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    let operations = ["page_reads", "page_programs", "block_erases"];
    let by_cause = operations.iter().flat_map(|o| CAUSE_COLUMNS.map(|cause| format!("{o}_{}", cause.name())));
    csv.write_record(COLUMNS.map(String::from).into_iter().chain(by_cause))?;
    for run in &results.runs {
        csv.write_record(row(results, run))?;
    }
    csv.flush()
}

fn row(results: &ReplayResults, run: &ReplayRun) -> Vec<String> {
    let mut cells = vec![
        results.trace.name.clone(),
        results.chip.name.clone(),
        run.device.clone(),
        run.clock.clone(),
        run.error.clone().unwrap_or_default(),
    ];
    let host = [
        run.requests,
        run.host_page_reads,
        run.host_page_writes,
        run.host_page_trims,
        run.partial_page_writes,
    ];
    cells.extend(host.map(|n| n.to_string()));
    let chip = |text: String| if run.has_chip { text } else { String::new() };
    cells.extend([run.page_reads, run.page_programs, run.block_erases].map(|n| chip(n.to_string())));
    cells.push(chip(format!("{:.4}", run.write_amplification)));
    let work = [run.switch_merges, run.partial_merges, run.full_merges, run.collections, run.moved_pages];
    cells.extend(work.map(|n| chip(n.to_string())));
    let converter = [run.conversions, run.converted_pages, run.dropped_pages];
    cells.extend(converter.map(|n| if run.division.is_some() { n.to_string() } else { String::new() }));
    cells.push(run.device_time_ns.to_string());
    cells.push(chip(run.energy_nj.to_string()));
    cells.extend(latencies(Some(&run.latency)));
    cells.extend(latencies(run.response.as_ref()));
    cells.push(chip(run.wear.min_erases.to_string()));
    cells.push(chip(format!("{:.3}", run.wear.mean_erases)));
    cells.push(chip(run.wear.max_erases.to_string()));
    cells.push(chip(format!("{:.3}", run.wear.deviation_erases)));
    cells.extend([run.mapping_bytes, run.ram_bytes].map(|n| chip(n.to_string())));
    let counts: [fn(&CauseCounts) -> u64; 3] = [|c| c.page_reads, |c| c.page_programs, |c| c.block_erases];
    let causes = counts.iter().flat_map(|count| {
        CAUSE_COLUMNS.map(|cause| run.causes.get(cause.name()).map_or(0, count).to_string())
    });
    cells.extend(causes.map(chip));
    cells
}

fn latencies(latencies: Option<&Latencies>) -> [String; 5] {
    match latencies {
        None => Default::default(),
        Some(l) => [l.mean_ns, l.p50_ns, l.p99_ns, l.p999_ns, l.max_ns].map(|ns| ns.to_string()),
    }
}

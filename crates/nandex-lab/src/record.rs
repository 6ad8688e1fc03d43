//! Results as files: JSON with everything, CSV with a row for each kind of operation of each phase of each
//! run.
//!
//! Both hold the same facts as the table and the report. Fields and columns are described in
//! `docs/metrics.md`.

use crate::results::{CAUSE_COLUMNS, CauseCounts, Costs, Phase, Results, Run};
use std::io::{self, Write};

/// Writes the results as JSON, indented, with a newline at the end.
pub fn write_json(results: &Results, mut out: impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut out, results)?;
    writeln!(out)
}

/// Writes the results as CSV. Each run and phase has a row per kind of operation and one of the kind
/// "total". Columns about a whole phase are filled only in the row "total". Mounts, the first change and the
/// first session after one are phases that are not measured, with the row "total" alone. A run that could not
/// start has one row with its error.
pub fn write_csv(results: &Results, out: impl Write) -> io::Result<()> {
    write_csv_of(std::slice::from_ref(results), out)
}

/// Writes several results as one CSV.
pub fn write_csv_of(all: &[Results], out: impl Write) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(header())?;
    for (results, run) in all.iter().flat_map(|results| results.runs.iter().map(move |run| (results, run))) {
        if run.phases.is_empty() {
            csv.write_record(row(results, run, None, ""))?;
        }
        for phase in &run.phases {
            for kind in phase.kinds.keys().copied().chain(["total"]) {
                csv.write_record(row(results, run, Some(phase), kind))?;
            }
        }
        for (name, costs) in after(run) {
            csv.write_record(row_after(results, run, name, &costs))?;
        }
    }
    csv.flush()
}

/// The costs measured after the phases of a run, by the names of their fields.
fn after(run: &Run) -> impl Iterator<Item = (&'static str, Costs)> {
    let all = [
        ("mount_closed", run.mount_closed),
        ("mount", run.mount),
        ("first_change", run.first_change),
        ("session", run.session),
    ];
    all.into_iter().filter_map(|(name, costs)| Some((name, costs?)))
}

fn row_after(results: &Results, run: &Run, name: &str, costs: &Costs) -> Vec<String> {
    let mut cells = run_cells(results, run);
    cells.extend([name, "false", "total"].map(String::from));
    cells.extend(cost_cells(costs));
    cells.resize(header().len(), String::new());
    cells
}

/// Columns before those of the causes.
const COLUMNS: [&str; 34] = [
    "workload",
    "chip",
    "key_bytes",
    "value_bytes",
    "ram_given_bytes",
    "index",
    "storage",
    "seed",
    "durability",
    "ram_bytes",
    "height_levels",
    "records",
    "live_pages",
    "space_amplification_ratio",
    "wear_min_erases",
    "wear_mean_erases",
    "wear_max_erases",
    "error",
    "phase",
    "measured",
    "kind",
    "operations",
    "page_reads",
    "page_programs",
    "block_erases",
    "flash_time_ns",
    "flash_time_max_ns",
    "flash_time_per_operation_ns",
    "write_amplification_ratio",
    "energy_nj",
    "cpu_ns",
    "collections",
    "cache_hits",
    "cache_misses",
];

/// Names of all columns, in order.
pub fn header() -> Vec<String> {
    let causes = CAUSE_COLUMNS.iter().flat_map(|cause| {
        ["page_reads", "page_programs", "block_erases"].map(|what| format!("{}_{what}", cause.name()))
    });
    COLUMNS.iter().map(|name| (*name).to_string()).chain(causes).collect()
}

fn row(results: &Results, run: &Run, phase: Option<&Phase>, kind: &str) -> Vec<String> {
    let mut cells = run_cells(results, run);
    match phase {
        Some(phase) => {
            cells.extend([phase.name.clone(), phase.measured.to_string(), kind.to_string()]);
            let costs = phase.kinds.get(kind).copied().unwrap_or(phase.total);
            cells.extend(cost_cells(&costs));
            if kind == "total" {
                cells.extend(phase_cells(phase));
            }
        }
        None => cells.extend([String::new(), String::new(), String::new()]),
    }
    cells.resize(header().len(), String::new());
    cells
}

fn run_cells(results: &Results, run: &Run) -> Vec<String> {
    let workload = &results.workload;
    let wear = &run.wear_erases;
    let wear_sum: u64 = wear.iter().copied().map(u64::from).sum();
    let wear_mean = if wear.is_empty() { 0.0 } else { wear_sum as f64 / wear.len() as f64 };
    vec![
        workload.name.clone(),
        results.chip.name.clone(),
        workload.key_bytes.to_string(),
        workload.value_bytes.to_string(),
        workload.ram_bytes.map_or_else(String::new, |bytes| bytes.to_string()),
        run.index.clone(),
        run.storage.clone(),
        run.seed.to_string(),
        run.durability.clone(),
        run.ram_bytes.to_string(),
        run.height.to_string(),
        run.records.to_string(),
        run.live_pages.to_string(),
        run.space_amplification.to_string(),
        wear.iter().min().map_or_else(String::new, u32::to_string),
        wear_mean.to_string(),
        wear.iter().max().map_or_else(String::new, u32::to_string),
        run.error.clone().unwrap_or_default(),
    ]
}

fn cost_cells(costs: &Costs) -> [String; 7] {
    let per_operation = match costs.operations {
        0 => String::new(),
        operations => (costs.flash_time_ns as f64 / operations as f64).to_string(),
    };
    [
        costs.operations.to_string(),
        costs.page_reads.to_string(),
        costs.page_programs.to_string(),
        costs.block_erases.to_string(),
        costs.flash_time_ns.to_string(),
        costs.flash_time_max_ns.to_string(),
        per_operation,
    ]
}

fn phase_cells(phase: &Phase) -> Vec<String> {
    let mut cells = vec![
        phase.write_amplification.to_string(),
        phase.energy_nj.to_string(),
        phase.cpu_ns.to_string(),
        phase.collections.to_string(),
        phase.cache_hits.to_string(),
        phase.cache_misses.to_string(),
    ];
    for cause in CAUSE_COLUMNS {
        let CauseCounts { page_reads, page_programs, block_erases } =
            phase.causes.get(cause.name()).copied().unwrap_or_default();
        cells.extend([page_reads, page_programs, block_erases].map(|n| n.to_string()));
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{ChipFacts, WorkloadFacts};
    use nandex::nand::catalogue;

    fn results() -> Results {
        let costs = Costs {
            operations: 4,
            page_reads: 10,
            page_programs: 2,
            block_erases: 0,
            flash_time_ns: 9,
            flash_time_max_ns: 5,
        };
        let host = CauseCounts { page_reads: 10, page_programs: 2, block_erases: 0 };
        let phase = Phase {
            name: String::from("load, \"first\""),
            kinds: [("get", costs)].into(),
            causes: [("host", host)].into(),
            total: costs,
            write_amplification: 2.5,
            cpu_ns: 77,
            ..Phase::default()
        };
        let run = Run {
            index: String::from("x"),
            wear_erases: vec![1, 2],
            phases: vec![phase],
            mount: Some(Costs { page_reads: 3, ..costs }),
            first_change: Some(Costs { operations: 1, page_reads: 5, ..costs }),
            ..Run::default()
        };
        let failed = Run { error: Some(String::from("no room")), ..Run::default() };
        Results {
            chip: ChipFacts::of(&catalogue::mlc_64m()),
            workload: WorkloadFacts { name: String::from("w"), ..WorkloadFacts::default() },
            runs: vec![run, failed],
            ..Results::default()
        }
    }

    fn csv_of(results: &Results) -> Vec<Vec<String>> {
        let mut bytes = Vec::new();
        write_csv(results, &mut bytes).unwrap();
        let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(&bytes[..]);
        reader.records().map(|r| r.unwrap().iter().map(String::from).collect()).collect()
    }

    #[test]
    fn a_row_for_each_kind_and_the_total() {
        let rows = csv_of(&results());
        assert_eq!(rows.len(), 6);
        let cell = |row: usize, name: &str| {
            let column = rows[0].iter().position(|c| c == name).unwrap();
            rows[row][column].as_str()
        };
        assert_eq!((cell(1, "kind"), cell(2, "kind"), cell(5, "error")), ("get", "total", "no room"));
        assert_eq!((cell(3, "phase"), cell(3, "page_reads"), cell(3, "measured")), ("mount", "3", "false"));
        assert_eq!((cell(4, "phase"), cell(4, "page_reads"), cell(4, "cpu_ns")), ("first_change", "5", ""));
        assert_eq!((cell(1, "phase"), cell(1, "measured")), ("load, \"first\"", "false"));
        assert_eq!((cell(1, "page_reads"), cell(1, "flash_time_per_operation_ns")), ("10", "2.25"));
        assert_eq!((cell(1, "cpu_ns"), cell(2, "cpu_ns")), ("", "77"));
        assert_eq!((cell(2, "write_amplification_ratio"), cell(2, "host_page_programs")), ("2.5", "2"));
        assert_eq!((cell(2, "merge_page_reads"), cell(1, "wear_mean_erases")), ("0", "1.5"));
    }

    #[test]
    fn columns_are_distinct() {
        let names = header();
        let distinct: std::collections::BTreeSet<&String> = names.iter().collect();
        assert_eq!((names.len(), distinct.len()), (34 + 8 * 3, names.len()));
    }

    #[test]
    fn without_processor_time_nothing_else_changes() {
        let mut bytes = Vec::new();
        write_json(&results().without_cpu_time(), &mut bytes).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        let phase = &json["runs"][0]["phases"][0];
        assert_eq!(
            (phase["cpu_ns"].as_u64(), phase["kinds"]["get"]["page_reads"].as_u64()),
            (Some(0), Some(10))
        );
        assert_eq!(json["chip"]["page_read_ns"].as_u64(), Some(165_600));
    }
}

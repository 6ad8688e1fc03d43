//! An experiment's results for a terminal: a row for each measured phase of each cell, then the computed
//! figures.

use super::grid::{Side, grid};
use nandex_lab::experiment::{CellResult, ExperimentResults, Replays};
use nandex_lab::stats::Summary;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Figures of a phase in the table: name, heading, and number of decimals.
const COLUMNS: [(&str, &str, usize); 5] = [
    ("operations", "operations", 0),
    ("page_reads_per_op", "reads/op", 3),
    ("page_programs_per_op", "programs/op", 3),
    ("block_erases_per_op", "erases/op", 4),
    ("flash_time_ms_per_op", "flash ms/op", 3),
];

/// A table of the results; the title may be empty.
pub(crate) struct Table {
    pub(crate) title: String,
    pub(crate) heads: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

/// The tables that have rows: measured phases, page traces, computed cells.
pub(crate) fn tables(results: &ExperimentResults) -> Vec<Table> {
    let heads = |first: &[&str], columns: &[(&str, &str, usize)]| {
        first.iter().map(|head| (*head).to_string()).chain(columns.iter().map(|c| c.1.to_string())).collect()
    };
    let mut tables = vec![
        Table {
            title: String::new(),
            heads: heads(&["cell", "phase"], &COLUMNS),
            rows: results.cells.iter().flat_map(phases).collect(),
        },
        Table {
            title: String::new(),
            heads: heads(&["cell"], &REPLAY_COLUMNS),
            rows: results.cells.iter().filter(|c| is_shown_replay(c)).map(replay_row).collect(),
        },
    ];
    for cell in results.cells.iter().filter(|cell| cell.runs.is_empty() && !is_replayed(cell)) {
        let row = |(name, value): (&String, &Summary)| vec![name.clone(), plain(value.mean)];
        tables.push(Table {
            title: cell.name.clone(),
            heads: vec!["figure".to_string(), "value".to_string()],
            rows: cell.figures.iter().map(row).collect(),
        });
    }
    tables.retain(|table| !table.rows.is_empty());
    tables
}

/// Remarks on cells that stopped, cells that did not run, and replacements.
pub(crate) fn remarks(results: &ExperimentResults) -> Vec<String> {
    let of_cell = |cell: &CellResult| {
        let stopped = cell.failures().map(|why| format!("{}, stopped: {why}", cell.name)).collect::<Vec<_>>();
        let missing = cell.missing.iter().map(|why| format!("{}, not run: {why}", cell.name));
        let stand_in =
            cell.stand_in.iter().chain(&cell.substitute).map(|why| format!("{}: {why}", cell.name));
        stopped.into_iter().chain(missing).chain(stand_in).collect::<Vec<_>>()
    };
    results.cells.iter().flat_map(of_cell).collect()
}

/// Renders the results for a terminal with `width` columns.
pub fn render(results: &ExperimentResults, width: usize) -> String {
    let definition = &results.definition;
    let size = if results.smoke { ", smoke size" } else { "" };
    let mut out = format!("{} ({}{size}): {}\n", definition.name, definition.shows, definition.summary);
    let _ = writeln!(out, "chip {}; {}\n", definition.chip, super::table::seeds(&results.seeds));
    let rows: Vec<Vec<String>> = results.cells.iter().flat_map(phases).collect();
    if !rows.is_empty() {
        let heads: Vec<String> =
            ["cell", "phase"].into_iter().chain(COLUMNS.map(|c| c.1)).map(String::from).collect();
        let sides: Vec<Side> =
            (0..heads.len()).map(|i| if i < 2 { Side::Left } else { Side::Right }).collect();
        out += &grid(&heads, &sides, &rows);
    }
    out += &replayed(&results.cells);
    for cell in results.cells.iter().filter(|cell| cell.runs.is_empty() && !is_replayed(cell)) {
        out += &computed(cell);
    }
    for line in remarks(results) {
        out += &super::table::wrap(&format!("! {line}"), width);
    }
    let _ = writeln!(out, "again: {}", results.command);
    out
}

fn phases(cell: &CellResult) -> Vec<Vec<String>> {
    let measured =
        |name: &&str| cell.runs.iter().any(|r| r.phases.iter().any(|p| p.measured && p.name == **name));
    let mut seen = BTreeSet::new();
    let names = cell.runs.iter().flat_map(|run| run.phases.iter().map(|p| p.name.as_str()));
    let names = names.filter(|name| seen.insert(*name)).filter(measured).collect::<Vec<_>>();
    let row = |phase: &str| {
        let figure = |(figure, _, decimals): (&str, &str, usize)| {
            cell.figures
                .get(&format!("{phase}.{figure}"))
                .map_or_else(|| "-".to_string(), |s| spread(s, decimals))
        };
        let head = [cell.name.clone(), phase.to_string()];
        head.into_iter().chain(COLUMNS.map(figure)).collect()
    };
    names.into_iter().map(row).collect()
}

/// Figures of a page trace in the table: name, heading, and number of decimals.
const REPLAY_COLUMNS: [(&str, &str, usize); 8] = [
    ("host_page_writes", "page writes", 0),
    ("page_reads", "reads", 0),
    ("page_programs", "programs", 0),
    ("block_erases", "erases", 0),
    ("write_amplification", "write ampl.", 2),
    ("flash_time_s", "flash s", 1),
    ("converted_blocks", "conversions", 0),
    ("ram_bytes", "RAM bytes", 0),
];

fn is_replayed(cell: &CellResult) -> bool {
    cell.runs.is_empty() && cell.name.split('/').next() == Some(Replays::CELLS)
}

fn is_shown_replay(cell: &CellResult) -> bool {
    is_replayed(cell) && !cell.figures.is_empty()
}

fn replay_row(cell: &CellResult) -> Vec<String> {
    let figure = |(figure, _, decimals): (&str, &str, usize)| {
        cell.figures.get(figure).map_or_else(|| "-".to_string(), |s| spread(s, decimals))
    };
    [cell.name.clone()].into_iter().chain(REPLAY_COLUMNS.map(figure)).collect()
}

fn replayed(cells: &[CellResult]) -> String {
    let rows: Vec<Vec<String>> = cells.iter().filter(|cell| is_shown_replay(cell)).map(replay_row).collect();
    if rows.is_empty() {
        return String::new();
    }
    let heads: Vec<String> =
        ["cell"].into_iter().chain(REPLAY_COLUMNS.map(|c| c.1)).map(String::from).collect();
    let sides: Vec<Side> = (0..heads.len()).map(|i| if i == 0 { Side::Left } else { Side::Right }).collect();
    grid(&heads, &sides, &rows)
}

fn computed(cell: &CellResult) -> String {
    if cell.figures.is_empty() {
        return String::new();
    }
    let rows: Vec<Vec<String>> =
        cell.figures.iter().map(|(name, value)| vec![name.clone(), plain(value.mean)]).collect();
    let heads = [cell.name.clone(), "value".to_string()];
    format!("\n{}", grid(&heads, &[Side::Left, Side::Right], &rows))
}

/// The mean, with its interval over the seeds if several seeds differ.
fn spread(summary: &Summary, decimals: usize) -> String {
    let mean = format!("{:.decimals$}", summary.mean);
    match summary.ci95 {
        Some(half) if half > 0.0 => format!("{mean} \u{b1} {half:.decimals$}"),
        _ => mean,
    }
}

fn plain(value: f64) -> String {
    if value == value.trunc() { format!("{value:.0}") } else { format!("{value:.4}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandex_lab::experiment::{self, RunPlan};
    use nandex_lab::runner::Control;

    #[test]
    fn a_smoke_run_shows_each_measured_phase_of_each_cell() {
        let plan = RunPlan { smoke: true, seeds: Some(1), ..RunPlan::default() };
        let results = experiment::run("mu-table5", &plan, &Control::default()).unwrap();
        let text = render(&results, 120);
        assert!(text.starts_with("mu-table5 (Table 5, smoke size)"), "{text}");
        let rows = |name: &str| text.lines().filter(|l| l.starts_with("micro/") && l.contains(name)).count();
        assert_eq!((rows("retrievals"), rows("load")), (14, 0), "{text}");
        assert!(text.trim_end().ends_with("again: nandex run mu-table5 --smoke --seeds 1"), "{text}");
    }

    #[test]
    fn computed_cells_are_listed_by_figure() {
        let plan = RunPlan { smoke: true, ..RunPlan::default() };
        let results = experiment::run("mu-figure7", &plan, &Control::default()).unwrap();
        let text = render(&results, 120);
        assert!(text.lines().any(|l| l.starts_with("mu_height_levels_1e6")), "{text}");
    }
}

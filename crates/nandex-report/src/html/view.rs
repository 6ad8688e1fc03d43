//! The view that the page's template is filled with: text ready to be shown, in the order of the page.

use super::super::table::{ram, seeds, unit};
use super::Assets;
use super::map::MapView;
use super::plots::{self, CAUSES};
use crate::summary::measure::{Group, Measure};
use crate::summary::scale::{Quantity, show, show_count};
use crate::summary::{Class, Row, Summary};
use askama::Template;
use nandex_lab::results::{CauseCounts, Phase, Results, Run};
use nandex_lab::spatial::map::TreeMap;

/// The page.
#[derive(Template)]
#[template(path = "report.html")]
pub(super) struct Page<'a> {
    results: &'a Results,
    settings: Vec<(&'static str, String)>,
    chips: Vec<Chip>,
    causes: Vec<(String, &'static str)>,
    groups: Vec<(&'static str, usize)>,
    columns: Vec<Column>,
    classes: Vec<ClassView>,
    seeds: String,
    many_seeds: bool,
    many_classes: bool,
    cause_tables: Vec<DataTable>,
    phases: Vec<PhaseView<'a>>,
    maps: Vec<MapView>,
    glossary: Vec<(String, &'static str)>,
    assets: Assets,
}

/// An index in the legend.
struct Chip {
    /// The colour of the index.
    token: String,
    /// The group of series that the entry switches on and off.
    group: String,
    glyph: &'static str,
    label: String,
}

/// A column of the comparison.
struct Column {
    heading: &'static str,
    unit: String,
    meaning: &'static str,
    /// Whether a new group begins here.
    starts_group: bool,
}

/// A durability class of the comparison.
struct ClassView {
    heading: String,
    promise: &'static str,
    rows: Vec<RowView>,
    failures: Vec<Failure>,
}

/// An index of the comparison.
struct RowView {
    chip: Chip,
    storage: String,
    cells: Vec<CellView>,
}

/// A run that did not finish.
struct Failure {
    chip: Chip,
    storage: String,
    seeds: String,
    reason: String,
}

/// A figure of the comparison.
#[derive(Default)]
struct CellView {
    text: String,
    /// The value in its base unit, for sorting; empty where there is none.
    sort: String,
    range: String,
    best: bool,
    starts_group: bool,
    /// Percent of the column's largest value, for the bar behind it.
    bar: Option<f64>,
}

/// A table of numbers below a plot.
struct DataTable {
    title: &'static str,
    head: Vec<String>,
    rows: Vec<(String, Vec<String>)>,
}

/// A phase of a run with its absolute numbers.
struct PhaseView<'a> {
    label: &'a str,
    storage: &'a str,
    seed: u64,
    name: &'a str,
    measured: bool,
    cells: Vec<String>,
}

impl<'a> Page<'a> {
    /// Prepares the page of some results.
    pub(super) fn of(results: &'a Results, maps: &[TreeMap]) -> Result<Page<'a>, serde_json::Error> {
        let summary = Summary::of(results);
        let figures = plots::figures(&summary);
        Ok(Page {
            results,
            settings: settings(results, &summary),
            chips: legend(&summary),
            causes: present_causes(&summary),
            groups: groups(&summary),
            columns: columns(&summary),
            classes: summary.classes.iter().map(|c| class_view(&summary, c)).collect(),
            seeds: seeds(&summary.seeds),
            many_seeds: summary.seeds.len() > 1,
            many_classes: summary.classes.len() > 1,
            cause_tables: cause_tables(&summary),
            phases: results.runs.iter().flat_map(phases).collect(),
            maps: maps.iter().map(MapView::of).collect(),
            glossary: glossary(&summary),
            assets: Assets::of(&figures, results)?,
        })
    }
}

/// Each index once, whatever its classes.
fn legend(summary: &Summary<'_>) -> Vec<Chip> {
    let mut rows = summary.rows_as_asked();
    rows.retain(|row| !row.finished.is_empty());
    rows.dedup_by_key(|row| row.series);
    let name = |row: &Row<'_>| {
        let class = summary.classes.iter().map(|class| format!(", {}", class.durability));
        let bare = class.filter_map(|suffix| row.label.strip_suffix(&suffix).map(str::to_string)).next();
        bare.unwrap_or_else(|| row.label.clone())
    };
    rows.into_iter().map(|row| Chip { label: name(row), ..chip(row) }).collect()
}

fn chip(row: &Row<'_>) -> Chip {
    let (token, group) = (plots::token(row.series), plots::group(row.series));
    Chip { token, group, glyph: plots::glyph(row.series), label: row.label.clone() }
}

fn settings(results: &Results, summary: &Summary<'_>) -> Vec<(&'static str, String)> {
    let (chip, workload) = (&results.chip, &results.workload);
    let time = |ns: u64| show(Quantity::Time, ns as f64);
    let bytes = f64::from(chip.page_bytes) * f64::from(chip.pages_per_block) * f64::from(chip.blocks);
    let mut rows = vec![
        ("Chip", format!("{}, {}", chip.name, show(Quantity::Bytes, bytes))),
        (
            "Geometry",
            format!(
                "{} blocks of {} pages of {} + {} bytes",
                show_count(chip.blocks.into()),
                chip.pages_per_block,
                chip.page_bytes,
                chip.spare_bytes
            ),
        ),
        (
            "Latencies",
            format!(
                "page read {}, page program {}, block erase {}",
                time(chip.page_read_ns),
                time(chip.page_program_ns),
                time(chip.block_erase_ns)
            ),
        ),
        ("Endurance", format!("{} erases of a block", show_count(chip.endurance_erases.into()))),
        ("Workload", format!("{}, {} operations", workload.name, show_count(workload.operations))),
        (
            "Records",
            format!("keys of {} bytes, values of {} bytes", workload.key_bytes, workload.value_bytes),
        ),
        ("RAM for each index", ram(workload.ram_bytes).trim_start_matches("RAM ").to_string()),
        ("Durability asked for", workload.durability.clone()),
        ("Seeds", seeds(&summary.seeds).trim_start_matches("seeds ").trim_start_matches("seed ").to_string()),
    ];
    if !workload.options.is_empty() {
        let options = workload.options.iter().map(|(k, v)| format!("{k}={v}"));
        rows.push(("Options", options.collect::<Vec<_>>().join(", ")));
    }
    rows
}

fn columns(summary: &Summary<'_>) -> Vec<Column> {
    let starts = group_starts(summary);
    let column = |(&measure, starts_group): (&Measure, bool)| Column {
        heading: measure.heading(),
        unit: unit(measure, summary.scale(measure)),
        meaning: measure.meaning(),
        starts_group,
    };
    summary.measures.iter().zip(starts).map(column).collect()
}

fn group_starts(summary: &Summary<'_>) -> Vec<bool> {
    let measures = &summary.measures;
    (0..measures.len()).map(|i| i == 0 || measures[i].group() != measures[i - 1].group()).collect()
}

fn groups(summary: &Summary<'_>) -> Vec<(&'static str, usize)> {
    let mut groups: Vec<(Group, usize)> = Vec::new();
    for measure in &summary.measures {
        match groups.last_mut() {
            Some((group, columns)) if *group == measure.group() => *columns += 1,
            _ => groups.push((measure.group(), 1)),
        }
    }
    groups.into_iter().map(|(group, columns)| (group.heading(), columns)).collect()
}

fn class_view(summary: &Summary<'_>, class: &Class<'_>) -> ClassView {
    let failures = class.rows.iter().flat_map(|row| {
        row.failures().into_iter().map(|(reason, failed)| Failure {
            chip: chip(row),
            storage: row.storage.to_string(),
            seeds: seeds(&failed),
            reason,
        })
    });
    let row_view = |row: &Row<'_>| RowView {
        chip: Chip { label: row.index.to_string(), ..chip(row) },
        storage: row.storage.to_string(),
        cells: cells(summary, class, row),
    };
    ClassView {
        heading: class.heading(),
        promise: class.promise(),
        rows: class.finished().map(row_view).collect(),
        failures: failures.collect(),
    }
}

fn cells(summary: &Summary<'_>, class: &Class<'_>, row: &Row<'_>) -> Vec<CellView> {
    let cell = |(&measure, starts_group): (&Measure, bool)| {
        let scale = summary.scale(measure);
        let largest =
            || class.rows.iter().filter_map(|r| r.value(measure)).map(|s| s.mean).fold(0.0, f64::max);
        let Some(value) = row.value(measure) else {
            let text = "\u{2013}".to_string();
            return CellView { text, starts_group, ..CellView::default() };
        };
        CellView {
            text: scale.number(value.mean),
            sort: value.mean.to_string(),
            range: scale.over_seeds(&value),
            best: class.is_best(row, measure),
            starts_group,
            bar: (measure == Measure::MeanTime && largest() > 0.0).then(|| value.mean * 100.0 / largest()),
        }
    };
    summary.measures.iter().zip(group_starts(summary)).map(cell).collect()
}

fn present_causes(summary: &Summary<'_>) -> Vec<(String, &'static str)> {
    let any =
        |cause: &str| summary.rows().any(|r| r.finished.iter().any(|(_, t)| t.causes.contains_key(cause)));
    let present = CAUSES.into_iter().enumerate().filter(|(_, (cause, _))| any(cause));
    present.map(|(i, (_, words))| (format!("c{i}"), words)).collect()
}

fn cause_tables(summary: &Summary<'_>) -> Vec<DataTable> {
    type Count = fn(&CauseCounts) -> u64;
    let counts: [(&str, Count); 3] = [
        ("Page reads per operation", |c| c.page_reads),
        ("Page programs per operation", |c| c.page_programs),
        ("Block erases per operation", |c| c.block_erases),
    ];
    let present: Vec<(&str, &str)> = {
        let words: Vec<&str> = present_causes(summary).into_iter().map(|(_, words)| words).collect();
        CAUSES.into_iter().filter(|(_, w)| words.contains(w)).collect()
    };
    let table = |(title, count): (&'static str, Count)| {
        let row = |row: &&Row<'_>| {
            let figure = |(cause, _): &(&str, &str)| {
                let value = plots::cause_mean(row, cause, count);
                show(Quantity::Number, value)
            };
            (row.label.clone(), present.iter().map(figure).collect())
        };
        let rows = summary.rows_as_asked();
        let finished = rows.iter().filter(|r| !r.finished.is_empty());
        DataTable {
            title,
            head: present.iter().map(|(_, words)| words.to_string()).collect(),
            rows: finished.map(row).collect(),
        }
    };
    counts.map(table).into()
}

fn phases(run: &Run) -> impl Iterator<Item = PhaseView<'_>> {
    run.phases.iter().map(|phase| PhaseView {
        label: &run.index,
        storage: &run.storage,
        seed: run.seed,
        name: &phase.name,
        measured: phase.measured,
        cells: phase_cells(phase),
    })
}

/// Headings of [`phase_cells`].
pub(super) const PHASE_HEADINGS: [&str; 9] = [
    "operations",
    "page reads",
    "page programs",
    "block erases",
    "flash time",
    "slowest",
    "write ampl.",
    "collections",
    "CPU time",
];

fn phase_cells(phase: &Phase) -> Vec<String> {
    let time = |ns: u64| show(Quantity::Time, ns as f64);
    let total = &phase.total;
    vec![
        show_count(total.operations),
        show_count(total.page_reads),
        show_count(total.page_programs),
        show_count(total.block_erases),
        time(total.flash_time_ns),
        time(total.flash_time_max_ns),
        show(Quantity::Number, phase.write_amplification),
        show_count(phase.collections),
        time(phase.cpu_ns),
    ]
}

fn glossary(summary: &Summary<'_>) -> Vec<(String, &'static str)> {
    let mut entries: Vec<(String, &'static str)> = Vec::new();
    for measure in &summary.measures {
        match (measure, entries.iter_mut().find(|(_, meaning)| *meaning == measure.meaning())) {
            (_, Some((names, _))) => *names += &format!(", {}", measure.heading()),
            (_, None) => entries.push((measure.heading().to_string(), measure.meaning())),
        }
    }
    entries
}

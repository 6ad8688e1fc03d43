//! The view that the page's template is filled with: text ready to be shown, in the order of the page.

use super::super::table::{ram, seeds, unit};
use super::Assets;
use super::draw::{Figure, group};
use super::map::MapView;
use super::panel::{At, Panel, Spot, panels};
use super::plots::{self, CAUSES};
use super::saved::Columns;
use crate::summary::measure::{Group, Measure};
use crate::summary::scale::{Quantity, Scale, show, show_count};
use crate::summary::{Class, Row, Summary};
use askama::Template;
use nandex_lab::results::Results;
use nandex_lab::spatial::map::TreeMap;

#[derive(Template)]
#[template(path = "report.html")]
pub(super) struct Page<'a> {
    results: &'a Results,
    /// The sentences of the answer.
    answer: Vec<String>,
    settings: Vec<(&'static str, String)>,
    views: Vec<PanelView>,
    causes: Vec<(String, &'static str)>,
    maps: Vec<MapView>,
    glossary: Vec<(String, &'static str)>,
    failures: Vec<(String, String)>,
    assets: Assets,
}

/// A workload in a durability class, behind a tab.
struct PanelView {
    tab: String,
    promise: &'static str,
    answer: String,
    cards: Vec<Card>,
    /// The series that lead with some amount of RAM, separated by blanks.
    leaders: String,
    at: Vec<AtView>,
}

/// An index that is pointed out.
struct Card {
    head: &'static str,
    chip: Chip,
    time: String,
    told: String,
}

struct AtView {
    id: String,
    ram: String,
    groups: Vec<(&'static str, usize)>,
    columns: Vec<Column>,
    rows: Vec<RowView>,
    /// The first five series, separated by blanks.
    top: String,
    caption: String,
    has_life: bool,
    has_tail: bool,
}

struct Chip {
    token: String,
    group: String,
    glyph: &'static str,
    label: String,
}

struct Column {
    heading: &'static str,
    unit: String,
    meaning: &'static str,
    /// Whether the column starts a new group.
    starts_group: bool,
}

struct RowView {
    chip: Chip,
    storage: String,
    cells: Vec<CellView>,
}

#[derive(Default)]
struct CellView {
    text: String,
    /// The value in its base unit, for sorting; empty without a value.
    sort: String,
    range: String,
    best: bool,
    starts_group: bool,
    /// Percentage of the column's largest value, for the bar behind the cell.
    bar: Option<f64>,
}

/// Number of rows that are shown at first.
const TOP: usize = 5;

/// For each amount of RAM, number of rows whose lines are shown at first in the plot against RAM.
const LEADERS: usize = 2;

impl<'a> Page<'a> {
    /// Prepares the page of several comparisons; `results` is the one with the chip and the command.
    pub(super) fn of(
        results: &'a Results,
        sets: &'a [Results],
        maps: &[TreeMap],
    ) -> Result<Page<'a>, serde_json::Error> {
        let (panels, _) = panels(sets);
        let mut figures = Vec::new();
        let views = panels.iter().enumerate().map(|(n, panel)| panel_view(n, panel, &mut figures)).collect();
        Ok(Page {
            results,
            answer: answer(sets, &panels),
            settings: settings(sets, results),
            views,
            causes: present_causes(sets),
            maps: maps.iter().map(MapView::of).collect(),
            glossary: glossary(&Summary::of(results)),
            failures: failures(sets),
            assets: Assets::of(&figures, &Columns::of(sets))?,
        })
    }
}

/// The answer: the sentence of a single comparison, or a line for each panel of several.
fn answer(sets: &[Results], panels: &[Panel<'_>]) -> Vec<String> {
    match sets {
        [one] => vec![one.conclusion.clone()],
        _ => panels.iter().take(1).map(sentences).collect(),
    }
}

/// A panel in two sentences: which index to take with little RAM and with much, and the costs of both.
fn sentences(panel: &Panel<'_>) -> String {
    let told: Vec<(String, String, String)> = panel
        .at
        .iter()
        .filter_map(|at| {
            let (taken, best, others) = at.taken()?;
            let time =
                best.value(Measure::MeanTime).map_or_else(String::new, |s| show(Quantity::Time, s.mean));
            let as_good = match others.len() {
                0 => String::new(),
                1 => format!(", as good as {}", others[0].index),
                n => format!(", simplest of {} as good", n + 1),
            };
            let ram = at.results.workload.ram_bytes.map_or_else(|| "no limit".to_string(), bytes);
            Some((ram, taken.index.to_string(), format!("{time} per operation{as_good}")))
        })
        .collect();
    let (Some(first), Some(last)) = (told.first(), told.last()) else { return String::new() };
    if told.len() == 1 || first.1 == last.1 {
        return format!("Take {} with {} of RAM or more: {}.", first.1, first.0, first.2);
    }
    format!(
        "With {} of RAM take {} ({}). With {} take {} ({}).",
        first.0, first.1, first.2, last.0, last.1, last.2
    )
}

fn bytes(bytes: u64) -> String {
    show(Quantity::Bytes, bytes as f64)
}

fn panel_view(number: usize, panel: &Panel<'_>, figures: &mut Vec<Figure>) -> PanelView {
    figures.push(plots::against_ram(number, panel));
    let mut leaders: Vec<usize> = Vec::new();
    for at in &panel.at {
        leaders.extend(at.finished().take(LEADERS).map(|(series, _)| series));
        leaders.extend(at.taken().and_then(|(taken, ..)| series_of(at, taken)));
    }
    leaders.sort_unstable();
    leaders.dedup();
    let mut views = Vec::new();
    for (place, at) in panel.at.iter().enumerate() {
        let id = format!("{number}-{place}");
        let details = plots::details(&id, at);
        let has = |what: &str| details.iter().any(|figure| figure.id == format!("{what}-{id}"));
        views.push(at_view(id.clone(), at, (has("life"), has("tail"))));
        figures.extend(details);
    }
    let class = panel.at[0].class();
    PanelView {
        tab: tab(panel),
        promise: class.promise(),
        answer: sentences(panel),
        cards: panel.cards().map_or_else(Vec::new, |cards| cards_of(panel, cards)),
        leaders: joined(leaders),
        at: views,
    }
}

fn series_of(at: &At<'_>, row: &Row<'_>) -> Option<usize> {
    at.finished().find(|(_, other)| std::ptr::eq(*other, row)).map(|(series, _)| series)
}

fn joined(series: impl IntoIterator<Item = usize>) -> String {
    series.into_iter().map(group).collect::<Vec<_>>().join(" ")
}

fn tab(panel: &Panel<'_>) -> String {
    let promise = match panel.durability.as_str() {
        "none" => "nothing promised".to_string(),
        class => format!("durable at {class}"),
    };
    format!("{}, {promise}", panel.workload)
}

fn cards_of(panel: &Panel<'_>, cards: [Spot; 3]) -> Vec<Card> {
    let heads = ["Best", "Simplest within 5 %", "Least RAM"];
    let card = |(head, spot): (&'static str, Spot)| Card {
        head,
        time: show(Quantity::Time, spot.time_ns),
        told: format!(
            "per operation, {} {}; {}",
            show(Quantity::Bytes, spot.ram_bytes),
            if panel.is_over_ram() { "of RAM" } else { "held" },
            spot.storage
        ),
        chip: chip(spot.series, spot.name),
    };
    heads.into_iter().zip(cards).map(card).collect()
}

fn chip(series: usize, label: String) -> Chip {
    let (token, glyph) = plots::chip_of(series);
    Chip { token, group: group(series), glyph, label }
}

fn at_view(id: String, at: &At<'_>, (has_life, has_tail): (bool, bool)) -> AtView {
    let summary = &at.summary;
    let starts = group_starts(&summary.measures);
    let scales: Vec<Scale> = summary.measures.iter().map(|m| scale(at.class(), *m)).collect();
    let row = |(series, row): (usize, &Row<'_>)| RowView {
        chip: chip(series, row.index.to_string()),
        storage: row.storage.to_string(),
        cells: cells(at, row, &scales),
    };
    let seeds = seeds(&summary.seeds);
    AtView {
        id,
        ram: at.results.workload.ram_bytes.map_or_else(|| "no limit".to_string(), bytes),
        groups: groups(&summary.measures),
        columns: summary
            .measures
            .iter()
            .zip(&scales)
            .zip(starts)
            .map(|((m, scale), starts_group)| Column {
                heading: m.heading(),
                unit: unit(*m, *scale),
                meaning: m.meaning(),
                starts_group,
            })
            .collect(),
        top: joined(at.finished().take(TOP).map(|(series, _)| series)),
        rows: at.finished().map(row).collect(),
        caption: match at.has_seeds() {
            true => format!("Means over {seeds}; interval and range stand in each cell's tip."),
            false => format!("Deterministic, {seeds}."),
        },
        has_life,
        has_tail,
    }
}

fn scale(class: &Class<'_>, measure: Measure) -> Scale {
    Scale::of(measure.quantity(), class.rows.iter().filter_map(|r| r.value(measure)).map(|s| s.mean))
}

fn group_starts(measures: &[Measure]) -> Vec<bool> {
    (0..measures.len()).map(|i| i == 0 || measures[i].group() != measures[i - 1].group()).collect()
}

fn groups(measures: &[Measure]) -> Vec<(&'static str, usize)> {
    let mut groups: Vec<(Group, usize)> = Vec::new();
    for measure in measures {
        match groups.last_mut() {
            Some((group, columns)) if *group == measure.group() => *columns += 1,
            _ => groups.push((measure.group(), 1)),
        }
    }
    groups.into_iter().map(|(group, columns)| (group.heading(), columns)).collect()
}

fn cells(at: &At<'_>, row: &Row<'_>, scales: &[Scale]) -> Vec<CellView> {
    let class = at.class();
    let starts = group_starts(&at.summary.measures);
    let cell = |((&measure, scale), starts_group): ((&Measure, &Scale), bool)| {
        let largest =
            || class.rows.iter().filter_map(|r| r.value(measure)).map(|s| s.mean).fold(0.0, f64::max);
        let Some(value) = row.value(measure) else {
            let text = "\u{2013}".to_string();
            return CellView { text, starts_group, ..CellView::default() };
        };
        CellView {
            text: scale.number(value.mean),
            sort: format!("{:.6e}", value.mean),
            range: if at.has_seeds() { scale.over_seeds(&value) } else { String::new() },
            best: class.is_best(row, measure),
            starts_group,
            bar: (measure == Measure::MeanTime && largest() > 0.0).then(|| value.mean * 100.0 / largest()),
        }
    };
    at.summary.measures.iter().zip(scales).zip(starts).map(cell).collect()
}

/// Rows that did not run, grouped by the reason.
fn failures(sets: &[Results]) -> Vec<(String, String)> {
    let mut told: Vec<(String, Vec<String>)> = Vec::new();
    for results in sets {
        let ram = results.workload.ram_bytes.map_or_else(String::new, |b| format!(" with {}", bytes(b)));
        for row in Summary::of(results).rows() {
            for (reason, failed) in row.failures() {
                let seeds = if failed.len() > 1 { format!(", {}", seeds(&failed)) } else { String::new() };
                let who = format!("{} ({}){ram}{seeds}", row.index, row.storage);
                match told.iter_mut().find(|(known, _)| *known == reason) {
                    Some((_, all)) if !all.contains(&who) => all.push(who),
                    Some(_) => {}
                    None => told.push((reason, vec![who])),
                }
            }
        }
    }
    told.into_iter().map(|(reason, who)| (who.join(", "), reason)).collect()
}

fn settings(sets: &[Results], results: &Results) -> Vec<(&'static str, String)> {
    let (chip, workload) = (&results.chip, &results.workload);
    let time = |ns: u64| show(Quantity::Time, ns as f64);
    let size = f64::from(chip.page_bytes) * f64::from(chip.pages_per_block) * f64::from(chip.blocks);
    let each = |of: &dyn Fn(&Results) -> String| {
        let mut all: Vec<String> = Vec::new();
        sets.iter().map(of).for_each(|text| {
            if !all.contains(&text) {
                all.push(text);
            }
        });
        all.join("; ")
    };
    let geometry = format!(
        "{} blocks of {} pages of {} + {} bytes",
        show_count(chip.blocks.into()),
        chip.pages_per_block,
        chip.page_bytes,
        chip.spare_bytes
    );
    let latencies = format!(
        "page read {}, page program {}, block erase {}",
        time(chip.page_read_ns),
        time(chip.page_program_ns),
        time(chip.block_erase_ns)
    );
    let options = each(&|r| {
        let options = r.workload.options.iter().map(|(k, v)| format!("{k}={v}"));
        options.collect::<Vec<_>>().join(", ")
    });
    let mut rows = vec![
        ("Chip", format!("{}, {}", chip.name, show(Quantity::Bytes, size))),
        ("Geometry", geometry),
        ("Latencies", latencies),
        ("Endurance", format!("{} erases of a block", show_count(chip.endurance_erases.into()))),
        (
            "Workload",
            each(&|r| format!("{}, {} operations", r.workload.name, show_count(r.workload.operations))),
        ),
        (
            "Records",
            format!("keys of {} bytes, values of {} bytes", workload.key_bytes, workload.bytes_of_values()),
        ),
        ("RAM for each index", each(&|r| ram(r.workload.ram_bytes).trim_start_matches("RAM ").to_string())),
        ("Durability asked for", each(&|r| r.workload.durability.clone())),
    ];
    if !options.is_empty() {
        rows.push(("Options", options));
    }
    rows
}

fn present_causes(sets: &[Results]) -> Vec<(String, &'static str)> {
    let runs = || sets.iter().flat_map(|results| &results.runs).flat_map(|run| &run.phases);
    let any = |cause: &str| runs().any(|phase| phase.measured && phase.causes.contains_key(cause));
    let present = CAUSES.into_iter().enumerate().filter(|(_, (cause, _))| any(cause));
    present.map(|(i, (_, words))| (format!("c{i}"), words)).collect()
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

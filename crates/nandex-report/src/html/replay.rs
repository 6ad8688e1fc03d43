//! The page of a replay: one table with a row for each device, and plots of write amplification, latency,
//! causes, time and wear.

use super::Assets;
use super::draw::{Axis, Figure, Kind, Series, glyph, group, mark, token};
use super::plots::{CAUSES, blocks_over, spans};
use crate::replay::{facts, notes};
use crate::summary::scale::{Quantity, Scale, show};
use askama::Template;
use nandex_lab::replay::{ReplayResults, ReplayRun};
use nandex_lab::results::CauseCounts;

#[derive(Template)]
#[template(path = "replay.html")]
pub(super) struct Page<'a> {
    results: &'a ReplayResults,
    facts: Vec<String>,
    notes: Vec<String>,
    chips: Vec<Chip>,
    columns: Vec<Column>,
    rows: Vec<RowView>,
    failures: Vec<(Chip, String)>,
    causes: Vec<(String, &'static str)>,
    assets: Assets,
}

#[derive(Clone)]
struct Chip {
    token: String,
    group: String,
    glyph: &'static str,
    label: String,
}

struct Column {
    heading: &'static str,
    unit: &'static str,
    meaning: &'static str,
}

/// A device of the comparison, with each cell as text and as a number to sort by.
struct RowView {
    chip: Chip,
    clock: String,
    cells: Vec<(String, String)>,
}

/// A device with results, and its position in the order asked for.
type Shown<'a> = (usize, &'a ReplayRun);

impl<'a> Page<'a> {
    pub(super) fn of(results: &'a ReplayResults) -> Result<Page<'a>, serde_json::Error> {
        let numbered = || results.runs.iter().enumerate();
        let shown: Vec<Shown<'_>> = numbered().filter(|(_, run)| run.requests > 0).collect();
        let figures = figures(results, &shown);
        let measures: Vec<(Measure, Scale)> = MEASURES.iter().map(|m| (*m, m.scale(&shown))).collect();
        Ok(Page {
            results,
            facts: facts(results),
            notes: notes(results),
            chips: shown.iter().map(chip).collect(),
            columns: measures
                .iter()
                .map(|(m, scale)| Column { heading: m.heading, unit: scale.unit, meaning: m.meaning })
                .collect(),
            rows: shown.iter().map(|row| row_view(row, &measures)).collect(),
            failures: numbered().filter_map(|(i, run)| Some((chip(&(i, run)), run.error.clone()?))).collect(),
            causes: present_causes(&shown),
            assets: Assets::of(&figures, results)?,
        })
    }
}

#[derive(Clone, Copy)]
struct Measure {
    heading: &'static str,
    quantity: Quantity,
    of_chip: bool,
    value: fn(&ReplayRun) -> f64,
    meaning: &'static str,
}

const fn of_chip(
    heading: &'static str,
    quantity: Quantity,
    value: fn(&ReplayRun) -> f64,
    meaning: &'static str,
) -> Measure {
    Measure { heading, quantity, of_chip: true, value, meaning }
}

const fn of_all(
    heading: &'static str,
    quantity: Quantity,
    value: fn(&ReplayRun) -> f64,
    meaning: &'static str,
) -> Measure {
    Measure { heading, quantity, of_chip: false, value, meaning }
}

const MEASURES: [Measure; 17] = [
    of_chip("write ampl.", Quantity::Number, |r| r.write_amplification, "pages programmed per page written"),
    of_chip("reads", Quantity::Count, |r| r.page_reads as f64, "page reads of the chip"),
    of_chip("programs", Quantity::Count, |r| r.page_programs as f64, "page programs of the chip"),
    of_chip("erases", Quantity::Count, |r| r.block_erases as f64, "block erases of the chip"),
    of_chip("switch", Quantity::Count, |r| r.switch_merges as f64, "log blocks that became data blocks"),
    of_chip("partial", Quantity::Count, |r| r.partial_merges as f64, "log blocks completed to data blocks"),
    of_chip("full", Quantity::Count, |r| r.full_merges as f64, "logical blocks gathered into a new block"),
    of_chip("collections", Quantity::Count, |r| r.collections as f64, "victim blocks reclaimed"),
    of_chip("moved", Quantity::Count, |r| r.moved_pages as f64, "valid pages moved out of victims"),
    of_all("mean", Quantity::Time, |r| r.latency.mean_ns as f64, "mean latency of a request"),
    of_all("p50", Quantity::Time, |r| r.latency.p50_ns as f64, "half of the requests take no longer"),
    of_all("p99", Quantity::Time, |r| r.latency.p99_ns as f64, "99 % of the requests take no longer"),
    of_all("p99.9", Quantity::Time, |r| r.latency.p999_ns as f64, "99.9 % of the requests take no longer"),
    of_all("max", Quantity::Time, |r| r.latency.max_ns as f64, "the longest latency"),
    of_chip("wear max", Quantity::Count, |r| r.wear.max_erases.into(), "erases of the block erased most"),
    of_chip("wear dev.", Quantity::Number, |r| r.wear.deviation_erases, "standard deviation of the erases"),
    of_chip("mapping", Quantity::Bytes, |r| r.mapping_bytes as f64, "RAM of the mapping tables"),
];

impl Measure {
    fn of(&self, run: &ReplayRun) -> Option<f64> {
        (run.has_chip || !self.of_chip).then(|| (self.value)(run))
    }

    fn scale(&self, shown: &[Shown<'_>]) -> Scale {
        Scale::of(self.quantity, shown.iter().filter_map(|(_, run)| self.of(run)))
    }
}

fn chip((series, run): &Shown<'_>) -> Chip {
    Chip { token: token(*series), group: group(*series), glyph: glyph(*series), label: run.device.clone() }
}

fn row_view(row: &Shown<'_>, measures: &[(Measure, Scale)]) -> RowView {
    let cell = |(measure, scale): &(Measure, Scale)| match measure.of(row.1) {
        Some(value) => (scale.number(value), value.to_string()),
        None => ("\u{2013}".to_string(), String::new()),
    };
    RowView { chip: chip(row), clock: row.1.clock.clone(), cells: measures.iter().map(cell).collect() }
}

fn present_causes(shown: &[Shown<'_>]) -> Vec<(String, &'static str)> {
    let any = |cause: &str| shown.iter().any(|(_, run)| run.causes.contains_key(cause));
    let present = CAUSES.into_iter().enumerate().filter(|(_, (cause, _))| any(cause));
    present.map(|(i, (_, words))| (format!("c{i}"), words)).collect()
}

fn figures(results: &ReplayResults, shown: &[Shown<'_>]) -> Vec<Figure> {
    let chips: Vec<Shown<'_>> = shown.iter().copied().filter(|(_, run)| run.has_chip).collect();
    vec![
        amplification(&chips),
        latency("plot-latency", shown, false),
        latency("plot-tail", shown, true),
        causes("plot-reads", "page reads per page written", &chips, |c| c.page_reads),
        causes("plot-programs", "page programs per page written", &chips, |c| c.page_programs),
        causes("plot-erases", "block erases per page written", &chips, |c| c.block_erases),
        windows(results, &chips),
        wear(&chips),
    ]
}

fn amplification(chips: &[Shown<'_>]) -> Figure {
    let scale = Scale::of(Quantity::Number, chips.iter().map(|(_, run)| run.write_amplification));
    let bar = |(place, (series, run)): (usize, &Shown<'_>)| Series {
        x: vec![place as f64],
        y: vec![run.write_amplification],
        words: vec![format!(
            "{}: {} pages programmed per page written",
            run.device,
            scale.number(run.write_amplification)
        )],
        ..Series::of_index(Kind::Points, *series, &run.device)
    };
    let names = chips.iter().map(|(_, run)| run.device.clone()).collect();
    Figure {
        id: "plot-amplification".to_string(),
        x: Axis::names("", names),
        y: Axis {
            log: spans(chips.iter().map(|(_, run)| run.write_amplification)),
            ..Axis::of("write amplification")
        },
        series: chips.iter().enumerate().map(bar).collect(),
        ..Figure::default()
    }
}

/// The plot of latencies: the share of requests that take no longer, or with `tail` the share that takes
/// longer.
fn latency(id: &'static str, shown: &[Shown<'_>], tail: bool) -> Figure {
    let line = |(series, run): &Shown<'_>| {
        let mut line = Series::of_index(Kind::Step, *series, &run.device);
        for &(ns, share) in run.latency_cdf.iter().filter(|point| !tail || point.1 < 1.0) {
            let share = if tail { 1.0 - share } else { share };
            let words = if tail { "take longer than" } else { "take at most" };
            // What takes no time at all has no place on a logarithmic axis.
            line.x.push(ns.max(100) as f64 / 1e6);
            line.y.push(share * 100.0);
            let time = show(Quantity::Time, ns as f64);
            line.words.push(format!("{}: {:.4} % {words} {time}", run.device, share * 100.0));
        }
        line
    };
    Figure {
        id: id.to_string(),
        x: Axis::log("latency of a request [ms]"),
        y: match tail {
            true => Axis::log("requests that take longer [%]"),
            false => Axis::of("requests that take no longer [%]"),
        },
        series: shown.iter().map(line).collect(),
        ..Figure::default()
    }
}

/// The plot of one kind of chip operation by cause: a stacked bar for each FTL.
fn causes(id: &'static str, title: &str, chips: &[Shown<'_>], count: fn(&CauseCounts) -> u64) -> Figure {
    let stack = |(number, (cause, words)): (usize, (&'static str, &'static str))| {
        let value = |(_, run): &Shown<'_>| {
            run.causes.get(cause).map_or(0, count) as f64 / run.host_page_writes.max(1) as f64
        };
        let values: Vec<f64> = chips.iter().map(value).collect();
        let scale = Scale::of(Quantity::Number, values.iter().copied());
        let told = chips
            .iter()
            .zip(&values)
            .map(|((_, run), v)| format!("{}, {words}: {} {title}", run.device, scale.number(*v)));
        let told: Vec<String> = told.collect();
        values.iter().any(|v| *v > 0.0).then(|| Series {
            kind: Kind::Bar,
            name: words.to_string(),
            group: format!("c{number}"),
            colour: format!("c{number}"),
            words: told,
            of: chips.iter().map(|(series, _)| group(*series)).collect(),
            hatched: number % 2 == 1,
            y: (0..chips.len()).map(|place| place as f64).collect(),
            x: values,
            ..Series::default()
        })
    };
    Figure {
        id: id.to_string(),
        x: Axis::of(title),
        y: Axis {
            marks: chips.iter().map(|(series, _)| (mark(*series), token(*series))).collect(),
            ..Axis::names("", chips.iter().map(|(_, run)| run.device.clone()).collect())
        },
        series: CAUSES.into_iter().enumerate().filter_map(stack).collect(),
        stacked: true,
        sideways: true,
        ..Figure::default()
    }
}

/// The plot of pages programmed over the trace, with the pages that requests wrote behind them.
fn windows(results: &ReplayResults, chips: &[Shown<'_>]) -> Figure {
    let duration = results.trace.duration_ns;
    let scale = Scale::one(Quantity::Time, duration.unwrap_or(0) as f64);
    let place = |start: u64| if duration.is_some() { start as f64 / scale.divisor } else { start as f64 };
    let starts = |run: &ReplayRun| run.windows.iter().map(|w| place(w.start)).collect::<Vec<_>>();
    let mut series = Vec::new();
    if let Some((_, run)) = chips.first() {
        series.push(Series {
            kind: Kind::Step,
            name: "written by requests".to_string(),
            colour: "front".to_string(),
            x: starts(run),
            y: run.windows.iter().map(|w| w.host_page_writes as f64).collect(),
            behind: true,
            ..Series::default()
        });
    }
    series.extend(chips.iter().map(|(series, run)| Series {
        x: starts(run),
        y: run.windows.iter().map(|w| w.page_programs as f64).collect(),
        ..Series::of_index(Kind::Step, *series, &run.device)
    }));
    let title = match duration {
        Some(_) => format!("time since the first request [{}]", scale.unit),
        None => String::from("requests done"),
    };
    Figure {
        id: "plot-windows".to_string(),
        x: Axis::of(&title),
        y: Axis::of("pages programmed in a window"),
        series,
        ..Figure::default()
    }
}

/// The plot of the share of blocks that were erased at least so often.
fn wear(chips: &[Shown<'_>]) -> Figure {
    let line = |(series, run): &Shown<'_>| {
        let (x, y) = blocks_over(&mut run.wear_erases.clone());
        let told = x.iter().zip(&y);
        let words = told
            .map(|(least, share)| {
                format!("{}: {share:.1} % of the blocks erased {least} times or more", run.device)
            })
            .collect();
        Series { x, y, words, ..Series::of_index(Kind::Step, *series, &run.device) }
    };
    Figure {
        id: "plot-wear".to_string(),
        x: Axis::of("erases of a block"),
        y: Axis::of("blocks erased as often or more [%]"),
        series: chips.iter().map(line).collect(),
        ..Figure::default()
    }
}

//! The page of a replay: one table with a row for each device, and plots of write amplification, latency,
//! causes, time and wear.

use super::Assets;
use super::plots::{CAUSES, DASHES, Figure, MARKERS, SYMBOLS, WEAR_BARS};
use super::plots::{axis_title, base, figure, figures_axis, glyph, group, safe, token};
use crate::replay::{facts, notes};
use crate::summary::scale::{Quantity, Scale};
use askama::Template;
use nandex_lab::replay::{ReplayResults, ReplayRun};
use nandex_lab::results::CauseCounts;
use plotly::common::{DashType, Font, HoverInfo, Line, LineShape, Marker, Mode, Orientation};
use plotly::common::{Pattern, PatternShape, TextPosition};
use plotly::histogram::{Bins, HistNorm};
use plotly::layout::{Axis, AxisType, BarMode, HoverMode};
use plotly::{Bar, Histogram, Scatter, Trace};

/// The page.
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

/// A device in the legend.
#[derive(Clone)]
struct Chip {
    token: String,
    group: String,
    glyph: &'static str,
    label: String,
}

/// A column of the comparison.
struct Column {
    heading: &'static str,
    unit: &'static str,
    meaning: &'static str,
}

/// A device of the comparison: cells as text and as a number to sort by.
struct RowView {
    chip: Chip,
    clock: String,
    cells: Vec<(String, String)>,
}

/// A device that did something, with its place in the order asked for.
type Shown<'a> = (usize, &'a ReplayRun);

impl<'a> Page<'a> {
    /// Prepares the page of some results.
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

/// A figure of the comparison.
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

/// A bar for each FTL.
fn amplification(chips: &[Shown<'_>]) -> Figure {
    let scale = Scale::of(Quantity::Number, chips.iter().map(|(_, run)| run.write_amplification));
    let bar = |(series, run): &Shown<'_>| -> Box<dyn Trace> {
        let label = safe(&run.device);
        let value = scale.number(run.write_amplification);
        Bar::new(vec![label.clone()], vec![run.write_amplification])
            .name(&label)
            .legend_group(group(*series))
            .hover_text_array(vec![format!("<b>{label}</b><br>{value} pages programmed per page written")])
            .hover_info(HoverInfo::Text)
            .text(format!("{} {value}", glyph(*series)))
            .text_position(TextPosition::Outside)
            .text_font(Font::new().color(token(*series)).size(13).family(SYMBOLS))
            .clip_on_axis(false)
            .marker(Marker::new().color(token(*series)))
    };
    let layout =
        base().bar_gap(0.4).hover_mode(HoverMode::Closest).y_axis(figures_axis("write amplification"));
    figure("plot-amplification", chips.iter().map(bar).collect(), layout)
}

/// The distribution of latencies: the share that takes no longer, or in the tail the share that takes longer.
fn latency(id: &'static str, shown: &[Shown<'_>], tail: bool) -> Figure {
    let line = |(series, run): &Shown<'_>| -> Box<dyn Trace> {
        let points = run.latency_cdf.iter().filter(|point| !tail || point.1 < 1.0);
        let share = |share: f64| if tail { (1.0 - share) * 100.0 } else { share * 100.0 };
        // What takes no time at all has no place on a logarithmic axis.
        let (x, y): (Vec<f64>, Vec<f64>) =
            points.map(|&(ns, s)| (ns.max(100) as f64 / 1e6, share(s))).unzip();
        let words = if tail { "take longer than" } else { "take at most" };
        let line = Line::new().color(token(*series)).width(2.2).shape(LineShape::Hv);
        Scatter::new(x, y)
            .mode(Mode::LinesMarkers)
            .name(format!("{} {}", glyph(*series), safe(&run.device)))
            .legend_group(group(*series))
            .hover_template(format!(
                "<b>{}</b><br>%{{y:.4~g}}% {words} %{{x:.4~g}} ms<extra></extra>",
                safe(&run.device)
            ))
            .line(line.dash(DASHES[series % DASHES.len()].clone()))
            .marker(
                Marker::new()
                    .color(token(*series))
                    .symbol(MARKERS[series % MARKERS.len()].1.clone())
                    .size(8)
                    .max_displayed(9),
            )
    };
    let x_axis = Axis::new().title(axis_title("latency of a request [ms]")).type_(AxisType::Log);
    let y_axis = match tail {
        true => Axis::new()
            .title(axis_title("requests that take longer [%]"))
            .type_(AxisType::Log)
            .auto_margin(true),
        false => figures_axis("requests that take no longer [%]"),
    };
    let layout = base().hover_mode(HoverMode::Closest).x_axis(x_axis).y_axis(y_axis);
    figure(id, shown.iter().map(line).collect(), layout)
}

/// One kind of chip operation by cause: a stacked bar for each FTL.
fn causes(id: &'static str, title: &str, chips: &[Shown<'_>], count: fn(&CauseCounts) -> u64) -> Figure {
    // The first row on top: the axis counts upwards.
    let chips: Vec<&Shown<'_>> = chips.iter().rev().collect();
    let label = |(series, run): &&Shown<'_>| {
        let (name, token, glyph) = (safe(&run.device), token(*series), glyph(*series));
        format!("{name} <span style='color:{token};font-family:{SYMBOLS}'>{glyph}</span>")
    };
    let labels: Vec<String> = chips.iter().map(label).collect();
    let mut traces: Vec<Box<dyn Trace>> = Vec::new();
    for (i, (cause, words)) in CAUSES.into_iter().enumerate() {
        let value = |(_, run): &&Shown<'_>| {
            run.causes.get(cause).map_or(0, count) as f64 / run.host_page_writes.max(1) as f64
        };
        let values: Vec<f64> = chips.iter().map(value).collect();
        if values.iter().all(|v| *v == 0.0) {
            continue;
        }
        let scale = Scale::of(Quantity::Number, values.iter().copied());
        let hover = chips.iter().zip(&values).map(|((_, run), v)| {
            format!("<b>{}</b><br>{words}: {} {title}", safe(&run.device), scale.number(*v))
        });
        let shape = if i % 2 == 1 { PatternShape::RightDiagonalLine } else { PatternShape::None };
        traces.push(
            Bar::new(values.clone(), labels.clone())
                .orientation(Orientation::Horizontal)
                .name(words)
                .legend_group(format!("c{i}"))
                .ids(chips.iter().map(|(series, _)| group(*series)).collect())
                .hover_text_array(hover.collect())
                .hover_info(HoverInfo::Text)
                .marker(Marker::new().color(format!("c{i}")).pattern(Pattern::new().shape(shape))),
        );
    }
    let layout = base()
        .bar_mode(BarMode::Stack)
        .bar_gap(0.35)
        .hover_mode(HoverMode::Closest)
        .height(110 + 38 * chips.len().max(2))
        .x_axis(figures_axis(title).n_ticks(5))
        .y_axis(Axis::new().auto_margin(true).fixed_range(true));
    figure(id, traces, layout)
}

/// Pages programmed over the trace, and below them what requests wrote.
fn windows(results: &ReplayResults, chips: &[Shown<'_>]) -> Figure {
    let duration = results.trace.duration_ns;
    let scale = Scale::one(Quantity::Time, duration.unwrap_or(0) as f64);
    let place = |start: u64| if duration.is_some() { start as f64 / scale.divisor } else { start as f64 };
    let starts = |run: &ReplayRun| run.windows.iter().map(|w| place(w.start)).collect::<Vec<_>>();
    let mut traces: Vec<Box<dyn Trace>> = Vec::new();
    if let Some((_, run)) = chips.first() {
        let writes = run.windows.iter().map(|w| w.host_page_writes).collect();
        let line = Line::new().color("faint").width(3.0).shape(LineShape::Hv).dash(DashType::Solid);
        let requests = Scatter::new(starts(run), writes).mode(Mode::Lines).name("written by requests");
        traces.push(requests.hover_template("%{y:,}").line(line));
    }
    for (series, run) in chips {
        let programs = run.windows.iter().map(|w| w.page_programs).collect();
        let line = Line::new().color(token(*series)).width(2.0).shape(LineShape::Hv);
        let marker = Marker::new().color(token(*series)).symbol(MARKERS[series % MARKERS.len()].1.clone());
        traces.push(
            Scatter::new(starts(run), programs)
                .mode(Mode::LinesMarkers)
                .name(format!("{} {}", glyph(*series), safe(&run.device)))
                .legend_group(group(*series))
                .hover_template("%{y:,}")
                .line(line.dash(DASHES[series % DASHES.len()].clone()))
                .marker(marker.size(8).max_displayed(9)),
        );
    }
    let title = match duration {
        Some(_) => format!("time since the first request [{}]", scale.unit),
        None => String::from("requests done"),
    };
    let layout = base()
        .hover_mode(HoverMode::XUnified)
        .x_axis(Axis::new().title(axis_title(&title)))
        .y_axis(figures_axis("pages programmed in a window"));
    figure("plot-windows", traces, layout)
}

/// How many blocks were erased how often.
fn wear(chips: &[Shown<'_>]) -> Figure {
    let all = || chips.iter().flat_map(|(_, run)| run.wear_erases.iter().copied());
    let (least, most) = (all().min().unwrap_or(0), all().max().unwrap_or(0));
    let width = (most - least).div_ceil(WEAR_BARS).max(1);
    let histogram = |(series, run): &Shown<'_>| -> Box<dyn Trace> {
        Histogram::new(run.wear_erases.clone())
            .name(safe(&run.device))
            .legend_group(group(*series))
            .auto_bin_x(false)
            .x_bins(Bins::new(f64::from(least) - 0.5, f64::from(most) + 0.5, f64::from(width)))
            .hist_norm(HistNorm::Percent)
            .hover_template(format!(
                "<b>{}</b><br>%{{y:.1f}}% of the blocks<br>erased %{{x}} times<extra></extra>",
                safe(&run.device)
            ))
            .marker(Marker::new().color(token(*series)))
    };
    let x_axis = Axis::new().title(axis_title("erases of a block")).tick_format(",~d");
    let layout = base()
        .bar_mode(BarMode::Group)
        .bar_gap(0.12)
        .hover_mode(HoverMode::Closest)
        .x_axis(if most - least < 12 { x_axis.dtick(1.0) } else { x_axis })
        .y_axis(figures_axis("share of the blocks [%]"));
    figure("plot-wear", chips.iter().map(histogram).collect(), layout)
}

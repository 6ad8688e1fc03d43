//! The plots of the report, as figures of the plotting library.
//!
//! An index has one colour, marker and dash in all of them, by its place in the order asked for. Colours are
//! written as tokens (`s0`, `c1`, ...) that the page's script replaces by those of the light or dark theme.

use crate::summary::measure::{KINDS, Measure};
use crate::summary::scale::{Quantity, Scale};
use crate::summary::{Row, Summary};
use nandex_lab::results::CauseCounts;
use nandex_lab::stats;
use plotly::common::{Anchor, Font, Pattern, PatternShape, TextPosition, Title};
use plotly::common::{
    DashType, ErrorData, ErrorType, HoverInfo, Line, Marker, MarkerSymbol, Mode, Orientation,
};
use plotly::histogram::{Bins, HistNorm};
use plotly::layout::{Annotation, Axis, BarMode, HoverMode, Margin, RangeMode, Shape, ShapeLine, ShapeType};
use plotly::{Bar, Histogram, Layout, Scatter, Trace};

/// Markers by series, as text and as the library's symbol.
pub(super) const MARKERS: [(&str, MarkerSymbol); 8] = [
    ("\u{25cf}", MarkerSymbol::Circle),
    ("\u{25a0}", MarkerSymbol::Square),
    ("\u{25c6}", MarkerSymbol::Diamond),
    ("\u{25b2}", MarkerSymbol::TriangleUp),
    ("\u{25bc}", MarkerSymbol::TriangleDown),
    ("\u{2605}", MarkerSymbol::Star),
    ("\u{271a}", MarkerSymbol::Cross),
    ("\u{2716}", MarkerSymbol::X),
];

/// Colours of series in the page's style; they repeat after as many.
const COLOURS: usize = 12;

/// Bars of the histogram of wear at most.
pub(super) const WEAR_BARS: u32 = 30;

/// Typefaces in which the markers have the same size.
pub(super) const SYMBOLS: &str = "DejaVu Sans, Segoe UI Symbol, Apple Symbols, sans-serif";

pub(super) const DASHES: [DashType; 6] = [
    DashType::Solid,
    DashType::Dash,
    DashType::Dot,
    DashType::DashDot,
    DashType::LongDash,
    DashType::LongDashDot,
];

/// Who pays for an operation of the chip, with the words of the legend, in stacking order.
pub(super) const CAUSES: [(&str, &str); 8] = [
    ("host", "the operation itself"),
    ("cache_eviction", "cache eviction"),
    ("garbage_collection", "garbage collection"),
    ("merge", "merge"),
    ("mapping", "mapping tables"),
    ("wear_levelling", "wear levelling"),
    ("checkpoint", "checkpoint"),
    ("recovery", "recovery"),
];

/// The marker of a series, as text.
pub(super) fn glyph(series: usize) -> &'static str {
    MARKERS[series % MARKERS.len()].0
}

/// The colour token of a series.
pub(super) fn token(series: usize) -> String {
    format!("s{}", series % COLOURS)
}

/// The name under which a series is switched on and off.
pub(super) fn group(series: usize) -> String {
    format!("g{series}")
}

/// One plot with what is said around it.
pub(super) struct Figure {
    /// Element of the page that holds it.
    pub(super) id: String,
    /// The traces, as JSON.
    pub(super) data: Vec<String>,
    /// The layout, as JSON.
    pub(super) layout: String,
}

pub(super) fn figure(id: &str, traces: Vec<Box<dyn Trace>>, layout: Layout) -> Figure {
    let data = traces.iter().map(|t| t.to_json()).collect();
    Figure { id: id.to_string(), data, layout: layout.to_json() }
}

/// All plots that these results fill.
pub(super) fn figures(summary: &Summary<'_>) -> Vec<Figure> {
    let rows: Vec<&Row<'_>> =
        summary.rows_as_asked().into_iter().filter(|r| !r.finished.is_empty()).collect();
    vec![
        kinds(summary, &rows),
        causes("plot-reads", "page reads per operation", &rows, |c| c.page_reads),
        causes("plot-programs", "page programs per operation", &rows, |c| c.page_programs),
        causes("plot-erases", "block erases per operation", &rows, |c| c.block_erases),
        timeline(&rows),
        wear(&rows),
    ]
}

/// Flash time per operation by kind: grouped bars, with the interval over seeds where there are several.
fn kinds(summary: &Summary<'_>, rows: &[&Row<'_>]) -> Figure {
    let kinds: Vec<&str> =
        KINDS.into_iter().filter(|k| rows.iter().any(|r| r.value(Measure::KindTime(k)).is_some())).collect();
    let values = || rows.iter().flat_map(|r| kinds.iter().filter_map(|k| r.value(Measure::KindTime(k))));
    let scale = Scale::of(Quantity::Time, values().map(|s| s.mean));
    let bar = |row: &&Row<'_>| -> Box<dyn Trace> {
        let cells: Vec<(&str, stats::Summary)> =
            kinds.iter().filter_map(|k| Some((*k, row.value(Measure::KindTime(k))?))).collect();
        let scaled = |f: fn(&stats::Summary) -> f64| {
            cells.iter().map(|(_, s)| f(s) / scale.divisor).collect::<Vec<_>>()
        };
        let x: Vec<String> = cells.iter().map(|(kind, _)| kind.to_string()).collect();
        let hover = cells.iter().map(|(kind, s)| {
            format!("<b>{}</b><br>{kind}: {} per operation", safe(&row.label), scale.over_seeds(s))
        });
        let bar = Bar::new(x, scaled(|s| s.mean))
            .name(safe(&row.label))
            .legend_group(group(row.series))
            .hover_text_array(hover.collect())
            .hover_info(HoverInfo::Text)
            .text(glyph(row.series))
            .text_position(TextPosition::Outside)
            .text_font(Font::new().color(token(row.series)).size(13).family(SYMBOLS))
            .clip_on_axis(false)
            .marker(Marker::new().color(token(row.series)));
        if summary.seeds.len() < 2 {
            return bar;
        }
        let error = ErrorData::new(ErrorType::Data).color("ink").thickness(1.2).width(3);
        bar.error_y(error.array(scaled(|s| s.ci95.unwrap_or(0.0))))
    };
    let layout = base()
        .bar_mode(BarMode::Group)
        .bar_gap(0.28)
        .bar_group_gap(0.08)
        .hover_mode(HoverMode::Closest)
        .x_axis(Axis::new().title(axis_title("kind of operation")))
        .y_axis(figures_axis(&format!("flash time per operation [{}]", scale.unit)));
    figure("plot-kinds", rows.iter().map(bar).collect(), layout)
}

/// One kind of chip operation by cause: a stacked bar for each index.
fn causes(id: &'static str, title: &str, rows: &[&Row<'_>], count: fn(&CauseCounts) -> u64) -> Figure {
    // The first row on top: the axis counts upwards.
    let rows: Vec<&Row<'_>> = rows.iter().rev().copied().collect();
    let labels: Vec<String> = rows
        .iter()
        .map(|r| {
            format!(
                "{} <span style='color:{};font-family:{SYMBOLS}'>{}</span>",
                safe(&r.label),
                token(r.series),
                glyph(r.series)
            )
        })
        .collect();
    let mut traces: Vec<Box<dyn Trace>> = Vec::new();
    for (i, (cause, words)) in CAUSES.into_iter().enumerate() {
        let values: Vec<f64> = rows.iter().map(|row| cause_mean(row, cause, count)).collect();
        if values.iter().all(|v| *v == 0.0) {
            continue;
        }
        let scale = Scale::of(Quantity::Number, values.iter().copied());
        let hover = rows
            .iter()
            .zip(&values)
            .map(|(row, v)| format!("<b>{}</b><br>{words}: {} {title}", safe(&row.label), scale.number(*v)));
        let pattern = Pattern::new().shape(if i % 2 == 1 {
            PatternShape::RightDiagonalLine
        } else {
            PatternShape::None
        });
        traces.push(
            Bar::new(values.clone(), labels.clone())
                .orientation(Orientation::Horizontal)
                .name(words)
                .legend_group(format!("c{i}"))
                .ids(rows.iter().map(|r| group(r.series)).collect())
                .hover_text_array(hover.collect())
                .hover_info(HoverInfo::Text)
                .marker(Marker::new().color(format!("c{i}")).pattern(pattern)),
        );
    }
    let layout = base()
        .bar_mode(BarMode::Stack)
        .bar_gap(0.35)
        .hover_mode(HoverMode::Closest)
        .height(110 + 38 * rows.len().max(2))
        .x_axis(figures_axis(title).n_ticks(5))
        .y_axis(Axis::new().auto_margin(true).fixed_range(true));
    figure(id, traces, layout)
}

/// Operations of the chip for a cause per operation of the index, mean over seeds.
pub(super) fn cause_mean(row: &Row<'_>, cause: &str, count: fn(&CauseCounts) -> u64) -> f64 {
    let per_operation = row.finished.iter().map(|(_, totals)| {
        let counts = totals.causes.get(cause).map_or(0, count);
        counts as f64 / totals.costs.operations.max(1) as f64
    });
    stats::Summary::of(&per_operation.collect::<Vec<_>>()).map_or(0.0, |s| s.mean)
}

/// Flash time accumulated over the operations: a line for each index, its first seed.
fn timeline(rows: &[&Row<'_>]) -> Figure {
    let ends = rows.iter().map(|r| r.finished[0].1.costs.flash_time_ns as f64);
    let scale = Scale::one(Quantity::Time, ends.fold(0.0, f64::max));
    let line = |row: &&Row<'_>| -> Box<dyn Trace> {
        let samples = &row.finished[0].1.timeline;
        let x: Vec<u64> = samples.iter().map(|s| s.operations).collect();
        let y: Vec<f64> = samples.iter().map(|s| s.flash_time_ns as f64 / scale.divisor).collect();
        let line = Line::new().color(token(row.series)).width(2.2);
        Scatter::new(x, y)
            .mode(Mode::LinesMarkers)
            .name(format!("{} {}", glyph(row.series), safe(&row.label)))
            .legend_group(group(row.series))
            .hover_template(format!("%{{y:.4~g}} {}", scale.unit))
            .line(line.dash(DASHES[row.series % DASHES.len()].clone()))
            .marker(
                Marker::new()
                    .color(token(row.series))
                    .symbol(MARKERS[row.series % MARKERS.len()].1.clone())
                    .size(8)
                    .max_displayed(9),
            )
    };
    let (shapes, annotations) = rows.first().map_or((Vec::new(), Vec::new()), |row| boundaries(row));
    let layout = base()
        .hover_mode(HoverMode::XUnified)
        .shapes(shapes)
        .annotations(annotations)
        .x_axis(
            Axis::new()
                .title(axis_title("measured operations done"))
                .range_mode(RangeMode::ToZero)
                .tick_format(",~d"),
        )
        .y_axis(figures_axis(&format!("accumulated flash time [{}]", scale.unit)));
    figure("plot-timeline", rows.iter().map(line).collect(), layout)
}

/// A dotted line and a name where a measured phase begins.
fn boundaries(row: &Row<'_>) -> (Vec<Shape>, Vec<Annotation>) {
    let mut shapes = Vec::new();
    let mut names = Vec::new();
    let mut operations = 0;
    for phase in row.finished[0].0.phases.iter().filter(|p| p.measured) {
        if operations > 0 {
            let line = ShapeLine::new().color("faint").width(1.0).dash(DashType::Dot);
            let shape = Shape::new().shape_type(ShapeType::Line).y_ref("paper").y0(0).y1(1);
            shapes.push(shape.x0(operations).x1(operations).line(line));
        }
        let name = Annotation::new().text(safe(&phase.name)).x(operations).y(1.0).y_ref("paper");
        let font = Font::new().size(12).color("muted");
        let name = name.x_anchor(Anchor::Left).y_anchor(Anchor::Bottom).x_shift(2.0);
        names.push(name.show_arrow(false).font(font));
        operations += phase.total.operations;
    }
    (shapes, names)
}

/// How many blocks were erased how often, over all seeds.
fn wear(rows: &[&Row<'_>]) -> Figure {
    let erases = |row: &Row<'_>| -> Vec<u32> {
        row.finished.iter().flat_map(|(run, _)| run.wear_erases.iter().copied()).collect()
    };
    let all = || rows.iter().flat_map(|row| erases(row));
    let (least, most) = (all().min().unwrap_or(0), all().max().unwrap_or(0));
    // Whole numbers in the middle of their bar.
    let width = (most - least).div_ceil(WEAR_BARS).max(1);
    let bins = || Bins::new(f64::from(least) - 0.5, f64::from(most) + 0.5, f64::from(width));
    let histogram = |row: &&Row<'_>| -> Box<dyn Trace> {
        Histogram::new(erases(row))
            .name(safe(&row.label))
            .legend_group(group(row.series))
            .auto_bin_x(false)
            .x_bins(bins())
            .hist_norm(HistNorm::Percent)
            .hover_template(format!(
                "<b>{}</b><br>%{{y:.1f}}% of the blocks<br>erased %{{x}} times<extra></extra>",
                safe(&row.label)
            ))
            .marker(Marker::new().color(token(row.series)))
    };
    let x_axis = Axis::new().title(axis_title("erases of a block since the format")).tick_format(",~d");
    let layout = base()
        .bar_mode(BarMode::Group)
        .bar_gap(0.12)
        .hover_mode(HoverMode::Closest)
        .x_axis(if most - least < 12 { x_axis.dtick(1.0) } else { x_axis })
        .y_axis(figures_axis("share of the blocks [%]"));
    figure("plot-wear", rows.iter().map(histogram).collect(), layout)
}

pub(super) fn base() -> Layout {
    Layout::new()
        .show_legend(false)
        .auto_size(true)
        .margin(Margin::new().left(64).right(16).top(26).bottom(52))
}

pub(super) fn figures_axis(title: &str) -> Axis {
    Axis::new().title(axis_title(title)).range_mode(RangeMode::ToZero).auto_margin(true)
}

pub(super) fn axis_title(text: &str) -> Title {
    Title::with_text(text)
}

/// Text for the library, which reads a few HTML tags in its labels.
pub(super) fn safe(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

//! The page of an experiment: its claims with their verdicts, its plots with their numbers, every cell.

use super::Assets;
use super::plots::{DASHES, Figure, MARKERS, axis_title, base, figure, figures_axis, glyph, safe, token};
use crate::summary::scale::{Quantity, Scale};
use askama::Template;
use nandex_lab::experiment::{ExperimentResults, Plot, PlotKind, Point, Series, Stated};
use nandex_lab::repro::{self, ScoreRow};
use plotly::common::{ErrorData, ErrorType, Line, Marker, MarkerSymbol, Mode};
use plotly::layout::{Axis, AxisType, BarMode, HoverMode};
use plotly::{Bar, Scatter, Trace};

/// Columns of the table of cells.
const TABLE_COLUMNS: usize = 160;

/// Points of a line that are marked, if there are not more.
const MARKED_POINTS: usize = 24;

/// The page.
#[derive(Template)]
#[template(path = "experiment.html")]
pub(super) struct Page<'a> {
    results: &'a ExperimentResults,
    section: Section,
    assets: Assets,
}

/// An experiment as a page shows it: alone, or among those of a paper.
pub(super) struct Section {
    pub(super) name: String,
    pub(super) shows: String,
    pub(super) summary: String,
    pub(super) facts: String,
    pub(super) claims: Vec<ScoreRow>,
    pub(super) plots: Vec<PlotView>,
    /// The notes of the experiment, as HTML.
    pub(super) notes: String,
    /// Every cell, as the terminal shows it.
    pub(super) table: String,
    pub(super) command: String,
}

/// A plot and its numbers.
pub(super) struct PlotView {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) label: String,
    pub(super) series: String,
    pub(super) head: Vec<String>,
    pub(super) rows: Vec<(String, Vec<String>)>,
}

impl<'a> Page<'a> {
    /// Prepares the page of some results.
    pub(super) fn of(results: &'a ExperimentResults) -> Result<Page<'a>, serde_json::Error> {
        let mut figures = Vec::new();
        Ok(Page {
            results,
            section: Section::of(results, "plot", &mut figures),
            assets: Assets::of(&figures, results)?,
        })
    }
}

impl Section {
    /// The section of some results; its plots are added to the figures of the page, their names beginning
    /// with `prefix`.
    pub(super) fn of(results: &ExperimentResults, prefix: &str, figures: &mut Vec<Figure>) -> Section {
        let definition = &results.definition;
        let claims = results.claims();
        let mut plots = Vec::new();
        for (number, plot) in definition.plots.iter().enumerate() {
            let series = plot.series_of(&results.cells);
            if series.is_empty() {
                continue;
            }
            let id = format!("{prefix}-{number}");
            figures.push(draw(&id, plot, &series, &plot.stated(claims, &results.cells)));
            plots.push(PlotView { title: plot.title_over(&results.cells), ..view(id, plot, &series) });
        }
        Section {
            name: definition.name.clone(),
            shows: definition.shows.clone(),
            summary: definition.summary.clone(),
            facts: format!("chip {}; {}", definition.chip, crate::table::seeds(&results.seeds)),
            claims: claims.iter().map(|claim| repro::row(claim, results)).collect(),
            plots,
            notes: html_of(results.notes()),
            table: crate::experiment::render(results, TABLE_COLUMNS),
            command: results.command.clone(),
        }
    }
}

/// Notes as HTML, without their title. They are part of the program: links go nowhere in a page that loads
/// nothing, so their words alone are kept.
fn html_of(notes: &str) -> String {
    use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd, html};
    let body =
        notes.split_once('\n').map_or("", |(title, rest)| if title.starts_with("# ") { rest } else { notes });
    let is_kept = |event: &Event<'_>| {
        !matches!(
            event,
            Event::Start(Tag::Link { .. }) | Event::End(TagEnd::Link) | Event::Html(_) | Event::InlineHtml(_)
        )
    };
    let mut out = String::new();
    html::push_html(&mut out, Parser::new_ext(body, Options::ENABLE_TABLES).filter(is_kept));
    out
}

/// Places on the horizontal axis, in the order in which the series have them.
fn places(series: &[Series]) -> Vec<String> {
    let mut places: Vec<String> = Vec::new();
    for point in series.iter().flat_map(|series| &series.points) {
        if !places.contains(&point.x) {
            places.push(point.x.clone());
        }
    }
    places
}

fn view(id: String, plot: &Plot, series: &[Series]) -> PlotView {
    let head = places(series);
    let values = series.iter().flat_map(|series| series.points.iter().map(|point| point.mean));
    let scale = Scale::of(Quantity::Number, values);
    let row = |series: &Series| {
        let at = |x: &String| series.points.iter().find(|point| point.x == *x);
        let cell = |x| at(x).map_or_else(|| "\u{2013}".to_string(), |point| scale.number(point.mean));
        (series.name.clone(), head.iter().map(cell).collect())
    };
    PlotView {
        id,
        title: plot.title.clone(),
        label: plot.label.clone(),
        series: plot.series.replace('_', " "),
        rows: series.iter().map(row).collect(),
        head,
    }
}

fn draw(id: &str, plot: &Plot, series: &[Series], stated: &[Stated]) -> Figure {
    let x_title = plot.x.replace('_', " ");
    let y_axis = figures_axis(&plot.label);
    let y_axis = if plot.log { y_axis.type_(AxisType::Log) } else { y_axis };
    let layout = base().show_legend(true).y_axis(y_axis);
    let layout = match plot.kind {
        PlotKind::Bars => layout
            .bar_mode(BarMode::Group)
            .bar_gap(0.28)
            .bar_group_gap(0.08)
            .hover_mode(HoverMode::Closest)
            .x_axis(Axis::new().title(axis_title(&x_title)).type_(AxisType::Category)),
        PlotKind::Lines | PlotKind::Timeline => layout
            .hover_mode(HoverMode::XUnified)
            .x_axis(Axis::new().title(axis_title(&x_title)).auto_margin(true)),
    };
    let trace = |(number, series): (usize, &Series)| match plot.kind {
        PlotKind::Bars => bars(number, series),
        PlotKind::Lines | PlotKind::Timeline => line(number, series),
    };
    let mut traces: Vec<Box<dyn Trace>> = series.iter().enumerate().map(trace).collect();
    let number_of = |name: &str| series.iter().position(|series| series.name == name).unwrap_or(0);
    traces.extend(stated.iter().map(|stated| marks(number_of(&stated.series), stated, plot.kind)));
    figure(id, traces, layout)
}

/// The spread over the seeds around the means; nothing where there is none.
fn spread(series: &Series) -> Option<ErrorData> {
    let has_spread = series.points.iter().any(|point| point.max > point.min);
    let above = series.points.iter().map(|point| point.max - point.mean).collect();
    let below = series.points.iter().map(|point| point.mean - point.min).collect();
    let error = ErrorData::new(ErrorType::Data).color("ink").thickness(1.2).width(3).symmetric(false);
    has_spread.then(|| error.array(above).array_minus(below))
}

fn bars(number: usize, series: &Series) -> Box<dyn Trace> {
    let (x, y): (Vec<String>, Vec<f64>) = series.points.iter().map(|p| (safe(&p.x), p.mean)).unzip();
    let bar = Bar::new(x, y)
        .name(format!("{} {}", glyph(number), safe(&series.name)))
        .marker(Marker::new().color(token(number)));
    match spread(series) {
        Some(error) => bar.error_y(error),
        None => bar,
    }
}

/// Where the points of a line lie: those whose place is no number are numbered.
fn numbers(points: &[Point]) -> Vec<f64> {
    points.iter().enumerate().map(|(at, point)| point.x.parse().unwrap_or(at as f64)).collect()
}

fn line(number: usize, series: &Series) -> Box<dyn Trace> {
    let y: Vec<f64> = series.points.iter().map(|point| point.mean).collect();
    let line = Scatter::new(numbers(&series.points), y)
        .mode(if series.points.len() > MARKED_POINTS { Mode::Lines } else { Mode::LinesMarkers })
        .name(format!("{} {}", glyph(number), safe(&series.name)))
        .line(Line::new().color(token(number)).width(2.2).dash(DASHES[number % DASHES.len()].clone()))
        .marker(Marker::new().color(token(number)).symbol(MARKERS[number % MARKERS.len()].1.clone()).size(8));
    match spread(series) {
        Some(error) => line.error_y(error),
        None => line,
    }
}

/// The figures that the paper states, as marks beside ours.
fn marks(number: usize, stated: &Stated, kind: PlotKind) -> Box<dyn Trace> {
    let y: Vec<f64> = stated.points.iter().map(|point| point.mean).collect();
    let name = match stated.against.as_str() {
        "" => format!("paper: {}", safe(&stated.series)),
        against => format!("paper: {}, given our {}", safe(&stated.series), safe(against)),
    };
    let marker = Marker::new()
        .color(token(number))
        .symbol(MarkerSymbol::DiamondOpen)
        .size(11)
        .line(Line::new().width(2.0));
    match kind {
        PlotKind::Bars => {
            let x: Vec<String> = stated.points.iter().map(|point| safe(&point.x)).collect();
            Scatter::new(x, y).mode(Mode::Markers).name(name).marker(marker)
        }
        PlotKind::Lines | PlotKind::Timeline => {
            Scatter::new(numbers(&stated.points), y).mode(Mode::Markers).name(name).marker(marker)
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::html::{plotly_script, render_experiment};
    use nandex_lab::experiment::{self, RunPlan};
    use nandex_lab::runner::Control;
    use scraper::{Html, Selector};

    #[test]
    fn the_page_has_the_claims_and_each_plot_with_its_numbers() {
        let plan = RunPlan { smoke: true, ..RunPlan::default() };
        let mut results = experiment::run("wpcb-figure10", &plan, &Control::default()).unwrap();
        results.definition.summary = "<script>alert(1)</script>".to_string();
        let page = render_experiment(&results).unwrap().replacen(&plotly_script(), "", 1);
        let html = Html::parse_document(&page);
        assert!(html.errors.is_empty(), "{:?}", html.errors);
        let texts = |selector: &str| -> Vec<String> {
            let selector = Selector::parse(selector).unwrap();
            html.select(&selector).map(|e| e.text().collect()).collect()
        };
        assert!(texts("tbody th").contains(&"W3".to_string()));
        assert_eq!(html.select(&Selector::parse(".plot").unwrap()).count(), 3);
        let figures: serde_json::Value = serde_json::from_str(&texts("#figures")[0]).unwrap();
        let traces = figures[0]["data"].as_array().unwrap();
        // A line for each rs, and beside it the mark of what the paper says.
        assert_eq!((traces.len(), traces[0]["x"].as_array().unwrap().len()), (6, 8));
        assert_eq!(texts("caption"), ["block erases", "time [s]", "energy [mJ]"]);
        assert_eq!(texts("script").len(), 4);
        assert!(!page.contains("://"), "an address in the page");
    }
}

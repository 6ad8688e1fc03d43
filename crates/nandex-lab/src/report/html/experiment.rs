//! The page of an experiment: its claims with their verdicts, its plots with their numbers, every cell.

use super::Assets;
use super::plots::{DASHES, Figure, MARKERS, axis_title, base, figure, figures_axis, glyph, safe, token};
use crate::experiment::{self, ExperimentResults, Plot, PlotKind, Series};
use crate::report::scale::{Quantity, Scale};
use crate::repro::{self, ScoreRow};
use askama::Template;
use plotly::common::{Line, Marker, Mode};
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
    facts: String,
    claims: Vec<ScoreRow>,
    plots: Vec<PlotView>,
    table: String,
    assets: Assets,
}

/// A plot and its numbers.
struct PlotView {
    id: String,
    title: String,
    label: String,
    series: String,
    head: Vec<String>,
    rows: Vec<(String, Vec<String>)>,
}

impl<'a> Page<'a> {
    /// Prepares the page of some results.
    pub(super) fn of(results: &'a ExperimentResults) -> Result<Page<'a>, serde_json::Error> {
        let definition = &results.definition;
        let drawn: Vec<(String, &Plot, Vec<Series>)> = definition
            .plots
            .iter()
            .enumerate()
            .map(|(number, plot)| (format!("plot-{number}"), plot, plot.series_of(&results.cells)))
            .filter(|(_, _, series)| !series.is_empty())
            .collect();
        let figures: Vec<Figure> = drawn.iter().map(|(id, plot, series)| draw(id, plot, series)).collect();
        let claims = experiment::find(&definition.name).map_or(&[][..], |found| &found.claims);
        Ok(Page {
            results,
            facts: format!("chip {}; {}", definition.chip, crate::report::table::seeds(&results.seeds)),
            claims: claims.iter().map(|claim| repro::row(claim, results)).collect(),
            plots: drawn.into_iter().map(|(id, plot, series)| view(id, plot, &series)).collect(),
            table: crate::report::experiment::render(results, TABLE_COLUMNS),
            assets: Assets::of(&figures, results)?,
        })
    }
}

/// Places on the horizontal axis, in the order in which the series have them.
fn places(series: &[Series]) -> Vec<String> {
    let mut places: Vec<String> = Vec::new();
    for (x, _) in series.iter().flat_map(|series| &series.points) {
        if !places.contains(x) {
            places.push(x.clone());
        }
    }
    places
}

fn view(id: String, plot: &Plot, series: &[Series]) -> PlotView {
    let head = places(series);
    let values = series.iter().flat_map(|series| series.points.iter().map(|(_, y)| *y));
    let scale = Scale::of(Quantity::Number, values);
    let row = |series: &Series| {
        let at = |x: &String| series.points.iter().find(|point| point.0 == *x);
        let cell = |x| at(x).map_or_else(|| "\u{2013}".to_string(), |(_, y)| scale.number(*y));
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

fn draw(id: &str, plot: &Plot, series: &[Series]) -> Figure {
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
    figure(id, series.iter().enumerate().map(trace).collect(), layout)
}

fn bars(number: usize, series: &Series) -> Box<dyn Trace> {
    let (x, y): (Vec<String>, Vec<f64>) = series.points.iter().map(|(x, y)| (safe(x), *y)).unzip();
    Bar::new(x, y)
        .name(format!("{} {}", glyph(number), safe(&series.name)))
        .marker(Marker::new().color(token(number)))
}

fn line(number: usize, series: &Series) -> Box<dyn Trace> {
    // Places that are no numbers are numbered.
    let place = |(at, (x, y)): (usize, &(String, f64))| (x.parse().unwrap_or(at as f64), *y);
    let (x, y): (Vec<f64>, Vec<f64>) = series.points.iter().enumerate().map(place).unzip();
    Scatter::new(x, y)
        .mode(if series.points.len() > MARKED_POINTS { Mode::Lines } else { Mode::LinesMarkers })
        .name(format!("{} {}", glyph(number), safe(&series.name)))
        .line(Line::new().color(token(number)).width(2.2).dash(DASHES[number % DASHES.len()].clone()))
        .marker(Marker::new().color(token(number)).symbol(MARKERS[number % MARKERS.len()].1.clone()).size(8))
}

#[cfg(test)]
mod tests {
    use crate::experiment::{self, RunPlan};
    use crate::report::html::{plotly_script, render_experiment};
    use crate::runner::Control;
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
        assert_eq!(html.select(&Selector::parse(".plot").unwrap()).count(), 1);
        let figures: serde_json::Value = serde_json::from_str(&texts("#figures")[0]).unwrap();
        let traces = figures[0]["data"].as_array().unwrap();
        assert_eq!((traces.len(), traces[0]["x"].as_array().unwrap().len()), (3, 8));
        assert_eq!(texts("caption"), ["block erases"]);
        assert_eq!(texts("script").len(), 4);
        assert!(!page.contains("://"), "an address in the page");
    }
}

//! The page of an experiment: its claims with verdicts, its plots with numbers, and all cells.

use super::Assets;
use super::draw::{Axis, Figure, Kind, Series as Drawn, Spread, mark, token};
use super::plots::spans;
use crate::experiment::{Table, remarks, tables};
use crate::summary::scale::{Quantity, Scale, show};
use askama::Template;
use nandex_lab::experiment::{ExperimentResults, Plot, PlotKind, Point, Series, Stated};
use nandex_lab::repro::{self, ScoreRow, ScoreValue, Verdict};

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
    pub(super) claims: Vec<ClaimView>,
    /// The plot of measured figures divided by the paper's, if there are any.
    pub(super) against_paper: Option<String>,
    pub(super) plots: Vec<PlotView>,
    /// The notes of the experiment, as HTML.
    pub(super) notes: String,
    pub(super) tables: Vec<Table>,
    /// Remarks on cells that stopped, cells that did not run, and replacements.
    pub(super) remarks: Vec<String>,
    pub(super) command: String,
}

/// A claim with its figures. Each has its name, the paper's value, our value with its spread, and whether
/// ours is outside the band.
pub(super) struct ClaimView {
    pub(super) row: ScoreRow,
    pub(super) figures: Vec<(String, String, String, bool)>,
}

pub(super) struct PlotView {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) label: String,
    pub(super) series: String,
    pub(super) head: Vec<String>,
    pub(super) rows: Vec<(String, Vec<String>)>,
}

impl<'a> Page<'a> {
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
    /// Makes the section of one experiment and adds its plots to the figures of the page. The names of the
    /// plots begin with `prefix`.
    pub(super) fn of(results: &ExperimentResults, prefix: &str, figures: &mut Vec<Figure>) -> Section {
        let definition = &results.definition;
        let claims = results.claims();
        let rows: Vec<ScoreRow> = claims.iter().map(|claim| repro::row(claim, results)).collect();
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
            against_paper: figure_of_claims(&format!("{prefix}-claims"), &rows).map(|figure| {
                let id = figure.id.clone();
                figures.push(figure);
                id
            }),
            claims: rows.into_iter().map(claim_view).collect(),
            plots,
            notes: html_of(results.notes()),
            tables: tables(results),
            remarks: remarks(results),
            command: results.command.clone(),
        }
    }
}

/// Converts notes to HTML without their title. Only the words of links are kept, since the page loads
/// nothing. The notes are part of the program and thus trusted.
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

fn claim_view(row: ScoreRow) -> ClaimView {
    let number =
        |value: Option<f64>| value.map_or_else(|| "\u{2013}".to_string(), |v| show(Quantity::Number, v));
    let figure = |value: &ScoreValue| {
        let mut ours = number(value.measured);
        if let (Some(min), Some(max)) = (value.measured_min, value.measured_max)
            && min < max
        {
            ours += &format!(" ({} to {})", number(Some(min)), number(Some(max)));
        }
        let is_outside = matches!(value.verdict, Verdict::NotReproduced | Verdict::DirectionOnly);
        (format!("{} {}", value.cell, value.figure.replace('_', " ")), number(value.paper), ours, is_outside)
    };
    ClaimView { figures: row.values.iter().map(figure).collect(), row }
}

/// The plot of every figure of the paper that was measured: ours divided by the paper's, with the spread
/// over the seeds.
fn figure_of_claims(id: &str, rows: &[ScoreRow]) -> Option<Figure> {
    let mut names = Vec::new();
    let (mut ours, mut spread) = (Drawn::default(), Spread::default());
    for (row, value) in rows.iter().flat_map(|row| row.values.iter().map(move |value| (row, value))) {
        let (Some(paper), Some(measured)) = (value.paper, value.measured) else { continue };
        if paper <= 0.0 || measured <= 0.0 {
            continue;
        }
        let ratio = measured / paper;
        ours.x.push(names.len() as f64);
        ours.y.push(ratio);
        spread.below.push(ratio - value.measured_min.unwrap_or(measured) / paper);
        spread.above.push(value.measured_max.unwrap_or(measured) / paper - ratio);
        let (shown, of_paper) = (show(Quantity::Number, measured), show(Quantity::Number, paper));
        ours.words.push(format!("{} {}: measured {shown}, paper {of_paper}", row.id, value.cell));
        let again = rows.iter().filter(|other| other.id == row.id).map(|r| r.values.len()).sum::<usize>() > 1;
        names.push(if again { format!("{} {}", row.id, names.len() + 1) } else { row.id.clone() });
    }
    if names.is_empty() {
        return None;
    }
    let paper = Drawn {
        kind: Kind::Points,
        name: "the paper".to_string(),
        colour: token(1),
        mark: 2,
        open: true,
        x: ours.x.clone(),
        y: vec![1.0; names.len()],
        words: ours.words.clone(),
        ..Drawn::default()
    };
    let log = spans(ours.y.iter().copied());
    let measured = Drawn {
        kind: Kind::Points,
        name: "measured".to_string(),
        colour: token(0),
        spread: Some(spread),
        ..ours
    };
    Some(Figure {
        id: id.to_string(),
        x: Axis::names("claim", names),
        y: Axis { log, ..Axis::of("measured over the paper's") },
        series: vec![paper, measured],
        legend: true,
        ..Figure::default()
    })
}

/// Positions on the horizontal axis, in the order of the series.
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
    let is_bars = plot.kind == PlotKind::Bars;
    let names = if is_bars { places(series) } else { Vec::new() };
    let mut drawn: Vec<Drawn> =
        series.iter().enumerate().map(|(number, series)| ours(number, series, is_bars, &names)).collect();
    let number_of = |name: &str| series.iter().position(|series| series.name == name).unwrap_or(0);
    drawn.extend(stated.iter().map(|stated| marks(number_of(&stated.series), stated, is_bars, &names)));
    Figure {
        id: id.to_string(),
        x: if is_bars { Axis::names(&x_title, names) } else { Axis::of(&x_title) },
        y: Axis { log: plot.log, ..Axis::of(&plot.label) },
        series: drawn,
        legend: true,
        ..Figure::default()
    }
}

/// The spread over the seeds around the means; `None` if there is no spread.
fn spread(series: &Series) -> Option<Spread> {
    let has_spread = series.points.iter().any(|point| point.max > point.min);
    has_spread.then(|| Spread {
        above: series.points.iter().map(|point| point.max - point.mean).collect(),
        below: series.points.iter().map(|point| point.mean - point.min).collect(),
    })
}

fn ours(number: usize, series: &Series, is_bars: bool, names: &[String]) -> Drawn {
    Drawn {
        kind: if is_bars { Kind::Bar } else { Kind::Line },
        name: series.name.clone(),
        colour: token(number),
        mark: mark(number),
        x: numbers(&series.points, is_bars, names),
        y: series.points.iter().map(|point| point.mean).collect(),
        spread: spread(series),
        ..Drawn::default()
    }
}

/// The horizontal coordinates of points: their position on an axis of names, else their value. Points
/// without a numeric value are numbered.
fn numbers(points: &[Point], is_bars: bool, names: &[String]) -> Vec<f64> {
    let place = |at: usize, point: &Point| match is_bars {
        true => names.iter().position(|name| *name == point.x).unwrap_or(at) as f64,
        false => point.x.parse().unwrap_or(at as f64),
    };
    points.iter().enumerate().map(|(at, point)| place(at, point)).collect()
}

/// Marks for the paper's own figures, drawn beside ours.
fn marks(number: usize, stated: &Stated, is_bars: bool, names: &[String]) -> Drawn {
    let name = match stated.against.as_str() {
        "" => format!("paper: {}", stated.series),
        against => format!("paper: {}, given our {against}", stated.series),
    };
    Drawn {
        kind: Kind::Points,
        name,
        colour: token(number),
        mark: 2,
        open: true,
        x: numbers(&stated.points, is_bars, names),
        y: stated.points.iter().map(|point| point.mean).collect(),
        ..Drawn::default()
    }
}

#[cfg(test)]
mod tests {
    use crate::html::render_experiment;
    use nandex_lab::experiment::{self, RunPlan};
    use nandex_lab::runner::Control;
    use scraper::{Html, Selector};

    #[test]
    fn the_page_has_the_claims_and_each_plot_with_its_numbers() {
        let plan = RunPlan { smoke: true, ..RunPlan::default() };
        let mut results = experiment::run("wpcb-figure10", &plan, &Control::default()).unwrap();
        results.definition.summary = "<script>alert(1)</script>".to_string();
        let page = render_experiment(&results).unwrap();
        let html = Html::parse_document(&page);
        assert!(html.errors.is_empty(), "{:?}", html.errors);
        let texts = |selector: &str| -> Vec<String> {
            let selector = Selector::parse(selector).unwrap();
            html.select(&selector).map(|e| e.text().collect()).collect()
        };
        assert!(texts("tbody th").contains(&"W3".to_string()));
        assert_eq!(html.select(&Selector::parse(".plot").unwrap()).count(), 4);
        let figures: serde_json::Value = serde_json::from_str(&texts("#figures")[0]).unwrap();
        let traces = figures[0]["series"].as_array().unwrap();
        // A line for each rs, and beside it the mark of what the paper says.
        assert_eq!((traces.len(), traces[0]["x"].as_array().unwrap().len()), (6, 8));
        assert_eq!(texts("caption"), ["block erases", "time [s]", "energy [mJ]"]);
        assert_eq!(texts("script").len(), 4);
    }
}

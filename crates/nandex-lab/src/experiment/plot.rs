//! Plots of an experiment: a figure over an axis, with one series per value of another axis.
//!
//! An axis is `input`, `variant`, `contender`, or the name of an option (`records`, `rs`, `tbm_blocks`) in
//! which these differ. `cell` tells all cells apart. A timeline has the operations on its axis. A computed
//! cell may have the figures of a whole axis. The figure's name then has `{x}` or `{series}` as a
//! placeholder: `{series}_pages_1e{x}`.

use super::claim::Claim;
use super::results::CellResult;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A plot of an experiment.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Plot {
    /// The title, with the number of the paper's figure.
    pub title: String,
    /// The form of the plot.
    pub kind: PlotKind,
    /// Name of the figure, with its unit. `{x}` and `{series}` in it stand for axis values and series that
    /// the cells do not tell apart. A timeline does not use it.
    #[serde(default)]
    pub figure: String,
    /// The figure in words, as the title of the vertical axis.
    pub label: String,
    /// The property on the horizontal axis. For a timeline: the title of that axis.
    pub x: String,
    /// The property that makes the series.
    pub series: String,
    /// Whether the vertical axis is logarithmic.
    #[serde(default)]
    pub log: bool,
    /// Restricts the plot to cells with these values, by axis.
    #[serde(default)]
    pub only: BTreeMap<String, String>,
}

/// The form of a plot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PlotKind {
    /// Bar chart.
    Bars,
    /// Line chart over numbers.
    Lines,
    /// Accumulated time, in seconds, over the operations. Each cell is a line: its first run.
    Timeline,
}

/// Largest number of points in a timeline.
const TIMELINE_POINTS: usize = 60;

/// One series of a plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Name of the series.
    pub name: String,
    /// The points of the series, in the order of the cells.
    pub points: Vec<Point>,
}

/// The figures of a series that the paper gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Stated {
    /// Name of the series.
    pub series: String,
    /// The contender that the paper compares with. Empty for figures that the paper gives directly.
    pub against: String,
    /// The values, in the order of the claims.
    pub points: Vec<Point>,
}

/// One point of a series.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Value on the horizontal axis.
    pub x: String,
    /// Mean over the seeds.
    pub mean: f64,
    /// Smallest value of a seed.
    pub min: f64,
    /// Largest value of a seed.
    pub max: f64,
}

impl Point {
    fn exact(x: String, value: f64) -> Point {
        Point { x, mean: value, min: value, max: value }
    }
}

impl Plot {
    /// The series of these cells. Series and axis values are in the order of the cells.
    pub fn series_of(&self, cells: &[CellResult]) -> Vec<Series> {
        let mut all: Vec<Series> = Vec::new();
        let wanted = |cell: &&CellResult| {
            self.only.iter().all(|(axis, value)| cell.along(axis).is_some_and(|found| found == value))
        };
        for cell in cells.iter().filter(wanted) {
            if self.kind == PlotKind::Timeline {
                let name = cell.along(&self.series);
                all.extend(name.map(|name| Series { name: name.to_string(), points: timeline(cell) }));
                continue;
            }
            for (figure, value) in &cell.figures {
                let Some((name, x)) = self.place(cell, figure) else { continue };
                let point = Point { x, mean: value.mean, min: value.min, max: value.max };
                add(&mut all, &name, point);
            }
        }
        // Figures of one cell come in the order of their names.
        if self.figure.contains(X) {
            all.iter_mut().for_each(|series| series.points.sort_by(|a, b| by_number(&a.x, &b.x)));
        }
        all
    }

    /// Title. If an input shown was missing, the title tells its substitute.
    pub fn title_over(&self, cells: &[CellResult]) -> String {
        let wanted = |cell: &&CellResult| {
            self.only.iter().all(|(axis, value)| cell.along(axis).is_some_and(|found| found == value))
        };
        let mut words: Vec<String> = Vec::new();
        for cell in cells.iter().filter(wanted) {
            for why in cell.stand_in.iter().chain(&cell.substitute) {
                let word = format!("{} is {why}", cell.input);
                if !words.contains(&word) {
                    words.push(word);
                }
            }
        }
        let stood_in = if words.is_empty() { String::new() } else { format!(" ({})", words.join("; ")) };
        format!("{}{stood_in}", self.title)
    }

    /// The series and the axis value of a cell's figure. `None` if the plot does not show it.
    fn place(&self, cell: &CellResult, figure: &str) -> Option<(String, String)> {
        let (mut name, mut x) = (None, None);
        let (mut pattern, mut rest) = (self.figure.as_str(), figure);
        while let Some((literal, slot)) = next_slot(pattern) {
            rest = rest.strip_prefix(literal)?;
            pattern = &pattern[literal.len() + slot.len()..];
            // It reaches as far as to the next literal; the last one takes the rest.
            let next = next_slot(pattern).map_or(pattern, |(literal, _)| literal);
            let end = if next.is_empty() { rest.len() } else { rest.find(next)? };
            let taken = Some(rest[..end].to_string()).filter(|taken| !taken.is_empty())?;
            *(if slot == X { &mut x } else { &mut name }) = Some(taken);
            rest = &rest[end..];
        }
        let along = |found: Option<String>, axis| found.or_else(|| cell.along(axis).map(String::from));
        (rest == pattern).then_some(along(name, &self.series).zip(along(x, &self.x)))?
    }

    /// The figures that the paper gives for the same cells. These are the figures that claims give
    /// directly, and those implied by the comparisons of claims together with our figure of the first cell.
    pub fn stated(&self, claims: &[Claim], cells: &[CellResult]) -> Vec<Stated> {
        let mut all: Vec<Stated> = Vec::new();
        let find = |name: &str| cells.iter().find(|cell| cell.name == name);
        let mut add = |(cell, figure): (&str, &str), against: &str, paper: f64| {
            let Some(cell) = find(cell) else { return };
            let is_wanted =
                self.only.iter().all(|(axis, value)| cell.along(axis).is_some_and(|found| found == value));
            let Some((series, x)) = self.place(cell, figure).filter(|_| is_wanted) else { return };
            let place = all.iter().position(|s| s.series == series && s.against == against);
            let place = place.unwrap_or_else(|| {
                all.push(Stated { series, against: against.to_string(), points: Vec::new() });
                all.len() - 1
            });
            let point = Point::exact(x, paper);
            // Two readings of a claim may state the same.
            if !all[place].points.contains(&point) {
                all[place].points.push(point);
            }
        };
        let mean = |cell: &str, figure: &str| find(cell)?.figures.get(figure).map(|summary| summary.mean);
        for expected in claims.iter().flat_map(|claim| &claim.values) {
            for (cell, figure, paper) in expected.stated() {
                add((&cell, figure), "", paper);
            }
            for (first, second, paper) in expected.implied(&mean) {
                let against = first.rsplit('/').next().unwrap_or(&first);
                add((&second, expected.figure()), against, paper);
            }
        }
        all
    }
}

/// Placeholder for axis values in the name of a figure.
const X: &str = "{x}";

/// Placeholder for series in the name of a figure.
const SERIES: &str = "{series}";

/// The text before the first placeholder, and the placeholder.
fn next_slot(pattern: &str) -> Option<(&str, &'static str)> {
    let found = [X, SERIES].into_iter().filter_map(|slot| pattern.find(slot).map(|at| (at, slot)));
    found.min().map(|(at, slot)| (&pattern[..at], slot))
}

/// Orders numbers by value. Other text keeps its order.
fn by_number(a: &str, b: &str) -> std::cmp::Ordering {
    let [a, b] = [a, b].map(|text| text.parse::<f64>().ok());
    a.zip(b).map_or(std::cmp::Ordering::Equal, |(a, b)| a.total_cmp(&b))
}

fn add(all: &mut Vec<Series>, name: &str, point: Point) {
    let place = all.iter().position(|series| series.name == name).unwrap_or_else(|| {
        all.push(Series { name: name.to_string(), points: Vec::new() });
        all.len() - 1
    });
    all[place].points.push(point);
}

/// Accumulated operations and seconds over all phases of the first run.
fn timeline(cell: &CellResult) -> Vec<Point> {
    let mut points: Vec<(u64, u64)> = Vec::new();
    let (mut operations, mut time_ns) = (0, 0);
    for phase in cell.runs.iter().take(1).flat_map(|run| &run.phases) {
        let of_phase = phase.timeline.iter();
        points
            .extend(of_phase.map(|sample| (operations + sample.operations, time_ns + sample.flash_time_ns)));
        operations += phase.total.operations;
        time_ns += phase.total.flash_time_ns;
    }
    let step = points.len().div_ceil(TIMELINE_POINTS).max(1);
    let last = points.len().saturating_sub(1);
    let kept = points.iter().enumerate().filter(|(i, _)| i % step == step - 1 || *i == last);
    kept.map(|(_, (operations, ns))| Point::exact(operations.to_string(), *ns as f64 / 1e9)).collect()
}

impl CellResult {
    /// The cell's value of a property. `None` for an option that it does not have.
    fn along(&self, axis: &str) -> Option<&str> {
        match axis {
            "cell" => Some(&self.name),
            "input" => Some(&self.input),
            "variant" => Some(&self.variant),
            "contender" => Some(&self.contender),
            option => self.workload.as_ref()?.options.get(option).map(String::as_str),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Costs, Phase, Run, Sample, WorkloadFacts};
    use crate::stats::Summary;

    fn cell(input: &str, contender: &str, records: &str, erases: f64) -> CellResult {
        let options = [("records".to_string(), records.to_string())].into();
        CellResult {
            input: input.into(),
            contender: contender.into(),
            workload: Some(WorkloadFacts { options, ..WorkloadFacts::default() }),
            figures: [("erases".to_string(), Summary::of(&[erases]).unwrap())].into(),
            ..CellResult::default()
        }
    }

    #[test]
    fn cells_become_series_along_inputs_and_options() {
        let cells = [cell("a", "x", "10", 1.0), cell("a", "y", "10", 2.0), cell("b", "x", "20", 3.0)];
        let plot = |x: &str, only: &[(&str, &str)]| Plot {
            title: String::new(),
            kind: PlotKind::Lines,
            figure: "erases".into(),
            label: String::new(),
            x: x.into(),
            series: "contender".into(),
            log: false,
            only: only.iter().map(|(axis, value)| (axis.to_string(), value.to_string())).collect(),
        };
        let points = |plot: Plot| -> Vec<(String, Vec<(String, f64)>)> {
            let pairs = |points: Vec<Point>| points.into_iter().map(|point| (point.x, point.mean)).collect();
            plot.series_of(&cells).into_iter().map(|series| (series.name, pairs(series.points))).collect()
        };
        let at = |x: &str, y: f64| (x.to_string(), y);
        let x = |first: &str, second: &str| ("x".to_string(), vec![at(first, 1.0), at(second, 3.0)]);
        assert_eq!(points(plot("records", &[])), [x("10", "20"), ("y".into(), vec![at("10", 2.0)])]);
        assert_eq!(points(plot("input", &[("contender", "x")])), [x("a", "b")]);
        assert_eq!(points(plot("input", &[("records", "10")])).len(), 2);
        assert_eq!(points(plot("order", &[])), []);
    }

    #[test]
    fn what_the_paper_states_stands_beside_the_cells() {
        let cells = [cell("a", "x", "10", 1.0), cell("b", "x", "20", 3.0)];
        let cells = cells.map(|cell| CellResult { name: format!("{}/v/x", cell.input), ..cell });
        let claims: Vec<Claim> = crate::experiment::definition::parse_claims(
            "[[claim]]\nid = 'X1'\ntext = ''\nrule = 'exact'\n\
             [[claim.value]]\ncell = 'b/v/x'\nfigure = 'erases'\npaper = 4.0\n\
             [[claim.value]]\ncell = 'a/v/x'\nfigure = 'reads'\npaper = 9.0\n",
        )
        .unwrap();
        let plot: Plot = toml::from_str(
            "title = ''\nkind = 'bars'\nfigure = 'erases'\nlabel = ''\nx = 'records'\nseries = 'contender'",
        )
        .unwrap();
        let stated = plot.stated(&claims, &cells);
        let of_b = |against: &str, value| Stated {
            series: "x".into(),
            against: against.into(),
            points: vec![Point::exact("20".into(), value)],
        };
        assert_eq!(stated, [of_b("", 4.0)]);
        // A comparison asks for a figure of the second cell, by what was measured of the first.
        for (form, paper, second) in
            [("quotient", 3.0, 3.0), ("saving_percent", 25.0, 0.75), ("speedup_percent", 100.0, 0.5)]
        {
            let text = format!(
                "[[claim]]\nid = 'X1'\ntext = ''\nrule = 'direction'\n[[claim.value]]\nagainst = 'a/v/x'\n\
                 cell = 'b/v/x'\nfigure = 'erases'\nform = '{form}'\npaper = {paper}\n"
            );
            let claims = crate::experiment::definition::parse_claims(&text).unwrap();
            assert_eq!(plot.stated(&claims, &cells), [of_b("x", second)]);
            assert_eq!(plot.stated(&claims, &cells[1..]), []);
        }
    }

    #[test]
    fn one_cell_may_have_the_figures_of_a_whole_axis() {
        let figures =
            [("b_pages_1e10", 4.0), ("b_pages_1e9", 3.0), ("mu_pages_1e9", 6.0), ("pages_1e9", 1.0)];
        let figures = figures.map(|(name, value)| (name.to_string(), Summary::of(&[value]).unwrap()));
        let cell = CellResult { name: "valid".into(), figures: figures.into(), ..CellResult::default() };
        let plot = |figure: &str| -> Plot {
            let rest = "title = ''\nkind = 'lines'\nlabel = ''\nx = 'power of ten'\nseries = 'cell'";
            toml::from_str(&format!("{rest}\nfigure = '{figure}'")).unwrap()
        };
        let series = |name: &str, points: &[(&str, f64)]| Series {
            name: name.into(),
            points: points.iter().map(|&(x, y)| Point::exact(x.into(), y)).collect(),
        };
        let both = [series("b", &[("9", 3.0), ("10", 4.0)]), series("mu", &[("9", 6.0)])];
        assert_eq!(plot("{series}_pages_1e{x}").series_of(std::slice::from_ref(&cell)), both);
        let one = [series("valid", &[("9", 3.0), ("10", 4.0)])];
        assert_eq!(plot("b_pages_1e{x}").series_of(std::slice::from_ref(&cell)), one);
        assert_eq!(plot("{x}_pages_1e9").series_of(&[cell])[0].points.len(), 2);
    }

    #[test]
    fn a_timeline_goes_on_from_phase_to_phase() {
        let sample = |operations, flash_time_ns| Sample { operations, flash_time_ns };
        let phase = |samples: [Sample; 2]| Phase {
            total: Costs { operations: 20, flash_time_ns: 4_000_000_000, ..Costs::default() },
            timeline: samples.to_vec(),
            ..Phase::default()
        };
        let phases = vec![
            phase([sample(10, 1_000_000_000), sample(20, 4_000_000_000)]),
            phase([sample(10, 0), sample(20, 4_000_000_000)]),
        ];
        let cell = CellResult { runs: vec![Run { phases, ..Run::default() }], ..cell("R", "x", "1", 0.0) };
        let expected = [("10", 1.0), ("20", 4.0), ("30", 4.0), ("40", 8.0)];
        assert_eq!(timeline(&cell), expected.map(|(x, y)| Point::exact(x.to_string(), y)));
    }
}

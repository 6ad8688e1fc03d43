//! Plots of an experiment: which figure over which axis, a series for each of what.
//!
//! An axis is `input`, `variant`, `contender` or the name of an option: cells differ in their inputs, variants and contenders, and
//! these in options (`records`, `rs`, `tbm_blocks`), which are often what a paper has on its axis. `cell` tells all cells apart.
//! A timeline has the operations on its axis, whatever the cells.

use super::results::CellResult;
use crate::repro::{Claim, Expected};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A plot, as an experiment defines it.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Plot {
    /// What it shows, with the paper's number of the figure.
    pub title: String,
    /// How it is drawn.
    pub kind: PlotKind,
    /// The figure, its unit in the name; of no meaning for a timeline.
    #[serde(default)]
    pub figure: String,
    /// The figure in words, for the axis.
    pub label: String,
    /// What the horizontal axis tells apart; of a timeline its title.
    pub x: String,
    /// What the series tell apart.
    pub series: String,
    /// Whether the vertical axis is logarithmic.
    #[serde(default)]
    pub log: bool,
    /// Only cells that have these values on these axes.
    #[serde(default)]
    pub only: BTreeMap<String, String>,
}

/// How a plot is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PlotKind {
    /// Groups of bars.
    Bars,
    /// Lines over numbers.
    Lines,
    /// Time accumulated over the operations in seconds, a line for each cell: of its first run.
    Timeline,
}

/// Points of a timeline at most.
const TIMELINE_POINTS: usize = 60;

/// One series of a plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// Its points, in the order of the cells.
    pub points: Vec<Point>,
}

/// One point of a series.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Place on the horizontal axis.
    pub x: String,
    /// The mean over the seeds.
    pub mean: f64,
    /// The smallest over the seeds.
    pub min: f64,
    /// The largest over the seeds.
    pub max: f64,
}

impl Point {
    /// A point without spread.
    fn exact(x: String, value: f64) -> Point {
        Point { x, mean: value, min: value, max: value }
    }
}

impl Plot {
    /// The series that these cells fill, both axes in the order of the cells.
    pub fn series_of(&self, cells: &[CellResult]) -> Vec<Series> {
        let mut all: Vec<Series> = Vec::new();
        let wanted = |cell: &&CellResult| {
            self.only.iter().all(|(axis, value)| cell.along(axis).is_some_and(|found| found == value))
        };
        for cell in cells.iter().filter(wanted) {
            let Some(name) = cell.along(&self.series) else { continue };
            if self.kind == PlotKind::Timeline {
                all.push(Series { name: name.to_string(), points: timeline(cell) });
                continue;
            }
            let Some(x) = cell.along(&self.x) else { continue };
            let Some(value) = cell.figures.get(&self.figure) else { continue };
            let point = Point { x: x.to_string(), mean: value.mean, min: value.min, max: value.max };
            add(&mut all, name, point);
        }
        all
    }

    /// What the paper states of the same cells: a point for each figure that a claim names and prints as such.
    pub fn stated(&self, claims: &[Claim], cells: &[CellResult]) -> Vec<Series> {
        let mut all: Vec<Series> = Vec::new();
        let stated = claims.iter().flat_map(|claim| &claim.values).flat_map(Expected::stated);
        for (cell, figure, paper) in stated.filter(|(_, figure, _)| *figure == self.figure) {
            let Some(cell) = cells.iter().find(|found| found.name == cell) else { continue };
            let is_wanted =
                self.only.iter().all(|(axis, value)| cell.along(axis).is_some_and(|found| found == value));
            if let (true, Some(name), Some(x)) = (is_wanted, cell.along(&self.series), cell.along(&self.x)) {
                debug_assert_eq!(figure, self.figure, "a figure of another plot");
                add(&mut all, name, Point::exact(x.to_string(), paper));
            }
        }
        all
    }
}

/// Adds a point to the series of this name.
fn add(all: &mut Vec<Series>, name: &str, point: Point) {
    let place = all.iter().position(|series| series.name == name).unwrap_or_else(|| {
        all.push(Series { name: name.to_string(), points: Vec::new() });
        all.len() - 1
    });
    all[place].points.push(point);
}

/// Operations and the seconds they took together, over all phases of the first run.
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
    /// Where the cell lies on an axis; nothing for an option it does not have.
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
        assert_eq!(stated, [Series { name: "x".into(), points: vec![Point::exact("20".into(), 4.0)] }]);
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

//! From figures to a verdict, by the rule of the claim and nothing else.
//!
//! Each value of a claim is judged alone and the worst verdict is the claim's. A value outside its band still agrees in direction when
//! the comparison of the two trees comes out as in the paper.

use super::claim::{Claim, Expected, Form, Rule};
use super::{ScoreValue, Verdict};
use crate::experiment::ExperimentResults;
use crate::stats::within_relative;

/// Differences below this share of the paper's figure are no direction.
const LEVEL: f64 = 0.01;

/// Every value of a claim with its own verdict.
pub fn values(claim: &Claim, results: &ExperimentResults) -> Vec<ScoreValue> {
    claim.values.iter().flat_map(|expected| judged(claim.rule, expected, results)).collect()
}

/// The claim's verdict: the worst of its values'. None is worse than not having all of them.
pub fn worst(values: &[ScoreValue]) -> Verdict {
    values.iter().map(|value| value.verdict).max().unwrap_or(Verdict::NotJudged)
}

fn judged(rule: Rule, expected: &Expected, results: &ExperimentResults) -> Vec<ScoreValue> {
    match expected {
        Expected::Pair { at, figure, wandering, mu } => {
            let cells = [format!("{at}/wandering"), format!("{at}/mu")];
            let papers = [*wandering, *mu];
            let pairs = cells.iter().zip(papers);
            let mut values: Vec<ScoreValue> =
                pairs.map(|(cell, paper)| measured(results, cell, figure, Some(paper))).collect();
            let agrees = same_direction(papers, [values[0].measured, values[1].measured]);
            values.iter_mut().for_each(|value| value.verdict = verdict(rule, value, agrees));
            values
        }
        Expected::Compared { at, figure, form, paper } => {
            let cells = [format!("{at}/wandering"), format!("{at}/mu")];
            let label = format!("{figure}, {}", form.name("wandering", "mu"));
            let blank =
                ScoreValue { cell: at.clone(), figure: label, paper: *paper, ..ScoreValue::default() };
            vec![compared(rule, results, [&cells[0], &cells[1]], (figure, *form), blank)]
        }
        Expected::Cells { against, cell, figure, form, paper } => {
            let label = format!("{figure}, {}", form.name(against, cell));
            let blank = ScoreValue {
                cell: cell.clone(),
                figure: label,
                paper: Some(*paper),
                ..ScoreValue::default()
            };
            vec![compared(rule, results, [against, cell], (figure, *form), blank)]
        }
        Expected::Single { cell, figure, paper } => {
            let value = measured(results, cell, figure, Some(*paper));
            vec![ScoreValue { verdict: verdict(rule, &value, false), ..value }]
        }
    }
}

/// Whether both differences have the same sign; where the paper's two figures are level there is no direction to miss.
fn same_direction(paper: [f64; 2], measured: [Option<f64>; 2]) -> bool {
    let [Some(first), Some(second)] = measured else { return false };
    let expected = paper[1] - paper[0];
    expected.abs() <= LEVEL * paper[0].abs() || expected * (second - first) > 0.0
}

/// The verdict on one value. `agrees`: the direction is the paper's.
fn verdict(rule: Rule, value: &ScoreValue, agrees: bool) -> Verdict {
    let Some(measured) = value.measured else { return Verdict::NotJudged };
    let meets = |holds: bool| match (holds, agrees) {
        (true, _) => Verdict::Reproduced,
        (false, true) => Verdict::DirectionOnly,
        (false, false) => Verdict::NotReproduced,
    };
    match (rule, value.paper) {
        (Rule::WithinPercent(percent), Some(paper)) => {
            meets(within_relative(measured, paper, percent / 100.0))
        }
        (Rule::AtMostPrinted { decimals }, Some(paper)) => {
            let scale = 10f64.powi(decimals as i32);
            holds((measured * scale).round() <= (paper * scale).round())
        }
        (Rule::Exact, Some(paper)) => holds(measured == paper),
        (Rule::Direction, _) => holds(measured > 0.0),
        (Rule::DirectionAndSize, _) if measured > 0.0 => Verdict::DirectionOnly,
        (Rule::DirectionAndSize, _) => Verdict::NotReproduced,
        (_, None) => Verdict::NotJudged,
    }
}

fn holds(holds: bool) -> Verdict {
    if holds { Verdict::Reproduced } else { Verdict::NotReproduced }
}

fn measured(results: &ExperimentResults, cell: &str, figure: &str, paper: Option<f64>) -> ScoreValue {
    let summary = results.cell(cell).and_then(|cell| cell.figures.get(figure));
    ScoreValue {
        cell: cell.to_string(),
        figure: figure.to_string(),
        paper,
        measured: summary.map(|summary| summary.mean),
        measured_min: summary.map(|summary| summary.min),
        measured_max: summary.map(|summary| summary.max),
        verdict: Verdict::NotJudged,
    }
}

/// Completes a value by comparing two cells.
fn compared(
    rule: Rule,
    results: &ExperimentResults,
    [first, second]: [&str; 2],
    (figure, form): (&str, Form),
    blank: ScoreValue,
) -> ScoreValue {
    let of = |name: &str| {
        let cell = results.cell(name)?;
        // A stand-in for the input is no measurement of the claim.
        cell.stand_in.is_none().then(|| cell.figures.get(figure).copied()).flatten()
    };
    let mean = of(first).zip(of(second)).map(|(first, second)| form.of(first.mean, second.mean));
    let value = ScoreValue { measured: mean, measured_min: mean, measured_max: mean, ..blank };
    let agrees = match form {
        Form::Quotient => same_direction([1.0, value.paper.unwrap_or(1.0)], [Some(1.0), mean]),
        _ => mean.is_some_and(|percent| percent > 0.0),
    };
    ScoreValue { verdict: verdict(rule, &value, agrees), ..value }
}

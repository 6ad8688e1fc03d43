//! From figures to a verdict, by the rule of the claim and nothing else.
//!
//! Each value of a claim is judged alone and the worst verdict is the claim's. A value outside its band still
//! agrees in direction when the comparison of the two trees comes out as in the paper.

use super::{ScoreValue, Verdict};
use crate::experiment::ExperimentResults;
use crate::experiment::claim::{Claim, Expected, Form, Knee, MatchUp, Rule, Trend};
use crate::stats::{Summary, within_relative};

/// Share of the paper's figure below which a difference has no direction.
const LEVEL: f64 = 0.01;

/// All values of a claim, each with its own verdict.
pub fn values(claim: &Claim, results: &ExperimentResults) -> Vec<ScoreValue> {
    claim.values.iter().flat_map(|expected| judged(claim.rule, expected, results)).collect()
}

/// The verdict on a claim: the worst of its values' verdicts. Values that are only shown do not count. A
/// missing value is better than a failed one.
pub fn worst(values: &[ScoreValue]) -> Verdict {
    let judged = values.iter().map(|value| value.verdict).filter(|&verdict| verdict != Verdict::Shown);
    judged.max().unwrap_or(Verdict::NotJudged)
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
            vec![by_direction(rule, *form, compared(results, [&cells[0], &cells[1]], (figure, *form), blank))]
        }
        Expected::Cells { against, cell, figure, form, paper } => {
            vec![by_direction(rule, *form, cells(results, [against, cell], (figure, *form), Some(*paper)))]
        }
        Expected::Contest { at, match_up } => {
            let MatchUp { figure, form, paper, rule: own, .. } = match_up;
            let judge = |pair: [&String; 2]| {
                let [first, second] = pair.map(|name| format!("{at}/{name}"));
                let value = cells(results, [&first, &second], (figure, *form), *paper);
                by_direction(own.unwrap_or(rule), *form, value)
            };
            match_up.pairs().map(judge).collect()
        }
        Expected::Mean { over, match_up } => {
            let rule = match_up.rule.unwrap_or(rule);
            match_up.pairs().map(|pair| mean_over(rule, results, over, (pair, match_up))).collect()
        }
        Expected::Series { series, figure, trend } => vec![trending(rule, results, series, figure, *trend)],
        Expected::Single { cell, figure, paper, rule: own } => {
            let value = measured(results, cell, figure, Some(*paper));
            vec![ScoreValue { verdict: verdict(own.unwrap_or(rule), &value, false), ..value }]
        }
        Expected::Knee(wanted) => vec![knee(rule, wanted, results)],
    }
}

/// Whether both differences have the same sign. If the paper's two figures are level, there is no direction
/// to miss.
fn same_direction(paper: [f64; 2], measured: [Option<f64>; 2]) -> bool {
    let [Some(first), Some(second)] = measured else { return false };
    let expected = paper[1] - paper[0];
    expected.abs() <= LEVEL * paper[0].abs() || expected * (second - first) > 0.0
}

/// The verdict on one value. `agrees` says whether its direction is the paper's.
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
        (Rule::WithinPoints(points), Some(paper)) => meets((measured - paper).abs() <= points),
        (Rule::Between { low, high }, _) => meets((low..=high).contains(&measured)),
        (Rule::Below, Some(paper)) => holds(measured < paper),
        (Rule::AtLeastLessPoints(points), Some(paper)) => meets(measured >= paper - points),
        (Rule::Exact, Some(paper)) => holds(measured == paper),
        (Rule::Shown, _) => Verdict::Shown,
        (Rule::Direction, _) => holds(measured > 0.0),
        (_, None) => Verdict::NotJudged,
    }
}

fn holds(holds: bool) -> Verdict {
    if holds { Verdict::Reproduced } else { Verdict::NotReproduced }
}

fn measured(results: &ExperimentResults, cell: &str, figure: &str, paper: Option<f64>) -> ScoreValue {
    let summary = results.cell(cell).and_then(|cell| cell.figures.get(figure));
    let blank =
        ScoreValue { cell: cell.to_string(), figure: figure.to_string(), paper, ..ScoreValue::default() };
    with_spread(summary, blank)
}

/// Completes a value by a measured summary, if there is one.
fn with_spread(summary: Option<&Summary>, blank: ScoreValue) -> ScoreValue {
    ScoreValue {
        measured: summary.map(|summary| summary.mean),
        measured_min: summary.map(|summary| summary.min),
        measured_max: summary.map(|summary| summary.max),
        ..blank
    }
}

/// Completes a value by a number computed from means, which has no spread.
fn without_spread(number: Option<f64>, blank: ScoreValue) -> ScoreValue {
    ScoreValue { measured: number, measured_min: number, measured_max: number, ..blank }
}

fn cells(
    results: &ExperimentResults,
    [first, second]: [&String; 2],
    (figure, form): (&str, Form),
    paper: Option<f64>,
) -> ScoreValue {
    let label = format!("{figure}, {}", form.name(first, second));
    let blank = ScoreValue { cell: second.clone(), figure: label, paper, ..ScoreValue::default() };
    compared(results, [first, second], (figure, form), blank)
}

/// The mean of a figure of a cell. A cell with a stand-in does not count as measured.
fn mean_of(results: &ExperimentResults, cell: &str, figure: &str) -> Option<f64> {
    let cell = results.cell(cell).filter(|cell| cell.stand_in.is_none())?;
    cell.figures.get(figure).map(|summary| summary.mean)
}

/// Judges the smallest step of a series.
fn trending(
    rule: Rule,
    results: &ExperimentResults,
    series: &[String],
    figure: &str,
    trend: Trend,
) -> ScoreValue {
    let means: Option<Vec<f64>> = series.iter().map(|cell| mean_of(results, cell, figure)).collect();
    let smallest =
        means.and_then(|means| means.windows(2).map(|step| trend.step(step[0], step[1])).reduce(f64::min));
    let [first, last] = [series.first(), series.last()].map(|cell| cell.map_or("", String::as_str));
    let blank = ScoreValue {
        cell: format!("{first} to {last}"),
        figure: format!("{figure} {}: smallest step in percent", trend.name()),
        ..ScoreValue::default()
    };
    let value = without_spread(smallest, blank);
    let agrees = smallest.is_some_and(|step| step > 0.0);
    ScoreValue { verdict: verdict(rule, &value, agrees), ..value }
}

/// Judges the mean of a comparison over several places.
fn mean_over(
    rule: Rule,
    results: &ExperimentResults,
    over: &[String],
    ([first, second], MatchUp { figure, form, paper, .. }): ([&String; 2], &MatchUp),
) -> ScoreValue {
    let at = |place: &String| {
        let [first, second] =
            [first, second].map(|name| mean_of(results, &format!("{place}/{name}"), figure));
        first.zip(second).map(|(first, second)| form.of(first, second))
    };
    let summary = over.iter().map(at).collect::<Option<Vec<f64>>>().and_then(|all| Summary::of(&all));
    let blank = ScoreValue {
        cell: over.join(", "),
        figure: format!("{figure}, {}, mean", form.name(first, second)),
        paper: *paper,
        ..ScoreValue::default()
    };
    by_direction(rule, *form, with_spread(summary.as_ref(), blank))
}

/// Whether a comparison has the same direction as in the paper.
fn agrees(form: Form, paper: Option<f64>, measured: Option<f64>) -> bool {
    match form {
        Form::Quotient => same_direction([1.0, paper.unwrap_or(1.0)], [Some(1.0), measured]),
        _ => measured.is_some_and(|percent| percent > 0.0),
    }
}

/// Judges the mean of the knees of several inputs.
fn knee(rule: Rule, wanted: &Knee, results: &ExperimentResults) -> ScoreValue {
    let Knee { inputs, variants, contender, figure, gain_percent, paper } = wanted;
    let of_input = |input: &String| {
        let mean = |variant: &String| mean_of(results, &format!("{input}/{variant}/{contender}"), figure);
        let means: Vec<f64> = variants.iter().map(mean).collect::<Option<_>>()?;
        let least = |from: usize| means[from..].iter().copied().fold(f64::INFINITY, f64::min);
        let pays = |at: usize| means[at] - least(at) > means[at] * gain_percent / 100.0;
        variants[(0..means.len()).find(|&at| !pays(at))?].parse::<f64>().ok()
    };
    let knees: Option<Vec<f64>> = inputs.iter().map(of_input).collect();
    let summary = knees.and_then(|knees| Summary::of(&knees));
    let blank = ScoreValue {
        cell: format!("{} over {}", contender, inputs.join(", ")),
        figure: format!("{figure}: mean place beyond which no step saves more than {gain_percent} %"),
        paper: Some(*paper),
        ..ScoreValue::default()
    };
    let value = with_spread(summary.as_ref(), blank);
    ScoreValue { verdict: verdict(rule, &value, false), ..value }
}

fn compared(
    results: &ExperimentResults,
    [first, second]: [&str; 2],
    (figure, form): (&str, Form),
    blank: ScoreValue,
) -> ScoreValue {
    let [first, second] = [first, second].map(|name| mean_of(results, name, figure));
    let mean = first.zip(second).map(|(first, second)| form.of(first, second));
    without_spread(mean, blank)
}

/// Judges a comparison.
fn by_direction(rule: Rule, form: Form, value: ScoreValue) -> ScoreValue {
    let agrees = agrees(form, value.paper, value.measured);
    ScoreValue { verdict: verdict(rule, &value, agrees), ..value }
}

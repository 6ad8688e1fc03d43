//! Contenders compared with a baseline, seed by seed.
//!
//! All contenders of an input and a variant run the same workloads, one per seed. The difference of two
//! contenders is taken for each seed, and the confidence interval is that of these differences. So it does
//! not contain the variation between seeds, and is narrower than two separate intervals.

use super::contender::Contender;
use super::definition::Definition;
use super::figures;
use super::results::CellResult;
use crate::stats::Summary;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A comparison of a contender with the baseline.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Pair {
    /// Name of the input.
    pub input: String,
    /// Name of the variant.
    pub variant: String,
    /// Name of the contender.
    pub contender: String,
    /// Name of the baseline.
    pub against: String,
    /// Name of the figure, with its unit.
    pub figure: String,
    /// The difference from the baseline, in percent of the baseline. A positive value means that the
    /// contender has more. Taken over the seeds that both ran with.
    pub difference_percent: Summary,
    /// The outcome, by the interval.
    pub verdict: Verdict,
}

/// The outcome of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The contender has less of the figure: the whole interval is below zero.
    Less,
    /// The contender has more of the figure: the whole interval is above zero.
    More,
    /// The difference is the same with every seed.
    Same,
    /// No difference is shown: zero lies within the interval.
    NotShown,
}

impl Verdict {
    /// The verdict in words.
    pub const fn words(self) -> &'static str {
        match self {
            Verdict::Less => "less",
            Verdict::More => "more",
            Verdict::Same => "the same",
            Verdict::NotShown => "no difference shown",
        }
    }

    /// The verdict for these differences. `None` without an interval.
    fn of(difference: &Summary) -> Option<Verdict> {
        let half = difference.ci95?;
        Some(match difference.mean {
            _ if difference.min == 0.0 && difference.max == 0.0 => Verdict::Same,
            mean if mean + half < 0.0 => Verdict::Less,
            mean if mean - half > 0.0 => Verdict::More,
            _ => Verdict::NotShown,
        })
    }
}

/// Compares every contender with the baseline of its input and variant. With one seed there are no
/// comparisons, because one says nothing about the next.
pub(super) fn of(definition: &Definition, cells: &[CellResult]) -> Vec<Pair> {
    let all = Contender::all(definition);
    let first = all.first().map_or("", |contender| contender.name.as_str());
    let against = if definition.baseline.is_empty() { first } else { &definition.baseline };
    let mut pairs = Vec::new();
    for cell in cells.iter().filter(|cell| cell.runs.len() > 1 && cell.contender != against) {
        let is_base = |other: &&CellResult| {
            (&other.input, &other.variant) == (&cell.input, &cell.variant) && other.contender == against
        };
        let Some(base) = cells.iter().find(is_base) else { continue };
        let [ours, theirs] = [cell, base].map(|cell| by_seed(cell, definition));
        for figure in compared(definition, cell) {
            let differences: Vec<f64> =
                ours.iter().filter_map(|(seed, run)| difference(run, theirs.get(seed)?, &figure)).collect();
            let Some(difference_percent) = Summary::of(&differences) else { continue };
            let Some(verdict) = Verdict::of(&difference_percent) else { continue };
            pairs.push(Pair {
                input: cell.input.clone(),
                variant: cell.variant.clone(),
                contender: cell.contender.clone(),
                against: against.to_string(),
                figure,
                difference_percent,
                verdict,
            });
        }
    }
    pairs
}

/// The figures to compare: those asked for, or else the flash time of each measured phase.
fn compared(definition: &Definition, cell: &CellResult) -> Vec<String> {
    if !definition.compared.is_empty() {
        return definition.compared.clone();
    }
    let phases = cell.runs.iter().flat_map(|run| &run.phases).filter(|phase| phase.measured);
    let mut seen = BTreeSet::new();
    phases
        .filter(|phase| seen.insert(&phase.name))
        .map(|phase| format!("{}.flash_time_ms_per_op", phase.name))
        .collect()
}

/// The figures of each complete run, by seed.
fn by_seed(cell: &CellResult, definition: &Definition) -> BTreeMap<u64, BTreeMap<String, f64>> {
    let Some(chip) = &cell.chip else { return BTreeMap::new() };
    let whole = cell.runs.iter().filter(|run| run.error.is_none());
    whole.map(|run| (run.seed, figures::of_run(run, chip, definition))).collect()
}

fn difference(ours: &BTreeMap<String, f64>, theirs: &BTreeMap<String, f64>, figure: &str) -> Option<f64> {
    match (*ours.get(figure)?, *theirs.get(figure)?) {
        (0.0, 0.0) => Some(0.0),
        (_, 0.0) => None,
        (ours, theirs) => Some(100.0 * (ours / theirs - 1.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_decides() {
        let verdict = |values: &[f64]| Verdict::of(&Summary::of(values).unwrap());
        assert_eq!(verdict(&[-9.0, -10.0, -11.0]), Some(Verdict::Less));
        assert_eq!(verdict(&[9.0, 10.0, 11.0]), Some(Verdict::More));
        assert_eq!(verdict(&[-1.0, 10.0, -8.0]), Some(Verdict::NotShown));
        assert_eq!(verdict(&[0.0, 0.0]), Some(Verdict::Same));
        assert_eq!(verdict(&[-9.0]), None);
    }
}

//! Contenders compared seed by seed, as a table.

use super::grid::{Side, grid};
use nandex_lab::experiment::{ExperimentResults, Pair};
use nandex_lab::stats::Summary;

/// Renders the comparisons as a table for a terminal; empty without comparisons.
pub fn render(results: &ExperimentResults) -> String {
    if results.pairs.is_empty() {
        return String::new();
    }
    let heads = ["input/variant", "contender", "against", "figure", "seeds", "difference [%]", "verdict"];
    let sides = [Side::Left, Side::Left, Side::Left, Side::Left, Side::Right, Side::Right, Side::Left];
    let row = |pair: &Pair| {
        let Summary { count, mean, ci95, .. } = pair.difference_percent;
        vec![
            format!("{}/{}", pair.input, pair.variant),
            pair.contender.clone(),
            pair.against.clone(),
            pair.figure.clone(),
            count.to_string(),
            format!("{mean:+.2} \u{b1} {:.2}", ci95.unwrap_or_default()),
            pair.verdict.words().to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = results.pairs.iter().map(row).collect();
    format!("\nseed by seed, with 95 % intervals\n{}", grid(&heads.map(String::from), &sides, &rows))
}

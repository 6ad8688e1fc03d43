//! The scorecard for a terminal: each claim with the paper's figures, the measured ones, the band and the verdict.

use super::grid::{Side, grid_within};
use crate::repro::{ScoreRow, ScoreValue, Scorecard, Verdict};
use std::fmt::Write as _;

/// Verdicts from best to worst.
const VERDICTS: [Verdict; 4] =
    [Verdict::Reproduced, Verdict::DirectionOnly, Verdict::NotJudged, Verdict::NotReproduced];

/// Figures of a claim side by side; the measured ones stand in the same places as the paper's.
const FIGURES_PER_LINE: usize = 4;

/// Renders the scorecard for a terminal of this many columns.
pub fn render(card: &Scorecard, width: usize) -> String {
    let heads = ["id", "claim", "paper", "measured", "band", "verdict"].map(String::from);
    let sides = [Side::Left, Side::Prose, Side::Left, Side::Left, Side::Prose, Side::Left];
    let rows: Vec<Vec<String>> = card.rows.iter().map(row).collect();
    let size = if card.smoke { ", smoke size" } else { "" };
    let mut out = format!("paper {}{size}\n\n", card.paper);
    out += &grid_within(&heads, &sides, &rows, width);
    let counts = VERDICTS.map(|verdict| format!("{} {}", card.count(verdict), verdict.words()));
    out += &super::table::wrap(&format!("\n{} claims: {}", card.rows.len(), counts.join(", ")), width);
    for row in card.rows.iter().filter(|row| !row.note.is_empty()) {
        out += &super::table::wrap(&format!("{}: {}", row.id, row.note), width);
    }
    let _ = writeln!(out, "again: {}", card.command);
    out
}

fn row(row: &ScoreRow) -> Vec<String> {
    let figures = |pick: fn(&ScoreValue) -> Option<f64>| {
        let line = |values: &[ScoreValue]| {
            let figures = values.iter().map(|value| pick(value).map_or_else(|| "-".to_string(), number));
            // Blanks that the grid neither trims nor breaks at.
            figures.map(|figure| format!("{figure:>6}").replace(' ', "\u{a0}")).collect::<String>()
        };
        row.values.chunks(FIGURES_PER_LINE).map(line).collect::<Vec<_>>().join("\n")
    };
    vec![
        row.id.clone(),
        row.claim.clone(),
        figures(|v| v.paper),
        figures(|v| v.measured),
        row.band.clone(),
        row.verdict.words().to_string(),
    ]
}

/// As many digits as papers print.
fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 || value == 0.0 => format!("{value:.0}"),
        v if v >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card() -> Scorecard {
        let value = |paper, measured, verdict| ScoreValue {
            cell: "micro/0KB+0KB/mu".to_string(),
            figure: "retrievals.page_reads_per_op".to_string(),
            paper,
            measured,
            measured_min: measured,
            measured_max: measured,
            verdict,
        };
        let row = |id: &str, values: Vec<ScoreValue>, verdict, note: &str| ScoreRow {
            id: id.to_string(),
            claim: "reads per operation".to_string(),
            values,
            band: "2 %".to_string(),
            verdict,
            note: note.to_string(),
            experiment: "mu-table5".to_string(),
            command: "nandex run mu-table5".to_string(),
        };
        Scorecard {
            schema: 1,
            nandex_version: "0.1.0",
            command: "nandex repro --paper mu".to_string(),
            paper: "mu".to_string(),
            smoke: false,
            rows: vec![
                row("M1", vec![value(Some(3.0), Some(2.987), Verdict::Reproduced)], Verdict::Reproduced, ""),
                row(
                    "M2",
                    vec![value(None, None, Verdict::NotJudged)],
                    Verdict::NotJudged,
                    "the trace is not there",
                ),
            ],
        }
    }

    #[test]
    fn every_claim_has_its_figures_and_its_verdict() {
        let text = render(&card(), 100);
        let line = |id: &str| text.lines().find(|l| l.starts_with(id)).unwrap().to_string();
        for word in ["3.00", "2.99", "2 %", "reproduced"] {
            assert!(line("M1").contains(word), "{text}");
        }
        assert!(line("M2 ").contains("not judged"), "{text}");
        assert!(text.contains("2 claims: 1 reproduced, 0 direction only, 1 not judged, 0 not reproduced"));
        assert!(text.contains("M2: the trace is not there"));
        assert!(text.ends_with("again: nandex repro --paper mu\n"));
    }

    #[test]
    fn narrow_terminals_wrap_the_claims() {
        for width in [80, 120] {
            assert!(render(&card(), width).lines().all(|l| l.chars().count() <= width), "{width}");
        }
    }
}

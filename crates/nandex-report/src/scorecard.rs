//! The scorecard for a terminal: each claim with the paper's figures, those measured at the set-up first
//! read, the band, and a column for the verdict of each reading.

use super::grid::{Side, grid_within};
use nandex_lab::repro::{Reading, ScoreRow, ScoreValue, Scorecard, Verdict};
use std::fmt::Write as _;

/// The verdicts from best to worst.
const VERDICTS: [Verdict; 4] =
    [Verdict::Reproduced, Verdict::DirectionOnly, Verdict::NotJudged, Verdict::NotReproduced];

/// Figures of a claim per line. Measured figures have the same positions as the paper's.
const FIGURES_PER_LINE: usize = 4;

/// Renders the scorecard for a terminal with `width` columns.
pub fn render(card: &Scorecard, width: usize) -> String {
    let mut heads = ["id", "claim", "paper", "measured", "band"].map(String::from).to_vec();
    let mut sides = vec![Side::Left, Side::Prose, Side::Left, Side::Left, Side::Prose];
    let used = Reading::ALL.into_iter().filter(|&reading| card.of_reading(reading) > 0);
    let columns: Vec<Reading> = used.collect();
    heads.extend(columns.iter().map(|reading| reading.words().to_string()));
    sides.extend(columns.iter().map(|_| Side::Prose));
    let rows: Vec<Vec<String>> = card.claims().map(|claim| row(&claim, &columns)).collect();
    let size = if card.smoke { ", smoke size" } else { "" };
    let mut out = format!("paper {}{size}\n\n", card.paper);
    out += &grid_within(&heads, &sides, &rows, width);
    out.push('\n');
    for &reading in &columns {
        out += &super::table::wrap(&counts(card, reading), width);
    }
    for row in card.rows.iter().filter(|row| !row.note.is_empty() || row.reading != Reading::First) {
        out += &super::table::wrap(&about(row), width);
    }
    let _ = writeln!(out, "again: {}", card.command);
    out
}

fn counts(card: &Scorecard, reading: Reading) -> String {
    let mut counts =
        VERDICTS.map(|verdict| format!("{} {}", card.count(reading, verdict), verdict.words())).to_vec();
    let on_substitutes = card.on_substitutes(reading);
    if on_substitutes > 0 {
        counts.push(format!("{on_substitutes} on substitute data, not counted"));
    }
    format!("{}, {} claims: {}", reading.words(), card.of_reading(reading), counts.join(", "))
}

fn about(row: &ScoreRow) -> String {
    let mut parts: Vec<String> = Vec::new();
    if row.reading != Reading::First {
        let figures = row.values.iter().map(|value| value.measured.map_or_else(|| "-".to_string(), number));
        parts.push(row.set_up.clone());
        parts.push(format!("{}: {}", row.verdict.words(), figures.collect::<Vec<_>>().join(", ")));
    }
    parts.extend((!row.note.is_empty()).then(|| row.note.clone()));
    let reading =
        if row.reading == Reading::First { String::new() } else { format!(", {}", row.reading.words()) };
    format!("{}{reading}: {}", row.id, parts.join("; "))
}

/// The line of a claim, whose readings are in the order of the columns.
fn row(claim: &[&ScoreRow], columns: &[Reading]) -> Vec<String> {
    let figures = |pick: fn(&ScoreValue) -> Option<f64>| {
        let line = |values: &[ScoreValue]| {
            let figures = values.iter().map(|value| pick(value).map_or_else(|| "-".to_string(), number));
            // Blanks that the grid neither trims nor breaks at.
            figures.map(|figure| format!("{figure:>6}").replace(' ', "\u{a0}")).collect::<String>()
        };
        claim[0].values.chunks(FIGURES_PER_LINE).map(line).collect::<Vec<_>>().join("\n")
    };
    let verdict = |&reading: &Reading| {
        let of_reading = claim.iter().find(|row| row.reading == reading);
        of_reading.map_or_else(String::new, |row| {
            let on = if row.substitute { ", on substitute data" } else { "" };
            format!("{}{on}", row.verdict.words())
        })
    };
    let mut line = vec![
        claim[0].id.clone(),
        claim[0].claim.clone(),
        figures(|v| v.paper),
        figures(|v| v.measured),
        claim[0].band.clone(),
    ];
    line.extend(columns.iter().map(verdict));
    line
}

/// A number with as many digits as papers print.
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
            reading: Reading::First,
            set_up: String::new(),
            substitute: false,
            claim: "reads per operation".to_string(),
            values,
            band: "2 %".to_string(),
            verdict,
            note: note.to_string(),
            experiment: "mu-table5".to_string(),
            command: "nandex run mu-table5".to_string(),
        };
        Scorecard {
            schema: 2,
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
        assert!(text.contains(
            "as first read, 2 claims: 1 reproduced, 0 direction only, 1 not judged, 0 not reproduced"
        ));
        assert!(text.contains("M2: the trace is not there"));
        assert!(text.ends_with("again: nandex repro --paper mu\n"));
    }

    #[test]
    fn each_reading_has_its_column_and_substitutes_do_not_count() {
        let mut card = card();
        let other = ScoreRow {
            reading: Reading::Second,
            set_up: "one page, as section 6.3 says".to_string(),
            verdict: Verdict::NotReproduced,
            ..card.rows[0].clone()
        };
        card.rows.insert(1, other);
        card.rows[2].substitute = true;
        let text = render(&card, 140);
        let line = text.lines().find(|l| l.starts_with("M1 ")).unwrap();
        assert!(line.contains("reproduced") && line.ends_with("not reproduced"), "{text}");
        assert!(text.lines().next_back() == Some("again: nandex repro --paper mu"), "{text}");
        for words in [
            "as first read, 2 claims: 1 reproduced, 0 direction only, 0 not judged, 0 not reproduced, 1 on substitute data, not counted",
            "second reading, 1 claims: 0 reproduced, 0 direction only, 0 not judged, 1 not reproduced",
            "M1, second reading: one page, as section 6.3 says; not reproduced: 2.99",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(!text.contains("candidate"), "{text}");
    }

    #[test]
    fn narrow_terminals_wrap_the_claims() {
        for width in [80, 120] {
            assert!(render(&card(), width).lines().all(|l| l.chars().count() <= width), "{width}");
        }
    }
}

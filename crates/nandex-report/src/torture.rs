//! Lives for a terminal: a table by victim, the findings with their replays, and one line of counts.

use crate::summary::scale::show_count;
use nandex_lab::ASSERTIONS;
use nandex_lab::torture::{Case, Counts, Finding, Report, Row};
use std::fmt::Write as _;

/// Most lines of a life that are shown.
const LINES_MAX: usize = 60;

/// A finding in two lines.
pub fn finding(finding: &Finding) -> String {
    let Finding { victim, seed, kind, what, steps, .. } = finding;
    let steps = show_count(*steps);
    format!(
        "! {victim}, seed {seed}, {kind} after {steps} steps: {what}\n  replay: {}",
        finding.replay,
        kind = kind.name().replace('_', " ")
    )
}

/// Renders the table, the findings, and the line of counts.
pub fn render(report: &Report) -> String {
    let mut out = table(&report.rows);
    for found in &report.findings {
        let times = if found.times > 1 { format!(" ({} times)", found.times) } else { String::new() };
        let _ = writeln!(out, "{}{times}", finding(found));
    }
    let mut all = Counts::default();
    report.rows.iter().for_each(|row| all.add(&row.counts));
    let found: u64 = report.rows.iter().map(|row| row.found).sum();
    out + &counts(&all, found)
}

/// The last line, with all counts.
pub fn counts(counts: &Counts, found: u64) -> String {
    format!(
        "{} lives, {} mounts, {} cuts, {} power-offs, {} operations ({} refused), {} deaths, {} findings; {ASSERTIONS}\n",
        show_count(counts.lives),
        show_count(counts.mounts),
        show_count(counts.cuts),
        show_count(counts.offs),
        show_count(counts.operations),
        show_count(counts.refused),
        show_count(counts.deaths),
        show_count(found),
    )
}

/// The steps of a life, with its fault as a comment.
pub fn case(found: &Finding, case: &Case) -> String {
    let what = finding(found).replace('\n', "\n# ");
    format!("# {what}\n# The least of it, {} steps:\n{case}", case.steps())
}

/// The first lines of a text.
pub fn shortened(text: &str) -> String {
    let lines = text.lines().count();
    let mut out: String = text.lines().take(LINES_MAX).map(|line| format!("{line}\n")).collect();
    if lines > LINES_MAX {
        let _ = writeln!(out, "... {} more lines; --save DIR keeps them", lines - LINES_MAX);
    }
    out
}

fn table(rows: &[Row]) -> String {
    let mut out = format!(
        "{:<26} {:>7} {:>9} {:>8} {:>9} {:>10} {:>9} {:>7} {:>7} {:>8} {:>8}\n",
        "",
        "lives",
        "mounts",
        "cuts",
        "offs",
        "operations",
        "refused",
        "deaths",
        "skipped",
        "unfit",
        "findings"
    );
    for row in rows {
        let c = &row.counts;
        let _ = writeln!(
            out,
            "{:<26} {:>7} {:>9} {:>8} {:>9} {:>10} {:>9} {:>7} {:>7} {:>8} {:>8}",
            row.victim,
            show_count(c.lives),
            show_count(c.mounts),
            show_count(c.cuts),
            show_count(c.offs),
            show_count(c.operations),
            show_count(c.refused),
            show_count(c.deaths),
            show_count(c.skipped),
            show_count(c.setups_refused),
            show_count(row.found),
        );
    }
    out
}

//! The scorecard: every claim of a paper, measured now and judged by a rule that was fixed before.
//!
//! The claims stand in `experiments/*/expected.toml` ([`Claim`]): the paper's figures, the cells that measure
//! them, the rule. [`run`] carries the experiments out and judges ([`judge`]); no verdict is written down
//! anywhere. A claim has a verdict in each column that applies ([`Reading`]).

pub mod judge;
mod keep;
#[cfg(test)]
mod tests;

pub use crate::experiment::claim::{Claim, Expected, Form, Knee, MatchUp, Reading, Rule, Trend};

use crate::LabError;
use crate::experiment::{self, Bench, Experiment, ExperimentResults, RunPlan};
use crate::runner::Control;
use keep::Keep;
use serde::Serialize;
use std::io::{self, Write};
use std::path::PathBuf;

/// The plan of a reproduction.
#[derive(Clone, Debug)]
pub struct ReproPlan {
    /// The papers: "mu", "wpcb".
    pub papers: Vec<String>,
    /// Whether experiments without claims run, too: sweeps, and what a report draws.
    pub whole: bool,
    /// How the experiments are carried out.
    pub run: RunPlan,
    /// A folder that keeps the results of each experiment that ended: the same command goes on from there.
    pub keep: Option<PathBuf>,
}

/// The outcome of a reproduction.
#[derive(Debug)]
pub struct Reproduction {
    /// A scorecard for each paper.
    pub cards: Vec<Scorecard>,
    /// Every experiment that ran, paper by paper.
    pub experiments: Vec<ExperimentResults>,
}

/// The papers whose claims can be reproduced.
pub const PAPERS: &[&str] = &["mu", "wpcb", "lazy", "ls-lru", "access-time", "named", "plow"];

/// Version of the layout of [`Scorecard`].
pub const SCORECARD_SCHEMA: u32 = 2;

/// Every claim of a paper with its verdict.
#[derive(Clone, Debug, Serialize)]
pub struct Scorecard {
    /// Version of this layout; it rises when a field changes its meaning.
    pub schema: u32,
    /// Version of Nandex.
    pub nandex_version: &'static str,
    /// The command that yields the same again.
    pub command: String,
    /// The paper.
    pub paper: String,
    /// Whether the experiments ran at the small size, which judges few claims.
    pub smoke: bool,
    /// A row for each reading of each claim, in the order of their ids.
    pub rows: Vec<ScoreRow>,
}

/// One claim and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScoreRow {
    /// The claim's id, such as "M1"; "N1-ram" is N1 with the same RAM for all.
    pub id: String,
    /// The column it stands in.
    pub reading: Reading,
    /// The differences from the set-up as first read, and the words behind them; empty for that one.
    pub set_up: String,
    /// Whether other data of the same kind took the place of what the claim names: such a row is not counted.
    pub substitute: bool,
    /// The words of the paper.
    pub claim: String,
    /// Every figure it consists of.
    pub values: Vec<ScoreValue>,
    /// How far the figures may lie from the paper's.
    pub band: String,
    /// The worst verdict on any figure.
    pub verdict: Verdict,
    /// Which figures are outside, what is assumed, why something was not judged.
    pub note: String,
    /// The experiment that measured it.
    pub experiment: String,
    /// The command that measures it again.
    pub command: String,
}

/// One figure of a claim.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ScoreValue {
    /// The cell, the second of a comparison, or the `input/variant` of a comparison of both trees.
    pub cell: String,
    /// The figure, its unit in the name.
    pub figure: String,
    /// The paper's; absent where it gives none.
    pub paper: Option<f64>,
    /// The mean over the seeds; absent when it was not measured.
    pub measured: Option<f64>,
    /// The smallest over the seeds.
    pub measured_min: Option<f64>,
    /// The largest over the seeds.
    pub measured_max: Option<f64>,
    /// The verdict on this figure.
    pub verdict: Verdict,
}

/// The verdict on a claim, from best to worst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// A figure is shown beside those that are judged; of no claim.
    Shown,
    /// The direction is the same, the size within the band.
    Reproduced,
    /// The direction is the same, the size outside the band or of other inputs.
    DirectionOnly,
    /// Measured, and the claim could not be judged by it: a smoke size, an input that is not there.
    #[default]
    NotJudged,
    /// Neither.
    NotReproduced,
}

impl Verdict {
    /// The verdict in words.
    pub const fn words(self) -> &'static str {
        match self {
            Verdict::Shown => "shown",
            Verdict::Reproduced => "reproduced",
            Verdict::DirectionOnly => "direction only",
            Verdict::NotJudged => "not judged",
            Verdict::NotReproduced => "not reproduced",
        }
    }
}

/// Every claim, with the experiment it belongs to.
pub fn claims() -> impl Iterator<Item = (&'static Experiment, &'static Claim)> {
    experiment::list()
        .iter()
        .flat_map(|experiment| experiment.claims.iter().map(move |claim| (experiment, claim)))
}

/// Runs the experiments of these papers, and judges. `tell` hears of each experiment when it begins.
pub fn run(
    plan: &ReproPlan,
    control: &Control,
    tell: &mut dyn FnMut(&str),
) -> Result<Reproduction, LabError> {
    if let Some(paper) = plan.papers.iter().find(|paper| !PAPERS.contains(&paper.as_str())) {
        return Err(LabError::unknown("paper", paper, PAPERS.iter().copied()));
    }
    let mut bench = Bench::new(&plan.run, control);
    let keep = plan.keep.as_deref().map(|folder| Keep::new(folder, &plan.run)).transpose()?;
    let mut done = Reproduction { cards: Vec::new(), experiments: Vec::new() };
    for paper in &plan.papers {
        let takes_part =
            |e: &&Experiment| e.definition.paper == *paper && (plan.whole || !e.claims.is_empty());
        let mut rows = Vec::new();
        for experiment in experiment::list().iter().filter(takes_part) {
            let kept = keep.as_ref().and_then(|keep| keep.find(experiment));
            let how = if kept.is_some() { "kept from before" } else { "running" };
            tell(&format!("{paper}: {} ({how})", experiment.definition.name));
            let results = match kept {
                Some(results) => results,
                None => bench.run(experiment)?,
            };
            // What was stopped half-way is measured again the next time.
            if let Some(keep) = keep.as_ref().filter(|_| !control.is_cancelled()) {
                keep.put(experiment, &results)?;
            }
            rows.extend(experiment.claims.iter().map(|claim| row(claim, &results)));
            done.experiments.push(results);
        }
        rows.sort_by_key(|row: &ScoreRow| (number_of(&row.id), row.id.clone(), row.reading));
        done.cards.push(Scorecard {
            schema: SCORECARD_SCHEMA,
            nandex_version: env!("CARGO_PKG_VERSION"),
            command: plan.command(paper),
            paper: paper.clone(),
            smoke: plan.run.smoke,
            rows,
        });
    }
    Ok(done)
}

/// The number in an id, so that M10 comes after M9, and N1-ram before N2.
fn number_of(id: &str) -> u32 {
    let number = id.trim_start_matches(|c: char| !c.is_ascii_digit());
    let end = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
    number[..end].parse().unwrap_or(u32::MAX)
}

/// The row of a claim from the results of its experiment.
pub fn row(claim: &Claim, results: &ExperimentResults) -> ScoreRow {
    let mut values = judge::values(claim, results);
    let mut reasons = reasons(results);
    if results.smoke && !claim.in_smoke {
        values.iter_mut().for_each(|value| value.verdict = Verdict::NotJudged);
        reasons.insert(0, String::from("the smoke size cannot tell"));
    }
    let outside =
        values.iter().filter(|v| matches!(v.verdict, Verdict::DirectionOnly | Verdict::NotReproduced));
    reasons.extend(outside.map(ScoreValue::outside));
    reasons.extend((!claim.note.is_empty()).then(|| claim.note.clone()));
    ScoreRow {
        id: claim.id.clone(),
        reading: claim.reading,
        set_up: claim.set_up.clone(),
        substitute: stands_on_substitutes(claim, results),
        claim: claim.text.clone(),
        band: claim.rule.words(),
        verdict: judge::worst(&values),
        values,
        note: reasons.join("; "),
        experiment: results.definition.name.clone(),
        command: results.command.clone(),
    }
}

/// Whether a cell that the claim looks at ran on substitute data.
fn stands_on_substitutes(claim: &Claim, results: &ExperimentResults) -> bool {
    let cells = claim.values.iter().flat_map(Expected::cells);
    cells
        .filter_map(|name| results.cell(&name).map(|cell| cell.substitute.is_some()))
        .any(|is_substitute| is_substitute)
}

/// The reasons against judging an experiment: what went wrong, or was not as it names it.
fn reasons(results: &ExperimentResults) -> Vec<String> {
    let mut reasons = Vec::new();
    for cell in &results.cells {
        let failed = cell.failures().map(|why| format!("{}: {why}", cell.name));
        let missing = cell
            .missing
            .iter()
            .chain(&cell.stand_in)
            .chain(&cell.substitute)
            .map(|why| format!("{}: {why}", cell.input));
        for reason in failed.chain(missing) {
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
        }
    }
    reasons
}

impl ScoreValue {
    fn outside(&self) -> String {
        let number = |value: Option<f64>| value.map_or_else(|| "?".into(), |value| format!("{value:.3}"));
        format!(
            "outside: {} {}: {} against {}",
            self.cell,
            self.figure,
            number(self.measured),
            number(self.paper)
        )
    }
}

impl ReproPlan {
    fn command(&self, paper: &str) -> String {
        let smoke = if self.run.smoke { " --smoke" } else { "" };
        format!("nandex repro --paper {paper}{smoke}")
    }
}

impl Scorecard {
    /// Rows of this reading with this verdict, but for those on substitute data.
    pub fn count(&self, reading: Reading, verdict: Verdict) -> usize {
        let counts = |row: &&ScoreRow| row.reading == reading && row.verdict == verdict && !row.substitute;
        self.rows.iter().filter(counts).count()
    }

    /// Rows of this reading that stand on substitute data.
    pub fn on_substitutes(&self, reading: Reading) -> usize {
        self.rows.iter().filter(|row| row.reading == reading && row.substitute).count()
    }

    /// The claims: of each the rows of its readings, as they follow one another.
    pub fn claims(&self) -> impl Iterator<Item = Vec<&ScoreRow>> {
        self.rows.chunk_by(|a, b| a.id == b.id).map(|rows| rows.iter().collect())
    }

    /// Rows of this reading.
    pub fn of_reading(&self, reading: Reading) -> usize {
        self.rows.iter().filter(|row| row.reading == reading).count()
    }
}

impl Reproduction {
    /// Whether no claim failed at the set-up first read.
    pub fn is_good(&self) -> bool {
        self.cards.iter().all(|card| card.count(Reading::First, Verdict::NotReproduced) == 0)
    }

    /// Writes the scorecards as JSON, indented, with a newline at the end: one, or an array of several.
    pub fn write_json(&self, mut out: impl Write) -> io::Result<()> {
        match &self.cards[..] {
            [card] => serde_json::to_writer_pretty(&mut out, card)?,
            cards => serde_json::to_writer_pretty(&mut out, cards)?,
        }
        writeln!(out)
    }

    /// Writes a row for each figure of each reading of each claim.
    pub fn write_csv(&self, out: impl Write) -> io::Result<()> {
        let mut csv = csv::Writer::from_writer(out);
        csv.write_record(CSV_COLUMNS)?;
        for row in self.cards.iter().flat_map(|card| &card.rows) {
            for value in &row.values {
                let number = |n: Option<f64>| n.map_or_else(String::new, |n| n.to_string());
                let numbers =
                    [value.paper, value.measured, value.measured_min, value.measured_max].map(number);
                let [paper, measured, min, max] = &numbers;
                csv.write_record([
                    row.id.as_str(),
                    row.reading.words(),
                    &row.set_up,
                    if row.substitute { "yes" } else { "no" },
                    &row.claim,
                    &value.cell,
                    &value.figure,
                    paper,
                    measured,
                    min,
                    max,
                    &row.band,
                    value.verdict.words(),
                    row.verdict.words(),
                    &row.note,
                    &row.experiment,
                    &row.command,
                ])?;
            }
        }
        csv.flush()
    }
}

const CSV_COLUMNS: [&str; 17] = [
    "id",
    "reading",
    "set_up",
    "substitute",
    "claim",
    "cell",
    "figure",
    "paper",
    "measured",
    "measured_min",
    "measured_max",
    "band",
    "value_verdict",
    "verdict",
    "note",
    "experiment",
    "command",
];

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
    /// The papers, such as "mu" or "wpcb".
    pub papers: Vec<String>,
    /// Whether experiments without claims run too, such as sweeps and plots of a report.
    pub whole: bool,
    /// How experiments are run.
    pub run: RunPlan,
    /// A folder that keeps the results of each complete experiment. The same command continues from there.
    pub keep: Option<PathBuf>,
}

/// The outcome of a reproduction.
#[derive(Debug)]
pub struct Reproduction {
    /// The scorecards, one for each paper.
    pub cards: Vec<Scorecard>,
    /// All experiments that ran, in the order of the papers.
    pub experiments: Vec<ExperimentResults>,
}

/// The papers whose claims can be reproduced.
pub const PAPERS: &[&str] = &["mu", "wpcb", "lazy", "ls-lru", "access-time", "named", "plow"];

/// Version of the layout of [`Scorecard`].
pub const SCORECARD_SCHEMA: u32 = 2;

/// The claims of a paper, with their verdicts.
#[derive(Clone, Debug, Serialize)]
pub struct Scorecard {
    /// Version of this layout, raised if a field changes its meaning.
    pub schema: u32,
    /// Version of Nandex.
    pub nandex_version: &'static str,
    /// The command that gives the same scorecard again.
    pub command: String,
    /// Name of the paper.
    pub paper: String,
    /// Whether the experiments ran at the small size, which can judge only few claims.
    pub smoke: bool,
    /// The rows, one for each reading of each claim, in the order of the claims' ids.
    pub rows: Vec<ScoreRow>,
}

/// One claim in one reading, with its verdict.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScoreRow {
    /// The claim's id, such as "M1". "N1-ram" is N1 with the same RAM for all contenders.
    pub id: String,
    /// The reading, which is a column of the scorecard.
    pub reading: Reading,
    /// The differences from the set-up as first read, with the paper's words behind them. Empty for the
    /// first reading.
    pub set_up: String,
    /// Whether substitute data was used instead of the data that the claim names. Such a row is not
    /// counted.
    pub substitute: bool,
    /// The words of the paper.
    pub claim: String,
    /// All figures of the claim.
    pub values: Vec<ScoreValue>,
    /// Allowed distance of the figures from the paper's, in words.
    pub band: String,
    /// The worst verdict on any figure.
    pub verdict: Verdict,
    /// Figures outside the band, assumptions, and reasons for not judging.
    pub note: String,
    /// The experiment that measured the claim.
    pub experiment: String,
    /// Command line that measures the figure again.
    pub command: String,
}

/// One figure of a claim.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ScoreValue {
    /// The cell, the second cell of a comparison, or the `input/variant` of a comparison of both trees.
    pub cell: String,
    /// Name of the figure, with its unit.
    pub figure: String,
    /// The paper's figure. Absent if the paper gives none.
    pub paper: Option<f64>,
    /// Mean over the seeds. Absent if it was not measured.
    pub measured: Option<f64>,
    /// Smallest value of a seed.
    pub measured_min: Option<f64>,
    /// Largest value of a seed.
    pub measured_max: Option<f64>,
    /// The verdict on this figure.
    pub verdict: Verdict,
}

/// The verdict on a claim, from best to worst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Shown beside the judged figures; never the verdict on a claim.
    Shown,
    /// The direction is the paper's and the size is within the band.
    Reproduced,
    /// The direction is the paper's, but the size is outside the band or belongs to other inputs.
    DirectionOnly,
    /// Not judged, because it was a smoke run, an input was missing, or a figure was not measured.
    #[default]
    NotJudged,
    /// Neither the size nor the direction is the paper's.
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

/// All claims of built-in experiments, with their experiments.
pub fn claims() -> impl Iterator<Item = (&'static Experiment, &'static Claim)> {
    experiment::list()
        .iter()
        .flat_map(|experiment| experiment.claims.iter().map(move |claim| (experiment, claim)))
}

/// Runs the experiments of these papers and judges their claims. Calls `tell` with each experiment when it
/// begins.
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

/// The number in an id, by which M10 sorts after M9 and N1-ram before N2.
fn number_of(id: &str) -> u32 {
    let number = id.trim_start_matches(|c: char| !c.is_ascii_digit());
    let end = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
    number[..end].parse().unwrap_or(u32::MAX)
}

/// Makes the row of a claim from the results of its experiment.
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

/// Whether a cell of the claim ran on substitute data.
fn stands_on_substitutes(claim: &Claim, results: &ExperimentResults) -> bool {
    let cells = claim.values.iter().flat_map(Expected::cells);
    cells
        .filter_map(|name| results.cell(&name).map(|cell| cell.substitute.is_some()))
        .any(|is_substitute| is_substitute)
}

/// The reasons for not judging an experiment: failures, or inputs other than it names.
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
    /// Number of rows with this reading and verdict, without those on substitute data.
    pub fn count(&self, reading: Reading, verdict: Verdict) -> usize {
        let counts = |row: &&ScoreRow| row.reading == reading && row.verdict == verdict && !row.substitute;
        self.rows.iter().filter(counts).count()
    }

    /// Number of rows of this reading on substitute data.
    pub fn on_substitutes(&self, reading: Reading) -> usize {
        self.rows.iter().filter(|row| row.reading == reading && row.substitute).count()
    }

    /// The rows by claim: for each claim the rows of its readings.
    pub fn claims(&self) -> impl Iterator<Item = Vec<&ScoreRow>> {
        self.rows.chunk_by(|a, b| a.id == b.id).map(|rows| rows.iter().collect())
    }

    /// Number of rows of this reading.
    pub fn of_reading(&self, reading: Reading) -> usize {
        self.rows.iter().filter(|row| row.reading == reading).count()
    }
}

impl Reproduction {
    /// Whether no claim failed in the set-up as first read.
    pub fn is_good(&self) -> bool {
        self.cards.iter().all(|card| card.count(Reading::First, Verdict::NotReproduced) == 0)
    }

    /// Writes the scorecards as indented JSON with a newline at the end: one as an object, several as an
    /// array.
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

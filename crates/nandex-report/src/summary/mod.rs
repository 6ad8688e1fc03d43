//! The runs as rows: grouped by durability class, averaged over seeds, in the order they were asked for.
//!
//! Rows of different classes promise different things after a power cut, so the best value is looked for
//! within a class only.

pub mod conclusion;
pub mod measure;
pub mod over_ram;
pub mod scale;

use measure::Measure;
use nandex_lab::results::{AS_NOR, Results, Run};
use nandex_lab::stats;
use nandex_lab::totals::Totals;
use scale::Scale;

/// The runs of one index on one storage, over all seeds.
#[derive(Debug)]
pub struct Row<'a> {
    /// The position of the index in the order asked for, which is the same in every class. It determines
    /// colour and mark.
    pub series: usize,
    /// Name of the index, with the storage if the name alone is not unique.
    pub label: String,
    /// Name of the index.
    pub index: &'a str,
    /// The storage below the index.
    pub storage: &'a str,
    /// Finished runs with their totals.
    pub finished: Vec<(&'a Run, Totals)>,
    /// The runs that did not finish.
    pub failed: Vec<&'a Run>,
    page_bytes: u32,
}

impl Row<'_> {
    /// A figure of this row over the runs that finished; `None` without a value.
    pub fn value(&self, measure: Measure) -> Option<stats::Summary> {
        stats::Summary::of(&self.each(measure).map(|(_, value)| value).collect::<Vec<_>>())
    }

    /// A figure of this row divided by that of another, seed by seed.
    pub fn ratio(&self, base: &Row<'_>, measure: Measure) -> Option<stats::Summary> {
        let pairs = self.each(measure).filter_map(|(seed, value)| {
            let (_, divisor) = base.each(measure).find(|(other, _)| *other == seed)?;
            Some(value / divisor).filter(|ratio| ratio.is_finite())
        });
        stats::Summary::of(&pairs.collect::<Vec<_>>())
    }

    /// Whether the row ran on the chip that was asked for.
    pub fn is_on_this_chip(&self) -> bool {
        !self.storage.ends_with(AS_NOR)
    }

    fn each(&self, measure: Measure) -> impl Iterator<Item = (u64, f64)> {
        let value = move |(run, totals): &(&Run, Totals)| measure.value(run, totals, self.page_bytes);
        self.finished.iter().filter_map(move |pair| Some((pair.0.seed, value(pair)?)))
    }
}

impl<'a> Row<'a> {
    /// The reasons why runs did not finish, each once with its seeds, as "could not run: ..." or "stopped:
    /// ...".
    pub fn failures(&self) -> Vec<(String, Vec<u64>)> {
        let mut failures: Vec<(String, Vec<u64>)> = Vec::new();
        for run in &self.failed {
            let how = if run.phases.is_empty() { "could not run" } else { "stopped" };
            let reason = format!("{how}: {}", run.error.as_deref().unwrap_or_default());
            match failures.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, seeds)) => seeds.push(run.seed),
                None => failures.push((reason, vec![run.seed])),
            }
        }
        failures
    }
}

/// The rows with the same durability class.
#[derive(Debug)]
pub struct Class<'a> {
    /// The durability class.
    pub durability: &'a str,
    /// The rows of the class.
    pub rows: Vec<Row<'a>>,
    /// Whether every row was given the same RAM. The use of that RAM is then no merit.
    equal_ram: bool,
}

impl<'a> Class<'a> {
    /// The rows with at least one finished run.
    pub fn finished(&self) -> impl Iterator<Item = &Row<'a>> {
        self.rows.iter().filter(|row| !row.finished.is_empty())
    }

    /// Whether the row has the best value of the class. Without another row to beat, no row has.
    pub fn is_best(&self, row: &Row<'_>, measure: Measure) -> bool {
        if !measure.is_ranked() || (self.equal_ram && measure == Measure::Ram) {
            return false;
        }
        let here = || self.rows.iter().filter(|row| row.is_on_this_chip());
        let means = || here().filter_map(|r| r.value(measure)).map(|s| s.mean);
        let best = means().fold(f64::INFINITY, f64::min);
        let is_least = row.value(measure).is_some_and(|s| s.mean <= best);
        is_least && row.is_on_this_chip() && means().any(|mean| mean > best)
    }

    /// The class's name as a heading.
    pub fn heading(&self) -> String {
        match self.durability {
            "" => "Not run".to_string(),
            class => format!("Durability: {class}"),
        }
    }

    /// The promise of the class in words.
    pub fn promise(&self) -> &'static str {
        match self.durability {
            "every operation" => "an acknowledged operation survives a power cut",
            "every sync" => "the state of the last sync, or a later one, survives a power cut",
            "" => "could not be started",
            _ => "nothing is promised after a power cut",
        }
    }
}

/// All rows by durability class, the strongest class first.
#[derive(Debug)]
pub struct Summary<'a> {
    /// The measures that apply to the runs.
    pub measures: Vec<Measure>,
    /// The rows by durability class.
    pub classes: Vec<Class<'a>>,
    /// The seeds, ascending.
    pub seeds: Vec<u64>,
}

impl<'a> Summary<'a> {
    /// Groups the runs and averages over the seeds.
    pub fn of(results: &'a Results) -> Summary<'a> {
        let mut rows: Vec<(&str, Row<'a>)> = Vec::new();
        for run in &results.runs {
            let known = rows.iter().position(|(class, row)| {
                *class == run.durability && row.index == run.index && row.storage == run.storage
            });
            let at = known.unwrap_or_else(|| {
                // An index keeps its colour in every class.
                let of_index =
                    rows.iter().find(|(_, row)| row.index == run.index && row.storage == run.storage);
                let next = rows.iter().map(|(_, row)| row.series + 1).max().unwrap_or(0);
                let series = of_index.map_or(next, |(_, row)| row.series);
                rows.push((&run.durability, new_row(results, run, series)));
                rows.len() - 1
            });
            match run.error {
                Some(_) => rows[at].1.failed.push(run),
                None => rows[at].1.finished.push((run, Totals::of(run, results))),
            }
        }
        let finished = rows.iter().flat_map(|(_, row)| &row.finished);
        let runs: Vec<(&Run, &Totals)> = finished.map(|(run, totals)| (*run, totals)).collect();
        let measures = Measure::present(&runs);
        let mut seeds: Vec<u64> = results.runs.iter().map(|r| r.seed).collect();
        seeds.sort_unstable();
        seeds.dedup();
        let equal_ram = results.workload.ram_bytes.is_some();
        Summary { measures, classes: into_classes(rows, equal_ram), seeds }
    }

    /// All rows, those of the strongest class first.
    pub fn rows(&self) -> impl Iterator<Item = &Row<'a>> {
        self.classes.iter().flat_map(|c| &c.rows)
    }

    /// The rows in the order asked for.
    pub fn rows_as_asked(&self) -> Vec<&Row<'a>> {
        let mut rows: Vec<_> = self.rows().collect();
        rows.sort_by_key(|row| row.series);
        rows
    }

    /// One scale for a measure over all rows.
    pub fn scale(&self, measure: Measure) -> Scale {
        Scale::of(measure.quantity(), self.rows().filter_map(|r| r.value(measure)).map(|s| s.mean))
    }
}

fn new_row<'a>(results: &'a Results, run: &'a Run, series: usize) -> Row<'a> {
    Row {
        series,
        label: label(results, run),
        index: &run.index,
        storage: &run.storage,
        finished: Vec::new(),
        failed: Vec::new(),
        page_bytes: results.chip.page_bytes,
    }
}

/// The shortest label that no other row shares: the name, the name with the storage, or also with the
/// class.
fn label(results: &Results, run: &Run) -> String {
    let namesakes = || results.runs.iter().filter(|r| r.index == run.index);
    let mut label = run.index.clone();
    if namesakes().any(|r| r.storage != run.storage) {
        label += &format!(" on {}", run.storage);
    }
    if namesakes().any(|r| r.storage == run.storage && r.durability != run.durability) {
        label += &format!(", {}", run.durability);
    }
    label
}

fn into_classes<'a>(rows: Vec<(&'a str, Row<'a>)>, equal_ram: bool) -> Vec<Class<'a>> {
    let mut classes: Vec<Class<'a>> = Vec::new();
    for (durability, row) in rows {
        match classes.iter_mut().find(|c| c.durability == durability) {
            Some(class) => class.rows.push(row),
            None => classes.push(Class { durability, rows: vec![row], equal_ram }),
        }
    }
    classes.sort_by_key(|c| match c.durability {
        "every operation" => 0,
        "every sync" => 1,
        "" => 3,
        _ => 2,
    });
    classes
}

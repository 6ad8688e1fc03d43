//! Grids: lists of values for the fields of a request. Each combination is a request.

use super::request::{Request, bytes_or_text, usual_chip, usual_durability, usual_record};
use crate::names::UnknownName;
use crate::{LabError, chip, input, registry, workload};
use serde::de::{DeserializeOwned, Deserializer, Error};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The axes of a sweep. Each is a list or a single value. An axis left out has the default of [`Request`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Grid {
    /// Indexes. `all` means every index.
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub index: Vec<String>,
    /// Chips.
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub chip: Vec<String>,
    /// Generators of operations.
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub workload: Vec<String>,
    /// Traces, in addition to the generators.
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub trace: Vec<String>,
    /// Numbers of operations.
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub ops: Vec<u64>,
    /// Record sizes, as bytes of key and value.
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub record: Vec<String>,
    /// Amounts of RAM.
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub ram: Vec<Ram>,
    /// Durability classes.
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub durability: Vec<String>,
    /// Numbers of changes between two syncs.
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub sync_every: Vec<u64>,
    /// FTLs, for the indexes that stand on one.
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub ftl: Vec<String>,
    /// Seeds: a list, a single one, or a range `{ from = 1, to = 10 }`.
    #[serde(deserialize_with = "seeds", skip_serializing_if = "Vec::is_empty")]
    pub seed: Vec<u64>,
    /// Options. Each is a list or a single value.
    #[serde(deserialize_with = "lists", skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, Vec<String>>,
    /// Combinations to leave out, given as values that all must match.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skip: Vec<BTreeMap<String, Word>>,
}

/// RAM in bytes, given as a number or as text with a unit.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct Ram(#[serde(deserialize_with = "bytes_or_text")] pub Option<u64>);

/// A value of any simple type.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Word {
    /// Text.
    Text(String),
    /// A whole number.
    Whole(u64),
    /// A number that is not whole.
    Number(Plain),
    /// A truth value.
    Truth(bool),
}

/// A number, written as it is printed.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct Plain(pub f64);

impl Eq for Plain {}

impl Word {
    fn text(&self) -> String {
        match self {
            Word::Text(text) => text.clone(),
            Word::Whole(number) => number.to_string(),
            Word::Number(Plain(number)) => number.to_string(),
            Word::Truth(truth) => truth.to_string(),
        }
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany<T> {
    Many(Vec<T>),
    One(T),
}

fn list<'de, D: Deserializer<'de>, T: DeserializeOwned>(from: D) -> Result<Vec<T>, D::Error> {
    // Not the enum: where neither fits it forgets why.
    let values = match serde_json::Value::deserialize(from)? {
        serde_json::Value::Array(many) if many.is_empty() => {
            return Err(D::Error::custom("is an empty list: no cell is left"));
        }
        serde_json::Value::Array(many) => many,
        one => vec![one],
    };
    values.into_iter().map(|value| T::deserialize(value).map_err(D::Error::custom)).collect()
}

fn lists<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, Vec<String>>, D::Error> {
    let read = BTreeMap::<String, OneOrMany<Word>>::deserialize(from)?;
    let texts = |words: OneOrMany<Word>| match words {
        OneOrMany::Many(many) => many.iter().map(Word::text).collect(),
        OneOrMany::One(one) => vec![one.text()],
    };
    Ok(read.into_iter().map(|(name, words)| (name, texts(words))).collect())
}

/// Largest number of seeds, so that a typing error does not take all memory.
const SEEDS_MAX: u64 = 100_000;

fn seeds<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Seeds {
        Range { from: u64, to: u64 },
        Many(Vec<u64>),
        One(u64),
    }
    let read = Seeds::deserialize(from);
    match read.map_err(|_| D::Error::custom("seeds are a number, a list, or { from = 1, to = 10 }"))? {
        Seeds::Range { from, to } if from <= to && to - from < SEEDS_MAX => Ok((from..=to).collect()),
        Seeds::Range { from, to } => {
            Err(D::Error::custom(format!("from {from} to {to} is no range of seeds")))
        }
        Seeds::Many(many) => Ok(many),
        Seeds::One(one) => Ok(vec![one]),
    }
}

/// The cells of a grid, each once, in the order of the axes: the seed changes fastest, then the index.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// Requests of the file.
    pub cells: Vec<Request>,
}

/// Largest grid file that is read, in bytes.
const GRID_BYTES_MAX: u64 = 4 << 20;

const CELLS_MAX: usize = 10_000_000;

impl Grid {
    /// Reads a grid from a TOML file. Traces and chip files in it are relative to its folder.
    pub fn load(file: &Path) -> Result<Grid, LabError> {
        let bytes = input::read(file, GRID_BYTES_MAX)?;
        let refused = |line: Option<usize>, key: &str, reason: String| LabError::Experiment {
            file: file.display().to_string(),
            line,
            key: key.to_string(),
            reason,
        };
        let text =
            input::text(&bytes).map_err(|(line, reason)| refused(usize::try_from(line).ok(), "", reason))?;
        let mut grid: Grid = toml::from_str(&text).map_err(|error: toml::de::Error| {
            let line = error.span().map(|span| text[..span.start].matches('\n').count() + 1);
            let on_it = line.and_then(|line| text.lines().nth(line - 1)).unwrap_or_default().trim();
            refused(line, on_it, error.message().trim().to_string())
        })?;
        let folder = file.parent().unwrap_or(Path::new(""));
        for name in grid.chip.iter_mut().chain(&mut grid.trace) {
            let beside = folder.join(&*name);
            if beside.is_file() {
                *name = beside.display().to_string();
            }
        }
        grid.cells().map_err(|error| refused(None, "", error.to_string()))?;
        Ok(grid)
    }

    /// All cells, each once. Names that do not exist are refused.
    pub fn cells(&self) -> Result<Sweep, LabError> {
        self.check()?;
        let mut cells = vec![Request::new("")];
        let sources = self.sources();
        cells = times(cells, &sources, |cell, (workload, trace)| {
            (cell.workload, cell.trace) = (workload.clone(), trace.clone());
        })?;
        cells = times(cells, &or(&self.chip, usual_chip()), |cell, chip| cell.chip.clone_from(chip))?;
        cells =
            times(cells, &or(&self.record, usual_record()), |cell, record| cell.record.clone_from(record))?;
        cells = times(cells, &some(&self.ops), |cell, ops| cell.ops = *ops)?;
        let class = or(&self.durability, usual_durability());
        cells = times(cells, &class, |cell, class| cell.durability.clone_from(class))?;
        cells = times(cells, &some(&self.sync_every), |cell, every| cell.sync_every = *every)?;
        cells = times(cells, &or(&self.ram, Ram(None)), |cell, ram| cell.ram = ram.0)?;
        cells = times(cells, &some(&self.ftl), |cell, ftl| cell.ftl.clone_from(ftl))?;
        for (name, values) in &self.options {
            cells = times(cells, values, |cell, value| {
                cell.options.insert(name.clone(), value.clone());
            })?;
        }
        cells = times(cells, &self.indexes(), |cell, index| cell.index.clone_from(index))?;
        cells = times(cells, &or(&self.seed, 1), |cell, seed| cell.seed = *seed)?;
        let mut seen = BTreeSet::new();
        let mut kept = Vec::new();
        for cell in cells {
            let skipped =
                self.skip.iter().any(|skip| skip.iter().all(|(axis, value)| is_at(&cell, axis, value)));
            let cell = cell.only_what_counts()?;
            if !skipped && seen.insert(cell.clone()) {
                kept.push(cell);
            }
        }
        Ok(Sweep { cells: kept })
    }

    fn indexes(&self) -> Vec<String> {
        let all = || registry::INDEXES.iter().map(|entry| entry.name.to_string()).collect();
        if self.index.iter().any(|index| index == "all") { all() } else { self.index.clone() }
    }

    fn sources(&self) -> Vec<(Option<String>, Option<String>)> {
        let workloads = self.workload.iter().map(|name| (Some(name.clone()), None));
        let traces = self.trace.iter().map(|name| (None, Some(name.clone())));
        let all: Vec<_> = workloads.chain(traces).collect();
        if all.is_empty() { vec![(None, None)] } else { all }
    }

    /// Refuses unknown names. An option must be known to one of the indexes or workloads.
    fn check(&self) -> Result<(), LabError> {
        if self.index.is_empty() {
            return Err(LabError::bad_option("index", "", "is missing: give index = [\"mu\", \"bplus\"]"));
        }
        let indexes = self.indexes();
        let entries = indexes.iter().map(|name| registry::subject(name)).collect::<Result<Vec<_>, _>>()?;
        self.chip.iter().try_for_each(|name| chip::find(name).map(drop))?;
        if let Some((name, value)) = self.options.iter().find(|(_, values)| values.is_empty()) {
            return Err(LabError::bad_option(
                name,
                &format!("{value:?}"),
                "is an empty list: no cell is left",
            ));
        }
        let mut known: Vec<&str> = Vec::new();
        for (workload, _) in self.sources() {
            let request = Request { workload, ..Request::new("") };
            known.extend(request.workload_options()?.iter().map(|option| option.name));
        }
        let mut set = nandex_stacks::options::Options::default();
        for (name, values) in &self.options {
            values.iter().for_each(|value| set.set(name, value));
        }
        known.extend(entries.iter().flat_map(|entry| entry.known(&set)).map(|option| option.name));
        for ftl in self.ftl.iter().chain(self.options.get("ftl").into_iter().flatten()) {
            crate::tbm::find(ftl)?;
            set.set("ftl", ftl);
            known.extend(entries.iter().flat_map(|entry| entry.known(&set)).map(|option| option.name));
        }
        if let Some(name) = self.options.keys().find(|name| !known.contains(&name.as_str())) {
            return Err(UnknownName::of("option", name, known).into());
        }
        let mut axes = self.skip.iter().flat_map(BTreeMap::keys);
        let is_unknown = |axis: &&String| !AXES.contains(&axis.as_str()) && !self.options.contains_key(*axis);
        if let Some(axis) = axes.find(is_unknown) {
            let options = self.options.keys().map(String::as_str);
            return Err(LabError::unknown("axis", axis, AXES.into_iter().chain(options)));
        }
        self.workload.iter().try_for_each(|name| workload::workload(name).map(drop))
    }
}

/// Names of the axes that are not options.
const AXES: [&str; 11] =
    ["index", "chip", "workload", "trace", "ops", "record", "ram", "durability", "sync_every", "ftl", "seed"];

/// Whether a cell has this value on an axis.
fn is_at(cell: &Request, axis: &str, value: &Word) -> bool {
    let number = |number: Option<u64>| number.map(|number| number.to_string());
    let found = match axis {
        "index" => Some(cell.index.clone()),
        "chip" => Some(cell.chip.clone()),
        "workload" => cell.workload.clone(),
        "trace" => cell.trace.clone(),
        "ops" => number(cell.ops),
        "record" => Some(cell.record.clone()),
        "ram" => {
            let bytes = crate::quantities::bytes(&value.text()).ok();
            return cell.ram.is_some() && cell.ram == bytes.map(|bytes| bytes as u64);
        }
        "durability" => Some(cell.durability.clone()),
        "sync_every" => number(cell.sync_every),
        "ftl" => cell.ftl.clone(),
        "seed" => number(Some(cell.seed)),
        option => cell.options.get(option).cloned(),
    };
    found.is_some_and(|found| found == value.text())
}

fn or<T: Clone>(values: &[T], usual: T) -> Vec<T> {
    if values.is_empty() { vec![usual] } else { values.to_vec() }
}

fn some<T: Clone>(values: &[T]) -> Vec<Option<T>> {
    if values.is_empty() { vec![None] } else { values.iter().cloned().map(Some).collect() }
}

/// Multiplies cells by the values of an axis.
fn times<T>(
    cells: Vec<Request>,
    values: &[T],
    set: impl Fn(&mut Request, &T),
) -> Result<Vec<Request>, LabError> {
    let count = cells.len().saturating_mul(values.len());
    if count > CELLS_MAX {
        let reason = format!("cells are more than the {CELLS_MAX} of a sweep; make several grids of it");
        return Err(LabError::bad_option("grid", &count.to_string(), reason));
    }
    let each = cells.into_iter().flat_map(|cell| {
        let set = &set;
        values.iter().map(move |value| {
            let mut cell = cell.clone();
            set(&mut cell, value);
            cell
        })
    });
    Ok(each.collect())
}

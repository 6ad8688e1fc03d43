//! Cells as one table: a row for each, a column for each axis, option and figure.

use super::outcome::Outcome;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::io::{self, Write};

/// Columns before those of the options.
const HEAD: [&str; 16] = [
    "key",
    "status",
    "error",
    "nandex_version",
    "commit",
    "index",
    "chip",
    "workload",
    "trace",
    "ops",
    "record",
    "ram",
    "durability",
    "sync_every",
    "ftl",
    "seed",
];

/// Columns after those of options: the figures, see [`Figures`](super::Figures), and the quotient wanted
/// most.
const FIGURES: [&str; 22] = [
    "storage",
    "declared_durability",
    "operations",
    "flash_time_ns",
    "flash_time_per_operation_ns",
    "flash_time_max_ns",
    "page_reads",
    "page_programs",
    "block_erases",
    "energy_nj",
    "write_amplification",
    "cpu_ns",
    "cache_hits",
    "cache_misses",
    "collections",
    "ram_bytes",
    "height_levels",
    "records",
    "live_pages",
    "space_amplification",
    "wear_max_erases",
    "wear_mean_erases",
];

impl Outcome {
    /// The cell as a flat row, with options as `option.NAME`. Unknown values are null.
    pub fn row(&self) -> Map<String, Value> {
        let object = |value: Value| if let Value::Object(map) = value { map } else { Map::new() };
        let mut row: Map<String, Value> =
            HEAD.iter().chain(&FIGURES).map(|name| ((*name).to_string(), Value::Null)).collect();
        let mut whole = object(serde_json::to_value(self).unwrap_or_default());
        let mut request = object(whole.remove("request").unwrap_or_default());
        let options = object(request.remove("options").unwrap_or_default());
        let figures = object(whole.remove("figures").unwrap_or_default());
        whole.remove("schema");
        row.extend(whole.into_iter().chain(request).chain(figures));
        row.extend(options.into_iter().map(|(name, value)| (format!("option.{name}"), value)));
        if let Some(figures) = self.figures.as_ref().filter(|figures| figures.operations > 0) {
            let per_operation = figures.flash_time_ns as f64 / figures.operations as f64;
            row.insert("flash_time_per_operation_ns".into(), per_operation.into());
        }
        row
    }
}

/// Names of the columns for these cells, in order.
pub fn columns(outcomes: &[Outcome]) -> Vec<String> {
    let options = outcomes.iter().flat_map(|outcome| outcome.request.options.keys());
    let options: BTreeSet<String> = options.map(|name| format!("option.{name}")).collect();
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_string()).collect::<Vec<_>>();
    names(&HEAD).into_iter().chain(options).chain(names(&FIGURES)).collect()
}

/// Writes the table as CSV. Unknown values are empty.
pub fn write_csv(outcomes: &[Outcome], out: impl Write) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    let columns = columns(outcomes);
    csv.write_record(&columns)?;
    for outcome in outcomes {
        let row = outcome.row();
        let text = |column: &String| match row.get(column) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        csv.write_record(columns.iter().map(text))?;
    }
    csv.flush()
}

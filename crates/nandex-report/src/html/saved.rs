//! The figures of a page as data for download: a column for each figure, a row for each run.

use crate::summary::measure::Measure;
use nandex_lab::results::{Results, Run};
use nandex_lab::totals::Totals;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// The figures of a page's runs by column.
#[derive(Serialize)]
pub(super) struct Columns {
    schema: u32,
    nandex_version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    commit: Option<String>,
    command: String,
    columns: Map<String, Value>,
}

impl Columns {
    pub(super) fn of(sets: &[Results]) -> Columns {
        let runs: Vec<(&Results, Totals, usize)> = sets
            .iter()
            .flat_map(|results| {
                results.runs.iter().enumerate().map(move |(at, run)| (results, Totals::of(run, results), at))
            })
            .collect();
        let mut columns = Map::new();
        let mut text = |name: &str, of: &dyn Fn(&Results, usize) -> Value| {
            columns.insert(name.to_string(), runs.iter().map(|(r, _, at)| of(r, *at)).collect());
        };
        text("workload", &|r, _| json!(r.workload.name));
        text("ram_given_bytes", &|r, _| json!(r.workload.ram_bytes));
        text("index", &|r, at| json!(r.runs[at].index));
        text("storage", &|r, at| json!(r.runs[at].storage));
        text("durability", &|r, at| json!(r.runs[at].durability));
        text("seed", &|r, at| json!(r.runs[at].seed));
        text("error", &|r, at| json!(r.runs[at].error));
        let pairs: Vec<(&Run, &Totals)> =
            runs.iter().map(|(results, totals, at)| (&results.runs[*at], totals)).collect();
        for measure in Measure::present(&pairs) {
            let value = |(results, totals, at): &(&Results, Totals, usize)| {
                let value = measure.value(&results.runs[*at], totals, results.chip.page_bytes);
                json!(value.map(|v| format!("{v:.5e}").parse::<f64>().unwrap_or(v)))
            };
            columns.insert(measure.heading().to_string(), runs.iter().map(value).collect());
        }
        let first = sets.first();
        Columns {
            schema: first.map_or(0, |r| r.schema),
            nandex_version: first.map_or("", |r| r.nandex_version),
            commit: first.and_then(|r| r.commit.clone()),
            command: first.map_or_else(String::new, |r| r.command.clone()),
            columns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandex_lab::sample;

    #[test]
    fn every_run_has_a_place_in_every_column() {
        let results = sample::results();
        let runs = results.runs.len();
        let saved = serde_json::to_value(Columns::of(&[results.clone(), results])).unwrap();
        let columns = saved["columns"].as_object().unwrap();
        assert!(columns.len() > 12 && columns.values().all(|c| c.as_array().unwrap().len() == 2 * runs));
        assert_eq!(columns["index"][0], "mu-tree");
        assert!(columns["mean"][0].as_f64().unwrap() > 0.0 && columns["error"][0].is_null());
    }
}

//! Lists of the names that users can choose from.

use crate::errors::of_lab;
use nandex::nand::catalogue;
use nandex_lab::chip::facts;
use nandex_lab::names::OptionInfo;
use nandex_lab::registry::{INDEXES, STORES};
use nandex_lab::workload::WORKLOADS;
use nandex_lab::{LabError, experiment};
use pyo3::prelude::*;
use serde_json::{Value, json};

const LISTS: [&str; 5] = ["indexes", "ftls", "workloads", "chips", "experiments"];

/// A list as JSON: each entry with its name, a summary and its options, or the numbers of a chip.
#[pyfunction]
pub(crate) fn list_of(what: &str) -> PyResult<String> {
    let entries: Vec<Value> = match what {
        "indexes" => INDEXES.iter().map(|e| entry(e.name, e.summary, e.options)).collect(),
        "ftls" => STORES.iter().map(|e| entry(e.name, e.summary, e.options)).collect(),
        "workloads" => WORKLOADS.iter().map(|e| entry(e.name, e.summary, e.options)).collect(),
        "chips" => catalogue::parts().map(|part| json!(facts(part))).collect(),
        "experiments" => {
            experiment::list().iter().map(|e| entry(&e.definition.name, &e.definition.summary, &[])).collect()
        }
        other => return Err(of_lab(LabError::unknown("list", other, LISTS))),
    };
    Ok(Value::from(entries).to_string())
}

fn entry(name: &str, summary: &str, options: &[OptionInfo]) -> Value {
    let option = |o: &OptionInfo| json!({"name": o.name, "default": o.default, "help": o.help});
    json!({"name": name, "summary": summary, "options": options.iter().map(option).collect::<Vec<_>>()})
}

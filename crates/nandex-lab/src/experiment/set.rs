//! Values of an experiment set from outside, `--set KEY=VALUE`.
//!
//! A key is the way to a value with dots between its parts; an element of a list is named by its `name`, or
//! by its place counted from 0: `chip`, `variant.small.blocks`, `input.uniform.options.records`. A single
//! word that is no key of an experiment is an option: the workloads that know it take it, and else the
//! indexes of every variant do.

use super::definition::Definition;
use crate::LabError;
use crate::workload;
use serde::Deserialize;
use toml::{Table, Value};

pub(crate) const KEYS: [&str; 19] = [
    "name",
    "paper",
    "shows",
    "summary",
    "chip",
    "key_bytes",
    "value_bytes",
    "seeds",
    "baseline",
    "compared",
    "trimmed",
    "indexes",
    "contender",
    "run",
    "sum",
    "input",
    "variant",
    "derived",
    "access",
];

/// Keys that cannot be set by one word, because they are tables or lists of tables.
const MORE_KEYS: [&str; 3] = ["plot", "replay", "smoke"];

/// Reads the definition in `text`, which is valid as it stands, with some values replaced by `sets`.
pub(super) fn apply(text: &str, sets: &[(String, String)]) -> Result<Definition, LabError> {
    let mut table: Table = toml::from_str(text).map_err(|error| refused("", "", error.message()))?;
    for (key, value) in sets {
        table = with(table, key, value)?;
    }
    Definition::deserialize(table).map_err(|error| refused("", "", error.message()))
}

fn refused(key: &str, value: &str, reason: &str) -> LabError {
    LabError::bad_option(&format!("--set {key}"), value, format!("cannot be set: {}", reason.trim()))
}

/// Sets one value in a table: as TOML reads it, or as text if only that fits.
fn with(table: Table, key: &str, value: &str) -> Result<Table, LabError> {
    let text = Value::String(value.to_string());
    let typed = toml::from_str::<Table>(&format!("value = {value}")).ok();
    let typed = typed.and_then(|mut read| if read.len() == 1 { read.remove("value") } else { None });
    let mut first_error = None;
    for candidate in typed.into_iter().chain([text]) {
        let mut changed = table.clone();
        set(&mut changed, key, candidate).map_err(|reason| refused(key, value, &reason))?;
        match Definition::deserialize(changed.clone()) {
            Ok(_) => return Ok(changed),
            Err(error) => {
                let _ = first_error.get_or_insert(error);
            }
        }
    }
    let reason = first_error.map_or_else(String::new, |error| error.message().to_string());
    Err(refused(key, value, &reason))
}

fn set(table: &mut Table, key: &str, value: Value) -> Result<(), String> {
    let is_key = |word: &str| KEYS.contains(&word) || MORE_KEYS.contains(&word);
    match key.split_once('.') {
        None if is_key(key) => {
            table.insert(key.to_string(), value);
            Ok(())
        }
        None => set_option(table, key, &value),
        Some((first, _)) if !is_key(first) => {
            let known = KEYS.iter().chain(&MORE_KEYS).copied();
            Err(LabError::unknown("key", first, known).to_string())
        }
        Some((first, rest)) => {
            let place = table.entry(first.to_string()).or_insert_with(|| Value::Table(Table::new()));
            descend(place, first, rest, value)
        }
    }
}

/// Sets a value inside a table or a list of tables.
fn descend(place: &mut Value, of: &str, rest: &str, value: Value) -> Result<(), String> {
    let (step, rest) = rest.split_once('.').map_or((rest, None), |(step, rest)| (step, Some(rest)));
    match (place, rest) {
        (Value::Table(table), None) => {
            table.insert(step.to_string(), value);
            Ok(())
        }
        (Value::Table(table), Some(rest)) => {
            let next = table.entry(step.to_string()).or_insert_with(|| Value::Table(Table::new()));
            descend(next, step, rest, value)
        }
        (Value::Array(list), rest) => {
            let element = element(list, of, step)?;
            match rest {
                Some(rest) => descend(element, step, rest, value),
                None => {
                    *element = value;
                    Ok(())
                }
            }
        }
        (other, _) => Err(format!("{of} is a {}, and has no {step}", other.type_str())),
    }
}

/// The element of a list by its name or index.
fn element<'a>(list: &'a mut [Value], of: &str, step: &str) -> Result<&'a mut Value, String> {
    let name = |value: &Value| value.get("name").and_then(Value::as_str).map(String::from);
    let names: Vec<String> = list.iter().filter_map(name).collect();
    let by_name = list.iter().position(|value| name(value).as_deref() == Some(step));
    let place = by_name.or_else(|| step.parse().ok());
    let unknown = || format!("there is no {of} '{step}'; known: {}", names.join(", "));
    place.and_then(|place| list.get_mut(place)).ok_or_else(unknown)
}

/// Gives an option to all workloads that know it, or else to all variants.
fn set_option(table: &mut Table, name: &str, value: &Value) -> Result<(), String> {
    let mut taken = false;
    for input in elements(table, "input") {
        let workload = input.get("workload").and_then(Value::as_str);
        let knows = workload.and_then(|name| workload::workload(name).ok());
        if knows.is_some_and(|entry| entry.options.iter().any(|option| option.name == name)) {
            put_option(input, name, value)?;
            taken = true;
        }
    }
    if taken {
        return Ok(());
    }
    if !table.contains_key("variant") {
        let all: Table =
            [("name".to_string(), Value::String(super::file::ONLY_VARIANT.into()))].into_iter().collect();
        table.insert("variant".to_string(), Value::Array(vec![Value::Table(all)]));
    }
    elements(table, "variant").try_for_each(|variant| put_option(variant, name, value))
}

fn elements<'a>(table: &'a mut Table, key: &str) -> impl Iterator<Item = &'a mut Table> {
    let list = table.get_mut(key).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_table_mut)
}

fn put_option(of: &mut Table, name: &str, value: &Value) -> Result<(), String> {
    let options = of.entry("options".to_string()).or_insert_with(|| Value::Table(Table::new()));
    let options = options.as_table_mut().ok_or("options is no table")?;
    options.insert(name.to_string(), value.clone());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
        chip = 'mlc-64m'
        indexes = ['mu', 'bplus']
        [[input]]
        name = 'u'
        workload = 'uniform'
        [[variant]]
        name = 'a'
        [[variant]]
        name = 'b'
        ";

    fn set_all(sets: &[(&str, &str)]) -> Result<Definition, String> {
        let sets: Vec<_> = sets.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        apply(TEXT, &sets).map_err(|error| error.to_string())
    }

    #[test]
    fn values_are_set_where_the_key_points() {
        let sets = [
            ("chip", "w25n01gv"),
            ("seeds", "7"),
            ("variant.b.blocks", "90"),
            ("variant.0.key_bytes", "8"),
            ("input.u.options.theta", "0.5"),
            ("indexes", "['mu']"),
            ("run.sync_at_end", "true"),
        ];
        let definition = set_all(&sets).unwrap();
        assert_eq!((definition.chip.as_str(), definition.seeds), ("w25n01gv", 7));
        assert_eq!((definition.variants[1].blocks, definition.variants[0].key_bytes), (Some(90), Some(8)));
        assert_eq!(definition.inputs[0].options["theta"], "0.5");
        assert_eq!((definition.indexes.len(), definition.run.sync_at_end), (1, true));
    }

    #[test]
    fn a_word_that_is_no_key_is_an_option() {
        let definition = set_all(&[("records", "900"), ("cache", "cflru")]).unwrap();
        assert_eq!(definition.inputs[0].options["records"], "900");
        assert!(definition.variants.iter().all(|variant| variant.options["cache"] == "cflru"));
    }

    #[test]
    fn what_cannot_be_set_is_refused_with_its_key() {
        let refused = |key, value| set_all(&[(key, value)]).unwrap_err();
        assert!(refused("seeds", "many").contains("option --set seeds: 'many' cannot be set: invalid type"));
        assert!(refused("variant.c.blocks", "9").contains("there is no variant 'c'; known: a, b"));
        assert!(refused("variant.a.block", "9").contains("unknown field `block`"));
        assert!(refused("varient.a.blocks", "9").contains("did you mean 'variant'?"));
        assert!(refused("chip.name", "x").contains("chip is a string"));
    }

    #[test]
    fn every_key_of_an_experiment_is_known() {
        let error = toml::from_str::<Definition>("chip = 'x'\nno_such_key = 1").unwrap_err();
        let listed: std::collections::BTreeSet<&str> =
            error.message().split('`').skip(3).step_by(2).collect();
        assert_eq!(listed, KEYS.iter().chain(&MORE_KEYS).copied().collect());
    }
}

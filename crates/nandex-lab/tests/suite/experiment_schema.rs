//! `docs/experiment.schema.json` agrees with the parser of experiments: the same keys, words, and required
//! keys.

#![allow(clippy::unwrap_used)]

use nandex_lab::experiment::definition::parse_definition;
use serde_json::Value;
use std::collections::BTreeSet;

fn schema() -> Value {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/experiment.schema.json");
    serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}

/// A place in an experiment file: its definition in the schema, the lines before it, and lines that complete
/// it.
type Place = (&'static str, &'static str, &'static [&'static str]);

const PLACES: [Place; 14] = [
    ("", "", &["chip = 'x'"]),
    ("contender", "chip = 'x'\n[[contender]]\n", &["name = 'x'", "index = 'x'"]),
    ("input", "chip = 'x'\n[[input]]\n", &["name = 'x'"]),
    ("trace", "chip = 'x'\n[[input]]\nname = 'x'\n[input.trace]\n", &["file = 'x'"]),
    ("run", "chip = 'x'\n[run]\n", &[]),
    (
        "weights",
        "chip = 'x'\n[run.weights]\n",
        &["read_ns = 1", "program_ns = 1", "erase_ns = 1", "reference_ns = 1"],
    ),
    (
        "pattern_prices",
        "chip = 'x'\n[run.pattern_prices]\n",
        &["next_program_ns = 1", "program_ns = 1", "read_ns = 1", "erase_ns = 1"],
    ),
    ("sum", "chip = 'x'\n[[sum]]\n", &["name = 'x'", "phases = []"]),
    ("variant", "chip = 'x'\n[[variant]]\n", &["name = 'x'"]),
    (
        "access",
        "chip = 'x'\n[access]\n",
        &["profiles = []", "media = []", "operations = 1", "smoke_operations = 1"],
    ),
    (
        "plot",
        "chip = 'x'\n[[plot]]\n",
        &["title = 'x'", "kind = 'bars'", "label = 'x'", "x = 'x'", "series = 'x'"],
    ),
    ("page_trace", "chip = 'x'\n[replay]\ndevices = []\n[[replay.traces]]\n", &["name = 'x'", "file = 'x'"]),
    ("device", "chip = 'x'\n[replay]\ntraces = []\n[[replay.devices]]\n", &["name = 'x'", "ftl = 'x'"]),
    ("smoke", "chip = 'x'\n[smoke]\n", &[]),
];

fn definition<'a>(schema: &'a Value, name: &str) -> &'a Value {
    if name.is_empty() { schema } else { &schema["$defs"][name] }
}

/// The names that an error of the parser lists as known.
fn listed(error: &str) -> BTreeSet<String> {
    let (_, known) = error.split_once("expected ").unwrap_or_else(|| panic!("{error}"));
    known.split('`').skip(1).step_by(2).map(String::from).collect()
}

fn keys_of(object: &Value) -> BTreeSet<String> {
    object["properties"].as_object().unwrap().keys().cloned().collect()
}

#[test]
fn the_schema_has_the_keys_that_the_parser_knows() {
    let schema = schema();
    for (name, before, enough) in PLACES {
        assert_eq!(parse_definition(&format!("{before}{}", enough.join("\n"))).err(), None, "{name}");
        let error = parse_definition(&format!("{before}no_such_key = 1")).unwrap_err();
        assert_eq!(listed(&error), keys_of(definition(&schema, name)), "{name}");
    }
    // A key of which one must be given.
    let error = parse_definition("chip = 'x'\n[[variant]]\nname = 'x'\nmemory = { kib = 1 }").unwrap_err();
    assert_eq!(listed(&error), keys_of(&schema["$defs"]["memory"]));
}

#[test]
fn the_schema_requires_what_the_parser_requires() {
    let schema = schema();
    for (name, before, enough) in PLACES {
        let required = definition(&schema, name)["required"].as_array().cloned().unwrap_or_default();
        assert_eq!(required.len(), enough.len(), "{name}");
        for left_out in 0..enough.len() {
            let rest: Vec<&str> =
                enough.iter().enumerate().filter(|(i, _)| *i != left_out).map(|(_, l)| *l).collect();
            let error = parse_definition(&format!("{before}{}", rest.join("\n"))).unwrap_err();
            let key = enough[left_out].split(' ').next().unwrap();
            assert!(error.contains(&format!("missing field `{key}`")), "{name}: {error}");
            assert!(required.iter().any(|known| known == key), "{name}: {key}");
        }
    }
}

#[test]
fn the_schema_has_the_words_that_the_parser_knows() {
    let schema = schema();
    let words = [
        ("/$defs/durable", "chip = 'x'\n[[variant]]\nname = 'x'\ndurable = 'no'"),
        ("/$defs/input/properties/trees", "chip = 'x'\n[[input]]\nname = 'x'\ntrees = 'no'"),
        ("/$defs/plot/properties/kind", "chip = 'x'\n[[plot]]\ntitle = 'x'\nkind = 'no'"),
        ("/$defs/pattern_prices/properties/follows", "chip = 'x'\n[run.pattern_prices]\nfollows = 'no'"),
    ];
    for (place, text) in words {
        let known = schema.pointer(place).unwrap()["enum"].as_array().unwrap().iter();
        let known: BTreeSet<String> = known.map(|word| word.as_str().unwrap().to_string()).collect();
        assert_eq!(listed(&parse_definition(text).unwrap_err()), known, "{place}");
    }
}

#[test]
fn every_experiment_of_a_paper_fits_the_schema() {
    let schema = schema();
    for folder in nandex_experiments::FOLDERS {
        let value: Value = toml::from_str(folder.definition).unwrap();
        fits(&schema, &schema, &value, &value["name"].to_string());
    }
}

#[test]
fn what_does_not_fit_is_seen() {
    let schema = schema();
    let bad = [
        "chip = 1",
        "seeds = 2",
        "chip = 'x'\nblock = 1",
        "chip = 'x'\nseeds = 0",
        "chip = 'x'\nindexes = [1]",
    ];
    for text in bad {
        let value: Value = toml::from_str(text).unwrap();
        assert!(std::panic::catch_unwind(|| fits(&schema, &schema, &value, "")).is_err(), "{text}");
    }
}

/// Whether a value fits: as much of JSON Schema as ours uses.
fn fits(root: &Value, schema: &Value, value: &Value, at: &str) {
    if let Some(to) = schema["$ref"].as_str() {
        return fits(root, root.pointer(to.trim_start_matches('#')).unwrap(), value, at);
    }
    if let Some(words) = schema["enum"].as_array() {
        assert!(words.contains(value), "{at}: {value}");
    }
    let is = |kind: &str| match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        other => panic!("{other}"),
    };
    match &schema["type"] {
        Value::String(kind) => assert!(is(kind), "{at}: {value} is no {kind}"),
        Value::Array(kinds) => assert!(kinds.iter().any(|kind| is(kind.as_str().unwrap())), "{at}: {value}"),
        _ => {}
    }
    if let (Some(least), Some(number)) = (schema["minimum"].as_f64(), value.as_f64()) {
        assert!(number >= least, "{at}: {value}");
    }
    for required in schema["required"].as_array().into_iter().flatten() {
        assert!(value.get(required.as_str().unwrap()).is_some(), "{at}: no {required}");
    }
    for (key, inner) in value.as_object().into_iter().flatten() {
        let known = schema["properties"].get(key).unwrap_or(&schema["additionalProperties"]);
        assert!(known.is_object(), "{at}: {key}");
        fits(root, known, inner, &format!("{at}.{key}"));
    }
    for (place, inner) in value.as_array().into_iter().flatten().enumerate() {
        fits(root, &schema["items"], inner, &format!("{at}[{place}]"));
    }
}

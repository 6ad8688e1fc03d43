//! Stores of long values and of readings from the command line.

#![allow(clippy::unwrap_used)]

use serde_json::Value;
use std::process::{Command, Output};

const NAMES: [&str; 7] = [
    "variable:plow",
    "variable:mu",
    "variable:bplus",
    "values:plow",
    "values:mu",
    "values:bplus",
    "microhash",
];

fn nandex(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nandex")).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The JSON that the program writes, with this exit code.
fn json(args: &[&str], code: i32) -> Value {
    let output = nandex(&[args, &["--json", "-"]].concat());
    assert_eq!(output.status.code(), Some(code), "{args:?}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn list(args: &[&str]) -> Vec<Value> {
    let output = nandex(&[&["list"], args, &["--json"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice::<Value>(&output.stdout).unwrap().as_array().unwrap().clone()
}

#[test]
fn they_are_listed_with_options_and_ground() {
    let table = text(&nandex(&["list", "indexes"]).stdout);
    let (_, below) = table.split_once("Stores of long values and of readings").unwrap();
    let all = list(&["indexes"]);
    for name in NAMES {
        assert!(below.lines().any(|line| line.starts_with(name)), "{below}");
        let entry = all.iter().find(|entry| entry["name"] == name).unwrap();
        assert!(entry["holds"].is_string() && entry["on"].as_str().unwrap().contains(['c', 'F']), "{entry}");
        let own = if name == "microhash" { "buckets" } else { "lengths" };
        assert!(entry["options"].as_array().unwrap().iter().any(|option| option["name"] == own), "{entry}");
    }
    assert!(below.contains("holds values in a log; on an FTL (ftl)"), "{below}");
    assert!(all.iter().filter(|entry| entry["holds"].is_null()).count() == all.len() - NAMES.len());
    let workloads = list(&["workloads"]);
    for name in ["long-values", "readings"] {
        assert!(workloads.iter().any(|entry| entry["name"] == name), "{name}");
    }
}

#[test]
fn a_power_cut_leaves_of_each_what_was_promised() {
    for name in NAMES {
        let few = ["crash", "--index", name, "--ops", "150", "--cuts", "150", "--keys", "60"];
        let report = json(&few, 0);
        assert_eq!(
            (&report["name"], &report["first_failure"]),
            (&Value::from(name), &Value::Null),
            "{report}"
        );
        let class = if name == "microhash" { "every sync" } else { "every operation" };
        assert_eq!(report["durability"], class, "{name}");
    }
    let on_ftl = ["crash", "--index", "values:mu", "--ops", "60", "--cuts", "60", "--keys", "40"];
    assert_eq!(json(&[&on_ftl[..], &["--set", "beneath=fast"]].concat(), 0)["first_failure"], Value::Null);
    let output = nandex(&["crash", "--index", "microhash", "--durability", "every-operation"]);
    assert!(text(&output.stderr).contains("a log of readings is durable with its syncs"));
}

#[test]
fn lives_of_them_are_lived_by_their_names() {
    let report = json(&["torture", "--index", "values:mu,microhash", "--lives", "1"], 0);
    let names: Vec<&Value> = report["rows"].as_array().unwrap().iter().map(|row| &row["victim"]).collect();
    assert_eq!(names, ["values:mu", "microhash"]);
    assert!(nandex(&["torture", "--replay", "values:mu@page-map:55001"]).status.success());
    let error = text(&nandex(&["torture", "--index", "values:muh"]).stderr);
    assert!(error.contains("there is no index 'values:muh'; did you mean 'values:mu'?"), "{error}");
}

fn runs(results: &Value) -> &Vec<Value> {
    results["runs"].as_array().unwrap()
}

#[test]
fn they_are_compared_over_values_of_many_lengths() {
    let few =
        ["compare", "--workload", "long-values", "--ops", "200", "--set", "records=200", "--ram", "128KiB"];
    let results = json(
        &[&few[..], &["--index", "values:plow,variable:plow,values:mu,variable:bplus,plow"]].concat(),
        0,
    );
    for run in &runs(&results)[..4] {
        assert_eq!(run["error"], Value::Null, "{run}");
        let of_run = &run["phases"][1];
        assert!(
            of_run["write_amplification"].as_f64().unwrap() > 0.5 && run["ram_needed_bytes"].is_u64(),
            "{run}"
        );
    }
    let error = runs(&results)[4]["error"].as_str().unwrap();
    assert_eq!(error, "plow holds records of one size, and the workload has values of 20 to 2000 bytes");
    // What is written is counted: values of one length and the same in the mean differ by it.
    let all = json(&[&few[..], &["--index", "all", "--set", "lengths=100..100"]].concat(), 0);
    assert_eq!(runs(&all).len(), 6);
    let bad = nandex(&[&few[..], &["--index", "values:mu", "--set", "lengths=9..2"]].concat());
    assert!(text(&bad.stderr).contains("is not LEAST..MOST, such as 20..2000"), "{}", text(&bad.stderr));
}

#[test]
fn a_log_of_readings_is_compared_with_ordered_indexes() {
    let few = ["compare", "--workload", "readings", "--ops", "100", "--set", "stretches=20"];
    let small = [&few[..], &["--set", "records=3000", "--index", "microhash,sbits,plow,bplus"]].concat();
    let results = json(&small, 0);
    for run in runs(&results) {
        assert_eq!(run["error"], Value::Null, "{}", run["index"]);
        assert_eq!(run["phases"].as_array().unwrap().len(), 3);
        // Whoever has nothing that waits promises more.
        let class = if run["index"] == "bplus" { "every operation" } else { "every sync" };
        assert_eq!(run["durability"], class, "{}", run["index"]);
    }
    let refusal = |more: &[&str]| {
        let results = json(&[&["compare", "--index", "microhash"], more].concat(), 1);
        runs(&results)[0]["error"].as_str().unwrap().to_string()
    };
    let sizes = ["--set", "records=200", "--ops", "50"];
    let error = refusal(&[&["--workload", "uniform"], &sizes[..]].concat());
    assert!(error.contains("insertions of ascending keys only"), "{error}");
    let error = refusal(&[&["--workload", "ascending"], &sizes[..]].concat());
    assert!(error.contains("a log of readings is durable with its syncs"), "{error}");
    let error = refusal(&[&["--workload", "readings", "--record", "8/8"], &sizes[..]].concat());
    assert!(
        error.contains("microhash holds readings, a time and a value of 4 bytes each: --record 4/4"),
        "{error}"
    );
}

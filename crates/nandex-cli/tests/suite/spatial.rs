//! Spatial indexes from the command line.

#![allow(clippy::unwrap_used)]

use std::process::{Command, Output};

fn nandex(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nandex")).args(args).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn refused(args: &[&str]) -> String {
    let output = nandex(args);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
    stderr(&output)
}

const SMALL: [&str; 8] =
    ["compare", "--spatial", "r-tree,r-star,hilbert", "--ops", "40", "--set", "changes=50", "--set"];

#[test]
fn spatial_indexes_are_compared_with_table_files_and_a_map() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let (csv, json, report) = (at("r.csv"), at("r.json"), at("r.html"));
    let files = ["load=bulk", "--places", "rivers", "--csv", &csv, "--json", &json, "--report", &report];
    let output = nandex(&[&SMALL[..], &files].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let table = stdout(&output);
    for word in ["Durability: every operation", "window", "nearest", "hilbert", "workload rivers"] {
        assert!(table.contains(word), "{word}: {table}");
    }
    let rows = std::fs::read_to_string(&csv).unwrap();
    assert_eq!(rows.lines().filter(|row| row.contains(",window,true,window,40,")).count(), 3, "{rows}");
    let results: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!(results["workload"]["options"]["nearest"], "10");
    let page = std::fs::read_to_string(&report).unwrap();
    assert_eq!(page.matches("<svg class=\"map\"").count(), 3);
    assert!(page.contains("class=\"leaf read\""));
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let error = refused(&["compare", "--spatial", "r-three"]);
    assert!(error.contains("there is no spatial index 'r-three'; did you mean 'r-tree'?"), "{error}");
    let error = refused(&["compare", "--window", "1%"]);
    assert!(error.contains("--spatial"), "{error}");
    let error = refused(&["compare", "--spatial", "all", "--window", "0.5"]);
    assert!(error.contains("--window") && error.contains("give a percentage, such as 0.01%"), "{error}");
    let error = refused(&["compare", "--spatial", "all", "--index", "mu"]);
    assert!(error.contains("cannot be used with"), "{error}");
    let error = refused(&["compare", "--spatial", "all", "--places", "placs"]);
    assert!(error.contains("--places: there is no data 'placs'; did you mean 'places'?"), "{error}");
    let error = refused(&["compare", "--spatial", "r-tree", "--set", "domain=1"]);
    assert!(error.contains("--set: there is no option 'domain'"), "{error}");
    let error = refused(&["places", "--near", "north"]);
    assert!(error.contains("'north' is not two numbers"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cities.csv");
    std::fs::write(&file, "id,lon,lat\n1,13.4,52.5\n2,east,48\n").unwrap();
    let error = refused(&["places", file.to_str().unwrap()]);
    assert!(error.contains("cities.csv: line 3: 'east' is no number"), "{error}");
    assert!(refused(&["crash", "--spatial", "r-tree", "--index", "mu"]).contains("cannot be used with"));
}

#[test]
fn places_answer_a_window_and_a_search_for_the_nearest() {
    let output = nandex(&["places", "--near", "13.4,52.5", "--window=-10,35,30,60", "--count", "3"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.starts_with("8168 entries of places in the r-tree on mlc-64m: "), "{text}");
    let rows = text.lines().filter(|line| line.trim_start().starts_with(|c: char| c.is_ascii_digit()));
    // The line about the load, and three rows of each answer.
    assert_eq!(rows.count(), 7, "{text}");
    assert!(text.contains("nearest to 13.4, 52.5: ") && text.contains(" pages read, "), "{text}");
    assert!(text.contains("window -10, 35 to 30, 60: ") && text.contains(" more"), "{text}");
}

#[test]
fn geojson_is_read_too() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cities.geojson");
    let feature = |id: u32, x: f64, y: f64| {
        format!(
            r#"{{"type":"Feature","id":{id},"properties":{{}},"geometry":{{"type":"Point","coordinates":[{x},{y}]}}}}"#
        )
    };
    let features = [feature(7, 13.4, 52.5), feature(8, 2.35, 48.85)].join(",");
    std::fs::write(&file, format!(r#"{{"type":"FeatureCollection","features":[{features}]}}"#)).unwrap();
    let output = nandex(&["places", file.to_str().unwrap(), "--near", "2,49", "--count", "1"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(
        stdout(&output).lines().any(|line| line.trim_start().starts_with("8  2.35, 48.85")),
        "{}",
        stdout(&output)
    );
}

#[test]
fn power_is_cut_under_a_spatial_index() {
    let output = nandex(&["crash", "--spatial", "r-tree", "--ops", "60", "--keys", "80", "--cuts", "100"]);
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
    assert!(stdout(&output).contains("r-tree"), "{}", stdout(&output));
}

#[test]
fn indexes_and_data_are_listed() {
    let output = stdout(&nandex(&["list", "spatial"]));
    for word in ["r-tree", "r-star", "mr-tree", "hilbert", "split=quadratic", "ftl=page-map"] {
        assert!(output.contains(word), "{word}: {output}");
    }
    let output = stdout(&nandex(&["list", "data"]));
    assert!(output.contains("places") && output.contains("load=insert"), "{output}");
}

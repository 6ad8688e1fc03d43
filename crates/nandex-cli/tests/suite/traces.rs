//! Traces captured from real programs and imported from logs, through the program to a comparison.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn nandex(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nandex")).current_dir(folder).args(args).output().unwrap()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn has(program: &str) -> bool {
    let asked = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    asked.is_ok_and(|status| status.success())
}

/// The operations that mu does of a trace, by kind.
fn compared(folder: &Path, trace: &str) -> serde_json::Value {
    let args = ["compare", "--index", "mu", "--trace", trace, "--strict", "--json", "-"];
    let output = nandex(folder, &args);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let results: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let run = &results["runs"][0];
    assert_eq!(run["error"], serde_json::Value::Null);
    let phase = run["phases"].as_array().unwrap().last().unwrap().clone();
    serde_json::json!({"kinds": phase["kinds"], "records": run["records"]})
}

fn count(found: &serde_json::Value, kind: &str) -> u64 {
    found["kinds"][kind]["operations"].as_u64().unwrap_or(0)
}

const MAKEFILE: &str = "all: a.out b.out\n%.out: %.in\n\tcp $< $@.new\n\tmv $@.new $@\n";

#[test]
#[allow(clippy::print_stdout, reason = "a test that was not run says so")]
fn tar_and_make_are_captured_and_compared() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    if !has("strace") {
        let output = nandex(here, &["capture", "--out", "t.txt", "--", "true"]);
        assert_eq!(output.status.code(), Some(2));
        assert!(said(&output).contains("apt install strace"), "{}", said(&output));
        println!("skipped: strace is not installed");
        return;
    }
    let packed = here.join("packed/src");
    fs::create_dir_all(packed.join("sub")).unwrap();
    for number in 0..40 {
        fs::write(packed.join(format!("sub/{number}.in")), "x").unwrap();
    }
    let tar = Command::new("tar").current_dir(here.join("packed")).args(["cf", "../src.tar", "src"]).status();
    assert!(tar.unwrap().success());
    fs::create_dir(here.join("tree")).unwrap();
    let args = ["capture", "--out", "tar.txt", "--tree", "tree", "--", "tar", "xf", "src.tar", "-C", "tree"];
    let output = nandex(here, &args);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let found = compared(here, "tar.txt");
    assert_eq!((count(&found, "insert"), found["records"].as_u64()), (42, Some(42)), "{found}");
    assert!(count(&found, "update") >= 40, "{found}");
    if !has("make") {
        println!("skipped: make is not installed");
        return;
    }
    fs::write(here.join("tree/Makefile"), MAKEFILE).unwrap();
    fs::write(here.join("tree/a.in"), "a").unwrap();
    fs::write(here.join("tree/b.in"), "b").unwrap();
    let args = ["capture", "--out", "make.ops.zst", "--tree", "tree", "--hash-keys", "7", "--"];
    let output = nandex(here, &[&args[..], &["make", "-s", "-C", "tree"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(here.join("make.init.ops.zst").exists());
    let found = compared(here, "make.ops.zst");
    // Two outputs, each made under another name; three inputs, two directories and what tar left were there.
    assert_eq!((count(&found, "insert"), count(&found, "remove")), (4, 2), "{found}");
    assert_eq!(found["records"].as_u64(), Some(42 + 3 + 2), "{found}");
    assert!(count(&found, "get") > 10, "{found}");
    let output = nandex(here, &["capture", "--out", "f.txt", "--", "false"]);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_log_is_imported_looked_at_and_compared() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let line = |number: u64| {
        format!("{},user{},{}\n", if number.is_multiple_of(3) { "put" } else { "get" }, number % 50, 1)
    };
    fs::write(here.join("log.csv"), format!("op,key,count\n{}", (0..600).map(line).collect::<String>()))
        .unwrap();
    let output = nandex(here, &["import", "log.csv", "--out", "log.txt.zst"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(
        said(&output).contains("log.txt.zst: 600 operations on 50 keys in one index"),
        "{}",
        said(&output)
    );
    assert_eq!(count(&compared(here, "log.txt.zst"), "get"), 400);
    let args = ["trace", "stats", "log.txt.zst", "--json", "-", "--report", "log.html"];
    let output = nandex(here, &args);
    let stats: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&stats["distinct_keys"], &stats["contradictions"]), (&50.into(), &0.into()));
    assert!(fs::read_to_string(here.join("log.html")).unwrap().contains("</svg>"));
    let output = nandex(here, &["trace", "stats", "kernel_compile", "--ops", "5000"]);
    assert!(said(&output).contains("5000 operations on "), "{}", said(&output));
    for (args, part) in [
        (&["import", "log.csv", "--out", "x"][..], "names no file such as NAME.txt"),
        (&["import", "none.csv", "--out", "x.txt"], "none.csv: "),
        (&["import", "log.csv", "--out", "x.txt", "--format", "mysq"], "did you mean 'mysql'?"),
        (&["import", "log.csv", "--out", "x.txt", "--format", "mysql"], "no operation on a key"),
    ] {
        let output = nandex(here, args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", said(&output));
        assert!(said(&output).contains(part), "{args:?}: {}", said(&output));
    }
}

#[test]
fn cells_come_in_json_and_go_in_json() {
    let folder = tempfile::tempdir().unwrap();
    let request =
        "{\"index\": \"mu\", \"workload\": \"uniform\", \"options\": {\"records\": 200, \"operations\": 50}}";
    fs::write(folder.path().join("cells"), format!("{request}\n\n{}\n", request.replace("mu", "bplus")))
        .unwrap();
    let output = nandex(folder.path(), &["cells", "cells"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let outcomes: Vec<serde_json::Value> =
        said(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |at: usize| {
        (outcomes[at]["request"]["index"].as_str(), outcomes[at]["figures"]["operations"].as_u64())
    };
    assert_eq!((of(0), of(1)), ((Some("mu"), Some(50)), (Some("bplus"), Some(50))));
    fs::write(folder.path().join("cells"), "{\"index\": \"mu\", \"sed\": 1}\n").unwrap();
    let output = nandex(folder.path(), &["cells", "cells"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        said(&output).contains("cells: line 1: ") && said(&output).contains("unknown field `sed`"),
        "{}",
        said(&output)
    );
}

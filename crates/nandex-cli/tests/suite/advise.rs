//! `nandex advise`: the answer as text, as a configuration and as JSON.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn nandex(folder: &Path, args: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_nandex"));
    program.current_dir(folder).args(args).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_answer_is_told_and_its_configuration_runs_again() {
    let folder = tempfile::tempdir().unwrap();
    let small = ["advise", "--workload", "ascending", "--set", "records=200", "--ops", "300", "--seeds", "1"];
    let output = nandex(folder.path(), &[&small[..], &["--json", "answer.json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}{}", text(&output.stdout), text(&output.stderr));
    assert!(text(&output.stdout).contains("Take sbits:"), "{}", text(&output.stdout));
    let json = fs::read_to_string(folder.path().join("answer.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["schema"], &json["answer"]["index"]), (&1.into(), &"sbits".into()));
    let again = nandex(folder.path(), &["sweep", "nandex.toml", "--store", "cells", "--out", "-"]);
    assert_eq!(again.status.code(), Some(0), "{}{}", text(&again.stdout), text(&again.stderr));
    assert!(text(&again.stdout).contains("sbits"), "{}", text(&again.stdout));
}

#[test]
fn a_file_of_somebody_else_is_not_written_over() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("nandex.toml"), "mine = true\n").unwrap();
    let output = nandex(folder.path(), &["advise"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("not of nandex advise"), "{}", text(&output.stderr));
    let output = nandex(folder.path(), &["advise", "--chip", "mlc64m"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("did you mean 'mlc-64m'?"), "{}", text(&output.stderr));
    assert_eq!(fs::read_to_string(folder.path().join("nandex.toml")).unwrap(), "mine = true\n");
}

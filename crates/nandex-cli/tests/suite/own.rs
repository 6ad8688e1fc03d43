//! Experiments and grids of one's own through the program.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const EXPERIMENT: &str = "chip = \"mlc-64m\"
indexes = [\"mu\", \"bplus\"]
[[input]]
name = \"drawn\"
workload = \"uniform\"
options = { records = 600, operations = 200 }
[[variant]]
name = \"small\"
blocks = 64
";

fn nandex(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nandex")).current_dir(folder).args(args).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn an_experiment_of_ones_own_runs_from_its_file() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("mine.toml"), EXPERIMENT).unwrap();
    let args = ["run", "mine.toml", "--seeds", "3", "--set", "variant.small.key_bytes=8", "--out", "out"];
    let output = nandex(folder.path(), &args);
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
    let text = stdout(&output);
    assert!(text.contains("drawn/small/mu") && text.contains("seed by seed, with 95 % intervals"), "{text}");
    assert!(text.contains("again: nandex run mine.toml --set variant.small.key_bytes=8 --seeds 3"), "{text}");
    let pairs = fs::read_to_string(folder.path().join("out/pairs.csv")).unwrap();
    assert!(
        pairs.lines().nth(1).unwrap().starts_with("mine,drawn,small,bplus,mu,run.flash_time_ms_per_op,3,"),
        "{pairs}"
    );

    let output = nandex(folder.path(), &["run", "mine.toml", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["definition"]["name"], "mine");
    // In the repository the commit is known.
    assert_eq!(
        json["commit"].as_str().map(|commit| commit.len() >= 12),
        option_env!("NANDEX_COMMIT").map(|_| true)
    );
    let output = nandex(folder.path(), &["run", "mine.toml", "--format", "csv"]);
    let table = stdout(&output);
    assert!(
        table.starts_with("experiment,cell,input,variant,contender,index,figure,runs,mean,min,max,ci95\n"),
        "{table}"
    );
}

#[test]
fn a_mistake_in_an_experiment_is_a_request_that_makes_no_sense() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("mine.toml"), EXPERIMENT.replace("blocks = 64", "block = 64")).unwrap();
    let output = nandex(folder.path(), &["run", "mine.toml"]);
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert!(said.starts_with("nandex: mine.toml: line 9: block = 64: unknown field `block`"), "{said}");
    for (args, part) in [
        (&["run", "mine.toml", "--set", "chip"][..], "give NAME=VALUE"),
        (&["run", "mu-table5", "--set", "chip=mlc-65m"], "did you mean 'mlc-64m'?"),
        (&["run", "no/such.toml"], "no/such.toml: there is no such file"),
        (&["run", "mu-table5", "--format", "xml"], "possible values: table, csv, json, parquet"),
    ] {
        let output = nandex(folder.path(), args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(part), "{args:?}: {}", stderr(&output));
    }
}

/// Parquet is refused before anything is measured if the program cannot write it, and the message tells how
/// to build one that can.
#[test]
fn parquet_is_written_or_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("mine.toml"), EXPERIMENT).unwrap();
    fs::write(folder.path().join("grid.toml"), GRID).unwrap();
    let run = nandex(folder.path(), &["run", "mine.toml", "--format", "parquet"]);
    let sweep = ["sweep", "grid.toml", "--store", "kept", "--out", "table.parquet"];
    let sweep = nandex(folder.path(), &sweep);
    if cfg!(feature = "parquet") {
        let table = fs::read(folder.path().join("table.parquet")).unwrap();
        for bytes in [run.stdout, table] {
            assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"), "{} bytes", bytes.len());
        }
    } else {
        for output in [run, sweep] {
            assert_eq!(output.status.code(), Some(2));
            assert!(stderr(&output).contains("--features parquet"), "{}", stderr(&output));
        }
        assert!(!folder.path().join("kept").exists());
    }
}

const GRID: &str = "index = [\"mu\", \"bplus\"]
workload = \"uniform\"
ram = [\"128KiB\", \"1MiB\"]
seed = { from = 1, to = 2 }
[options]
records = 300
operations = 100
";

#[test]
fn a_sweep_is_kept_cell_by_cell_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("grid.toml"), GRID).unwrap();
    let sweep = |more: &[&str]| {
        let output = nandex(folder.path(), &[&["sweep", "grid.toml", "--store", "kept"], more].concat());
        (output.status.code(), stdout(&output), stderr(&output))
    };
    assert_eq!(
        sweep(&["--dry-run"]),
        (Some(0), "8 cells, 8 of them in this part, 0 of these kept\n".into(), String::new())
    );
    let (code, _, said) = sweep(&["--shard", "1/2"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("4 cells ran, 0 were kept"), "{said}");
    assert_eq!(fs::read_dir(folder.path().join("kept/cells")).unwrap().count(), 4);
    let (code, _, said) = sweep(&[]);
    assert_eq!(code, Some(2));
    assert!(said.contains("holds 4 of the 8 cells already; add --resume"), "{said}");
    let (code, table, said) = sweep(&["--resume", "--out", "-"]);
    assert_eq!((code, table.lines().count()), (Some(0), 9), "{said}");
    assert!(said.contains("4 cells ran, 4 were kept: "), "{said}");
    let (_, again, said) = sweep(&["--resume", "--out", "-"]);
    assert!(said.contains("0 cells ran, 8 were kept: "), "{said}");
    assert_eq!(again, table);
}

#[test]
fn a_grid_that_makes_no_sense_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (grid, part) in [
        (GRID.replace("ram", "rma"), "grid.toml: line 3: rma = [\"128KiB\", \"1MiB\"]: unknown field `rma`"),
        (GRID.replace("\"mu\"", "\"mo\""), "grid.toml: there is no index 'mo'"),
        (GRID.replace("records", "recrods"), "did you mean 'records'?"),
        (GRID.replace("128KiB", "128KB"), "line 3"),
    ] {
        fs::write(folder.path().join("grid.toml"), grid).unwrap();
        let output = nandex(folder.path(), &["sweep", "grid.toml", "--store", "kept"]);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(part), "{}", stderr(&output));
    }
    let output = nandex(folder.path(), &["sweep", "grid.toml", "--store", "kept", "--shard", "3/2"]);
    assert!(stderr(&output).contains("'3/2' is no part such as 2/8"), "{}", stderr(&output));
}

//! A user's own experiments: read from files, with traces and chips in the same folder, and refused with
//! file, line and key.

#![allow(clippy::unwrap_used)]

use nandex_lab::LabError;
use nandex_lab::experiment::{Bench, ExperimentResults, RunPlan, Verdict, load};
use nandex_lab::runner::Control;
use std::path::Path;

const MINE: &str = "chip = 'chips/small.toml'
indexes = ['mu', 'bplus']

[[input]]
name = 'recorded'
trace = { file = 'traces/mine.txt' }

[[input]]
name = 'drawn'
workload = 'uniform'
options = { records = 900, operations = 300 }

[[plot]]
title = 'cost'
kind = 'bars'
figure = 'run.flash_time_ms_per_op'
label = 'ms'
x = 'input'
series = 'contender'
";

fn folder(definition: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("mine.toml", definition);
    write("chips/small.toml", "like = 'mlc-64m'\nblocks = 64\n");
    let trace: String = (0..500).map(|key| format!("insert {}\n", key * 7 % 500)).collect();
    write("traces/mine.txt", &trace);
    folder
}

fn run(path: &Path, plan: &RunPlan, sets: &[(&str, &str)]) -> Result<ExperimentResults, LabError> {
    let sets: Vec<_> = sets.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    let experiment = load(path.to_str().unwrap(), &sets)?;
    Bench::new(plan, &Control::default()).run(&experiment)
}

fn refused(definition: &str) -> String {
    let folder = folder(definition);
    let error = load(folder.path().join("mine.toml").to_str().unwrap(), &[]).unwrap_err().to_string();
    error.rsplit_once("mine.toml: ").unwrap().1.to_string()
}

#[test]
fn a_file_finds_its_chip_and_trace_beside_it() {
    let folder = folder(MINE);
    let path = folder.path().join("mine.toml");
    let plan = RunPlan { commit: Some("abc".into()), ..RunPlan::default() };
    let results = run(&path, &plan, &[]).unwrap();
    assert_eq!((results.definition.name.as_str(), results.commit.as_deref()), ("mine", Some("abc")));
    let cell = results.cell("recorded/default/mu").unwrap();
    assert_eq!((cell.chip.as_ref().unwrap().blocks, cell.figures["trace.operations"].mean), (64, 500.0));
    assert_eq!((&cell.stand_in, results.failures().count()), (&None, 0));
    assert_eq!(results.unknown_figures(), [] as [&str; 0]);
    assert!(results.command.ends_with("mine.toml"), "{}", results.command);
    assert!(results.claims().is_empty() && results.pairs.is_empty());
}

#[test]
fn seeds_are_compared_in_pairs() {
    let folder = folder(MINE);
    let plan = RunPlan { seeds: Some(4), ..RunPlan::default() };
    let results = run(&folder.path().join("mine.toml"), &plan, &[("baseline", "bplus")]).unwrap();
    // The trace ran once and shows nothing about another.
    let [pair] = &results.pairs[..] else { panic!("{:?}", results.pairs) };
    assert_eq!(
        (pair.input.as_str(), pair.contender.as_str(), pair.against.as_str()),
        ("drawn", "mu", "bplus")
    );
    let of = |name: &str| -> Vec<f64> {
        let cell = results.cell(&format!("drawn/default/{name}")).unwrap();
        cell.runs.iter().map(|run| run.phases[1].total.flash_time_ns as f64).collect()
    };
    let by_hand: Vec<f64> =
        of("mu").iter().zip(of("bplus")).map(|(mu, bplus)| 100.0 * (mu / bplus - 1.0)).collect();
    let mean = by_hand.iter().sum::<f64>() / 4.0;
    assert!((pair.difference_percent.mean - mean).abs() < 1e-9, "{mean} {pair:?}");
    assert_eq!((pair.difference_percent.count, pair.verdict == Verdict::NotShown), (4, false));
}

#[test]
fn values_set_from_outside_are_part_of_the_command() {
    let folder = folder(MINE);
    let sets = [("records", "700"), ("indexes", "[\"mu\"]")];
    let results = run(&folder.path().join("mine.toml"), &RunPlan::default(), &sets).unwrap();
    assert_eq!(results.cells.len(), 2);
    assert_eq!(
        results.cell("drawn/default/mu").unwrap().workload.as_ref().unwrap().options["records"],
        "700"
    );
    assert!(
        results.command.ends_with("mine.toml --set records=700 --set 'indexes=[\"mu\"]'"),
        "{}",
        results.command
    );
}

#[test]
fn a_mistake_is_told_with_its_line_and_key() {
    assert!(
        refused("chip = 'mlc-64m'\nindexs = ['mu']\n")
            .starts_with("line 2: indexs = ['mu']: unknown field `indexs`")
    );
    assert!(refused("chip = 'mlc-64m'\nseeds = [\n").starts_with("line "));
    assert_eq!(
        refused(&MINE.replace("'bplus']", "'bplsu']")),
        "line 2: indexes.1: there is no index 'bplsu'; did you mean 'bplus'?"
    );
    assert!(refused(&MINE.replace("chips/small", "chips/smal")).starts_with("line 1: chip: "));
    let option = refused(&MINE.replace("records = 900", "recrods = 900"));
    assert!(
        option.starts_with("line 11: input.1.options: ") && option.contains("did you mean 'records'"),
        "{option}"
    );
    let trace = refused(&MINE.replace("mine.txt", "nime.txt"));
    assert!(trace.starts_with("line 6: input.0.trace: traces/nime.txt: "), "{trace}");
    let both = refused(&MINE.replace("workload = 'uniform'", ""));
    assert!(
        both.contains("line 9: input.1.name: ") && both.contains("needs a workload or a trace"),
        "{both}"
    );
    assert!(refused("chip = 'mlc-64m'\nindexes = ['mu']\n").contains("nothing would run"));
    let variant = refused(&format!("{MINE}[[variant]]\nname = 'a'\noptions = {{ cach = 'lru' }}\n"));
    assert!(variant.starts_with("line 22: variant.0.options: there is no option 'cach'"), "{variant}");
    let twice = refused(&MINE.replace("'drawn'", "'recorded'"));
    assert!(twice.starts_with("line 9: input.1.name: "), "{twice}");
}

#[test]
fn names_that_are_no_file_are_those_built_in() {
    assert_eq!(load("mu-table5", &[]).unwrap().definition.name, "mu-table5");
    let set = [("chip".to_string(), "w25n01gv".to_string())];
    let changed = load("mu-table5", &set).unwrap();
    assert_eq!((changed.definition.chip.as_str(), changed.claims.is_empty()), ("w25n01gv", false));
    assert_eq!(changed.definition.source.called.as_deref(), Some("mu-table5 --set chip=w25n01gv"));
    assert!(load("mu-table6", &[]).unwrap_err().to_string().contains("did you mean 'mu-table5'?"));
    assert!(load("./none.toml", &[]).unwrap_err().to_string().contains("./none.toml: there is no such file"));
    let empty = tempfile::tempdir().unwrap();
    let error = load(empty.path().to_str().unwrap(), &[]).unwrap_err().to_string();
    assert!(error.contains("has no experiment.toml"), "{error}");
}

#[test]
fn what_stands_in_for_a_trace_is_named_in_rows_and_plots() {
    let experiment = load("mu-figure8", &[]).unwrap();
    let plan = RunPlan { smoke: true, ..RunPlan::default() };
    let results = Bench::new(&plan, &Control::default()).run(&experiment).unwrap();
    let stand_in =
        |input: &str| results.cell(&format!("{input}/0KB+0KB/mu")).unwrap().stand_in.clone().unwrap();
    assert_eq!(stand_in("kernel_compile"), "the first operations of the bundled cut");
    assert!(stand_in("mp3").starts_with("kernel_compile, not mp3_reiserfs.ops.zst: "));
    let title = |input: &str| {
        let plot = results
            .definition
            .plots
            .iter()
            .find(|plot| plot.title.ends_with(&format!("set-up: flash time, {input}")));
        plot.unwrap().title_over(&results.cells)
    };
    assert!(
        title("postmark").contains("(postmark is kernel_compile, not postmark_reiserfs.ops.zst: "),
        "{}",
        title("postmark")
    );
    assert!(!title("kernel_compile").contains("not postmark"));
}

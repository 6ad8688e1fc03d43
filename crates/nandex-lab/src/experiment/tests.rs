//! The experiments at smoke size: every one runs, and threads change no row.

use super::*;
use crate::registry;
use crate::repro::Expected;
use std::collections::BTreeSet;

fn smoke(threads: usize) -> RunPlan {
    RunPlan { smoke: true, threads, ..RunPlan::default() }
}

#[test]
fn every_folder_is_sound() {
    let mut ids = BTreeSet::new();
    for experiment in list() {
        let definition = &experiment.definition;
        let first_line = format!("# {}\n", definition.name);
        assert!(experiment.notes.starts_with(&first_line), "{}", definition.name);
        assert!(definition.indexes.iter().all(|name| registry::index(name).is_ok()));
        assert!(definition.inputs.iter().all(|i| i.workload.is_some() != i.trace.is_some()));
        assert!(experiment.claims.iter().all(|claim| ids.insert(&claim.id) && !claim.values.is_empty()));
    }
    assert_eq!(ids.len(), 18);
}

#[test]
fn every_claim_names_figures_that_are_measured() {
    for experiment in list().iter().filter(|e| !e.claims.is_empty()) {
        let results = run(&experiment.definition.name, &smoke(2), &Control::default()).unwrap();
        assert_eq!(results.failures().next().map(|(cell, why)| (cell.name.clone(), why)), None);
        for value in experiment.claims.iter().flat_map(|claim| &claim.values) {
            let (cells, figure) = match value {
                Expected::Pair { at, figure, .. } | Expected::Compared { at, figure, .. } => {
                    (vec![format!("{at}/wandering"), format!("{at}/mu")], figure)
                }
                Expected::Cells { against, cell, figure, .. } => {
                    (vec![against.clone(), cell.clone()], figure)
                }
                Expected::Single { cell, figure, .. } => (vec![cell.clone()], figure),
            };
            for cell in cells {
                let found = results.cell(&cell).unwrap_or_else(|| panic!("{cell}"));
                assert!(found.figures.contains_key(figure) || found.missing.is_some(), "{cell} {figure}");
            }
        }
    }
}

#[test]
fn the_number_of_threads_changes_nothing() {
    for name in ["mu-table5", "mu-figure8"] {
        let files = |threads| {
            let results = run(name, &smoke(threads), &Control::default()).unwrap();
            let mut files = [Vec::new(), Vec::new(), Vec::new()];
            write_json(&results, &mut files[0]).unwrap();
            write_raw_csv(&results, &mut files[1]).unwrap();
            write_summary_csv(&results, &mut files[2]).unwrap();
            files
        };
        assert!(files(1) == files(2), "{name}");
    }
}

#[test]
fn a_bench_does_not_repeat_a_run() {
    let (plan, control) = (smoke(2), Control::default());
    let mut bench = Bench::new(&plan, &control);
    let figure8 = bench.run(find("mu-figure8").unwrap()).unwrap();
    let planned = control.planned();
    let figure9 = bench.run(find("mu-figure9").unwrap()).unwrap();
    assert_eq!((control.planned(), control.done()), (planned, planned));
    let name = "kernel_compile/0KB+0KB/mu";
    assert_eq!(figure9.cell(name).unwrap().figures, figure8.cell(name).unwrap().figures);
}

#[test]
fn missing_traces_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let plan = RunPlan { data: Some(folder.path().into()), ..RunPlan::default() };
    let control = Control::default();
    control.cancel();
    let results = run("mu-figure9", &plan, &control).unwrap();
    let cell = |name| results.cell(name).unwrap();
    assert!(cell("kernel_compile/0KB+0KB/mu").stand_in.as_ref().unwrap().starts_with("the bundled cut"));
    assert!(cell("mp3/0KB+0KB/mu").missing.as_ref().unwrap().contains("mp3_reiserfs.ops.zst is not in"));
    assert!(cell("kernel_compile/0KB+0KB/mu").failures().next().unwrap().contains("cancelled"));
}

#[test]
fn a_folder_of_results_says_how_to_repeat_them() {
    let folder = tempfile::tempdir().unwrap();
    let results = run("mu-space", &smoke(2), &Control::default()).unwrap();
    write_folder(&results, folder.path()).unwrap();
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&read("manifest.json")).unwrap();
    assert_eq!(manifest["command"], "nandex run mu-space --smoke");
    assert!(read("raw.csv").contains("mu-space,200000/0KB+0KB/mu,200000,0KB+0KB,mu,1,live_pages,"));
    assert!(read("summary.csv").contains("mu-space,valid-pages,,,,mu_pages_1e6,1,3907,3907,3907,"));
    assert!(read("results.json").contains("\"wear_erases\""));
}

#[test]
fn an_unknown_name_is_refused_with_the_nearest() {
    let error = find("mu-tabel5").unwrap_err().to_string();
    assert_eq!(error, "there is no experiment 'mu-tabel5'; did you mean 'mu-table5'?");
}

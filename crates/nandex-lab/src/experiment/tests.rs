//! The experiments at smoke size: every one runs, and threads change no row.

use self::sizes::{sized, stride};
use super::*;
use crate::registry;
use crate::repro::Reading;
use crate::results::PatternCounts;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock, Mutex, OnceLock};

#[path = "../../../../src/sizes.rs"]
mod sizes;

fn smoke(threads: usize) -> RunPlan {
    RunPlan { smoke: true, threads, ..RunPlan::default() }
}

/// The results of an experiment at smoke size. It runs once for all tests that use them.
fn smoke_results(name: &str) -> Arc<ExperimentResults> {
    type Once = Arc<OnceLock<Arc<ExperimentResults>>>;
    static KEPT: LazyLock<Mutex<BTreeMap<String, Once>>> = LazyLock::new(Mutex::default);
    let once = Arc::clone(KEPT.lock().unwrap().entry(String::from(name)).or_default());
    let measure = || Arc::new(run(name, &smoke(2), &Control::default()).unwrap());
    Arc::clone(once.get_or_init(measure))
}

/// The results of an experiment at smoke size. In the nightly run it runs whole; otherwise only with one
/// variant in `one_in` and with those named.
fn sampled_results(name: &str, one_in: usize, named: &[&str]) -> Arc<ExperimentResults> {
    let (mut number, step) = (0, stride(one_in));
    if step == 1 {
        return smoke_results(name);
    }
    let mut experiment = find(name).unwrap().clone();
    experiment.definition.variants.retain(|variant| {
        number += 1;
        number % step == 0 || named.contains(&variant.name.as_str())
    });
    Arc::new(Bench::new(&smoke(2), &Control::default()).run(&experiment).unwrap())
}

#[test]
fn every_folder_is_sound() {
    let mut ids = BTreeSet::new();
    for experiment in list() {
        let definition = &experiment.definition;
        let first_line = format!("# {}\n", definition.name);
        assert!(experiment.notes.starts_with(&first_line), "{}", definition.name);
        let contenders = Contender::all(definition);
        let is_spatial = |name: &str| definition.access.is_some() && crate::spatial::spatial(name).is_ok();
        let is_known = |name: &str| registry::index(name).is_ok() || is_spatial(name);
        assert!(contenders.iter().all(|contender| is_known(&contender.index)));
        let names: BTreeSet<&str> = contenders.iter().map(|contender| contender.name.as_str()).collect();
        assert!(names.len() == contenders.len() && !names.iter().any(|name| name.contains('/')));
        assert!(definition.variants.iter().all(|variant| variant.cast(definition).is_ok()));
        assert!(definition.inputs.iter().all(|i| i.workload.is_some() != i.trace.is_some()));
        assert!(
            experiment
                .claims
                .iter()
                .all(|claim| ids.insert((&claim.id, claim.reading)) && !claim.values.is_empty())
        );
    }
    let first = ids.iter().filter(|(_, reading)| *reading == Reading::First).count();
    // L1 and S7 have two rows each.
    assert_eq!(first, 17 + 14 + (9 + 1) + (12 + 1) + 5 + (23 + 19 + 8) + 18);
}

#[test]
fn every_claim_names_figures_that_are_measured() {
    for experiment in list().iter().filter(|e| !e.claims.is_empty()).step_by(stride(12)) {
        let results = smoke_results(&experiment.definition.name);
        assert_eq!(results.failures().next().map(|(cell, why)| (cell.name.clone(), why)), None);
        for value in experiment.claims.iter().flat_map(|claim| &claim.values) {
            let figure = value.figure();
            for cell in value.cells() {
                let found = results.cell(&cell).unwrap_or_else(|| panic!("{cell}"));
                assert!(found.figures.contains_key(figure) || found.missing.is_some(), "{cell} {figure}");
            }
        }
        for plot in &experiment.definition.plots {
            assert!(
                !plot.series_of(&results.cells).is_empty(),
                "{}: {}",
                experiment.definition.name,
                plot.title
            );
        }
    }
}

#[test]
fn the_number_of_threads_changes_nothing() {
    for name in ["mu-table5", "mu-figure8"].into_iter().skip(sized(1, 0)) {
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
fn a_sum_adds_its_phases_up() {
    let results = smoke_results("wpcb-figures");
    for cell in &results.cells {
        let figure = |name: &str| cell.figures[name].mean;
        for of in ["operations", "page_reads", "page_programs", "block_erases", "collections"] {
            let parts = ["inserts", "searches", "removals"].map(|phase| figure(&format!("{phase}.{of}")));
            assert_eq!(figure(&format!("everything.{of}")), parts.iter().sum::<f64>(), "{} {of}", cell.name);
            assert_eq!(figure(&format!("build_and_delete.{of}")), parts[0] + parts[2], "{} {of}", cell.name);
        }
        assert!(figure("inserts.blocks_filled") > 1.0, "{}", cell.name);
        // dIPL keeps log pages.
        assert!(figure("removals.live_pages") < figure("inserts.live_pages"), "{}", cell.name);
    }
}

#[test]
fn the_trees_of_the_wpcb_paper_have_equal_log_blocks() {
    for name in ["wpcb-figures", "wpcb-figure9", "wpcb-figure10"].into_iter().step_by(stride(3)) {
        let results = smoke_results(name);
        let on_fast = |cell: &&CellResult| cell.index == "bplus" || cell.index == "wpcb";
        assert!(results.cells.iter().any(|cell| on_fast(&cell)), "{name}");
        for cell in &results.cells {
            // The others stand on the raw chip.
            let expected = on_fast(&cell).then_some(30);
            assert_eq!(cell.log_blocks, expected, "{name} {}", cell.name);
        }
    }
    // Whatever a sweep asks for, both trees get.
    let results = sampled_results("wpcb-sweep", 3, &["4-logs", "page-map"]);
    let log_blocks = |cell: String| results.cell(&cell).map(|cell| cell.log_blocks);
    for variant in &results.definition.variants {
        let of = |tree: &str| log_blocks(format!("rs0/{}/{tree}", variant.name)).flatten();
        let asked = variant.options.get("log_blocks").map(|blocks| blocks.parse().unwrap());
        if variant.options.get("ftl").is_some_and(|ftl| ftl != "page-map") {
            assert!(asked.is_some() && of("WPCB") == asked, "{}: {:?}", variant.name, of("WPCB"));
            assert!(of("B-tree").is_none() || of("B-tree") == asked, "{}", variant.name);
        }
    }
}

#[test]
fn every_node_came_out_of_another_or_is_a_root() {
    let results = sampled_results("named-table2", 3, &["page-map"]);
    for cell in results.cells.iter().filter(|cell| !cell.runs.is_empty()) {
        let figure = |name: &str| cell.figures.get(name).map_or(0.0, |figure| figure.mean);
        let born = figure("splits") + figure("metrics.overflows") + figure("height_levels");
        let gone = figure("merges") + figure("metrics.expelled");
        assert_eq!(figure("nodes"), born - gone, "{}", cell.name);
        assert!(figure("splits") + figure("metrics.overflows") > 0.0, "{}", cell.name);
    }
}

#[test]
fn the_keys_of_the_equations_are_drawn_by_the_seed() {
    let plan = RunPlan { seeds: Some(2), ..smoke(2) };
    let results = run("wpcb-equations", &plan, &Control::default()).unwrap();
    let of = |name: &str| &results.cell("equations").unwrap().figures[name];
    assert_eq!((of("btree_ascending_splits").count, of("btree_random_splits").count), (2, 2));
    assert!(of("btree_random_splits").min < of("btree_random_splits").max);
    assert_eq!(of("btree_ascending_splits").min, of("btree_ascending_splits").max);
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
    let results = smoke_results("mu-space");
    write_folder(&results, folder.path()).unwrap();
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&read("manifest.json")).unwrap();
    assert_eq!(manifest["command"], "nandex run mu-space --smoke");
    assert!(read("raw.csv").contains("mu-space,200000/0KB+0KB/mu,200000,0KB+0KB,mu,mu,1,live_pages,"));
    assert!(read("summary.csv").contains("mu-space,valid-pages,,,,,mu_pages_1e6,1,3907,3907,3907,"));
    assert!(read("results.json").contains("\"wear_erases\""));
}

#[test]
fn an_unknown_name_is_refused_with_the_nearest() {
    let error = find("mu-tabel5").unwrap_err().to_string();
    assert_eq!(error, "there is no experiment 'mu-tabel5'; did you mean 'mu-table5'?");
}

/// An experiment of three contenders on one tree that uses every key a contender may have.
fn contest() -> Experiment {
    let definition = r#"
        name = "contest"
        paper = "none"
        shows = "contenders"
        summary = "one tree under three policies"
        chip = "mlc-64m"
        key_bytes = 4
        value_bytes = 4
        seeds = 1
        run = { cpu_time = true, sync_after_load = true, sync_at_end = true, weights = { read_ns = 2_000, program_ns = 30_000, erase_ns = 400_000, reference_ns = 1_000 } }
        contender = [
            { name = "LRU", index = "bplus", options = { cache = "lru" } },
            { name = "CFLRU", index = "bplus", options = { cache = "cflru" } },
            { name = "through", index = "bplus", durable = "always", options = { cache = "lru" } },
        ]

        [[input]]
        name = "mixed"
        workload = "uniform"
        options = { records = "20000", operations = "4000" }

        [[variant]]
        name = "window-25"
        durable = "never"
        memory = { percent = 25 }
        of.CFLRU = { cache_window = "25" }

        [[variant]]
        name = "window-75"
        durable = "never"
        memory = { percent = 25 }
        contenders = ["LRU", "CFLRU"]
        of.CFLRU = { cache_window = "75" }

        [smoke]
    "#;
    Experiment { definition: toml::from_str(definition).unwrap(), claims: Vec::new(), notes: "".into() }
}

#[test]
fn contenders_are_addressed_by_their_names_and_get_the_same_ram() {
    let (plan, control) = (RunPlan { threads: 2, ..RunPlan::default() }, Control::default());
    let results = Bench::new(&plan, &control).run(&contest()).unwrap();
    assert_eq!(results.failures().next().map(|(cell, why)| (cell.name.clone(), why)), None);
    let names: Vec<&str> = results.cells.iter().map(|cell| cell.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "mixed/window-25/LRU",
            "mixed/window-25/CFLRU",
            "mixed/window-25/through",
            "mixed/window-75/LRU",
            "mixed/window-75/CFLRU"
        ]
    );
    // LRU runs once: the window is not its option, and nothing else differs.
    assert_eq!(control.planned(), 4 * 24_000);
    let given = |name: &str| results.cell(name).unwrap().workload.as_ref().unwrap().ram_bytes.unwrap();
    assert!(names.iter().all(|name| given(name) == given(names[0])));
    let of = |name: &str, figure: &str| results.cell(name).unwrap().figures[figure].mean;
    let (lru, cflru) = ("mixed/window-25/LRU", "mixed/window-25/CFLRU");
    assert_eq!(results.cell(cflru).unwrap().contender, "CFLRU");
    assert_eq!(results.cell(cflru).unwrap().index, "bplus");
    assert_eq!(results.cell("mixed/window-25/through").unwrap().runs[0].durability, "every operation");
    for narrow in [lru, cflru] {
        assert!(of(narrow, "run.cpu_us_per_op") > 0.0);
        let (reads, writes) = (of(narrow, "run.tree_page_reads"), of(narrow, "run.tree_page_writes"));
        assert!(reads > 0.0 && reads <= of(narrow, "run.page_reads"), "{narrow} {reads}");
        assert!(writes > 0.0 && writes <= of(narrow, "run.page_programs"), "{narrow} {writes}");
        let references = of(narrow, "run.page_references");
        let of_flash = [("run.page_reads", 2e-6), ("run.page_programs", 3e-5), ("run.block_erases", 4e-4)];
        let of_flash: f64 = of_flash.iter().map(|(figure, seconds)| of(narrow, figure) * seconds).sum();
        let weighted = of_flash + references * 1e-6;
        assert!(references > 0.0 && (of(narrow, "run.weighted_time_s") - weighted).abs() < 1e-9);
        // The dirty pages of the load are the load's.
        let syncs = &results.cell(narrow).unwrap().runs[0].phases;
        assert_eq!(syncs.iter().map(|p| p.kinds["sync"].operations).collect::<Vec<_>>(), [1, 1]);
    }
    assert_ne!(of(cflru, "run.tree_page_writes"), of(lru, "run.tree_page_writes"));
    let mut csv = Vec::new();
    write_summary_csv(&results, &mut csv).unwrap();
    let row = "contest,mixed/window-75/CFLRU,mixed,window-75,CFLRU,bplus,run.operations,1,4000,4000,4000,";
    assert!(String::from_utf8(csv).unwrap().contains(row));
}

#[test]
fn contenders_have_chips_of_their_own_and_variants_their_inputs() {
    let mut experiment = contest();
    let first = experiment.definition.inputs[0].clone();
    experiment.definition.inputs.push(Input { name: "again".to_string(), ..first });
    let variant = &mut experiment.definition.variants[1];
    variant.blocks = Some(90);
    variant.blocks_of.insert("CFLRU".to_string(), 60);
    variant.inputs = vec!["again".to_string()];
    let (plan, control) = (RunPlan { threads: 2, ..RunPlan::default() }, Control::default());
    let results = Bench::new(&plan, &control).run(&experiment).unwrap();
    assert_eq!(results.failures().next().map(|(cell, why)| (cell.name.clone(), why)), None);
    let blocks = |name: &str| results.cell(name).map(|cell| cell.chip.as_ref().unwrap().blocks);
    let usual = crate::chip::find("mlc-64m").unwrap().geometry.blocks;
    assert_eq!(blocks("mixed/window-25/CFLRU"), Some(usual));
    assert_eq!((blocks("again/window-75/LRU"), blocks("again/window-75/CFLRU")), (Some(90), Some(60)));
    assert_eq!(blocks("mixed/window-75/LRU"), None, "the variant runs with the other input only");
    experiment.definition.variants[1].inputs = vec!["agian".to_string()];
    let error = Bench::new(&plan, &control).run(&experiment).unwrap_err().to_string();
    assert_eq!(error, "there is no input 'agian'; did you mean 'again'?");
}

#[test]
fn programs_are_priced_by_what_came_before_them() {
    let prices = |follows| PatternPrices {
        follows,
        next_program_ns: 200_000,
        program_ns: 400_000,
        next_read_ns: Some(5_000),
        read_ns: 25_000,
        erase_ns: 2_000_000,
    };
    let done = PatternCounts {
        page_programs: 10,
        programs_next_in_block: 6,
        programs_next_on_chip: 4,
        page_reads: 8,
        reads_next_in_block: 3,
        reads_next_on_chip: 1,
    };
    let in_block = 6 * 200_000 + 4 * 400_000 + 3 * 5_000 + 5 * 25_000 + 2 * 2_000_000;
    assert_eq!(prices(Follows::Block).time_ns(&done, 2), in_block);
    let on_chip = 4 * 200_000 + 6 * 400_000 + 5_000 + 7 * 25_000 + 2 * 2_000_000;
    assert_eq!(prices(Follows::Chip).time_ns(&done, 2), on_chip);
    // A mu-Tree appends: all programs follow in their block but the first of each.
    let mut experiment = contest();
    experiment.definition.contenders[0] =
        Contender { name: "LRU".into(), index: "mu".into(), ..Contender::default() };
    for variant in &mut experiment.definition.variants {
        variant.contenders = vec!["LRU".into()];
        (variant.durable, variant.memory) = (Durable::Always, None);
        variant.of.clear();
    }
    experiment.definition.run.pattern_prices = Some(prices(Follows::Block));
    experiment.definition.sums = vec![Sum { name: "both".into(), phases: vec!["load".into(), "run".into()] }];
    let (plan, control) = (RunPlan { threads: 2, ..RunPlan::default() }, Control::default());
    let results = Bench::new(&plan, &control).run(&experiment).unwrap();
    assert_eq!(results.failures().next().map(|(cell, why)| (cell.name.clone(), why)), None);
    let cell = results.cell("mixed/window-25/LRU").unwrap();
    let figure = |name: &str| cell.figures[name].mean;
    let (programs, next) = (figure("both.page_programs"), figure("both.programs_next_in_block"));
    assert_eq!(figure("load.programs_next_in_block") + figure("run.programs_next_in_block"), next);
    let pages_per_block = f64::from(cell.chip.as_ref().unwrap().pages_per_block);
    let first = programs - next;
    let blocks = programs / pages_per_block;
    assert!(first + 2.0 > blocks && first < 2.0 * blocks + 4.0, "{first} of {blocks} blocks");
    let sum = figure("load.pattern_time_s") + figure("run.pattern_time_s");
    assert!((sum - figure("both.pattern_time_s")).abs() < 1e-9 && sum > programs * 200e-6);
}

#[test]
fn the_second_reading_of_the_wpcb_paper_runs() {
    let named = [
        "fill-of-btree-rs0",
        "full-direct",
        "reads-every",
        "c128-30-logs",
        "apart",
        "c192-30-logs",
        "mixed-8-logs",
    ];
    let results = sampled_results("wpcb-second", 7, &named);
    assert_eq!(results.failures().next().map(|(cell, why)| (cell.name.clone(), why)), None);
    let figure = |cell: &str, name: &str| {
        let cell = results.cell(cell).unwrap_or_else(|| panic!("{cell}"));
        cell.figures.get(name).map_or(0.0, |figure| figure.mean)
    };
    for variant in &results.definition.variants {
        let Some(log_blocks) = variant.options.get("log_blocks") else { continue };
        let cells = results.cells.iter().filter(|cell| cell.variant == variant.name);
        assert!(cells.clone().count() > 0, "{}", variant.name);
        for cell in cells {
            assert_eq!(cell.log_blocks, log_blocks.parse().ok(), "{}", cell.name);
            let (time, flash) = ("inserts.pattern_time_s", "inserts.flash_time_s");
            assert!(figure(&cell.name, time) > 0.0 && figure(&cell.name, time) < figure(&cell.name, flash));
        }
    }
    let blocks = |cell: &str| results.cell(cell).unwrap().chip.as_ref().unwrap().blocks;
    assert_eq!((blocks("rs0/fill-of-btree-rs0/mu*"), blocks("rs0/fill-of-btree-rs0/dIPL")), (206, 506));
    assert!(figure("rs1/full-direct/WPCB", "inserts.metrics.direct_pages") > 10.0);
    let reads = |variant: &str| figure(&format!("rs0/{variant}/WPCB"), "inserts.page_reads");
    assert!(reads("reads-every") > reads("c128-30-logs"));
    let writes = |cell: &str| figure(cell, "removals.tree_page_writes");
    assert!(writes("rs0/apart/B-tree apart") > writes("rs0/c192-30-logs/B-tree"));
    assert_eq!(figure("rs1-mixed-50/mixed-8-logs/WPCB", "inserts.remove.operations"), 2_500.0);
}

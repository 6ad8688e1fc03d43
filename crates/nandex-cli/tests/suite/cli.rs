//! The program as users run it: its output and its exit codes.
#![allow(clippy::unwrap_used)]

use nandex::Shared;
use nandex::nand::Nand;
use nandex::nand::sim::SimChip;
use nandex::ordered::RecordFormat;
use nandex_lab::options::Settings;
use nandex_lab::{chip, registry};
use nandex_os::{Access, Lock};
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A comparison that takes a moment only.
const SMALL: [&str; 9] =
    ["compare", "--index", "mu,wandering", "--workload", "mu", "--set", "records=2000", "--ops", "200"];

fn nandex(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nandex")).args(args).stdin(Stdio::null()).output().unwrap()
}

fn small(more: &[&str]) -> Output {
    nandex(&[&SMALL, more].concat())
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

/// A refusal: exit code 2, nothing on stdout, and these words on stderr.
fn assert_refused(args: &[&str], words: &[&str]) {
    let output = nandex(args);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
    assert_eq!(stdout(&output), "", "{args:?}");
    for word in words {
        assert!(stderr(&output).contains(word), "{args:?}: no '{word}' in: {}", stderr(&output));
    }
}

#[test]
fn help_goes_to_stdout_and_tells_the_exit_codes() {
    for args in [
        &["--help"][..],
        &["compare", "--help"],
        &["replay", "--help"],
        &["counts", "--help"],
        &["check", "--help"],
        &["inspect", "--help"],
        &["serve", "--help"],
        &["list", "--help"],
    ] {
        let output = nandex(args);
        assert!(output.status.success());
        assert!(stdout(&output).contains("Exit codes: 0 done"), "{args:?}");
        assert_eq!(stderr(&output), "");
    }
}

#[test]
fn unknown_names_suggest_the_nearest() {
    assert_refused(&["compare", "--chip", "mlc64m"], &["--chip", "did you mean 'mlc-64m'?"]);
    assert_refused(&["compare", "--index", "mu,wanderng"], &["--index", "did you mean 'wandering'?"]);
    assert_refused(&["compare", "--workload", "yscb-a"], &["--workload", "did you mean 'ycsb-a'?"]);
    assert_refused(
        &["compare", "--durability", "every-synk"],
        &["--durability", "did you mean 'every-sync'?"],
    );
    assert_refused(
        &["compare", "--workload", "mu", "--set", "recrods=5"],
        &["--set", "did you mean 'records'?"],
    );
    assert_refused(&["comprae"], &["compare"]);
    assert_refused(&["compare", "--indx", "mu"], &["--index"]);
    assert_refused(&["list", "chip"], &["chips"]);
}

#[test]
fn bad_values_say_which_flag_and_why() {
    assert_refused(&["compare", "--ram", "64KB"], &["--ram", "write 64KiB"]);
    assert_refused(&["compare", "--ops", "many"], &["--ops", "no whole number"]);
    assert_refused(&["compare", "--ops", "0"], &["--ops", "at least 1"]);
    assert_refused(&["compare", "--seed", "-1"], &["--seed"]);
    assert_refused(&["compare", "--threads", "0"], &["--threads"]);
    assert_refused(&["compare", "--record", "4"], &["--record", "8/4"]);
    assert_refused(&["compare", "--set", "records"], &["--set", "NAME=VALUE"]);
    assert_refused(
        &["compare", "--workload", "mu", "--set", "records=ten"],
        &["--set", "records", "no whole number"],
    );
    assert_refused(&["compare", "--json", "-", "--csv", "-"], &["--csv", "--json"]);
    assert_refused(&["compare", "--trace", "no/such.ops"], &["no/such.ops"]);
    assert_refused(&["compare", "--trace", "x.ops", "--seed", "3"], &["--trace", "--seed"]);
    assert_refused(&["compare", "--seed", "3"], &["--workload"]);
}

#[test]
fn a_comparison_without_arguments_says_which_index_at_which_ram() {
    let output = nandex(&["compare", "--index", "ls-lru,plow", "--ops", "300", "--ram", "16KiB,640KiB"]);
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
    let text = stdout(&output);
    for part in [
        "\nkernel_compile, durability: every operation\n",
        "\nuniform, durability: every sync\n",
        "\nRAM 16 KiB   plow ",
        "\nRAM 640 KiB ",
        "\nkernel_compile, durable at every operation: plow ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn what_cannot_run_on_the_chip_is_told_once_and_not_ranked() {
    let trace = ["compare", "--trace", "kernel_compile", "--ram", "640KiB"];
    let named =
        [&trace[..], &["--index", "sbits,vmtree-ow,vmtree", "--ops", "300", "--durability", "all"]].concat();
    let output = nandex(&named);
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
    let text = stdout(&output);
    for part in [
        "workload kernel_compile",
        "RAM 640 KiB",
        "! sbits (raw), seed 0, could not run: it takes insertions of ascending keys only",
        "! vmtree-ow (raw), seed 0, could not run",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // It promises every operation whatever it is asked for, and is told once; so are refusals.
    let (_, rest) = text.split_once("\nvmtree ").unwrap();
    assert!(!rest.contains("Durability: every sync") && text.matches("! sbits").count() == 1, "{text}");
    let all =
        ["--index", "all", "--durability", "none", "--workload", "mu", "--ram", "640KiB", "--ops", "30"];
    let all = nandex(&[&["compare"], &all[..], &["--set", "records=2000"]].concat());
    assert_eq!(all.status.code(), Some(0), "{}{}", stdout(&all), stderr(&all));
    assert!(stdout(&all).contains("raw, as NOR") && stdout(&all).contains("not ranked"), "{}", stdout(&all));
}

#[test]
fn results_that_cannot_be_written_are_refused_before_anything_is_measured() {
    let output = small(&["--report", "/no/such/folder/report.html"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("there is no folder /no/such/folder"), "{}", stderr(&output));
    assert_eq!(stdout(&output), "");
}

#[test]
fn a_comparison_prints_settings_rows_and_a_conclusion() {
    let output = small(&[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stderr(&output), "", "no progress where there is no terminal");
    let text = stdout(&output);
    assert!(text.starts_with("chip mlc-64m: 128 blocks"), "{text}");
    assert!(text.contains("\nmu ") && text.contains("\nwandering "), "{text}");
    assert!(text.contains("mu took the least flash time"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
}

#[test]
fn json_and_csv_hold_the_same_facts() {
    let folder = tempfile::tempdir().unwrap();
    let csv_file = folder.path().join("rows.csv");
    let output = small(&["--json", "-", "--csv", csv_file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["schema"], 1);
    assert_eq!(json["workload"]["operations"], 2600);
    assert!(json["command"].as_str().unwrap().starts_with("nandex compare --index mu,wandering"));
    let runs = json["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2);
    let mut csv = csv::Reader::from_path(csv_file).unwrap();
    let heads = csv.headers().unwrap().clone();
    let column = |name: &str| heads.iter().position(|h| h == name).unwrap();
    let rows: Vec<csv::StringRecord> = csv.records().map(Result::unwrap).collect();
    for run in runs {
        for phase in run["phases"].as_array().unwrap() {
            let total = rows.iter().find(|row| {
                row[column("index")] == *run["index"].as_str().unwrap()
                    && row[column("phase")] == *phase["name"].as_str().unwrap()
                    && &row[column("kind")] == "total"
            });
            for name in ["page_reads", "page_programs", "block_erases", "flash_time_ns"] {
                assert_eq!(total.unwrap()[column(name)], phase["total"][name].to_string());
            }
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_results_whatever_the_threads() {
    let facts = |threads: &str| {
        let output = small(&["--threads", threads, "--seeds", "2", "--json", "-"]);
        let mut json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        json["command"] = serde_json::Value::Null;
        for run in json["runs"].as_array_mut().unwrap() {
            for phase in run["phases"].as_array_mut().unwrap() {
                phase["cpu_ns"] = serde_json::Value::Null;
            }
        }
        json
    };
    assert_eq!(facts("1"), facts("4"));
}

#[test]
fn the_report_is_one_file_with_the_conclusion() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.html");
    let output = small(&["--report", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let page = fs::read_to_string(file).unwrap();
    assert!(page.starts_with("<!doctype html>"));
    assert!(page.contains("mu took the least flash time"));
    assert!(page.contains("nandex compare --index mu,wandering"));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn an_index_that_does_not_fit_is_a_result_unless_none_does() {
    let output = small(&["--ram", "50KiB"]);
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    let all = small(&["--ram", "1KiB"]);
    assert_eq!(all.status.code(), Some(1));
    assert!(stdout(&all).contains("bytes of RAM are too few"), "{}", stdout(&all));
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_nandex"))
        .args([&SMALL[..], &["--json", "-"]].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
}

#[test]
fn lists_are_tables_or_json() {
    for (what, name) in [
        ("chips", "mlc-64m"),
        ("indexes", "mu"),
        ("ftls", "page-map"),
        ("ftls", "tbm+NAME"),
        ("policies", "greedy"),
        ("workloads", "ycsb-a"),
        ("experiments", "mu-table5"),
        ("claims", "M12"),
    ] {
        let table = nandex(&["list", what]);
        assert!(table.status.success());
        assert!(stdout(&table).lines().any(|l| l.starts_with(name)), "{}", stdout(&table));
        let json = nandex(&["list", what, "--json"]);
        let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
        assert!(json.as_array().unwrap().iter().any(|entry| entry["name"] == name), "{json}");
    }
}

#[test]
fn a_list_of_indexes_for_a_chip_says_what_plow_expects_there() {
    let few = ["list", "indexes", "--chip", "mlc-64m", "--record", "4/4", "--records", "100000"];
    let table = nandex(&few);
    assert!(table.status.success(), "{}", stderr(&table));
    let table = stdout(&table);
    assert!(table.contains("plow on mlc-64m, 100,000 records of 4 + 4 bytes"), "{table}");
    let of = |ram: &str| table.lines().find(|line| line.trim_start().starts_with(ram)).unwrap().to_string();
    assert!(of("8 KiB").contains("bytes of RAM are too few"), "{table}");
    let json = nandex(&["list", "indexes", "--chip", "mlc-64m", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    let plow = json.as_array().unwrap().iter().find(|row| row["name"] == "plow").unwrap();
    let by_ram = plow["by_ram"].as_array().unwrap();
    let rows: Vec<_> = by_ram.iter().filter(|row| row["refused"].is_null()).collect();
    let costs: Vec<f64> = rows.iter().map(|row| row["programs_per_change"].as_f64().unwrap()).collect();
    assert!(costs.len() > 4 && costs[0] > 4.0 * costs[costs.len() - 1], "more RAM costs less: {costs:?}");
    assert_refused(&["list", "chips", "--chip", "mlc-64m"], &["--chip", "indexes"]);
}

#[test]
fn the_policies_listed_are_those_that_the_options_take() {
    let json = nandex(&["list", "policies", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    for policy in json.as_array().unwrap() {
        let set = policy["summary"].as_str().unwrap().split(':').next().unwrap();
        let args = [
            "compare",
            "--workload",
            "mu",
            "--index",
            "bplus",
            "--ram",
            "256KiB",
            "--ops",
            "10",
            "--set",
            "records=100",
        ];
        let output = nandex(&[&args[..], &["--set", set]].concat());
        assert_eq!(output.status.code(), Some(0), "{set}: {}{}", stdout(&output), stderr(&output));
    }
}

#[test]
fn an_experiment_runs_at_smoke_size_into_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("table5");
    let report = folder.path().join("table5.html");
    let files = ["--out", out.to_str().unwrap(), "--report", report.to_str().unwrap()];
    let output = nandex(&[&["run", "mu-table5", "--smoke", "--seeds", "1"], &files[..]].concat());
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
    assert!(stdout(&output).contains("micro/0KB+0KB/mu"), "{}", stdout(&output));
    for file in ["manifest.json", "raw.csv", "summary.csv", "results.json"] {
        assert!(out.join(file).is_file(), "{file}");
    }
    let page = fs::read_to_string(report).unwrap();
    assert!(page.contains(">M1</th>"), "no claims in the report");
    assert_refused(&["run", "mu-table6"], &["mu-table6", "did you mean 'mu-table5'?"]);
}

#[test]
fn a_scorecard_has_a_verdict_for_every_claim() {
    let output = nandex(&["repro", "--smoke", "--json", "-"]);
    let card: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = card["rows"].as_array().unwrap();
    let ids: Vec<&str> = rows.iter().map(|row| row["id"].as_str().unwrap()).collect();
    let listed = nandex(&["list", "claims", "--json"]);
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    let of_paper = |claim: &&serde_json::Value| claim["experiment"].as_str().unwrap().starts_with("mu-");
    assert_eq!(ids.len(), listed.as_array().unwrap().iter().filter(of_paper).count());
    assert!(ids.contains(&"M1") && ids.contains(&"M17"), "{ids:?}");
    assert!(rows.iter().all(|row| row["verdict"].is_string()));
    assert_refused(&["repro", "--paper", "nu"], &["--paper", "'nu'"]);
}

#[test]
fn a_crash_test_tells_what_was_cut_and_what_came_back() {
    let small = ["crash", "--index", "mu", "--ops", "60", "--cuts", "200"];
    let output = nandex(&small);
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
    assert!(stdout(&output).contains("cuts tried"), "{}", stdout(&output));
    assert!(stdout(&output).contains("mu: nothing lost at any of"), "{}", stdout(&output));
    let json = nandex(&[&small[..], &["--json", "-"]].concat());
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert!(json["cuts_tried"].as_u64().unwrap() >= 200);
    let csv = nandex(&[&small[..], &["--csv", "-"]].concat());
    let mut csv = csv::Reader::from_reader(&csv.stdout[..]);
    let column = csv.headers().unwrap().iter().position(|h| h == "cuts_tried").unwrap();
    let row = csv.records().next().unwrap().unwrap();
    assert_eq!(row[column], json["cuts_tried"].to_string());
    let one = nandex(&["crash", "--ftl", "page-map", "--ops", "60", "--at", "17:prefix"]);
    assert_eq!(one.status.code(), Some(0), "{}{}", stdout(&one), stderr(&one));
}

#[test]
fn a_crash_test_needs_one_target_and_sound_values() {
    assert_refused(&["crash"], &["--index", "--ftl"]);
    assert_refused(&["crash", "--index", "mu", "--ftl", "page-map"], &["--index", "--ftl"]);
    assert_refused(&["crash", "--ftl", "pagemap"], &["--ftl", "did you mean 'page-map'?"]);
    assert_refused(&["crash", "--index", "mu", "--cuts", "some"], &["--cuts", "give all or a number"]);
    assert_refused(&["crash", "--index", "mu", "--at", "17"], &["--at", "is no cut"]);
    assert_refused(&["crash", "--index", "mu", "--faults", "1"], &["--faults", "three rates"]);
    assert_refused(
        &["crash", "--index", "mu", "--set", "victm=greedy"],
        &["--set", "did you mean 'victim'?"],
    );
}

#[test]
fn an_index_of_nor_flash_says_so_on_other_chips_and_takes_no_ftl() {
    let on = |chip: &str| {
        let small = ["--chip", chip, "--workload", "mu", "--ops", "50", "--set", "records=200"];
        nandex(&[&["compare", "--index", "vmtree-ow"], &small[..]].concat())
    };
    let nor = on("at45db161e");
    assert_eq!(nor.status.code(), Some(0), "{}{}", stdout(&nor), stderr(&nor));
    let nand = on("mlc-64m");
    assert_eq!(nand.status.code(), Some(1));
    assert!(stdout(&nand).contains("needs NOR flash"), "{}", stdout(&nand));
    assert_refused(
        &["crash", "--index", "vmtree-ow", "--chip", "mlc-64m"],
        &["needs NOR flash", "at45db161e"],
    );
    assert_refused(
        &["compare", "--index", "vmtree-ow", "--chip", "at45db161e", "--set", "beneath=fast"],
        &["--set", "beneath", "log_pages"],
    );
}

/// Saves a chip with 300 records of 8 + 4 bytes in this index; what happens to the chip in between is up to
/// the caller.
fn save_image(path: &Path, (part, index): (&str, &str), damage: impl FnOnce(&mut SimChip)) {
    let shared = Shared::new(SimChip::new(&chip::find(part).unwrap()).unwrap());
    let entry = registry::index(index).unwrap();
    let nand: Box<dyn Nand> = Box::new(shared.clone());
    let mut tree = (entry.format)(nand, &Settings::new(RecordFormat::new(8, 4))).unwrap();
    for key in 0..300u64 {
        tree.insert(&key.to_be_bytes(), &[7; 4]).unwrap();
    }
    tree.close().unwrap();
    drop(tree);
    damage(&mut shared.lock());
    chip::save_image(path, &shared.lock()).unwrap();
}

#[test]
fn shells_and_the_manual_know_every_command() {
    const COMMANDS: [&str; 3] = ["compare", "torture", "repro"];
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = nandex(&["completions", shell]);
        assert!(script.status.success(), "{}", stderr(&script));
        let has = |word: &str| stdout(&script).contains(word);
        assert!(COMMANDS.into_iter().all(has) && has("durability"), "{shell}");
    }
    assert_refused(&["completions", "dos"], &["dos", "bash"]);

    let folder = tempfile::tempdir().unwrap();
    let manual = nandex(&["man", folder.path().to_str().unwrap()]);
    assert!(manual.status.success(), "{}", stderr(&manual));
    assert!(fs::read_to_string(folder.path().join("nandex.1")).unwrap().contains("Exit codes: 0 done"));
    for command in COMMANDS {
        let page = fs::read_to_string(folder.path().join(format!("nandex-{command}.1"))).unwrap();
        assert!(page.contains("seed"), "{command}");
    }
    let nowhere = nandex(&["man", folder.path().join("nowhere").to_str().unwrap()]);
    assert_eq!(nowhere.status.code(), Some(1));
    assert!(stderr(&nowhere).contains("nowhere"), "{}", stderr(&nowhere));
}

#[test]
fn a_sound_image_is_told_apart_from_an_empty_and_a_broken_one() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("chip.img");
    let check = |more: &[&str]| nandex(&[&["check", image.to_str().unwrap()], more].concat());
    save_image(&image, ("mlc-64m", "mu"), |_| {});
    let sound = check(&[]);
    assert_eq!(sound.status.code(), Some(0), "{}{}", stdout(&sound), stderr(&sound));
    assert!(stdout(&sound).contains("index mu, records of 8/4 bytes"), "{}", stdout(&sound));
    assert!(stdout(&sound).contains("300 records") && stdout(&sound).contains("every invariant holds"));
    assert_eq!(check(&["--record", "4/4"]).status.code(), Some(1));

    save_image(&image, ("at45db161e", "vmtree-ow"), |_| {});
    let nor = check(&[]);
    assert_eq!(nor.status.code(), Some(0), "{}{}", stdout(&nor), stderr(&nor));
    assert!(stdout(&nor).contains("index vmtree-ow, records of 8/4 bytes"), "{}", stdout(&nor));

    let empty = SimChip::new(&chip::find("mlc-64m").unwrap()).unwrap();
    chip::save_image(&image, &empty).unwrap();
    let none = check(&[]);
    assert_eq!(none.status.code(), Some(1));
    assert!(stdout(&none).contains("no index"), "{}", stdout(&none));

    let mut bytes = fs::read(&image).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    fs::write(&image, bytes).unwrap();
    let broken = check(&[]);
    assert_eq!((broken.status.code(), stdout(&broken)), (Some(2), ""));
    assert!(stderr(&broken).contains("chip.img"), "{}", stderr(&broken));
}

#[test]
fn an_image_that_somebody_changes_is_not_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("chip.img");
    save_image(&image, ("mlc-64m", "mu"), |_| {});
    for command in ["check", "inspect"] {
        let run = || nandex(&[command, image.to_str().unwrap()]);
        let owner = Lock::take(&image, Access::Change).unwrap();
        let refused = run();
        assert_eq!((refused.status.code(), stdout(&refused)), (Some(1), ""));
        let why = stderr(&refused);
        assert!(why.contains("chip.img") && why.contains("in use"), "{command}: {why}");
        drop(owner);
        let other = Lock::take(&image, Access::Look).unwrap();
        assert_eq!(run().status.code(), Some(0), "{command}: beside another that looks");
        drop(other);
    }
}

#[test]
fn an_image_is_inspected_down_to_its_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("chip.img");
    let inspect = |more: &[&str]| nandex(&[&["inspect", image.to_str().unwrap()], more].concat());
    save_image(&image, ("mlc-64m", "mu"), |_| {});
    let before = fs::read(&image).unwrap();
    let seen = inspect(&[]);
    assert!(seen.status.success(), "{}", stderr(&seen));
    for word in
        ["raw NAND: mu\n", "records of 8/4 bytes", "height 1, 300 records", "checkpoint", "erases of a block"]
    {
        assert!(stdout(&seen).contains(word), "no '{word}' in {}", stdout(&seen));
    }
    let json: serde_json::Value = serde_json::from_str(stdout(&inspect(&["--json"]))).unwrap();
    let root = json["tree"]["nodes"][0]["page"].as_u64().unwrap().to_string();
    assert_eq!((json["records"].as_u64(), json["record"][0].as_u64()), (Some(300), Some(8)));
    let page = inspect(&["--page", &root]);
    assert!(stdout(&page).contains("the root, a leaf") && stdout(&page).contains("level 1, key 299 = 299"));
    assert_eq!(fs::read(&image).unwrap(), before);

    assert_refused(&["inspect", image.to_str().unwrap(), "--page", "4000000"], &["--page", "16384 pages"]);
    assert_refused(&["inspect", "no-such-image"], &["no-such-image", "not there"]);
    assert_refused(&["play", "mue"], &["scene 'mue'", "mu"]);
}

#[cfg(unix)]
#[test]
fn ctrl_c_leaves_the_rows_written() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.json");
    let mut child = Command::new(env!("CARGO_BIN_EXE_nandex"))
        .args(["compare", "--index", "wandering", "--workload", "uniform", "--set", "records=1000"])
        .args(["--ops", "4000000"])
        .args(["--json", file.to_str().unwrap()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_secs(1));
    assert!(child.try_wait().unwrap().is_none(), "it ended before it was interrupted");
    let signal = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(signal.success());
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let json: serde_json::Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    assert!(json["runs"][0]["error"].as_str().unwrap().contains("cancelled"), "{json}");
}

/// A small block trace in this folder.
fn block_trace(folder: &Path) -> String {
    let file = folder.join("blk.csv");
    let lines = (0..400u32).map(|i| {
        let sector = i.wrapping_mul(2_654_435_761) % 4096;
        format!("{},{sector},{},{}\n", if i % 4 == 0 { "R" } else { "W" }, 1 + i % 16, i * 1000)
    });
    fs::write(&file, format!("op,sector,sectors,time_us\n{}", lines.collect::<String>())).unwrap();
    file.to_str().unwrap().to_string()
}

#[test]
fn a_block_trace_is_replayed_on_ftls_disks_and_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let trace = block_trace(folder.path());
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let (report, map, file, csv) = (at("r.html"), at("map.svg"), at("pages.img"), at("r.csv"));
    let command = [
        "replay",
        "--trace",
        &trace,
        "--chip",
        "slc-64m",
        "--fill",
        "touched",
        "--ftl",
        "page-map,disk,disk-flat",
        "--file",
        &file,
        "--report",
        &report,
        "--map",
        &map,
        "--csv",
        &csv,
    ];
    let output = nandex(&command);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.contains("trace blk (csv): 100 reads") && text.contains("300 writes"), "{text}");
    assert!(
        text.contains("WALL CLOCK") && text.contains("writes of part of a page were made whole"),
        "{text}"
    );
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    assert!(fs::read_to_string(&report).unwrap().contains("plot-latency"));
    assert!(fs::read_to_string(&map).unwrap().starts_with("<svg"));
    let mut csv = csv::Reader::from_path(&csv).unwrap();
    let rows: Vec<csv::StringRecord> = csv.records().map(Result::unwrap).collect();
    let clocks: Vec<&str> = rows.iter().map(|row| &row[3]).collect();
    assert_eq!(clocks, ["simulated", "simulated", "simulated", "wall clock"]);
    assert!(rows.iter().all(|row| row[4].is_empty() && row[5] == *"400"));
    // What is in a file is not overwritten unasked.
    let output = nandex(&command);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains("allow it with --overwrite"), "{}", stdout(&output));
    let output = nandex(&[&command[..], &["--overwrite"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
}

#[test]
fn any_ftl_is_replayed_behind_a_tbm_too() {
    let folder = tempfile::tempdir().unwrap();
    block_trace(folder.path());
    // By its bare name, from the folder of the full traces.
    let output = Command::new(env!("CARGO_BIN_EXE_nandex"))
        .args(["replay", "--trace", "blk.csv", "--chip", "slc-64m", "--fill", "touched"])
        .args(["--ftl", "fast,tbm+fast,tbm+all", "--set", "tbm_blocks=4"])
        .env("NANDEX_DATA", folder.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    let head = text.lines().find(|line| line.starts_with("tbm+fast, tbm+page-map")).unwrap();
    assert!(text.contains("4 buffer blocks and 2 to spare"), "{head}");
    for name in ["fast", "tbm+fast", "tbm+page-map", "tbm+hftl"] {
        let rows = text.lines().filter(|line| line.split_whitespace().next() == Some(name)).count();
        assert_eq!(rows, if name == "fast" { 5 } else { 6 }, "{name}: {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
}

#[test]
fn a_replay_is_the_same_whatever_the_threads() {
    let folder = tempfile::tempdir().unwrap();
    let trace = block_trace(folder.path());
    let run = |threads: &str| {
        let output =
            nandex(&["replay", "--trace", &trace, "--ftl", "all,disk", "--threads", threads, "--csv", "-"]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        output.stdout
    };
    assert!(run("1") == run("3"));
}

#[test]
fn a_replay_refuses_what_makes_no_sense() {
    let folder = tempfile::tempdir().unwrap();
    let trace = block_trace(folder.path());
    assert_refused(
        &["replay", "--trace", &trace, "--ftl", "pagemap"],
        &["--ftl", "did you mean 'page-map'?"],
    );
    assert_refused(
        &["replay", "--trace", &trace, "--ftl", "tbm+fats"],
        &["--ftl", "did you mean 'tbm+fast'?"],
    );
    assert_refused(
        &["replay", "--trace", &trace, "--ftl", "fast", "--set", "tbm_blocks=9"],
        &["--set", "no option 'tbm_blocks'"],
    );
    assert_refused(&["replay", "--trace", &trace, "--format", "csvv"], &["--format", "did you mean 'csv'?"]);
    assert_refused(&["replay", "--trace", &trace, "--event", "Z"], &["--event", "known: Q, D, C"]);
    assert_refused(&["replay", "--trace", &trace, "--map", "x.gif"], &["--map", ".svg or .png"]);
    assert_refused(&["replay", "--trace", &trace, "--set", "nothing=1"], &["--set", "no option 'nothing'"]);
    assert_refused(&["replay", "--trace", &trace, "--ftl", "none"], &["--ftl", "--file PATH"]);
    assert_refused(&["replay", "--trace", &trace, "--overwrite"], &["--file"]);
    assert_refused(&["replay", "--trace", "no/such.csv"], &["no/such.csv"]);
    fs::write(&trace, "op,sector,sectors\nW,1,1\nW,one,1\n").unwrap();
    assert_refused(
        &["replay", "--trace", &trace],
        &["blk.csv: line 3: address 'one'", "expected op,sector,sectors"],
    );
}

#[test]
fn counts_are_printed_and_their_traces_written() {
    let folder = tempfile::tempdir().unwrap();
    let traces = folder.path().join("traces");
    let written = traces.to_str().unwrap();
    let output = nandex(&["counts", "--ftl", "page-map", "--order", "ascending", "--write-trace", written]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.contains("hot-cold") && text.lines().all(|line| line.chars().count() <= 120), "{text}");
    let csv = nandex(&["counts", "--ftl", "page-map", "--order", "ascending", "--csv", "-"]);
    assert!(stdout(&csv).starts_with("trace,page_order,ftl,host_page_writes,switch_merges"));
    // The same trace through the front door: what is written is what was counted.
    let trace = traces.join("sequential.csv");
    assert_eq!(fs::read_to_string(&trace).unwrap().lines().count(), 1025);
    let chip = folder.path().join("counts.toml");
    let shape = "like = \"mlc-64m\"\npage_bytes = 512\nspare_bytes = 64\npages_per_block = 16\nblocks = 64\n";
    fs::write(&chip, shape).unwrap();
    let (trace, chip) = (trace.to_str().unwrap(), chip.to_str().unwrap());
    let replay = nandex(&[
        "replay", "--trace", trace, "--chip", chip, "--fill", "none", "--ftl", "page-map", "--csv", "-",
    ]);
    let cell = |csv: &str, name: &str, row: usize| {
        let mut csv = csv::Reader::from_reader(csv.as_bytes());
        let place = csv.headers().unwrap().iter().position(|head| head == name).unwrap();
        csv.records().nth(row).unwrap().unwrap()[place].to_string()
    };
    for name in ["page_programs", "block_erases", "page_reads", "collections"] {
        assert_eq!(cell(stdout(&csv), name, 0), cell(stdout(&replay), name, 0), "{name}");
    }
}

//! The pages of the indexes show the rows of `results/field.csv`: what a device meets after its first day.
//! `make field` measures them. `NANDEX_BLESS=1 cargo test -p nandex-lab --test suite field_docs::` writes the
//! pages anew from rows that are there; with `NANDEX_FIELD=DIR`, where `make field` left its runs, the rows.
#![allow(clippy::unwrap_used)]

use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;

const ROWS: &str = "results/field.csv";
const HEAD: &str = "index,records_max,closed_us,cut_us,uniform_us,local_us,wear_mean,wear_max";
const BEGIN: &str = "<!-- field: ";
const END: &str = "<!-- end -->";
const TABLE: &str = "| index | records at most | mount and first change: closed, cut | slowest: uniform, local keys | \
                     wear |\n|---|---|---|---|---|\n";

fn root(file: &str) -> String {
    format!("{}/../../{file}", env!("CARGO_MANIFEST_DIR"))
}

fn is_blessed() -> bool {
    std::env::var_os("NANDEX_BLESS").is_some()
}

/// The columns of each index, in the order of the file.
fn kept() -> Vec<(String, Vec<String>)> {
    let text = fs::read_to_string(root(ROWS)).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some(HEAD));
    lines
        .map(|line| {
            let mut cells = line.split(',').map(String::from);
            (cells.next().unwrap(), cells.collect())
        })
        .collect()
}

/// Runs of a comparison by the names of their indexes.
fn runs(directory: &str, file: &str) -> BTreeMap<String, Value> {
    let text = fs::read_to_string(format!("{directory}/{file}.json")).unwrap();
    let all: Value = serde_json::from_str(&text).unwrap();
    let runs = all["runs"].as_array().unwrap().iter().filter(|run| run["error"].is_null());
    runs.map(|run| (run["index"].as_str().unwrap().to_string(), run.clone())).collect()
}

/// The rows out of the runs of `make field`.
fn measured(directory: &str) -> String {
    let [uniform, local, hot] = ["uniform", "local", "hot"].map(|file| runs(directory, file));
    let needs: Vec<Value> =
        serde_json::from_str(&fs::read_to_string(format!("{directory}/needs.json")).unwrap()).unwrap();
    let us = |value: &Value| value["flash_time_ns"].as_u64().map(|ns| ns / 1000);
    let slowest = |run: Option<&Value>| {
        let phases = run?["phases"].as_array()?.iter();
        phases.filter_map(|phase| phase["total"]["flash_time_max_ns"].as_u64()).max().map(|ns| ns / 1000)
    };
    let boot = |run: Option<&Value>, mount: &str| Some(us(&run?[mount])? + us(&run?["first_change"])?);
    let wear = |run: Option<&Value>| -> Option<(f64, u64)> {
        let erases: Vec<u64> = run?["wear_erases"].as_array()?.iter().filter_map(Value::as_u64).collect();
        Some((erases.iter().sum::<u64>() as f64 / erases.len() as f64, *erases.iter().max()?))
    };
    let cell = |value: Option<u64>| value.map_or(String::new(), |value| value.to_string());
    let mut text = format!("{HEAD}\n");
    for index in &needs {
        let name = index["name"].as_str().unwrap();
        let (uniform, local, hot) = (uniform.get(name), local.get(name), hot.get(name));
        if uniform.is_none() && local.is_none() {
            continue;
        }
        let (mean, most) = wear(hot)
            .map_or((String::new(), String::new()), |(mean, most)| (format!("{mean:.2}"), most.to_string()));
        let cells = [
            name.to_string(),
            cell(index["records_max"].as_u64()),
            cell(boot(uniform, "mount_closed")),
            cell(boot(uniform, "mount")),
            cell(slowest(uniform)),
            cell(slowest(local)),
            mean,
            most,
        ];
        let _ = writeln!(text, "{}", cells.join(","));
    }
    text
}

/// A time with three digits at least.
fn time(us: &str) -> String {
    match us.parse::<f64>() {
        Ok(us) if us >= 1e6 => format!("{:.2} s", us / 1e6),
        Ok(us) if us >= 1e5 => format!("{:.0} ms", us / 1e3),
        Ok(us) if us >= 1e4 => format!("{:.1} ms", us / 1e3),
        Ok(us) => format!("{:.2} ms", us / 1e3),
        Err(_) => "-".into(),
    }
}

/// A number with a comma before each three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&[u8]> = digits.as_bytes().rchunks(3).rev().collect();
    String::from_utf8(groups.join(&b',')).unwrap()
}

fn shown(name: &str, cells: &[String]) -> String {
    let wear = match (cells[5].parse::<f64>(), cells[6].parse::<f64>()) {
        (Ok(mean), Ok(most)) if mean > 0.0 => format!("{:.1}", most / mean),
        _ => "-".into(),
    };
    let records = cells[0].parse::<u64>().map_or("-".into(), grouped);
    let [closed, cut, uniform, local] = [1, 2, 3, 4].map(|i| time(&cells[i]));
    format!("| {name} | {records} | {closed}, {cut} | {uniform}, {local} | {wear} |\n")
}

/// A page with its tables anew.
fn page(text: &str, rows: &[(String, Vec<String>)]) -> String {
    let (mut done, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(BEGIN) {
        let line = at + rest[at..].find('\n').unwrap() + 1;
        let wanted = rest[at + BEGIN.len()..line].trim_end().trim_end_matches("-->").trim();
        let end = line + rest[line..].find(END).unwrap();
        done += &rest[..line];
        done += TABLE;
        let is_wanted = |name: &str| wanted == "all" || wanted.split(", ").any(|other| other == name);
        for (name, cells) in rows.iter().filter(|(name, _)| is_wanted(name)) {
            done += &shown(name, cells);
        }
        rest = &rest[end..];
    }
    done + rest
}

fn pages() -> Vec<String> {
    let indexes = fs::read_dir(root("docs/indexes")).unwrap();
    let mut pages: Vec<String> =
        indexes.map(|page| format!("docs/indexes/{}", page.unwrap().file_name().to_str().unwrap())).collect();
    pages.push("results/indexes.md".into());
    pages.sort();
    pages
}

#[test]
fn pages_show_what_a_device_meets() {
    if let Some(directory) = std::env::var("NANDEX_FIELD").ok().filter(|_| is_blessed()) {
        fs::write(root(ROWS), measured(&directory)).unwrap();
    }
    let rows = kept();
    let mut told = Vec::new();
    for name in pages() {
        let text = fs::read_to_string(root(&name)).unwrap();
        let wanted = page(&text, &rows);
        if is_blessed() {
            fs::write(root(&name), &wanted).unwrap();
        } else {
            let how = "NANDEX_BLESS=1 cargo test -p nandex-lab --test suite field_docs::";
            assert!(text == wanted, "{name}: `{how}` writes it");
        }
        if name.starts_with("docs") {
            told.extend(
                rows.iter().map(|row| row.0.clone()).filter(|row| wanted.contains(&format!("| {row} | "))),
            );
        }
    }
    for (name, _) in &rows {
        assert!(told.contains(name), "no page of docs/indexes shows {name}");
    }
}

#[test]
fn a_row_says_what_was_measured() {
    let cells = ["3481600", "6110", "215400", "2403.4", "2750000", "40.00", "48"].map(String::from);
    assert_eq!(shown("mu", &cells), "| mu | 3,481,600 | 6.11 ms, 215 ms | 2.40 ms, 2.75 s | 1.2 |\n");
    let rows = [("mu".to_string(), cells.to_vec()), ("plow".to_string(), vec![String::new(); 7])];
    let text = "a\n<!-- field: plow -->\nold\n<!-- end -->\nb";
    let row = "| plow | - | -, - | -, - | - |\n";
    assert_eq!(page(text, &rows), format!("a\n<!-- field: plow -->\n{TABLE}{row}<!-- end -->\nb"));
}

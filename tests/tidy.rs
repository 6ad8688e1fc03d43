//! The house rules that a machine can keep: which way imports point, what a file's header says, how long a file is.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

/// The rooms of the engine, lowest first. A room uses those before it, itself, and nothing after it.
const ROOMS: [&str; 13] = [
    "units", "codec", "rng", "nand", "ftl", "check", "index", "cache", "log", "nodes", "ordered", "spatial",
    "sensor",
];

/// Rooms on one floor do not name each other.
const APART: [(&str, &str); 4] =
    [("ordered", "spatial"), ("spatial", "ordered"), ("sensor", "ordered"), ("sensor", "spatial")];

/// Lines of a file without its inline tests.
const LINES_MAX: usize = 600;

/// Words of the README.
const README_WORDS_MAX: usize = 600;

/// Spelled in two pieces, so that this file does not contain them.
const LEFT_OPEN: [(&str, &str); 6] =
    [("TO", "DO"), ("FIX", "ME"), ("todo", "!("), ("unimplemented", "!("), ("dbg", "!("), ("#[ig", "nore")];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "target") {
                rust_files(&path, found);
            }
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// Every source file of the project with its path from the root and its text.
fn sources() -> Vec<(String, String)> {
    let mut files = Vec::new();
    for folder in ["src", "crates", "tests", "benches", "examples", "fuzz"] {
        rust_files(&root().join(folder), &mut files);
    }
    files.sort();
    let text = |path: &PathBuf| fs::read_to_string(path).unwrap();
    let name = |path: &PathBuf| path.strip_prefix(root()).unwrap().to_string_lossy().replace('\\', "/");
    files.iter().map(|path| (name(path), text(path))).collect()
}

/// What the tests inside a file do is no one's affair but theirs.
fn without_tests(text: &str) -> &str {
    text.find("#[cfg(test)]").map_or(text, |at| &text[..at])
}

fn is_test(name: &str) -> bool {
    name.starts_with("tests/") || name.contains("/tests/") || name.ends_with("/tests.rs")
}

fn fail_if_any(faults: &[String]) {
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

/// What a file of the engine breaks of the order of the rooms.
fn layer_faults(name: &str, text: &str) -> Vec<String> {
    let room = name.trim_start_matches("src/").split(['/', '.']).next().unwrap();
    let Some(floor) = ROOMS.iter().position(|r| *r == room) else { return Vec::new() };
    let mut faults = Vec::new();
    for (line, used) in text.lines().enumerate() {
        for (above, other) in ROOMS.iter().enumerate() {
            let apart = APART.contains(&(room, *other));
            // An error that wraps the store's stands beside the store, not above it.
            let allowed = above <= floor || (room == "ftl" && *other == "check");
            if (!allowed || apart) && used.contains(&format!("crate::{other}")) && !used.contains("//") {
                faults.push(format!("{name}:{}: {room} may not use {other}", line + 1));
            }
        }
    }
    faults
}

#[test]
fn imports_point_down() {
    let sources = sources();
    let engine = sources.iter().filter(|(name, _)| name.starts_with("src/"));
    let faults: Vec<String> =
        engine.flat_map(|(name, text)| layer_faults(name, without_tests(text))).collect();
    fail_if_any(&faults);
}

#[test]
fn an_import_that_points_up_is_found() {
    let found = layer_faults("src/nand/mod.rs", "use crate::ordered::OrderedIndex;");
    assert_eq!(found, ["src/nand/mod.rs:1: nand may not use ordered"]);
    assert_eq!(layer_faults("src/ordered/mod.rs", "use crate::spatial::Rect;").len(), 1);
    assert!(layer_faults("src/ordered/mod.rs", "use crate::nand::Nand;").is_empty());
}

#[test]
fn a_file_says_what_it_is() {
    let mut faults = Vec::new();
    for (name, text) in sources() {
        let first = text.lines().find(|line| !line.starts_with("#!")).unwrap_or_default();
        let sentence = first.strip_prefix("//! ").unwrap_or_default();
        if sentence.split_whitespace().count() < 3 {
            faults.push(format!("{name}: the first line says nothing of what the file is"));
        }
    }
    fail_if_any(&faults);
}

#[test]
fn files_have_one_subject() {
    let mut faults = Vec::new();
    for (name, text) in sources().iter().filter(|(name, _)| !is_test(name)) {
        let lines = without_tests(text).lines().count();
        if lines > LINES_MAX {
            faults.push(format!("{name}: {lines} lines, more than {LINES_MAX}: two subjects?"));
        }
    }
    fail_if_any(&faults);
}

#[test]
fn nothing_is_left_open() {
    let mut faults = Vec::new();
    for (name, text) in sources() {
        for (number, line) in text.lines().enumerate() {
            for (a, b) in LEFT_OPEN {
                if line.contains(&format!("{a}{b}")) {
                    faults.push(format!("{name}:{}: {a}{b}", number + 1));
                }
            }
        }
    }
    fail_if_any(&faults);
}

/// What the engine does without: panics by omission, printing, orders that differ from run to run, and floating point.
const NOT_IN_ENGINE: [&str; 7] = [".unwrap()", ".expect(", "println!", "HashMap", "HashSet", "f32", "f64"];

/// Floats are numbers of the user's in spatial indexes, whose coordinates they may be. There they are added, subtracted,
/// multiplied, divided and compared, which IEEE 754 defines to the bit, and not given to the functions of a mathematical
/// library, which differ between machines.
const FLOATS_IN: &str = "src/spatial/";
const LIBRARY_FUNCTIONS: [&str; 10] =
    ["sqrt(", "powi(", "powf(", ".exp(", ".ln(", ".sin(", ".cos(", "atan2(", "hypot(", "mul_add("];

#[test]
fn the_engine_neither_unwraps_nor_prints() {
    let mut faults = Vec::new();
    for (name, text) in sources().iter().filter(|(n, _)| n.starts_with("src/") && !is_test(n)) {
        let has_floats = name.starts_with(FLOATS_IN);
        let plain = NOT_IN_ENGINE.iter().filter(|word| !(has_floats && word.starts_with('f')));
        let words: Vec<&str> =
            plain.chain(LIBRARY_FUNCTIONS.iter().filter(|_| has_floats)).copied().collect();
        for (number, line) in without_tests(text).lines().enumerate() {
            let code = line.split("//").next().unwrap();
            for word in &words {
                if code.contains(word) {
                    faults.push(format!("{name}:{}: {word}", number + 1));
                }
            }
        }
    }
    fail_if_any(&faults);
}

/// What would make an input of a test differ from run to run: proptest's own settings beside the one way to take them
/// (`src/inputs.rs`), clocks, threads, processes and the order of hash tables.
const DRAWN: [&str; 14] = [
    "ProptestConfig",
    "TestRunner",
    "with_cases",
    "SystemTime",
    "Instant",
    "thread::current",
    "ThreadId",
    "process::id",
    "RandomState",
    "DefaultHasher",
    "HashMap",
    "HashSet",
    "rand::",
    "{:p}",
];

/// Where [`DRAWN`] words stand on purpose.
const DRAWN_IN: [&str; 2] = ["src/inputs.rs", "tests/tidy.rs"];

/// The code of a file that only tests run.
fn tests_of<'a>(name: &str, text: &'a str) -> &'a str {
    if is_test(name) { text } else { &text[without_tests(text).len()..] }
}

/// What in a file's tests takes inputs that are not the same in every run.
fn drawn_faults(name: &str, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if DRAWN_IN.contains(&name) {
        return faults;
    }
    let tests = tests_of(name, text);
    for line in tests.lines().filter(|line| !line.trim_start().starts_with("//")) {
        let words = DRAWN.iter().filter(|word| line.contains(**word));
        faults.extend(words.map(|word| format!("{name}: {word} in a test")));
    }
    if !text.split("proptest!").skip(1).all(starts_fixed) {
        faults.push(format!("{name}: a proptest without the configuration of src/inputs.rs"));
    }
    faults
}

/// Whether what follows a `proptest!` begins with the fixed configuration.
fn starts_fixed(block: &str) -> bool {
    let first = block.trim_start_matches([' ', '{', '\n']);
    ["inputs", "crate::inputs"].iter().any(|m| first.starts_with(&format!("#![proptest_config({m}::fixed(")))
}

#[test]
fn the_gate_draws_no_inputs() {
    let sources = sources();
    let faults: Vec<String> = sources.iter().flat_map(|(name, text)| drawn_faults(name, text)).collect();
    fail_if_any(&faults);
}

#[test]
fn an_input_that_is_drawn_is_found() {
    let bare = "proptest! {\n    #[test]\n    fn f(a: u8) {}\n}";
    assert_eq!(drawn_faults("tests/a.rs", bare).len(), 1);
    let own = "proptest! {\n    #![proptest_config(ProptestConfig::with_cases(4))]\n}";
    assert_eq!(drawn_faults("tests/a.rs", own).len(), 3);
    let fixed = "proptest! {\n    #![proptest_config(crate::inputs::fixed(4))]\n}";
    assert!(drawn_faults("tests/a.rs", fixed).is_empty());
    let clock = "fn work() {}\n#[cfg(test)]\nmod tests {\n    use std::time::Instant;\n}";
    assert_eq!(drawn_faults("src/a.rs", clock).len(), 1);
    assert!(drawn_faults("src/a.rs", "use std::time::Instant;").is_empty(), "that is no test");
}

#[test]
fn the_readme_is_short() {
    let words = fs::read_to_string(root().join("README.md")).unwrap().split_whitespace().count();
    assert!(words <= README_WORDS_MAX, "README.md has {words} words, more than {README_WORDS_MAX}");
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut faults = Vec::new();
    let mut pages =
        vec![root().join("README.md"), root().join("CHANGELOG.md"), root().join("data/README.md")];
    for folder in ["docs", "docs/indexes", "experiments"] {
        let entries = fs::read_dir(root().join(folder)).unwrap().map(|e| e.unwrap().path());
        pages.extend(entries.filter(|p| p.extension().is_some_and(|e| e == "md")));
    }
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = target.split('#').next().unwrap();
            let remote = file.contains("://") || file.is_empty();
            if !remote && !page.parent().unwrap().join(file).exists() {
                faults.push(format!("{}: {target} leads nowhere", page.display()));
            }
        }
    }
    fail_if_any(&faults);
}

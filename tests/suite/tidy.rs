//! The house rules that a machine can keep: which way imports point, what a file's header says, how long a
//! file is.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

/// The rooms of the engine, lowest first. A room uses those before it, itself, and nothing after it.
const ROOMS: [&str; 25] = [
    "units",
    "shared",
    "codec",
    "rng",
    "bits",
    "queue",
    "ratio",
    "sort",
    "sorted",
    "nand",
    "store",
    "blocks",
    "ftl",
    "check",
    "fault",
    "index",
    "open",
    "cache",
    "record_log",
    "log",
    "unit_layer",
    "ordered",
    "spatial",
    "sensor",
    "lib",
];

/// Rooms on one floor do not name each other.
const APART: [(&str, &str); 8] = [
    ("log", "ftl"),
    ("log", "record_log"),
    ("unit_layer", "log"),
    ("unit_layer", "record_log"),
    ("spatial", "ordered"),
    ("spatial", "log"),
    ("sensor", "ordered"),
    ("sensor", "spatial"),
];

/// Lines of a file without its inline tests.
const LINES_MAX: usize = 600;

/// Columns of a comment: those that rustfmt keeps the code to.
const COLUMNS: usize = 110;

/// Words of the README, its tables included.
const README_WORDS_MAX: usize = 750;

/// Spelled in two pieces, so that this file does not contain them.
const LEFT_OPEN: [(&str, &str); 6] =
    [("TO", "DO"), ("FIX", "ME"), ("todo", "!("), ("unimplemented", "!("), ("dbg", "!("), ("#[ig", "nore")];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The files of a folder and those below it whose names end so.
fn files_of(ending: &str, folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "target") {
                files_of(ending, &path, found);
            }
        } else if path.extension().is_some_and(|e| e == ending) {
            found.push(path);
        }
    }
}

/// Every source file of the project with its path from the root and its text.
fn sources() -> Vec<(String, String)> {
    let mut files = Vec::new();
    for folder in ["src", "crates", "data", "experiments", "tests", "benches", "examples", "fuzz"] {
        files_of("rs", &root().join(folder), &mut files);
    }
    files.sort();
    let text = |path: &PathBuf| fs::read_to_string(path).unwrap();
    let name = |path: &PathBuf| path.strip_prefix(root()).unwrap().to_string_lossy().replace('\\', "/");
    files.iter().map(|path| (name(path), text(path))).collect()
}

/// The lines of a file, each with whether only tests have it: the item below a `#[cfg(test)]`, from that line
/// to the one on which rustfmt ends the item, at the same indentation.
fn lines_by_use(text: &str) -> Vec<(&str, bool)> {
    let mut indentation = None;
    let mut lines = Vec::new();
    for line in text.lines() {
        let code = line.trim_start();
        let indented = line.len() - code.len();
        if indentation.is_none() && code.starts_with("#[cfg(test)]") {
            indentation = Some(indented);
        }
        lines.push((line, indentation.is_some()));
        let is_attribute = code.starts_with("#[") || code.starts_with("//");
        if indentation == Some(indented) && !is_attribute && code.ends_with([';', '}', ',']) {
            indentation = None;
        }
    }
    lines
}

/// A file without what is in it for tests alone, whose lines are left empty: what tests do is no one's affair
/// but theirs.
fn without_tests(text: &str) -> String {
    lines_by_use(text)
        .iter()
        .map(|(line, in_test)| format!("{}\n", if *in_test { "" } else { line }))
        .collect()
}

fn is_test(name: &str) -> bool {
    name == "src/inputs.rs"
        || name.starts_with("src/testing/schemes/")
        || name.starts_with("tests/")
        || name.contains("/tests/")
        || name.ends_with("/tests.rs")
}

fn fail_if_any(faults: &[String]) {
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

/// The folder of the literature, which has rooms as the engine has.
const PAPERS: &str = "crates/nandex-papers/";

fn is_of_engine(name: &str) -> bool {
    name.trim_start_matches(PAPERS).starts_with("src/")
}

/// Whether a line names a room, of its own crate or of the engine.
fn names(line: &str, room: &str) -> bool {
    ["crate", "nandex"].iter().any(|root| line.contains(&format!("{root}::{room}")))
}

/// The breaches, in a file of the engine, of the order of the rooms.
fn layer_faults(name: &str, text: &str) -> Vec<String> {
    let path = name.trim_start_matches(PAPERS).trim_start_matches("src/");
    let room = path.split(['/', '.']).next().unwrap();
    let Some(floor) = ROOMS.iter().position(|r| *r == room) else { return Vec::new() };
    let mut faults = Vec::new();
    for (line, used) in text.lines().enumerate() {
        for (above, other) in ROOMS.iter().enumerate() {
            let apart = APART.contains(&(room, *other));
            // An error that wraps the store's stands beside the store, not above it.
            let allowed = above <= floor
                || (matches!(room, "store" | "blocks" | "ftl") && ["check", "fault"].contains(other));
            if (!allowed || apart) && names(used, other) && !used.contains("//") {
                faults.push(format!("{name}:{}: {room} may not use {other}", line + 1));
            }
        }
    }
    faults
}

#[test]
fn imports_point_down() {
    let sources = sources();
    let engine = sources.iter().filter(|(name, _)| is_of_engine(name));
    let faults: Vec<String> =
        engine.flat_map(|(name, text)| layer_faults(name, &without_tests(text))).collect();
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

/// Comments that are wider than the columns of the code; a table or a drawing is as wide as it is.
fn wide_comments(name: &str, text: &str) -> Vec<String> {
    let (mut faults, mut is_drawing) = (Vec::new(), false);
    for (number, line) in text.lines().enumerate() {
        let is_comment = line.trim_start().starts_with("//");
        is_drawing = is_comment && is_drawing != line.contains("```");
        let is_one_word = line.split_whitespace().count() < 3;
        let columns = line.chars().count();
        if is_comment && !is_drawing && !is_one_word && !line.contains("| ") && columns > COLUMNS {
            faults.push(format!("{name}:{}: a comment of {columns} columns", number + 1));
        }
    }
    faults
}

#[test]
fn comments_keep_to_the_columns() {
    let faults: Vec<String> = sources().iter().flat_map(|(name, text)| wide_comments(name, text)).collect();
    fail_if_any(&faults);
    let wide = format!("// {}\n", "word ".repeat(30));
    assert_eq!(wide_comments("a.rs", &wide).len(), 1);
    assert!(wide_comments("a.rs", "/// | a | b |\n").is_empty());
}

#[test]
fn files_have_one_subject() {
    let mut faults = Vec::new();
    for (name, text) in sources().iter().filter(|(name, _)| !is_test(name)) {
        let lines = lines_by_use(text).iter().filter(|(_, in_test)| !in_test).count();
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

/// The things that the engine does without: panics by omission, printing, orders that differ from run to run,
/// and floating point.
const NOT_IN_ENGINE: [&str; 7] = [".unwrap()", ".expect(", "println!", "HashMap", "HashSet", "f32", "f64"];

/// Floats are numbers of the user's in spatial indexes, whose coordinates they may be. There they are added,
/// subtracted, multiplied, divided and compared, which IEEE 754 defines to the bit, and not given to the
/// functions of a mathematical library, which differ between machines.
const FLOATS_IN: &str = "src/spatial/";
const LIBRARY_FUNCTIONS: [&str; 10] =
    ["sqrt(", "powi(", "powf(", ".exp(", ".ln(", ".sin(", ".cos(", "atan2(", "hypot(", "mul_add("];

/// The things in a file that the engine does without.
fn engine_faults(name: &str, text: &str) -> Vec<String> {
    let has_floats = name.trim_start_matches(PAPERS).starts_with(FLOATS_IN);
    let plain = NOT_IN_ENGINE.iter().filter(|word| !(has_floats && word.starts_with('f')));
    let words: Vec<&str> = plain.chain(LIBRARY_FUNCTIONS.iter().filter(|_| has_floats)).copied().collect();
    let mut faults = Vec::new();
    for (number, line) in without_tests(text).lines().enumerate() {
        let code = line.split("//").next().unwrap();
        let found = words.iter().filter(|word| code.contains(**word));
        faults.extend(found.map(|word| format!("{name}:{}: {word}", number + 1)));
    }
    faults
}

#[test]
fn the_engine_neither_unwraps_nor_prints() {
    let sources = sources();
    let engine = sources.iter().filter(|(name, _)| is_of_engine(name) && !is_test(name));
    let faults: Vec<String> = engine.flat_map(|(name, text)| engine_faults(name, text)).collect();
    fail_if_any(&faults);
}

/// The shape of most `mod.rs`: tests are declared above the imports.
const TESTS_FIRST: &str = "//! A room with its tests in a file.

#[cfg(test)]
mod tests;

use crate::nand::Nand;

#[cfg(test)]
fn only_tests_run_this() {
    let ordered = [crate::ordered::NAMES].first().unwrap();
}

impl Nand for Chip {
    #[cfg(test)]
    #[inline]
    fn seen(&self) -> HashMap<u8, u8> {
        self.seen
    }

    fn read(&self) {}
}
";

#[test]
fn what_stands_below_the_declaration_of_tests_is_seen() {
    let name = "src/nand/mod.rs";
    assert!(layer_faults(name, &without_tests(TESTS_FIRST)).is_empty());
    assert!(engine_faults(name, TESTS_FIRST).is_empty());
    let imports = TESTS_FIRST.replace("use crate::nand::Nand;", "use crate::ordered::OrderedIndex;");
    let found = layer_faults(name, &without_tests(&imports));
    assert_eq!(found, [format!("{name}:6: nand may not use ordered")]);
    let unwraps = TESTS_FIRST.replace("fn read(&self) {}", "fn read(&self) { self.seen.first().unwrap(); }");
    assert_eq!(engine_faults(name, &unwraps), [format!("{name}:20: .unwrap()")]);
    let maps = format!("{TESTS_FIRST}\nstatic SEEN: Option<HashMap<u8, u8>> = None;\n");
    assert_eq!(engine_faults(name, &maps), [format!("{name}:23: HashMap")]);
    let seen = lines_by_use(TESTS_FIRST).iter().filter(|(_, in_test)| !in_test).count();
    assert_eq!(seen, TESTS_FIRST.lines().count() - 2 - 4 - 5, "lines of tests do not count");
}

/// The words that would make an input of a test differ from run to run: proptest's own settings beside the
/// one way to take them (`src/inputs.rs`), clocks, threads, processes and the order of hash tables.
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
const DRAWN_IN: [&str; 2] = ["src/inputs.rs", "tests/suite/tidy.rs"];

/// The lines of a file that only tests run.
fn tests_of<'a>(name: &str, text: &'a str) -> Vec<&'a str> {
    let lines = lines_by_use(text);
    lines.iter().filter(|(_, in_test)| *in_test || is_test(name)).map(|(line, _)| *line).collect()
}

/// The places in a file's tests that take inputs that are not the same in every run.
fn drawn_faults(name: &str, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if DRAWN_IN.contains(&name) {
        return faults;
    }
    let tests = tests_of(name, text);
    for line in tests.iter().filter(|line| !line.trim_start().starts_with("//")) {
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
    let mut pages = Vec::new();
    for folder in ["docs", "experiments", "data", "results", "crates"] {
        files_of("md", &root().join(folder), &mut pages);
    }
    pages.extend(["README.md", "CHANGELOG.md"].map(|page| root().join(page)));
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

#[test]
fn the_book_has_every_page_once() {
    let docs = root().join("docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let named: Vec<&str> = summary.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    let mut pages = Vec::new();
    files_of("md", &docs, &mut pages);
    let mut faults = Vec::new();
    for page in pages.iter().map(|page| page.strip_prefix(&docs).unwrap().to_str().unwrap()) {
        let times = named.iter().filter(|name| **name == page).count();
        if times != usize::from(page != "SUMMARY.md") {
            faults.push(format!("docs/{page} stands {times} times in docs/SUMMARY.md"));
        }
    }
    fail_if_any(&faults);
}

/// Files that a source of a crate includes from outside of the crate's folder, which its package would lack.
fn included_from_outside(name: &str, text: &str) -> Vec<String> {
    let crate_root = match name.split('/').next() {
        Some("crates") => name.split('/').take(2).count(),
        Some("data" | "experiments") => 1,
        _ => 0,
    };
    let depth = name.split('/').count() - 1 - crate_root;
    // What only documentation tests have is not in a package either.
    let text = text.replace("doctest, feature = \"bundled\"))]\n#[doc = include_str!(", "");
    let calls = text
        .split("include_")
        .skip(1)
        .filter(|call| call.starts_with("str!(") || call.starts_with("bytes!("));
    let paths = calls.filter_map(|call| call.split('"').nth(1));
    let outside = paths.filter(|path| path.matches("../").count() > depth);
    outside.map(|path| format!("{name}: {path} lies outside of its crate")).collect()
}

#[test]
fn a_crate_includes_nothing_from_outside() {
    let faults: Vec<String> = sources()
        .iter()
        .filter(|(name, _)| name != "tests/suite/tidy.rs")
        .flat_map(|(name, text)| included_from_outside(name, text))
        .collect();
    fail_if_any(&faults);
    let outside = "const X: &str = include_str!(concat!(\"../../../data/\", $name));";
    assert_eq!(included_from_outside("crates/nandex-lab/src/words.rs", outside).len(), 1);
    assert!(included_from_outside("crates/nandex-lab/src/a/b.rs", "include_bytes!(\"../../x\")").is_empty());
}

/// Words that a doc comment must not open with: they point at a noun that the reader would have to look for.
const POINTERS: [&str; 15] = [
    "Its ",
    "Their ",
    "Those ",
    "The same",
    "The one ",
    "The ones ",
    "What ",
    "Of ",
    "As ",
    "It ",
    "They ",
    "So ",
    "Such ",
    "None ",
    "That ",
];

/// Doc comments that open with a pronoun in place of their subject.
fn pointing_comments(name: &str, text: &str) -> Vec<String> {
    let doc = |line: &str| {
        let comment = line.trim_start();
        let words = comment.strip_prefix("///").or_else(|| comment.strip_prefix("//!"))?;
        Some(words.trim_start().to_owned())
    };
    let mut is_open = false;
    let mut faults = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let words = doc(line);
        if let Some(words) = words.as_ref().filter(|_| !is_open)
            && POINTERS.iter().any(|pointer| words.starts_with(pointer))
        {
            faults.push(format!("{name}:{}: a doc comment that names no subject: {words}", number + 1));
        }
        is_open = words.is_some();
    }
    faults
}

#[test]
fn doc_comments_name_their_subject() {
    let files = sources();
    let faults: Vec<String> = files.iter().flat_map(|(name, text)| pointing_comments(name, text)).collect();
    fail_if_any(&faults);
}

#[test]
fn a_doc_comment_without_a_subject_is_found() {
    let text = "//! Its rooms.\n\n/// The state,\n/// Its own.\nfn a() {}\n/// What it is.\nfn b() {}\n// Its sum.\n";
    let found = pointing_comments("a.rs", text);
    assert_eq!(found.len(), 2);
    assert!(found[0].starts_with("a.rs:1:") && found[1].starts_with("a.rs:6:"));
    assert!(pointing_comments("a.rs", "/// Items of a list.\n/// Those of it.\n").is_empty());
}

//! How many parameters a function has, with those that a tuple hides: `(from, to): (Ppn, Ppn)` counts as two.
//! Clippy counts such a tuple as one.

#![allow(clippy::unwrap_used)]

use super::tidy_circles::sources;
use std::path::PathBuf;

/// The most that a function may have, `self` among them.
const MOST: usize = 5;

/// Functions whose parameters are another's: of the interface for C, of a callback of SQLite, of a method of
/// Python with its options by name.
const GIVEN: [&str; 7] = [
    "nandex-c ffi/map.rs: nandex_map_nearest",
    "nandex-c ffi/chip.rs: blank_read",
    "nandex-c ffi/chip.rs: blank_program",
    "nandex-sqlite ffi/words.rs: create_function",
    "nandex-py index.rs: new",
    "nandex-py index.rs: range",
    "nandex-py lab.rs: run_experiment",
];

/// Functions of a crate that are beyond it, as many as today. A row may shrink, and go; no row comes.
const BEYOND: [(&str, usize); 6] = [
    ("nandex", 10),
    ("nandex-lab", 2),
    ("nandex-look", 1),
    ("nandex-papers", 16),
    ("nandex-runner", 6),
    ("nandex-sqlite", 3),
];

/// The parts of a text between commas that no bracket holds.
fn parts(text: &str) -> Vec<&str> {
    let (mut depth, mut before, mut from, mut found) = (0, ' ', 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            '>' if before != '-' => depth -= 1,
            ',' if depth == 0 => {
                found.push(text[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
        before = c;
    }
    found.push(text[from..].trim());
    found.retain(|part| !part.is_empty());
    found
}

/// The text inside the bracket that `text` begins with, and the rest behind it.
fn bracket(text: &str) -> (&str, &str) {
    let (mut depth, mut before) = (0, ' ');
    for (at, c) in text.char_indices() {
        match c {
            '(' | '<' => depth += 1,
            ')' => depth -= 1,
            '>' if before != '-' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return (&text[1..at], &text[at + 1..]);
        }
        before = c;
    }
    (text, "")
}

/// The type of a parameter: the text behind the first colon that no bracket holds and no other colon follows.
fn kind(parameter: &str) -> &str {
    let mut depth = 0;
    for (at, c) in parameter.char_indices() {
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' | '>' => depth -= 1,
            ':' if depth == 0 => return parameter[at + 1..].trim(),
            _ => {}
        }
    }
    "self"
}

fn weight(parameter: &str) -> usize {
    let kind = kind(parameter).trim_start_matches('&');
    let kind = kind.strip_prefix("mut ").unwrap_or(kind);
    if kind.starts_with('(') { parts(bracket(kind).0).len() } else { 1 }
}

/// The functions of a text beyond the most, each with its number of parameters.
fn beyond(text: &str) -> Vec<(String, usize)> {
    let code = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap();
    let code: String = code.lines().map(|line| line.split("//").next().unwrap().to_string() + "\n").collect();
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let rest = &code[at + "fn ".len()..];
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let (name, rest) = rest.split_at(rest.find(|c| !is_word(c)).unwrap_or(rest.len()));
        let rest = if rest.starts_with('<') { bracket(rest).1 } else { rest };
        if name.is_empty() || !rest.starts_with('(') {
            continue;
        }
        let parameters = parts(bracket(rest).0).into_iter().map(weight).sum();
        if parameters > MOST {
            found.push((name.to_string(), parameters));
        }
    }
    found
}

#[test]
fn functions_have_few_parameters_in_tuples_too() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let mut crates = vec![("nandex".to_string(), root.join("src"))];
    for folder in std::fs::read_dir(root.join("crates")).unwrap() {
        let path = folder.unwrap().path();
        crates.push((path.file_name().unwrap().to_string_lossy().into_owned(), path.join("src")));
    }
    let mut faults = Vec::new();
    for (name, folder) in crates {
        let mut files = Vec::new();
        sources(&folder, "", &mut files);
        let found: Vec<String> = files
            .iter()
            .filter(|(path, _)| !path.contains("tests"))
            .flat_map(|(path, text)| {
                beyond(text).into_iter().map(move |(function, _)| format!("{path}: {function}"))
            })
            .filter(|function| !GIVEN.contains(&format!("{name} {function}").as_str()))
            .collect();
        let listed = BEYOND.iter().find(|row| row.0 == name).map_or(0, |row| row.1);
        if found.len() != listed {
            faults.push(format!("{name}: {} functions, listed {listed}\n{}", found.len(), found.join("\n")));
        }
    }
    assert!(faults.is_empty(), "of more than {MOST} parameters\n{}", faults.join("\n"));
}

#[test]
fn a_tuple_counts_as_its_parts() {
    let text = "fn few(&self, at: usize, (a, b): (u8, &[(u8, u8)]), f: &dyn Fn(u8, u8) -> u8) {}\n\
        pub fn many<F: Fn(u8) -> u8>(\n    &self,\n    (a, b): (u8, Option<(u8, u8)>),\n    pair: &mut (u8, u8),\n    at: usize,\n) {}\n";
    assert_eq!(beyond(text), [("many".to_string(), 6)]);
}

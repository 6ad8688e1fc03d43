//! Code in the pages that says where it is from stands there, so that it is compiled: a comment `<!-- from
//! PATH -->` before a block.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

/// The lines of a text without the spaces that all of them begin with, and without empty ones at the ends.
fn bare(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).skip_while(|line| line.is_empty()).collect()
}

/// Blocks of a page that do not stand where they say, and how many there are in all.
fn faults(page: &str, text: &str, source: impl Fn(&str) -> Option<String>) -> (Vec<String>, usize) {
    let mut faults = Vec::new();
    let quoted = text.split("<!-- from ").skip(1).map(|rest| {
        let (path, rest) = rest.split_once(" -->\n").unwrap();
        let block = rest.strip_prefix("```").and_then(|rest| rest.split_once('\n')).unwrap().1;
        (path, block.split_once("```").unwrap().0)
    });
    let count = quoted.clone().count();
    quoted.for_each(|(path, block)| {
        let Some(source) = source(path) else {
            faults.push(format!("{page}: there is no {path}"));
            return;
        };
        let (wanted, lines) = (bare(block), bare(&source));
        if !lines.windows(wanted.len()).any(|window| window == wanted) {
            faults.push(format!("{page}: this does not stand in {path}:\n{block}"));
        }
    });
    (faults, count)
}

fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            pages(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "md") {
            found.push(path);
        }
    }
}

#[test]
fn quoted_code_stands_where_it_is_said_to() {
    let (mut found, mut all, mut count) = (Vec::new(), Vec::new(), 0);
    pages(Path::new("docs"), &mut found);
    for page in found {
        let text = fs::read_to_string(&page).unwrap();
        let (faults, quoted) =
            faults(&page.display().to_string(), &text, |path| fs::read_to_string(path).ok());
        all.extend(faults);
        count += quoted;
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
    assert!(count >= 6, "only {count} blocks say where they are from");
}

#[test]
fn code_that_was_changed_is_found() {
    let page = "<!-- from a.rs -->\n```rust,ignore\nfn a() {\n    b();\n}\n```\n";
    let source = |text: &'static str| move |_: &str| Some(text.to_string());
    assert!(faults("p", page, source("mod m {\n    fn a() {\n        b();\n    }\n}\n")).0.is_empty());
    assert_eq!(faults("p", page, source("fn a() {\n    c();\n}\n")).0.len(), 1);
    assert_eq!(faults("p", page, |_| None).0.len(), 1);
}

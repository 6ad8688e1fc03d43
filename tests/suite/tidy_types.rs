//! How large a type is: its fields, its methods, and the files of it that call each other in circles. A call
//! of `self.x()` from one file into another imports nothing, so the order of imports does not show it.
//!
//! Read by patterns, as rustfmt leaves the code: an `impl path::Trait for Type` is not counted.

#![allow(clippy::unwrap_used)]

use super::tidy_circles::sources;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Fields of a struct, methods in all its `impl` blocks, and files of the largest circle of its calls.
type Size = [usize; 3];

/// The most that a type may have.
const MOST: Size = [16, 70, 3];

/// Types that are beyond it, as large as they are today. A row may shrink, and go; no row comes.
const BEYOND: [(&str, Size); 0] = [];

/// The methods of a type by file, each with the names it calls on itself; and its fields.
#[derive(Default)]
struct Type {
    fields: usize,
    methods: BTreeMap<String, String>,
    calls: BTreeMap<String, BTreeSet<String>>,
}

/// The folder or file at the root of a crate; below `ordered` one folder more.
fn room(path: &str) -> String {
    let mut parts = path.split('/').map(|part| part.trim_end_matches(".rs"));
    let first = parts.next().unwrap();
    if first == "ordered" { format!("{first}/{}", parts.next().unwrap_or_default()) } else { first.into() }
}

fn word(text: &str) -> &str {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    &text[..text.find(|c| !is_word(c)).unwrap_or(text.len())]
}

/// The text behind the generics that it begins with, if any.
fn after_generics(text: &str) -> &str {
    if !text.starts_with('<') {
        return text;
    }
    let (mut depth, mut before) = (0, ' ');
    for (at, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            '>' if before != '-' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &text[at + 1..];
        }
        before = c;
    }
    ""
}

/// The type of an `impl` block by the text from `impl` on.
fn of_impl(text: &str) -> &str {
    let head = after_generics(&text["impl".len()..]).trim_start();
    let first = word(head);
    let rest = after_generics(&head[first.len()..]);
    rest.strip_prefix(" for ").map_or(first, word)
}

/// The rest of a line behind `pub`, `pub(..)`, `const` and `unsafe`.
fn bare(line: &str) -> &str {
    let mut rest = line;
    if let Some(public) = rest.strip_prefix("pub") {
        rest = if public.starts_with('(') {
            public.split_once(") ").map_or("", |parts| parts.1)
        } else {
            public.trim_start()
        };
    }
    for word in ["const ", "unsafe "] {
        rest = rest.strip_prefix(word).unwrap_or(rest);
    }
    rest
}

/// The types of a file, with what stands of them in it.
fn read(path: &str, text: &str, types: &mut BTreeMap<String, Type>) {
    let code = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap();
    let mut lines = code.lines().enumerate().peekable();
    let starts: Vec<usize> = code
        .split_inclusive('\n')
        .scan(0, |at, line| Some(std::mem::replace(at, *at + line.len())))
        .collect();
    while let Some((number, line)) = lines.next() {
        let is_impl = line.starts_with("impl<") || line.starts_with("impl ");
        let is_struct = bare(line).starts_with("struct ");
        if !(is_impl || is_struct) || line.ends_with(['}', ';']) {
            continue;
        }
        let name =
            if is_impl { of_impl(&code[starts[number]..]) } else { word(&bare(line)["struct ".len()..]) };
        let mut fields = 0;
        let found = types.entry(format!("{}::{name}", room(path))).or_default();
        for (_, line) in lines.by_ref().take_while(|(_, line)| !line.starts_with(['}', ')'])) {
            let Some(inner) = line.strip_prefix("    ") else { continue };
            let rest = bare(inner);
            if is_impl {
                if let Some(method) = rest.strip_prefix("fn ") {
                    found.methods.entry(word(method).to_string()).or_insert_with(|| path.to_string());
                }
                let calls =
                    inner.split("self.").skip(1).filter(|call| call[word(call).len()..].starts_with('('));
                found
                    .calls
                    .entry(path.to_string())
                    .or_default()
                    .extend(calls.map(|call| word(call).to_string()));
            } else if !rest.starts_with(' ')
                && !word(rest).is_empty()
                && rest[word(rest).len()..].starts_with(':')
            {
                fields += 1;
            }
        }
        // Of those of one name in a room the largest.
        found.fields = found.fields.max(fields);
    }
}

/// Files of the largest circle: each of them leads to each.
fn largest_circle(found: &Type) -> usize {
    let of = |file: &String| -> BTreeSet<&String> {
        found.calls[file].iter().filter_map(|name| found.methods.get(name)).filter(|to| *to != file).collect()
    };
    let reached = |from: &String| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from.clone()]);
        while let Some(file) = next.pop() {
            if found.calls.contains_key(&file) {
                next.extend(of(&file).into_iter().filter(|to| seen.insert((*to).clone())).cloned());
            }
        }
        seen
    };
    let all: BTreeMap<&String, BTreeSet<String>> =
        found.calls.keys().map(|file| (file, reached(file))).collect();
    let circle = |file: &&String| {
        all[*file].iter().filter(|to| all.get(to).is_some_and(|back| back.contains(*file))).count()
    };
    all.keys().map(|file| circle(file).max(1)).max().unwrap_or(0)
}

fn sizes(root: &Path, name: &str) -> BTreeMap<String, Size> {
    let (mut files, mut types) = (Vec::new(), BTreeMap::new());
    sources(root, "", &mut files);
    files.retain(|(path, _)| !path.contains("tests"));
    files.iter().for_each(|(path, text)| read(path, text, &mut types));
    let size = |found: &Type| [found.fields, found.methods.len(), largest_circle(found)];
    types
        .iter()
        .filter(|(_, found)| !found.methods.is_empty())
        .map(|(key, found)| (format!("{name} {key}"), size(found)))
        .collect()
}

#[test]
fn types_own_few_fields_and_no_type_grows() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let mut all = sizes(&root.join("src"), "nandex");
    assert!(all.len() > 200, "{} types", all.len());
    for folder in fs::read_dir(root.join("crates")).unwrap() {
        let path = folder.unwrap().path();
        all.extend(sizes(&path.join("src"), &path.file_name().unwrap().to_string_lossy()));
    }
    all.retain(|_, size| size.iter().zip(MOST).any(|(has, most)| *has > most));
    let listed = BTreeMap::from(BEYOND.map(|(name, size)| (name.to_string(), size)));
    let differs = |name: &&String| all.get(*name) != listed.get(*name);
    let names: BTreeSet<&String> = all.keys().chain(listed.keys()).filter(differs).collect();
    let told = |name: &&String| format!("{name}: {:?}, listed {:?}", all.get(*name), listed.get(*name));
    let faults: Vec<String> = names.iter().map(told).collect();
    assert!(faults.is_empty(), "[fields, methods, files in a circle]\n{}", faults.join("\n"));
}

#[test]
fn a_type_that_calls_itself_in_a_circle_is_found() {
    let mut types = BTreeMap::new();
    read(
        "log/a.rs",
        "pub struct Log<N: Nand> {\n    nand: N,\n    pub(crate) open: bool,\n}\n\nimpl<N: Nand> Log<N> {\n    pub fn first(&self) {\n        self.second();\n    }\n}\n",
        &mut types,
    );
    read(
        "log/b.rs",
        "impl<N: Nand, F: Fn(u8) -> u8> Log<N, F> {\n    const fn second(&self) {\n        self.third().open()\n    }\n}\n",
        &mut types,
    );
    assert_eq!((types["log::Log"].fields, largest_circle(&types["log::Log"])), (2, 1));
    read(
        "log/c.rs",
        "impl<N> Drop for Log<N> {\n    unsafe fn third(&self) {\n        self.first();\n    }\n}\n",
        &mut types,
    );
    assert_eq!((types["log::Log"].methods.len(), largest_circle(&types["log::Log"])), (3, 3));
}

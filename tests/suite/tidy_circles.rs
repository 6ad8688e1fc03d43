//! The modules of a crate use each other in one direction: no module leads back to itself. Nor does a crate,
//! its tests included, by what is published of it: `cargo package` takes one after the other.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The modules at the root of a crate, each with those it names.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// The crates that are looked at. The engine's rooms have an order of their own, which `tidy.rs` keeps.
const CRATES: [&str; 6] = [
    "crates/nandex-papers",
    "crates/nandex-stacks",
    "crates/nandex-runner",
    "crates/nandex-lab",
    "crates/nandex-report",
    "crates/nandex-cli",
];

/// Every source file below a folder, with its path from there.
pub(crate) fn sources(folder: &Path, prefix: &str, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = format!("{prefix}{}", path.file_name().unwrap().to_string_lossy());
        if path.is_dir() {
            sources(&path, &format!("{name}/"), found);
        } else if name.ends_with(".rs") {
            found.push((name, fs::read_to_string(&path).unwrap()));
        }
    }
}

/// The modules that a text names after `crate::`, in groups too. Comments and inline tests do not count.
fn named(text: &str) -> BTreeSet<String> {
    let code = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code: String = lines.collect::<Vec<_>>().join("\n");
    let mut names = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let first_word = |text: &str| text.trim_start().split(|c| !is_word(c)).next().unwrap().to_string();
        match rest.strip_prefix('{') {
            None => names.extend([first_word(rest)]),
            Some(group) => {
                let mut depth = 0;
                let mut begins = true;
                for (i, c) in group.char_indices() {
                    match c {
                        '{' => depth += 1,
                        '}' if depth == 0 => break,
                        '}' => depth -= 1,
                        ',' if depth == 0 => begins = true,
                        c if begins && is_word(c) => {
                            names.insert(first_word(&group[i..]));
                            begins = false;
                        }
                        _ => {}
                    }
                }
            }
        }
    }
    names
}

fn uses(files: &[(String, String)]) -> Uses {
    let mut uses = Uses::new();
    for (name, text) in files {
        let is_test = name.contains("tests/") || name.ends_with("tests.rs");
        let module = name.split(['/', '.']).next().unwrap();
        if !is_test && !matches!(module, "lib" | "main") {
            uses.entry(module.to_string()).or_default().extend(named(text));
        }
    }
    let modules: BTreeSet<String> = uses.keys().cloned().collect();
    for (module, named) in &mut uses {
        named.retain(|name| name != module && modules.contains(name));
    }
    uses
}

/// The modules that lead back to themselves.
fn in_circles(uses: &Uses) -> Vec<&String> {
    let leads_back = |from: &String| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(module) = next.pop() {
            for used in &uses[module] {
                if used == from {
                    return true;
                }
                if seen.insert(used) {
                    next.push(used);
                }
            }
        }
        false
    };
    uses.keys().filter(|module| leads_back(module)).collect()
}

#[test]
fn no_module_leads_back_to_itself() {
    let mut faults = Vec::new();
    for name in CRATES {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name).join("src");
        let mut files = Vec::new();
        sources(&folder, "", &mut files);
        let uses = uses(&files);
        assert!(uses.len() > 4, "{name}: {} modules", uses.len());
        for module in in_circles(&uses) {
            faults.push(format!("{name}: {module} is in a circle; it uses {:?}", uses[module]));
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn a_circle_is_found() {
    let file = |name: &str, text: &str| (name.to_string(), text.to_string());
    let mut files = vec![
        file("chip.rs", "use crate::results::Facts;\n"),
        file("results.rs", "// crate::report\nuse crate::{error::E, stats::{a, report}};\n"),
        file("report/mod.rs", "use crate::results::Results;\n"),
        file("error.rs", ""),
        file("stats.rs", "\n#[cfg(test)]\nmod tests {\n    use crate::results::Results;\n}\n"),
        file("lib.rs", "pub use crate::report::show;\n"),
    ];
    assert!(in_circles(&uses(&files)).is_empty());
    files.push(file("results/more.rs", "fn f() { crate::report::show() }\n"));
    assert_eq!(in_circles(&uses(&files)), ["report", "results"]);
}

/// The crates of the project that the manifest of one names with a version, so that they must be published
/// before it. `shared` are the workspace's entries.
fn needed_first(manifest: &str, shared: &str) -> BTreeSet<String> {
    let has_version = |line: &str| line.contains("version");
    let is_published = |line: &&str| {
        let name = line.split(['.', ' ']).next().unwrap();
        let of_workspace = shared.lines().find(|entry| entry.starts_with(&format!("{name} = ")));
        has_version(if line.contains("workspace = true") { of_workspace.unwrap_or_default() } else { line })
    };
    let ours = manifest.lines().filter(|line| line.starts_with("nandex") && line.contains(['.', '{']));
    ours.filter(is_published).map(|line| line.split(['.', ' ']).next().unwrap().to_string()).collect()
}

#[test]
fn no_crate_is_needed_to_publish_itself() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let shared = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let members = shared.lines().find(|line| line.starts_with("members = [")).unwrap();
    let mut needs = Uses::from([("nandex".to_string(), BTreeSet::new())]);
    for folder in members.split('"').skip(1).step_by(2) {
        let manifest = fs::read_to_string(root.join(folder).join("Cargo.toml")).unwrap();
        let name = manifest.split("name = \"").nth(1).unwrap().split('"').next().unwrap();
        needs.insert(name.to_string(), needed_first(&manifest, &shared));
    }
    assert!(needs.len() > 10 && needs["nandex-cli"].contains("nandex-lab"), "{needs:?}");
    assert!(in_circles(&needs).is_empty(), "{:?} of {needs:?}", in_circles(&needs));
}

#[test]
fn what_has_no_version_is_not_needed_first() {
    let shared = "nandex-lab = { path = \"lab\", version = \"0.1.0\" }\nnandex-kit = { path = \"kit\" }\n";
    let manifest = "nandex-lab = { workspace = true, features = [\"a\"] }\nnandex-lab.workspace = true\n\
                    nandex-kit.workspace = true\nnandex = { path = \".\" }\nname = \"nandex-x\"\n";
    assert_eq!(needed_first(manifest, shared), BTreeSet::from(["nandex-lab".to_string()]));
}

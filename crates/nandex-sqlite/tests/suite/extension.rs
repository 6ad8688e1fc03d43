//! The loadable extension in another SQLite: that of python3, which has no batches.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use crate::extension_here::extension;
use crate::sizes::sized;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Exit code of the client if its Python cannot load extensions.
const CANNOT: i32 = 77;

fn client(arguments: &[&str]) -> Command {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/extension/client.py");
    let mut command = Command::new("python3");
    command.arg(script).arg(extension()).args(arguments);
    command
}

/// Runs the client to its end. Returns `None` and prints a note if its Python cannot load extensions.
fn run(arguments: &[&str]) -> Option<String> {
    let Output { status, stdout, stderr } = client(arguments).output().unwrap();
    let (out, errors) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    if status.code() == Some(CANNOT) {
        println!("skipped, since this python3 loads no extensions: {out}");
        return None;
    }
    assert!(status.success(), "{arguments:?}: {status}\n{out}{errors}");
    Some(out.trim().to_string())
}

#[test]
fn the_recipes_work() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("chip.img");
    let done = run(&["works", image.to_str().unwrap()]);
    assert!(done.is_none_or(|text| text == "works"));
}

#[test]
fn a_chip_in_memory_works() {
    assert!(run(&["simulates"]).is_none_or(|text| text == "works"));
}

#[test]
fn every_mistake_has_a_text_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    if let Some(told) = run(&["tells", folder.path().to_str().unwrap()]) {
        println!("{told}");
    }
}

#[test]
fn a_refused_statement_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let lives = std::env::var("NANDEX_REFUSALS").unwrap_or_else(|_| sized(3, 8).to_string());
    if let Some(told) = run(&["refuses", folder.path().to_str().unwrap(), &lives]) {
        println!("{told}");
    }
}

#[test]
fn pythons_own_tests_of_sqlite_pass() {
    let suite = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/sqlite/suite.py");
    let Output { status, stdout, stderr } =
        Command::new("python3").arg(suite).arg(extension()).output().unwrap();
    let (out, errors) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    if status.code() == Some(CANNOT) {
        return println!("skipped: {out}");
    }
    assert!(status.success(), "{status}\n{out}{errors}");
    // A test that opens no database on the chip would tell nothing.
    assert!(out.contains(" 0 failures, 0 errors, ") && !out.contains("; 0 databases"), "{out}");
    println!("{out}");
}

/// The blocks of the page on this crate in some language, as written.
fn recipes(language: &str) -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/sqlite.md");
    let page = std::fs::read_to_string(page).unwrap();
    let begin = format!("```{language}\n");
    let blocks = page.split(&begin).skip(1);
    blocks.map(|rest| rest.split("```").next().unwrap().to_string()).collect()
}

/// Whether a program runs and ends well.
fn runs(program: &str, arguments: &[&str]) -> bool {
    let tried = Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    tried.is_ok_and(|status| status.success())
}

/// A Python that can load extensions. Prints a note if there is none.
fn python() -> Option<&'static str> {
    let can = "import sqlite3; sqlite3.connect(':memory:').enable_load_extension(True)";
    let found = ["python3", "/usr/bin/python3"].into_iter().find(|python| runs(python, &["-c", can]));
    if found.is_none() {
        println!("skipped: no python3 here loads extensions by itself");
    }
    found
}

/// True if the shell of SQLite is installed. Prints a note otherwise.
fn has_shell() -> bool {
    let found = runs("sqlite3", &["--version"]);
    if !found {
        println!("skipped: no sqlite3 here");
    }
    found
}

#[test]
fn the_examples_work() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let here = extension();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let adds = |program: &str, script: &str, image: &str, text: &str| {
        let mut command = Command::new(program);
        let done = command.arg(examples.join(script)).arg(&here).args([image, text]).output().unwrap();
        let (out, errors) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        assert!(done.status.success(), "{script}: {out}{errors}");
        out.into_owned()
    };
    if let Some(python) = python() {
        let image = path("python.img");
        assert_eq!(adds(python, "notes.py", &image, "it's one"), "it's one\n");
        assert_eq!(adds(python, "notes.py", &image, "two"), "it's one\ntwo\n");
    }
    if has_shell() {
        let image = path("shell.img");
        assert_eq!(adds("sh", "notes.sh", &image, "it's one"), "it's one\n");
        assert_eq!(adds("sh", "notes.sh", &image, "two"), "it's one\ntwo\n");
        let copy = path("shell.img.db");
        let counted = Command::new("sqlite3").args([&copy, "SELECT count(*) FROM note"]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&counted.stdout), "2\n");
    }
}

/// An example that cannot do its work tells the reason and ends with the documented exit code.
#[test]
fn the_examples_say_why_they_cannot() {
    let folder = tempfile::tempdir().unwrap();
    let here = extension();
    let here = here.to_str().unwrap();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let told = |program: &str, arguments: &[&str], code: i32, words: &[&str]| {
        let done = Command::new(program).args(arguments).current_dir(folder.path()).output().unwrap();
        let (out, errors) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        assert_eq!(done.status.code(), Some(code), "{arguments:?}: {out}{errors}");
        assert!(words.iter().all(|word| errors.contains(word)), "{arguments:?}: {errors}");
        assert!(errors.lines().count() == 1 && out.is_empty(), "{arguments:?}: {out}{errors}");
    };
    for (program, script) in [("python3", "notes.py"), ("sh", "notes.sh")] {
        let script = examples.join(script);
        let script = script.to_str().unwrap();
        for arguments in [&[script][..], &[script, here], &[script, here, "chip.img", "one", "two"]] {
            if runs(program, &["--version"]) || program == "sh" {
                told(program, arguments, 2, &["usage: notes.", "EXTENSION IMAGE TEXT"]);
            }
        }
    }
    let script = examples.join("notes.py");
    let script = script.to_str().unwrap();
    // A sqlite3 without the method, whatever this Python has.
    let without = format!(
        "import sqlite3, sys, types; real = sqlite3.connect; \
         sqlite3.connect = lambda *a, **k: types.SimpleNamespace(); sys.argv = ['notes.py', 'a', 'b', 'c']; \
         exec(open({script:?}).read())"
    );
    if runs("python3", &["--version"]) {
        told("python3", &["-c", &without], 1, &["notes.py: ", "without loading extensions"]);
    }
    if let Some(python) = python() {
        told(python, &[script, "./none", "chip.img", "one"], 1, &["notes.py: cannot load ./none"]);
        std::fs::write(folder.path().join("letter"), "Dear Sir").unwrap();
        told(python, &[script, here, "letter", "one"], 1, &["notes.py: ", "no image of a chip"]);
    }
}

#[test]
fn the_page_tells_what_works() {
    let folder = tempfile::tempdir().unwrap();
    let here = extension();
    std::os::unix::fs::symlink(&here, folder.path().join(here.file_name().unwrap())).unwrap();
    let check = |program: &str, arguments: &[&str], wanted: &str| {
        let done = Command::new(program).args(arguments).current_dir(folder.path()).output().unwrap();
        let (out, errors) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        assert!(done.status.success(), "{program}: {out}{errors}");
        assert!(out.contains(wanted), "{program}: {out}{errors}");
    };
    let (python_recipes, shell_recipes) = (recipes("python"), recipes("sh"));
    assert_eq!((python_recipes.len(), shell_recipes.len()), (1, 1));
    let python = python();
    if let Some(python) = python {
        check(python, &["-c", &python_recipes[0]], "best_page_size 2048");
    }
    if has_shell() && python.is_some() {
        check("sh", &["-c", &shell_recipes[0]], "2\n");
    }
}

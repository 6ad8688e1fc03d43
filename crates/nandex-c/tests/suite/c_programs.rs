//! C and C++ programs against the static library: the examples, and programs that call it wrongly.
//!
//! The programs link the archive built with this test. Without a C compiler nothing is run.
#![cfg(all(unix, feature = "std", feature = "all-indexes"))]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn crate_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The newest static library in the folder of this test. Cargo builds both kinds of the library for its
/// tests.
fn library() -> PathBuf {
    let executable = std::env::current_exe().expect("this test has a path");
    let folder = executable.parent().expect("in a folder");
    let candidates = std::fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path());
    let is_library = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with("libnandex_c") && name.ends_with(".a")
    };
    let age = |path: &PathBuf| std::fs::metadata(path).and_then(|data| data.modified()).ok();
    candidates.filter(is_library).max_by_key(age).expect("the static library lies beside this test")
}

fn has(compiler: &str) -> bool {
    let asked = Command::new(compiler).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    asked.is_ok_and(|status| status.success())
}

/// Builds a program and returns its path; `None` without a compiler.
#[allow(clippy::print_stdout, reason = "a test that was not run says so")]
fn build(compiler: &str, source: &str, name: &str) -> Option<PathBuf> {
    if !has(compiler) {
        println!("{compiler} is not installed: {source} was not built");
        return None;
    }
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut command = Command::new(compiler);
    command.args(["-O1", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]);
    command.arg("-I").arg(crate_folder().join("include")).arg("-I").arg(crate_folder().join("examples/c"));
    if compiler == "c++" {
        command.args(["-x", "c++"]);
    }
    command.arg(crate_folder().join(source)).args(["-x", "none"]).arg(library());
    command.args(["-lpthread", "-ldl", "-lm"]).arg("-o").arg(&program);
    let built = command.output().expect("the compiler starts");
    assert!(built.status.success(), "{source}: {}", String::from_utf8_lossy(&built.stderr));
    Some(program)
}

fn run(program: &Path, words: &[&str]) -> String {
    let ran = Command::new(program).args(words).output().expect("the program starts");
    let said = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{}: {said}", program.display());
    said
}

#[test]
fn records_are_there_after_the_power_was_cut() {
    let Some(program) = build("cc", "examples/c/store.c", "store") else { return };
    for index in ["mu", "wandering", "vmtree", "bplus", "bplus-dftl", "sbits", "plow"] {
        let said = run(&program, &[index]);
        assert!(said.contains("2000 of 2000"), "{said}");
    }
}

#[test]
fn places_are_there_after_the_power_was_cut() {
    for (compiler, name) in [("cc", "places"), ("c++", "places-cpp")] {
        let Some(program) = build(compiler, "examples/c/places.c", name) else { return };
        assert!(run(&program, &[]).contains("8 places in the window"));
    }
}

#[test]
fn the_quick_start_works() {
    let Some(program) = build("cc", "examples/c/quick.c", "quick") else { return };
    run(&program, &[]);
}

#[test]
fn the_quick_start_formats_no_chip_whose_bus_failed() {
    let Some(program) = build("cc", "tests/first_start.c", "first-start") else { return };
    assert!(run(&program, &[]).contains("200 records left"));
}

#[test]
fn wrong_callers_are_told_so() {
    let Some(program) = build("cc", "tests/misuse.c", "misuse") else { return };
    run(&program, &[]);
}

#[test]
fn the_header_is_cpp_too() {
    let Some(program) = build("c++", "examples/c/store.c", "store-cpp") else { return };
    run(&program, &["mu"]);
}

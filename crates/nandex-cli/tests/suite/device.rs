//! `nandex device` on files and dumps, as a user types it: records in and out, refusals, copies.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn run(folder: &Path, command: &str) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_nandex"));
    program.arg("device").args(command.split_whitespace()).current_dir(folder).stdin(Stdio::null());
    program.output().unwrap()
}

/// The output of a command that succeeds.
fn printed(folder: &Path, command: &str) -> String {
    let output = run(folder, command);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{command}: {told}");
    String::from_utf8(output.stdout).unwrap()
}

/// A refusal with these words on stderr.
fn assert_refused(folder: &Path, command: &str, code: i32, words: &[&str]) {
    let output = run(folder, command);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{command}: {told}");
    for word in words {
        assert!(told.contains(word), "{command}: no '{word}' in: {told}");
    }
}

/// A folder with an empty file of four MiB, an erased dump of 64 blocks and some lines of records.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("pages"), vec![0; 4 << 20]).unwrap();
    fs::write(folder.path().join("erased"), vec![0xff; 64 * 16 * (2048 + 64)]).unwrap();
    let lines: String = (0..40).map(|i| format!("{},{}\n", i * 7 % 41, i)).collect();
    fs::write(folder.path().join("lines"), lines).unwrap();
    folder
}

/// Pages of 448 bytes end the height of a mu-Tree soon; plow has no height.
#[test]
fn a_format_tells_how_many_records_there_may_be() {
    let folder = folder();
    let at = folder.path();
    let format = |rest: &str| printed(at, &format!("format --device pages --overwrite {rest}"));
    let little = format("--page 512 --index mu --record 16/16");
    assert!(
        little.starts_with("pages: an empty mu, for ") && little.contains("% of its bytes\nother"),
        "{little}"
    );
    let much = format("--page 512 --index plow --record 16/16");
    assert!(much.contains("records at most: ") && much.ends_with("% of its bytes\n"), "{much}");
}

const DUMP: &str = "--geometry 2048+64x16 --spare 2+38";

#[test]
fn records_go_into_a_file_and_come_out() {
    let folder = folder();
    let at = folder.path();
    for index in ["mu", "bplus"] {
        let place = format!("--device pages --index {index}");
        printed(at, &format!("format {place} --overwrite"));
        assert_eq!(printed(at, &format!("import {place} lines")), "40 records\n");
        assert_eq!(printed(at, &format!("get {place} 7 14")), "7,1\n14,2\n");
        printed(at, &format!("put {place} 7=700 0x00000000000000ff=0x0000000000000001"));
        assert_eq!(printed(at, &format!("scan {place} --from 39")), "39,29\n40,35\n255,1\n");
        assert_eq!(printed(at, &format!("scan {place} --from 6 --to 20 --limit 2")), "6,36\n7,700\n");
        printed(at, &format!("remove {place} 255"));
        assert_refused(at, &format!("remove {place} 255"), 1, &[]);
        assert_refused(at, &format!("get {place} 255"), 1, &[]);
        printed(at, &format!("mount {place}"));
        assert!(printed(at, &format!("check {place}")).contains("40 records"));
        printed(at, &format!("export {place} all-{index}"));
        assert!(printed(at, &format!("stats {place}")).contains("every operation"));
        let before = fs::read(at.join("pages")).unwrap();
        printed(at, &format!("export {place}"));
        assert!(fs::read(at.join("pages")).unwrap() == before, "a look changed the file");
    }
    let all = fs::read_to_string(at.join("all-mu")).unwrap();
    assert_eq!((all.lines().count(), all.lines().next()), (40, Some("0,0")));
    assert_eq!(fs::read_to_string(at.join("all-bplus")).unwrap(), all);
}

#[test]
fn a_dump_is_looked_at_and_only_its_copy_is_changed() {
    let folder = folder();
    let at = folder.path();
    printed(at, &format!("format --image erased --copy first {DUMP} --index plow"));
    let acknowledged =
        printed(at, &format!("import --image first --copy second {DUMP} --index plow --acknowledge lines"));
    assert_eq!(acknowledged.lines().nth(2), Some("14"));
    assert_eq!(acknowledged.lines().count(), 40);
    let before = fs::read(at.join("second")).unwrap();
    assert_eq!(printed(at, &format!("get --image second {DUMP} --index plow 14")), "14,2\n");
    let info = printed(at, &format!("info --image second {DUMP}"));
    assert!(info.contains("2048 bytes with 39 spare bytes") && info.contains("no bad blocks"), "{info}");
    let part = printed(at, &format!("info --image second {DUMP} --blocks 8..20"));
    assert!(part.contains("12 blocks"), "{part}");
    assert!(fs::read(at.join("second")).unwrap() == before);
    assert!(fs::read(at.join("erased")).unwrap().iter().all(|byte| *byte == 0xff));
    let refused = format!("put --image second {DUMP} --index plow 1=1");
    assert_refused(at, &refused, 2, &["--image", "second", "--copy"]);
    assert_refused(at, &format!("{refused} --copy first"), 2, &["--copy", "first", "there already"]);
}

#[test]
fn what_makes_no_sense_is_refused_with_its_name() {
    let folder = folder();
    let at = folder.path();
    for (command, words) in [
        ("info", &["--device", "--image"][..]),
        ("info --device none", &["none", "truncate"]),
        ("info --device pages --image erased --geometry 2048+64x16 --spare 2+38", &["--image"]),
        ("info --image erased", &["--geometry", "--spare"]),
        ("info --image erased --geometry 2048 --spare 2+38", &["--geometry", "2048+64x64"]),
        ("info --image erased --geometry 2048+64x16 --spare 2", &["--spare", "2+38"]),
        ("info --device pages --blocks 9..3", &["--blocks", "9..3"]),
        ("info --device pages --blocks 0..99", &["--blocks", "0..99", "it has 16"]),
        ("get --device pages 1", &["--index"]),
        ("get --device pages --index plowe 1", &["--index", "did you mean 'plow'"]),
        ("get --device pages --index mu --record 2/2 70000", &["KEY", "70000", "does not fit 2 bytes"]),
        ("put --device pages --index mu 5", &["record", "KEY=VALUE"]),
        ("put --device pages --index mu 5=0x12", &["value", "16 hexadecimal digits"]),
        ("format --device pages --index mu --set nothing=1", &["--set", "nothing"]),
    ] {
        assert_refused(at, command, 2, words);
    }
    for (command, words) in [
        ("get --device pages --index mu 1", &["mount mu", "pages"][..]),
        ("info --image erased --geometry 2048+64x15 --spare 2+38", &["erased", "no whole number of blocks"]),
        ("info --image erased --geometry 2048+64x16 --spare 0+38", &["erased", "mark"]),
        ("info --device /dev/null", &["/dev/null", "MTD"]),
        ("dump --device pages out", &["pages"]),
    ] {
        assert_refused(at, command, 1, words);
    }
    // Few spare bytes are no reason: data areas lend some.
    printed(at, "format --image erased --copy c --geometry 2048+64x16 --spare 2+10 --index mu");
    printed(at, "format --device pages --index mu");
    assert_refused(at, "format --device pages --index mu", 2, &["--device", "pages", "--overwrite"]);
    fs::write(at.join("wrong"), "1,1\n2;2\n").unwrap();
    assert_refused(at, "import --device pages --index mu wrong", 2, &["wrong: line 2", "KEY,VALUE"]);
    // What came before the wrong line is there.
    assert_eq!(printed(at, "get --device pages --index mu 1"), "1,1\n");
}

/// Lines of `count` records: keys from `first` on in steps of `step`.
fn lines(first: u64, step: u64, count: u64) -> String {
    (0..count).map(|i| format!("{},{i}\n", first + i * step)).collect()
}

#[test]
fn of_two_imports_at_a_time_none_loses_what_it_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::write(at.join("odd"), lines(1, 2, 2000)).unwrap();
    fs::write(at.join("even"), lines(0, 2, 2000)).unwrap();
    for index in ["mu", "plow", "bplus"] {
        fs::write(at.join("pages"), vec![0; 16 << 20]).unwrap();
        let place = format!("--device pages --index {index}");
        printed(at, &format!("format {place}"));
        let import = |name: &str| {
            let mut program = Command::new(env!("CARGO_BIN_EXE_nandex"));
            let command = format!("device import {place} {name}");
            program.args(command.split_whitespace()).current_dir(at).stdin(Stdio::null());
            program.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let both = [import("odd"), import("even")].map(|program| program.wait_with_output().unwrap());
        let codes = both.each_ref().map(|output| output.status.code());
        let done = codes.iter().filter(|code| **code == Some(0)).count();
        assert!(done >= 1, "{index}: {codes:?}");
        for refused in both.iter().filter(|output| output.status.code() != Some(0)) {
            let told = String::from_utf8_lossy(&refused.stderr);
            assert!(refused.status.code() == Some(1) && told.contains("pages is in use"), "{index}: {told}");
        }
        assert_eq!(printed(at, &format!("scan {place}")).lines().count(), done * 2000, "{index}");
        let checked = printed(at, &format!("check {place}"));
        assert!(checked.contains("sound"), "{index}: {checked}");
    }
}

#[test]
fn a_device_that_is_written_is_looked_at_by_nobody() {
    let folder = folder();
    let at = folder.path();
    let place = "--device pages --index mu";
    printed(at, &format!("format {place}"));
    let mut owner = Command::new(env!("CARGO_BIN_EXE_nandex"));
    let command = format!("device import {place} - --acknowledge");
    owner.args(command.split_whitespace()).current_dir(at);
    let mut owner = owner.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // Once it acknowledges a record, it has the device open.
    let mut input = owner.stdin.take().unwrap();
    input.write_all(b"1,1\n").unwrap();
    let mut first = String::new();
    BufReader::new(owner.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert_eq!(first, "1\n");
    for command in ["scan", "check", "stats", "mount", "get", "put", "remove", "format"] {
        let more = match command {
            "get" | "remove" => "1",
            "put" => "1=2",
            "format" => "--overwrite",
            _ => "",
        };
        assert_refused(at, &format!("{command} {place} {more}"), 1, &["pages is in use"]);
    }
    assert_refused(at, "info --device pages", 1, &["pages is in use"]);
    drop(input);
    assert!(owner.wait().unwrap().success());
    assert_eq!(printed(at, &format!("scan {place}")), "1,1\n");
}

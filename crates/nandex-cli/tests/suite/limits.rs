//! Absurd numbers, sizes and files are refused by name, before memory is taken and without delay.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The largest number of 64 bits.
const MOST: &str = "18446744073709551615";

fn nandex(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nandex")).args(args).stdin(Stdio::null()).output().unwrap()
}

/// A refusal: exit code 2, nothing on stdout, and these words on stderr.
fn assert_refused(args: &[&str], words: &[&str]) {
    let output = nandex(args);
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {told}");
    assert!(output.stdout.is_empty(), "{args:?}");
    for word in words {
        assert!(told.contains(word), "{args:?}: no '{word}' in: {told}");
    }
}

const CRASH: [&str; 5] = ["crash", "--index", "mu", "--cuts", "1"];

fn crash(more: &[&str]) -> Vec<String> {
    CRASH.iter().chain(more).map(|s| (*s).to_string()).collect()
}

fn assert_crash_refused(more: &[&str], words: &[&str]) {
    let args = crash(more);
    assert_refused(&args.iter().map(String::as_str).collect::<Vec<_>>(), words);
}

/// Every command that takes a size, up to the size.
const SIZED: [&[&str]; 4] = [
    &["compare", "--index", "mu", "--workload", "mu", "--ram"],
    &["crash", "--index", "mu", "--ram"],
    &["replay", "--trace", "none.csv", "--ram"],
    &["places", "uniform", "--ram"],
];

#[test]
fn a_size_is_held_against_the_machine() {
    for command in SIZED {
        for size in [MOST, "99999999GiB", "18446744073709551616"] {
            assert_refused(&[command, &[size]].concat(), &["--ram", size]);
        }
        assert_refused(&[command, &[MOST]].concat(), &["memory that this machine has free"]);
    }
}

#[test]
fn a_size_that_may_mean_two_is_refused_with_the_one_that_does_not() {
    for command in SIZED {
        assert_refused(&[command, &["64KB"]].concat(), &["--ram", "write 64KiB"]);
    }
    assert_crash_refused(
        &["--set", "checkpoint_blocks=64KB"],
        &["checkpoint_blocks", "64KB", "without a unit"],
    );
}

#[test]
fn every_number_has_a_largest() {
    let crash = ["--ops", "--keys", "--threads"];
    for flag in crash {
        assert_crash_refused(&[flag, MOST], &[flag, MOST]);
        assert_crash_refused(&[flag, "0"], &[flag]);
    }
    assert_crash_refused(&["--ops", "1000001"], &["--ops", "is not between 1 and 1000000"]);
    assert_refused(&["crash", "--index", "mu", "--cuts", MOST], &["--cuts"]);
    let compare = ["compare", "--index", "mu", "--workload", "mu"];
    for flag in ["--ops", "--sync-every", "--seeds", "--threads"] {
        assert_refused(&[&compare[..], &[flag, MOST]].concat(), &[flag, MOST]);
    }
    for flag in ["--limit", "--time-scale", "--threads"] {
        assert_refused(&["replay", "--trace", "none.csv", flag, MOST], &[flag, MOST]);
    }
    let spatial = ["compare", "--spatial", "r-tree", "--places", "uniform"];
    for (flag, value) in [("--nearest", MOST), ("--window", "1e300%"), ("--seeds", MOST)] {
        assert_refused(&[&spatial[..], &[flag, value]].concat(), &[flag]);
    }
    assert_refused(&["places", "uniform", "--count", MOST], &["--count", MOST]);
    assert_refused(&["run", "mu-figure8", "--seeds", MOST], &["--seeds"]);
}

#[test]
fn an_option_has_a_largest_and_does_not_wrap() {
    for option in ["read_pages", "write_pages", "collect_at_blocks", "checkpoint_blocks"] {
        for value in [MOST, "1000000000"] {
            let set = format!("{option}={value}");
            assert_crash_refused(&["--set", &set], &[option, value, "is not between"]);
        }
    }
    let bplus = ["crash", "--index", "bplus", "--cuts", "1", "--set", "cache_pages=8", "--set"];
    for set in ["cache_window=4294967346", "cache_pages=4294967346", "checkpoint_blocks=4294967346"] {
        assert_refused(&[&bplus[..], &[set]].concat(), &[set.split('=').next().unwrap(), "4294967346"]);
    }
    let records = ["compare", "--index", "mu", "--workload", "uniform", "--set"];
    assert_refused(&[&records[..], &["records=4294967346"]].concat(), &["records", "is not between"]);
}

#[test]
fn a_device_is_no_trace() {
    for device in ["/dev/zero", "/dev/null"] {
        if !Path::new(device).exists() {
            continue;
        }
        let words = [device, "is a pipe or a device"];
        assert_refused(&["replay", "--trace", device], &words);
        assert_refused(&["compare", "--index", "mu", "--trace", device], &words);
        assert_refused(&["check", device], &words);
        assert_refused(&["places", device], &words);
    }
}

#[cfg(unix)]
#[test]
fn a_pipe_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe.toml");
    let made = Command::new("mkfifo").arg(&pipe).status();
    if !made.is_ok_and(|status| status.success()) {
        return;
    }
    let pipe = pipe.to_str().unwrap();
    for args in
        [&["replay", "--trace", pipe][..], &["check", pipe], &["replay", "--trace", "x", "--chip", pipe]]
    {
        assert_refused(args, &["is a pipe or a device"]);
    }
}

#[test]
fn a_line_without_end_is_refused_with_its_number() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_string()
    };
    let long = "7".repeat(70_000);
    let blocks = write("blocks.csv", &format!("R,0,8\nW,{long},8\n"));
    assert_refused(&["replay", "--trace", &blocks], &["blocks.csv: line 2: is longer than 65536 bytes"]);
    let operations = write("operations.txt", &format!("insert 1\n\nget {long}\n"));
    let compare = ["compare", "--index", "mu", "--trace", &operations];
    assert_refused(&compare, &["operations.txt: line 3: is longer than 65536 bytes"]);
    let places = write("places.csv", &format!("id,lon,lat\n1,{long},3\n"));
    assert_refused(&["places", &places], &["places.csv: line", "longer than 65536 bytes"]);
    let far = write("far.csv", "op,offset,size\nT,0,18446744073709551615\n");
    assert_refused(&["replay", "--trace", &far], &["far.csv: line 2: the request ends beyond"]);
    let folder = folder.path().to_str().unwrap();
    assert_refused(&["replay", "--trace", folder], &["directory"]);
}

#[test]
fn a_chip_file_is_bounded_in_every_way() {
    let folder = tempfile::tempdir().unwrap();
    let chip = |text: &str| {
        let path = folder.path().join("chip.toml");
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_string()
    };
    let cases = [
        ("like = \"mlc-64m\"\nblocks = 4294967295", "blocks = 4294967295: a chip has at most"),
        ("like = \"mlc-64m\"\nblocks = 99999999999", "chip.toml"),
        ("like = \"mlc-64m\"\npage_bytes = 4294967295", "page_bytes = 4294967295: a page has"),
        ("like = \"mlc-64m\"\npages_per_block = 4294967295", "pages_per_block = 4294967295: a block has"),
        ("like = \"mlc-64m\"\nchannels = 4294967295", "channels = 4294967295: 1 to 64"),
        ("like = \"mlc-64m\"\nnop = 256", "nop = 256: a page takes"),
        ("like = \"mlc-64m\"\nread_us = 1e300", "read_ns = 18446744073709551615: an operation"),
        ("like = \"mlc-64m\"\nread_ma = 4294967295", "read_ma = 4294967295: a chip draws"),
    ];
    for (text, words) in cases {
        assert_refused(&["replay", "--trace", "x", "--chip", &chip(text)], &["--chip", words]);
    }
    let long = chip(&"# nothing\n".repeat(7000));
    assert_refused(&["replay", "--trace", "x", "--chip", &long], &["chip.toml: is larger than 64 KiB"]);
}

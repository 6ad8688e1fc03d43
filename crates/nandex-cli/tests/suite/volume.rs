//! SQLite's volumes under `nandex inspect`, `nandex device info` and `nandex check`: files, room, a check,
//! and the exit code.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

use nandex::nand::sim::SimChip;
use nandex::ordered::RecordFormat;
use nandex::{Nand, Shared};
use nandex_lab::chip;
use nandex_lab::options::Settings;
use nandex_lab::registry::STORES;
use nandex_sqlite::{Vfs, Volume, VolumeConfig, routines};
use rusqlite::Connection;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn nandex(folder: &Path, command: &str) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_nandex"));
    program.args(command.split_whitespace()).current_dir(folder).stdin(Stdio::null()).output().unwrap()
}

/// A command, its exit code, and words that it says on stdout or on stderr.
fn assert_told(folder: &Path, command: &str, code: i32, words: &[&str]) -> String {
    let output = nandex(folder, command);
    let told = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert_eq!(output.status.code(), Some(code), "{command}: {told}");
    for word in words {
        assert!(told.contains(word), "{command}: no '{word}' in: {told}");
    }
    told
}

fn fill(database: &Connection) {
    let rows = "PRAGMA page_size=2048; CREATE TABLE t(a INTEGER PRIMARY KEY, v); \
                WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200) \
                INSERT INTO t SELECT i, printf('row %07d of notes', i * 7919) || hex(zeroblob(120)) FROM n";
    database.execute_batch(rows).unwrap();
}

/// The three commands that look at an image.
const LOOKS: [&str; 3] = ["inspect chip.img", "device info --device chip.img", "check chip.img"];

#[test]
fn an_image_is_looked_at_checked_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (at, image) = (folder.path(), folder.path().join("chip.img"));
    let routines = routines!(rusqlite::ffi).unwrap();
    let _vfs = Vfs::register_for_devices_with(routines, "look", VolumeConfig::default()).unwrap();
    let open = |name: &str| {
        Connection::open(format!("file:{name}?vfs=look&device={}&size=4M", image.display())).unwrap()
    };
    fill(&open("notes.db"));
    let database = open("other.db");
    fill(&database);
    for command in LOOKS {
        let told = assert_told(at, command, 1, &["chip.img is in use: "]);
        assert!(!cfg!(target_os = "linux") || told.contains("in use: process "), "{told}");
    }
    drop(database);
    let whole = fs::read(&image).unwrap();
    let sound = ["notes.db", "other.db", "pages of 2048 bytes", "free ", "sound: every page"];
    for command in LOOKS {
        assert_told(at, command, 0, &[&sound[..], &["a volume of SQLite databases"]].concat());
    }
    assert_told(at, LOOKS[1], 0, &["an image of SQLite's VFS: pages of 2048 bytes with 511 spare bytes"]);
    let json = String::from_utf8(nandex(at, "inspect chip.img --json").stdout).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let volume = &json["volume"];
    assert_eq!((volume["sound"].as_bool(), volume["ftl"].as_str()), (Some(true), Some("page-map")));
    assert_eq!(volume["files"][1]["name"].as_str(), Some("other.db"));
    assert_eq!(volume["files"][1]["page_size"].as_u64(), Some(2048));
    // A page of the newest copy of each database goes.
    let mark = b"row 0007919 of notes";
    let places: Vec<usize> =
        (0..whole.len() - mark.len()).filter(|&i| whole[i..].starts_with(mark)).collect();
    let mut bytes = whole.clone();
    for place in places {
        let page = place / 2560 * 2560;
        bytes[page..page + 2560].fill(0);
    }
    fs::write(&image, &bytes).unwrap();
    for command in LOOKS {
        let told = assert_told(at, command, 1, &["damaged: notes.db, page ", "damaged: other.db, page "]);
        assert!(!told.contains("sound: every page"), "{told}");
    }
    let json = String::from_utf8(nandex(at, "inspect chip.img --json").stdout).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["volume"]["faults"][0]["file"].as_str(), Some("notes.db"));
    assert_eq!(json["volume"]["sound"].as_bool(), Some(false));
    // Nothing is changed, by those that would change it neither.
    for command in ["format --overwrite", "mount", "put 1=1"] {
        let (command, rest) = command.split_once(' ').unwrap_or((command, ""));
        let command = format!("device {command} --device chip.img --index mu {rest}");
        assert_told(at, &command, 2, &["chip.img", "changed by SQLite alone"]);
    }
    assert_told(at, "device get --device chip.img --index mu 1", 1, &["mount mu"]);
    assert!(fs::read(&image).unwrap() == bytes, "the image was changed");
    for (bytes, words) in [
        (whole[..whole.len() / 2].to_vec(), "shorter than its label says"),
        ([&whole[..9], &[1], &whole[10..]].concat(), "label of the image is damaged"),
        ([&whole[..2560], &vec![0; whole.len() - 2560][..]].concat(), ""),
        ([&whole[..2560], &vec![7; whole.len() - 2560][..]].concat(), "damaged: no store to mount"),
    ] {
        fs::write(&image, bytes).unwrap();
        for command in LOOKS {
            assert_told(at, command, 1, &[words]);
        }
    }
}

/// Volumes in the images of simulated chips, on every FTL.
#[test]
fn a_volume_is_found_on_every_ftl() {
    let folder = tempfile::tempdir().unwrap();
    for ftl in STORES {
        let part = chip::find("k9f1g08u0f").unwrap().with_blocks(64);
        let nand = Shared::new(SimChip::new(&part).unwrap());
        let settings = Settings::new(RecordFormat::new(8, 8));
        let store = (ftl.format)(Box::new(nand.clone()) as Box<dyn Nand>, &settings).unwrap();
        let volume = Volume::open(store, VolumeConfig::default()).unwrap();
        let name = format!("on-{}", ftl.name);
        let vfs = Vfs::register_with(routines!(rusqlite::ffi).unwrap(), &name, volume).unwrap();
        fill(&Connection::open(format!("file:notes.db?vfs={name}")).unwrap());
        drop(vfs);
        chip::save_image(&folder.path().join("sim.img"), &nand.lock()).unwrap();
        let on = format!("on {}: ", ftl.name);
        let told = assert_told(folder.path(), "inspect sim.img", 0, &[&on, "notes.db", "sound: every page"]);
        assert_eq!(told.contains("no atomic groups"), !ftl.is_atomic, "{told}");
    }
}

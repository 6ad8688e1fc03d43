//! The page of guarantees is what the lab's list of exceptions says, and a small fixed run finds nothing outside of it.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use nandex_lab::parallel::cores;
use nandex_lab::runner::Control;
use nandex_lab::torture::Victim;
use nandex_lab::torture::catch_panics;
use nandex_lab::torture::damage::{Blow, Effort, End, replay, rewrite, run};
use std::path::Path;
use std::sync::Mutex;

#[test]
fn the_table_of_guarantees_is_the_list_of_exceptions() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guarantees.md");
    let text = std::fs::read_to_string(page).unwrap();
    let hint = "write it anew: nandex torture --damage --guarantees docs/guarantees.md";
    assert_eq!(rewrite(&text).as_ref(), Some(&text), "{hint}");
}

#[test]
fn damage_is_told_or_an_exception_of_the_page() {
    catch_panics();
    let effort = Effort { seed: 1, rounds: 1, until: None, cuts: 1, damages: 14, threads: cores() };
    let found = Mutex::new(Vec::new());
    let tell = |finding: &dyn std::fmt::Display| found.lock().unwrap().push(finding.to_string());
    let totals = run(&[], &effort, &Control::default(), &|finding| tell(finding));
    let found = found.into_inner().unwrap();
    println!("{totals}\n{}", found.join("\n"));
    assert!(found.is_empty() && totals.stopped.is_empty(), "{totals}: {found:?} {:?}", totals.stopped);
    assert!(totals.damages() > 2000, "{totals}");
}

/// Damages that once were answered wrongly and not told: victim, seed, image, blow.
const ONCE_WRONG: &[(&str, u64, &str, &str)] = &[
    // The base after a mount went to another block than the next mount looks at: an old clean base passed for the newest.
    ("as-btree@sast", 80000, "remounted", "block-ones:0"),
    ("wobf@superblock", 80000, "remounted", "block-flip:0"),
    // A page that the cut tore stood for the one that looks erased.
    ("ls-lru@nftl", 80006, "cut:68:random_bits", "ones:32"),
    ("fast", 80004, "cut:339:unreadable", "older:405"),
    // The first page of a block came back as it was before the last erase, and hid what followed.
    ("mb@dftl", 80005, "cut:567:prefix", "older:160"),
    ("r-star@dftl", 80003, "cut:565:random_bits", "older:208"),
    // Old notes of trims in a block that holds a page of an old checkpoint passed for new ones.
    ("rftl@page-map", 81001, "remounted", "older:288"),
];

#[test]
fn what_was_once_wrong_is_told() {
    for &(victim, seed, end, blow) in ONCE_WRONG {
        let (victim, end, blow): (Victim, End, Blow) =
            (victim.parse().unwrap(), end.parse().unwrap(), blow.parse().unwrap());
        if let Some(finding) = replay(victim, seed, end, &blow).unwrap() {
            assert!(finding.outcome.is_sound() || finding.exception().is_some(), "{finding}");
        }
    }
}

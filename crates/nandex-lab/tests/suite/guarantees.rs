//! The page of guarantees agrees with the lab's list of exceptions, and a small fixed run finds no other
//! exception.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use crate::inputs::sized;
use nandex_lab::parallel::cores;
use nandex_lab::runner::Control;
use nandex_lab::torture::catch_panics;
use nandex_lab::torture::damage::{Effort, rewrite, run};
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
    let effort = Effort { seed: 1, rounds: 1, until: None, cuts: 1, damages: sized(6, 14), threads: cores() };
    let found = Mutex::new(Vec::new());
    let tell = |finding: &dyn std::fmt::Display| found.lock().unwrap().push(finding.to_string());
    let totals = run(&[], &effort, &Control::default(), &|finding| tell(finding));
    let found = found.into_inner().unwrap();
    println!("{totals}\n{}", found.join("\n"));
    assert!(found.is_empty() && totals.stopped.is_empty(), "{totals}: {found:?} {:?}", totals.stopped);
    assert!(totals.damages() > sized(850, 2000), "{totals}");
}

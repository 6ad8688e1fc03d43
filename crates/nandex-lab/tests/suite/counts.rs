//! The recorded counts of every FTL, one file each, which are published.
//!
//! A difference means that published counts change. If that is intended, `NANDEX_BLESS=1 cargo test -p
//! nandex-lab --test suite counts::` records them again; give the reason in the commit. A new FTL is recorded
//! in the same way.

#![allow(clippy::unwrap_used)]

use nandex_lab::counts::{CountsPlan, PageOrder, SEED, write_csv};
use nandex_lab::registry::STORES;
use nandex_lab::runner::Control;
use nandex_lab::tbm::TBM_STORES;
use std::path::Path;

#[test]
fn every_ftl_counts_what_it_did() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/counts");
    let mut changed = Vec::new();
    for entry in STORES.iter().chain(TBM_STORES) {
        let plan = CountsPlan { ftls: vec![entry], orders: PageOrder::ALL.to_vec(), seed: SEED, threads: 2 };
        let mut found = Vec::new();
        write_csv(&plan.run(&Control::default()).unwrap(), &mut found).unwrap();
        let found = String::from_utf8(found).unwrap();
        let file = folder.join(format!("{}.csv", entry.name));
        if std::env::var_os("NANDEX_BLESS").is_some() {
            std::fs::write(&file, &found).unwrap();
        }
        let recorded = std::fs::read_to_string(&file).unwrap_or_default();
        if recorded != found {
            let first = recorded.lines().zip(found.lines()).find(|(then, now)| then != now);
            changed.push(format!("{}: {first:?}", entry.name));
        }
    }
    assert!(changed.is_empty(), "counts recorded and found, or not recorded yet:\n{}", changed.join("\n"));
}

//! Stepping back restores the exact state, and after a cut at any place the contents are as the class
//! promises.

use super::*;
use crate::decode::{Decoder, Family};
use crate::scan::{Life, Scan};
use crate::show;
use nandex::nand::catalogue;
use nandex::nand::sim::SimChip;
use nandex::ordered::{Durability, RecordFormat};
use nandex::{Cause, Nand, Ppn, Shared};
use nandex_stacks::options::Settings;
use nandex_stacks::registry::{Hosting, INDEXES, STORES};

/// All readable bytes of a chip, and its wear.
fn bytes(chip: &SimChip) -> (Vec<Option<Vec<u8>>>, Vec<u32>) {
    let mut chip = chip.clone();
    let g = chip.geometry();
    let page = |ppn: u32| {
        let mut bytes = vec![0; (g.page_bytes + g.spare_bytes) as usize];
        let (data, spare) = bytes.split_at_mut(g.page_bytes as usize);
        chip.read(Ppn(ppn), Cause::Check, data, spare).is_ok().then_some(bytes)
    };
    let pages = (0..g.pages()).map(page).collect();
    (pages, chip.wear().to_vec())
}

/// A copy of the simulated chip in its current state.
fn now(session: &Session) -> SimChip {
    session.live.as_ref().unwrap().watched.chip.lock().clone()
}

#[test]
fn extents_that_the_map_of_plow_lists_are_found() {
    let (record, part) = (RecordFormat::new(8, 100), catalogue::mlc_with(1024, 8, 150));
    let chip = Shared::new(SimChip::new(&part).unwrap());
    let entry = INDEXES.iter().find(|entry| entry.name == "plow").unwrap();
    let settings = Settings { durability: Durability::EverySync, ..Settings::new(record) };
    let mut index = (entry.format)(Box::new(chip.clone()), &settings).unwrap();
    for i in 0..6_000u64 {
        index.insert(&(i * 7919 % 6_000).to_be_bytes(), &[i as u8; 100]).unwrap();
    }
    index.close().unwrap();
    let scan = Scan::of(chip.lock().clone(), Family::Plow, record).unwrap();
    let root = scan.plow.unwrap();
    assert!(root.map.unwrap().0 > 40, "{:?}", root.map);
    let told: u64 = root.levels.iter().map(|level| level.records).sum();
    let below: usize = scan.tree.nodes.iter().skip(1).map(|node| node.entries).sum();
    assert!(scan.tree.is_complete && below as u64 >= told && told > 5_000, "{below} of {told}");
}

/// Where the chip takes words of a programmed page, the changes behind the newest commit page are told.
#[test]
fn changes_appended_by_plow_are_told() {
    let mut part = catalogue::mlc_with(512, 8, 40);
    part.geometry = part.geometry.with_append_bytes(4);
    let (record, chip) = (RecordFormat::new(4, 4), Shared::new(SimChip::new(&part).unwrap()));
    let entry = INDEXES.iter().find(|entry| entry.name == "plow").unwrap();
    let mut index = (entry.format)(Box::new(chip.clone()), &Settings::new(record)).unwrap();
    (0..20u32).for_each(|i| index.put(&i.to_be_bytes(), &[7; 4]).unwrap());
    index.remove(&3u32.to_be_bytes()).unwrap();
    let mut chip = chip.lock().clone();
    let decoder = Decoder::new(Family::Plow, record, chip.geometry());
    let (mut data, mut told) = (vec![0; 512], Vec::new());
    for ppn in (0..chip.geometry().pages()).map(Ppn) {
        chip.read(ppn, Cause::Check, &mut data, &mut []).unwrap();
        let page = decoder.page(ppn, &data, &[]);
        told.extend(page.fields.into_iter().filter(|field| field.name == "change"));
    }
    let last = told.last().map(|field| field.value.as_str());
    assert!(told.len() >= 20 && last == Some("3 removed"), "{} changes, {last:?}", told.len());
}

/// Records that end with zeros are decoded with their contents, not only counted.
#[test]
fn records_of_which_zeros_are_left_out_are_found() {
    let (record, part) = (RecordFormat::variable(20, 60), catalogue::mlc_with(1024, 8, 60));
    let chip = Shared::new(SimChip::new(&part).unwrap());
    let entry = INDEXES.iter().find(|entry| entry.name == "plow").unwrap();
    let settings = Settings { durability: Durability::EverySync, ..Settings::new(record) };
    let mut index = (entry.format)(Box::new(chip.clone()), &settings).unwrap();
    let put = |i: u64| {
        let (mut key, mut value) = (vec![0; 22], vec![0; 60]);
        let of_key = 9 + (i % 11) as usize;
        key[..8].copy_from_slice(&i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
        key[8..of_key].fill(b'a' + (i % 26) as u8);
        key[20] = of_key as u8;
        value[..(i % 61) as usize].fill(1 + (i % 200) as u8);
        (key, value)
    };
    let all: std::collections::BTreeMap<_, _> = (0..800).map(put).collect();
    for (key, value) in &all {
        index.insert(key, value).unwrap();
    }
    index.close().unwrap();
    let mut chip = chip.lock().clone();
    let geometry = chip.geometry();
    let decoder = Decoder::new(Family::Plow, record, geometry);
    let mut found = std::collections::BTreeMap::new();
    for ppn in (0..geometry.pages()).map(Ppn) {
        let (mut data, mut spare) =
            (vec![0; geometry.page_bytes as usize], vec![0; geometry.spare_bytes as usize]);
        if chip.read(ppn, Cause::Check, &mut data, &mut spare).is_ok() {
            for node in decoder.page(ppn, &data, &spare).nodes {
                found.extend(node.keys.into_iter().zip(node.values));
            }
        }
    }
    assert!(all.iter().all(|(key, value)| found.get(key) == Some(value)), "{} of {}", found.len(), all.len());
}

#[test]
fn stepping_back_gives_the_exact_state() {
    for (index, ftl) in
        [("mu", None), ("plow", None), ("lazy-update", Some("fast")), ("r-tree", Some("dftl"))]
    {
        let ftl = ftl.map(str::to_string);
        let durability = if ftl.is_some() { "none" } else { "every operation" }.to_string();
        let setup = Setup { ftl, durability, workload: "mixed".into(), operations: 0, ..Setup::new(index) };
        let mut session = Session::run(setup).unwrap();
        let mut states = vec![bytes(&now(&session))];
        for _ in 0..70 {
            session.go_on(1).unwrap();
            states.push(bytes(&now(&session)));
        }
        for step in (0..session.steps().len()).rev() {
            let at = At { step, event: session.steps()[step].events.len() };
            assert!(bytes(&session.chip_at(at).unwrap()) == states[step], "{index}: step {step}");
        }
        // Before the first event of a step the chip is as behind the step before.
        let before = session.chip_at(At { step: 40, event: 0 }).unwrap();
        assert!(bytes(&before) == states[39], "{index}");
        assert!(session.chip_at(At { step: 71, event: 0 }).is_err());
        assert!(session.chip_at(At { step: 1, event: 1000 }).is_err());
    }
}

#[test]
fn a_cut_at_any_place_keeps_the_promise() {
    let cases = [
        ("mu", None, "every operation"),
        ("wandering", None, "every sync"),
        ("plow", None, "every operation"),
        ("bplus", Some("page-map"), "every operation"),
        ("wpcb", Some("fast"), "every operation"),
        ("ls-lru", Some("page-map"), "every sync"),
    ];
    for (index, ftl, durability) in cases {
        let setup = Setup {
            ftl: ftl.map(str::to_string),
            durability: durability.into(),
            workload: "mixed".into(),
            operations: 60,
            sync_every: 9,
            ..Setup::new(index)
        };
        let session = Session::run(setup).unwrap();
        for (nth, step) in (1..=60).step_by(7).enumerate() {
            let mode = CutMode::ALL[nth % 6];
            let event = session.steps()[step].events.len() * (nth % 3) / 2;
            let mut cut = session.cut(At { step, event }, mode).unwrap();
            let recovery = cut.recovery.clone().unwrap();
            assert_eq!(recovery.kept, Some(true), "{index}, step {step}, {mode:?}: {}", recovery.verdict);
            assert_eq!(recovery.sound, Some(true), "{index}");
            let mounted = cut.steps()[recovery.step].contents.clone();
            cut.go_on(12).unwrap();
            assert!(cut.steps().iter().skip(recovery.step).all(|step| !step.failed), "{index}");
            assert_eq!(cut.steps()[recovery.step].contents, mounted);
            let last = At { step: recovery.step, event: cut.steps()[recovery.step].events.len() };
            assert!(cut.chip_at(last).is_ok());
        }
    }
}

#[test]
fn a_cut_of_what_promises_nothing_tells_what_was_lost() {
    let setup = Setup { durability: "none".into(), operations: 50, ..Setup::new("lazy-update") };
    let session = Session::run(setup).unwrap();
    let at = At { step: 50, event: session.steps()[50].events.len() };
    let cut = session.cut(at, CutMode::Before).unwrap();
    let recovery = cut.recovery.unwrap();
    assert_eq!((recovery.kept, recovery.records.0), (None, session.steps()[50].records()));
    assert!(recovery.differing > 0 && recovery.records.1 < recovery.records.0, "{recovery:?}");
}

#[test]
fn every_index_of_the_registry_is_played_on_the_small_chip() {
    for entry in INDEXES {
        let mut setup = Setup { operations: 25, workload: "mixed".into(), ..Setup::new(entry.name) };
        if entry.hosting == Hosting::Store {
            setup.ftl = Some("page-map".into());
        }
        let session = Session::run(setup).unwrap_or_else(|why| panic!("{}: {why}", entry.name));
        let last = At { step: 25, event: session.steps()[25].events.len() };
        assert!(session.steps().iter().all(|step| !step.failed), "{}", entry.name);
        let scan = show::look(&session, last).unwrap();
        let torn = scan.pages.iter().filter(|page| !page.whole).count();
        assert_eq!(torn, 0, "{}: pages that are not whole", entry.name);
        assert!(scan.lives.contains(&Life::Live), "{}: nothing counts", entry.name);
    }
}

#[test]
fn every_ftl_carries_a_tree_that_is_seen() {
    for entry in STORES {
        let setup = Setup {
            ftl: Some(entry.name.into()),
            durability: "none".into(),
            operations: 120,
            ..Setup::new("bplus")
        };
        let session = Session::run(setup).unwrap();
        agrees(&session, entry.name);
    }
}

/// Compares the decoded chip with the index: records, height and root must agree, and nothing may be torn.
fn agrees(session: &Session, name: &str) -> Scan {
    let step = session.steps().len() - 1;
    let last = At { step, event: session.steps()[step].events.len() };
    let scan = show::look(session, last).unwrap();
    assert!(scan.tree.is_complete, "{name}: {}", scan.tree.note);
    assert_eq!(scan.records(), session.steps()[step].records() as u64, "{name}: records");
    assert_eq!(scan.tree.height(), session.steps()[step].height, "{name}: height");
    scan
}

#[test]
fn decoders_and_indexes_agree() {
    let trees = ["mu", "mu-star", "wandering", "vmtree", "vmtree-ow", "bplus", "wpcb"];
    for index in trees {
        for workload in ["mixed", "ascending"] {
            let setup = Setup { operations: 400, workload: workload.into(), ..Setup::new(index) };
            agrees(&Session::run(setup).unwrap(), index);
        }
    }
    for index in ["lazy-update", "ls-lru", "ibsf", "as-btree", "fb-tree", "cb-tree"] {
        let setup = Setup { operations: 200, durability: "none".into(), ..Setup::new(index) };
        let mut session = Session::run(setup).unwrap();
        // What waits in RAM is in the tree after a sync, where no journal keeps it.
        session.apply(Op::Sync).unwrap();
        let step = session.steps().len() - 1;
        let last = At { step, event: session.steps()[step].events.len() };
        let scan = show::look(&session, last).unwrap();
        assert!(scan.tree.nodes.len() > 2, "{index}: {}", scan.tree.note);
    }
}

#[test]
fn the_levels_of_plow_hold_what_was_put_in() {
    let setup = Setup { operations: 900, blocks: 64, record: (4, 4), ..Setup::new("plow") };
    let session = Session::run(setup).unwrap();
    let step = session.steps().len() - 1;
    let scan = show::look(&session, At { step, event: session.steps()[step].events.len() }).unwrap();
    let root = scan.plow.unwrap();
    let told: u64 = root.levels.iter().map(|level| level.records).sum();
    let below: usize = scan.tree.nodes.iter().skip(1).map(|node| node.entries).sum();
    // A page at the cursor may hold some records that the sweep has passed.
    assert!(below as u64 >= told && told > 500, "{below} records in pages, {told} by the root");
    assert!(scan.tree.is_complete && scan.tree.nodes.len() > 3);
}

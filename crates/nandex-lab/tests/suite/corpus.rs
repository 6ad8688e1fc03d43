//! Runs the seed corpus of the fuzz targets (`fuzz/seeds/TARGET/`), and mutations of it that are the same in
//! every run.
//!
//! The fuzzer itself needs a nightly compiler. This test runs its seeds and some of the mutations that it
//! would try. `NANDEX_SEED=7 cargo test -p nandex-lab --test suite corpus::` runs other mutations.
//! `NANDEX_BLESS=1` writes the chips of the corpus again after a change of their format.

#![allow(clippy::unwrap_used)]

use crate::inputs::sized;
use nandex::Shared;
use nandex::nand::sim::SimChip;
use nandex::ordered::RecordFormat;
use nandex::rng::{Rng, split_mix};
use nandex::spatial::Rect;
use nandex::{Cause, Lpn};
use nandex_lab::registry::{INDEXES, STORES, Stack, stacks};
use nandex_lab::spatial::SPATIAL;
use nandex_stacks::options::Settings;
use nandex_testkit::fuzz::{self, chips, files, part, use_for_a_while};
use std::fs;
use std::path::PathBuf;

/// A target, how it runs bytes, and how many mutations of each file of its corpus are tried: a quarter of
/// them in the gate.
type Target = (&'static str, fn(&[u8]), u32);

const TARGETS: [Target; 7] = [
    ("ordered_ops", fuzz::ordered_ops, 2),
    ("power_cut", chips::power_cut, 1),
    ("chip_image", fuzz::chip_image, 20),
    ("chip_pages", chips::chip_pages, 2),
    ("trace", files::trace, 300),
    ("chip_file", files::chip_file, 300),
    ("experiment_file", files::experiment_file, 60),
];

fn folder(target: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target)
}

/// The files of a target's corpus by name, and their bytes.
fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder(target)).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
    files.iter().map(|path| (name(path), fs::read(path).unwrap())).collect()
}

/// Some bytes changed, taken out, put in or repeated, as a fuzzer does.
fn mutated(bytes: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..1 + rng.below(4) {
        let at = rng.below(bytes.len() as u64 + 1) as usize;
        let end = (at + 1 + rng.below(12) as usize).min(bytes.len());
        match rng.below(6) {
            0 if at < bytes.len() => bytes[at] ^= 1 << rng.below(8),
            1 if at < bytes.len() => bytes[at] = [0, 0xff, b'9', b'-', b',', b'\n'][rng.below(6) as usize],
            2 => drop(bytes.drain(at..end)),
            3 => bytes.splice(at..at, (0..rng.below(9)).map(|_| b'9')).for_each(drop),
            4 => {
                let again = bytes[at..end].to_vec();
                bytes.splice(at..at, again).for_each(drop);
            }
            _ => bytes.truncate(at),
        }
    }
    bytes
}

fn seed() -> u64 {
    std::env::var("NANDEX_SEED").map_or(1, |text| text.parse().unwrap())
}

#[test]
fn every_seed_and_its_neighbours_run() {
    for (target, run, mutations) in TARGETS {
        let corpus = corpus(target);
        assert!(!corpus.is_empty(), "{target} has no corpus");
        for (number, (name, bytes)) in corpus.iter().enumerate() {
            println!("{target}/{name}");
            run(bytes);
            let mut rng = Rng::new(seed() ^ split_mix(number as u64));
            for _ in 0..sized(mutations.div_ceil(4), mutations) {
                run(&mutated(bytes, &mut rng));
            }
        }
    }
}

#[test]
fn every_target_has_a_corpus_and_the_whole_is_small() {
    let manifest = fs::read_to_string(folder("..").join("Cargo.toml")).unwrap();
    let listed = manifest.matches("[[bin]]").count();
    assert_eq!(listed, TARGETS.len(), "targets of fuzz/Cargo.toml and of this test");
    let mut all = 0;
    for (target, ..) in TARGETS {
        assert!(manifest.contains(&format!("fuzz_targets/{target}.rs")), "{target}");
        all += corpus(target).iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
    }
    assert!(all < 300_000, "{all} bytes");
}

/// Indexes left out to keep the corpus small: their pages look like those of another index in it.
const LIKE_OTHERS: [&str; 10] =
    ["bof", "ibsf", "rbftl", "wobf", "mb", "ls-lru", "lazy-update", "pio", "as-btree", "fb-tree"];

/// Small used chips with every kind of page, each with the name of the index that wrote it.
fn used_chips() -> Vec<(String, Vec<u8>)> {
    let settings = Settings::new(RecordFormat::new(8, 8));
    let shared = |nor: bool| {
        let mut part = part(512, 8, 24);
        if nor {
            part = INDEXES.iter().find(|e| e.name == "vmtree-ow").unwrap().suited(part);
        }
        Shared::new(SimChip::new(&part).unwrap())
    };
    let mut chips = Vec::new();
    let is_wanted = |stack: &Stack| {
        let is_first = stack.ftl.is_none_or(|ftl| ftl.name == STORES[0].name);
        is_first && !LIKE_OTHERS.contains(&stack.index.name)
    };
    for stack in stacks().filter(is_wanted) {
        let nor = stack.index.name == "vmtree-ow";
        let chip = shared(nor);
        let Ok(mut index) = (stack.index.format)(Box::new(chip.clone()), &stack.settings(settings.clone()))
        else {
            continue;
        };
        use_for_a_while(&mut *index, stack.index, &mut Rng::new(3), (12, 9)).unwrap();
        index.close().unwrap();
        drop(index);
        chips.push((stack.name().replace(' ', "-"), chips::pages_of(&chip.lock(), u8::from(nor) << 1)));
    }
    for entry in STORES {
        let chip = shared(false);
        let Ok(mut store) = (entry.format)(Box::new(chip.clone()), &settings) else { continue };
        let page = vec![7; store.page_bytes()];
        for lpn in [3, 1, 3, 2] {
            store.write(Lpn(lpn), Cause::Host, &page).unwrap();
        }
        store.sync().unwrap();
        drop(store);
        chips.push((entry.name.to_string(), chips::pages_of(&chip.lock(), 0)));
    }
    for entry in SPATIAL {
        let chip = shared(false);
        let Ok(mut index) = entry.format::<f64, 2>(Box::new(chip.clone()), &settings) else { continue };
        for id in 0..9 {
            index.insert(&Rect::point([id as f64, 1.0]).unwrap(), id).unwrap();
        }
        index.close().unwrap();
        drop(index);
        chips.push((entry.name.to_string(), chips::pages_of(&chip.lock(), 0)));
    }
    chips
}

/// The image of a chip with pages of a store on it.
fn store_image() -> Vec<u8> {
    let chip = Shared::new(SimChip::new(&part(512, 8, 24)).unwrap());
    let settings = Settings::new(RecordFormat::new(8, 8));
    let mut store = (STORES[0].format)(Box::new(chip.clone()), &settings).unwrap();
    store.write(Lpn(3), Cause::Host, &vec![7; store.page_bytes()]).unwrap();
    store.sync().unwrap();
    drop(store);
    chip.lock().to_image()
}

#[test]
fn the_chips_of_the_corpus_mount() {
    if std::env::var_os("NANDEX_BLESS").is_some() {
        fs::write(folder("chip_image").join("store"), store_image()).unwrap();
        for (name, bytes) in used_chips() {
            fs::write(folder("chip_pages").join(name), bytes).unwrap();
        }
    }
    let names: Vec<String> = corpus("chip_pages").into_iter().map(|(name, _)| name).collect();
    assert!(names.len() > 20, "{names:?}");
}

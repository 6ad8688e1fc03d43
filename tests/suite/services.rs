//! Services of an index beside single operations: batches, work ahead of time, scrubbing, telling its room.

#![allow(clippy::unwrap_used)]

use nandex::ftl::dftl::{DftlConfig, DftlFtl};
use nandex::ftl::page_map::{FtlConfig, PageMapFtl};
use nandex::nand::catalogue::mlc_with;
use nandex::nand::sim::{CutWhen, Disturb, Faults, PowerCut, SimChip, TornModel};
use nandex::ordered::bplus::{BPlusConfig, BPlusTree};
use nandex::ordered::mu::star::MuStarTree;
use nandex::ordered::{Change, Durability};
use nandex::rng::Rng;
use nandex::testing::{self, Model};
use nandex::{
    Cause, IndexError, MuTree, Nand, OrderedIndex, Plow, PlowConfig, RawConfig, RecordFormat, Shared,
    VmConfig, VmTree, WanderingTree,
};

type Chip = Shared<SimChip>;
type Index = Box<dyn OrderedIndex>;

const RECORD: RecordFormat = RecordFormat::new(4, 8);

/// An index, how it is made and how it is found again.
struct Kind {
    name: &'static str,
    format: fn(Chip) -> Result<Index, IndexError>,
    mount: fn(Chip) -> Result<Index, IndexError>,
}

/// Any chip, so that each index is compiled for one.
fn any(chip: Chip) -> Box<dyn Nand> {
    Box::new(chip)
}

macro_rules! raw {
    ($name:literal, $tree:ident, $config:expr) => {
        Kind {
            name: $name,
            format: |chip| Ok(Box::new($tree::format(any(chip), &$config)?)),
            mount: |chip| Ok(Box::new($tree::mount(any(chip), &$config)?)),
        }
    };
}

fn plow(durability: Durability) -> PlowConfig {
    PlowConfig { durability, memtable: Some(64), ..PlowConfig::new(RECORD) }
}

fn kinds() -> Vec<Kind> {
    vec![
        raw!("mu", MuTree, RawConfig::new(RECORD)),
        raw!("mu*", MuStarTree, RawConfig::new(RECORD)),
        raw!("wandering", WanderingTree, RawConfig::new(RECORD)),
        raw!(
            "mu with a write part",
            MuTree,
            RawConfig { write_pages: Some(3), durability: Durability::EverySync, ..RawConfig::new(RECORD) }
        ),
        raw!("vmtree", VmTree, VmConfig::new(RECORD)),
        raw!("plow", Plow, plow(Durability::EveryOperation)),
        raw!("plow that syncs", Plow, plow(Durability::EverySync)),
        Kind {
            name: "bplus on page-map",
            format: |chip| {
                let store = PageMapFtl::format(any(chip), &FtlConfig::default())?;
                Ok(Box::new(BPlusTree::format(store, &BPlusConfig::new(RECORD))?))
            },
            mount: |chip| {
                Ok(Box::new(BPlusTree::mount_found(PageMapFtl::mount(any(chip), &FtlConfig::default())?)?))
            },
        },
    ]
}

fn on_dftl() -> Kind {
    Kind {
        name: "bplus on dftl",
        format: |chip| {
            let store = DftlFtl::format(any(chip), &DftlConfig::default())?;
            Ok(Box::new(BPlusTree::format(
                store,
                &BPlusConfig::new(RECORD).with_durability(Durability::None),
            )?))
        },
        mount: |chip| {
            Ok(Box::new(BPlusTree::mount_found(DftlFtl::mount(any(chip), &DftlConfig::default())?)?))
        },
    }
}

fn chip(blocks: u32) -> SimChip {
    SimChip::new(&mlc_with(512, 16, blocks)).unwrap()
}

fn value(number: u32) -> [u8; 8] {
    (u64::from(number) << 17 | 5).to_be_bytes()
}

fn put(index: &mut Index, key: u32, number: u32) {
    index.put(&key.to_be_bytes(), &value(number)).unwrap();
}

fn contents(index: &mut Index) -> Model {
    testing::contents(&mut **index).unwrap()
}

fn note(model: &mut Model, batch: &[([u8; 4], Option<[u8; 8]>)]) {
    for (key, value) in batch {
        match value {
            Some(value) => model.insert(key.to_vec(), value.to_vec()),
            None => model.remove(&key[..]),
        };
    }
}

/// Keys and values of a batch: far apart, neighbours, one twice, one removed, and one removed that is not
/// there.
fn batch() -> Vec<([u8; 4], Option<[u8; 8]>)> {
    let put = |key: u32, number| (key.to_be_bytes(), Some(value(number)));
    let remove = |key: u32| (key.to_be_bytes(), None);
    let mut batch = vec![put(7, 1), put(900, 2), put(7, 3), remove(300), remove(5001), put(902, 4)];
    batch.extend((0..12).map(|i| put(2000 + 3 * i, i)));
    batch.push(remove(2003));
    batch.push(remove(5000));
    batch
}

fn changes(batch: &[([u8; 4], Option<[u8; 8]>)]) -> Vec<Change<'_>> {
    batch
        .iter()
        .map(|(key, value)| value.as_ref().map_or(Change::remove(key), |v| Change::put(key, v)))
        .collect()
}

#[test]
fn a_batch_cut_anywhere_is_there_or_not() {
    let batch = batch();
    for kind in kinds() {
        let shared = Shared::new(chip(64));
        let mut index = (kind.format)(shared.clone()).unwrap();
        (0..260).for_each(|i| put(&mut index, i * 13 % 1000, i));
        index.sync().unwrap();
        let before = contents(&mut index);
        let mut after = before.clone();
        note(&mut after, &batch);
        let whole = shared.lock().clone();
        let first = whole.operations();
        index.apply(&changes(&batch)).unwrap();
        index.sync().unwrap();
        assert_eq!(contents(&mut index), after, "{}", kind.name);
        assert!(index.check().unwrap().is_sound(), "{}", kind.name);
        let operations = shared.lock().operations() - first;
        assert!(operations > 0, "{}", kind.name);
        let mut seen = [0; 2];
        for cut in 0..operations {
            for (when, torn) in [
                (CutWhen::Before, TornModel::Prefix),
                (CutWhen::Inside, TornModel::Unreadable),
                (CutWhen::Inside, TornModel::LooksErased),
            ] {
                let again = Shared::new(whole.clone());
                let mut index = (kind.mount)(again.clone()).unwrap();
                let at_operation = again.lock().operations() + cut;
                again.lock().plan_power_cut(PowerCut { at_operation, when, torn, seed: cut });
                let done = index.apply(&changes(&batch)).and_then(|()| index.sync());
                drop(index);
                again.lock().power_on();
                let never = PowerCut { at_operation: u64::MAX, when, torn, seed: 0 };
                again.lock().plan_power_cut(never);
                let mut index = (kind.mount)(again).unwrap_or_else(|e| panic!("{}, {cut}: {e}", kind.name));
                let found = contents(&mut index);
                let which = usize::from(found == after);
                assert!(found == before || found == after, "{}: cut {cut} {when:?}", kind.name);
                assert!(done.is_err() || which == 1, "{}: cut {cut} {when:?}: acknowledged", kind.name);
                seen[which] += 1;
                assert!(index.check().unwrap().is_sound(), "{}", kind.name);
            }
        }
        assert!(seen[0] > 0, "{}: {seen:?}", kind.name);
    }
}

#[test]
fn a_batch_that_is_too_large_changes_nothing_and_says_what_is_possible() {
    for kind in kinds().into_iter().chain([on_dftl()]) {
        let mut index = (kind.format)(Shared::new(chip(64))).unwrap();
        (0..100).for_each(|i| put(&mut index, i, i));
        let before = contents(&mut index);
        let many: Vec<[u8; 4]> = (1..4000u32).map(|i| (i * 977 % 100_003 + 200).to_be_bytes()).collect();
        let many: Vec<Change<'_>> = many.iter().map(|key| Change::put(key, b"12345678")).collect();
        let refused = index.apply(&many);
        let Err(IndexError::BatchTooLarge { unit, most }) = refused else {
            panic!("{}: {refused:?}", kind.name);
        };
        assert!(most > 0 && (unit == "pages" || most == index.batch_max()), "{}: {most} {unit}", kind.name);
        assert_eq!(contents(&mut index), before, "{}", kind.name);
        assert!(index.check().unwrap().is_sound(), "{}", kind.name);
        if index.batch_max() > 1 {
            index.apply(&many[..2]).unwrap();
            assert_eq!(contents(&mut index).len(), 102, "{}", kind.name);
        }
        assert!(index.apply(&[]).is_ok(), "{}", kind.name);
    }
}

/// Reads the same few records until the block that they lie in would be unreadable several times over.
fn read_on(
    index: &mut Index,
    rounds: u32,
    mut between: impl FnMut(&mut Index, u32),
) -> Result<(), IndexError> {
    let mut found = [0; 8];
    for round in 0..rounds {
        for key in [3u32, 151, 299] {
            assert!(index.get(&key.to_be_bytes(), &mut found)?, "key {key} is gone");
            assert_eq!(found, value(key));
        }
        between(index, round);
    }
    Ok(())
}

/// Pages read and programmed for scrubbing. What waits in a write part is programmed by its flush.
fn scrubs(chip: &Chip) -> u64 {
    let counters = chip.lock().counters();
    counters.page_reads[Cause::Scrubbing as usize] + counters.page_programs[Cause::Scrubbing as usize]
}

#[test]
fn pages_that_become_hard_to_read_are_moved() {
    let disturb = Disturb { reads_per_bit: 60, erases_per_bit: 0, ecc_strength: 8 };
    for kind in kinds().into_iter().chain([on_dftl()]) {
        let new = || {
            let shared = Shared::new(chip(64));
            let mut index = (kind.format)(shared.clone()).unwrap();
            (0..300).for_each(|key| put(&mut index, key, key));
            index.sync().unwrap();
            shared.lock().set_faults(Faults { disturb, ..Faults::default() });
            (shared, index)
        };
        // Left alone, the pages are lost.
        let (_, mut index) = new();
        assert!(read_on(&mut index, 1500, |_, _| {}).is_err(), "{}: nothing wears", kind.name);
        // Changes elsewhere move them on the way.
        let (shared, mut index) = new();
        let move_some = |index: &mut Index, round: u32| {
            if round.is_multiple_of(2) {
                put(index, 1000 + round % 50, round);
            }
        };
        read_on(&mut index, 1500, move_some).unwrap_or_else(|e| panic!("{}: {e}", kind.name));
        assert!(scrubs(&shared) > 0, "{}: moved under another name", kind.name);
        // Scrubbing does it without a change.
        let (shared, mut index) = new();
        let look = |index: &mut Index, round: u32| {
            if round.is_multiple_of(5) {
                index.scrub(8).unwrap();
            }
        };
        read_on(&mut index, 1500, look).unwrap_or_else(|e| panic!("{}: {e}", kind.name));
        assert!(scrubs(&shared) > 8, "{}", kind.name);
        shared.lock().set_faults(Faults::default());
        assert!(index.check().unwrap().is_sound(), "{}", kind.name);
    }
}

#[test]
fn a_round_of_scrubbing_ends() {
    for kind in kinds().into_iter().chain([on_dftl()]) {
        let mut index = (kind.format)(Shared::new(chip(64))).unwrap();
        (0..300).for_each(|key| put(&mut index, key, key));
        index.sync().unwrap();
        let mut calls = 0;
        while index.scrub(2).unwrap() > 0 {
            calls += 1;
            assert!(calls < 1000, "{}: no end", kind.name);
        }
        assert!(calls > 0, "{}: {calls}", kind.name);
    }
}

#[test]
fn the_room_that_is_told_is_there_and_collection_ahead_of_time_spares_later_ones() {
    for kind in kinds() {
        let mut rng = Rng::new(11);
        let mut index = (kind.format)(Shared::new(chip(48))).unwrap();
        let (mut told, mut inserted) = (Vec::new(), 0u64);
        loop {
            if inserted.is_multiple_of(400) {
                told.push((inserted, index.free().unwrap().records));
            }
            let key = (rng.next_u64() as u32).to_be_bytes();
            match index.put(&key, &value(7)) {
                Ok(()) => inserted += 1,
                Err(IndexError::Full(_)) => break,
                Err(error) => panic!("{}: {error}", kind.name),
            }
            if inserted.is_multiple_of(97) {
                index.maintain(40).unwrap();
            }
        }
        let all = told.iter().all(|(at, records)| at + records <= inserted);
        assert!(all, "{}: {inserted} went in, told {told:?}", kind.name);
        assert!(told[0].1 * 5 > inserted, "{}: {inserted} went in, told {}", kind.name, told[0].1);
        assert!(index.check().unwrap().is_sound(), "{}", kind.name);
    }
}

#[test]
fn a_batch_on_a_full_chip_is_done_or_refused() {
    for kind in kinds() {
        let mut rng = Rng::new(5);
        let mut index = (kind.format)(Shared::new(chip(20))).unwrap();
        let (mut model, mut refused) = (Model::new(), 0);
        loop {
            let key = (rng.below(50_000) as u32).to_be_bytes();
            match index.put(&key, &value(1)) {
                Ok(()) => model.insert(key.to_vec(), value(1).to_vec()),
                Err(IndexError::Full(_)) => break,
                Err(error) => panic!("{}: {error}", kind.name),
            };
        }
        for round in 0..150u32 {
            let puts = if round % 3 < 2 { 11 } else { 5 };
            let batch: Vec<([u8; 4], Option<[u8; 8]>)> = (0..12)
                .map(|i| {
                    let any = (rng.below(50_000) as u32).to_be_bytes();
                    let old = model
                        .range(any.to_vec()..)
                        .next()
                        .map_or(any, |(key, _)| key[..].try_into().unwrap());
                    if i < puts { (any, Some(value(round))) } else { (old, None) }
                })
                .collect();
            match index.apply(&changes(&batch)) {
                Ok(()) => note(&mut model, &batch),
                Err(IndexError::Full(_)) => refused += 1,
                Err(error) => panic!("{}, round {round}: {error}", kind.name),
            }
        }
        assert!(refused > 0, "{}: never full with {} records", kind.name, model.len());
        assert!(contents(&mut index) == model, "{}", kind.name);
        assert!(index.check().unwrap().is_sound(), "{}", kind.name);
    }
}

//! Values of any length against a map; cut at every operation of the chip; full, failing and damaged chips.

use super::*;
use crate::ftl::page_map::{FtlConfig, PageMapFtl};
use crate::inputs::sized;
use crate::nand::catalogue::mlc_64m;
use crate::nand::sim::{CutWhen, Faults, PowerCut, SimChip, TornModel};
use crate::nand::{BlockRange, Geometry, Part};
use crate::ordered::bplus::{BPlusConfig, BPlusTree};
use crate::ordered::mu::MuTree;
use crate::ordered::plow::{Plow, PlowConfig};
use crate::ordered::{Change, Direction, RawConfig, within};
use crate::rng::Rng;
use crate::shared::Shared;
use crate::testing::Model;
use crate::units::Ppn;
use alloc::vec;
use core::ops::{Bound, ControlFlow};

type Half = BlockRange<Shared<SimChip>>;

const MAX_KEY: u8 = 6;
const SHORT: u8 = 12;
const MAX_VALUE: usize = 2_500;
const LOG: u32 = 24;

fn chip() -> SimChip {
    SimChip::new(&Part { geometry: Geometry::new(1024, 64, 8, 48), ..mlc_64m() }).unwrap()
}

fn key(rng: &mut Rng) -> Vec<u8> {
    (0..rng.below(u64::from(MAX_KEY) + 1)).map(|_| [0, 1, 0xff][rng.below(3) as usize]).collect()
}

/// Mostly short or of some hundred bytes, now and then of several pages.
fn value(rng: &mut Rng) -> Vec<u8> {
    let most = [20, 400, 1_000, MAX_VALUE as u64][rng.below(4) as usize];
    let fill = rng.below(256) as u8;
    (0..rng.below(most + 1)).map(|i| fill.wrapping_add(i as u8)).collect()
}

fn plow_config(durability: Durability) -> PlowConfig {
    PlowConfig { durability, memtable: Some(40), ..PlowConfig::new(record(MAX_KEY, SHORT)) }
}

fn halves(chip: SimChip) -> [Half; 2] {
    BlockRange::divide(chip, LOG)
}

fn plow(chip: SimChip, durability: Durability) -> ValueLog<Plow<Half>, Half> {
    let [log, keys] = halves(chip);
    ValueLog::new(Plow::format(keys, &plow_config(durability)).unwrap(), log, MAX_VALUE).unwrap()
}

fn mounted(chip: SimChip, durability: Durability) -> ValueLog<Plow<Half>, Half> {
    let [log, keys] = halves(chip);
    ValueLog::new(Plow::mount(keys, &plow_config(durability)).unwrap(), log, MAX_VALUE).unwrap()
}

fn taken_apart(values: ValueLog<Plow<Half>, Half>) -> SimChip {
    let (index, log) = values.into_parts();
    drop(log);
    index.into_nand().into_nand().into_inner().unwrap()
}

fn pairs<I: OrderedIndex, N: Nand>(
    values: &mut ValueLog<I, N>,
    ends: (Bound<&[u8]>, Bound<&[u8]>),
    direction: Direction,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut all = Vec::new();
    values
        .range(ends.0, ends.1, direction, &mut |key, value| {
            all.push((key.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        })
        .unwrap();
    all
}

fn everything<I: OrderedIndex, N: Nand>(values: &mut ValueLog<I, N>) -> Model {
    pairs(values, (Bound::Unbounded, Bound::Unbounded), Direction::Ascending).into_iter().collect()
}

fn assert_sound<I: OrderedIndex, N: Nand>(values: &mut ValueLog<I, N>, model: &Model) {
    let report = values.check().unwrap();
    assert!(report.is_sound(), "{:?}", report.violations);
    assert_eq!(report.records, model.len() as u64);
    assert_eq!(&everything(values), model);
}

fn assert_ranges<I: OrderedIndex, N: Nand>(values: &mut ValueLog<I, N>, model: &Model, rng: &mut Rng) {
    let (low, high) = (key(rng), key(rng));
    let ends = (Bound::Included(&low[..]), Bound::Excluded(&high[..]));
    let is_within = |pair: &(&Vec<u8>, &Vec<u8>)| within(pair.0, ends).is_eq();
    let mut expected: Vec<_> =
        model.iter().filter(is_within).map(|(key, value)| (key.clone(), value.clone())).collect();
    assert_eq!(pairs(values, ends, Direction::Ascending), expected);
    expected.reverse();
    assert_eq!(pairs(values, ends, Direction::Descending), expected);
    let mut first = Vec::new();
    values
        .range(ends.0, ends.1, Direction::Descending, &mut |key, _| {
            first.push(key.to_vec());
            ControlFlow::Break(())
        })
        .unwrap();
    assert_eq!(first, expected.iter().take(1).map(|pair| pair.0.clone()).collect::<Vec<_>>());
}

fn answers_like_a_map<I: OrderedIndex, N: Nand>(values: &mut ValueLog<I, N>, seed: u64) -> Model {
    let (mut model, mut rng) = (Model::new(), Rng::new(seed));
    for step in 0..2_500 {
        let (key, value) = (key(&mut rng), value(&mut rng));
        match rng.below(6) {
            0 => assert_eq!(values.insert(&key, &value).unwrap(), model.insert(key, value).is_some()),
            1 => {
                values.put(&key, &value).unwrap();
                model.insert(key, value);
            }
            2 => assert_eq!(values.remove(&key).unwrap(), model.remove(&key).is_some(), "step {step}"),
            3 => {
                let other = model.keys().next().cloned().unwrap_or_default();
                let half = &value[..value.len() / 2];
                let batch = [Change::put(&key, &value), Change::remove(&other), Change::put(&key, half)];
                match values.apply(&batch) {
                    Err(IndexError::BatchTooLarge { .. }) => continue,
                    done => done.unwrap(),
                }
                model.remove(&other);
                model.insert(key.clone(), half.to_vec());
            }
            4 if step % 3 == 0 => values.sync().unwrap(),
            4 if step % 3 == 1 => drop(values.maintain(3).unwrap()),
            _ => assert_eq!(values.get(&key).unwrap(), model.get(&key).cloned(), "step {step}"),
        }
        if step % 25 == 0 {
            assert_ranges(values, &model, &mut rng);
        }
    }
    assert_sound(values, &model);
    assert!(values.log_stats().values_moved > 20, "{:?}", values.log_stats());
    model
}

#[test]
fn values_of_any_length_are_those_of_a_map() {
    for durability in [Durability::EveryOperation, Durability::EverySync] {
        let mut values = plow(chip(), durability);
        let model = answers_like_a_map(&mut values, 1);
        values.close().unwrap();
        assert_sound(&mut mounted(taken_apart(values), durability), &model);
    }
    let record = record(MAX_KEY, SHORT);
    let [log, keys] = halves(chip());
    let tree = MuTree::format(keys, &RawConfig::new(record)).unwrap();
    answers_like_a_map(&mut ValueLog::new(tree, log, MAX_VALUE).unwrap(), 2);
    let [log, keys] = halves(chip());
    let store = PageMapFtl::format(keys, &FtlConfig::default()).unwrap();
    let tree = BPlusTree::format(store, &BPlusConfig::new(record)).unwrap();
    answers_like_a_map(&mut ValueLog::new(tree, log, MAX_VALUE).unwrap(), 3);
}

/// Runs until the power is cut. Returns the chip, and the states that may be found: every state from the last
/// sync on.
fn run(mut values: ValueLog<Plow<Half>, Half>, operations: u32) -> (SimChip, Vec<Model>) {
    let (mut rng, is_sure) = (Rng::new(9), values.durability() == Durability::EveryOperation);
    let mut states = vec![everything(&mut values)];
    for _ in 0..operations {
        let (key, other, value) = (key(&mut rng), key(&mut rng), value(&mut rng));
        let mut after = states.last().cloned().unwrap();
        let (done, is_synced) = match rng.below(6) {
            0 => {
                after.remove(&key);
                (values.remove(&key).map(drop), is_sure)
            }
            1 => {
                // In this order the value stays where both are of one key.
                after.remove(&other);
                after.insert(key.clone(), value.clone());
                (values.apply(&[Change::remove(&other), Change::put(&key, &value)]), is_sure)
            }
            2 => (values.sync(), true),
            _ => {
                after.insert(key.clone(), value.clone());
                (values.put(&key, &value), is_sure)
            }
        };
        states.push(after);
        if done.is_err() {
            break;
        }
        if is_synced {
            states.drain(..states.len() - 1);
        }
    }
    (taken_apart(values), states)
}

/// True if each key is as in one of the states. In the class *every sync*, changes after the sync may be
/// there in part. In the other class it must be the state before an operation or after it.
fn is_of(found: &Model, states: &[Model], is_sure: bool) -> bool {
    if is_sure {
        return states.contains(found);
    }
    let mut keys: Vec<&Vec<u8>> = found.keys().collect();
    keys.extend(states.iter().flat_map(Model::keys));
    keys.into_iter().all(|key| states.iter().any(|state| state.get(key) == found.get(key)))
}

fn cut_everywhere(durability: Durability, full: u32) {
    let mut values = plow(chip(), durability);
    // So full that blocks are cleaned and erased.
    let mut rng = Rng::new(3);
    for i in 0..full {
        let key = key(&mut rng);
        if i % 3 == 0 {
            values.remove(&key).unwrap();
        } else {
            values.put(&key, &value(&mut rng)).unwrap();
        }
    }
    values.close().unwrap();
    let begun = taken_apart(values);
    let (last, _) = run(mounted(begun.clone(), durability), 60);
    let first = taken_apart(mounted(begun.clone(), durability)).operations();
    let mut cuts = 0;
    for at_operation in (first..last.operations()).step_by(crate::inputs::stride(11)) {
        let torn = TornModel::ALL[at_operation as usize % 4];
        let when = if at_operation % 3 == 0 { CutWhen::After } else { CutWhen::Inside };
        let mut chip = begun.clone();
        chip.plan_power_cut(PowerCut { at_operation, when, torn, seed: at_operation });
        let (mut chip, states) = run(mounted(chip, durability), 60);
        chip.power_on();
        let mut again = mounted(chip, durability);
        let found = everything(&mut again);
        let is_sure = durability == Durability::EveryOperation;
        assert!(is_of(&found, &states, is_sure), "{at_operation} {when:?} {torn:?}");
        assert_sound(&mut again, &found);
        cuts += 1;
        // Life goes on.
        again.put(b"after", &[7; 1_500]).unwrap();
        again.sync().unwrap();
        assert_eq!(again.get(b"after").unwrap().unwrap(), [7; 1_500]);
    }
    assert!(cuts > crate::inputs::sized(9, 100), "{cuts}");
}

#[test]
fn a_cut_leaves_whole_values_only() {
    cut_everywhere(Durability::EveryOperation, 1_000);
    cut_everywhere(Durability::EverySync, 1_000);
}

/// Puts without a sync go round the whole log: blocks whose values the last commit names are not erased.
#[test]
fn blocks_emptied_since_the_last_sync_are_kept() {
    let opened = |chip, is_new| {
        let [log, keys] = BlockRange::divide(chip, 8);
        let config = plow_config(Durability::EverySync);
        let index = if is_new { Plow::format(keys, &config) } else { Plow::mount(keys, &config) };
        ValueLog::new(index.unwrap(), log, MAX_VALUE).unwrap()
    };
    let mut values = opened(chip(), true);
    let synced: Model = (0..20u8).map(|i| (vec![i], vec![i; 900])).collect();
    synced.iter().for_each(|(key, value)| values.put(key, value).unwrap());
    values.close().unwrap();
    let begun = taken_apart(values);
    let go_round = |chip| {
        let mut values = opened(chip, false);
        for round in 1..=8u8 {
            for i in 0..20u8 {
                if values.put(&[i], &[i ^ (round << 5); 900]).is_err() {
                    return taken_apart(values);
                }
            }
        }
        taken_apart(values)
    };
    let last = go_round(begun.clone()).operations();
    for at_operation in begun.operations()..last {
        let mut chip = begun.clone();
        let torn = TornModel::ALL[at_operation as usize % 4];
        chip.plan_power_cut(PowerCut { at_operation, when: CutWhen::Inside, torn, seed: at_operation });
        let mut chip = go_round(chip);
        chip.power_on();
        let mut values = opened(chip, false);
        let found = everything(&mut values);
        assert!(found.keys().eq(synced.keys()), "{at_operation}");
        for (key, value) in &found {
            assert_eq!((value.len(), value[0] & 31), (900, key[0]), "{at_operation}");
        }
        assert_sound(&mut values, &found);
    }
}

/// Cuts follow one another while blocks are cleaned, each before a block is empty: the mounts between them
/// must not begin a block each, until there is none.
#[test]
fn cuts_in_a_row_take_no_room() {
    let opened = |chip, is_new| {
        let [log, keys] = BlockRange::divide(chip, 6);
        let config = plow_config(Durability::EveryOperation);
        let index = if is_new { Plow::format(keys, &config) } else { Plow::mount(keys, &config) };
        ValueLog::new(index.unwrap(), log, MAX_VALUE).unwrap()
    };
    let mut resumed = 0;
    for seed in 0..sized(8, 60) {
        let mut rng = Rng::new(seed);
        let mut values = opened(chip(), true);
        let mut model = Model::new();
        for i in 0..50u8 {
            values.put(&[i], &[i; 300]).unwrap();
            model.insert(vec![i], vec![i; 300]);
        }
        for round in 0..60u8 {
            let mut chip = taken_apart(values);
            let at_operation = chip.operations() + rng.below(16);
            let torn = TornModel::ALL[rng.below(4) as usize];
            chip.plan_power_cut(PowerCut { at_operation, when: CutWhen::Inside, torn, seed });
            values = opened(chip, false);
            let (key, error) = loop {
                let key = vec![rng.below(50) as u8];
                match values.put(&key, &[round; 300]) {
                    Ok(()) => drop(model.insert(key, vec![round; 300])),
                    Err(error) => break (key, error),
                }
            };
            resumed += u32::from(values.log.blocks.is_resumed);
            let mut chip = taken_apart(values);
            assert!(!chip.is_powered(), "seed {seed}, round {round}: {error}");
            chip.power_on();
            values = opened(chip, false);
            // The operation that was cut is done, or is not.
            let found = values.get(&key).unwrap();
            assert!(found == model.get(&key).cloned() || found == Some(vec![round; 300]));
            found.into_iter().for_each(|value| drop(model.insert(key.clone(), value)));
        }
        assert_sound(&mut values, &model);
    }
    assert!(resumed > 0, "no block was filled further");
}

#[test]
fn a_full_log_refuses_and_takes_again_what_removals_gave() {
    let mut values = plow(chip(), Durability::EverySync);
    let mut model = Model::new();
    let name = |i: u32| i.to_be_bytes().to_vec();
    let mut count = 0;
    let refused = loop {
        match values.put(&name(count), &[count as u8; 700]) {
            Ok(()) => model.insert(name(count), vec![count as u8; 700]),
            Err(error) => break error,
        };
        count += 1;
    };
    assert_eq!(refused, IndexError::NO_BLOCK);
    let stats = values.log_stats();
    let bytes = u64::from(count) * 700;
    // 21 of 24 blocks of 8 KiB, less an eighth.
    assert!(bytes > 140_000 && stats.live_bytes <= stats.capacity_bytes, "{bytes} {stats:?}");
    // Updates go on at that, for ever, and shorter values are taken in place of longer ones.
    let mut rng = Rng::new(4);
    for round in 0..3_000u32 {
        let at = name(rng.below(count.into()) as u32);
        let now = vec![round as u8; 500 + rng.below(201) as usize];
        values.put(&at, &now).unwrap();
        model.insert(at, now);
    }
    assert_sound(&mut values, &model);
    for i in (0..count).step_by(2) {
        assert!(values.remove(&name(i)).unwrap());
        model.remove(&name(i));
    }
    for i in 0..count / 3 {
        values.put(&name(i), &[1; 690]).unwrap();
        model.insert(name(i), vec![1; 690]);
    }
    assert_sound(&mut values, &model);
}

#[test]
fn blocks_that_fail_are_left() {
    let mut chip = chip();
    chip.set_faults(Faults {
        seed: 5,
        program_failures_ppm: 500,
        erase_failures_ppm: 1_000,
        read_failures_ppm: 2_000,
        ..Faults::default()
    });
    let mut values = plow(chip, Durability::EverySync);
    let (mut model, mut rng) = (Model::new(), Rng::new(5));
    // A third that nobody changes.
    for i in 0..60u8 {
        values.put(&[9, i], &[i; 700]).unwrap();
        model.insert(vec![9, i], vec![i; 700]);
    }
    let mut refused = None;
    for step in 0..6_000u32 {
        let (key, value) = (vec![rng.below(60) as u8], vec![step as u8; 900]);
        match values.put(&key, &value) {
            Ok(()) => model.insert(key, value),
            Err(error) => {
                assert!(error.is_refusal(), "{error}");
                refused = Some(step);
                break;
            }
        };
        if step % 50 == 0 {
            values.sync().unwrap();
        }
    }
    values.sync().unwrap();
    assert!(refused.is_none_or(|step| step > 2_000), "{refused:?}");
    assert_sound(&mut values, &model);
    let bad = values.log.geometry.blocks - values.log.blocks.good();
    assert!(bad > 0 && values.log_stats().programs_failed > 0, "{bad}");
    assert_sound(&mut mounted(taken_apart(values), Durability::EverySync), &model);
}

#[test]
fn blocks_of_values_that_nobody_changes_wear_like_the_others() {
    let mut values = plow(chip(), Durability::EverySync);
    let mut rng = Rng::new(6);
    for i in 0..60u8 {
        values.put(&[9, i], &[i; 700]).unwrap();
    }
    for step in 0..30_000u32 {
        values.put(&[rng.below(60) as u8], &[step as u8; 900]).unwrap();
    }
    let chip = taken_apart(values);
    let erases = &chip.wear()[..LOG as usize];
    let (least, most) = (erases.iter().min().unwrap(), erases.iter().max().unwrap());
    assert!(*least * 4 > *most * 3, "{erases:?}");
}

#[test]
fn damage_is_told_and_the_other_values_stay() {
    let mut values = plow(chip(), Durability::EverySync);
    let mut model = Model::new();
    for i in 0..100u8 {
        values.put(&[i], &[i; 300]).unwrap();
        model.insert(vec![i], vec![i; 300]);
    }
    values.close().unwrap();
    let mut lost = Vec::new();
    for i in 0..100 {
        let places = values.places_of(&[i]).unwrap().unwrap();
        if places.iter().any(|place| place.page == Ppn(2)) {
            lost.push(i);
        }
    }
    assert!(lost.len() > 2, "{lost:?}");
    let mut chip = taken_apart(values);
    chip.make_unreadable(Ppn(2));
    let mut values = mounted(chip, Durability::EverySync);
    for i in 0..100u8 {
        let found = values.get(&[i]);
        if lost.contains(&i) {
            assert!(found.is_err(), "{i}");
        } else {
            assert_eq!(found.unwrap(), Some(vec![i; 300]));
        }
    }
    assert!(values.check().is_err());
    // What is lost may be put anew, and everything else goes on.
    for i in lost {
        values.put(&[i], &[i; 300]).unwrap();
    }
    assert_sound(&mut values, &model);
}

#[test]
fn what_cannot_be_is_refused() {
    let [log, keys] = halves(chip());
    let index = Plow::format(keys, &plow_config(Durability::EverySync)).unwrap();
    let most = 21 * 8 * (1024 - 64) / 16 * 15 / 2;
    let refused = ValueLog::new(index, log, most + 1).err();
    assert!(
        matches!(refused, Some(IndexError::Unsupported(_) | IndexError::BatchTooLarge { .. })),
        "{refused:?}"
    );
    let [log, keys] = BlockRange::divide(chip(), 5);
    let index = Plow::format(keys, &plow_config(Durability::EverySync)).unwrap();
    let refused = ValueLog::new(index, log, 100).err();
    assert_eq!(refused, Some(IndexError::ChipTooSmall { who: "a log of values", needs: 6, has: 5 }));
    let mut values = plow(chip(), Durability::EverySync);
    let too_long = |what, expected, got| IndexError::WrongLength { what, expected, got };
    assert_eq!(values.put(&[0; 7], &[0; 21]), Err(too_long("key", 6, 7)));
    assert_eq!(values.put(&[0; 6], &[0; 2_501]), Err(too_long("value", 2_500, 2_501)));
    assert_eq!(values.get(&[0; 7]), Err(too_long("key", 6, 7)));
}

/// An index of another log: places beyond this one's end.
#[test]
fn an_index_of_another_log_is_told() {
    let mut values = plow(chip(), Durability::EverySync);
    for i in 0..150u8 {
        values.put(&[i], &[i; 900]).unwrap();
    }
    values.close().unwrap();
    let [_, keys] = halves(taken_apart(values));
    let index = Plow::mount(keys, &plow_config(Durability::EverySync)).unwrap();
    let small = SimChip::new(&Part { geometry: Geometry::new(1024, 64, 8, 8), ..mlc_64m() }).unwrap();
    let told = ValueLog::new(index, small, MAX_VALUE).err();
    assert!(matches!(told, Some(IndexError::Corrupted { .. })), "{told:?}");
}

#[test]
fn what_becomes_hard_to_read_is_moved_by_scrubbing() {
    let mut chip = chip();
    chip.set_faults(Faults { seed: 5, read_failures_ppm: 30_000, ..Faults::default() });
    let mut values = plow(chip, Durability::EverySync);
    let mut model = Model::new();
    for i in 0..100u8 {
        values.put(&[i], &[i; 300]).unwrap();
        model.insert(vec![i], vec![i; 300]);
    }
    values.sync().unwrap();
    let mut rounds = 0;
    while values.log_stats().values_moved == 0 || rounds < 3 {
        while values.scrub(10).unwrap() > 0 {}
        rounds += 1;
        assert!(rounds < 50);
    }
    assert_sound(&mut values, &model);
}

#[test]
fn what_is_held_is_what_is_declared() {
    let mut values = plow(chip(), Durability::EverySync);
    let empty = values.ram_bytes();
    assert!(empty > 2 * 1024 + values.index().ram_bytes());
    for i in 0..10u8 {
        values.put(&[i], &[i; 60]).unwrap();
    }
    assert!(values.ram_bytes() > empty);
}

//! Records of any length against a map, and cut at every operation of the chip.

use super::*;
use crate::ftl::page_map::{FtlConfig, PageMapFtl};
use crate::nand::catalogue::mlc_64m;
use crate::nand::sim::{CutWhen, PowerCut, SimChip, TornModel};
use crate::nand::{Geometry, Part};
use crate::ordered::bplus::{BPlusConfig, BPlusTree};
use crate::ordered::mu::MuTree;
use crate::ordered::plow::{Plow, PlowConfig};
use crate::ordered::{RawConfig, within};
use crate::rng::Rng;
use crate::testing::{Bounds, Model};
use alloc::boxed::Box;

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

const MAX_KEY: usize = 6;
const MAX_VALUE: usize = 40;

fn chip() -> SimChip {
    SimChip::new(&Part { geometry: Geometry::new(1024, 64, 8, 64), ..mlc_64m() }).unwrap()
}

/// Few bytes, zeros among them, so that keys are beginnings of one another.
fn key(rng: &mut Rng) -> Vec<u8> {
    (0..rng.below(MAX_KEY as u64 + 1)).map(|_| [0, 1, 0xff][rng.below(3) as usize]).collect()
}

fn value(rng: &mut Rng) -> Vec<u8> {
    (0..rng.below(MAX_VALUE as u64 + 1)).map(|_| rng.below(256) as u8).collect()
}

fn pairs<I: OrderedIndex>(index: &mut Variable<I>, ends: &Bounds, direction: Direction) -> Pairs {
    let mut all = Pairs::new();
    let mut visit = |key: &[u8], value: &[u8]| {
        all.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    };
    let (low, high) = slices(ends);
    index.range(low, high, direction, &mut visit).unwrap();
    all
}

fn slices(ends: &Bounds) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (ends.0.as_ref().map(Vec::as_slice), ends.1.as_ref().map(Vec::as_slice))
}

fn everything<I: OrderedIndex>(index: &mut Variable<I>) -> Model {
    pairs(index, &(Bound::Unbounded, Bound::Unbounded), Direction::Ascending).into_iter().collect()
}

fn assert_ranges<I: OrderedIndex>(index: &mut Variable<I>, model: &Model, rng: &mut Rng) {
    let mut end = || match rng.below(3) {
        0 => Bound::Included(key(rng)),
        1 => Bound::Excluded(key(rng)),
        _ => Bound::Unbounded,
    };
    let ends = (end(), end());
    let is_within = |key: &[u8]| within(key, slices(&ends)).is_eq();
    let mut expected: Pairs = model
        .iter()
        .filter(|(key, _)| is_within(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    assert_eq!(pairs(index, &ends, Direction::Ascending), expected, "{ends:?}");
    expected.reverse();
    assert_eq!(pairs(index, &ends, Direction::Descending), expected, "{ends:?}");
}

fn answers_like_a_map<I: OrderedIndex>(index: I, max_value: usize) {
    let mut index = Variable::new(index, max_value).unwrap();
    let (mut model, mut rng) = (Model::new(), Rng::new(max_value as u64));
    for step in 0..1_500 {
        let (key, mut value) = (key(&mut rng), value(&mut rng));
        value.truncate(max_value);
        match rng.below(5) {
            0 => assert_eq!(index.insert(&key, &value).unwrap(), model.insert(key, value).is_some()),
            1 => {
                index.put(&key, &value).unwrap();
                model.insert(key, value);
            }
            2 => assert_eq!(index.remove(&key).unwrap(), model.remove(&key).is_some(), "step {step}"),
            3 => {
                // The last change of a key counts.
                let other = model.keys().next().cloned().unwrap_or_default();
                let batch = [
                    Change::put(&key, &value),
                    Change::remove(&other),
                    Change::put(&key, &value[..value.len() / 2]),
                ];
                match index.apply(&batch) {
                    Err(IndexError::BatchTooLarge { .. }) => continue,
                    done => done.unwrap(),
                }
                model.remove(&other);
                model.insert(key.clone(), value[..value.len() / 2].to_vec());
            }
            _ => assert_eq!(index.get(&key).unwrap(), model.get(&key).cloned(), "step {step}"),
        }
        if step % 50 == 0 {
            assert_ranges(&mut index, &model, &mut rng);
        }
    }
    let report = index.check().unwrap();
    assert!(report.is_sound(), "{:?}", report.violations);
    assert_eq!((report.records, everything(&mut index)), (model.len() as u64, model));
}

#[test]
fn records_of_any_length_are_those_of_a_map() {
    for piece in [3, 7, 42] {
        let record = RecordFormat::variable(MAX_KEY as u8, piece);
        answers_like_a_map(MuTree::format(chip(), &RawConfig::new(record)).unwrap(), MAX_VALUE);
        answers_like_a_map(
            Plow::format(chip(), &PlowConfig::new(record)).unwrap(),
            MAX_VALUE.min(15 * usize::from(piece)),
        );
        let store = PageMapFtl::format(chip(), &FtlConfig::default()).unwrap();
        answers_like_a_map(BPlusTree::format(store, &BPlusConfig::new(record)).unwrap(), MAX_VALUE);
    }
}

#[test]
fn one_piece_needs_no_batches_and_no_look_up() {
    let record = RecordFormat::variable(4, 12);
    let set = PlowConfig { answers: crate::ordered::buffered::Answers::Pool, ..PlowConfig::new(record) };
    let mut index = Variable::new(Plow::format(chip(), &set).unwrap(), 10).unwrap();
    for i in 0..2_000u32 {
        index.put(&(i % 700).to_be_bytes(), &[i as u8; 10][..i as usize % 11]).unwrap();
    }
    assert_eq!(index.index().stats().metrics.iter().find(|m| m.name == "level_lookups").unwrap().value, 0);
    let mut value = Vec::new();
    for i in 1_300..2_000u32 {
        assert!(index.get_into(&(i % 700).to_be_bytes(), &mut value).unwrap());
        assert_eq!(value, &[i as u8; 10][..i as usize % 11]);
    }
}

#[test]
fn what_does_not_fit_is_refused_with_the_limit() {
    let record = RecordFormat::variable(4, 8);
    let tree = || MuTree::format(chip(), &RawConfig::new(record)).unwrap();
    // 256 changes, but 255 pieces at most.
    let most = 255 * 8 - VALUE_HEAD;
    assert_eq!(
        Variable::new(tree(), most + 1).err(),
        Some(IndexError::BatchTooLarge { unit: "pieces of a value", most: 255 })
    );
    let mut index = Variable::new(tree(), 20).unwrap();
    let too_long = |what, expected, got| IndexError::WrongLength { what, expected, got };
    assert_eq!(index.put(&[0; 4], &[0; 21]), Err(too_long("value", 20, 21)));
    assert_eq!(index.put(&[0; 5], &[0; 20]), Err(too_long("key", 4, 5)));
    assert_eq!(index.get(&[0; 5]), Err(too_long("key", 4, 5)));
    let (low, high) = (Bound::Included(&[0u8; 9][..]), Bound::Unbounded);
    let visit: Visit<'_> = &mut |_, _| ControlFlow::Continue(());
    assert_eq!(index.range(low, high, Direction::Ascending, visit), Err(too_long("key", 4, 9)));
    let plain = MuTree::format(chip(), &RawConfig::new(RecordFormat::new(1, 1))).unwrap();
    assert_eq!(Variable::new(plain, 1).err(), Some(too_long("key", 2, 1)));
}

#[test]
fn a_value_without_a_piece_is_named() {
    let record = RecordFormat::variable(4, 8);
    let mut index = Variable::new(MuTree::format(chip(), &RawConfig::new(record)).unwrap(), 60).unwrap();
    for name in [&b"a"[..], b"b", b"c"] {
        index.put(name, &[1; 30]).unwrap();
    }
    for piece in 0..4 {
        let mut broken = vec![0; index.index().record().key_bytes.into()];
        fill_key(&mut broken, b"b", piece);
        let mut value = vec![0; 8];
        assert!(index.index_mut().get(&broken, &mut value).unwrap());
        index.index_mut().remove(&broken).unwrap();
        let is_lacking =
            |error: IndexError| matches!(error, IndexError::Corrupted { what: "a value lacks a piece", .. });
        assert!(index.check().is_err_and(is_lacking), "piece {piece}");
        for direction in [Direction::Ascending, Direction::Descending] {
            let visit: Visit<'_> = &mut |_, _| ControlFlow::Continue(());
            let found = index.range(Bound::Unbounded, Bound::Unbounded, direction, visit);
            assert!(found.is_err_and(is_lacking), "piece {piece} {direction:?}");
        }
        index.index_mut().insert(&broken, &value).unwrap();
        assert!(index.check().unwrap().is_sound());
    }
}

#[test]
fn a_length_that_no_value_has_is_told() {
    let mut tree = MuTree::format(chip(), &RawConfig::new(RecordFormat::variable(4, 8))).unwrap();
    let mut key = vec![0; 6];
    fill_key(&mut key, b"b", 0);
    tree.insert(&key, &[0xff; 8]).unwrap();
    let mut index = Variable::new(tree, 60).unwrap();
    for done in [index.get(b"b").map(drop), index.put(b"b", b"x"), index.remove(b"b").map(drop)] {
        assert!(matches!(done, Err(IndexError::Corrupted { at: 255, .. })), "{done:?}");
    }
    assert!(matches!(index.check(), Err(IndexError::Corrupted { .. })));
}

/// A run until the power goes; the chip, and the contents before and after the change under way.
fn run<I: OrderedIndex>(index: I, back: fn(I) -> SimChip) -> (SimChip, [Model; 2]) {
    let mut index = Variable::new(index, MAX_VALUE).unwrap();
    let mut rng = Rng::new(5);
    let mut states = [Model::new(), Model::new()];
    for _ in 0..100 {
        let (key, other, value) = (key(&mut rng), key(&mut rng), value(&mut rng));
        let mut after = states[1].clone();
        let done = match rng.below(3) {
            0 => {
                after.remove(&key);
                index.remove(&key).map(drop)
            }
            1 => {
                after.insert(key.clone(), value.clone());
                index.put(&key, &value)
            }
            _ => {
                after.insert(key.clone(), value.clone());
                after.insert(other.clone(), vec![9; 3]);
                index.apply(&[Change::put(&key, &value), Change::put(&other, &[9; 3])])
            }
        };
        states = [core::mem::take(&mut states[1]), after];
        if done.is_err() {
            break;
        }
    }
    (back(index.into_inner()), states)
}

fn cut_everywhere<I: OrderedIndex>(
    format: Box<dyn Fn(SimChip) -> I>,
    mount: Box<dyn Fn(SimChip) -> I>,
    back: fn(I) -> SimChip,
) {
    let empty = back(format(chip()));
    let last = run(mount(empty.clone()), back).0.operations();
    assert!(last > empty.operations() + 60, "{last}");
    for at_operation in empty.operations()..last {
        let torn = TornModel::ALL[at_operation as usize % 4];
        let when = if at_operation % 3 == 0 { CutWhen::After } else { CutWhen::Inside };
        let mut chip = empty.clone();
        chip.plan_power_cut(PowerCut { at_operation, when, torn, seed: at_operation });
        let (mut chip, states) = run(mount(chip), back);
        chip.power_on();
        let mut index = Variable::new(mount(chip), MAX_VALUE).unwrap();
        let found = everything(&mut index);
        assert!(states.contains(&found), "{at_operation} {when:?} {torn:?}");
        assert!(index.check().unwrap().is_sound());
    }
}

// Its plow seals many pages of a small chip.
#[cfg(feature = "full")]
#[test]
fn a_cut_leaves_whole_values_only() {
    let record = RecordFormat::variable(MAX_KEY as u8, 9);
    let set = PlowConfig { memtable: Some(24), ..PlowConfig::new(record) };
    cut_everywhere(
        Box::new(move |chip| Plow::format(chip, &set).unwrap()),
        Box::new(move |chip| Plow::mount(chip, &set).unwrap()),
        Plow::into_nand,
    );
    let set = RawConfig::new(record);
    let mount = set;
    cut_everywhere(
        Box::new(move |chip| MuTree::format(chip, &set).unwrap()),
        Box::new(move |chip| MuTree::mount(chip, &mount).unwrap()),
        MuTree::into_nand,
    );
}

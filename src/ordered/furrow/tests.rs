//! Cuts, damage, full stores and whole lives on few blocks of each kind of chip.

mod lives;
mod spoilt;

use super::{Furrow, FurrowConfig};
use crate::nand::catalogue::mlc_with;
use crate::nand::sim::{CutWhen, PowerCut, SimChip, TornModel};
use crate::nand::{Geometry, Part};
use crate::ordered::{Change, Direction, Durability, OrderedIndex, RecordFormat};
use crate::rng::Rng;
use crate::shared::Shared;
use crate::units::Ppn;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::{Bound, ControlFlow};

const KEYS: u64 = 12;
type State = BTreeMap<u64, u64>;

/// A chip of two blocks: each page programmed once, words programmed once, bytes that are overwritten.
fn parts() -> [Part; 3] {
    let plain = mlc_with(256, 6, 2);
    let words = Part { geometry: plain.geometry.with_append_bytes(8), ..plain.clone() };
    let nor = plain.geometry.with_programs_per_page_max(Geometry::ANY_PROGRAMS);
    [plain.clone(), words, Part { geometry: nor, ..plain }]
}

fn config(durability: Durability) -> FurrowConfig {
    FurrowConfig { durability, ..FurrowConfig::new(RecordFormat::new(8, 8)) }
}

/// One operation, drawn: a put, a removal or a batch.
fn step(index: &mut dyn OrderedIndex, rng: &mut Rng, state: &mut State) -> bool {
    let (key, value) = (rng.below(KEYS), rng.next_u64());
    let other = rng.below(KEYS);
    let (k, o, v) = (key.to_be_bytes(), other.to_be_bytes(), value.to_be_bytes());
    let done = match rng.below(6) {
        0 => index.remove(&k).map(|was| assert_eq!(was, state.contains_key(&key))),
        1 => index.apply(&[Change::put(&k, &v), Change::remove(&o)]),
        _ => index.insert(&k, &v).map(|was| assert_eq!(was, state.contains_key(&key))),
    };
    if done.is_err() {
        return false;
    }
    *state = held(index);
    true
}

/// Records of the index.
fn held(index: &mut dyn OrderedIndex) -> State {
    let mut state = State::new();
    index
        .range(Bound::Unbounded, Bound::Unbounded, Direction::Ascending, &mut |key, value| {
            let number = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().unwrap());
            state.insert(number(key), number(value));
            ControlFlow::Continue(())
        })
        .unwrap();
    state
}

/// States after each operation of a history, and the chip's operations at its end.
fn history(part: &Part, seed: u64, ops: usize) -> (Vec<State>, u64, u64) {
    let chip = Shared::new(SimChip::new(part).unwrap());
    let mut index = Furrow::format(chip.clone(), &config(Durability::EveryOperation)).unwrap();
    let begun = chip.lock().operations();
    let (mut rng, mut state) = (Rng::new(seed), State::new());
    let mut states = alloc::vec![State::new()];
    for _ in 0..ops {
        assert!(step(&mut index, &mut rng, &mut state));
        states.push(state.clone());
    }
    let ended = chip.lock().operations();
    (states, begun, ended)
}

#[test]
fn a_cut_anywhere_loses_nothing_on_two_blocks() {
    for part in parts() {
        let ops = 60;
        let (states, begun, ended) = history(&part, 5, ops);
        for (at, torn) in (begun..ended).flat_map(|at| TornModel::ALL.map(|torn| (at, torn))) {
            let chip = Shared::new(SimChip::new(&part).unwrap());
            let mut index = Furrow::format(chip.clone(), &config(Durability::EveryOperation)).unwrap();
            let cut = PowerCut { seed: at, ..PowerCut::new(at, CutWhen::Inside, torn) };
            chip.lock().plan_power_cut(cut);
            let (mut rng, mut state, mut done) = (Rng::new(5), State::new(), 0);
            while done < ops && step(&mut index, &mut rng, &mut state) {
                done += 1;
            }
            drop(index);
            chip.lock().power_on();
            let what = alloc::format!("cut {at} {torn:?} after {done}, {:?}", part.geometry);
            let mounted = Furrow::mount(chip.clone(), &config(Durability::EveryOperation));
            let mut index = mounted.unwrap_or_else(|error| panic!("{error}: {what}"));
            let found = held(&mut index);
            assert!(found == states[done] || states.get(done + 1) == Some(&found), "{what}");
            for round in 0..8 {
                assert!(step(&mut index, &mut rng, &mut state), "{what}");
                if round % 3 == 0 {
                    drop(index);
                    index = Furrow::mount(chip.clone(), &config(Durability::EveryOperation)).unwrap();
                    assert_eq!(held(&mut index), state, "{what}");
                }
            }
            assert!(index.check().unwrap().is_sound(), "{what}");
        }
    }
}

#[test]
fn a_full_store_takes_changes_and_removals() {
    for part in parts() {
        let chip = Shared::new(SimChip::new(&part).unwrap());
        let mut index = Furrow::format(chip, &config(Durability::EveryOperation)).unwrap();
        let most = index.records_max().unwrap();
        for key in 0..most {
            index.insert(&key.to_be_bytes(), &[1; 8]).unwrap();
        }
        assert!(index.insert(&most.to_be_bytes(), &[1; 8]).unwrap_err().is_full());
        for key in (0..most).chain(0..most) {
            assert!(index.insert(&key.to_be_bytes(), &[2; 8]).unwrap());
        }
        for key in 0..most {
            assert!(index.remove(&key.to_be_bytes()).unwrap());
        }
        assert_eq!((held(&mut index).len(), index.free().unwrap().records), (0, most));
    }
}

#[test]
fn a_spoilt_page_is_told_and_never_a_former_value() {
    for part in parts() {
        let (mut chip, mut rng, mut state) = (SimChip::new(&part).unwrap(), Rng::new(9), State::new());
        let mut index = Furrow::format(&mut chip, &config(Durability::EveryOperation)).unwrap();
        (0..40).for_each(|_| assert!(step(&mut index, &mut rng, &mut state)));
        index.close().unwrap();
        drop(index);
        let (mut told, mut spoilt) = (0, 0);
        for page in (0..part.geometry.pages()).map(Ppn).filter(|&page| !chip.is_erased(page)) {
            let mut chip = chip.clone();
            chip.make_unreadable(page);
            spoilt += 1;
            let Ok(mut index) = Furrow::mount(chip, &config(Durability::EveryOperation)) else {
                told += 1;
                continue;
            };
            for key in 0..KEYS {
                let mut value = [0; 8];
                let Ok(found) = index.get(&key.to_be_bytes(), &mut value) else { continue };
                let expected = state.get(&key).map(|value| value.to_be_bytes());
                assert_eq!(found.then_some(value), expected, "{page}, {:?}", part.geometry);
            }
        }
        assert!(told > 0 && told < spoilt, "{told} of {spoilt}");
    }
}

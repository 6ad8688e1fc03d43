//! Damaged pages: the answer is right, or it is an error, or the mount is refused; nothing panics, nothing is wrong in silence.

use crate::edge::Life;
use crate::kinds::{Chip, Kind, ON_CHIPS, chip_for};
use crate::model::{Map, contents};
use nandex::nand::sim::{CutWhen, Faults, PowerCut, SimChip, TornModel};
use nandex::ordered::{Direction, Durability};
use nandex::rng::Rng;
use nandex::{Cause, Geometry, IndexError, Nand, NandError, Pbn, Ppn};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// What is wrong with a page.
#[derive(Clone, Copy, Debug)]
enum Harm {
    Unreadable,
    Flipped,
    Zeros,
    Ones,
    /// It holds what another one holds.
    Exchanged(Ppn),
    /// It holds what it held on an earlier chip.
    Old,
}

/// A chip some of whose pages read wrongly until they are written again.
struct Harmed {
    chip: Chip,
    old: SimChip,
    harms: BTreeMap<Ppn, Harm>,
}

impl Nand for Harmed {
    fn geometry(&self) -> Geometry {
        self.chip.geometry()
    }

    fn read(&mut self, ppn: Ppn, cause: Cause, data: &mut [u8], spare: &mut [u8]) -> Result<(), NandError> {
        match self.harms.get(&ppn) {
            None => self.chip.read(ppn, cause, data, spare),
            Some(Harm::Unreadable) => Err(NandError::Uncorrectable(ppn)),
            Some(Harm::Exchanged(other)) => self.chip.read(*other, cause, data, spare),
            Some(Harm::Old) => self.old.read(ppn, cause, data, spare),
            Some(harm) => {
                self.chip.read(ppn, cause, data, spare)?;
                for byte in data.iter_mut().chain(spare) {
                    *byte = match harm {
                        Harm::Zeros => 0,
                        Harm::Ones => 0xff,
                        _ => *byte,
                    };
                }
                data[9] ^= if matches!(harm, Harm::Flipped) { 0x11 } else { 0 };
                Ok(())
            }
        }
    }

    fn program(&mut self, ppn: Ppn, cause: Cause, data: &[u8], spare: &[u8]) -> Result<(), NandError> {
        self.harms.remove(&ppn);
        self.chip.program(ppn, cause, data, spare)
    }

    fn erase(&mut self, pbn: Pbn, cause: Cause) -> Result<(), NandError> {
        let geometry = self.geometry();
        self.harms.retain(|ppn, _| geometry.block_of(*ppn) != pbn);
        self.chip.erase(pbn, cause)
    }

    fn is_bad(&mut self, pbn: Pbn) -> Result<bool, NandError> {
        self.chip.is_bad(pbn)
    }

    fn mark_bad(&mut self, pbn: Pbn) -> Result<(), NandError> {
        self.chip.mark_bad(pbn)
    }
}

/// What came of a damaged chip.
#[derive(Debug, Default)]
struct Tally {
    right: u32,
    refused: u32,
    /// The last operations are missing.
    earlier: u32,
}

/// A used chip, an earlier one, what it holds, and what it held at the last few operations.
struct Used {
    chip: SimChip,
    old: SimChip,
    states: Vec<Map>,
}

fn used(kind: Kind, closes: bool, seed: u64) -> Used {
    let chip = chip_for(&kind, 24);
    let mut life = Life::new(kind, &chip, seed);
    let mut old = chip.borrow().clone();
    let mut states = Vec::new();
    for op in 0..2600 {
        if op == 1700 {
            life.index.sync().unwrap();
            old = chip.borrow().clone();
        }
        let change = life.random_change();
        let _full = life.try_change(change);
        states.push(life.model.now.clone());
    }
    if closes {
        life.index.close().unwrap();
        states = vec![life.model.now.clone()];
    } else if kind.durability == Durability::EverySync {
        life.index.sync().unwrap();
    }
    let chip = chip.borrow().clone();
    Used { chip, old, states: states.split_off(states.len().saturating_sub(60)) }
}

fn read_harmed(kind: &Kind, used: &Used, harms: BTreeMap<Ppn, Harm>) -> Result<Map, IndexError> {
    let chip = Rc::new(RefCell::new(used.chip.clone()));
    let harmed = Harmed { chip, old: used.old.clone(), harms };
    let mut index = kind.open_on(harmed, false)?;
    let _checked = index.check()?;
    let all = contents(&mut *index, Direction::Ascending)?;
    for (key, value) in &all {
        let mut got = [0; 28];
        assert!(index.get(key, &mut got)? && got == *value, "{}: get and range differ", kind.name);
    }
    Ok(all)
}

#[test]
fn damage_is_noticed() {
    for kind in ON_CHIPS {
        for (closes, seed) in [(true, 5), (false, 6)] {
            let (used, mut tally) = (used(kind, closes, seed), Tally::default());
            let mut rng = Rng::new(seed);
            let written: Vec<Ppn> =
                (0..used.chip.geometry().pages()).map(Ppn).filter(|ppn| !used.chip.is_erased(*ppn)).collect();
            for (i, &page) in written.iter().enumerate() {
                let other = written[rng.below(written.len() as u64) as usize];
                let all = [
                    Harm::Unreadable,
                    Harm::Flipped,
                    Harm::Zeros,
                    Harm::Ones,
                    Harm::Exchanged(other),
                    Harm::Old,
                ];
                for harm in [all[i % 6], all[(i / 6 + i) % 6]] {
                    let mut harms = BTreeMap::from([(page, harm)]);
                    if let Harm::Exchanged(other) = harm {
                        harms.insert(other, Harm::Exchanged(page));
                    }
                    match read_harmed(&kind, &used, harms) {
                        Err(
                            IndexError::Corrupted { .. } | IndexError::Store(_) | IndexError::NotFormatted(_),
                        ) => {
                            tally.refused += 1;
                        }
                        Err(error) => panic!("{}: {harm:?} in {page}: {error}", kind.name),
                        Ok(all) if Some(&all) == used.states.last() => tally.right += 1,
                        Ok(all) => {
                            // What was programmed last may be missing, as after a cut; nothing else.
                            let what = format!("{} closed {closes}: {harm:?} in {page}", kind.name);
                            let is_earlier = !closes && used.states.contains(&all);
                            assert!(is_earlier, "{what}: {} records", all.len());
                            tally.earlier += 1;
                        }
                    }
                }
            }
            println!("{} closed {closes}: {tally:?} of {} pages", kind.name, written.len());
            assert!(tally.earlier <= 8, "{}: {tally:?}", kind.name);
        }
    }
}

#[test]
fn reads_that_fail_now_and_then_lose_nothing() {
    for kind in ON_CHIPS {
        let chip = chip_for(&kind, 24);
        let mut life = Life::new(kind, &chip, 9);
        for round in 0..25u64 {
            let faults = Faults { seed: round, read_failures_ppm: 4_000, ..Faults::default() };
            chip.borrow_mut().set_faults(faults);
            for _ in 0..80 {
                let change = life.random_change();
                match life.try_change(change) {
                    Ok(_) | Err(IndexError::Full) => {}
                    Err(error) => panic!("{}: round {round}: {error}", kind.name),
                }
            }
            let mut under_way = None;
            if round % 2 == 0 {
                let at_operation = chip.borrow().operations() + life.rng.below(30);
                let cut = PowerCut {
                    at_operation,
                    when: CutWhen::Inside,
                    torn: TornModel::ALL[round as usize % 4],
                    seed: round,
                };
                chip.borrow_mut().plan_power_cut(cut);
                while chip.borrow().is_powered() {
                    let change = life.random_change();
                    under_way = life.try_change(change).is_err().then_some(change);
                }
                chip.borrow_mut().power_on();
            }
            let (index, found) = crate::model::mount_and_read(&kind, &chip, "reads fail");
            assert!(life.model.accept(&found, under_way), "{}: round {round}", kind.name);
            life.index = index;
        }
    }
}

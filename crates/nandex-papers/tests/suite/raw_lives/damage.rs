//! Damaged pages: the answer is right, or it is an error, or the mount is refused; nothing panics, nothing is
//! wrong in silence.

use super::edge::Life;
use super::kinds::{Kind, ON_CHIPS, chip_for};
use super::model::{Map, contents};
use crate::inputs::sized;
use nandex::nand::sim::{CutWhen, Faults, PowerCut, SimChip, TornModel};
use nandex::ordered::{Direction, Durability};
use nandex::rng::Rng;
use nandex::testing::{self, Wrong};
use nandex::{Cause, IndexError, Nand, Ppn};
use std::collections::BTreeMap;

/// The damage to a page.
#[derive(Clone, Copy, Debug)]
enum Harm {
    Unreadable,
    Flipped,
    Zeros,
    Ones,
    /// The page holds what another one holds.
    Exchanged(Ppn),
    /// The page holds what it held on an earlier chip.
    Old,
}

impl Harm {
    /// The contents that a page reads as until its block is erased.
    fn of(self, page: Ppn, used: &Used) -> Wrong {
        let bytes_of = |chip: &SimChip, page| {
            let mut chip = chip.clone();
            let geometry = chip.geometry();
            let mut bytes = vec![0; (geometry.page_bytes + geometry.spare_bytes) as usize];
            let (data, spare) = bytes.split_at_mut(geometry.page_bytes as usize);
            chip.read(page, Cause::Check, data, spare).is_ok().then_some(bytes)
        };
        let now = bytes_of(&used.chip, page);
        let bytes = match self {
            Harm::Unreadable => None,
            Harm::Exchanged(other) => bytes_of(&used.chip, other),
            Harm::Old => bytes_of(&used.old, page),
            Harm::Zeros => now.map(|bytes| vec![0; bytes.len()]),
            Harm::Ones => now.map(|bytes| vec![0xff; bytes.len()]),
            Harm::Flipped => now.map(|mut bytes| {
                bytes[9] ^= 0x11;
                bytes
            }),
        };
        bytes.map_or(Wrong::Unreadable, Wrong::Bytes)
    }
}

/// The outcome of a damaged chip.
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
    is_closed: bool,
}

fn used(kind: Kind, closes: bool, seed: u64) -> Used {
    let chip = chip_for(&kind, 32);
    let mut life = Life::new(kind, &chip, seed);
    let mut old = chip.lock().clone();
    let mut states = Vec::new();
    for op in 0..2600 {
        if op == 1700 {
            life.index.sync().unwrap();
            old = chip.lock().clone();
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
    let chip = chip.lock().clone();
    Used { chip, old, states: states.split_off(states.len().saturating_sub(60)), is_closed: closes }
}

fn read_harmed(kind: &Kind, used: &Used, harms: BTreeMap<Ppn, Harm>) -> Result<Map, IndexError> {
    let harmed = testing::Chip::new(used.chip.clone());
    harmed.spoil(harms.into_iter().map(|(page, harm)| (page, harm.of(page, used))));
    let mut index = kind.open_on(Box::new(harmed), false)?;
    let _checked = index.check()?;
    let all = contents(&mut *index, Direction::Ascending)?;
    for (key, value) in &all {
        let mut got = [0; 28];
        assert!(index.get(key, &mut got)? && got == *value, "{}: get and range differ", kind.name);
    }
    Ok(all)
}

/// Harms a page, and says what was wrong with the answers.
fn harm_page(kind: &Kind, used: &Used, (page, harm): (Ppn, Harm), tally: &mut Tally) -> Option<String> {
    let mut harms = BTreeMap::from([(page, harm)]);
    if let Harm::Exchanged(other) = harm {
        harms.insert(other, Harm::Exchanged(page));
    }
    match read_harmed(kind, used, harms) {
        Err(IndexError::Corrupted { .. } | IndexError::Store(_) | IndexError::NotFormatted(_)) => {
            tally.refused += 1;
        }
        Err(error) => return Some(format!("{harm:?} in {page}: {error}")),
        Ok(all) if Some(&all) == used.states.last() => tally.right += 1,
        // What was programmed last may be missing, as after a cut; nothing else.
        Ok(all) if !used.is_closed && used.states.contains(&all) => tally.earlier += 1,
        Ok(all) => return Some(format!("{harm:?} in {page}: {} records", all.len())),
    }
    None
}

/// Harms pages of a chip: one in three in two ways, or every page in every way. The gate takes fewer pages.
fn harm_pages(kind: &Kind, closes: bool, seed: u64, all: bool) -> Vec<String> {
    let (used, mut tally) = (used(*kind, closes, seed), Tally::default());
    let mut rng = Rng::new(seed);
    let written: Vec<Ppn> =
        (0..used.chip.geometry().pages()).map(Ppn).filter(|ppn| !used.chip.is_erased(*ppn)).collect();
    let mut wrong = Vec::new();
    for (i, &page) in written.iter().enumerate().step_by(if all { 1 } else { sized(8, 3) }) {
        let other = written[rng.below(written.len() as u64) as usize];
        let harms =
            [Harm::Unreadable, Harm::Flipped, Harm::Zeros, Harm::Ones, Harm::Exchanged(other), Harm::Old];
        let chosen = [i / 3 % 6, (i + 1) / 3 * 5 % 6];
        for (at, harm) in harms.into_iter().enumerate() {
            if all || chosen.contains(&at) {
                wrong.extend(harm_page(kind, &used, (page, harm), &mut tally));
            }
        }
    }
    println!("{} closed {closes}, seed {seed}: {tally:?} of {} pages", kind.name, written.len());
    if tally.earlier > if all { 40 } else { 8 } {
        wrong.push(format!("{tally:?}"));
    }
    wrong.iter().map(|words| format!("{} closed {closes}, seed {seed}: {words}", kind.name)).collect()
}

#[test]
fn damage_is_noticed() {
    // More with SEEDS=10, which takes a while.
    let seeds = std::env::var("SEEDS").ok().map(|seeds| seeds.parse().unwrap());
    let mut wrong = Vec::new();
    for kind in ON_CHIPS {
        for seed in 0..seeds.unwrap_or(1) {
            for (closes, seed) in [(true, 5 + 2 * seed), (false, 6 + 2 * seed)] {
                wrong.extend(harm_pages(&kind, closes, seed, seeds.is_some()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Damages that were answered wrongly once: pages of flushes and first pages of blocks, on chips that were
/// cut.
const ANSWERED_WRONGLY_ONCE: [(&str, u64, u32, Harm); 7] = [
    ("wandering with both", 6, 368, Harm::Old),
    ("wandering with both", 6, 368, Harm::Ones),
    ("wandering with both", 6, 383, Harm::Ones),
    ("wandering with both", 10, 330, Harm::Ones),
    ("wandering with both", 14, 176, Harm::Exchanged(Ppn(144))),
    ("wandering with a journal", 12, 448, Harm::Ones),
    ("wandering with a journal", 12, 448, Harm::Old),
];

#[test]
fn damage_that_was_not_noticed_once_is() {
    for (name, seed, page, harm) in ANSWERED_WRONGLY_ONCE {
        let kind = ON_CHIPS.into_iter().find(|kind| kind.name == name).unwrap();
        let used = used(kind, false, seed);
        let wrong = harm_page(&kind, &used, (Ppn(page), harm), &mut Tally::default());
        assert_eq!(wrong, None, "{name}, seed {seed}");
    }
}

#[test]
fn reads_that_fail_now_and_then_lose_nothing() {
    for kind in ON_CHIPS {
        let chip = chip_for(&kind, 32);
        let mut life = Life::new(kind, &chip, 9);
        for round in 0..25u64 {
            let faults = Faults { seed: round, read_failures_ppm: 4_000, ..Faults::default() };
            chip.lock().set_faults(faults);
            for _ in 0..80 {
                let change = life.random_change();
                match life.try_change(change) {
                    Ok(_) | Err(IndexError::Full(_)) => {}
                    Err(error) => panic!("{}: round {round}: {error}", kind.name),
                }
            }
            let mut under_way = None;
            if round % 2 == 0 {
                let at_operation = chip.lock().operations() + life.rng.below(30);
                let cut = PowerCut {
                    at_operation,
                    when: CutWhen::Inside,
                    torn: TornModel::ALL[round as usize % 4],
                    seed: round,
                };
                chip.lock().plan_power_cut(cut);
                while chip.lock().is_powered() {
                    let change = life.random_change();
                    under_way = life.try_change(change).is_err().then_some(change);
                }
                chip.lock().power_on();
            }
            let (index, found) = super::model::mount_and_read(&kind, &chip, "reads fail");
            assert!(life.model.accept(&found, under_way), "{}: round {round}", kind.name);
            life.index = index;
        }
    }
}

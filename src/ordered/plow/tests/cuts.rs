//! Power cuts at every physical operation, in the recovery too.

use super::*;
use crate::inputs::stride;
use crate::nand::sim::{CutWhen, PowerCut, TornModel};
use crate::nand::{LowerPages, Pairing};
use crate::testing::History;

pub(super) type Chip = LowerPages<SimChip>;

/// Result of a run: the chip, and the history of changes.
struct Run {
    chip: Chip,
    history: History,
}

fn work(chip: Chip, set: &PlowConfig, seed: u64, steps: u32) -> Run {
    let mut rng = Rng::new(seed);
    let mut plow = match Plow::mount(chip, set) {
        Ok(plow) => plow,
        Err(error) => panic!("mount: {error}"),
    };
    let mut history = History::new(everything(&mut plow));
    for _ in 0..steps {
        let mut op = Mix::updates(400, [3, 1], 0).draw(&mut rng, set.record);
        if let Op::Insert(_, value) = &mut op {
            shorten(value);
        }
        let mut done = history.apply(&mut plow, &op);
        if rng.chance(1, 12) {
            done = done.and_then(|()| history.apply(&mut plow, &Op::Sync));
        }
        if done.is_err() {
            break;
        }
    }
    Run { chip: plow.into_nand(), history }
}

fn assert_recovers(mut run: Run, set: &PlowConfig, what: &str) -> Chip {
    run.chip.nand_mut().power_on();
    let mut plow = Plow::mount(run.chip, set).unwrap_or_else(|error| panic!("{what}: {error}"));
    let found = everything(&mut plow);
    let is_sure = set.durability == Durability::EveryOperation;
    let least = if is_sure { run.history.acknowledged() } else { 0 };
    assert!(run.history.had(&found, least), "{what}: {} records", found.len());
    assert_holds(&mut plow, &found);
    plow.into_nand()
}

fn operations(chip: &Chip) -> u64 {
    chip.clone().into_nand().operations()
}

fn paired(pairing: Pairing, (pages_per_block, blocks): (u32, u32)) -> Chip {
    let part = Part { pairing, ..chip(PAGE, pages_per_block, blocks).part().clone() };
    LowerPages::new(SimChip::new(&part).unwrap(), pairing)
}

pub(super) fn cut_everywhere(set: &PlowConfig, chip: Chip, steps: u32) {
    cut_from(set, Plow::format(chip, set).unwrap().into_nand(), steps);
}

fn cut_from(set: &PlowConfig, formatted: Chip, steps: u32) {
    let first = work(formatted.clone(), set, 1, steps);
    let last = operations(&first.chip);
    for at_operation in (operations(&formatted)..last).step_by(stride(7)) {
        for (when, torn) in
            [(CutWhen::Inside, 0), (CutWhen::Inside, 3), (CutWhen::After, 1), (CutWhen::Inside, 2)]
        {
            let torn = TornModel::ALL[(torn + at_operation as usize) % 4];
            let mut chip = formatted.clone();
            chip.nand_mut().plan_power_cut(PowerCut { at_operation, when, torn, seed: at_operation });
            let run = work(chip, set, 1, steps);
            let chip = assert_recovers(run, set, &alloc::format!("{at_operation} {when:?} {torn:?}"));
            // And again, a little later.
            let (mut again, next) = (chip.clone(), operations(&chip) + at_operation % 7);
            again.nand_mut().plan_power_cut(PowerCut { at_operation: next, when, torn, seed: at_operation });
            let run = work(again, set, 2, 40);
            assert_recovers(run, set, &alloc::format!("{at_operation} {when:?} {torn:?}, then {next}"));
        }
    }
}

#[test]
fn a_cut_loses_nothing_acknowledged() {
    for levels in [1, 2, 3] {
        let set = PlowConfig {
            levels: Some(levels),
            memtable: Some(9),
            ..settings(4, 4, Durability::EveryOperation)
        };
        cut_everywhere(&set, paired(Pairing::None, (8, 40)), 160);
    }
}

#[test]
fn a_cut_leaves_a_prefix_from_the_last_sync_on() {
    for levels in [1, 2, 3] {
        let set =
            PlowConfig { levels: Some(levels), memtable: Some(40), ..settings(8, 12, Durability::EverySync) };
        cut_everywhere(&set, paired(Pairing::None, (4, 48)), 700);
    }
}

#[cfg(feature = "full")]
#[test]
fn a_cut_around_the_first_program_of_41_bits_loses_nothing() {
    for (class, memtable) in [(Durability::EveryOperation, 9), (Durability::EverySync, 60)] {
        let set = PlowConfig { levels: Some(2), memtable: Some(memtable), ..settings(8, 12, class) };
        let mut plow = Plow::format(paired(Pairing::None, (4, 48)), &set).unwrap();
        plow.core.medium.sequence = (1 << 40) - 150;
        (0..50).for_each(|i| plow.put(&key(i, 8), &[7; 12]).unwrap());
        plow.close().unwrap();
        assert!(plow.core.medium.sequence < 1 << 40);
        cut_from(&set, plow.into_nand(), 300);
    }
}

#[cfg(feature = "full")]
#[test]
fn a_cut_among_records_without_their_zeros_loses_nothing() {
    for (levels, class, steps) in [(2, Durability::EveryOperation, 120), (3, Durability::EverySync, 400)] {
        let set = PlowConfig { levels: Some(levels), memtable: Some(6), ..settings(8, 41, class) };
        cut_everywhere(&set, paired(Pairing::None, (8, 40)), steps);
    }
}

#[test]
fn a_cut_that_destroys_the_other_page_of_a_pair_loses_nothing() {
    for (levels, class, steps) in [(2, Durability::EveryOperation, 70), (3, Durability::EverySync, 300)] {
        let set = PlowConfig { levels: Some(levels), memtable: Some(9), ..settings(4, 4, class) };
        cut_everywhere(&set, paired(Pairing::Three, (16, 40)), steps);
    }
}

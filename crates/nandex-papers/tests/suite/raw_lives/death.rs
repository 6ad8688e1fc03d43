//! The end of life: programs and erases fail more and more often until nothing can be written. Acknowledged
//! records can be read for ever, at once and after every mount.

use super::edge::Life;
use super::kinds::{Below, Chip, LOGS_IN_PLACE, ON_CHIPS, chip_for};
use super::model::{contents, mount_and_read};
use crate::inputs::stride;
use nandex::IndexError;
use nandex::nand::sim::Faults;
use nandex::ordered::{Direction, Durability};

/// Programs and erases that fail, in a million.
fn fail(chip: &Chip, seed: u64, programs: u32, erases: u32) {
    let faults = Faults {
        seed,
        program_failures_ppm: programs.min(1_000_000),
        erase_failures_ppm: erases.min(1_000_000),
        ..Faults::default()
    };
    chip.lock().set_faults(faults);
}

/// Works until so many changes in a row are refused, while failures rise. How many changes were done.
fn live_until_death(life: &mut Life, chip: &Chip, (programs, erases): (u32, u32), seed: u64) -> u32 {
    let (mut done, mut refused) = (0, 0);
    for round in 0.. {
        fail(chip, seed + round, programs * round as u32, erases * round as u32);
        for _ in 0..40 {
            let change = life.random_change();
            match life.try_change(change) {
                Ok(_) => (done, refused) = (done + 1, 0),
                Err(IndexError::Full(_) | IndexError::WornOut) => refused += 1,
                Err(IndexError::Interrupted) if life.kind.durability == Durability::EverySync => return done,
                Err(error) => panic!("{}: round {round}: {error}", life.kind.name),
            }
            if life.rng.below(8) == 0 && life.index.sync().is_ok() {
                life.model.synced();
            }
        }
        if refused > 200 {
            return done;
        }
        if round % 5 == 4 {
            let (index, found) = mount_and_read(&life.kind, chip, "while blocks fail");
            assert!(life.model.accept(&found, None), "{}: a state that never was", life.kind.name);
            life.index = index;
        }
    }
    unreachable!("a chip on which all fails takes no change")
}

#[test]
fn a_dying_chip_keeps_what_it_holds() {
    let on_chips = ON_CHIPS.into_iter().filter(|kind| kind.below == Below::Chip);
    let step = stride(2);
    let deaths = [(1, (400, 4_000)), (2, (3_000, 0)), (3, (0, 30_000)), (4, (40_000, 40_000))];
    for (number, kind) in on_chips.chain(LOGS_IN_PLACE).enumerate() {
        for (seed, rates) in deaths.into_iter().skip(number % step).step_by(step) {
            let chip = chip_for(&kind, if kind.below == Below::Chip { 32 } else { 56 });
            let mut life = Life::new(kind, &chip, seed);
            let done = live_until_death(&mut life, &chip, rates, seed * 1000);
            let when = format!("seed {seed}, dead after {done}");
            if kind.durability == Durability::EveryOperation {
                let found = contents(&mut *life.index, Direction::Ascending)
                    .unwrap_or_else(|e| panic!("{}: {when}: {e}", kind.name));
                assert!(found == life.model.now, "{}: {when}: read before the mount", kind.name);
            }
            for failures in [1_000_000, 0, 0] {
                fail(&chip, seed, failures, failures);
                let (index, found) = mount_and_read(&kind, &chip, &when);
                assert!(life.model.accept(&found, None), "{}: {when}", kind.name);
                life.index = index;
            }
        }
    }
}

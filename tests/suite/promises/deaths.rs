//! Failures of programs or erases that rise until the index gives up: it is read-only and complete from then
//! on.

use super::*;
use nandex::nand::sim::Faults;

/// The operations that are failing.
#[derive(Clone, Copy, Debug)]
enum Failing {
    Programs,
    Erases,
    Both,
}

fn faults(failing: Failing, ppm: u32, seed: u64) -> Faults {
    let (program_failures_ppm, erase_failures_ppm) = match failing {
        Failing::Programs => (ppm, 0),
        Failing::Erases => (0, ppm),
        Failing::Both => (ppm, ppm),
    };
    Faults { seed, program_failures_ppm, erase_failures_ppm, ..Faults::default() }
}

/// Mounts as it is, whatever fails, and reads everything.
fn mount(kind: &Kind, chip: &Chip, expected: &mut Expected, what: &str) -> Index {
    let mut index = kind.mount(chip).unwrap_or_else(|error| panic!("{what}: mount: {error}"));
    expected.settle(contents(&mut index).unwrap_or_else(|error| panic!("{what}: {error}")), what);
    assert_holds(&mut index, &expected.now, what);
    index
}

fn live_and_die(kind: &Kind, failing: Failing, seed: u64) {
    let what = format!("{} {failing:?} seed {seed}", kind.name);
    let chip = kind.chip();
    let mut rng = Rng::new(seed);
    let mut index = kind.format(&chip).unwrap();
    let mut expected = Expected::new(kind);
    let mut ppm = 500;
    let mut refused = 0;
    for op in 0.. {
        if op % 100 == 0 {
            ppm = (ppm * 3 / 2).min(1_000_000);
            chip.chip.lock().set_faults(faults(failing, ppm, seed + op));
        }
        let drawn = expected.draw(kind, &mut rng, 60, 300);
        match expected.run(&mut index, drawn) {
            Ok(()) => refused = 0,
            Err(IndexError::Interrupted) => index = mount(kind, &chip, &mut expected, &what),
            Err(error) if is_refusal(&error) => {
                refused += 1;
                let mut value = [0; 4];
                for (key, wanted) in expected.now.iter().take(5) {
                    match index.get(&key.to_be_bytes(), &mut value) {
                        Ok(found) => assert!(found && u32::from_be_bytes(value) == *wanted, "{what}"),
                        Err(IndexError::Interrupted) => {}
                        Err(error) => panic!("{what}: op {op}: get after {drawn:?}: {error}"),
                    }
                }
            }
            Err(error) => panic!("{what}: op {op}, {ppm} ppm: {drawn:?}: {error}"),
        }
        if refused > 40 || op > 4000 {
            break;
        }
    }
    assert!(refused > 0 || kind.form == Form::Overwrite, "{what}: never refused anything");
    drop(index);
    // Everything fails now: nothing can be programmed or erased.
    chip.chip.lock().set_faults(faults(Failing::Both, 1_000_000, seed));
    for round in 0..3 {
        let what = format!("{what}, dead, round {round}");
        let mut index = mount(kind, &chip, &mut expected, &what);
        for _ in 0..6 {
            let op = expected.draw(kind, &mut rng, 60, 300);
            match expected.run(&mut index, op) {
                Ok(()) if matches!(op, Op::Sync | Op::Close | Op::Remove(_)) => {}
                Err(error) if is_refusal(&error) || error == IndexError::Interrupted => {}
                other => panic!("{what}: {op:?}: {other:?}"),
            }
        }
    }
    chip.chip.lock().set_faults(Faults::default());
    mount(kind, &chip, &mut expected, &format!("{what}, without failures"));
}

fn die_all(form: Form, seeds: u64) {
    let seeds = std::env::var("SEEDS").map_or(seeds, |seeds| seeds.parse().unwrap());
    for kind in kinds().iter().filter(|kind| kind.form == form) {
        for failing in [Failing::Programs, Failing::Erases, Failing::Both] {
            (0..seeds).for_each(|seed| live_and_die(kind, failing, seed));
        }
    }
}

#[test]
fn ipl_is_readable_at_the_end_of_its_life() {
    die_all(Form::Ipl, 2);
}

#[test]
fn sbits_is_readable_at_the_end_of_its_life() {
    die_all(Form::Sbits, 4);
}

#[test]
fn vmtree_ow_is_readable_at_the_end_of_its_life() {
    die_all(Form::Overwrite, 2);
}

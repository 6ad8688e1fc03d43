//! Lives at the edge of full: filled until refused, thousands of operations there, with cuts, plain
//! power-offs and transient read errors; then drained and filled again.

use super::*;
use nandex::nand::sim::{CutWhen, Faults, PowerCut, TornModel};

/// Mounts until the power stays on, with cuts in up to `deep` mounts.
fn mount(kind: &Kind, chip: &Chip, rng: &mut Rng, deep: u64, what: &str) -> Index {
    for left in (0..=deep).rev() {
        {
            let chip = &mut chip.chip.lock();
            chip.power_on();
            if left > 0 {
                plan_cut(kind, chip, rng, 12);
            } else {
                plan_none(chip);
            }
        }
        match kind.mount(chip) {
            Ok(index) => return index,
            Err(error) if is_power_loss(&error) => {}
            Err(error) => panic!("{what}: mount: {error}"),
        }
    }
    panic!("{what}: the power is on, and it fails");
}

pub(crate) fn plan_none(chip: &mut SimChip) {
    let (when, torn) = (CutWhen::Before, TornModel::Prefix);
    chip.plan_power_cut(PowerCut { at_operation: u64::MAX, when, torn, seed: 0 });
}

fn plan_cut(kind: &Kind, chip: &mut SimChip, rng: &mut Rng, within: u64) {
    // A torn sector spoils its page: see the documentation of IPL.
    let models = if kind.name == "ipl-sectors" { 2 } else { 4 };
    let when = [CutWhen::Before, CutWhen::Inside, CutWhen::Inside, CutWhen::After][rng.below(4) as usize];
    let torn = TornModel::ALL[rng.below(models) as usize];
    let at_operation = chip.operations() + rng.below(within);
    chip.plan_power_cut(PowerCut { at_operation, when, torn, seed: rng.next_u64() });
}

/// Inserts until refused; how many records there are then.
fn fill(kind: &Kind, index: &mut Index, expected: &mut Expected, rng: &mut Rng) -> usize {
    for op in 0..100_000u32 {
        let key = if kind.form == Form::Sbits { expected.next } else { rng.below(1 << 20) as u32 };
        match expected.run(index, Op::Insert(key, op)) {
            Ok(()) => {}
            Err(IndexError::Full) => return expected.now.len(),
            Err(error) => panic!("{}: insertion {op}: {error}", kind.name),
        }
    }
    panic!("{}: never full", kind.name);
}

/// Removes everything: a removal is never refused for want of room.
fn drain(kind: &Kind, index: &mut Index, expected: &mut Expected, rng: &mut Rng) {
    while !expected.now.is_empty() {
        let at = rng.below(expected.now.len() as u64) as usize;
        let key = *expected.now.keys().nth(at).unwrap();
        let left = expected.now.len();
        expected
            .run(index, Op::Remove(key))
            .unwrap_or_else(|error| panic!("{}: removal with {left} records left: {error}", kind.name));
    }
}

/// A few hundred operations on a full index, then a cut or a plain power-off, again and again.
fn at_the_edge(kind: &Kind, chip: &Chip, mut index: Index, expected: &mut Expected, rng: &mut Rng) -> Index {
    for session in 0..14 {
        let what = format!("{} session {session}", kind.name);
        if rng.chance(2, 3) {
            plan_cut(kind, &mut chip.chip.lock(), rng, 160);
        }
        let grow = [50, 70, 30][session % 3];
        for _ in 0..120 {
            let op = expected.draw(kind, rng, grow, 1 << 20);
            match expected.run(&mut index, op) {
                Ok(()) => {}
                Err(IndexError::Full) if matches!(op, Op::Insert(..)) => {}
                Err(error) if is_power_loss(&error) => break,
                Err(error) => panic!("{what}: {op:?}: {error}"),
            }
        }
        chip.chip.lock().power_off();
        let deep = rng.below(4);
        index = mount(kind, chip, rng, deep, &what);
        let mut settled = contents(&mut index);
        if settled.as_ref().is_err_and(is_power_loss) {
            index = mount(kind, chip, rng, 0, &what);
            settled = contents(&mut index);
        }
        expected.settle(settled.unwrap(), &what);
        // A cut planned for the mount may strike later.
        plan_none(&mut chip.chip.lock());
        assert_holds(&mut index, &expected.now, &what);
    }
    index
}

fn live(kind: &Kind, seed: u64, read_failures_ppm: u32) {
    let chip = kind.chip();
    chip.chip.lock().set_faults(Faults { seed, read_failures_ppm, ..Faults::default() });
    let mut rng = Rng::new(seed);
    let mut index = kind.format(&chip).unwrap();
    let mut expected = Expected::new(kind);
    let first = fill(kind, &mut index, &mut expected, &mut rng);
    expected.run(&mut index, Op::Sync).unwrap();
    assert_holds(&mut index, &expected.now, kind.name);
    drop(index);
    index = mount(kind, &chip, &mut rng, 0, kind.name);
    assert_holds(&mut index, &expected.now, kind.name);
    index = at_the_edge(kind, &chip, index, &mut expected, &mut rng);
    if kind.form == Form::Sbits {
        return;
    }
    drain(kind, &mut index, &mut expected, &mut rng);
    assert_holds(&mut index, &expected.now, kind.name);
    let again = fill(kind, &mut index, &mut expected, &mut rng);
    assert!(again * 4 > first * 3, "{}: {first} records, then {again}", kind.name);
    expected.run(&mut index, Op::Close).unwrap();
    index = mount(kind, &chip, &mut rng, 0, kind.name);
    assert_holds(&mut index, &expected.now, kind.name);
    drain(kind, &mut index, &mut expected, &mut rng);
}

fn live_all(form: Form, read_failures_ppm: u32, seeds: u64) {
    let seeds = std::env::var("SEEDS").map_or(seeds, |seeds| seeds.parse().unwrap());
    for kind in kinds().iter().filter(|kind| kind.form == form) {
        (0..seeds).for_each(|seed| live(kind, seed, read_failures_ppm));
    }
}

#[test]
fn ipl_lives_at_the_edge_of_full() {
    live_all(Form::Ipl, 0, 2);
}

#[test]
fn sbits_lives_at_the_edge_of_full() {
    live_all(Form::Sbits, 0, 4);
}

#[test]
fn vmtree_ow_lives_at_the_edge_of_full() {
    live_all(Form::Overwrite, 0, 2);
}

#[test]
fn reads_that_fail_now_and_then_lose_nothing() {
    for form in [Form::Ipl, Form::Sbits, Form::Overwrite] {
        live_all(form, 2000, 1);
    }
}

//! The buffer blocks damaged page by page and block by block, reads that fail now and then, and chips that
//! die.

use super::*;
use crate::inputs::sized;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use nandex::nand::sim::{CutWhen, PowerCut, TornModel};
use nandex::testing::damaged::{Damage, damage, damage_block, set_back};

/// A chip after some operations, with the values that each logical page may hold.
struct Aged {
    bench: Bench,
    chip: SimChip,
    earlier: SimChip,
    allowed: Vec<BTreeSet<u64>>,
    model: Model,
}

fn aged<S: Below>(seed: u64, is_closed: bool) -> Aged {
    let bench = Bench::small(seed);
    let mut rng = Rng::new(seed);
    let mut tbm = bench.format::<S>();
    let (mut model, mut last) = (model_of(&tbm), 0);
    let mut earlier = bench.chip.lock().clone();
    let mut before = model.clone();
    if !is_closed {
        let at_operation = bench.chip.lock().operations() + 100 + rng.below(400);
        let torn = TornModel::ALL[seed as usize % 4];
        let cut = PowerCut { at_operation, when: CutWhen::Inside, torn, seed };
        bench.chip.lock().plan_power_cut(cut);
    }
    for step in 0..if is_closed { 300 } else { 100_000 } {
        if step % 50 == 49 {
            earlier = bench.chip.lock().clone();
        }
        let op = random_op(&mut rng, &tbm, &mut last);
        before = model.clone();
        match apply(&mut tbm, &mut model, &op) {
            Ok(()) => {}
            Err(StoreError::Nand(NandError::PowerLost)) => break,
            Err(error) => panic!("{error:?}"),
        }
    }
    if is_closed {
        tbm.checkpoint().unwrap();
        model.settle();
        before = model.clone();
    }
    bench.chip.lock().power_on();
    let allowed = (0..model.pages.len()).map(|lpn| {
        let of = |m: &Model| m.allowed(lpn as u32);
        of(&before).into_iter().chain(of(&model)).collect()
    });
    let chip = bench.chip.lock().clone();
    Aged { allowed: allowed.collect(), model, earlier, chip, bench }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Right,
    Noticed,
    Older,
    Wrong,
}

fn outcome<S: Below>(aged: &Aged, damaged: SimChip) -> Outcome {
    let bench = Bench { chip: Chip::new(damaged), ..aged.bench.clone() };
    let mut tbm = match bench.mount::<S>() {
        Ok(tbm) => tbm,
        Err(StoreError::Corrupted { .. } | StoreError::NotFormatted(_)) => return Outcome::Noticed,
        Err(error) => panic!("{error:?}"),
    };
    let mut data = vec![0; tbm.page_bytes()];
    let mut worst = Outcome::Right;
    for lpn in 0..tbm.page_count() {
        let found = match tbm.read(Lpn(lpn), Cause::Host, &mut data) {
            Err(StoreError::Corrupted { .. }) => Outcome::Noticed,
            Err(error) => panic!("{error:?}"),
            Ok(()) => match tag_of(&data).filter(|&tag| aged.model.was_ever(lpn, tag)) {
                Some(tag) if aged.allowed[lpn as usize].contains(&tag) => Outcome::Right,
                Some(_) => Outcome::Older,
                None => Outcome::Wrong,
            },
        };
        worst = worst.max(found);
    }
    worst
}

/// The pages after which nothing was programmed in their buffer block. If the second page of a block was
/// being programmed when the power was cut, its first page is one too.
fn ends_its_block(chip: &SimChip, ppn: Ppn) -> bool {
    let g = chip.geometry();
    let page = g.page_in_block(ppn);
    let is_blank =
        |behind: u32| page + behind >= g.pages_per_block || chip.stored_page(Ppn(ppn.0 + behind)).is_none();
    is_blank(1) || (page == 0 && is_blank(2))
}

fn is_noticed_or_documented<S: Below>(seeds: core::ops::Range<u64>) {
    let (mut counts, mut unexpected) = ([0; 4], Vec::new());
    for (seed, is_closed) in seeds.flat_map(|seed| [(seed, true), (seed, false)]) {
        let aged = aged::<S>(seed, is_closed);
        let mut rng = Rng::new(seed);
        let pages = aged.chip.geometry().pages();
        let first = aged.chip.geometry().page_at(Pbn(aged.bench.first_block()), 0).0;
        for ppn in (first..pages).map(Ppn) {
            let other = Ppn(first + rng.below(u64::from(pages - first)) as u32);
            let kinds = Damage::OF_BYTES.into_iter().chain([Damage::Exchanged(other), Damage::CopyOf(other)]);
            let mut cases: Vec<(String, SimChip)> = Vec::new();
            for kind in kinds {
                let mut chip = aged.chip.clone();
                damage(&mut chip, ppn, kind, seed);
                cases.push((format!("{kind:?}"), chip));
            }
            let mut chip = aged.chip.clone();
            set_back(&mut chip, &aged.earlier, ppn);
            cases.push((String::from("as it was earlier"), chip));
            for (name, chip) in cases {
                let found = outcome::<S>(&aged, chip);
                counts[found as usize] += 1;
                let is_end = ends_its_block(&aged.chip, ppn)
                    || (name.starts_with("Exchanged") && ends_its_block(&aged.chip, other));
                let is_allowed = found < Outcome::Older || (found == Outcome::Older && is_end && !is_closed);
                if !is_allowed {
                    unexpected.push(format!("seed {seed} closed {is_closed} {ppn} {name}: {found:?}"));
                }
            }
        }
        for pbn in (aged.bench.first_block()..aged.chip.geometry().blocks).map(Pbn) {
            for kind in Damage::OF_BYTES {
                let mut chip = aged.chip.clone();
                damage_block(&mut chip, pbn, kind, seed);
                let found = outcome::<S>(&aged, chip);
                counts[found as usize] += 1;
                // A whole block looks like one that was being erased.
                if found == Outcome::Wrong || (found == Outcome::Older && is_closed) {
                    unexpected.push(format!("seed {seed} closed {is_closed} {pbn} {kind:?}: {found:?}"));
                }
            }
        }
    }
    assert!(unexpected.is_empty(), "{counts:?}, {}: {unexpected:#?}", unexpected.len());
    assert!(counts[0] > 1000 && counts[1] > 100, "{counts:?}");
}

#[test]
fn damage_is_noticed_or_documented_over_a_page_map() {
    is_noticed_or_documented::<PageMapFtl<Range>>(0..8);
}

#[test]
fn damage_is_noticed_or_documented_over_fast() {
    is_noticed_or_documented::<FastFtl<Range>>(8..14);
}

/// Programs and erases fail more and more often, in the buffer blocks and below. Acknowledged writes are
/// readable after every mount and at the end. Refused writes have not happened.
#[test]
fn a_dying_chip_ends_read_only_and_complete() {
    for seed in 0..sized(4, 12) {
        let bench = Bench::new(Geometry::new(128, 32, 4, 72), 3 + seed as u32 % 4, 6);
        let mut rng = Rng::new(seed);
        let mut tbm = bench.format::<PageMapFtl<Range>>();
        let (mut model, mut last, mut refused) = (model_of(&tbm), 0, 0);
        for round in 0..400 {
            let rate = if refused > 0 && round % 3 == 0 { 0 } else { 500 * (1 + round) };
            let faults = Faults {
                seed: seed << 32 | u64::from(round),
                program_failures_ppm: rate,
                erase_failures_ppm: 2 * rate,
                read_failures_ppm: 2_000,
                ..Faults::default()
            };
            bench.chip.lock().set_faults(faults);
            let at_operation = bench.chip.lock().operations() + rng.below(60);
            let torn = TornModel::ALL[round as usize % 4];
            let cut = PowerCut { at_operation, when: CutWhen::Inside, torn, seed };
            bench.chip.lock().plan_power_cut(cut);
            let mut before = model.clone();
            for _ in 0..20 {
                before = model.clone();
                let op = random_op(&mut rng, &tbm, &mut last);
                match apply(&mut tbm, &mut model, &op) {
                    Ok(()) => {}
                    Err(StoreError::WornOut) => {
                        model = before.clone();
                        refused += 1;
                        assert_eq!(contents(&mut tbm), model.pages, "seed {seed} round {round} {op:?}");
                    }
                    Err(StoreError::Nand(NandError::PowerLost)) => break,
                    Err(error) => panic!("seed {seed} round {round} {op:?}: {error:?}"),
                }
            }
            bench.chip.lock().set_faults(Faults { read_failures_ppm: 2_000, ..faults });
            bench.chip.lock().power_on();
            tbm = remount(&bench, &mut model, &before);
            if refused > 60 {
                break;
            }
        }
        assert!(refused > 60, "seed {seed}: {refused} writes refused");
    }
}

#[test]
fn transient_read_errors_lose_nothing() {
    for seed in 0..sized(2, 6) {
        let bench = Bench::small(seed);
        let mut rng = Rng::new(seed);
        let mut tbm = bench.format::<PageMapFtl<Range>>();
        let faults = Faults { seed, read_failures_ppm: 5_000, ..Faults::default() };
        bench.chip.lock().set_faults(faults);
        let (mut model, mut last) = (model_of(&tbm), 0);
        for step in 0..3000 {
            let op = random_op(&mut rng, &tbm, &mut last);
            apply(&mut tbm, &mut model, &op).unwrap();
            if step % 100 == 99 {
                drop(tbm);
                let before = model.clone();
                tbm = remount(&bench, &mut model, &before);
            }
        }
        assert_eq!(contents(&mut tbm), model.pages);
    }
}

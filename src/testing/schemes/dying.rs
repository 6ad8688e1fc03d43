//! Chips that fail more and more until nothing can be written, and chips on which some reads fail.

use super::{Ftl, Op, apply, assert_sound, chip, contents, model_of, page, random_op, remount, small};
use crate::ftl::mapping::{Mark, Scheme, Source};
use crate::nand::sim::{CutWhen, Faults, PowerCut, SimChip, TornModel};
use crate::nand::{Cause, Geometry, Nand, NandError};
use crate::rng::Rng;
use crate::store::{PageStore, StoreError};
use crate::testing::sizes::sized;
use crate::units::{Lbn, Lpn, Pbn};
use alloc::vec;
use alloc::vec::Vec;

fn mounted<S: Scheme>(ftl: Ftl<S>, faults: Faults, settings: S::Config) -> Ftl<S> {
    let mut chip: SimChip = ftl.into_nand();
    chip.set_faults(faults);
    Ftl::<S>::mount(chip, &settings).unwrap()
}

/// Lets failures rise until writes are refused. Then every acknowledged write must be readable, with and
/// without further failures.
pub fn ends_read_only<S: Scheme>(settings: impl Fn(u64) -> S::Config) {
    for seed in 0..sized(4, 12) {
        let geometry = Geometry { random_order: seed % 3 == 1, ..Geometry::new(128, 16, 4, 60) };
        let mut ftl = Ftl::<S>::format(chip(geometry), &settings(seed)).unwrap();
        let mut model = model_of(&ftl);
        let (mut rng, mut last, mut refused, mut step) = (Rng::new(seed), 0, 0, 0);
        let worse = |step: u32| {
            let ppm = (step / 50 * 2_000).min(300_000);
            let (program_failures_ppm, erase_failures_ppm) =
                [(ppm, ppm), (ppm, 0), (0, ppm)][seed as usize % 3];
            Faults {
                seed: seed + u64::from(step),
                program_failures_ppm,
                erase_failures_ppm,
                ..Faults::default()
            }
        };
        while refused < 20 {
            step += 1;
            if step % 50 == 0 {
                ftl.nand_mut().set_faults(worse(step));
            }
            let op = random_op(&mut rng, &ftl, &mut last);
            let before = model.clone();
            match apply(&mut ftl, &mut model, &op) {
                Ok(()) => refused = 0,
                Err(StoreError::WornOut) => {
                    refused += 1;
                    model = before;
                }
                Err(error) => panic!("seed {seed} step {step} {op:?}: {error:?}"),
            }
            assert!(step < 200_000, "seed {seed}: it does not wear out");
        }
        assert_eq!(contents(&mut ftl), model.pages, "seed {seed}: in the session");
        for (round, faults) in [worse(step), Faults::default(), worse(step)].into_iter().enumerate() {
            ftl = mounted::<S>(ftl, faults, settings(seed));
            let found = contents(&mut ftl);
            assert!(model.allows(&found), "seed {seed} round {round}: {found:?} for {:?}", model.pages);
            assert_sound(&mut ftl);
            model.become_found(found);
            for lpn in 0..8 {
                let tag = model.next_tag;
                match ftl.write(Lpn(lpn), Cause::Host, &page(tag, 128)) {
                    Ok(()) => assert_eq!(model.write(lpn), tag),
                    Err(StoreError::WornOut) => {}
                    Err(error) => panic!("seed {seed} round {round}: {error:?}"),
                }
            }
            assert_eq!(contents(&mut ftl), model.pages, "seed {seed} round {round}");
        }
    }
}

/// Sometimes programs the next page of a block in use behind the FTL's back. The FTL must report this and
/// lose no acknowledged write, and later writes must go elsewhere.
pub fn passes_over_spoilt_pages<S: Scheme>(settings: impl Fn(u64) -> S::Config) {
    let mut refusals = 0;
    for seed in 0..sized(8, 24) {
        let mut ftl = Ftl::<S>::format(chip(small(seed)), &settings(seed)).unwrap();
        let mut model = model_of(&ftl);
        let (mut rng, mut last) = (Rng::new(seed), 0);
        for step in 0..600 {
            if step % 8 == 7 {
                spoil_next_page(&mut ftl, &mut rng);
            }
            let op = random_op(&mut rng, &ftl, &mut last);
            let before = model.clone();
            match apply(&mut ftl, &mut model, &op) {
                Ok(()) => {}
                Err(StoreError::Corrupted { .. }) => {
                    refusals += 1;
                    let found = contents(&mut ftl);
                    assert!(
                        [&before.pages, &model.pages].contains(&&found),
                        "seed {seed} step {step} {op:?}"
                    );
                    model.pages = found;
                }
                Err(error) => panic!("seed {seed} step {step} {op:?}: {error:?}"),
            }
        }
        assert_eq!(contents(&mut ftl), model.pages, "seed {seed}");
        assert_sound(&mut ftl);
    }
    assert!(refusals > sized(30, 100), "{refusals} refusals");
}

/// Programs the next page of a block that the scheme writes to, without the FTL.
fn spoil_next_page<S: Scheme>(ftl: &mut Ftl<S>, rng: &mut Rng) {
    let (flash, _) = ftl.parts_mut();
    let g = flash.geometry();
    let is_written =
        |pbn: &Pbn| flash.tag(*pbn).role.is_some() && (1..g.pages_per_block).contains(&flash.next_page(*pbn));
    let written: Vec<Pbn> = (0..g.blocks).map(Pbn).filter(is_written).collect();
    if written.is_empty() {
        return;
    }
    let pbn = written[rng.below(written.len() as u64) as usize];
    let ppn = g.page_at(pbn, flash.next_page(pbn));
    let refused = ftl.nand_mut().program(ppn, Cause::Host, &page(1, 128), &[0; 16]);
    assert!(matches!(refused, Ok(()) | Err(NandError::NotErased(_))), "{refused:?}");
}

/// Lets a merge that includes a write fail after the page of this write, and cuts the base that follows. The
/// base must not pass for one that has a reference.
pub fn leaves_the_version_of_a_failed_merge<S: Scheme>(settings: impl Fn(u64) -> S::Config) {
    let mut cuts = 0;
    for (seed, wait) in (0..40).flat_map(|seed| (0..24).map(move |wait| (seed, wait))) {
        let mut ftl = Ftl::<S>::format(chip(small(0)), &settings(0)).unwrap();
        let mut model = model_of(&ftl);
        for lpn in 0..8 {
            apply(&mut ftl, &mut model, &Op::Write(lpn)).unwrap();
        }
        let before = model.clone();
        let tag = model.write(0);
        let data = page(tag, 128);
        let mut sources = vec![Some(Source::Host(&data, Cause::Host))];
        let (flash, scheme) = ftl.parts_mut();
        for lpn in 1..4 {
            sources.push(scheme.locate(flash, lpn, Cause::Host).unwrap().map(Source::Page));
        }
        let at_operation = ftl.nand().operations() + wait;
        let (when, torn) = (CutWhen::Before, TornModel::Prefix);
        let faults = Faults { seed, program_failures_ppm: 200_000, ..Faults::default() };
        ftl.nand_mut().set_faults(faults);
        ftl.nand_mut().plan_power_cut(PowerCut { at_operation, when, torn, seed });
        let (flash, _) = ftl.parts_mut();
        flash.records.mark = Mark::Base;
        if flash.gather(Lbn(0), &sources).is_err() {
            remount(ftl, &mut model, &before, settings(0));
            cuts += 1;
        }
    }
    assert!(cuts > sized(66, 200), "{cuts} cuts");
}

/// Lets two reads in a thousand fail once. This must lose nothing.
pub fn reads_again<S: Scheme>(settings: impl Fn(u64) -> S::Config) {
    for seed in 0..sized(3, 8) {
        let faults = Faults { seed, read_failures_ppm: 2_000, ..Faults::default() };
        let mut ftl = Ftl::<S>::format(chip(small(seed)).with_faults(faults), &settings(seed)).unwrap();
        let mut model = model_of(&ftl);
        let (mut rng, mut last) = (Rng::new(seed), 0);
        let mut data = vec![0; 128];
        for step in 0..1500 {
            let op = random_op(&mut rng, &ftl, &mut last);
            apply(&mut ftl, &mut model, &op).unwrap();
            if step % 100 == 99 {
                ftl.sync().unwrap();
                model.settle();
                let faults = Faults { seed: seed + step, ..faults };
                ftl = mounted::<S>(ftl, faults, settings(seed));
                for (lpn, &tag) in (0..).zip(&model.pages) {
                    ftl.read(Lpn(lpn), Cause::Host, &mut data).unwrap();
                    assert_eq!(data, page(tag, 128), "seed {seed} lpn {lpn}");
                }
            }
        }
        assert_eq!(ftl.counters().lost_pages, 0);
        assert_sound(&mut ftl);
    }
}

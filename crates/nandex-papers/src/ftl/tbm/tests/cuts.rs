//! Power cuts at every physical operation, failing blocks, flipped bits: each acknowledged page is returned,
//! or an error.

use super::*;
use crate::inputs::{sized, stride};
use nandex::ftl::mapping::FlashConfig;
use nandex::nand::sim::{CutWhen, PowerCut, TornModel};
use nandex::testing::{Access, Wrong};

/// Runs operations until the power is cut, then mounts. The store must equal the model before or after the
/// operation that was cut.
fn run_to_cut<S: Below>(
    bench: &Bench,
    mut tbm: Tbm<S, Chip>,
    model: &mut Model,
    rng: &mut Rng,
    ops: usize,
) -> (Tbm<S, Chip>, bool) {
    let (mut last, mut before, mut was_cut) = (0, model.clone(), false);
    for _ in 0..ops {
        let op = random_op(rng, &tbm, &mut last);
        before = model.clone();
        match apply(&mut tbm, model, &op) {
            Ok(()) => {}
            Err(StoreError::Nand(NandError::PowerLost)) => {
                was_cut = true;
                break;
            }
            Err(error) => panic!("{op:?}: {error:?}"),
        }
    }
    if !was_cut {
        before = model.clone();
        bench.chip.lock().power_off();
    }
    drop(tbm);
    bench.chip.lock().power_on();
    (remount(bench, model, &before), was_cut)
}

fn plan(bench: &Bench, wait: u64, when: CutWhen, torn: TornModel, seed: u64) {
    let at_operation = bench.chip.lock().operations() + wait;
    bench.chip.lock().plan_power_cut(PowerCut { at_operation, when, torn, seed });
}

fn prepared<S: Below>(seed: u64) -> (Bench, Tbm<S, Chip>, Model, Rng) {
    let (bench, mut rng) = (Bench::small(seed), Rng::new(seed));
    let mut tbm = bench.format::<S>();
    let mut model = model_of(&tbm);
    for lpn in 0..tbm.page_count() / 2 {
        apply(&mut tbm, &mut model, &Op::Write(lpn)).unwrap();
    }
    let mut last = 0;
    for _ in 0..100 {
        let op = random_op(&mut rng, &tbm, &mut last);
        apply(&mut tbm, &mut model, &op).unwrap();
    }
    (bench, tbm, model, rng)
}

fn cut_run<S: Below>(first: u64, when: CutWhen, torn: TornModel, seed: u64) -> bool {
    let (bench, mut tbm, mut model, mut rng) = prepared::<S>(seed);
    let mut struck = false;
    for (cut, wait) in [first, rng.below(6), rng.below(60), 10_000].into_iter().enumerate() {
        plan(&bench, wait, when, torn, seed ^ first);
        let was_cut;
        (tbm, was_cut) = run_to_cut(&bench, tbm, &mut model, &mut rng, 80);
        struck |= cut == 0 && was_cut;
    }
    struck
}

fn survives_every_cut<S: Below>() {
    let mut ways = 0;
    for when in [CutWhen::Before, CutWhen::Inside, CutWhen::After] {
        for torn in TornModel::ALL {
            if when != CutWhen::Inside && torn != TornModel::Prefix {
                continue;
            }
            let step = stride(14) as u64;
            for seed in 0..2 {
                let mut at = (ways + 3 * seed) % step;
                while cut_run::<S>(at, when, torn, seed) {
                    at += step;
                }
                assert!(at > 150, "the workload has more operations than {at}");
            }
            ways += 1;
        }
    }
}

#[test]
fn every_cut_over_fast() {
    survives_every_cut::<FastFtl<Range>>();
}

#[test]
fn every_cut_over_a_page_map() {
    survives_every_cut::<PageMapFtl<Range>>();
}

/// Cuts the power during the mount, later each time, until one mount gets through.
fn survives_cuts_while_mounting<S: Below>() {
    for seed in 0..3 {
        let (bench, tbm, model, mut rng) = prepared::<S>(seed);
        drop(tbm);
        let untouched = bench.chip.lock().clone();
        for first in (0..200).step_by(stride(5)) {
            bench.chip.replace(untouched.clone());
            let mut cuts = 0;
            loop {
                let wait = if cuts == 0 { first } else { rng.below(30 + 10 * cuts) };
                plan(&bench, wait, CutWhen::Inside, TornModel::ALL[(first + cuts) as usize % 4], first);
                match bench.mount::<S>() {
                    Ok(_) => break,
                    Err(StoreError::Nand(NandError::PowerLost)) => cuts += 1,
                    Err(error) => panic!("seed {seed} first {first}: {error:?}"),
                }
                bench.chip.lock().power_on();
            }
            bench.chip.lock().power_on();
            let mut found = model.clone();
            remount::<S>(&bench, &mut found, &model);
        }
    }
}

#[test]
fn cuts_while_mounting_over_fast() {
    survives_cuts_while_mounting::<FastFtl<Range>>();
}

#[test]
fn cuts_while_mounting_over_a_page_map() {
    survives_cuts_while_mounting::<PageMapFtl<Range>>();
}

#[test]
fn cut_after_cut_uses_nothing_up() {
    for seed in 0..sized(2, 6) {
        let (bench, mut tbm, mut model, mut rng) = prepared::<FastFtl<Range>>(seed);
        for session in 0..300 {
            let wait = rng.below([4, 12, 40][session % 3]);
            plan(&bench, wait, CutWhen::Inside, TornModel::ALL[session % 4], seed);
            (tbm, _) = run_to_cut(&bench, tbm, &mut model, &mut rng, 60);
        }
    }
}

#[test]
fn a_format_that_is_cut_leaves_the_old_store_or_none() {
    let (bench, tbm, model, _) = prepared::<FastFtl<Range>>(2);
    drop(tbm);
    let untouched = bench.chip.lock().clone();
    let mut kept = 0;
    for wait in 0.. {
        bench.chip.replace(untouched.clone());
        plan(&bench, wait, CutWhen::Inside, TornModel::ALL[wait as usize % 4], wait);
        let [low, high] = bench.ranges();
        let formatted = Tbm::format(FastFtl::again(low).unwrap(), high, &bench.settings);
        if formatted.is_ok() {
            break;
        }
        bench.chip.lock().power_on();
        match bench.mount::<FastFtl<Range>>() {
            Ok(mut tbm) => {
                let found = contents(&mut tbm);
                // Formatted but for the answer, or not begun.
                kept += u32::from(model.allows(&found));
            }
            Err(StoreError::NotFormatted(_)) => {}
            Err(error) => panic!("{error:?} after {wait} operations"),
        }
    }
    assert!(kept > 0);
}

#[test]
fn failing_blocks_lose_nothing() {
    let mut replaced = 0;
    for seed in 0..sized(10, 40) {
        let bench = Bench::new(Geometry::new(128, 32, 4, 140), 4, 40);
        let faults =
            Faults { seed, program_failures_ppm: 1_000, erase_failures_ppm: 2_000, ..Faults::default() };
        let failing = bench.chip.lock().clone().with_factory_bad_blocks(30_000, seed).with_faults(faults);
        bench.chip.replace(failing);
        let [low, high] = bench.ranges();
        // An FTL that outlasts the TBM.
        let common = FlashConfig { bad_blocks_ppm: 400_000, ..FlashConfig::default() };
        let ftl = FastFtl::format(low, &FastConfig { common, ..FastConfig::default() }).unwrap();
        let mut tbm = Tbm::format(ftl, high, &bench.settings).unwrap();
        let (mut rng, mut last) = (Rng::new(seed), 0);
        let mut model = model_of(&tbm);
        for step in 0..2500 {
            let op = random_op(&mut rng, &tbm, &mut last);
            let before = model.clone();
            let is_cut = match apply(&mut tbm, &mut model, &op) {
                Ok(()) => rng.chance(1, 200),
                // What is refused has not happened.
                Err(StoreError::Full | StoreError::WornOut) => {
                    model = before.clone();
                    false
                }
                Err(error) => panic!("seed {seed} step {step} {op:?}: {error:?}"),
            };
            if is_cut {
                replaced += tbm.counters().replaced_blocks;
                tbm = remount(&bench, &mut model, &before);
            }
        }
        assert_eq!(contents(&mut tbm), model.pages, "seed {seed}");
        assert_sound(&mut tbm);
    }
    assert!(replaced > sized(5, 20), "{replaced} blocks replaced");
}

/// Once no spare block is left, the number of buffer blocks falls with each failure. In the end writes are
/// refused, and nothing is lost.
#[test]
fn blocks_used_up_end_the_writes_and_not_the_reads() {
    for seed in 0..sized(5, 20) {
        let bench = Bench::new(Geometry::new(128, 32, 4, 60), 6, SPARE_BLOCKS_MIN);
        bench.chip.on_access(move |sim, access| match access {
            Access::Erase(pbn, Cause::Merge) if sim.operations() % 20 < seed % 3 + 2 => {
                Err(NandError::EraseFailed(pbn))
            }
            _ => Ok(()),
        });
        let [low, high] = bench.ranges();
        let mut tbm = Tbm::format(PageMapFtl::new(low), high, &bench.settings).unwrap();
        let (mut tags, mut rng, mut refused, mut next) = (vec![0; 40], Rng::new(seed), 0, 1);
        let mut fewest = 6;
        for _ in 0..800 {
            let mut lpns: Vec<u32> = (0..1 + rng.below(2)).map(|_| rng.below(40) as u32).collect();
            lpns.dedup();
            let data = page(next, 128);
            let group: Vec<(Lpn, &[u8])> = lpns.iter().map(|&lpn| (Lpn(lpn), &data[..])).collect();
            let is_cut = rng.chance(1, 40);
            match tbm.write_atomic(&group, Cause::Host) {
                Ok(()) => lpns.iter().for_each(|&lpn| tags[lpn as usize] = next),
                Err(StoreError::WornOut) => refused += 1,
                Err(error) => panic!("{error:?}"),
            }
            next += 1;
            fewest = fewest.min(tbm.buffers_max());
            if is_cut {
                let (_, high) = tbm.into_parts();
                let [low, _] = bench.ranges();
                tbm = Tbm::mount(PageMapFtl::again(low).unwrap(), high, &bench.settings).unwrap();
            }
            let report = tbm.check().unwrap();
            assert!(report.is_sound(), "{report:?}");
            for (lpn, &tag) in (0..).zip(&tags) {
                let mut data = vec![0; 128];
                tbm.read(Lpn(lpn), Cause::Check, &mut data).unwrap();
                assert_eq!(data, page(tag, 128), "lpn {lpn}");
            }
        }
        assert!(refused > 50 && fewest < 2, "{refused} refused, {fewest} buffer blocks");
    }
}

/// One wrong bit anywhere in a buffer block is corrected. Two wrong bits give an error.
#[test]
fn wrong_bits_are_put_right_or_noticed() {
    for seed in 0..3 {
        let (bench, mut tbm, mut model, _) = prepared::<FastFtl<Range>>(seed);
        // A checkpoint may just have emptied the buffer blocks.
        (0..12).for_each(|lpn| apply(&mut tbm, &mut model, &Op::Write(lpn)).unwrap());
        let pages: Vec<Ppn> = (0..bench.tbm_blocks * 4).map(Ppn).collect();
        drop(tbm);
        let (mut refused, mut right) = (0, 0);
        for (ppn, bit) in
            pages.iter().flat_map(|&ppn| (0..155 * 8).step_by(41 * stride(4)).map(move |bit| (ppn, bit)))
        {
            for second in [None, Some((bit + 500) % (155 * 8))] {
                let copy = bench.chip.copy();
                let bits: Vec<usize> = [bit].into_iter().chain(second).collect();
                let place = Ppn(bench.first_block() * 4 + ppn.0);
                copy.spoil([(place, Wrong::Bits(bits.clone()))]);
                let low = BlockRange::new(copy.clone(), Pbn(0), bench.first_block());
                let high = BlockRange::new(copy, Pbn(bench.first_block()), bench.tbm_blocks);
                let mut tbm = match Tbm::mount(FastFtl::again(low).unwrap(), high, &bench.settings) {
                    Ok(tbm) => tbm,
                    Err(StoreError::Corrupted { .. }) if second.is_some() => {
                        refused += 1;
                        continue;
                    }
                    Err(error) => panic!("{error:?}"),
                };
                let mut found = Vec::new();
                for lpn in (0..tbm.page_count()).map(Lpn) {
                    let mut data = vec![0; 128];
                    tbm.read(lpn, Cause::Check, &mut data).unwrap();
                    found.push(u64::from_le_bytes(data[..8].try_into().unwrap()));
                }
                let is_right = model.allows(&found);
                right += u32::from(is_right);
                // Two wrong bits in the page that ends a buffer block cannot be told from a program that was
                // cut.
                assert!(is_right || second.is_some() && is_last(&bench, ppn), "{ppn} bits {bits:?}");
            }
        }
        assert!(refused > sized(4, 20) && right > sized(120, 500), "{refused} refused, {right} right");
    }
}

/// A page that never reads rightly loses the logical page written to it, and no other. Reading that page is
/// an error until it is written again.
#[test]
fn a_page_that_cannot_be_read_costs_itself_only() {
    let (mut wrong, mut found_again, mut still_wrong) = (0, 0, 0);
    for seed in 0..12 {
        let bench = Bench::small(seed);
        let [low, high] = bench.ranges();
        let ppn = Ppn(seed as u32 % (bench.tbm_blocks * 4));
        let place = Ppn(bench.first_block() * 4 + ppn.0);
        bench.chip.spoil([(place, Wrong::Bits(vec![9, 700]))]);
        let mut tbm = Tbm::format(FastFtl::new(low), high, &bench.settings).unwrap();
        let (mut rng, mut tags) = (Rng::new(seed), vec![0; 60]);
        let mut was_wrong = [false; 60];
        for tag in 1..1500 {
            let changed = rng.below(60) as usize;
            let is_trim = seed % 2 == 0 && rng.chance(1, 12);
            if is_trim {
                tbm.trim(Lpn(changed as u32)).unwrap();
                tags[changed] = 0;
            } else {
                tbm.write(Lpn(changed as u32), Cause::Host, &page(tag, 128)).unwrap();
                tags[changed] = tag;
            }
            // A mount refuses a block in use with wrong bits in an erased page: pages before it may be lost
            // too.
            let ill_block =
                |tbm: &Tbm<FastFtl<Range>, Chip>| tbm.buffer_blocks().any(|(_, pbn, _)| pbn.0 == ppn.0 / 4);
            let mut remounts = !ill_block(&tbm) && rng.chance(1, 10);
            if remounts && seed % 2 == 0 {
                // What tells of trims may bring the block into use.
                tbm.sync().unwrap();
                remounts = !ill_block(&tbm);
            }
            if remounts {
                let (_, high) = tbm.into_parts();
                let [low, _] = bench.ranges();
                tbm = Tbm::mount(FastFtl::again(low).unwrap(), high, &bench.settings).unwrap();
            }
            for (lpn, &tag) in tags.iter().enumerate() {
                let mut data = vec![0; 128];
                match tbm.read(Lpn(lpn as u32), Cause::Check, &mut data) {
                    Ok(()) => {
                        assert_eq!(data, page(tag, 128), "seed {seed} lpn {lpn}");
                        found_again += u32::from(core::mem::take(&mut was_wrong[lpn]));
                    }
                    Err(StoreError::Corrupted { .. }) => {
                        assert!(was_wrong[lpn] || lpn == changed && !is_trim, "seed {seed} lpn {lpn}");
                        wrong += 1;
                        still_wrong += u32::from(remounts && was_wrong[lpn]);
                        was_wrong[lpn] = true;
                    }
                    Err(error) => panic!("{error:?}"),
                }
            }
        }
    }
    assert!(wrong > 1000 && found_again > 100 && still_wrong > 10, "{wrong} {found_again} {still_wrong}");
}

/// An unreadable page at the end of a block was whole once if another page names it as its predecessor.
#[test]
fn a_page_that_another_names_is_not_taken_for_one_that_was_cut() {
    for (lpns, is_refused) in [(&[0, 1, 4][..], true), (&[4, 0, 1], false), (&[0, 1, 4, 4, 4, 4, 4], false)] {
        let bench = Bench::new(Geometry::new(128, 32, 4, 48), 4, 2);
        let mut tbm = bench.format::<FastFtl<Range>>();
        for &lpn in lpns {
            tbm.write(Lpn(lpn), Cause::Host, &page(7, 128)).unwrap();
        }
        let (_, pbn, pages) = tbm.buffer_blocks().find(|block| block.0 == 0).unwrap();
        drop(tbm);
        let [low, high] = bench.ranges();
        let ppn = Ppn(pbn.0 * 4 + pages - 1);
        let place = Ppn(bench.first_block() * 4 + ppn.0);
        bench.chip.spoil([(place, Wrong::Bits(vec![9, 700]))]);
        let mounted = Tbm::mount(FastFtl::again(low).unwrap(), high, &bench.settings);
        assert_eq!(matches!(mounted, Err(StoreError::Corrupted { .. })), is_refused, "{lpns:?}");
    }
}

fn is_last(bench: &Bench, ppn: Ppn) -> bool {
    let next = Ppn(bench.first_block() * 4 + ppn.0 + 1);
    ppn.0 % 4 == 3 || bench.chip.lock().is_erased(next)
}

#[test]
fn what_cannot_work_is_refused_and_what_is_foreign_not_mounted() {
    let bench = Bench::new(Geometry::new(128, 32, 4, 48), 4, 2);
    let format = |bench: &Bench| {
        let [low, high] = bench.ranges();
        Tbm::format(FastFtl::new(low), high, &bench.settings).map(drop)
    };
    let blank = bench.clone();
    let [low, high] = blank.ranges();
    let mounted = Tbm::mount(FastFtl::new(low), high, &blank.settings);
    assert!(matches!(mounted, Err(StoreError::NotFormatted(_))));
    let too_many = Bench { settings: TbmConfig::new(5), ..bench.clone() };
    assert!(matches!(format(&too_many), Err(StoreError::Unsupported(_))));
    let none = Bench { settings: TbmConfig::new(0), ..bench.clone() };
    assert!(matches!(format(&none), Err(StoreError::Unsupported(_))));
    let narrow = Bench::new(Geometry::new(128, 26, 4, 48), 4, 2);
    assert!(matches!(format(&narrow), Err(StoreError::SpareTooSmall { who: "a TBM", .. })));
    format(&bench).unwrap();
    let moved = Bench { tbm_blocks: 7, ..bench.clone() };
    let low = BlockRange::new(bench.chip.clone(), Pbn(0), 42);
    let [_, high] = moved.ranges();
    let mounted = Tbm::mount(FastFtl::again(low).unwrap(), high, &moved.settings);
    assert!(matches!(mounted, Err(StoreError::NotFormatted(_))));
    let mut tbm = bench.mount::<FastFtl<Range>>().unwrap();
    let end = Lpn(tbm.page_count());
    assert_eq!(tbm.write(end, Cause::Host, &[0; 128]), Err(StoreError::OutOfRange(end)));
    assert!(matches!(tbm.write(Lpn(0), Cause::Host, &[0; 127]), Err(StoreError::WrongLength { .. })));
}

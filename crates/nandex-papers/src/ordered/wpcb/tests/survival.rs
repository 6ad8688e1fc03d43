//! The power is cut at every operation of the chip, blocks fail and bits flip: nothing acknowledged is lost.

use super::*;
use crate::inputs::{sized, stride};
use nandex::testing::Wrong;

/// A bench with a small tree of five levels, so that one operation writes up to eleven pages.
fn small(seed: u64) -> Bench {
    let config = config(3 + seed as usize % 2, 17 + seed as u32 % 3);
    let tbm = TbmConfig { whole_from: (seed % 2 == 1).then_some(2), ..config.tbm };
    Bench::new(Geometry::new(64, 32, 4, 96), WpcbConfig { tbm, ..config })
}

fn grown<S: Below>(bench: &Bench, seed: u64) -> (WpcbTree<S, Chip>, Model, Rng) {
    let (mut tree, mut model, mut rng) = (bench.format::<S>(), Model::new(), Rng::new(seed));
    for round in 0..400 {
        step(&mut tree, &mut model, &mut rng, (round, 120)).unwrap();
    }
    (tree, model, rng)
}

fn mount_at_last<S: Below>(bench: &Bench) -> WpcbTree<S, Chip> {
    loop {
        match bench.mount::<S>() {
            Err(IndexError::Store(StoreError::Nand(NandError::PowerLost))) => {
                bench.chip.lock().power_on();
            }
            mounted => return mounted.unwrap(),
        }
    }
}

/// Runs on a copy of a chip until the power is cut, mounts, is cut again while mounting, and goes on for a
/// while.
fn survive<S: Below>(bench: &Bench, acknowledged: &Model, rng: &Rng, cut: PowerCut) -> bool {
    let mut tree = bench.mount::<S>().unwrap();
    bench.chip.lock().plan_power_cut(cut);
    let (mut model, mut before, mut rng) = (acknowledged.clone(), acknowledged.clone(), rng.clone());
    let struck = (0..60).any(|round| {
        before = model.clone();
        let done = step(&mut tree, &mut model, &mut rng, (round, 120));
        let lost = IndexError::Store(StoreError::Nand(NandError::PowerLost));
        assert!(done.as_ref().err().is_none_or(|error| *error == lost), "{done:?}");
        done.is_err()
    });
    drop(tree);
    if !struck {
        return false;
    }
    bench.chip.lock().power_on();
    let at_operation = bench.chip.lock().operations() + cut.at_operation % 40;
    bench.chip.lock().plan_power_cut(PowerCut { at_operation, when: CutWhen::Inside, ..cut });
    let mut tree = mount_at_last::<S>(bench);
    bench.chip.lock().set_faults(Faults::default());
    let far = PowerCut { at_operation: u64::MAX, ..cut };
    bench.chip.lock().plan_power_cut(far);
    let found = contents(&mut tree).unwrap();
    assert!(found == before || found == model, "{cut:?}: neither before nor after the operation");
    assert_holds(&mut tree, &found);
    let mut model = found;
    for round in 0..10 {
        step(&mut tree, &mut model, &mut rng, (round, 120)).unwrap();
    }
    assert_holds(&mut tree, &model);
    true
}

fn survives_every_cut<S: Below>() {
    for seed in 0..3 {
        let bench = small(seed);
        let (mut tree, model, rng) = grown::<S>(&bench, seed);
        tree.sync().unwrap();
        drop(tree);
        let untouched = bench.chip.lock().clone();
        let kinds = [(CutWhen::Before, TornModel::Prefix), (CutWhen::After, TornModel::Prefix)];
        let inside = TornModel::ALL.map(|torn| (CutWhen::Inside, torn));
        let step = stride(17);
        for (way, (when, torn)) in kinds.into_iter().chain(inside).enumerate() {
            let mut cuts = 0;
            for wait in (way as u64 % step as u64..).step_by(step) {
                bench.chip.replace(untouched.clone());
                drop(bench.mount::<S>().unwrap());
                let at_operation = bench.chip.lock().operations() + wait;
                bench.chip.replace(untouched.clone());
                let cut = PowerCut { at_operation, when, torn, seed: wait };
                if !survive::<S>(&bench, &model, &rng, cut) {
                    break;
                }
                cuts += 1;
            }
            assert!(cuts > 80 / step, "{cuts} cuts");
        }
    }
}

#[test]
fn nothing_acknowledged_is_lost_at_any_cut_over_fast() {
    survives_every_cut::<FastFtl<Range>>();
}

#[test]
fn nothing_acknowledged_is_lost_at_any_cut_over_a_page_map() {
    survives_every_cut::<PageMapFtl<Range>>();
}

#[test]
fn failing_blocks_lose_nothing() {
    let mut replaced = 0;
    for seed in 0..sized(4, 12) {
        let mut bench = Bench::new(Geometry::new(64, 32, 4, 260), config(4, 17));
        bench.config.spare_blocks = 50;
        let faults =
            Faults { seed, program_failures_ppm: 1_000, erase_failures_ppm: 2_000, ..Faults::default() };
        let failing = bench.chip.lock().clone().with_faults(faults);
        bench.chip.replace(failing);
        // An FTL that outlasts the TBM.
        let common = FlashConfig { bad_blocks_ppm: 300_000, ..FlashConfig::default() };
        let [low, high] = bench.ranges();
        let ftl = FastFtl::format(low, &FastConfig { common, ..FastConfig::default() }).unwrap();
        let mut tree = WpcbTree::format(ftl, high, &bench.config).unwrap();
        let (mut model, mut rng) = (Model::new(), Rng::new(seed));
        for round in 0..2_000 {
            step(&mut tree, &mut model, &mut rng, (round, 200)).unwrap();
            if round % 400 == 399 {
                replaced += metric(&tree, "replaced_blocks");
                drop(tree);
                tree = bench.mount().unwrap();
                assert_holds(&mut tree, &model);
            }
        }
    }
    assert!(replaced > sized(3, 10), "{replaced} blocks replaced");
}

/// One wrong bit in a buffer block is corrected. Two give an error, unless the page is the last of its
/// buffer block. Such a page may have been cut short, so an older version replaces it.
#[test]
fn wrong_bits_are_put_right_or_noticed() {
    let bench = small(1);
    let (tree, mut model, _) = grown::<FastFtl<Range>>(&bench, 1);
    drop(tree);
    let mut tree = bench.mount::<FastFtl<Range>>().unwrap();
    for key in 0..30 {
        model.extend([record(500 + key)]);
        insert(&mut tree, 500 + key);
    }
    drop(tree);
    let blocks = bench.config.tbm_range_blocks();
    let first = (96 - blocks) * 4;
    let ends_block = |ppn: Ppn| ppn.0 % 4 == 3 || bench.chip.lock().is_erased(Ppn(first + ppn.0 + 1));
    let (mut right, mut older, mut refused) = (0, 0, 0);
    for ppn in (0..blocks * 4).map(Ppn) {
        for bits in (0..91 * 8)
            .step_by(67 * stride(2))
            .flat_map(|bit| [&[bit][..], &[bit, (bit + 300) % (91 * 8)]].map(Vec::from))
        {
            let copy = Bench { chip: bench.chip.copy(), ..bench.clone() };
            copy.chip.spoil([(Ppn(first + ppn.0), Wrong::Bits(bits.clone()))]);
            let [low, high] = copy.ranges();
            let mounted = WpcbTree::mount(FastFtl::again(low).unwrap(), high, &bench.config);
            let found = mounted.and_then(|mut tree| contents(&mut tree));
            match found {
                Ok(found) if found == model => right += 1,
                Ok(_) if bits.len() == 2 && ends_block(ppn) => older += 1,
                Err(IndexError::Store(StoreError::Corrupted { .. }) | IndexError::Corrupted { .. })
                    if bits.len() == 2 =>
                {
                    refused += 1;
                }
                other => panic!("{ppn} bits {bits:?}: {other:?}"),
            }
        }
    }
    assert!(right > sized(250, 500) && refused > sized(25, 50), "{right} right, {refused} refused");
    assert!(older < refused, "{older} with an older version, {refused} refused");
}

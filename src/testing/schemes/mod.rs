//! The tests that every scheme must pass: an FTL is an array of pages, whatever happens to the chip.

#![allow(clippy::unwrap_used)]

mod damage;
mod dying;
mod news;

pub use damage::*;
pub use dying::*;
pub use news::*;

use crate::blocks::BlockState;
use crate::blocks::victim::VictimPolicy;
use crate::blocks::wear::WearLevelling;
use crate::ftl::mapping::{FlashConfig, FlashCounters, Scheme, SchemeFtl};
use crate::nand::sim::{CutWhen, Faults, PowerCut, SimChip, TornModel};
use crate::nand::{Cause, Geometry, NandError, Part, Timing};
use crate::rng::Rng;
use crate::store::{PageStore, StoreError};
use crate::testing::Chip;
use crate::testing::pages::{self, Model, Op, Undone, contents, page};
use crate::testing::sizes::{sized, stride};
use crate::units::{Lpn, Pbn, Ppn};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

const TIMING: Timing =
    Timing { read_ns: 60_000, program_ns: 800_000, erase_ns: 1_500_000, transfer_ps_per_byte: 25_000 };

type Ftl<S> = SchemeFtl<SimChip, S>;

fn small(seed: u64) -> Geometry {
    Geometry { random_order: seed % 3 == 1, ..Geometry::new(128, 16, 4, 44) }
}

pub(crate) fn chip(geometry: Geometry) -> SimChip {
    SimChip::new(&Part::new("test", geometry, TIMING)).unwrap()
}

fn random_op(rng: &mut Rng, store: &dyn PageStore, last: &mut u32) -> Op {
    let pages = u64::from(store.page_count());
    // Two fifths of the operations go on from the last page; most others use a fifth of the pages.
    let mut lpn = |rng: &mut Rng| {
        *last = match rng.below(10) {
            0..=3 => (*last + 1) % pages as u32,
            4..=8 => rng.below(pages.div_ceil(5)) as u32,
            _ => rng.below(pages) as u32,
        };
        *last
    };
    match rng.below(40) {
        0..=27 => Op::Write(lpn(rng)),
        28 | 29 if store.atomic_pages_max() > 1 => {
            let count = 2 + rng.below(store.atomic_pages_max() as u64 - 1);
            let mut group: Vec<u32> = (0..count).map(|_| rng.below(pages) as u32).collect();
            group.sort_unstable();
            group.dedup();
            rng.shuffle(&mut group);
            Op::Group(group)
        }
        28..=31 => Op::Read(lpn(rng)),
        32..=36 => Op::Trim(lpn(rng)),
        37 | 38 => Op::Sync,
        _ => Op::Checkpoint,
    }
}

fn apply<S: Scheme>(ftl: &mut Ftl<S>, model: &mut Model, op: &Op) -> Result<(), StoreError> {
    match op {
        Op::Checkpoint => ftl.checkpoint().map(|()| model.settle()),
        op => pages::apply(ftl, model, op),
    }
}

fn model_of<S: Scheme>(ftl: &Ftl<S>) -> Model {
    Model::new(ftl.page_count(), Undone::Any)
}

fn assert_sound<S: Scheme>(ftl: &mut Ftl<S>) {
    let report = ftl.check().unwrap();
    assert!(report.is_sound(), "{report:?}");
}

fn is_full(error: &StoreError) -> bool {
    matches!(error, StoreError::Full | StoreError::WornOut)
}

/// Returns settings that together cover all that this build has.
pub fn common(seed: u64) -> FlashConfig {
    let wear_levelling = match seed % 4 {
        _ if !cfg!(feature = "full") => WearLevelling::None,
        2 => WearLevelling::Threshold { gap_erases: 4 },
        3 => WearLevelling::DualPool { threshold_erases: 4 },
        _ => WearLevelling::None,
    };
    FlashConfig { wear_levelling, ..FlashConfig::default() }
}

/// Returns a victim policy of this build for any number.
pub fn victim(number: u64) -> VictimPolicy {
    if cfg!(feature = "full") { VictimPolicy::ALL[number as usize % 6] } else { VictimPolicy::Greedy }
}

/// Returns the number of blocks that were levelled. In a build without levelling it is high enough for any
/// test.
pub fn levelled(counters: &FlashCounters) -> u64 {
    if cfg!(feature = "full") { counters.levelled_blocks } else { u64::MAX }
}

/// Does random operations and clean remounts. Returns the counters, so that a test can check that the scheme
/// did everything.
pub fn is_an_array_of_pages<S: Scheme>(settings: impl Fn(u64) -> S::Config) -> FlashCounters {
    let mut total = FlashCounters::default();
    let geometries =
        [small(1), small(2), Geometry::new(256, 16, 8, 40), Geometry::new(512, 16, 16, 40), small(3)];
    for (seed, geometry) in (1..).zip(geometries) {
        let mut rng = Rng::new(seed);
        let mut ftl = Ftl::<S>::format(chip(geometry), &settings(seed)).unwrap();
        let mut model = model_of(&ftl);
        let mut last = 0;
        for step in 0..6000 {
            let op = random_op(&mut rng, &ftl, &mut last);
            apply(&mut ftl, &mut model, &op).unwrap();
            if step % 500 == 499 {
                assert_eq!(contents(&mut ftl), model.pages);
                assert_sound(&mut ftl);
                let c = ftl.counters();
                total.switch_merges += c.switch_merges;
                total.partial_merges += c.partial_merges;
                total.full_merges += c.full_merges;
                total.collections += c.collections;
                total.levelled_blocks += c.levelled_blocks;
                ftl = Ftl::<S>::mount(ftl.close().unwrap(), &settings(seed)).unwrap();
                model.settle();
                assert_eq!(contents(&mut ftl), model.pages);
                assert_sound(&mut ftl);
            }
        }
        assert!(ftl.nand().wear().iter().sum::<u32>() > 100);
    }
    total
}

/// Does operations until the power is cut. Then mounts, and compares the pages with the model before and
/// after the cut operation. The model becomes the state found.
fn run_to_cut<S: Scheme>(
    mut ftl: Ftl<S>,
    model: &mut Model,
    rng: &mut Rng,
    settings: S::Config,
    ops: usize,
) -> (Ftl<S>, bool) {
    let mut last = 0;
    for _ in 0..ops {
        let op = random_op(rng, &ftl, &mut last);
        let before = model.clone();
        match apply(&mut ftl, model, &op) {
            Ok(()) => {}
            Err(StoreError::Nand(NandError::PowerLost)) => {
                return (remount(ftl, model, &before, settings), true);
            }
            Err(error) => panic!("{op:?}: {error:?}"),
        }
    }
    ftl.nand_mut().power_off();
    let before = model.clone();
    (remount(ftl, model, &before, settings), false)
}

fn remount<S: Scheme>(ftl: Ftl<S>, model: &mut Model, before: &Model, settings: S::Config) -> Ftl<S> {
    let mut chip = ftl.into_nand();
    chip.power_on();
    let mut ftl = Ftl::<S>::mount(chip, &settings).unwrap();
    let found = contents(&mut ftl);
    if !before.allows(&found) && !model.allows(&found) {
        let wrong: Vec<String> = (0..found.len())
            .filter(|&i| found[i] != model.pages[i])
            .map(|i| alloc::format!("lpn {i}: {} for {}", found[i], model.pages[i]))
            .collect();
        panic!("found {wrong:?}");
    }
    assert_sound(&mut ftl);
    model.become_found(found);
    ftl
}

fn cut_run<S: Scheme>(
    first: u64,
    when: CutWhen,
    torn: TornModel,
    (seed, settings): (u64, S::Config),
) -> bool {
    let mut rng = Rng::new(seed);
    let mut ftl = Ftl::<S>::format(chip(small(seed)), &settings.clone()).unwrap();
    let mut model = model_of(&ftl);
    // Half of the store is filled before the first cut.
    for lpn in 0..ftl.page_count() / 2 {
        apply(&mut ftl, &mut model, &Op::Write(lpn)).unwrap();
    }
    // A scheme that collects garbage only if room is short is short of room after this.
    for _ in 0..200 {
        if ftl.counters().collections + ftl.counters().full_merges > 0 {
            break;
        }
        let lpn = rng.below(u64::from(ftl.page_count() / 2)) as u32;
        apply(&mut ftl, &mut model, &Op::Write(lpn)).unwrap();
    }
    let mut struck = false;
    for (cut, wait) in [first, rng.below(6), rng.below(60), 10_000].into_iter().enumerate() {
        let at_operation = ftl.nand().operations() + wait;
        ftl.nand_mut().plan_power_cut(PowerCut { at_operation, when, torn, seed: seed ^ first });
        let was_cut;
        (ftl, was_cut) = run_to_cut(ftl, &mut model, &mut rng, settings.clone(), 100);
        struck |= cut == 0 && was_cut;
    }
    struck
}

/// Cuts the power at every physical operation of a workload, and twice more soon after.
pub fn survives_every_cut<S: Scheme>(settings: impl Fn(u64) -> S::Config) {
    let stride = stride(17) as u64;
    let mut ways = 0;
    for when in [CutWhen::Before, CutWhen::Inside, CutWhen::After] {
        for torn in TornModel::ALL {
            if when != CutWhen::Inside && torn != TornModel::Prefix {
                continue;
            }
            // Three chips, each cut at a third of the operations, or a part of them.
            for seed in 0..3 {
                let mut at = seed + 3 * (ways % stride);
                while cut_run::<S>(at, when, torn, (seed, settings(seed))) {
                    at += 3 * stride;
                }
                assert!(at > 90, "the workload has more operations than {at}");
            }
            ways += 1;
        }
    }
}

/// Cuts the power again and again. Each cut wastes the rest of the open blocks and may leave a merge half
/// done, but there must always be room.
pub fn survives_cut_after_cut<S: Scheme>(settings: impl Fn(u64) -> S::Config) {
    for seed in 0..sized(2, 9) {
        let mut rng = Rng::new(seed);
        let mut ftl = Ftl::<S>::format(chip(small(seed)), &settings(seed)).unwrap();
        let mut model = model_of(&ftl);
        for lpn in 0..ftl.page_count() {
            apply(&mut ftl, &mut model, &Op::Write(lpn)).unwrap();
        }
        for session in 0..400 {
            let at_operation = ftl.nand().operations() + rng.below([4, 12, 40][session % 3]);
            let torn = TornModel::ALL[session % 4];
            ftl.nand_mut().plan_power_cut(PowerCut { at_operation, when: CutWhen::Inside, torn, seed });
            (ftl, _) = run_to_cut(ftl, &mut model, &mut rng, settings(seed), 60);
        }
        assert!(ftl.nand().operations() > 3000);
    }
}

/// Lets programs and erases fail at random, on chips with factory bad blocks.
pub fn survives_failing_blocks<S: Scheme>(settings: impl Fn(u64) -> S::Config) {
    for seed in 0..sized(3, 20) {
        let faults =
            Faults { seed, program_failures_ppm: 1_000, erase_failures_ppm: 2_000, ..Faults::default() };
        let mut rng = Rng::new(seed);
        let geometry = Geometry { random_order: seed % 3 == 1, ..Geometry::new(128, 16, 4, 120) };
        let chip = chip(geometry).with_factory_bad_blocks(30_000, seed).with_faults(faults);
        let mut ftl = Ftl::<S>::format(chip, &settings(seed)).unwrap();
        let mut model = model_of(&ftl);
        let mut last = 0;
        for step in 0..3000 {
            let op = random_op(&mut rng, &ftl, &mut last);
            let before = model.clone();
            match apply(&mut ftl, &mut model, &op) {
                Ok(()) => {}
                // A refused operation did not take place.
                Err(error) if is_full(&error) => model = before.clone(),
                Err(error) => panic!("seed {seed} step {step} {op:?}: {error:?}"),
            }
            if rng.chance(1, 200) {
                ftl = remount(ftl, &mut model, &before, settings(seed));
            }
        }
        assert_eq!(contents(&mut ftl), model.pages, "seed {seed}");
        assert_sound(&mut ftl);
        let before = model.clone();
        remount(ftl, &mut model, &before, settings(seed));
    }
}

/// Fills a store and never rewrites nine tenths of it. Levelling must make their blocks wear with the others.
pub fn levels_wear<S: Scheme>(settings: impl Fn(FlashConfig) -> S::Config) {
    let spread = |wear_levelling| {
        let common = FlashConfig { wear_levelling, ..FlashConfig::default() };
        let chip = chip(Geometry::new(512, 16, 8, 64));
        let mut ftl = Ftl::<S>::format(chip, &settings(common)).unwrap();
        let data = page(7, 512);
        (0..ftl.page_count()).for_each(|lpn| ftl.write(Lpn(lpn), Cause::Host, &data).unwrap());
        let (mut rng, hot) = (Rng::new(1), u64::from(ftl.page_count() / 10));
        for _ in 0..15_000 {
            ftl.write(Lpn(rng.below(hot) as u32), Cause::Host, &data).unwrap();
        }
        assert_sound(&mut ftl);
        // The blocks of checkpoints do not count: levelling does not concern them.
        let table = ftl.flash().blocks();
        let in_use = |pbn: &Pbn| !matches!(table.state(*pbn), BlockState::Reserved | BlockState::Bad);
        let wear: Vec<u32> = (0..64).map(Pbn).filter(in_use).map(|pbn| table.erase_count(pbn)).collect();
        let spread = wear.iter().max().unwrap() - wear.iter().min().unwrap();
        (spread, ftl.counters().levelled_blocks)
    };
    let free = spread(WearLevelling::None);
    assert!(free.0 > 100 && free.1 == 0, "{free:?}");
    for rule in
        [WearLevelling::Threshold { gap_erases: 16 }, WearLevelling::DualPool { threshold_erases: 16 }]
    {
        let levelled = spread(rule);
        assert!(2 * levelled.0 < free.0 && levelled.1 > 10, "{rule:?}: {levelled:?}, without {free:?}");
    }
}

/// Flips one bit at a time, a sample of the bits of every page. This must give an error of one page or of the
/// mount, never other contents.
pub fn notices_wrong_bits<S: Scheme>(settings: impl Fn(u64) -> S::Config) {
    let (mut wrong, mut refused, mut mounted) = (0, 0, 0);
    for seed in 0..3 {
        let mut ftl = Ftl::<S>::format(chip(small(seed)), &settings(seed)).unwrap();
        let mut model = model_of(&ftl);
        let (mut rng, mut last) = (Rng::new(seed), 0);
        for _ in 0..400 {
            let op = random_op(&mut rng, &ftl, &mut last);
            apply(&mut ftl, &mut model, &op).unwrap();
        }
        ftl.sync().unwrap();
        // After a clean base a single note is the only sign of later writes.
        if seed == 1 {
            ftl.checkpoint().unwrap();
            apply(&mut ftl, &mut model, &Op::Write(0)).unwrap();
        }
        // The loss of the very last write looks like a cut, so this page is not checked.
        let unasked = ftl.page_count() - 1;
        apply(&mut ftl, &mut model, &Op::Write(unasked)).unwrap();
        model.pages.pop();
        let chip = ftl.into_nand();
        for ppn in (0..small(seed).pages()).map(Ppn) {
            let step = 37 * stride(9);
            for bit in (ppn.index() % step..1152).step_by(step) {
                let flipped = Chip::new(chip.clone()).with_wrong_bits(ppn, &[bit]);
                let mut ftl = match SchemeFtl::<_, S>::mount(flipped, &settings(seed)) {
                    Ok(ftl) => ftl,
                    Err(StoreError::Corrupted { .. } | StoreError::NotFormatted(_)) => {
                        refused += 1;
                        continue;
                    }
                    Err(error) => panic!("{error:?}"),
                };
                mounted += 1;
                let mut data = vec![0; 128];
                for (lpn, &tag) in model.pages.iter().enumerate() {
                    match ftl.read(Lpn(lpn as u32), Cause::Check, &mut data) {
                        // The loss of the last note of a trim looks like a cut in it.
                        Ok(()) if tag == 0 => {
                            let found = u64::from_le_bytes(data[..8].try_into().unwrap());
                            assert!(model.was_ever(lpn as u32, found), "lpn {lpn}");
                        }
                        Ok(()) => assert_eq!(data, page(tag, 128), "{ppn} bit {bit} lpn {lpn}"),
                        Err(StoreError::Corrupted { .. }) => wrong += 1,
                        Err(error) => panic!("{error:?}"),
                    }
                }
            }
        }
    }
    assert!(wrong > sized(20, 60), "{wrong} logical pages could not be read");
    assert!(refused < mounted / 3, "{refused} mounts refused, {mounted} not");
}

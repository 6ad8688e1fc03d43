//! The FTL against an array of pages: in use, after cuts at every operation, with failing blocks and flipped
//! bits.

mod damage;

use super::*;
use crate::blocks::hot::HotConfig;
use crate::blocks::victim::VictimPolicy;
use crate::blocks::wear::WearLevelling;
use crate::inputs::{sized, stride};
use crate::nand::sim::{CutWhen, Faults, PowerCut, SimChip, TornModel};
use crate::nand::{NandError, Part, Timing};
use crate::rng::Rng;
use crate::testing::Chip;
use crate::testing::pages::{self, Model, Op, Undone, contents, page, tag_of};

const TIMING: Timing =
    Timing { read_ns: 60_000, program_ns: 800_000, erase_ns: 1_500_000, transfer_ps_per_byte: 25_000 };

fn chip(geometry: Geometry) -> SimChip {
    SimChip::new(&Part::new("test", geometry, TIMING)).unwrap()
}

fn small() -> Geometry {
    Geometry::new(64, 16, 4, 22)
}

fn settings() -> FtlConfig {
    FtlConfig { atomic_pages: 5, checkpoint_blocks: Some(12), ..FtlConfig::default() }
}

/// Settings that differ in victims, separation and levelling, as far as the build has them. Any number gives
/// some settings; the first 18 give every pair of separation and victims.
fn variant(number: u64) -> FtlConfig {
    // A filter so small and hasty that pages of these chips turn hot and cold.
    let numbers = HotConfig { counters: 16, hashes: 2, threshold: 3, decay_writes: 24 };
    let separations = [Separation::TwoFrontiers, Separation::None, Separation::HotFilter(numbers)];
    let levellings = [
        WearLevelling::None,
        WearLevelling::DualPool { threshold_erases: 2 },
        WearLevelling::Threshold { gap_erases: 2 },
        WearLevelling::None,
    ];
    let number = number as usize;
    if !cfg!(feature = "full") {
        return FtlConfig { separation: separations[number % 2], ..settings() };
    }
    FtlConfig {
        victim: VictimPolicy::ALL[number / 3 % 6],
        separation: separations[number % 3],
        wear_levelling: levellings[number % 4],
        ..settings()
    }
}

fn random_op(rng: &mut Rng, page_count: u32, group_max: u64) -> Op {
    let lpn = |rng: &mut Rng| {
        // Four fifths of the writes go to a fifth of the pages.
        let range = if rng.chance(4, 5) { page_count.div_ceil(5) } else { page_count };
        rng.below(u64::from(range)) as u32
    };
    match rng.below(40) {
        0..=23 => Op::Group(vec![lpn(rng)]),
        24..=31 => {
            let mut group: Vec<u32> = (0..=rng.below(group_max)).map(|_| lpn(rng)).collect();
            group.sort_unstable();
            group.dedup();
            rng.shuffle(&mut group);
            Op::Group(group)
        }
        32..=35 => Op::Trim(lpn(rng)),
        36..=38 => Op::Sync,
        _ => Op::Checkpoint,
    }
}

fn apply(ftl: &mut PageMapFtl<SimChip>, model: &mut Model, op: &Op) -> Result<(), StoreError> {
    match op {
        Op::Checkpoint => ftl.checkpoint().map(|()| model.settle()),
        op => pages::apply(ftl, model, op),
    }
}

fn model_of(ftl: &dyn PageStore) -> Model {
    Model::new(ftl.page_count(), Undone::Last)
}

fn assert_sound(ftl: &mut PageMapFtl<SimChip>) {
    let report = ftl.check().unwrap();
    assert!(report.is_sound(), "{report:?}");
}

/// Runs operations until the power is cut; then mounts and compares with the model before and after the
/// operation that was cut. The model becomes what was found.
fn run_to_cut(
    mut ftl: PageMapFtl<SimChip>,
    model: &mut Model,
    rng: &mut Rng,
    ops: usize,
) -> (PageMapFtl<SimChip>, bool) {
    for _ in 0..ops {
        let op = random_op(rng, ftl.page_count(), ftl.atomic_pages_max() as u64);
        let before = model.clone();
        match apply(&mut ftl, model, &op) {
            Ok(()) => {}
            Err(StoreError::Nand(NandError::PowerLost)) => return (remount(ftl, model, &before), true),
            Err(error) => panic!("{op:?}: {error:?}"),
        }
    }
    ftl.nand_mut().power_off();
    let before = model.clone();
    (remount(ftl, model, &before), false)
}

fn remount(ftl: PageMapFtl<SimChip>, model: &mut Model, before: &Model) -> PageMapFtl<SimChip> {
    let settings = ftl.core.settings;
    let mut chip = ftl.into_nand();
    chip.power_on();
    let mut ftl = PageMapFtl::mount(chip, &settings).unwrap();
    let found = contents(&mut ftl);
    assert!(
        before.allows(&found) || model.allows(&found),
        "found {found:?}\nbefore {before:?}\nafter {model:?}"
    );
    assert_sound(&mut ftl);
    model.become_found(found);
    ftl
}

fn cut_run(first: u64, when: CutWhen, torn: TornModel, settings: FtlConfig) -> bool {
    let seed = first % 3;
    let mut rng = Rng::new(seed);
    let mut ftl = PageMapFtl::format(chip(small()), &settings).unwrap();
    let mut model = model_of(&ftl);
    let mut struck = false;
    for (cut, wait) in [first, rng.below(6), rng.below(60), 10_000].into_iter().enumerate() {
        let at_operation = ftl.nand().operations() + wait;
        ftl.nand_mut().plan_power_cut(PowerCut { at_operation, when, torn, seed: seed ^ first });
        let was_cut;
        (ftl, was_cut) = run_to_cut(ftl, &mut model, &mut rng, 120);
        struck |= cut == 0 && was_cut;
    }
    struck
}

#[test]
fn a_cut_at_every_operation_loses_nothing() {
    let stride = stride(17) as u64;
    let mut ways = 0;
    for when in [CutWhen::Before, CutWhen::Inside, CutWhen::After] {
        for torn in TornModel::ALL {
            if when != CutWhen::Inside && torn != TornModel::Prefix {
                continue;
            }
            ways += 1;
            // Each variant at a third of the operations, and by that on one of three workloads; each
            // separation on all three.
            for number in 0..18 {
                let mut at = number / 3 % 3 + 3 * (ways % stride);
                while cut_run(at, when, torn, variant(number)) {
                    at += 3 * stride;
                }
                assert!(at > 200, "the workload has more operations than {at}");
            }
        }
    }
}

#[test]
fn it_is_an_array_of_pages() {
    let geometries = [
        small(),
        Geometry::new(128, 16, 2, 60),
        Geometry::new(64, 16, 16, 24),
        Geometry::new(512, 16, 32, 16),
    ];
    for seed in 0..sized(9, 36) {
        let (geometry, settings) = (geometries[seed as usize % 4], variant(seed / 2));
        let mut rng = Rng::new(seed);
        let mut ftl = PageMapFtl::format(chip(geometry), &settings).unwrap();
        let mut model = model_of(&ftl);
        for step in 0..4000 {
            let op = random_op(&mut rng, ftl.page_count(), ftl.atomic_pages_max() as u64);
            apply(&mut ftl, &mut model, &op).unwrap();
            if step % 500 == 499 {
                assert_eq!(contents(&mut ftl), model.pages);
                assert_sound(&mut ftl);
                ftl = PageMapFtl::mount(ftl.close().unwrap(), &settings).unwrap();
                assert!(!ftl.core.records.stale, "nothing was written after the checkpoint");
                model.settle();
                assert_eq!(contents(&mut ftl), model.pages);
            }
        }
        assert!(ftl.nand().wear().iter().sum::<u32>() > 100);
    }
}

#[test]
fn a_completely_written_store_can_be_overwritten_for_ever() {
    let mut ftl = PageMapFtl::format(chip(small()), &settings()).unwrap();
    let mut model = model_of(&ftl);
    for lpn in 0..ftl.page_count() {
        apply(&mut ftl, &mut model, &Op::Group(vec![lpn])).unwrap();
    }
    let mut rng = Rng::new(9);
    for _ in 0..5000 {
        let lpn = rng.below(u64::from(ftl.page_count())) as u32;
        apply(&mut ftl, &mut model, &Op::Group(vec![lpn])).unwrap();
    }
    assert_eq!(contents(&mut ftl), model.pages);
}

/// Every cut wastes the rest of the open blocks and may leave a move half done; collection must still find
/// room (P4).
#[test]
fn cut_after_cut_does_not_fill_it() {
    for seed in 0..sized(9, 36) {
        let geometry =
            [small(), Geometry::new(64, 16, 8, 18), Geometry::new(128, 16, 16, 14)][seed as usize / 2 % 3];
        let settings = variant(seed);
        let mut rng = Rng::new(seed);
        let mut ftl = PageMapFtl::format(chip(geometry), &settings).unwrap();
        let mut model = model_of(&ftl);
        for lpn in 0..ftl.page_count() {
            apply(&mut ftl, &mut model, &Op::Group(vec![lpn])).unwrap();
        }
        for session in 0..700 {
            let at_operation = ftl.nand().operations() + rng.below([4, 12, 40][session % 3]);
            let torn = TornModel::ALL[session % 4];
            ftl.nand_mut().plan_power_cut(PowerCut { at_operation, when: CutWhen::Inside, torn, seed });
            (ftl, _) = run_to_cut(ftl, &mut model, &mut rng, 60);
        }
        assert!(ftl.nand().operations() > 6000);
    }
}

#[test]
fn failing_blocks_cost_room_but_no_data() {
    for seed in 0..sized(12, 60) {
        let faults =
            Faults { seed, program_failures_ppm: 2_000, erase_failures_ppm: 5_000, ..Faults::default() };
        let mut rng = Rng::new(seed);
        let settings = FtlConfig { bad_blocks_ppm: 300_000, ..variant(seed) };
        let chip =
            chip(Geometry::new(64, 16, 4, 80)).with_factory_bad_blocks(30_000, seed).with_faults(faults);
        let mut ftl = PageMapFtl::format(chip, &settings).unwrap();
        let mut model = model_of(&ftl);
        let mut full = false;
        for step in 0..3000 {
            let op = random_op(&mut rng, ftl.page_count(), ftl.atomic_pages_max() as u64);
            let before = model.clone();
            match apply(&mut ftl, &mut model, &op) {
                Ok(()) => {}
                Err(StoreError::WornOut) => {
                    (model, full) = (before, true);
                    break;
                }
                Err(error) => panic!("seed {seed} step {step} {op:?}: {error:?}"),
            }
            if rng.chance(1, 200) {
                ftl = remount(ftl, &mut model, &before);
            }
        }
        assert_eq!(contents(&mut ftl), model.pages, "seed {seed}, full: {full}");
        assert_sound(&mut ftl);
        assert!(ftl.blocks().in_state(BlockState::Bad).count() > 2);
    }
}

fn aged(seed: u64, settings: FtlConfig) -> (SimChip, Vec<u64>) {
    let mut ftl = PageMapFtl::format(chip(small()), &settings).unwrap();
    let mut model = model_of(&ftl);
    let mut rng = Rng::new(seed);
    for _ in 0..400 {
        let op = random_op(&mut rng, ftl.page_count(), 4);
        apply(&mut ftl, &mut model, &op).unwrap();
    }
    ftl.sync().unwrap();
    // The loss of the very last write looks like a cut; nobody asks for this one.
    let last = ftl.page_count() - 1;
    apply(&mut ftl, &mut model, &Op::Group(vec![last])).unwrap();
    model.pages.pop();
    (ftl.into_nand(), model.pages)
}

#[test]
fn a_wrong_bit_anywhere_is_noticed() {
    for number in 0..12 {
        flip_every_bit(number / 3, variant(number));
    }
}

fn flip_every_bit(seed: u64, settings: FtlConfig) {
    let (chip, pages) = aged(seed, settings);
    let (mut worn, mut refused) = (0, 0);
    for ppn in (0..small().pages()).map(Ppn) {
        let step = 5 * stride(12);
        for bit in (ppn.index() % step..640).step_by(step) {
            let flipped = Chip::new(chip.clone()).with_wrong_bits(ppn, &[bit]);
            let mut ftl = match PageMapFtl::mount(flipped, &settings) {
                Ok(ftl) => ftl,
                Err(StoreError::Corrupted { .. } | StoreError::NotFormatted(_)) => {
                    refused += 1;
                    continue;
                }
                Err(error) => panic!("{error:?}"),
            };
            let mut data = vec![0; 64];
            for (lpn, &tag) in pages.iter().enumerate() {
                match ftl.read(Lpn(lpn as u32), Cause::Host, &mut data) {
                    Ok(()) => assert_eq!(data, page(tag, 64), "{ppn} bit {bit} lpn {lpn}"),
                    Err(StoreError::Corrupted { .. }) => worn += 1,
                    Err(error) => panic!("{error:?}"),
                }
            }
        }
    }
    assert!(worn > sized(75, 300), "{worn} logical pages could not be read");
    // What cannot do without any bit are the records in use and the reference to them: an older one is not
    // passed off for what they said.
    assert!(refused < sized(425, 1700), "{refused} mounts refused");
}

/// A lost page is lost alone: the rest can be read, moved and overwritten, and so can the page itself.
#[test]
fn a_lost_page_stays_lost_until_it_is_written() {
    let (chip, pages) = aged(3, settings());
    let lost = PageMapFtl::mount(chip.clone(), &settings()).unwrap().core.state.map.get(3);
    let mut ftl = PageMapFtl::mount(Chip::new(chip).with_wrong_bits(Ppn(lost), &[77]), &settings()).unwrap();
    let (mut data, bytes) = (vec![0; 64], page(7, 64));
    for round in 0..200 {
        let lpn = Lpn(4 + round % 8);
        ftl.write(lpn, Cause::Host, &bytes).unwrap();
        if round % 50 == 0 {
            ftl = PageMapFtl::mount(ftl.into_nand(), &settings()).unwrap();
        }
        let read = ftl.read(Lpn(3), Cause::Host, &mut data);
        assert!(matches!(read, Err(StoreError::Corrupted { .. })), "{read:?} in round {round}");
    }
    assert_eq!(ftl.counters().lost_pages, 0, "made known by a record of an earlier session");
    ftl.read(Lpn(1), Cause::Host, &mut data).unwrap();
    assert_eq!(data, page(pages[1], 64));
    ftl.write(Lpn(3), Cause::Host, &bytes).unwrap();
    ftl.read(Lpn(3), Cause::Host, &mut data).unwrap();
    assert_eq!(data, bytes);
}

#[test]
fn a_rotten_chip_never_panics() {
    let (chip, _) = aged(5, settings());
    for seed in 0..sized(300, 1500) {
        let faults = Faults { seed, bit_errors_per_gigabit: 1 << (10 + seed % 12), ..Faults::default() };
        let Ok(mut ftl) = PageMapFtl::mount(chip.clone().with_faults(faults), &settings()) else { continue };
        let mut data = vec![0; 64];
        for lpn in (0..ftl.page_count()).map(Lpn) {
            if ftl.read(lpn, Cause::Host, &mut data).is_ok() {
                let tag = u64::from_le_bytes(data[..8].try_into().unwrap());
                assert_eq!(data, page(tag, 64), "{lpn} was never written like this");
            }
        }
        for lpn in (0..ftl.page_count()).map(Lpn) {
            let _ = ftl.write(lpn, Cause::Host, &data);
            let _ = ftl.trim(Lpn(lpn.0 / 2));
        }
        let _ = ftl.sync();
    }
}

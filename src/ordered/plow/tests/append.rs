//! Changes appended behind commit pages on NOR.

use super::cuts::{Chip, cut_everywhere};
use super::*;
use crate::Cause;
use crate::nand::ReadOutcome;
use crate::nand::sim::{CutWhen, Faults, PowerCut, TornModel};
use crate::nand::{LowerPages, Nand, Pairing};
use crate::ordered::plow::page::{HEADER_BYTES, Header, Kind};
use crate::testing::History;
use crate::units::Ppn;

/// A chip whose pages take words of `word` bytes; `once` if each word takes one program.
pub(super) fn nor(page: u32, pages_per_block: u32, blocks: u32, word: u16, once: bool) -> SimChip {
    let programs = if once { 1 } else { Geometry::ANY_PROGRAMS };
    let geometry = Geometry::new(page, 64, pages_per_block, blocks)
        .with_append_bytes(word)
        .with_programs_per_page_max(programs);
    SimChip::new(&Part { geometry, ..mlc_64m() }).unwrap()
}

fn durable(key: u8, value: u8, memtable: usize) -> PlowConfig {
    PlowConfig { memtable: Some(memtable), ..settings(key, value, Durability::EveryOperation) }
}

fn appended(plow: &Plow<SimChip>) -> u64 {
    plow.core.stock.commits.tail.as_ref().unwrap().appended
}

#[test]
fn a_cut_among_appended_changes_loses_nothing() {
    let cases = [
        (1, 9, (4, 4), (512, 8, 40, 1, false), 150),
        (2, 30, (8, 12), (256, 4, 64, 4, false), 250),
        (3, 60, (4, 4), (512, 4, 64, 8, true), 400),
        (1, 30, (8, 41), (512, 8, 40, 32, true), 120),
        (2, 12, (2, 0), (256, 16, 40, 1, false), 200),
    ];
    for (levels, memtable, (key, value), (page, of_block, blocks, word, once), steps) in cases {
        let set = PlowConfig { levels: Some(levels), ..durable(key, value, memtable) };
        let chip: Chip = LowerPages::new(nor(page, of_block, blocks, word, once), Pairing::None);
        cut_everywhere(&set, chip, steps);
    }
}

#[test]
fn few_changes_cost_a_page() {
    let mut plow = Plow::format(nor(256, 16, 40, 1, false), &durable(8, 8, 120)).unwrap();
    let (mut rng, mut model) = (Rng::new(1), Model::new());
    for i in 0..4_000u64 {
        let (key, value) = (key(rng.below(200), 8), i.to_be_bytes());
        plow.put(&key, &value).unwrap();
        model.insert(key, value.to_vec());
    }
    assert!(appended(&plow) > 3_800, "{} of 4,000", appended(&plow));
    let pages = plow.core.counters.commits + plow.core.counters.steps.iter().sum::<u64>();
    assert!(pages < 400, "{pages} pages of commits and steps");
    let mut plow = Plow::mount(plow.into_nand(), &durable(8, 8, 120)).unwrap();
    assert_holds(&mut plow, &model);
}

/// Lives of drawn chips and settings in which the power fails again and again. Nothing that was acknowledged
/// is lost, and after each mount every key is looked up.
#[test]
fn lives_with_cuts_lose_nothing() {
    inputs::cases(150, |seed| {
        let rng = &mut Rng::new(seed);
        let (page, of_block, blocks) =
            [(256, 16, 16), (512, 8, 16), (512, 8, 40), (1024, 4, 24), (2048, 2, 40), (256, 64, 12)]
                [rng.below(6) as usize];
        let (key, value) = [(4, 4), (8, 8), (2, 0), (12, 3), (1, 1), (8, 37)][rng.below(6) as usize];
        let (word, once) = [(1, false), (4, false), (8, true), (32, true)][rng.below(4) as usize];
        let levels = [None, Some(1), Some(2)][rng.below(3) as usize];
        let memtable = [None, Some(4 + rng.below(12) as usize), Some(20)][rng.below(3) as usize];
        let ram = [None, Some(16 << 10)][rng.below(2) as usize].filter(|_| memtable.is_none());
        let set = PlowConfig { levels, memtable, ram_bytes: ram, ..durable(key, value, 4) };
        let mut chip = match Plow::format(nor(page, of_block, blocks, word, once), &set) {
            Ok(plow) => plow.into_nand(),
            // The chip is too small for such a memtable.
            Err(IndexError::Unsupported(_) | IndexError::ChipTooSmall { .. }) => return,
            Err(error) => panic!("{error}"),
        };
        let (keys, mut model) = ([20, 100, 400][rng.below(3) as usize], Model::new());
        for _ in 0..8 {
            let cut = chip.operations() + rng.below(300);
            let (when, torn) = (CutWhen::Inside, TornModel::ALL[rng.below(4) as usize]);
            chip.plan_power_cut(PowerCut { at_operation: cut, when, torn, seed: cut });
            let mut plow = Plow::mount(chip, &set).unwrap();
            assert_holds(&mut plow, &model);
            let mut history = History::new(model);
            let mix = Mix::updates(keys, [5, 1], 0);
            for _ in 0..1_000 {
                let done = history.apply(&mut plow, &mix.draw(rng, set.record));
                if done.is_err_and(|error| !error.is_refusal()) {
                    break;
                }
            }
            chip = plow.into_nand();
            chip.power_on();
            let mut plow = Plow::mount(chip, &set).unwrap();
            model = everything(&mut plow);
            assert!(history.had(&model, history.acknowledged()), "{} records", model.len());
            assert_holds(&mut plow, &model);
            if rng.chance(1, 3) {
                plow.close().unwrap();
            }
            chip = plow.into_nand();
        }
    });
}

/// Random changes on a chip that appends, with closed mounts and others, in changing classes.
#[test]
fn it_is_a_map_where_changes_are_appended() {
    inputs::cases(60, |seed| {
        let rng = &mut Rng::new(seed);
        let (key, value) = [(4, 4), (8, 4), (2, 0), (16, 8), (12, 3), (1, 1), (8, 37)][rng.below(7) as usize];
        let (page, of_block) = [(256, 16), (512, 8), (1024, 4), (256, 32)][rng.below(4) as usize];
        let (word, once) = [(1, false), (4, false), (8, true), (32, true)][rng.below(4) as usize];
        let mut set = durable(key, value, 4 + rng.below(56) as usize);
        set.levels = Some(1 + rng.below(3) as usize);
        let mut plow = Plow::format(nor(page, of_block, 96, word, once), &set).unwrap();
        let keys = if key == 1 { 256 } else { [60, 300, 3000][rng.below(3) as usize] };
        for _ in 0..4 {
            plow = live(plow, &set, keys, 600, rng);
            let model = everything(&mut plow);
            set.durability =
                if rng.chance(1, 3) { Durability::EverySync } else { Durability::EveryOperation };
            if rng.chance(1, 2) { plow.close() } else { plow.sync() }.unwrap();
            plow = Plow::mount(plow.into_nand(), &set).unwrap();
            assert_holds(&mut plow, &model);
        }
    });
}

#[test]
fn failed_programs_among_appended_changes_lose_nothing() {
    inputs::cases(20, |seed| {
        let rng = &mut Rng::new(seed);
        let faults = Faults { program_failures_ppm: 4_000, ..Faults::default() };
        let nand = nor(512, 8, 400, 4, false).with_faults(faults);
        let set = durable(8, 8, 40);
        live(Plow::format(nand, &set).unwrap(), &set, 500, 2_000, rng);
    });
}

/// The newest page of changes, and its contents.
fn newest_changes(plow: Plow<SimChip>) -> (SimChip, Ppn, Vec<u8>) {
    let Some((ppn, _)) = plow.core.stock.commits.sealed.back().map(|sealed| (sealed.ppn, 0)) else {
        panic!("no page of changes");
    };
    let mut nand = plow.into_nand();
    let mut page = vec![0; nand.geometry().page_bytes as usize];
    let read = nand.read(ppn, Cause::Check, &mut page, &mut []).unwrap();
    assert_eq!(read, ReadOutcome::CLEAN);
    assert_eq!(Header::decode(&page, ppn).map(|header| header.kind), Some(Kind::Changes));
    (nand, ppn, page)
}

/// A bit that was lost in a page of changes is told, or was in the last change: a cut may have torn that one.
#[test]
fn a_damaged_page_of_changes_is_no_silent_loss() {
    let set = durable(8, 8, 40);
    let made = || {
        let mut plow = Plow::format(nor(512, 8, 40, 1, false), &set).unwrap();
        (0..20u64).for_each(|i| plow.put(&key(i, 8), &i.to_be_bytes()).unwrap());
        plow
    };
    let (_, _, page) = newest_changes(made());
    let end = page.iter().rposition(|&byte| byte != 0xff).unwrap() + 1;
    let (mut told, mut lost_last) = (0, 0);
    for at in (HEADER_BYTES..end).step_by(inputs::stride(3)) {
        let (mut nand, ppn, page) = newest_changes(made());
        let Some(bit) = (0..8).find(|bit| page[at] & 1 << bit != 0) else { continue };
        let mut bytes = vec![0xff; at + 1];
        bytes[at] = page[at] & !(1 << bit);
        nand.program(ppn, Cause::Check, &bytes, &[]).unwrap();
        match Plow::mount(nand, &set) {
            Err(_) => told += 1,
            Ok(mut plow) => {
                let found = everything(&mut plow);
                assert!(at + 24 > end && found.len() == 19, "byte {at} of {end}: {} records", found.len());
                lost_last += 1;
            }
        }
    }
    assert!(told > 3 * lost_last && lost_last > 0, "{told} told, {lost_last} lost");
}

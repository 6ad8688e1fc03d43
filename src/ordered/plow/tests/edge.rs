//! Full chips, little RAM, failing and damaged chips.

use super::*;
use crate::inputs::{sized, stride};
use crate::nand::Nand;
use crate::nand::sim::Faults;
use crate::ordered::plow::space::Need;
use crate::testing::damaged::{Damage, damage};
use crate::units::{Pbn, Ppn};

#[test]
fn a_full_chip_refuses_and_takes_records_again_once_some_are_gone() {
    let shapes = [(1, 512, 16), (2, 512, 24), (3, 512, 64), (1, 2048, 16)];
    for (levels, page, blocks) in shapes.into_iter().take(sized(3, 4)) {
        for class in [Durability::EveryOperation, Durability::EverySync].into_iter().take(sized(1, 2)) {
            let set = PlowConfig { levels: Some(levels), ..settings(8, 8, class) };
            let mut plow = Plow::format(chip(page, 8, blocks), &set).unwrap();
            let (mut model, mut rng) = (Model::new(), Rng::new(1));
            let mut held = 0;
            for round in 0..sized(2, 4u64) {
                let mut next = || (key(rng.next_u64(), 8), round.to_be_bytes().to_vec());
                testing::fill(&mut plow, &mut model, &mut next);
                assert_holds(&mut plow, &model);
                held = held.max(model.len());
                let (stock, records) = (&plow.core.stock, model.len());
                let what = alloc::format!(
                    "{levels} levels, pages of {page}, {class:?}, round {round}: {records} of {held}, {} of {} blocks \
                     kept, a root of {}, {:?}, {:?}",
                    stock.blocks_for(Need::Commit),
                    stock.space.available(),
                    stock.root_bytes(),
                    stock.levels,
                    stock.commits
                );
                assert!(records * 4 > held * 3, "{what}");
                plow.sync().unwrap_or_else(|error| panic!("{error}: {what}"));
                for key in model.keys().take(model.len() * 3 / 4).cloned().collect::<Vec<_>>() {
                    let removed = plow.remove(&key).unwrap_or_else(|error| panic!("{error}: {what}"));
                    assert!(removed && model.remove(&key).is_some());
                }
                if round % 2 == 1 {
                    plow.close().unwrap();
                    plow = Plow::mount(plow.into_nand(), &set).unwrap();
                }
            }
            let usable = (blocks as usize - plow.core.stock.sweeps() - 3 * levels) * 8 * (page as usize - 40);
            assert!(held * 16 * 10 > usable * 7, "{levels} levels: {held} records in {usable} bytes");
            assert_holds(&mut plow, &model);
        }
    }
}

#[test]
fn a_chip_that_is_taken_has_room_for_a_record() {
    let (mut taken, mut refused) = (0, 0);
    for (page, pages, record) in [(128, 24, 1), (256, 4, 8), (512, 8, 8), (2048, 64, 8)] {
        for (blocks, bad) in (8..16).flat_map(|blocks| (0..blocks - 2).map(move |bad| (blocks, bad))) {
            for levels in [None, Some(2), Some(3)] {
                let set = PlowConfig { levels, ..settings(record, record, Durability::EverySync) };
                let mut marked = chip(page, pages, blocks);
                (0..bad).for_each(|block| marked.mark_bad(Pbn(block)).unwrap());
                let what = alloc::format!("{bad} of {blocks} blocks bad, pages of {page}, {levels:?} levels");
                match Plow::format(marked, &set) {
                    Ok(mut plow) => {
                        taken += 1;
                        let put = plow.insert(&key(1, record), &vec![0; usize::from(record)]);
                        assert_eq!(put, Ok(false), "{what}");
                        let plow = Plow::mount(plow.into_nand(), &set);
                        assert!(plow.is_ok(), "{what}: {:?}", plow.err());
                    }
                    Err(IndexError::ChipTooSmall { needs, has, .. }) => {
                        refused += 1;
                        assert!(has < needs, "{what}: {has} of {needs}");
                    }
                    Err(other) => panic!("{what}: {other}"),
                }
            }
        }
    }
    assert!(taken > 0 && refused > 0, "{taken} taken, {refused} refused");
}

#[test]
fn mounts_without_end_leave_room() {
    let set = PlowConfig { levels: Some(2), memtable: Some(6), ..settings(8, 8, Durability::EveryOperation) };
    let mut plow = Plow::format(chip(512, 8, 24), &set).unwrap();
    let (mut model, mut rng) = (Model::new(), Rng::new(3));
    for round in 0..400u64 {
        for _ in 0..8 {
            let key = key(rng.below(1500), 8);
            match put(&mut plow, &mut model, &key, &round.to_be_bytes()) {
                Ok(_) => {}
                Err(IndexError::Full(_)) => {
                    let first = model.keys().next().unwrap().clone();
                    assert_eq!(take(&mut plow, &mut model, &first), Ok(true));
                }
                Err(error) => panic!("{error}"),
            }
        }
        // Without a close: what was open is not used again.
        plow = Plow::mount(plow.into_nand(), &set).unwrap();
    }
    assert!(model.len() > 800, "{}", model.len());
    assert_holds(&mut plow, &model);
}

#[test]
fn failing_programs_and_erases_lose_nothing() {
    let faults =
        Faults { seed: 5, program_failures_ppm: 15_000, erase_failures_ppm: 15_000, ..Faults::default() };
    for levels in 1..4 {
        let set =
            PlowConfig { levels: Some(levels), memtable: Some(30), ..settings(8, 8, Durability::EverySync) };
        let plow = Plow::format(chip(512, 16, 128).with_faults(faults), &set).unwrap();
        let plow = live(plow, &set, 3000, 8000, &mut Rng::new(levels as u64));
        assert!(plow.core.stock.space.blocks.is_any_bad());
    }
}

#[test]
fn a_chip_that_dies_is_complete() {
    let set = PlowConfig { memtable: Some(12), ..settings(8, 8, Durability::EveryOperation) };
    let mut plow = Plow::format(chip(512, 8, 20), &set).unwrap();
    let (mut model, mut rng) = (Model::new(), Rng::new(3));
    let faults = Faults { seed: 9, program_failures_ppm: 20_000, ..Faults::default() };
    plow.core.medium.nand.set_faults(faults);
    for round in 0..20_000u64 {
        let key = key(rng.below(300), 8);
        match put(&mut plow, &mut model, &key, &round.to_be_bytes()) {
            Ok(_) => {}
            Err(error) if error.is_refusal() => {
                assert_holds(&mut plow, &model);
                if error == IndexError::WornOut {
                    break;
                }
            }
            Err(error) => panic!("{error}"),
        }
    }
    let mut plow = Plow::mount(plow.into_nand(), &set).unwrap();
    assert_holds(&mut plow, &model);
    // A mount may find some room more.
    let refused = (0..2000).find_map(|i| plow.insert(&key(1000 + i, 8), &[0; 8]).err());
    assert_eq!(refused, Some(IndexError::WornOut));
}

#[test]
fn little_ram_is_kept_and_less_is_refused() {
    let at = |ram, page| {
        let set = PlowConfig { ram_bytes: Some(ram), ..settings(4, 4, Durability::EverySync) };
        (Plow::format(chip(page, 16, 64), &set), set)
    };
    for (page, least) in [(512, 4700), (2048, 8000), (4096, 12_300)] {
        let mut started = 0;
        for ram in [least, least * 5 / 4, least * 2, least * 5] {
            let (plow, set) = at(ram, page);
            let plow = plow.unwrap_or_else(|error| panic!("{error}"));
            started += 1;
            live(plow, &set, 20_000, sized(2500, 6000), &mut Rng::new(ram as u64));
        }
        assert_eq!(started, 4);
        assert!(matches!(at(2 * page as usize, page).0, Err(IndexError::TooLittleRam { .. })));
    }
}

#[test]
fn fences_grow_thin_where_ram_is_short() {
    let set = PlowConfig { ram_bytes: Some(7000), ..settings(4, 4, Durability::EverySync) };
    let set = PlowConfig { answers: Answers::Pool, ..set };
    let mut plow = Plow::format(chip(512, 64, 128), &set).unwrap();
    let (mut model, mut rng) = (Model::new(), Rng::new(1));
    for i in 0..90_000u32 {
        let key = (rng.next_u64() as u32).to_be_bytes().to_vec();
        plow.insert(&key, &i.to_be_bytes()).unwrap();
        model.insert(key, i.to_be_bytes().to_vec());
        assert!(plow.ram_bytes() <= 7000, "{}", plow.ram_bytes());
    }
    assert_holds(&mut plow, &model);
    plow.close().unwrap();
    let mut plow = Plow::mount(plow.into_nand(), &set).unwrap();
    assert!(plow.ram_bytes() <= 7000, "{}", plow.ram_bytes());
    assert_holds(&mut plow, &model);
}

#[test]
fn a_damaged_page_is_named_or_does_not_matter() {
    let set = PlowConfig { levels: Some(2), memtable: Some(30), ..settings(4, 4, Durability::EverySync) };
    let mut plow = Plow::format(chip(512, 8, 40), &set).unwrap();
    plow = live(plow, &set, 4000, 4000, &mut Rng::new(4));
    let model = everything(&mut plow);
    plow.close().unwrap();
    let chip = plow.into_nand();
    let (mut named, mut right, mut refused, step) = (0, 0, 0, stride(2));
    for page in 0..40 * 8 {
        let kinds = Damage::OF_BYTES.into_iter().enumerate();
        for (number, kind) in kinds.skip(page as usize % step).step_by(step) {
            if chip.is_erased(Ppn(page)) {
                continue;
            }
            let mut chip = chip.clone();
            damage(&mut chip, Ppn(page), kind, number as u64);
            let Ok(mut plow) = Plow::mount(chip, &set) else {
                refused += 1;
                continue;
            };
            let mut errors = 0;
            for (key, expected) in &model {
                let mut value = [0; 4];
                match plow.get(key, &mut value) {
                    Ok(found) => assert!(found && value[..] == expected[..], "page {page}, {kind:?}"),
                    Err(_) => errors += 1,
                }
            }
            match contents(&mut plow) {
                Ok(all) => assert!(all == model, "page {page}, {kind:?}"),
                Err(_) => assert!(errors > 0),
            }
            if errors > 0 {
                assert!(errors < model.len(), "{errors}");
                named += 1;
            } else {
                right += 1;
            }
        }
    }
    let (few, many) = sized((25, 50), (50, 100));
    assert!(named > few && right > many && refused < 20, "{named} named, {right} right, {refused} refused");
}

#[test]
fn a_large_memtable_and_mounts_take_no_room() {
    // A memtable of six pages on a chip of eight blocks.
    let set = PlowConfig { memtable: Some(60), ..settings(8, 35, Durability::EverySync) };
    let mut plow = Plow::format(chip(512, 32, 8), &set).unwrap();
    let (mut model, mut rng, mut held) = (Model::new(), Rng::new(5), 0);
    // Zeros would take no room.
    for round in 1..41u8 {
        let is_full = loop {
            let key = key(rng.below(3000), 8);
            match put(&mut plow, &mut model, &key, &[round; 35]) {
                Ok(_) => {}
                Err(IndexError::Full(_)) => break true,
                Err(error) => panic!("round {round}: {error}"),
            }
            if round % 2 == 0 && rng.chance(1, 60) {
                break false;
            }
        };
        plow.sync().unwrap();
        if is_full {
            assert!(model.len() * 4 > held * 3, "round {round}: {} records, {held} before", model.len());
            held = held.max(model.len());
        }
        // Without a close, so that each mount closes what was open.
        plow = Plow::mount(plow.into_nand(), &set).unwrap();
        for key in model.keys().step_by(3).cloned().collect::<Vec<_>>() {
            assert_eq!(take(&mut plow, &mut model, &key), Ok(true));
        }
    }
    assert!(held > 300, "{held}");
    assert_holds(&mut plow, &model);
}

#[test]
fn filters_of_a_mount_do_not_outlive_the_first_level() {
    // Mounted with one level, whose pages have filters then; a second one is put above it, and the pages are
    // used again.
    let set = PlowConfig { memtable: Some(20), ..settings(4, 8, Durability::EverySync) };
    let mut plow = Plow::format(chip(512, 8, 40), &set).unwrap();
    let (mut model, mut rng) = (Model::new(), Rng::new(2));
    let mut change = |plow: &mut Plow<SimChip>, model: &mut Model, keys: u64| {
        let key = key(rng.below(keys), 4);
        if rng.chance(1, 4) {
            take(plow, model, &key).unwrap();
        } else {
            put(plow, model, &key, &[1; 8]).unwrap();
        }
    };
    while model.len() < 60 {
        change(&mut plow, &mut model, 1500);
    }
    plow.close().unwrap();
    let mut plow = Plow::mount(plow.into_nand(), &set).unwrap();
    assert_eq!(plow.core.stock.levels.len(), 1);
    (0..12_000).for_each(|_| change(&mut plow, &mut model, 1500));
    assert!(plow.core.stock.levels.len() > 1);
    assert_holds(&mut plow, &model);
}

#[test]
fn a_weak_page_is_written_anew() {
    for levels in 1..4 {
        let set =
            PlowConfig { levels: Some(levels), memtable: Some(30), ..settings(8, 8, Durability::EverySync) };
        let mut plow =
            live(Plow::format(chip(512, 16, 96), &set).unwrap(), &set, 3000, 5000, &mut Rng::new(7));
        let model = everything(&mut plow);
        let last = plow.core.stock.levels.len() - 1;
        let weak = plow.core.stock.levels[last].page(plow.core.stock.levels[last].last().unwrap()).unwrap();
        plow.core.medium.weak = Some(weak..Ppn(weak.0 + 1));
        // Changes of one key alone would hardly make a step of the last level.
        let (first, value) = model.iter().next().unwrap();
        let mut operations = 0;
        while plow.core.medium.weak.is_some() {
            plow.insert(first, value).unwrap();
            operations += 1;
            assert!(operations < 2000, "{levels} levels: {weak} is still in use");
        }
        assert!(plow.core.counters.scrubbed > 0 && !plow.core.stock.levels[last].uses(weak, Ppn(weak.0 + 1)));
        assert_holds(&mut plow, &model);
    }
}

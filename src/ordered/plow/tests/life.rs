//! The costs of plow in the long run: wear of years, nearly full chips, and the model against counts.

use super::*;
use crate::nand::sim::Faults;
use crate::ordered::plow::Forecast;

/// Changes of records `0..keys`, nine of ten of the first tenth.
fn skewed(rng: &mut Rng, keys: u64) -> u64 {
    let is_hot = rng.chance(9, 10);
    rng.below(if is_hot { keys / 10 } else { keys })
}

#[test]
fn blocks_wear_evenly_until_the_chip_is_worn_out() {
    let endurance = inputs::sized(30, 60);
    let mut part = chip(512, 16, 48).part().clone();
    part.endurance_erases = endurance;
    let faults = Faults { wears_out: true, ..Faults::default() };
    let nand = SimChip::new(&part).unwrap().with_faults(faults);
    let set = PlowConfig { memtable: Some(40), ..settings(8, 8, Durability::EverySync) };
    let mut plow = Plow::format(nand, &PlowConfig { answers: Answers::Pool, ..set }).unwrap();
    let (mut model, mut rng) = (Model::new(), Rng::new(1));
    let mut change = |plow: &mut Plow<SimChip>, i: u64| {
        let key = key(i, 8);
        plow.insert(&key, &i.to_be_bytes()).unwrap();
        model.insert(key, i.to_be_bytes().to_vec());
    };
    // Most of the chip never changes again.
    (0..18_000).for_each(|i| change(&mut plow, i * 7919 % 18_000));
    let mut changes = 0u64;
    while plow.core.stock.space.blocks.retired == 0 {
        change(&mut plow, skewed(&mut rng, 18_000));
        changes += 1;
        if changes.is_multiple_of(50) {
            plow.sync().unwrap();
        }
    }
    let wear = plow.core.medium.nand.wear();
    let (most, sum) = (wear.iter().max().unwrap(), wear.iter().sum::<u32>());
    // The first block that fails was erased as often as its part allows, and so were the others, nearly.
    assert!(*most > endurance && sum * 10 > 9 * endurance * 48, "{most} of {sum} erases, {changes} changes");
    assert_holds(&mut plow, &model);
}

/// Programs of steps an update in the steady state, of 1000 x 1000.
fn programs_of_updates(plow: &mut Plow<SimChip>, keys: u64, updates: u64, rng: &mut Rng) -> (u64, u64) {
    let before = plow.core.medium.nand.counters();
    let syncs = plow.core.counters.commits;
    let mut slowest = 0;
    for i in 0..updates {
        let at = plow.core.medium.nand.time().0;
        plow.insert(&spread(rng.below(keys), keys), &(i as u32).to_be_bytes()).unwrap();
        slowest = slowest.max(plow.core.medium.nand.time().0 - at);
        if i % 100 == 99 {
            plow.sync().unwrap();
        }
    }
    let spent = plow.core.medium.nand.counters().since(&before);
    let programs = spent.page_programs_total() - (plow.core.counters.commits - syncs);
    (programs * 1_000_000 / updates, slowest)
}

/// Key `i` of `keys` keys that are spread evenly over all keys of four bytes.
fn spread(i: u64, keys: u64) -> [u8; 4] {
    ((((i << 32) + (1 << 31)) / keys) as u32).to_be_bytes()
}

fn loaded(set: &PlowConfig, nand: SimChip, keys: u64, rng: &mut Rng) -> Plow<SimChip> {
    let mut plow = Plow::format(nand, set).unwrap();
    let mut order: Vec<u64> = (0..keys).collect();
    (1..order.len()).rev().for_each(|i| order.swap(i, rng.below(i as u64 + 1) as usize));
    for (i, record) in order.into_iter().enumerate() {
        plow.insert(&spread(record, keys), &[0; 4]).unwrap();
        if i % 100 == 99 {
            plow.sync().unwrap();
        }
    }
    plow
}

#[test]
fn the_model_foretells_what_updates_cost() {
    // Memtables that fit into a commit page: of larger ones the model knows less, and of three levels.
    for (levels, keys, most) in [(1, 12_000u64, 50), (2, 20_000, 50), (2, 30_000, 50), (3, 60_000, 100)]
        .into_iter()
        .step_by(inputs::stride(2))
    {
        let set = PlowConfig {
            ram_bytes: Some(9000),
            answers: Answers::Pool,
            levels: Some(levels),
            ..settings(4, 4, Durability::EverySync)
        };
        let mut rng = Rng::new(7);
        let mut plow = loaded(&set, chip(2048, 32, 96), keys, &mut rng);
        plow.run(|core| {
            core.choose_plan();
            Ok(())
        })
        .unwrap();
        programs_of_updates(&mut plow, keys, 20_000, &mut rng);
        let (measured, _) = programs_of_updates(&mut plow, keys, 40_000, &mut rng);
        let Forecast { programs, .. } = Forecast::new(&set, plow.core.stock.geometry, keys, (3, 4)).unwrap();
        let off = programs.abs_diff(measured) * 1000 / measured;
        assert!(off < most, "{levels} levels, {keys} keys: {programs} foretold, {measured} measured");
    }
}

#[test]
fn a_nearly_full_chip_costs_little_more() {
    let set = PlowConfig {
        ram_bytes: Some(9_000),
        answers: Answers::Pool,
        ..settings(4, 4, Durability::EverySync)
    };
    let measure = |blocks| {
        let mut rng = Rng::new(3);
        let mut plow = loaded(&set, chip(2048, 32, blocks), 100_000, &mut rng);
        let cost = programs_of_updates(&mut plow, 100_000, 20_000, &mut rng);
        assert!(plow.check().unwrap().is_sound());
        (cost, plow.core.stock.space.blocks.free(), plow.stats().live_pages)
    };
    let ((roomy, _), ..) = measure(96);
    let ((full, slowest), free, pages) = measure(20);
    assert!(full * 100 < roomy * 115, "{full} of {roomy}: {free} blocks free, {pages} pages");
    assert!(slowest < 20_000_000, "{slowest} ns");
}

//! The most that one operation costs while there is room: a step, or an erase. If pages hold very few
//! records, a step that meets no waiting record is followed by another; in these tests pages hold more.

use super::*;

#[test]
fn an_operation_makes_a_step_or_an_erase_and_no_more() {
    let cases = [(1, Durability::EveryOperation), (2, Durability::EverySync), (3, Durability::EverySync)];
    for (levels, class) in cases.into_iter().step_by(inputs::stride(2)) {
        let set = PlowConfig { levels: Some(levels), answers: Answers::Pool, ..settings(4, 4, class) };
        let mut plow = Plow::format(chip(2048, 16, 96), &set).unwrap();
        let mut rng = Rng::new(levels as u64);
        let (mut steps_seen, mut erases_seen) = (0, 0);
        for i in 0..40_000u64 {
            let key = key(rng.below(40_000), 4);
            let before = (plow.core.medium.nand.counters(), plow.core.counters.steps.iter().sum::<u64>());
            if rng.chance(1, 5) { plow.remove(&key) } else { plow.insert(&key, &[i as u8; 4]) }.unwrap();
            let spent = plow.core.medium.nand.counters().since(&before.0);
            // A short page that a sweep would write again is passed at once, which is a second page.
            let steps = plow.core.counters.steps.iter().sum::<u64>() - before.1;
            let erases = spent.block_erases_total();
            let commits = u64::from(class == Durability::EveryOperation);
            assert!(steps <= 2 && erases <= 1, "operation {i}: {steps} steps, {erases} erases");
            assert!(steps == 0 || erases == 0, "operation {i}: a step and an erase");
            let programs = spent.page_programs_total();
            assert!(programs <= steps + 2 * commits, "operation {i}: {programs} programs, {steps} steps");
            assert!(spent.page_reads_total() <= 20 * steps, "operation {i}: {spent:?}");
            (steps_seen, erases_seen) = (steps_seen + steps, erases_seen + erases);
            if i % 50 == 49 {
                plow.sync().unwrap();
            }
        }
        assert_eq!(plow.core.counters.sweeps, 0);
        assert!(steps_seen > 500 && erases_seen > 20, "{steps_seen} steps, {erases_seen} erases");
    }
}

/// Changes of one narrow range of keys after another, in a tree that was loaded with keys of all ranges. The
/// first level's sweep makes three steps at most in an operation, not one for each page in which nothing
/// waits.
#[test]
fn local_keys_make_few_steps_of_the_first_level() {
    use Durability::{EveryOperation, EverySync};
    let cases = [
        (12, (512, 128), 20_000, 3_000, EveryOperation),
        (16, (1024, 256), 60_000, 3_000, EverySync),
        (24, (1024, 256), 60_000, 100_000, EveryOperation),
    ];
    for (kib, (page, blocks), keys, width, class) in cases.into_iter().step_by(inputs::stride(2)) {
        let (ram_bytes, answers) = (Some(kib * 1024), Answers::Pool);
        let set = PlowConfig { ram_bytes, answers, ..settings(4, 4, class) };
        let mut plow = Plow::format(chip(page, 16, blocks), &set).unwrap();
        let (mut rng, mut model) = (Rng::new(5), Model::new());
        let (mut range, mut steps_most, mut passed) = (0, 0, 0);
        for i in 0..keys + 10_000u64 {
            if i >= keys && i.is_multiple_of(400) {
                range = rng.next_u64() >> 32;
            }
            let at = if i < keys { rng.next_u64() >> 32 } else { (range + rng.below(width)) & 0xffff_ffff };
            let (key, value) = (key(at, 4), vec![i as u8; 4]);
            let before = plow.core.counters.steps[0];
            if i % 9 == 0 {
                model.remove(&key);
                plow.remove(&key).unwrap();
            } else {
                plow.insert(&key, &value).unwrap();
                model.insert(key, value);
            }
            steps_most = steps_most.max(if i < keys { 0 } else { plow.core.counters.steps[0] - before });
            if i % 50 == 49 {
                plow.sync().unwrap();
            }
            if i >= keys && i % 5_000 == 4_999 {
                assert!(plow.check().unwrap().is_sound());
                plow.sync().unwrap();
                passed += plow.core.counters.passed;
                plow = Plow::mount(plow.into_nand(), &set).unwrap();
                assert_holds(&mut plow, &model);
            }
        }
        assert!(steps_most <= 3, "{kib} KiB, pages of {page} bytes: {steps_most} steps");
        assert!(passed > 10, "{kib} KiB, pages of {page} bytes: {passed} pages passed");
    }
}

#[test]
fn no_level_outgrows_its_plan_where_changes_take_more_than_a_step() {
    // Six records wait in the memtable, nine fill a page: a change takes more than a step in the long run.
    let set = PlowConfig { answers: Answers::Pool, ..settings(2, 102, Durability::EverySync) };
    let mut plow = Plow::format(chip(1024, 8, 64), &set).unwrap();
    let mut rng = Rng::new(8);
    let mut levels_seen = 0;
    for i in 0..2_500u64 {
        plow.put(&key(rng.below(3_400), 2), &[i as u8; 102]).unwrap();
        levels_seen = levels_seen.max(plow.core.stock.levels.len());
        for (level, &planned) in plow
            .core
            .stock
            .levels
            .iter()
            .zip(&plow.core.planner.plan.pages_max)
            .take(plow.core.stock.levels.len() - 1)
        {
            let pages_max = 2 * planned as usize + 4;
            assert!(level.pages() <= pages_max, "change {i}: {} of {pages_max} pages", level.pages());
        }
    }
    assert_eq!((levels_seen, plow.core.counters.sweeps), (3, 0));
}

#[test]
fn changes_in_batches_cost_what_they_cost_alone() {
    let set = PlowConfig { answers: Answers::Pool, ..settings(8, 40, Durability::EverySync) };
    let programs = |at_once: usize| {
        let mut plow = Plow::format(chip(1024, 16, 128), &set).unwrap();
        let mut rng = Rng::new(3);
        for _ in 0..8_000 / at_once {
            let keys: Vec<_> = (0..at_once).map(|_| key(rng.below(30_000), 8)).collect();
            let batch: Vec<_> = keys.iter().map(|key| Change::put(key, &[7; 40])).collect();
            match &batch[..] {
                [_] if at_once == 1 => plow.put(&keys[0], &[7; 40]).unwrap(),
                batch => plow.apply(batch).unwrap(),
            }
        }
        assert_eq!(plow.core.stock.levels.len(), 3);
        plow.core.medium.nand.counters().page_programs_total()
    };
    let alone = programs(1);
    for at_once in [2, 4] {
        let together = programs(at_once);
        assert!(together * 10 < alone * 12, "{at_once} at once: {together} programs, {alone} alone");
    }
}

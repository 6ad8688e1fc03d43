//! Levels added and removed, sealed pages, and loads.

use super::*;
use crate::ordered::plow::space::Need;

#[test]
fn levels_are_added_as_it_grows_and_left_out_where_it_is_only_read() {
    let rounds = inputs::sized(2, 3);
    for class in [Durability::EverySync, Durability::EveryOperation].into_iter().take(inputs::sized(1, 2)) {
        let set = PlowConfig { ram_bytes: Some(5600), answers: Answers::Pool, ..settings(4, 4, class) };
        let mut plow = Plow::format(chip(512, 32, 128), &set).unwrap();
        let (mut model, mut rng, mut heights) = (Model::new(), Rng::new(1), vec![]);
        for round in 0..rounds {
            for i in 0..20_000u32 {
                let key = key(rng.below(1 << 16) << 16, 4);
                plow.insert(&key, &i.to_be_bytes()).unwrap();
                model.insert(key, i.to_be_bytes().to_vec());
                if i % 3000 == round {
                    plow.sync().unwrap();
                    assert_eq!(everything(&mut plow), model);
                }
            }
            heights.push(plow.stats().height);
            // Nothing but look-ups, of keys that are there and of others.
            let mut value = [0; 4];
            for i in 0..120_000 {
                let key = key((rng.below(1 << 16) << 16) + i % 2, 4);
                let found = plow.get(&key, &mut value).unwrap();
                assert_eq!(found.then_some(&value[..]), model.get(&key).map(|value| &value[..]));
            }
            assert_holds(&mut plow, &model);
            let reads = plow.core.medium.nand.counters().page_reads_total();
            (0..1000).for_each(|i| drop(plow.get(&key((i * 40_503 % 65_536) << 16, 4), &mut value)));
            let reads = plow.core.medium.nand.counters().page_reads_total() - reads;
            assert!((800..1100).contains(&reads), "{reads} reads of 1000 look-ups");
            // A cut: what was drained and not committed lies above again.
            plow = Plow::mount(plow.into_nand(), &set).unwrap();
            if class == Durability::EveryOperation {
                assert_holds(&mut plow, &model);
            } else {
                model = everything(&mut plow);
            }
        }
        assert_eq!(heights, [3, 3, 3][..rounds as usize], "{class:?}");
    }
}

#[test]
fn a_level_is_left_out_where_most_blocks_wait_for_a_commit() {
    let set =
        PlowConfig { ram_bytes: Some(5600), answers: Answers::Pool, ..settings(4, 4, Durability::EverySync) };
    let (mut plow, mut rng) = (Plow::format(chip(512, 32, 128), &set).unwrap(), Rng::new(1));
    let is_short = |plow: &Plow<SimChip>| {
        let (stock, insert) = (&plow.core.stock, Need::Insert { records: 1 });
        let kept = stock.blocks_for(insert) + stock.blocks_for(Need::Commit);
        stock.space.blocks.free() <= kept && stock.space.blocks.left() > 20
    };
    let mut puts = 0;
    while puts < 20_000 || !is_short(&plow) {
        plow.put(&key(rng.below(1 << 16) << 16, 4), &[7; 4]).unwrap();
        puts += 1;
        assert!(puts < 200_000, "blocks were never short before a commit");
    }
    assert_eq!(plow.stats().height, 3);
    let mut value = [0; 4];
    let mut look_up = |plow: &mut Plow<SimChip>| {
        plow.get(&key(rng.below(1 << 16) << 16, 4), &mut value).unwrap();
    };
    (0..120_000).for_each(|_| look_up(&mut plow));
    let reads = plow.core.medium.nand.counters().page_reads_total();
    (0..1000).for_each(|_| look_up(&mut plow));
    let reads = plow.core.medium.nand.counters().page_reads_total() - reads;
    assert!(reads < 1200, "{reads} reads of 1000 look-ups after {puts} puts");
}

#[test]
fn a_memtable_of_many_pages_is_sealed_page_by_page() {
    let set = PlowConfig { memtable: Some(400), ..settings(8, 8, Durability::EveryOperation) };
    let mut plow = Plow::format(chip(512, 16, 64), &set).unwrap();
    let mut rng = Rng::new(5);
    for round in 0..4 {
        plow = live(plow, &set, [500, 1 << 40][round % 2], 2500, &mut rng);
        assert!(
            !plow.core.stock.commits.sealed.is_empty()
                && plow.core.stock.commits.sealed.len() <= plow.core.stock.sealed_max() + 2
        );
    }
}

#[test]
fn updates_of_few_keys_keep_the_sealed_pages_few() {
    let set = PlowConfig { memtable: Some(400), ..settings(8, 8, Durability::EverySync) };
    let mut plow = Plow::format(chip(512, 16, 64), &set).unwrap();
    for i in 0..40_000u64 {
        plow.insert(&key(i % 150, 8), &i.to_be_bytes()).unwrap();
        if i % 10 == 9 {
            plow.sync().unwrap();
            assert!(
                plow.core.stock.commits.sealed.len() <= plow.core.stock.sealed_max() + 2,
                "{}",
                plow.core.stock.commits.sealed.len()
            );
        }
    }
    let mut plow = Plow::mount(plow.into_nand(), &set).unwrap();
    let model = (39_850..40_000u64).map(|i| (key(i % 150, 8), i.to_be_bytes().to_vec())).collect();
    assert_holds(&mut plow, &model);
}

#[test]
fn sorted_records_are_loaded_at_a_program_a_page() {
    for (levels, count) in [(1, 0u64), (1, 3000), (3, 3000)] {
        let set = PlowConfig { levels: Some(levels), ..settings(8, 8, Durability::EverySync) };
        let mut plow = Plow::format(chip(512, 16, 64), &set).unwrap();
        let before = plow.core.medium.nand.counters().page_programs.iter().sum::<u64>();
        let model: Model = (0..count).map(|i| (key(i * 900 + i % 7, 8), key(i, 8))).collect();
        let loaded = plow.load(&mut model.iter().map(|(k, v)| (&k[..], &v[..]))).unwrap();
        assert_eq!(loaded, count);
        let pages = plow.stats().live_pages;
        assert_eq!(
            plow.core.medium.nand.counters().page_programs.iter().sum::<u64>() - before,
            pages + 1,
            "a page each, and a commit"
        );
        assert!(pages * 40 < count + 41, "{pages} pages");
        assert_holds(&mut plow, &model);
        plow = live(plow, &set, 3_000_000, 1500, &mut Rng::new(count));
        plow.close().unwrap();
    }
}

#[test]
fn records_that_do_not_ascend_are_not_loaded() {
    let set = settings(4, 4, Durability::EverySync);
    let mut plow = Plow::format(chip(512, 16, 64), &set).unwrap();
    let mut keys: Vec<Vec<u8>> = (0..500).map(|i| key(i * 3, 4)).collect();
    keys.push(key(7, 4));
    let failed = plow.load(&mut keys.iter().map(|key| (&key[..], &[1u8; 4][..])));
    assert_eq!(failed, Err(IndexError::NotSorted { position: 500 }));
    assert_holds(&mut plow, &Model::new());
    plow = live(plow, &set, 1000, 500, &mut Rng::new(1));
    drop(plow);
}

#[test]
fn pool_answers_read_nothing() {
    let set = PlowConfig { answers: Answers::Pool, levels: Some(2), ..settings(4, 4, Durability::EverySync) };
    let mut plow = Plow::format(chip(512, 16, 64), &set).unwrap();
    let (mut model, mut rng) = (Model::new(), Rng::new(1));
    for i in 0..6000u32 {
        let key = key(rng.below(4000), 4);
        if rng.chance(3, 4) {
            let known = plow.core.stock.memtable.pooled(&key) == Some(true);
            assert_eq!(plow.insert(&key, &i.to_be_bytes()).unwrap(), known);
            model.insert(key, i.to_be_bytes().to_vec());
        } else {
            plow.remove(&key).unwrap();
            model.remove(&key);
        }
    }
    assert_holds(&mut plow, &model);
    let reads = plow.core.medium.nand.counters().page_reads[crate::Cause::Host as usize];
    let before = reads;
    for i in 0..20 {
        plow.insert(&key(i, 4), &[0; 4]).unwrap();
    }
    assert_eq!(plow.core.medium.nand.counters().page_reads[crate::Cause::Host as usize], before);
}

/// Ascending keys, some changed and removed again: pages go to the last level at once.
#[test]
fn keys_that_ascend_go_to_the_last_level() {
    for (memtable, class) in [
        (40, Durability::EveryOperation),
        (300, Durability::EveryOperation),
        (40, Durability::EverySync),
        (300, Durability::EverySync),
    ]
    .into_iter()
    .step_by(inputs::stride(3))
    {
        let set = PlowConfig { levels: Some(3), memtable: Some(memtable), ..settings(8, 8, class) };
        let mut plow = Plow::format(chip(512, 16, 96), &set).unwrap();
        let (mut model, mut rng) = (Model::new(), Rng::new(memtable as u64));
        for i in 0..6000u64 {
            let old = key(rng.below(3 * i + 1), 8);
            if i > 3000 && rng.chance(1, 8) {
                plow.remove(&old).unwrap();
                model.remove(&old);
            }
            let key = key(3 * i, 8);
            plow.insert(&key, &i.to_be_bytes()).unwrap();
            model.insert(key, i.to_be_bytes().to_vec());
            if i % 100 == 99 {
                plow.sync().unwrap();
            }
            if i % 1500 == 1499 {
                assert_holds(&mut plow, &model);
                plow = Plow::mount(plow.into_nand(), &set).unwrap();
                assert_holds(&mut plow, &model);
            }
            if i == 2900 {
                let upper: usize = plow.core.stock.levels[..2].iter().map(level::Level::pages).sum();
                assert!(upper < 4 && plow.core.counters.sunk > 0, "{upper} pages above the last level");
            }
        }
        drop(live(plow, &set, 20_000, 1500, &mut rng));
    }
}

//! Records that end with zeros, which pages and memtable leave out.

use super::*;

#[test]
fn records_of_any_length_live_through_changes_and_mounts() {
    for (record, memtable, class, seed) in [
        ((8, 61), 10, Durability::EveryOperation, 1),
        ((20, 101), 6, Durability::EverySync, 2),
        ((4, 33), 30, Durability::EverySync, 3),
        ((30, 5), 12, Durability::EveryOperation, 4),
    ] {
        let set = PlowConfig { memtable: Some(memtable), ..settings(record.0, record.1, class) };
        let plow = Plow::format(chip(1024, 16, 60), &set).unwrap();
        let mut rng = Rng::new(seed);
        let mut plow = live(plow, &set, 1500, inputs::sized(4_000, 12_000), &mut rng);
        // Steps are counted from the last mount on.
        for _ in 0..2_000 {
            let (key, value) = (key(rng.below(1500), record.0), testing::value(rng.next_u64(), set.record));
            plow.put(&key, &value).unwrap();
        }
        assert!(
            plow.core.counters.steps.iter().sum::<u64>() > 5,
            "{record:?}: {:?}",
            plow.core.counters.steps
        );
    }
}

#[test]
fn short_values_leave_room_for_more() {
    let ram = 20_000;
    let set = PlowConfig {
        ram_bytes: Some(ram),
        answers: Answers::Pool,
        ..settings(8, 120, Durability::EverySync)
    };
    let mut plow = Plow::format(chip(2048, 32, 40), &set).unwrap();
    let (capacity, mut most, mut rng) = (plow.core.stock.memtable.capacity(), 0, Rng::new(1));
    let (mut model, mut fewest) = (Model::new(), usize::MAX);
    for i in 0..12_000u32 {
        // Short ones for a while, then long ones.
        let mut value = vec![0; 120];
        rng.fill(&mut value[..if i < 6000 { 10 } else { 120 }]);
        let key = key(rng.below(2000), 8);
        plow.put(&key, &value).unwrap();
        model.insert(key, value);
        assert!(plow.ram_bytes() <= ram, "{} bytes", plow.ram_bytes());
        if i < 6000 {
            most = most.max(plow.core.stock.memtable.len());
        } else if i > 9000 {
            fewest = fewest.min(plow.core.stock.memtable.len());
        }
        if i % 500 == 0 {
            plow.sync().unwrap();
        }
    }
    assert!(most > 3 * capacity, "{most} of {capacity}");
    assert!((capacity / 2..=capacity + 1).contains(&fewest), "{fewest} of {capacity}");
    plow.sync().unwrap();
    let mut plow = Plow::mount(plow.into_nand(), &set).unwrap();
    assert_holds(&mut plow, &model);
}

#[test]
fn a_memtable_that_does_not_fit_is_refused_with_the_ram_it_needs() {
    // With one level nothing sinks.
    let set = |memtable| PlowConfig {
        memtable: Some(memtable),
        levels: Some(1),
        ..settings(8, 40, Durability::EverySync)
    };
    let mut plow = Plow::format(chip(2048, 32, 40), &set(100)).unwrap();
    (0..90).for_each(|i| plow.put(&key(i, 8), &[7; 40]).unwrap());
    plow.sync().unwrap();
    let chip = plow.into_nand();
    let mut little = PlowConfig { ram_bytes: Some(8_000), ..set(60) };
    // The configuration needs some RAM, and the records on the chip more.
    let mut named = Vec::new();
    while let Err(error) = Plow::mount(chip.clone(), &little).map(drop) {
        let IndexError::TooLittleRam { needed, .. } = error else { panic!("{error}") };
        (little.ram_bytes, named) = (Some(needed), [named, vec![needed]].concat());
    }
    assert!((1..3).contains(&named.len()), "{named:?}");
    // Without a bound the memtable is as large as it must be.
    for set in [little, set(60), set(100)] {
        assert_eq!(everything(&mut Plow::mount(chip.clone(), &set).unwrap()).len(), 90);
    }
}

//! Clean records: never older than those on flash, and kept only while they save more than they cost.

use super::*;

/// Draws a key; half of all draws give one of a few keys.
fn skewed(rng: &mut Rng, keys: u64, bytes: u8) -> Vec<u8> {
    let some = if rng.chance(1, 2) { keys / 80 + 1 } else { keys };
    key(rng.below(some) * 7919 % keys, bytes)
}

/// Mostly look-ups, with changes, batches, ranges and mounts in between, so that the lent share keeps
/// changing.
fn live_lending(set: &PlowConfig, keys: u64, seed: u64) -> u32 {
    let mut plow = Plow::format(chip(512, 8, 64), set).unwrap();
    let (key_bytes, value_bytes) = (set.record.key_bytes, usize::from(set.record.value_bytes));
    let (mut model, mut rng, mut served, mut seen) = (Model::new(), Rng::new(seed), 0, 0);
    for step in 0..4000 {
        let key = skewed(&mut rng, keys, key_bytes);
        let mut value = vec![0; value_bytes];
        match rng.below(100) {
            0..50 => {
                let found = plow.get(&key, &mut value).unwrap();
                assert_eq!(found.then_some(&value), model.get(&key), "step {step}");
            }
            50..75 => {
                rng.fill(&mut value);
                put(&mut plow, &mut model, &key, &value).unwrap();
            }
            75..85 => drop(take(&mut plow, &mut model, &key).unwrap()),
            85..90 => {
                let count = 1 + rng.below(plow.batch_max() as u64);
                let mut batch = Model::new();
                for _ in 0..count {
                    rng.fill(&mut value);
                    batch.insert(skewed(&mut rng, keys, key_bytes), value.clone());
                }
                let is_put = |value: &Vec<u8>| !value[0].is_multiple_of(3);
                let changes: Vec<Change<'_>> = batch
                    .iter()
                    .map(|(key, value)| Change { key, value: is_put(value).then_some(&value[..]) })
                    .collect();
                plow.apply(&changes).unwrap();
                for (key, value) in batch {
                    if is_put(&value) {
                        model.insert(key, value)
                    } else {
                        model.remove(&key)
                    };
                }
            }
            90..93 => assert_range(&mut plow, &mut model, &mut rng, keys),
            93..97 => plow.core.planner.lending.eighths = [0, 2, 4][rng.below(3) as usize],
            97 => assert_holds(&mut plow, &model),
            _ if rng.chance(1, 8) => {
                if rng.chance(1, 2) { plow.close() } else { plow.sync() }.unwrap();
                served += plow.core.planner.lending.served;
                plow = Plow::mount(plow.into_nand(), set).unwrap();
            }
            _ => {}
        }
        seen = seen.max(plow.core.stock.memtable.lent());
    }
    assert_holds(&mut plow, &model);
    assert!(seen > 0, "nothing was ever lent");
    served + plow.core.planner.lending.served
}

#[test]
fn clean_records_are_never_old() {
    inputs::cases(30, |seed| {
        let mut rng = Rng::new(seed);
        let (key, value) = [(4, 4), (8, 4), (16, 8), (12, 3)][rng.below(4) as usize];
        let class = if rng.chance(1, 2) { Durability::EveryOperation } else { Durability::EverySync };
        let set = PlowConfig { memtable: Some(64 + rng.below(136) as usize), ..settings(key, value, class) };
        assert!(live_lending(&set, [400, 1500, 3000][rng.below(3) as usize], rng.next_u64()) > 0);
    });
}

/// Number of look-ups answered by a clean record, in 40,000 operations of which a fifth are changes.
fn served(plow: &mut Plow<SimChip>, keys: u64, is_skewed: bool, rng: &mut Rng) -> u32 {
    let (mut value, before) = ([0; 4], plow.core.planner.lending.served);
    for i in 0..40_000u32 {
        let key = match is_skewed {
            true => skewed(rng, keys, 4),
            false => key(rng.below(keys) * 7919 % keys, 4),
        };
        if rng.chance(1, 5) {
            plow.put(&key, &i.to_be_bytes()).unwrap();
        } else {
            assert!(plow.get(&key, &mut value).unwrap());
        }
    }
    plow.core.planner.lending.served - before
}

#[test]
fn ram_is_lent_where_keys_are_skewed_and_taken_back_where_they_are_not() {
    for class in [Durability::EverySync, Durability::EveryOperation].into_iter().take(inputs::sized(1, 2)) {
        let set = PlowConfig { ram_bytes: Some(12_000), answers: Answers::Pool, ..settings(4, 4, class) };
        let (keys, mut rng) = (20_000, Rng::new(1));
        let mut plow = Plow::format(chip(512, 32, 128), &set).unwrap();
        (0..keys).for_each(|i| plow.put(&key(i * 7919 % keys, 4), &[1; 4]).unwrap());
        // Of keys all alike hardly one is looked up again; what chance lends is taken back.
        let of_all_alike = served(&mut plow, keys, false, &mut rng);
        assert!(of_all_alike < 320 && plow.core.stock.memtable.lent() == 0, "{of_all_alike}");
        served(&mut plow, keys, true, &mut rng);
        assert!(plow.core.stock.memtable.lent() > 0 && plow.check().unwrap().is_sound());
        let of_32_000 = served(&mut plow, keys, true, &mut rng);
        assert!(of_32_000 > 1_500, "{of_32_000} look-ups found a clean record");
        served(&mut plow, keys, false, &mut rng);
        assert_eq!(plow.core.stock.memtable.lent(), 0, "what was lent is taken back");
    }
}

/// An outdated clean record is reported: the check compares all of them with the chip.
#[test]
fn a_check_finds_a_clean_record_that_is_old() {
    let set = PlowConfig { memtable: Some(64), ..settings(4, 4, Durability::EverySync) };
    let mut plow = Plow::format(chip(512, 8, 64), &set).unwrap();
    (0..2000).for_each(|i| plow.put(&key(i, 4), &[1; 4]).unwrap());
    plow.core.planner.lending.eighths = 4;
    let mut value = [0; 4];
    (0..300).for_each(|i| assert!(plow.get(&key(i, 4), &mut value).unwrap()));
    assert!(plow.core.stock.memtable.lent() > 0 && plow.check().unwrap().is_sound());
    plow.core.stock.memtable.keep_clean(&key(1500, 4), &[2; 4]);
    let found = plow.check().unwrap();
    let [broken] = &found.violations[..] else { panic!("{found:?}") };
    assert_eq!(broken.invariant, crate::Invariant::I10);
}

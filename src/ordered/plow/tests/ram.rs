//! RAM that goes by the records: the lists of extents get it from the memtable as the data grow.

use super::*;
use crate::check::Limit;
use crate::ordered::plow::config::Shares;

fn with_ram(set: &PlowConfig, ram: usize) -> PlowConfig {
    PlowConfig { ram_bytes: Some(ram), ..*set }
}

/// The RAM that a refusal names.
fn named<T>(done: Result<T, IndexError>) -> usize {
    match done {
        Err(IndexError::TooLittleRam { given, needed, .. }) => {
            assert!(needed > given, "{needed} of {given}");
            needed
        }
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("too little RAM was taken"),
    }
}

/// The least RAM on a chip.
fn least(set: &PlowConfig, (page, pages, blocks): (u32, u32, u32)) -> usize {
    named(Plow::format(chip(page, pages, blocks), &with_ram(set, 100)))
}

#[test]
fn the_least_ram_goes_by_what_is_held() {
    let set = settings(8, 8, Durability::EveryOperation);
    for (shape, most) in [
        ((2048, 64, 512), 12 << 10),
        ((2048, 64, 1024), 16 << 10),
        ((2048, 64, 4096), 33 << 10),
        ((4096, 128, 128), 12 << 10),
    ] {
        let needed = least(&set, shape);
        assert!(needed <= most, "{shape:?}: {needed} bytes");
        assert!(Plow::format(chip(shape.0, shape.1, shape.2), &with_ram(&set, needed)).is_ok());
        named(Plow::format(chip(shape.0, shape.1, shape.2), &with_ram(&set, needed - 1)));
    }
}

#[test]
fn the_memtable_has_the_ram_that_few_extents_leave() {
    let set = settings(8, 8, Durability::EveryOperation);
    for (blocks, ram) in [(512, 16 << 10), (1024, 32 << 10)] {
        let geometry = Geometry::new(2048, 64, 64, blocks);
        let mut shares = Shares::new(&with_ram(&set, ram), geometry, 1_200).unwrap();
        let form = (set.record, geometry);
        let (besides, mut before) = (shares.besides, usize::MAX);
        let at_first = besides + shares.filter + shares.memtable * 17;
        assert!(at_first * 100 > ram * 83, "{at_first} of {ram} bytes: {shares:?}");
        for extents in 0..shares.extents_max as usize {
            shares.divide(form, extents);
            assert!(shares.memtable <= before && shares.extents as usize >= extents);
            assert!(besides + shares.fences + shares.memtable * 16 + shares.filter <= ram);
            before = shares.memtable;
        }
        assert!(shares.extents_max > blocks / 3, "{shares:?}");
    }
}

/// Inserts random records until one is refused. None of those is that were surely to find room.
fn insert_until_full(plow: &mut Plow<SimChip>, model: &mut Model, rng: &mut Rng) -> Limit {
    let mut promised = 0;
    loop {
        promised = plow.free().unwrap().surely.max(promised);
        let (key, mut value) = (key(rng.next_u64(), 8), vec![0x55; plow.record().value_bytes.into()]);
        value.iter_mut().for_each(|byte| *byte |= rng.below(256) as u8);
        match put(plow, model, &key, &value) {
            Ok(_) => promised = promised.saturating_sub(1),
            Err(IndexError::Full(limit)) => {
                assert_eq!(promised, 0, "{} records in, and more were surely to find room", model.len());
                return limit;
            }
            Err(error) => panic!("{error} with {} records", model.len()),
        }
    }
}

fn assert_looked_up(plow: &mut Plow<SimChip>, model: &Model) {
    let mut value = vec![0; plow.record().value_bytes.into()];
    for (key, held) in model {
        assert!(plow.get(key, &mut value).unwrap() && value == *held, "{key:?}");
    }
}

fn mounted(plow: Plow<SimChip>, set: &PlowConfig) -> Plow<SimChip> {
    Plow::mount(plow.into_nand(), set).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn in_the_least_ram_a_chip_is_filled_and_emptied() {
    for (number, (shape, value)) in
        [((2048, 16, 512), 200), ((2048, 8, 1024), 100), ((1024, 16, 4096), 120)].into_iter().enumerate()
    {
        let set = settings(8, value, [Durability::EveryOperation, Durability::EverySync][number % 2]);
        let set = with_ram(&set, least(&set, shape));
        let mut plow = Plow::format(chip(shape.0, shape.1, shape.2), &set).unwrap();
        let (mut model, mut rng) = (Model::new(), Rng::new(number as u64));
        assert_eq!(insert_until_full(&mut plow, &mut model, &mut rng), Limit::Ram, "{shape:?}");
        let most = plow.records_max().unwrap() as usize;
        assert!(model.len() > 500 && model.len() <= most, "{} of {most} records", model.len());
        plow.close().unwrap();
        plow = mounted(plow, &set);
        assert_looked_up(&mut plow, &model);
        for (i, key) in model.keys().cloned().collect::<Vec<_>>().into_iter().enumerate() {
            let value = vec![i as u8 | 0x80; value.into()];
            put(&mut plow, &mut model, &key, &value).unwrap_or_else(|error| panic!("{error}: {i}"));
            assert!(plow.ram_bytes() <= set.ram_bytes.unwrap(), "{shape:?}: {}", plow.ram_bytes());
            if i % 1000 == 999 {
                plow.sync().unwrap();
                plow = mounted(plow, &set);
            }
        }
        assert_looked_up(&mut plow, &model);
        for key in model.keys() {
            assert_eq!(plow.remove(key), Ok(true));
            assert!(plow.ram_bytes() <= set.ram_bytes.unwrap());
        }
        assert!(everything(&mut plow).is_empty());
        let value = vec![7; value.into()];
        assert_eq!(plow.insert(&key(1, 8), &value), Ok(false));
    }
}

#[test]
fn a_chip_filled_with_plenty_of_ram_mounts_with_less_or_names_what_it_needs() {
    let shape = (1024, 8, 300);
    let set = settings(8, 40, Durability::EverySync);
    let plenty = with_ram(&set, 50_000);
    let mut plow = Plow::format(chip(shape.0, shape.1, shape.2), &plenty).unwrap();
    let (mut model, mut rng) = (Model::new(), Rng::new(3));
    let (mut refused, mut taken) = (0, 0);
    for _ in 0..6 {
        for _ in 0..1_500 {
            let (key, value) = (key(rng.next_u64(), 8), vec![rng.below(256) as u8 | 1; 40]);
            put(&mut plow, &mut model, &key, &value).unwrap();
        }
        plow.sync().unwrap();
        let used = plow.core.medium.nand.clone();
        for ram in [least(&set, shape), 20_000, 30_000, 60_000] {
            let (given, less) = match Plow::mount(used.clone(), &with_ram(&set, ram)) {
                Ok(less) => {
                    taken += 1;
                    (ram, less)
                }
                refusal => {
                    refused += 1;
                    let needed = named(refusal);
                    let less = Plow::mount(used.clone(), &with_ram(&set, needed));
                    (needed, less.unwrap_or_else(|error| panic!("{error}: {ram} given, {needed} named")))
                }
            };
            let mut less = less;
            assert_looked_up(&mut less, &model);
            assert!(less.ram_bytes() <= given, "{} of {given}", less.ram_bytes());
        }
    }
    assert!(taken > 3 && refused > 3, "{taken} taken, {refused} refused");
}

#[test]
fn lives_go_on_over_mounts_with_other_ram() {
    inputs::cases(12, |seed| {
        let rng = &mut Rng::new(seed);
        let shape = [(1024, 8, 300), (2048, 8, 400), (512, 16, 128), (2048, 32, 256)][rng.below(4) as usize];
        let (key_bytes, value_bytes) = [(8, 8), (4, 4), (8, 90), (16, 30)][rng.below(4) as usize];
        let class = [Durability::EveryOperation, Durability::EverySync][rng.below(2) as usize];
        let set = settings(key_bytes, value_bytes, class);
        let least = least(&set, shape);
        let mut ram = least;
        let mut plow = Plow::format(chip(shape.0, shape.1, shape.2), &with_ram(&set, ram)).unwrap();
        let (mut model, mut handed) = (Model::new(), 0);
        for _ in 0..10 {
            for _ in 0..rng.below(2_500) {
                let key = key(rng.below(30_000) << 20, key_bytes);
                let before = plow.core.planner.shares.extents;
                let done = if rng.chance(1, 12) {
                    take(&mut plow, &mut model, &key)
                } else {
                    put(&mut plow, &mut model, &key, &vec![rng.below(256) as u8 | 1; value_bytes.into()])
                };
                assert!(matches!(done, Ok(_) | Err(IndexError::Full(_))), "seed {seed}: {done:?}");
                assert!(plow.ram_bytes() <= ram, "seed {seed}: {} of {ram}", plow.ram_bytes());
                handed += u32::from(plow.core.planner.shares.extents > before);
            }
            if rng.chance(1, 2) { plow.close() } else { plow.sync() }.unwrap();
            let other = least + rng.below(3 * least as u64) as usize;
            let used = plow.into_nand();
            plow = match Plow::mount(used.clone(), &with_ram(&set, other)) {
                Ok(plow) => {
                    ram = other;
                    plow
                }
                refusal => {
                    ram = named(refusal).max(ram);
                    Plow::mount(used, &with_ram(&set, ram)).unwrap_or_else(|error| panic!("{seed}: {error}"))
                }
            };
            assert!(plow.ram_bytes() <= ram, "seed {seed}: {} of {ram} mounted", plow.ram_bytes());
            assert_looked_up(&mut plow, &model);
        }
        assert_holds(&mut plow, &model);
        assert!(handed > 0 || ram > 2 * least, "seed {seed}");
    });
}

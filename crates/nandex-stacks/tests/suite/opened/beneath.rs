//! Trees on raw NAND with an FTL beneath.

use super::part;
use crate::sizes::sized;
use nandex::nand::sim::SimChip;
use nandex::{Nand, RecordFormat, Shared};
use nandex_stacks::options::Settings;
use nandex_stacks::registry::{self, Hosting, INDEXES, STORES};

fn chip() -> Box<dyn Nand> {
    Box::new(SimChip::new(&part(2048, 64, 64)).unwrap())
}

fn settings() -> Settings {
    Settings::new(RecordFormat::new(8, 8))
}

#[test]
fn every_tree_on_raw_nand_takes_an_ftl_beneath_and_its_options() {
    for entry in INDEXES.iter().filter(|entry| entry.hosting == Hosting::Raw) {
        if entry.suited(part(2048, 64, 64)).geometry.overwrites() {
            // No FTL overwrites pages in place.
            let error = entry.check_options(&settings().with("beneath", "fast").options).unwrap_err();
            let text = error.to_string();
            assert!(text.contains("beneath") && !text.contains("log_blocks"), "{}: {text}", entry.name);
            continue;
        }
        let on_fast = settings().with("beneath", "fast").with("log_blocks", 4);
        entry.check_options(&on_fast.options).unwrap();
        assert_eq!(entry.storage(&on_fast.options), "raw on fast");
        let mut tree = (entry.format)(chip(), &on_fast).unwrap();
        for key in 0..500u64 {
            tree.insert(&key.to_be_bytes(), &[1; 8]).unwrap();
        }
        let metrics = tree.stats().metrics;
        let of = |name| metrics.iter().find(|m| m.name == name).map(|m| m.value);
        assert!(of("ftl_switch_merges").is_some() && of("ftl_full_merges").is_some());
        let raw = settings().with("log_blocks", 4);
        assert!(entry.check_options(&raw.options).is_err(), "{}: an FTL's option without it", entry.name);
        let other = settings().with("beneath", "page-map").with("log_blocks", 4);
        assert!((entry.format)(chip(), &other).is_err(), "{}: another FTL's option", entry.name);
        let none = settings().with("beneath", "none");
        assert_eq!(entry.storage(&none.options), "raw");
        assert!((entry.format)(chip(), &settings().with("beneath", "slow")).is_err());
    }
}

#[test]
fn an_option_of_both_is_the_trees() {
    let mu = registry::index("mu").unwrap();
    // FAST knows no victim policy, page mapping would refuse this one.
    for ftl in ["fast", "page-map"] {
        let settings = settings().with("beneath", ftl).with("checkpoint_blocks", 5).with("victim", "fifo");
        (mu.format)(chip(), &settings).unwrap();
    }
}

#[test]
fn pages_in_place_are_mounted_again_on_every_ftl() {
    let star = registry::index("mu-star").unwrap();
    let in_place = settings().with("placement", "in_place");
    let refused = (star.format)(chip(), &in_place).err().unwrap().to_string();
    assert!(refused.contains("placement") && refused.contains("FTL"), "{refused}");
    for ftl in STORES {
        let settings = in_place.clone().with("beneath", ftl.name);
        let part = part(2048, 64, 64);
        let chip = Shared::new(SimChip::new(&part).unwrap());
        let mut tree = (star.format)(Box::new(chip.clone()), &settings).unwrap();
        let key = |i: u64| (i * 7919 % 10_007).to_be_bytes();
        for i in 0..3000 {
            tree.insert(&key(i), &i.to_be_bytes()).unwrap();
        }
        let live = tree.stats().live_pages;
        for i in 0..3000 {
            assert!(tree.insert(&key(i), &(i + 1).to_be_bytes()).unwrap());
        }
        assert!(tree.stats().live_pages <= live, "{}: pages moved", ftl.name);
        tree.close().unwrap();
        drop(tree);
        let mut tree = (star.mount)(Box::new(chip), &settings).unwrap();
        let mut value = [0; 8];
        for i in 0..3000 {
            assert!(tree.get(&key(i), &mut value).unwrap() && value == (i + 1).to_be_bytes());
        }
        assert!(tree.check().unwrap().is_sound());
    }
}

#[test]
fn logs_in_place_are_mounted_again_on_every_ftl() {
    let records = sized(1000, 3000);
    for name in ["ipl", "dipl"] {
        let tree = registry::index(name).unwrap();
        let in_place = settings().with("placement", "in_place");
        let refused = (tree.format)(chip(), &in_place).err().unwrap().to_string();
        assert!(refused.contains("placement") && refused.contains("FTL"), "{refused}");
        for ftl in STORES {
            let settings = in_place.clone().with("beneath", ftl.name).with("order", 32);
            tree.check_options(&settings.options).unwrap();
            let part = part(2048, 64, 64);
            let chip = Shared::new(SimChip::new(&part).unwrap());
            let mut index = (tree.format)(Box::new(chip.clone()), &settings).unwrap();
            let key = |i: u64| (i * 7919 % 10_007).to_be_bytes();
            for i in 0..records {
                index.insert(&key(i), &i.to_be_bytes()).unwrap();
            }
            index.close().unwrap();
            drop(index);
            let mut index = (tree.mount)(Box::new(chip.clone()), &settings).unwrap();
            for i in 0..records / 2 {
                assert!(index.insert(&key(i), &(i + 1).to_be_bytes()).unwrap());
            }
            // Not closed.
            drop(index);
            let mut index = (tree.mount)(Box::new(chip), &settings).unwrap();
            let mut value = [0; 8];
            for i in 0..records {
                let expected = (i + u64::from(i < records / 2)).to_be_bytes();
                assert!(index.get(&key(i), &mut value).unwrap() && value == expected, "{}", ftl.name);
            }
            assert!(index.check().unwrap().is_sound());
        }
    }
}

#[test]
fn the_ftl_takes_its_part_of_the_ram() {
    let mu = registry::index("mu").unwrap();
    let open = |settings: &Settings| (mu.format)(chip(), settings);
    let on_fast = settings().with("beneath", "fast");
    let bare = open(&on_fast).unwrap().ram_bytes();
    assert!(bare > open(&settings()).unwrap().ram_bytes() + 2048);
    let given = |ram| Settings { ram_bytes: Some(ram), ..on_fast.clone() };
    assert!(open(&given(bare / 2)).is_err());
    let mut tree = open(&given(bare + 30_000)).unwrap();
    for key in 0..4000u64 {
        tree.insert(&(key * 7919 % 4001).to_be_bytes(), &[0; 8]).unwrap();
    }
    assert!(tree.ram_bytes() <= bare + 30_000 && tree.ram_bytes() > bare, "{}", tree.ram_bytes());
    // Its cache works: one page, read ten times.
    let before = tree.stats().cache_hits;
    (0..10).for_each(|_| assert!(tree.get(&77u64.to_be_bytes(), &mut [0; 8]).unwrap()));
    assert!(tree.stats().cache_hits >= before + 9);
}

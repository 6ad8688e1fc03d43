//! An FTL beneath a tree that places its pages itself: the option `beneath` of every tree on raw NAND.
//!
//! The FTL's pages are shown to the tree as a chip ([`StoreNand`]) whose blocks have as many pages as the
//! real ones, so that a block of the tree is a logical block of an FTL that has such.

use super::{ftl_named, too_little};
use crate::entry::{Open, OpenIndex};
use crate::names::OptionInfo;
use crate::options::raw::{BENEATH, PAIRING};
use crate::options::{Options, Settings};
use nandex::Shared;
use nandex::log::tag::spare_bytes_needed;
use nandex::nand::{LowerPages, Pairing};
use nandex::ordered::{IndexStats, Metric, OrderedIndex};
use nandex::store::store_nand::StoreNand;
use nandex::{IndexError, Nand, PageStore};

/// The FTL that these options put beneath a tree on raw NAND, if they do.
pub(crate) fn beneath(options: &Options) -> Option<&str> {
    options.text(BENEATH.name).filter(|name| *name != BENEATH.default)
}

/// A tree on raw NAND, or on the FTL that its settings put beneath it. `own` are the tree's own options: what
/// an FTL of the same name would make of them is not meant.
pub(crate) fn raw_tree(
    nand: Box<dyn Nand>,
    settings: &Settings,
    own: &[OptionInfo],
    open: Open,
    tree: OpenIndex,
) -> Result<Box<dyn OrderedIndex>, IndexError> {
    let nand: Box<dyn Nand> = match PAIRING.of(&settings.options)? {
        Pairing::None => nand,
        pairing => Box::new(LowerPages::new(nand, pairing)),
    };
    let Some(name) = beneath(&settings.options) else { return tree(nand, settings) };
    let mut options = Options::default();
    let others = settings.options.iter().filter(|(name, _)| own.iter().all(|o| o.name != *name));
    others.for_each(|(name, value)| options.set(name, value));
    let pages_per_block = nand.geometry().pages_per_block;
    let store = ftl_named(name, nand, &Settings { options, ..settings.clone() }, open)?;
    let mut chip = StoreNand::new(store, pages_per_block, spare_bytes(pages_per_block))?;
    if settings.options.text("placement") == Some("in_place") {
        chip = chip.replacing();
    }
    let ram_bytes = match settings.ram_bytes {
        None => None,
        Some(ram) => {
            let held = chip.ram_bytes() + size_of::<OnFtl>();
            Some(ram.checked_sub(held).ok_or_else(|| too_little(ram, held))?)
        }
    };
    let chip = Shared::new(chip);
    let tree = tree(Box::new(chip.clone()), &Settings { ram_bytes, ..settings.clone() })?;
    Ok(Box::new(OnFtl { tree, chip }))
}

/// Bytes of a spare area for any tree, such that what it takes of the FTL's page, mark included, is a
/// multiple of 64.
fn spare_bytes(pages_per_block: u32) -> u32 {
    (spare_bytes_needed(pages_per_block) as u32 + 1).next_multiple_of(64) - 1
}

/// A tree with the FTL beneath it.
struct OnFtl {
    tree: Box<dyn OrderedIndex>,
    chip: Shared<StoreNand<Box<dyn PageStore>>>,
}

impl OrderedIndex for OnFtl {
    nandex::forward_index!(tree: record, durability, get, insert, put, remove, apply, load, range, sync, check);
    nandex::forward_index!(tree: maintain, scrub, free);

    /// Closes the tree, then the FTL.
    fn close(&mut self) -> Result<(), IndexError> {
        self.tree.close()?;
        Ok(self.chip.lock().store_mut().checkpoint()?)
    }

    /// The statistics of the tree, whose pages are logical ones here, and what the FTL did beneath it.
    fn stats(&self) -> IndexStats {
        let mut stats = self.tree.stats();
        let ftl = self.chip.lock().store().stats();
        stats.metrics.extend([
            Metric { name: "ftl_collections", value: ftl.collections },
            Metric { name: "ftl_moved_pages", value: ftl.moved_pages },
            Metric { name: "ftl_switch_merges", value: ftl.switch_merges },
            Metric { name: "ftl_partial_merges", value: ftl.partial_merges },
            Metric { name: "ftl_full_merges", value: ftl.full_merges },
        ]);
        if ftl.log_blocks > 0 {
            stats.metrics.push(Metric { name: "log_blocks", value: ftl.log_blocks });
        }
        stats
    }

    fn ram_bytes(&self) -> usize {
        self.tree.ram_bytes() + self.chip.lock().ram_bytes() + size_of::<OnFtl>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::{self, Hosting, INDEXES};
    use nandex::RecordFormat;
    use nandex::nand::sim::SimChip;

    fn chip() -> Box<dyn Nand> {
        Box::new(SimChip::new(&crate::testing::part(2048, 64, 64)).unwrap())
    }

    fn settings() -> Settings {
        Settings::new(RecordFormat::new(8, 8))
    }

    #[test]
    fn every_tree_on_raw_nand_takes_an_ftl_beneath_and_its_options() {
        for entry in INDEXES.iter().filter(|entry| entry.hosting == Hosting::Raw) {
            if entry.suited(crate::testing::part(2048, 64, 64)).geometry.overwrites() {
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
            let settings =
                settings().with("beneath", ftl).with("checkpoint_blocks", 5).with("victim", "fifo");
            (mu.format)(chip(), &settings).unwrap();
        }
    }

    #[test]
    fn pages_in_place_are_mounted_again_on_every_ftl() {
        let star = registry::index("mu-star").unwrap();
        let in_place = settings().with("placement", "in_place");
        let refused = (star.format)(chip(), &in_place).err().unwrap().to_string();
        assert!(refused.contains("placement") && refused.contains("FTL"), "{refused}");
        for ftl in crate::registry::STORES {
            let settings = in_place.clone().with("beneath", ftl.name);
            let part = crate::testing::part(2048, 64, 64);
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
        for name in ["ipl", "dipl"] {
            let tree = registry::index(name).unwrap();
            let in_place = settings().with("placement", "in_place");
            let refused = (tree.format)(chip(), &in_place).err().unwrap().to_string();
            assert!(refused.contains("placement") && refused.contains("FTL"), "{refused}");
            for ftl in crate::registry::STORES {
                let settings = in_place.clone().with("beneath", ftl.name).with("order", 32);
                tree.check_options(&settings.options).unwrap();
                let part = crate::testing::part(2048, 64, 64);
                let chip = Shared::new(SimChip::new(&part).unwrap());
                let mut index = (tree.format)(Box::new(chip.clone()), &settings).unwrap();
                let key = |i: u64| (i * 7919 % 10_007).to_be_bytes();
                for i in 0..3000 {
                    index.insert(&key(i), &i.to_be_bytes()).unwrap();
                }
                index.close().unwrap();
                drop(index);
                let mut index = (tree.mount)(Box::new(chip.clone()), &settings).unwrap();
                for i in 0..1500 {
                    assert!(index.insert(&key(i), &(i + 1).to_be_bytes()).unwrap());
                }
                // Not closed.
                drop(index);
                let mut index = (tree.mount)(Box::new(chip), &settings).unwrap();
                let mut value = [0; 8];
                for i in 0..3000 {
                    let expected = (i + u64::from(i < 1500)).to_be_bytes();
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
}

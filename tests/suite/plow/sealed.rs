//! Sealed pages of plow: more of them than the list in RAM has room for.

use nandex::nand::catalogue::mlc_with;
use nandex::nand::sim::SimChip;
use nandex::ordered::{Direction, Durability, RecordFormat};
use nandex::rng::Rng;
use nandex::{Nand, OrderedIndex, Plow, PlowConfig};
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

const RECORD: RecordFormat = RecordFormat::new(8, 17);
const MEMTABLE: usize = 100;
/// Entries of the list: three for each page of the memtable, and five.
const LISTED: u64 = 5 + 3 * MEMTABLE as u64 * 26 / 234;

fn sealed(plow: &Plow<Box<dyn Nand>>) -> u64 {
    plow.stats().metrics.iter().find(|metric| metric.name == "sealed_pages").unwrap().value
}

fn everything(plow: &mut Plow<Box<dyn Nand>>) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut all = BTreeMap::new();
    let visit = &mut |key: &[u8], value: &[u8]| {
        all.insert(key.to_vec(), value.to_vec());
        ControlFlow::Continue(())
    };
    plow.range(Bound::Unbounded, Bound::Unbounded, Direction::Ascending, visit).unwrap();
    all
}

/// The level has many pages and few keys change: the sweep comes round late, and pages of a block share an
/// entry.
#[test]
fn pages_that_share_an_entry_of_the_list_are_all_found_by_a_mount() {
    for (seed, durability) in [(0, Durability::EveryOperation), (1, Durability::EverySync)] {
        let set = PlowConfig { memtable: Some(MEMTABLE), durability, ..PlowConfig::new(RECORD) };
        let mut plow =
            Plow::format(super::any(SimChip::new(&mlc_with(256, 512, 10)).unwrap()), &set).unwrap();
        let (mut rng, mut model, mut shared) = (Rng::new(seed), BTreeMap::new(), 0);
        for i in 0..8000u64 {
            let key = if i > 5000 { rng.below(70) << 33 } else { rng.below(1 << 40) };
            let (key, mut value) = (key.to_be_bytes().to_vec(), vec![7; 17]);
            value[..8].copy_from_slice(&i.to_le_bytes());
            plow.put(&key, &value).unwrap();
            model.insert(key, value);
            if i % 6 == 0 {
                plow.sync().unwrap();
            }
            let is_shared = sealed(&plow) > LISTED;
            shared += u32::from(is_shared);
            if i % 500 == 499 || is_shared && rng.chance(1, 40) {
                plow.sync().unwrap();
                let before = sealed(&plow);
                plow = Plow::mount(plow.into_nand(), &set).unwrap();
                assert_eq!(sealed(&plow), before, "seed {seed}, change {i}");
                assert!(everything(&mut plow) == model, "seed {seed}, change {i}");
                assert!(plow.check().unwrap().is_sound(), "seed {seed}, change {i}");
            }
        }
        assert!(shared > 50, "seed {seed}: {shared} changes with pages that share an entry");
    }
}

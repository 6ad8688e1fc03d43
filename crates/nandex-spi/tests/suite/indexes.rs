//! Indexes on the driver, through cuts of the power at physical operations of the part.

#![allow(clippy::unwrap_used)]

use nandex::ordered::{Durability, RecordFormat};
use nandex::rng::Rng;
use nandex::{IndexError, OrderedIndex};
use nandex_spi::model::{Model, Trouble};
use nandex_spi::parts::{PARTS, W25N01GV};
use nandex_spi::{SpiNand, SpiPart};
use nandex_stacks::options::Settings;
use nandex_stacks::registry::{self, Open};
use std::collections::BTreeMap;

type Map = BTreeMap<u64, u64>;

/// Indexes of the firmware table, each with its options there.
const INDEXES: [(&str, &[(&str, &str)]); 7] = [
    ("mu", &[]),
    ("wandering", &[]),
    ("vmtree", &[]),
    ("plow", &[]),
    ("bplus", &[]),
    ("bplus", &[("ftl", "dftl")]),
    ("sbits", &[]),
];

/// The part with few blocks of few pages, for tests.
fn small(part: &SpiPart) -> SpiPart {
    SpiPart { pages_per_block: 16, blocks: 48, ..*part }
}

struct Stand<'a> {
    index: &'a str,
    settings: Settings,
    model: Model,
    part: SpiPart,
}

impl<'a> Stand<'a> {
    fn new(part: &SpiPart, index: &'a str, options: &[(&str, &str)]) -> Stand<'a> {
        let settings =
            Settings { durability: Durability::EveryOperation, ..Settings::new(RecordFormat::new(8, 8)) };
        let settings = options.iter().fold(settings, |settings, (name, value)| settings.with(name, value));
        Stand { index, settings, model: Model::new(part), part: *part }
    }

    fn open(&self, open: Open) -> Result<Box<dyn OrderedIndex>, IndexError> {
        let (bus, clock) = self.model.handles();
        let chip = SpiNand::with_part(bus, clock, self.part).unwrap();
        let entry = registry::index(self.index).unwrap();
        match open {
            Open::Format => (entry.format)(Box::new(chip), &self.settings),
            _ => (entry.mount)(Box::new(chip), &self.settings),
        }
    }

    /// Inserts and removes until the power is cut. Returns the acknowledged records, and the operation in
    /// flight.
    fn run(&self, tree: &mut dyn OrderedIndex, operations: u64) -> (Map, Option<(u64, Option<u64>)>) {
        let (mut held, mut rng) = (Map::new(), Rng::new(4));
        let ascends = !registry::index(self.index).unwrap().takes_any_key();
        for number in 0..operations {
            let key = if ascends { number } else { rng.below(operations) };
            let value = (ascends || !rng.below(4).is_multiple_of(4)).then_some(number);
            let outcome = match value {
                Some(value) => tree.insert(&key.to_be_bytes(), &value.to_be_bytes()).map(drop),
                None => tree.remove(&key.to_be_bytes()).map(drop),
            };
            match (outcome, value) {
                (Ok(()), Some(value)) => drop(held.insert(key, value)),
                (Ok(()), None) => drop(held.remove(&key)),
                (Err(error), _) => {
                    assert!(!self.model.is_powered(), "{}: {error}", self.index);
                    return (held, Some((key, value)));
                }
            }
        }
        (held, None)
    }

    fn contents(&self, tree: &mut dyn OrderedIndex) -> Map {
        let report = tree.check().unwrap();
        assert!(report.is_sound(), "{}: {:?}", self.index, report.violations);
        let mut found = Map::new();
        let number = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().unwrap());
        let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
        tree.range(all.0, all.1, nandex::ordered::Direction::Ascending, &mut |key, value| {
            found.insert(number(key), number(value));
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
        found
    }
}

/// Physical operations of a run without a cut: those of the format, and all of them.
fn rehearse(stand: &Stand<'_>, operations: u64) -> (u64, u64) {
    let mut tree = stand.open(Open::Format).unwrap();
    let formatted = stand.model.operations();
    let (held, cut) = stand.run(&mut *tree, operations);
    assert!(cut.is_none() && stand.contents(&mut *tree) == held, "{}", stand.index);
    (formatted, stand.model.operations())
}

#[test]
fn nothing_acknowledged_is_lost_at_any_of_many_cuts() {
    const OPERATIONS: u64 = 250;
    for (index, options) in INDEXES {
        let part = small(&W25N01GV);
        let (formatted, all) = rehearse(&Stand::new(&part, index, options), OPERATIONS);
        let step = ((all - formatted) / 150).max(1) as usize;
        for cut in (formatted..all).step_by(step) {
            let stand = Stand::new(&part, index, options);
            let mut tree = stand.open(Open::Format).unwrap();
            stand.model.cut_at(cut);
            let (mut held, in_flight) = stand.run(&mut *tree, OPERATIONS);
            drop(tree);
            stand.model.power_on();
            let mut tree =
                stand.open(Open::Mount).unwrap_or_else(|error| panic!("{index} cut {cut}: {error}"));
            let found = stand.contents(&mut *tree);
            if found != held
                && let Some((key, value)) = in_flight
            {
                match value {
                    Some(value) => drop(held.insert(key, value)),
                    None => drop(held.remove(&key)),
                }
            }
            assert!(found == held, "{index} {options:?}: not what was acknowledged after cut {cut}");
            // It goes on.
            tree.insert(&9_999u64.to_be_bytes(), &1u64.to_be_bytes()).unwrap();
        }
    }
}

#[test]
fn indexes_live_on_failing_cells() {
    for (index, options) in INDEXES {
        let stand = Stand::new(&small(&W25N01GV), index, options);
        for block in [5, 21] {
            stand.model.mark_in_factory(block);
        }
        let wrong_bits = (0..48 * 16).step_by(3).map(|page| (page, 1)).collect();
        let (failing_programs, failing_erases) = ([260, 417].into(), [30].into());
        stand.model.set_trouble(Trouble { failing_programs, failing_erases, wrong_bits });
        let mut tree = stand.open(Open::Format).unwrap();
        let (held, _) = stand.run(&mut *tree, 900);
        assert!(stand.contents(&mut *tree) == held, "{index}");
        drop(tree);
        let mut tree = stand.open(Open::Mount).unwrap();
        assert!(stand.contents(&mut *tree) == held, "{index}");
    }
}

/// One index on a part of every kind: other ECC, other spare bytes, planes, dies.
#[test]
fn a_tree_lives_on_every_part() {
    for part in PARTS {
        let stand = Stand::new(&small(part), "mu", &[]);
        let mut tree = stand.open(Open::Format).unwrap_or_else(|error| panic!("{}: {error}", part.name));
        let (held, _) = stand.run(&mut *tree, 300);
        drop(tree);
        let mut tree = stand.open(Open::Mount).unwrap();
        assert!(stand.contents(&mut *tree) == held, "{}", part.name);
    }
}
